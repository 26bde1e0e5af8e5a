// meeting.h - one collective of one group as far as its ranks have entered: whether they can meet,
// which differ, and the verdict about it (B-5).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/shared/call.h"
#include "backends/shared/waits.h"
#include "comm/verdict.h"

namespace shardlab::backends {

/// Points to data that its maker holds. A meeting of a message is between two: sender and receiver.
struct Meeting {
  std::span<const std::int64_t> ranks;  ///< global, in group order
  std::string_view group;
  std::uint64_t sequence;              ///< of the call on the group
  std::span<const Call* const> calls;  ///< by group rank; null: has not entered
};

/// True when the calls that were entered already cannot meet.
bool torn(const Meeting& meeting);
/// Global ranks that differ from the majority, ascending; all that have entered when there is none.
/// If calls agree but do not fit in pairs: the ranks in most of the pairs that do not.
std::vector<std::int64_t> odd_ones(const Meeting& meeting);
/// The error: "the ranks of group x entered all_reduce with different dtypes".
std::string cause_of(const Meeting& meeting);
/// The verdict on calls that cannot meet, with the state of ranks that is known.
Verdict mismatch_so_far(const Meeting& meeting, std::vector<RankReport> reports = {});
/// Adds to `report` the action of the rank that made `call` and the ranks it waits for.
void describe(const Meeting& meeting, const Call& call, RankReport& report);
/// The same of a rank that receives from any other one of the group.
void describe_any(std::span<const std::int64_t> ranks, std::string_view group, const Call& call,
                  RankReport& report);
/// These ranks failed, the first with this cause.
Verdict verdict_on_failed(std::vector<std::int64_t> ranks, std::string cause);
/// The error of a result that was not waited for before its world ended.
Error pending_at_the_end();
/// All ranks have entered, and their calls do not fit together.
Verdict mismatch(const Meeting& meeting);

}  // namespace shardlab::backends
