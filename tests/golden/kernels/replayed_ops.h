// replayed_ops.h - which recorded ops are replayed: functional overload -> kernel and parameters.
#pragma once

#include <span>

#include "kernels/kernel_id.h"

namespace shardlab {

struct ReplayedOp {
  const char* name;  ///< without "aten."
  KernelId kernel;
  const char* parameters;  ///< in schema order, with defaults: "self other alpha=1"
};

std::span<const ReplayedOp> replayed_ops();

}  // namespace shardlab
