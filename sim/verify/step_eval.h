// step_eval.h - an op on plain tensors, for the judge: in its own dtype, in f64, on changed
// operands.
#pragma once

#include <vector>

#include "base/rank_context.h"
#include "sim/verify/step_part.h"

namespace shardlab {

/// Makes a rank of its own current, alone in the world and unobserved, while it lives.
class JudgeScope {
 public:
  JudgeScope(Device& device, Propagator& propagator);
  ~JudgeScope();
  JudgeScope(const JudgeScope&) = delete;
  JudgeScope& operator=(const JudgeScope&) = delete;

 private:
  RankContext context_;
  RankContext* previous_;
};

/// The kind of numbers of an evaluation.
enum class EvaluateIn : std::uint8_t {
  kOwn,       ///< the program's dtypes
  kWide,      ///< dtype arguments name f64 and c128
  kAbsolute,  ///< the same, and factors (alpha, beta) are absolute
};

/// The tensor results of `part`'s op, flattened, on `operands`: one per tensor slot of the schema's
/// arguments, lists flattened, undefined for None. For in-place and out= ops: the tensors written.
/// Needs a JudgeScope. Fails as the op does.
std::vector<Tensor> evaluate(const StepPart& part, const std::vector<Tensor>& operands,
                             EvaluateIn in);

}  // namespace shardlab
