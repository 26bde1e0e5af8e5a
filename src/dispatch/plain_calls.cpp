// The one place that decides how a call runs: taken apart, or dispatched. For a rule that is asked
// first the dispatcher finds the decision again in the cache.
#include "dispatch/plain_calls.h"

#include "base/rank_context.h"
#include "dispatch/dispatcher.h"
#include "dispatch/prepare.h"
#include "dispatch/unwrap.h"
#include "ops/core/derived.h"
#include "propagate/propagator.h"
#include "redistribute/redistribute.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"

namespace shardlab {

namespace {

// A user's rule for a composite op has priority over its parts (D-2). Null: the rule does not take
// this call (D-19).
InUse<OutputSharding> rule_decision(const Unwrapped& call) {
  if (!call.distributed) return {};
  try {
    return current_rank().propagator->propagate(call.schema);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUnsupported) throw;
    return {};
  }
}

// Whether the parts draw numbers: always, or with a share to drop, for which ATen has one word.
bool draws(const OpRow& row, const Arguments& args) {
  if (row.has(kRandom)) return true;
  const auto share = row.op.find_argument("dropout_p");
  return share && args[*share].to_double() > 0;
}

// Whether a call is taken apart: a composite op, unless it has a rule of its own that takes the
// call and it draws no numbers. Everything else is dispatched.
bool taken_apart(const OpRow& row, const Arguments& args) {
  if (std::holds_alternative<PartsFn>(row.compute)) return true;
  if (!std::holds_alternative<RuleOrParts>(row.compute)) return false;
  return draws(row, args) || !rule_decision(unwrap(row, args));
}

// The numbers that an op draws belong to elements of the whole, and a piece alone does not know its
// place in it. So a composite op that draws takes its operands as the user's rule places them, and
// its steps then run on them as on any DTensor.
Arguments placed_by_rule(Calls& calls, const OpRow& row, Arguments args) {
  const Unwrapped call = unwrap(row, args);
  const InUse<OutputSharding> decision = rule_decision(call);
  if (!decision) return args;
  std::size_t next = 0;
  for (const TensorSlot& slot : call.slots) {
    if (!slot.handle.defined() || slot.argument >= row.op.positional_count()) continue;
    const DTensorSpec* want = decision->inputs[next++];
    Argument& argument = args[slot.argument];
    if (argument.is_tensor()) argument = calls.redistribute(slot.handle, want->placements());
  }
  return args;
}

}  // namespace

Results decomposed(Calls& calls, const OpRow& row, const Arguments& args) {
  try {
    const bool by_rule = std::holds_alternative<RuleOrParts>(row.compute) && draws(row, args);
    Results results = through_parts(calls, row, by_rule ? placed_by_rule(calls, row, args) : args);
    if (results.empty() && !row.op.returns.empty()) {
      fail(ErrorKind::kInternal, "{}: its decomposition does not apply to this call", row.name());
    }
    return results;
  } catch (Error& error) {
    if (error.find("op") != nullptr) {
      error.with("part of", OpSchema{&row, args, nullptr}.text());
    } else {
      add_context(error, row, args);
    }
    throw;
  }
}

Results PlainCalls::call(const OpRow& row, const Arguments& args) {
  return taken_apart(row, args) ? in_parts(row, args) : as_one(row, args);
}

DTensor PlainCalls::redistribute(const DTensor& x, const Placements& placements) {
  if (!x.distributed()) return x;
  const DTensorSpec* want = x.spec()->with(placements);
  check_implicit(x, want);
  return moved(x, want);
}

const OpRow& PlainCalls::find(std::string_view name) const {
  return current_rank().propagator->registry().at(name);
}

Results PlainCalls::in_parts(const OpRow& row, const Arguments& args) {
  return decomposed(*this, row, args);
}

Results PlainCalls::as_one(const OpRow& row, const Arguments& args) {
  return dispatch(plain_calls(), row, args);
}

DTensor PlainCalls::moved(const DTensor& x, const DTensorSpec* want) {
  return redistribute_tensor(x, want);
}

Calls& plain_calls() {
  static PlainCalls calls;
  return calls;
}

}  // namespace shardlab
