// exchanged.h - a step of which ranks have each other's results: a collective of another group,
// from another rank or left out, pieces in another order, a part of another rank. The ranks' own
// numbers are tried in other places, without what one device has of the step. Private to the files
// that verify.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "mesh/mesh_layout.h"
#include "sim/scenario/cause.h"
#include "sim/verify/labels/call_log.h"

namespace shardlab {

/// The steps of all ranks, those of them from which a wrong value is made, by line and column, and
/// a run with some results changed: whether the value is right then.
struct ExchangedSteps {
  const CallLog& log;
  const MeshLayout& layout;
  const std::set<std::pair<int, int>>& path;
  std::function<bool(const std::vector<ChangedResult>&)> mends;
};

/// The one step, in all passes of a loop, with which the value is right if ranks exchange or reduce
/// its results in another way; nothing if there is none.
std::optional<Cause> cause_by_exchange(const ExchangedSteps& of);

}  // namespace shardlab
