// plain_calls.h - calls without a tape, and the decision how a call runs. Calls with one
// (autograd/recording.cpp) only differ in the action that follows the decision.
#pragma once

#include "schema/calls.h"

namespace shardlab {

struct OpRow;

/// A composite op, in terms of others. Errors inside name the op that failed; the call is added.
Results decomposed(Calls& calls, const OpRow& row, const Arguments& args);

/// Calls of ops, unrecorded. Stateless: state lives in handles and in the rank's context, so one
/// object serves all ranks.
class PlainCalls : public Calls {
 public:
  /// A composite op is taken apart, unless it has a rule of its own that takes the call (D-2,
  /// D-19). Everything else is dispatched.
  Results call(const OpRow& row, const Arguments& args) final;
  const OpRow& find(std::string_view name) const final;
  DTensor redistribute(const DTensor& x, const Placements& placements) final;

 protected:
  virtual Results in_parts(const OpRow& row, const Arguments& args);
  virtual Results as_one(const OpRow& row, const Arguments& args);
  /// `x` with the placements of `want`; the caller has checked that the rank allows it.
  virtual DTensor moved(const DTensor& x, const DTensorSpec* want);
};
/// The calls of gradients, handlers and local programs, which have plain tensors.
Calls& plain_calls();

}  // namespace shardlab
