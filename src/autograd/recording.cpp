// Calls with and without a tape.
#include "autograd/autograd.h"
#include "autograd/row_node.h"
#include "autograd/view.h"
#include "base/rank_context.h"
#include "dispatch/dispatcher.h"
#include "dispatch/local_call.h"
#include "dispatch/prepare.h"
#include "dispatch/unwrap.h"
#include "propagate/propagator.h"

namespace shardlab {

namespace {

// A user's rule for a composite op comes before its decomposition (D-2), unless the rule does not
// take this call (D-19).
bool rule_takes(const OpRow& row, const Arguments& args) {
  try {
    const Unwrapped call = unwrap(row, args);
    if (call.distributed) current_rank().propagator->propagate(call.schema);
    return call.distributed;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUnsupported) throw;
    return false;
  }
}

bool is_composite(const OpRow& row, const Arguments& args) {
  if (row.decompose == nullptr || row.user_handler != nullptr) return false;
  return row.local == nullptr || row.has(kRandom) || !rule_takes(row, args);
}

// The numbers that an op draws belong to elements of the whole, and a piece alone does not know its
// place in it. So a composite op that draws takes its operands where the user's rule wants them,
// and its steps then run on them as on any DTensor.
Arguments where_rule_wants(Calls& calls, const OpRow& row, Arguments args) {
  const Unwrapped call = unwrap(row, args);
  const OutputSharding& decision = current_rank().propagator->propagate(call.schema);
  std::size_t next = 0;
  for (const TensorSlot& slot : call.slots) {
    if (!slot.handle.defined() || slot.argument >= row.op.positional_count()) continue;
    const DTensorSpec* want = decision.inputs[next++];
    Argument& argument = args[slot.argument];
    if (argument.is_tensor()) argument = calls.redistribute(slot.handle, want->placements());
  }
  return args;
}

}  // namespace

// An error inside names the op that failed; this is what the user called.
Results decomposed(Calls& calls, const OpRow& row, const Arguments& args) {
  try {
    const bool by_rule = row.local != nullptr && row.has(kRandom) && rule_takes(row, args);
    Results results = row.decompose(calls, by_rule ? where_rule_wants(calls, row, args) : args);
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

namespace {

class PlainCalls : public Calls {
 public:
  Results call(const OpRow& row, const Arguments& args) override {
    if (is_composite(row, args)) return decomposed(*this, row, args);
    return dispatch(row, args);
  }
  const OpRow& find(std::string_view name) const override {
    return current_rank().propagator->registry().at(name);
  }
  DTensor redistribute(const DTensor& x, const Placements& placements) override {
    if (!x.distributed()) return x;
    return redistribute_tensor(x, x.spec()->with(placements));
  }
};

class RecordingCalls : public PlainCalls {
 public:
  Results call(const OpRow& row, const Arguments& args) override {
    if (is_composite(row, args)) return decomposed(*this, row, args);
    if (makes_views(row)) {
      if (DTensor target = view_to_write(row, args); target.defined()) return {std::move(target)};
    }
    const bool needed = look_at(row, args);
    if (needed && row.has(kIndependentLists)) return recorded_by_element(row, args);
    const bool writes = row.inplace() || row.out_variant();
    if (writes) check_writes(row, args, needed ? Recorded::kYes : Recorded::kNo);
    const Ref<RowNode> node = needed ? make_ref<RowNode>(row, args) : nullptr;
    if (writes) return written(row, args, node);
    Results results = dispatch(row, args);
    if (makes_views(row)) note_views(row, args, results);
    if (node) record(node, results);
    return results;
  }

  DTensor redistribute(const DTensor& x, const Placements& placements) override {
    if (!x.distributed()) return x;
    return shardlab::redistribute(x, x.spec()->with(placements));
  }

 private:
  // Brings gathered copies that the call reads up to date with their bases. True when the call is
  // recorded.
  static bool look_at(const OpRow& row, const Arguments& args) {
    const bool recording =
        (current_rank().mode & kModeAutograd) != 0 && !row.has(kNotDifferentiable);
    bool needed = false;
    for_each_tensor_slot(row.op, args, [&](std::size_t, const Argument& argument) {
      if (!argument.is_tensor() || !argument.tensor().defined()) return;
      const DTensor& x = argument.tensor();
      if (x.impl()->grad_node) {
        // What is overwritten is not read.
        const bool read = &argument != &args[0] || !overwrites(row);
        if (read) bring_up_to_date(x);
        needed |= recording && requires_grad(x);
      }
      needed |= recording && x.requires_grad();
    });
    return needed;
  }

  // An op on lists is recorded as what it does to each element.
  Results recorded_by_element(const OpRow& row, const Arguments& args) {
    Results results = row.local(*this, row, args);
    return row.op.returns.empty() ? Results() : results;
  }

  static Results written(const OpRow& row, const Arguments& args, const Ref<RowNode>& node) {
    if (overwrites(row)) make_room(args[0].tensor());
    Results results = dispatch(row, args);
    for_each_tensor_slot(row.op, args, [&](std::size_t index, const Argument& argument) {
      if (!row.op.arguments[index].alias.write || !argument.is_tensor()) return;
      if (argument.tensor().impl()->grad_node) write_back(argument.tensor());
    });
    if (!node) return results;
    node->save_results(results);
    for_each_result(results, [&](const DTensor& result) {
      if (!is_integral(result.dtype())) attach_written(result, node);
    });
    return results;
  }

  static void record(const Ref<RowNode>& node, const Results& results) {
    node->save_results(results);
    std::size_t index = 0;
    for_each_result(results, [&](const DTensor& result) {
      const bool counts = result.defined() && !is_integral(result.dtype());
      if (counts && node->gives_gradient(index)) attach(result, node, index);
      ++index;
    });
  }
};

}  // namespace

Calls& plain_calls() {
  static PlainCalls calls;
  return calls;
}

Calls& recording_calls() {
  static RecordingCalls calls;
  return calls;
}

}  // namespace shardlab
