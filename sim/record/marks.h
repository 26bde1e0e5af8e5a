// marks.h - which values must agree with the single-device run bit for bit, and which have nothing
// there to agree with (V-4).
#pragma once

#include <vector>

#include "comm/forwarding_observer.h"

namespace shardlab {

/// Computed by movement and elementwise ops alone, from values that were: its bits are the same
/// however it is cut. So are those of integers that were added up. True of what no observer marked.
bool is_exact(const DTensor& x);
/// A plain tensor that holds one rank's piece or term, or what was made of one.
bool is_rank_local(const DTensor& x);

/// Marks the values of one rank while it runs, in DTensorImpl::note, and passes everything on.
/// Where a value is only observed from a point on, all that was made before counts as exact. Used
/// by its rank.
class Marks final : public ForwardingObserver {
 public:
  /// `next` outlives this one; may be null.
  explicit Marks(Observer* next) : ForwardingObserver(next) {}

  void call_begins(const CallRecord& call) override;
  void call_ends(const CallRecord& call) override;
  void call_fails() override;
  void placed(const PlacedRecord& record) override;

 private:
  /// Of each op that runs: whether an operand was added up on the way to its placement.
  std::vector<bool> added_up_;
};

}  // namespace shardlab
