// promise.h - the verdict on the steps of a program: on which transports it ends in every order of
// ranks, or why that cannot be promised.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/files/json.h"
#include "sim/prove/pipeline_schedule.h"

namespace shardlab {

/// A receive from any rank, or a question that depends on when others come.
struct OpenCondition {
  std::string name;  ///< "C1", "C2"
  std::string text;  ///< "train.toml:12: dist.recv names no sender"
};

/// The orders that were tried where a condition fails.
struct TriedOrders {
  std::int64_t runs = 0;
  std::int64_t leaves = 0;  ///< ways in which receives from any rank were met
  bool all = true;          ///< of these
  double bound = 0;         ///< PCT: a hang by one change of order is met in a run with this chance
};

struct Promise {
  enum class Kind : std::uint8_t { kFree, kHangs, kWrongDelivery, kNotGiven, kRefused };

  std::string file;
  std::vector<Transport> asked;
  RankSteps steps;
  std::map<Transport, StepsOutcome> outcomes;  ///< empty if nothing could be run
  std::optional<std::int64_t> buffers;         ///< as least_buffers()
  std::vector<RefusedAction> refused;
  std::vector<WrongMessage> wrong;
  std::vector<std::int64_t> live;  ///< of a pipeline schedule, as CheckedSchedule
  std::vector<OpenCondition> open;
  std::optional<TriedOrders> tried;
  bool of_schedule = false;

  /// Runs the steps on all transports.
  void run(bool lazy_groups);
  using MeetOnce = std::function<MetRun(Transport transport, std::vector<std::size_t> way)>;
  /// Every way in which receives from any rank can be met, depth first; at most so many on each of
  /// the transports without queues.
  void meet(std::int64_t most, const MeetOnce& run);
  /// Adds a run that was tried. One that hangs explains itself: the first one's steps are kept.
  void add_tried(Transport transport, StepsOutcome outcome, RankSteps ran);
  Kind kind() const;
  bool asks(Transport transport) const;
  /// The first one asked for that hangs; none: they all end.
  std::optional<Transport> hangs() const;
  /// "free of deadlock in every order ...": the first line.
  std::string headline() const;
  /// At most 12 lines.
  std::string text() const;
  Json json() const;
};

/// Those that are asked for if nobody asks for others.
inline const std::vector<Transport> kUsualTransports = {
    Transport::kNonblocking, Transport::kPairQueue, Transport::kGroupQueue};

/// The promise of a pipeline schedule.
Promise promise_of(const std::string& csv, Receives receives, bool lazy_groups);

}  // namespace shardlab
