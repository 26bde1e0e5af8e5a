// step_reader.h - listens to the calls of one rank and hands each, with operands and results, to a
// judge. Used by its rank only.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "comm/forwarding_observer.h"
#include "sim/verify/step_aliases.h"
#include "sim/verify/step_part.h"

namespace shardlab {

/// The identity of a call: the n-th on a mesh or in a group. The same on every rank that takes
/// part, as long as the ranks of a mesh make the same calls.
struct StepKey {
  const MeshLayout* layout = nullptr;  ///< null: a group
  std::vector<std::int64_t> group;     ///< its ranks
  std::int64_t number = 0;
  auto operator<=>(const StepKey&) const = default;
};
/// `index`: of the rank in the mesh or the group.
using TakePart = std::function<void(const StepKey& key, std::size_t index, StepPart&& part)>;

/// Placed before another observer.
class StepReader : public ForwardingObserver {
 public:
  /// `next` may be null.
  StepReader(std::int64_t rank, Observer* next, TakePart take);

  /// At the end of the program: hands over the pending steps.
  void finish();
  /// The place at which the program first left the distributed world; `position` as it was.
  const std::optional<StepPart>& left() const { return left_; }

  void call_begins(const CallRecord& call) override;
  void call_ends(const CallRecord& call) override;
  void call_fails() override;
  void placed(const PlacedRecord& record) override;
  void collective_ends(const CollectiveCall& call) override;
  void redistribution(const RedistributionRecord& record) override;
  void collective(const CollectiveRecord& record) override;

 private:
  // A value by its handle, which may be gone by now. `value` keeps the memory from being used by
  // another one, and counts nowhere.
  struct Made {
    const DTensorImpl* handle = nullptr;
    DTensor value;
  };
  // An op that runs. `layout` is null for one on plain tensors alone.
  struct Frame {
    const MeshLayout* layout = nullptr;
    std::optional<StepPart> part;  // if there is a layout
    std::vector<DTensor> written;  // as the program holds them
    std::vector<Made> inner;       // results of calls inside of a user's handler
  };
  struct Delivery {
    StepKey key;
    std::size_t index;
    StepPart part;
  };

  StepPart new_part(PartKind kind);
  void note_writes(const Frame& frame);
  /// A step inside of a user's handler has made it.
  void note_inner(const DTensor& made);
  /// Whether each of the results came from a call inside.
  static bool made_inside(const Frame& frame, const Results& results);
  void deliver(const MeshLayout* layout, StepPart&& part);
  void hand_over(const StepKey& key, std::size_t index, StepPart&& part);
  void flush();
  /// Drops values that only the judge still holds, before the rank takes more memory.
  void let_go();

  std::int64_t rank_;
  TakePart take_;
  std::vector<Frame> frames_;
  std::map<StepKey, std::int64_t> numbers_;  // of the next call, by key with number 0
  std::deque<Delivery> waiting_;             // results that a collective has yet to bring
  TornAliases aliases_;
  std::optional<StepPart> left_;
  std::int64_t order_ = 0;
  bool moving_ = false;  // inside a redistribution
};

}  // namespace shardlab
