// The headers of src/base/precompiled.h, and Eigen, which all kernels include through
// kernels/element_types.h. Every file still includes what it uses. No `#pragma once`: it is
// compiled by itself.
#include "base/precompiled.h"
#include "kernels/eigen_core.h"
