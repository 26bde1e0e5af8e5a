// claim.h - a type that a program says a plain tensor has, to be judged by the values of its ranks.
#pragma once

#include <string>

#include "sim/types/spmd_type.h"

namespace shardlab {

/// One claim; equal on all ranks of a program that does not depend on the rank.
struct SpmdClaim {
  std::string subject;  ///< the text of the tensor: "x", "f(x)"
  TensorType type;
  const MeshLayout* mesh = nullptr;
  bool gradient = false;  ///< of the gradient that comes to the subject, which has its own type
};

}  // namespace shardlab
