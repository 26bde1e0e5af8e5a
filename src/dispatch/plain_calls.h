// plain_calls.h - calls without a tape: where it is decided what becomes of a call. The tape
// (autograd/recording.cpp) asks the same function.
#pragma once

#include "schema/op_row.h"

namespace shardlab {

/// Whether a call is taken apart: a composite op, unless it has a rule of its own that takes the
/// call (D-2, D-19). Everything else is dispatched.
bool taken_apart(const OpRow& row, const Arguments& args);
/// A composite op, in terms of others.
Results through_parts(Calls& calls, const OpRow& row, const Arguments& args);
/// The same. Errors inside name the op that failed; the call is added.
Results decomposed(Calls& calls, const OpRow& row, const Arguments& args);

/// Calls of ops, unrecorded. Stateless: state lives in handles and in the rank's context, so one
/// object serves all ranks.
class PlainCalls : public Calls {
 public:
  Results call(const OpRow& row, const Arguments& args) override;
  const OpRow& find(std::string_view name) const override;
  DTensor redistribute(const DTensor& x, const Placements& placements) override;
};
/// What gradients, handlers and local programs, which have plain tensors, are run with.
Calls& plain_calls();

}  // namespace shardlab
