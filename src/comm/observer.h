// observer.h - the actions of a rank, reported as they happen. An observer must not change results
// (D-35). One per rank, called on that rank. Set in RankContext::observer together with
// kModeObserve.
#pragma once

#include <string>
#include <vector>

#include "comm/process_group.h"
#include "mesh/dtensor.h"

namespace shardlab {

struct CallRecord;  // schema/call_record.h
struct OpSchema;
struct OutputSharding;
struct Plan;

/// One executed redistribution (X-9: the executor owns the record, the dispatcher adds the
/// argument).
struct RedistributionRecord {
  // Specs live as long as their arena; the plan may be freed after the call.
  const DTensorSpec* source = nullptr;
  const DTensorSpec* target = nullptr;
  const Plan* plan = nullptr;
  int argument = -1;  ///< tensor argument of the op that needed it; -1: the program requested it
  bool backward = false;
  SourcePosition position;
};

/// A value that got new placements, or lost or got a spec, by something that is not an op.
struct PlacedRecord {
  enum class Kind : std::uint8_t {
    kRedistribute,
    kDistribute,  ///< from a whole plain value
    kFromLocal,   ///< from this rank's piece or term
    kToLocal,     ///< to this rank's piece or term
    kCollected,   ///< by a collective of the program, of local tensors
  };
  Kind kind = Kind::kRedistribute;
  /// Either may be plain: a distributed value was plain before, and to_local gives a plain tensor.
  DTensor from, to;
  int argument = -1;  ///< tensor argument of the op that needed it; -1: none
};

/// A collective with its input and result on this rank. Results may still be pending.
struct CollectiveCall {
  // Dims are tensor dims and count from 0; lengths are in elements, one per group rank.
  CollectiveKind kind = CollectiveKind::kBarrier;
  ProcessGroup* group = nullptr;
  ReduceOp op = ReduceOp::kSum;
  std::int64_t dim = 0;                     ///< of pieces that are put together or dealt out
  std::int64_t split_dim = 0;               ///< all_to_all: that is cut
  std::vector<std::int64_t> split_lengths;  ///< all_to_all: of the parts for each rank
  std::int64_t source = 0;                  ///< broadcast, scatter; reduce, gather: destination;
                                            ///< a message: the other rank
  Tensor input, result;                     ///< undefined where this rank brings or gets none
};

/// An observer overrides only the functions that it needs. Arguments are valid during the call
/// only.
class Observer {
 public:
  virtual ~Observer() = default;
  /// Every op that is dispatched, on plain and on distributed tensors, and every factory: before it
  /// reads its operands, and once it has results. Calls nest; each begins, then ends or fails.
  virtual void call_begins(const CallRecord& call) { static_cast<void>(call); }
  virtual void call_ends(const CallRecord& call) { static_cast<void>(call); }
  virtual void call_fails() {}
  virtual void placed(const PlacedRecord& record) { static_cast<void>(record); }
  /// After every collective() whose result is a tensor, but a permute.
  virtual void collective_ends(const CollectiveCall& call) { static_cast<void>(call); }
  /// Backward: the gradient of the node with this number runs (autograd/grad_node.h). All calls
  /// until gradient_ends belong to it; they nest where the gradient of a composite is that of its
  /// parts. One that fails does not end.
  virtual void gradient_begins(std::uint64_t sequence) { static_cast<void>(sequence); }
  virtual void gradient_ends() {}
  /// Backward has added to the gradient of a leaf.
  virtual void leaf_written(const DTensor& leaf) { static_cast<void>(leaf); }
  /// A dispatched op with at least one DTensor: given specs and the decision. All calls until
  /// op_ends belong to it; calls nest.
  virtual void op_begins(const OpSchema& schema, const OutputSharding& sharding) = 0;
  /// Also called when the op fails.
  virtual void op_ends() = 0;
  /// Before the first step of a plan runs, also where all steps are local.
  virtual void redistribution(const RedistributionRecord& record) = 0;
  /// When the rank enters a collective of a group of two or more (B-12).
  virtual void collective(const CollectiveRecord& record) = 0;
  /// When the rank needs the result of an asynchronous collective (K-20): the record that
  /// collective() was given, once. One that is not asynchronous is entered and waited for at once.
  virtual void collective_waits(const CollectiveRecord& record) { static_cast<void>(record); }
  /// A message for the user that is not an error (D-56).
  virtual void warning(const std::string& text) { static_cast<void>(text); }
};

/// While one lives, the running rank's actions are reported to its observer.
class ObserverScope {
 public:
  explicit ObserverScope(Observer& observer)
      : rank_(current_rank()), before_(rank_.observer), mode_(rank_.mode) {
    rank_.observer = &observer;
    rank_.mode |= kModeObserve;
  }
  ~ObserverScope() {
    rank_.observer = before_;
    rank_.mode = (rank_.mode & ~kBit) | (mode_ & kBit);
  }
  ObserverScope& operator=(ObserverScope&&) = delete;

 private:
  // The mode from before is put back on the rank where the scope began, so that scopes nest.
  static constexpr std::uint32_t kBit = kModeObserve;
  RankContext& rank_;
  Observer* before_;
  std::uint32_t mode_;
};

/// The running rank's observer if it is to be called, or null.
inline Observer* observer_to_tell() {
  const RankContext& rank = current_rank();
  return (rank.mode & kModeObserve) != 0 ? rank.observer : nullptr;
}

/// Calls the running rank's observer, if there is one.
inline void report_placed(PlacedRecord::Kind kind, const DTensor& from, const DTensor& to,
                          int argument = -1) {
  Observer* const observer = observer_to_tell();
  if (observer == nullptr) return;
  observer->placed({.kind = kind, .from = from, .to = to, .argument = argument});
}

}  // namespace shardlab
