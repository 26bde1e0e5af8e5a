// A row keeps exactly the values of its call that its gradient reads (OpRow::gradient_reads()).
// Kept tensors share their memory with the program's: an op that writes to it in place makes the
// gradient unknown, and backward refuses it.
#include "autograd/row_node.h"

#include <algorithm>
#include <bit>

#include "autograd/view.h"
#include "base/text.h"
#include "base/value_scope.h"
#include "dispatch/local_call.h"
#include "ops/core/gradient_math.h"
#include "schema/op_row.h"

namespace shardlab {

namespace {

// Variants have the gradient of the op that they are made from.
const OpRow& definition_of(const OpRow& row) {
  return !row.gradient && row.base != nullptr ? *row.base : row;
}

/// The results of `place` for an argument, of a list element by element.
Argument each_slot(const Argument& argument, const auto& place) {
  if (!argument.is_list()) return place(argument);
  ArgumentList list;
  list.reserve(argument.list().size());
  for (const Argument& element : argument.list()) list.push_back(place(element));
  return list;
}

Argument each_tensor(const Argument& argument, const auto& keep) {
  return each_slot(argument, [&](const Argument& one) {
    const bool tensor = one.is_tensor() && one.tensor().defined();
    return tensor ? Argument(keep(one.tensor())) : one;
  });
}

/// A handle of the same value, whose gradient follows the edge.
DTensor attached_to(const GradNode::Edge& edge, const DTensor& x) {
  DTensor handle(x.local(), x.spec());
  copy_marks(handle, x);
  if (edge.node) {
    attach(handle, edge.node, edge.output);
    return handle;
  }
  const auto same = make_ref<SameNode>();
  same->connect(edge);
  attach(handle, same, 0);
  return handle;
}

bool stretches_to(const Dims& shape, const Dims& wide) {
  if (shape.size() > wide.size()) return false;
  const auto behind = wide.end() - static_cast<std::ptrdiff_t>(shape.size());
  return std::equal(shape.begin(), shape.end(), behind,
                    [](std::int64_t size, std::int64_t to) { return size == to || size == 1; });
}

// Refused when the op is called, as in the reference.
void refuse_constants(const OpRow& row, const GradientReads& reads, ArgumentSet wanted) {
  const ArgumentSet refused = reads.constant_arguments & wanted;
  if (refused == 0) return;
  const auto index = static_cast<std::size_t>(std::countr_zero(refused));
  const std::string_view name = row.op.arguments[index].name;
  fail(ErrorKind::kRuntime, Fix{fmt::format("{}.detach() requires none", name)},
       "{}: has no gradient with respect to {}", row.name(), name);
}

}  // namespace

DTensor without_values(const DTensor& x) {
  const DTensorSpec* spec = x.spec();
  if (spec != nullptr && spec->has_partial()) {
    spec = spec->with(without_partials(spec->placements()), spec->order());
  }
  DTensor shape(Tensor(Ref<Storage>(), x.local().meta(), x.local().offset()), spec);
  shape.impl()->note = x.impl()->note;
  return shape;
}

DTensor fitted_gradient(Calls& calls, const DTensor& gradient, const DTensor& of,
                        std::string_view op, std::string_view argument, std::string_view fix) {
  if (gradient.shape() == of.shape() && gradient.dtype() == of.dtype()) return gradient;
  if (!stretches_to(of.shape(), gradient.shape())) {
    fail(ErrorKind::kRuntime, Fix{std::string(fix)},
         "{}: the gradient of {} has the shape [{}], its tensor has [{}]", op, argument,
         text_of_list(gradient.shape(), ", "), text_of_list(of.shape(), ", "));
  }
  return grad::sum_to(calls, gradient, of);
}

void count_from_here(const DTensor& x) {
  if (x.defined()) x.impl()->local = counted(x.local());
}

RowNode::RowNode(const OpRow& row, const Arguments& args) : GradNode(row.name()), row_(&row) {
  reserve(args.size());
  for_each_tensor_slot(row.op, args, [&](std::size_t index, const Argument& argument) {
    connect(argument.is_tensor() ? argument.tensor() : DTensor());
    if (edges().back().wanted()) wanted_ |= ArgumentSet{1} << index;
  });
  const OpRow& definition = definition_of(row);
  reads_ = &definition.gradient_reads();
  one_kernel_ = definition.parts() != nullptr && !reads_->everything;
  in_parts_ = !definition.gradient && definition.parts() != nullptr;
  refuse_constants(row, *reads_, wanted_);
  inputs_.reserve(args.size());
  for (std::size_t i = 0; i < args.size(); ++i) inputs_.push_back(kept_argument(i, args[i]));
}

RowNode::RowNode(const OpRow& row)
    : GradNode(row.name()),
      row_(&row),
      reads_(&definition_of(row).gradient_reads()),
      wanted_(kAnyArgument) {}

Ref<RowNode> RowNode::unconnected(const OpRow& row, const Arguments& args) {
  Ref<RowNode> node(new RowNode(row));
  node->inputs_ = args;
  return node;
}

Argument RowNode::kept_argument(std::size_t index, const Argument& argument) {
  const bool whole = in_parts_ && !one_kernel_;
  const bool read = whole || reads_->argument(index, wanted_);
  keeps_ = keeps_ || read;
  if (!row_->op.arguments[index].type.is_tensor()) return argument;
  if (!read) return each_tensor(argument, without_values);
  // The gradient of state that has no gradient itself (running statistics) reads the old value only
  // where the call does not change it.
  const bool state = (reads_->constant_arguments >> index & 1) != 0;
  const bool written = row_->op.arguments[index].alias.write && !state;
  if (whole || written) {
    return each_tensor(argument, [&](const DTensor& x) { return kept_copy(x, index); });
  }
  return each_tensor(argument, [&](const DTensor& x) { return kept(x, index, false); });
}

DTensor RowNode::kept(const DTensor& x, std::size_t index, bool result) {
  const Ref<Storage>& storage = versioned_storage(x);
  kept_.push_back(
      {Hold(x.local().storage(), HeldFor::kBackward), storage, storage->version(), index, result});
  DTensor handle(x.local(), x.spec());
  copy_marks(handle, x);
  return handle;
}

// Its value as it is now. A value that the op overwrites counts as the copy that a device of its
// own would hold, of a view no more than the view; values that parts will read again exist anyhow.
DTensor RowNode::kept_copy(const DTensor& x, std::size_t index) {
  const Tensor& local = x.local();
  const bool whole = local.storage()->counted_bytes() <= local.size_bytes();
  Tensor value(in_parts_ ? local.storage()->snapshot() : local.storage()->copy(), local.meta(),
               local.offset());
  if (!in_parts_ && !whole) value = clone_contiguous(local);
  DTensor copy(value, x.spec());
  copy_marks(copy, x);
  const Ref<Storage>& held = in_parts_ ? local.storage() : value.storage();
  kept_.push_back({Hold(held, HeldFor::kBackward), nullptr, 0, index, false});
  return copy;
}

void RowNode::save_results(const Results& results) {
  std::size_t count = 0;
  for_each_result(results, [&](const DTensor&) { ++count; });
  set_output_count(count);
  for (Kept& kept : kept_) {
    // The call itself has written this state: later writes do not affect the gradient.
    const bool by_call = kept.versioned && kept.versioned->version() != kept.version;
    if (by_call && row_->op.arguments[kept.index].alias.write) kept.versioned = nullptr;
  }
  if (!reads_->any_result() || (in_parts_ && !one_kernel_)) return;
  outputs_.reserve(results.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (reads_->result(i, wanted_)) {
      keeps_ = true;
      outputs_.push_back(
          each_tensor(results[i], [&](const DTensor& x) { return kept(x, i, true); }));
    } else {
      outputs_.push_back(reads_->result_shapes ? each_tensor(results[i], without_values)
                                               : Argument());
    }
  }
}

void RowNode::check_saved() const {
  for (const Kept& kept : kept_) {
    if (!kept.versioned || kept.versioned->version() == kept.version) continue;
    const std::string name = kept.result ? fmt::format("result {}", kept.index)
                                         : std::string(row_->op.arguments[kept.index].name);
    const Argument& value = kept.result ? outputs_[kept.index] : inputs_[kept.index];
    throw Error(ErrorKind::kRuntime,
                fmt::format("{}: a tensor that its gradient needs was modified by an in-place op",
                            row_->name()))
        .with("op", fmt::format("{} {}", name, value.text()))
        .with("fix",
              "clone it before the in-place op, or use the op that returns a new tensor; views and "
              "detached tensors share the memory of what they come from");
  }
}

void RowNode::visit_saved(const std::function<void(const DTensor& x)>& visit) const {
  const auto look = [&](const Argument& argument) {
    each_tensor(argument, [&](const DTensor& x) {
      if (x.local().defined()) visit(x);
      return x;
    });
  };
  std::ranges::for_each(inputs_, look);
  std::ranges::for_each(outputs_, look);
}

std::vector<DTensor> RowNode::run(std::span<const DTensor> grads, Graph graph) {
  if (!one_kernel_ || records(graph)) return gradients(grads, graph);
  std::vector<DTensor> found;
  {
    const KernelScope scope;
    found = gradients(grads, graph);
  }
  std::ranges::for_each(found, count_from_here);
  return found;
}

std::vector<DTensor> RowNode::gradients(std::span<const DTensor> grads, Graph graph) {
  const OpRow& definition = definition_of(*row_);
  if (in_parts_) {
    std::vector<DTensor> found = gradients_of_parts(definition, grads, graph);
    return one_kernel_ ? with_zeros(calls_of(graph), grads, std::move(found)) : found;
  }
  if (!definition.gradient) {
    fail(ErrorKind::kUnsupported, Fix{"detach the input that needs no gradient"},
         "{}: no gradient for this op", row_->name());
  }
  const auto needs = [this](std::size_t index) { return edges()[index].wanted(); };
  Calls& calls = calls_of(graph);
  if (!records(graph)) {
    return with_zeros(
        calls, grads,
        fitted(calls, definition.gradient.program({calls, inputs_, outputs_, grads, needs})));
  }
  const Arguments inputs = inputs_on_tape();
  const Results outputs = outputs_on_tape();
  return with_zeros(
      calls, grads,
      fitted(calls, definition.gradient.program({calls, inputs, outputs, grads, needs})));
}

std::vector<DTensor> RowNode::fitted(Calls& calls, std::vector<DTensor> found) const {
  std::size_t slot = 0;
  for_each_tensor_slot(row_->op, inputs_, [&](std::size_t argument, const Argument& value) {
    const std::size_t index = slot++;
    if (index >= found.size() || !found[index].defined() || !edges()[index].wanted()) return;
    found[index] = fitted_gradient(
        calls, found[index], value.tensor(), row_->name(), row_->op.arguments[argument].name,
        "give the op tensors whose sizes agree, or detach the one that needs none");
  });
  return found;
}

// The results do not depend on inputs that a gradient program leaves out; or no gradient flows in
// that would reach them.
std::vector<DTensor> RowNode::with_zeros(Calls& calls, std::span<const DTensor> grads,
                                         std::vector<DTensor> found) const {
  found.resize(edges().size());
  if (!std::ranges::all_of(grads, &DTensor::defined)) return found;
  const auto missing = [&](std::size_t i) { return !found[i].defined() && edges()[i].wanted(); };
  bool complete = true;
  for (std::size_t i = 0; i < found.size(); ++i) complete = complete && !missing(i);
  if (complete) return found;
  std::size_t slot = 0;
  for_each_tensor_slot(row_->op, inputs_, [&](std::size_t, const Argument& argument) {
    const std::size_t index = slot++;
    if (missing(index)) found[index] = calls.one("aten::zeros_like", {argument});
  });
  return found;
}

// Only the shape is read of values that were not kept.
Arguments RowNode::inputs_on_tape() const {
  Arguments args = inputs_;
  std::size_t slot = 0;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!row_->op.arguments[i].type.is_tensor()) continue;
    const auto place = [&](const Argument& argument) {
      const Edge& edge = edges()[slot++];
      if (!edge.wanted() || !argument.is_tensor() || !argument.tensor().local().defined()) {
        return argument;
      }
      return Argument(attached_to(edge, argument.tensor()));
    };
    args[i] = each_slot(args[i], place);
  }
  return args;
}

