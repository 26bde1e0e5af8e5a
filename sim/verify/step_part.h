// step_part.h - one call as its ranks had it: operands before, results after. Values are snapshots:
// later writes do not change them.
#pragma once

#include <optional>
#include <vector>

#include "comm/observer.h"
#include "schema/calls.h"
#include "sim/verify/step_verdict.h"

namespace shardlab {

struct OpRow;

/// A dispatched op, a change of placements that is not an op, or a collective of the program.
enum class PartKind : std::uint8_t { kOp, kPlaced, kCollective };

/// One rank's part.
struct StepPart {
  PartKind kind = PartKind::kOp;
  const OpRow* row = nullptr;    ///< kOp
  PlacedRecord::Kind placing{};  ///< kPlaced: from args[0] to results[0]
  CollectiveCall collective;     ///< kCollective; its tensors are in args and results
  Arguments args;                ///< of an op as its kernel took them: redistributed if needed
  Results results;               ///< in-place ops: the later values of the written tensors
  RandomState random;
  SourcePosition position;
  Pass pass = Pass::kForward;
  std::int64_t order = 0;
  std::optional<StepPlace> missed;  ///< an earlier write that an operand should show and does not
  bool unsettled = false;           ///< it holds pending values, which are not snapshots yet
};

/// A call put together from all ranks that took part: by row-major index in the mesh, or by rank of
/// the group.
struct Step {
  std::vector<std::int64_t> ranks;
  std::vector<StepPart> parts;
  const StepPart& first() const { return parts.front(); }
};

}  // namespace shardlab
