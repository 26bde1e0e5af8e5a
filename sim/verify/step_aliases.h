// step_aliases.h - views that hold memory of their own, as one of a dim that is cut does, and
// writes that the other side of such a pair has missed. Used by one rank.
#pragma once

#include <optional>
#include <vector>

#include "base/rank_context.h"
#include "schema/call_record.h"
#include "sim/verify/step_verdict.h"

namespace shardlab {

class TornAliases {
 public:
  /// After a call: notes results that are views of args[0] and hold other memory.
  void note(const CallRecord& call);
  /// After an in-place call on `written`: who should have seen it and has not.
  void written(const DTensor& written, const StepPlace& place);
  /// Before a call reads `x`: the write that it should show and does not, unless what runs now is
  /// still the statement that wrote, which may yet carry the write over.
  std::optional<StepPlace> missed_by(const DTensor& x, const SourcePosition& now) const;
  /// Lets go of memory that nobody else holds: it would count as the rank's. To be called before
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