Results RowNode::outputs_on_tape() {
  Results results = outputs_;
  std::uint32_t output = 0;
  for (Argument& result : results) {
    const auto place = [&](const Argument& argument) {
      const Edge edge{Ref<GradNode>(this), output++, {}};
      if (!argument.is_tensor() || !argument.tensor().defined()) return argument;
      const DTensor& x = argument.tensor();
      const bool recorded = x.local().defined() && !is_integral(x.dtype());
      if (!recorded || !gives_gradient(edge.output)) return argument;
      return Argument(attached_to(edge, x));
    };
    result = each_slot(result, place);
  }
  return results;
}

bool RowNode::free_saved() {
  if (!keeps_) return false;
  inputs_.clear();
  outputs_.clear();
  kept_.clear();
  return true;
}

// The recorded walk over the parts must end at their inputs: it begins at nodes that lead on only
// afterwards.
std::vector<DTensor> RowNode::gradients_of_parts(const OpRow& definition,
                                                 std::span<const DTensor> grads,
                                                 Graph graph) const {
  // Whether or not the program does: gradients may be wanted where nothing is recorded.
  std::uint32_t& mode = current_rank().mode;
  const ValueScope recording(mode, mode | kModeAutograd);
  Arguments args = inputs_;
  std::vector<DTensor> leaves;
  std::vector<Ref<GradNode>> begins;
  const auto make_leaf = [&](const Argument& argument) -> Argument {
    // The parts do not read values that were not kept.
    const bool read = argument.is_tensor() && argument.tensor().local().defined();
    if (!edges()[leaves.size()].wanted() || !read) {
      leaves.emplace_back();
      return argument;
    }
    const DTensor leaf = detached(argument.tensor());
    leaf.impl()->requires_grad = true;
    if (records(graph)) attach(leaf, begins.emplace_back(make_ref<SameNode>()), 0);
    return leaves.emplace_back(leaf);
  };
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (definition.op.arguments[i].type.is_tensor()) args[i] = each_slot(args[i], make_leaf);
  }
  std::vector<Seeded> seeded;
  std::size_t next = 0;
  for_each_result(decomposed(recording_calls(), definition, args), [&](const DTensor& result) {
    const DTensor& gradient = grads[next++];
    if (gradient.defined() && result.requires_grad()) seeded.push_back({result, gradient});
  });
  std::vector<DTensor> wanted;
  for (const DTensor& leaf : leaves) {
    if (leaf.defined()) wanted.push_back(leaf);
  }
  const std::vector<DTensor> found =
      gradients_of(seeded, wanted, records(graph) ? graph : Graph::kFree);
  std::vector<DTensor> result;
  next = 0;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (leaves[i].defined() && records(graph)) begins[next]->connect(edges()[i]);
    result.push_back(leaves[i].defined() ? found[next++] : DTensor());
  }
  return result;
}

}  // namespace shardlab
