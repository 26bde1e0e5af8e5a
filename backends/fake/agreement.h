// agreement.h - whether the calls of all classes meet: their logs are replayed by cells, each of
// which represents all of its ranks, so that mismatches and deadlocks are found without running
// ranks (B-5, B-6).
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "backends/fake/class_log.h"
#include "backends/fake/rank_grid.h"
#include "comm/verdict.h"

namespace shardlab::fake {

/// The result of a replay. All calls meet when there is neither a verdict nor a failed cell.
struct Agreement {
  std::optional<Verdict> verdict;
  /// Cells whose program failed on its own, with all calls before it met; in cell order.
  std::vector<std::size_t> failed_cells;
  /// Cells with an open log to which something has been sent, and by whom: of those that have sent
  /// when nobody comes further, the first by place in the group. While there are any nothing else
  /// is judged.
  std::map<std::size_t, std::int64_t> senders;
  /// The call in the log of each cell whose wait does not end, if there is a verdict.
  std::vector<std::optional<std::size_t>> stops;
};

/// `logs` by class; a cell's tag is its class. Verdicts of worlds of up to 4,096 ranks report on
/// every rank, as other backends do; of larger ones on the first rank of each cell, with the number
/// of ranks that it represents.
Agreement replay(const RankGrid& grid, std::span<const ClassLog* const> logs);

}  // namespace shardlab::fake
