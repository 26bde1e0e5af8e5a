// eigen_core.h - the settings of Eigen for all kernels.
#pragma once

namespace shardlab {
/// Fails with Internal, naming the condition of Eigen on its operands.
[[noreturn]] void eigen_refused(const char* condition);
}  // namespace shardlab

// Eigen takes blocks of up to 128 KiB each from the stack; ranks run on fibers with small stacks.
#define EIGEN_STACK_ALLOCATION_LIMIT 16384
// An operand that no kernel may get is a defect that is reported, in every build, and not an end of
// the process: rows' metadata refuses such operands before (dispatch/local_call.h).
#define eigen_assert(condition) \
  ((condition) ? static_cast<void>(0) : ::shardlab::eigen_refused(#condition))
#include <Eigen/Core>
