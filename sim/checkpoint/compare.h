// compare.h - two checkpoints, tensor by tensor: which are equal, and which mistake makes the
// others of B from those of A.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/checkpoint/explain.h"
#include "sim/checkpoint/lone_tensors.h"

namespace shardlab {

/// A tensor of both that is not equal bit for bit.
struct TensorDifference {
  std::string name, a, b;        ///< the name, and the type in A and in B
  DifferenceCounts counts = {};  ///< of tensors of one shape
  std::string wrong = {};        ///< if no mistake gives all of it: indices of dim 0 that differ
  std::optional<CheckpointMistake> mistake = {};
  bool tried = false;  ///< the mistake's edits were applied to B, and gave A
};

struct CheckpointComparison {
  std::int64_t equal = 0, equal_bytes = 0;
  std::vector<TensorDifference> differences;
  std::vector<LoneTensor> lone;
  std::vector<std::string>
      others;                 ///< other differences, and tensors that are not read, a line each
  std::vector<Edit> repairs;  ///< by which B becomes A, in their order
  bool mended = false;        ///< all of them were applied to B, and gave A
  bool ok() const { return differences.empty() && lone.empty() && others.empty(); }
};

/// At most two tensors are in memory, and 64 MiB. Tensors without a function for their elements are
/// compared by name and type. `progress`: bytes that were compared, of all.
///   fails  Value: elements that cannot be read
CheckpointComparison compare(const MadeTensors& a, const MadeTensors& b,
                             const std::function<void(std::int64_t, std::int64_t)>& progress);

}  // namespace shardlab
