// What src/base/precompiled.h has, and Eigen besides, which all kernels reach through
// kernels/element_types.h. Every file still includes what it uses. No `#pragma once`: it is
// compiled by itself.
#include "base/precompiled.h"
#include "kernels/eigen_core.h"
