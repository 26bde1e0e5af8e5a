// step_aliases.h - views that have memory of their own (a view of a dim that is cut may be a
// gathered copy), and writes to a base or view that the other one of the pair does not show. Used
// by one rank.
#pragma once

#include <optional>
#include <vector>

#include "base/rank_context.h"
#include "schema/call_record.h"
#include "sim/verify/step_verdict.h"

namespace shardlab {

/// Holds memory that it watches only as long as others do.
class TornAliases {
 public:
  /// After a call: notes results that are views of args[0] and hold other memory.
  void note(const CallRecord& call);
  /// After an in-place call on `written`: notes the bases and views that should show the write and
  /// do not.
  void written(const DTensor& written, const StepPlace& place);
  /// Before a call reads `x`: the write that `x` should show and does not. None while the statement
  /// that wrote still runs: it may yet carry the write over.
  std::optional<StepPlace> missed_by(const DTensor& x, const SourcePosition& now) const;
  /// Releases memory that only this object holds: it would count as the rank's. To be called before
  /// the rank allocates more.
  void let_go();

 private:
  struct Tear {
    Ref<Storage> base, view;
  };
  struct Miss {
    Ref<Storage> storage;
    std::uint64_t version;  // of the storage then: a later write to it ends the miss
    StepPlace write;
  };
  void missed(const Ref<Storage>& storage, const StepPlace& place);

  std::vector<Tear> tears_;
  std::vector<Miss> misses_;
};

}  // namespace shardlab
