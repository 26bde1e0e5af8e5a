// trace.h - the record of one rank, in order: ops with their decisions, redistributions,
// collectives. Filled by an observer while the rank runs; read afterwards by reports.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/observer.h"
#include "plan/plan.h"
#include "schema/op_schema.h"
#include "schema/op_strategy.h"
#include "sim/log/progress.h"

namespace shardlab {

/// An op on this rank's plain tensors alone: pieces that left the distributed world, or tensors
/// that never were in it.
struct LocalOp {
  const OpRow* row = nullptr;
  std::vector<TensorMeta> inputs, outputs;  ///< of its tensors, lists flattened
};

/// One thing that happened on a rank. The fields of its kind are filled in, the others keep their
/// defaults.
struct TraceEvent {
  enum class Kind : std::uint8_t { kOp, kLocal, kRedistribution, kCollective, kWait };
  Kind kind = Kind::kOp;
  int depth = 0;  ///< ops and redistributions that this one happened inside of
  Pass pass = Pass::kForward;
  SourcePosition position;
  // kOp
  OpSchema schema;
  std::shared_ptr<const OutputSharding> decision;  ///< a copy: handlers make theirs per call
  // kLocal
  std::shared_ptr<const LocalOp> local;
  // kRedistribution
  RedistributionRecord redistribution;
  std::shared_ptr<const Plan> plan;  ///< a copy, the record's: a cache may free the original
  // kCollective; kWait: of the collective that is waited for, pass and place as it was entered
  CollectiveRecord collective;
  bool completed = true;  ///< kCollective: false if the rank failed inside of it, and sent nothing
};

/// The counts of one rank, without its events. Kept by every rank; the full list of events only by
/// the one that reports.
struct CollectiveCounts {
  // Calls by kind: one for each collective that the rank entered on a group of two or more
  // (B-12).
  std::array<std::int64_t, kCollectiveKinds> forward{};
  std::array<std::int64_t, kCollectiveKinds> backward{};
  double forward_bytes = 0;  ///< the bytes that a ring would send from this rank
  double backward_bytes = 0;
  /// A digest of the ops on distributed tensors, in order: equal for ranks with the same calls. 0
  /// without any, and of ranks of other processes.
  std::uint64_t calls = 0;
  std::int64_t from_any = 0;  ///< receives that name no sender
  std::int64_t total(CollectiveKind kind) const {
    const auto index = static_cast<std::size_t>(kind);
    return forward[index] + backward[index];
  }
  double bytes() const { return forward_bytes + backward_bytes; }
};

/// Counts alone, or every event too.
enum class TraceDetail : std::uint8_t { kCounts, kEvents };

/// Observes one rank. Events are copies and outlive caches. Used by that rank, then by one thread.
class Trace : public Observer {
 public:
  explicit Trace(TraceDetail detail) : detail_(detail) {}

  /// From now on `progress`, which outlives the trace's rank, learns of each call. May be null.
  void tell(Progress* progress) { progress_ = progress; }

  /// All events in order; empty if only counts are kept.
  // To be read once the rank has ended.
  const std::vector<TraceEvent>& events() const { return events_; }
  /// The same, which are then no longer here.
  std::vector<TraceEvent> take_events() { return std::move(events_); }
  const CollectiveCounts& counts() const { return counts_; }
  /// Redistributions that an op asked for and that communicate (`implicit = "warn"`).
  std::int64_t implicit_count() const { return implicit_count_; }
  /// Each once, in order of appearance.
  const std::vector<std::string>& warnings() const { return warnings_; }

  /// The rank has failed: a collective that it is in never completes.
  void ends_early();
  /// The counts of a rank in another process.
  void adopt(const CollectiveCounts& counts, std::int64_t implicit_count) {
    counts_ = counts;
    implicit_count_ = implicit_count;
  }

  // The rank's events are reported through these; only the runtime calls them.
  void call_begins(const CallRecord& call) override;
  void call_ends(const CallRecord& call) override;
  void call_fails() override { --calls_; }
  void op_begins(const OpSchema& schema, const OutputSharding& sharding) override;
  void op_ends() override { --depth_; }
  void redistribution(const RedistributionRecord& record) override;
  void collective(const CollectiveRecord& record) override;
  void collective_ends(const CollectiveCall& call) override;
  void collective_waits(const CollectiveRecord& record) override;
  void warning(const std::string& text) override;

 private:
  // With depth, pass and place as they are now.
  TraceEvent& add(TraceEvent::Kind kind);

  // Counts are kept at either detail; events take memory in proportion to the calls of the program.
  TraceDetail detail_;
  Progress* progress_ = nullptr;
  std::vector<TraceEvent> events_;
  CollectiveCounts counts_;
  // The collective that the rank is in.
  struct Entered {
    double bytes = 0;
    Pass pass = Pass::kForward;
    std::size_t event = 0;  ///< after the last one if only counts are kept
  };
  std::optional<Entered> entered_;
  std::int64_t implicit_count_ = 0;
  std::vector<std::string> warnings_;
  int depth_ = 0;
  int calls_ = 0;  ///< running now, on plain and on distributed tensors
};

/// The number of the plan's steps that move bytes, on a mesh dim longer than 1.
int moving_steps(const Plan& plan);
inline bool communicates(const Plan& plan) { return moving_steps(plan) > 0; }

}  // namespace shardlab
