// Calls with a tape.
#include "autograd/autograd.h"
#include "autograd/on_tape.h"
#include "autograd/view.h"
#include "base/memory_account.h"
#include "base/rank_context.h"
#include "dispatch/dispatcher.h"
#include "dispatch/local_call.h"
#include "dispatch/plain_calls.h"
#include "schema/calls.h"
#include "schema/op_row.h"

namespace shardlab {

namespace {

class RecordingCalls : public PlainCalls {
 private:
  Results as_one(const OpRow& row, const Arguments& args) override {
    if (makes_views(row)) {
      if (DTensor target = view_to_write(row, args); target.defined()) return {std::move(target)};
    }
    const bool needed = look_at(row, args) && !writes_no_gradient(row);
    // An op on lists without a gradient of its own is recorded as its effect on each element.
    const bool by_element = row.has(kIndependentLists) && !row.gradient &&
                            std::holds_alternative<ProgramFn>(row.compute);
    if (needed && by_element) return recorded_by_element(row, args);
    const bool writes = row.inplace() || row.out_variant();
    if (writes) check_writes(row, args, needed ? Recorded::kYes : Recorded::kNo);
    const Ref<RowNode> node = needed ? make_ref<RowNode>(row, args) : nullptr;
    return writes ? written(row, args, node) : made(row, args, node);
  }

  DTensor moved(const DTensor& x, const DTensorSpec* want) override {
    return on_tape::redistribute(x, want, {}, {});
  }

  // One kernel in the reference is recorded as one. An op that may give a view is recorded as its
  // parts there, too.
  Results in_parts(const OpRow& row, const Arguments& args) override {
    const bool views = !row.op.returns.empty() && !row.op.returns.front().alias.marks.empty();
    if (row.gradient.reads == nullptr || views) return PlainCalls::in_parts(row, args);
    const Ref<RowNode> node = look_at(row, args) ? make_ref<RowNode>(row, args) : nullptr;
    Results results;
    {
      const KernelScope scope;
      results = decomposed(plain_calls(), row, args);
    }
    for_each_result(results, count_from_here);
    if (node) record(node, results);
    return results;
  }

  // Brings gathered copies that the call reads up to date with their bases. True when the call is
  // recorded.
  static bool look_at(const OpRow& row, const Arguments& args) {
    const bool recording =
        (current_rank().mode & kModeAutograd) != 0 && !row.has(kNotDifferentiable);
    bool needed = false, tracked = false;
    for_each_tensor_slot(row.op, args, [&](std::size_t, const Argument& argument) {
      if (!argument.is_tensor() || !argument.tensor().defined()) return;
      const DTensor& x = argument.tensor();
      if (x.impl()->grad_node) {
        // Overwritten values are not read.
        const bool read = &argument != &args[0] || !overwrites(row);
        if (read) bring_up_to_date(x);
        needed |= recording && requires_grad(x);
      }
      tracked |= x.requires_grad();
    });
    if (tracked && current_rank().memory != nullptr) current_rank().memory->parameters_read = true;
    return needed || (recording && tracked);
  }

  // Truth values, places and counts have no derivative, so that out= may write them on a tape.
  static bool writes_no_gradient(const OpRow& row) {
    return row.out_variant() && !row.gradient && std::holds_alternative<KernelId>(row.compute);
  }

  Results recorded_by_element(const OpRow& row, const Arguments& args) {
    Results results = std::get<ProgramFn>(row.compute)(*this, row, args);
    return row.op.returns.empty() ? Results() : results;
  }

  static Results made(const OpRow& row, const Arguments& args, const Ref<RowNode>& node) {
    Results results = dispatch(plain_calls(), row, args);
    if (makes_views(row)) note_views(row, args, results);
    if (node) record(node, results);
    return results;
  }

  static Results written(const OpRow& row, const Arguments& args, const Ref<RowNode>& node) {
    if (overwrites(row)) make_room(args[0].tensor());
    Results results = dispatch(plain_calls(), row, args);
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

Calls& recording_calls() {
  static RecordingCalls calls;
  return calls;
}

}  // namespace shardlab
