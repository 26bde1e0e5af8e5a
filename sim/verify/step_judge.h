// step_judge.h - judges one call: its global result against the op on its own global operands.
#pragma once

#include <string>

#include "base/rank_context.h"
#include "sim/verify/step_part.h"
#include "sim/verify/step_verdict.h"

namespace shardlab {

class Propagator;

/// The finding about one call.
struct StepFinding {
  enum class Kind : std::uint8_t { kBitwise, kBounded, kUndecided, kWrong, kSkipped };
  Kind kind = Kind::kBitwise;
  std::string reason;                   ///< kSkipped
  std::int64_t undecided_elements = 0;  ///< kUndecided
  WrongStep wrong;                      ///< kWrong; without `place`
  bool makes_non_finite = false;        ///< a NaN or inf in a result, none in any operand
};

/// The finding of a call that cannot be judged; the reasons are counted in reports.
StepFinding skipped(std::string reason);
StepFinding wrong(WrongStep found);
/// Ranks that should hold the same do not; `fault` has the ranks and the place.
WrongStep unequal(const std::string& fault);

/// Runs ops on `device`, on plain tensors, in a context of its own: the state of the running rank
/// does not change. Thread-safe as far as the device is.
StepFinding judge_step(const Step& step, Device& device, Propagator& propagator);
/// Types of the operands as held; also when the call could not be judged.
StepPlace place_of(const Step& step);

}  // namespace shardlab
