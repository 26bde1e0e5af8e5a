// steps.h - a program as the steps of its ranks, and its run on a transport. A run does not depend
// on the order of ranks: if every receive names its sender, each order ends in the same state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/shared/traffic.h"

namespace shardlab {

/// A rank takes its steps one after the other: it waits for what a step needs, then posts.
struct RankStep {
  std::vector<std::int32_t> needs;  ///< earlier steps of the rank: all that they posted
  std::vector<Operation> posts;     ///< several: a batch
  std::vector<std::string> labels;  ///< of them: "F2 of stage 1"; empty where not known
  /// The host waits for its device: for all that was posted, where the device has queues.
  bool synchronizes = false;
  bool any = false;        ///< a receive from any rank; its peer is the one that was met
  std::string text;        ///< in reports: "0SEND_F1 -> 1"
  std::int32_t place = 0;  ///< in the rank's program
};

struct RankSteps {
  std::vector<std::vector<std::int64_t>> groups;  ///< ranks, by the number in operations
  std::vector<std::vector<RankStep>> ranks;
  bool cut_short = false;  ///< the run ended where ranks waited: not all of their steps are known

  const RankStep& at(std::int32_t rank, std::int32_t step) const {
    return ranks[static_cast<std::size_t>(rank)][static_cast<std::size_t>(step)];
  }
};

struct StepTransport {
  Transport transport = Transport::kNonblocking;
  std::int64_t buffers = 0;  ///< of each channel; of transports without queues
  bool lazy_groups = false;  ///< communicators are made at first use
};

/// A rank that never gets past a step.
struct StuckRank {
  std::int32_t rank = 0;
  std::int32_t step = 0;
  Operation waits_for;
};

/// One link of the chain of causes: on `rank` one step is before another one, which others need.
struct WaitLink {
  std::int32_t rank = 0;
  std::int32_t step = 0;     ///< in a queue, or where the rank waits; -1: the rank has ended
  std::int32_t before = -1;  ///< -1: never comes
  bool in_queue = false;
  bool creates = false;  ///< another one of the group makes its communicator
  bool begins = false;   ///< the rank only waits there, for the next one of the chain
  Operation missing;     ///< if it never comes
};

struct StepsOutcome {
  std::vector<StuckRank> stuck;  ///< by rank; empty: the program ends
  std::vector<WaitLink> chain;   ///< a circle, or the way to a rank that will not come
  bool ends() const { return stuck.empty(); }
};

/// A receive that gets a message of another label.
struct WrongMessage {
  std::int32_t from = 0, to = 0;
  std::int64_t place = 0;  ///< of messages from one rank to the other, from 0
  std::string sent, received;
};
/// The same in every run.
std::vector<WrongMessage> wrong_messages(const RankSteps& program);

StepsOutcome run_steps(const RankSteps& program, const StepTransport& options);

/// A run in which receives from any rank wait until no rank can go on; then one of them takes a
/// message.
struct MetRun {
  std::vector<std::size_t> ways, way;  ///< the number of ways, each time, and the way that is taken
  std::vector<std::pair<std::int32_t, std::int32_t>> met = {};  ///< receivers with their senders
  RankSteps steps = {};                                         ///< with these senders
  StepsOutcome outcome = {};
};
/// `way`: the first choices; behind them the first way is taken.
MetRun meet_steps(RankSteps program, const StepTransport& options, std::vector<std::size_t> way);
/// The least number of buffered messages of each channel with which the program ends in kBlocking;
/// empty if no number is enough.
std::optional<std::int64_t> least_buffers(const RankSteps& program);

}  // namespace shardlab
