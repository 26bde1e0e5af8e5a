// referee.h - rank 0's view of the calls of all ranks of a run: whether the calls of a group fit
// together, and whether any rank can still advance (B-5, B-6). The same verdicts, in the same
// words, as where ranks share memory. Receives a rank's steps in their order.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/process/entered_call.h"
#include "backends/shared/meeting.h"
#include "comm/verdict.h"

namespace shardlab::process {

/// The state of one run, kept by rank 0's channel under its lock.
class Referee {
 public:
  explicit Referee(std::int64_t ranks);

  /// The consequences of a step. None, while ranks are still to enter.
  struct Ruling {
    std::optional<CallPlace> met;     ///< all of the group have entered, and their calls fit
    std::vector<std::int64_t> ranks;  ///< of that group
    /// The last of them has received from any: the place that it gets instead of `met`.
    std::optional<CallPlace> met_any;
    std::optional<Verdict> verdict;  ///< the run cannot continue
  };
  /// A rank enters its part of a collective.
  Ruling enter(std::int64_t rank, const Entrance& entrance, std::unique_ptr<EnteredCall> call);
  /// A rank waits for a call that it has entered before.
  Ruling wait(std::int64_t rank, CallPlace place);
  /// A rank enters nothing more.
  Ruling end(std::int64_t rank);

 private:
  struct Round {
    std::uint64_t opened = 0;  ///< its number in the run, in order of opening
    std::string group;
    std::vector<std::int64_t> ranks;
    std::vector<std::unique_ptr<EnteredCall>> entered;  ///< by group rank
    std::vector<backends::Call*> calls;                 ///< the same; null: has not entered
    std::size_t arrived = 0;
  };
  struct Seat {
    RankReport::State state = RankReport::State::kRuns;
    CallPlace place;  ///< of its wait
  };
  /// A receive from any whose message has not been sent.
  struct AnyWait {
    Entrance entrance;
    std::unique_ptr<EnteredCall> call;
  };
  using Place = std::pair<CallPlace, std::int64_t>;

  Ruling enter_any(std::int64_t rank, const Entrance& entrance, std::unique_ptr<EnteredCall> call);
  /// The message that this rank waits for in a receive from any has been sent: the two meet.
  Ruling meet_any(std::int64_t rank, const Place& sent);

  backends::Meeting meeting(CallPlace place, const Round& round) const {
    return {round.ranks, round.group, place.sequence, round.calls};
  }
  Ruling look_for_stall() const;
  /// The open round that `rank` entered there; null: it is over.
  const Round* round_at(std::int64_t rank, CallPlace place) const;
  RankReport report_on(std::int64_t rank) const;

  std::vector<Seat> seats_;  ///< by rank
  /// Keyed by place and first rank, which separates groups that have no rank in common.
  std::map<Place, Round> rounds_;
  std::map<std::int64_t, AnyWait> anys_;  ///< by rank
  std::uint64_t opened_ = 0;              ///< rounds
};

}  // namespace shardlab::process
