// eigen_core.h - Eigen as all kernels know it.
#pragma once

// Eigen takes blocks of up to 128 KiB each from the stack; ranks run on fibers with small stacks.
#define EIGEN_STACK_ALLOCATION_LIMIT 16384
#include <Eigen/Core>
