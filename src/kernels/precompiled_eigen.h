// What src/base/precompiled.h has, and Eigen besides, which all kernels reach through
// kernels/element_types.h. Every file still includes what it uses. No `#pragma once`: it is
// compiled by itself.
#define EIGEN_STACK_ALLOCATION_LIMIT 16384  // as kernels/eigen_multiply.h says it, with its reason
#include <Eigen/Core>

#include "base/precompiled.h"
