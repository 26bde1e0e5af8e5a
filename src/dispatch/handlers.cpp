// Ops whose ranks communicate in addition to redistribution, or that need no rule at all.
#include "dispatch/handlers.h"

#include <algorithm>

#include "base/rank_context.h"
#include "comm/device_mesh.h"
#include "dispatch/convolution.h"
#include "dispatch/extremum_index.h"
#include "dispatch/local_call.h"
#include "dispatch/observed_op.h"
#include "dispatch/plain_calls.h"
#include "dispatch/prepare.h"
#include "mesh/type_string.h"
#include "propagate/propagator.h"
#include "redistribute/redistribute.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"
#include "tensor/host.h"

namespace shardlab {

void report_given(const OpRow& row, const Arguments& args, std::optional<ObservedOp>& observed) {
  const MeshLayout* layout = compute_mesh(row, args);
  if (layout == nullptr || observer_to_tell() == nullptr) return;
  OpSchema schema{&row, args, layout};
  const auto spec_of = [&](const DTensor& x) -> Argument {
    if (!x.defined()) return {};
    if (x.distributed()) return Argument(x.spec());
    return Argument(layout->arena().spec(layout, Placements(layout->ndim()), x.meta()));
  };
  for (Argument& argument : schema.args) {
    if (argument.is_tensor()) argument = spec_of(argument.tensor());
    if (!argument.is_list()) continue;
    ArgumentList list = argument.list();
    for (Argument& element : list) {
      if (element.is_tensor()) element = spec_of(element.tensor());
    }
    argument = std::move(list);
  }
  OutputSharding decision;
  decision.inputs = schema.tensor_specs();
  observed.emplace(schema, decision);
}

namespace {

/// A handler that takes its operands as they are.
template <HandlerFn kHandler>
Results reported(Calls& calls, const OpRow& row, const Arguments& args) {
  std::optional<ObservedOp> observed;
  report_given(row, args, observed);
  return kHandler(calls, row, args);
}

Tensor call_locally(std::string_view name, std::vector<Tensor> tensors) {
  const OpRow& row = current_rank().propagator->registry().at(name);
  const Arguments args = row.defaults();
  const LocalCall call{.row = &row,
                       .args = &args,
                       .tensors = tensors,
                       .device = current_rank().device,
                       .calls = &plain_calls()};
  return run_local(call, infer_local(call)).front();
}

bool equal_locally(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape()) return false;
  return read_scalar(call_locally("aten::all", {call_locally("aten::eq.Tensor", {a, b})}))
      .to_bool();
}

// every rank of the world takes part, outsiders with true.
Results handle_equal(Calls&, const OpRow& row, const Arguments& args) {
  const Unwrapped call = unwrap(row, args);
  if (!call.distributed) {
    return {Argument(equal_locally(call.slots[0].handle.local(), call.slots[1].handle.local()))};
  }
  RankContext& rank = current_rank();
  const DeviceMesh& mesh = device_mesh(call.schema.layout);
  bool mine = true;
  if (mesh.participates()) {
    const InUse<OutputSharding> decision = rank.propagator->propagate(call.schema);
    const LocalTensors locals = prepare_inputs(call, *decision, mesh);
    // Without data every rank enters the collective all the same; its result can't be read.
    mine = rank.device->shape_only() || equal_locally(locals[0], locals[1]);
  }
  Tensor flag = empty(*rank.device, Dims{1}, DType::kI32);
  const std::int64_t value = mine ? 1 : 0;
  write_integers(flag, {&value, 1});
  return {Argument(read_scalar(rank.world->all_reduce(flag, ReduceOp::kMin)).to_bool())};
}

// D-60: global shapes, no communication.
Results handle_is_same_size(Calls&, const OpRow&, const Arguments& args) {
  return {Argument(args[0].tensor().shape() == args[1].tensor().shape())};
}

// The one element of a sharded tensor is at coordinate 0 of every sharding mesh dim. Groups whose
// coordinate 0 holds nothing pass a placeholder on; the dim that separates them from the owner
// overwrites it.
Tensor broadcast_from_owner(const DTensor& x, const DeviceMesh& mesh) {
  const DTensorSpec& spec = *x.spec();
  Tensor value = x.local();
  if (value.numel() == 0) {
    value = empty(*current_rank().device, spec.shape(), spec.dtype());
    const std::vector<std::byte> zero(static_cast<std::size_t>(value.size_bytes()));
    current_rank().device->write(value, zero.data());
  }
  for (std::size_t mesh_dim = 0; mesh_dim < spec.placements().size(); ++mesh_dim) {
    if (!spec.placement(mesh_dim).is_shard() || spec.layout()->size(mesh_dim) == 1) continue;
    value = mesh.group(mesh_dim).broadcast(value, 0, contiguous_meta(spec.shape(), spec.dtype()));
  }
  return value;
}

// The mesh of the gradients of a list; null for plain ones.
const MeshLayout* common_mesh(const OpRow& row, const ArgumentList& gradients) {
  const DTensorSpec* first = gradients[0].tensor().spec();
  for (const Argument& gradient : gradients) {
    const DTensorSpec* spec = gradient.tensor().spec();
    if ((spec == nullptr) == (first == nullptr) && (!spec || spec->layout() == first->layout())) {
      continue;
    }
    throw Error(ErrorKind::kRuntime,
                fmt::format("{}: the gradients live on different meshes", row.name()))
        .with("mesh", fmt::format("{} next to {}", type_string(gradients[0].tensor()),
                                  type_string(gradient.tensor())))
        .with("fix", "make one call for each mesh");
  }
  return first == nullptr ? nullptr : first->layout();
}

// D-62 to D-64: unscales every piece and notes whether one of them is not finite; the note is
// shared along every mesh dim on which ranks hold different pieces of any gradient.
Results handle_found_inf(Calls& calls, const OpRow& row, const Arguments& args) {
  const ArgumentList& gradients = args[0].list();
  if (gradients.empty()) return {};
  const MeshLayout* layout = common_mesh(row, gradients);
  const DTensor found(args[1].tensor().local()), scale(args[2].tensor().local());
  const auto note = [&](const DTensor& seen) {
    calls("aten::copy_", {found, calls.one("aten::maximum", {found, seen})});
  };
  for (const Argument& gradient : gradients) {
    const DTensor local(gradient.tensor().local());
    const DTensor finite = calls.one("aten::all", {calls.one("aten::isfinite", {local})});
    note(calls.one("aten::logical_not", {finite}));
    calls("aten::mul_.Tensor", {local, scale});
  }
  if (layout == nullptr || !device_mesh(layout).participates()) return {};
  for (std::size_t mesh_dim = 0; mesh_dim < layout->ndim(); ++mesh_dim) {
    const bool differs = std::any_of(gradients.begin(), gradients.end(), [&](const auto& gradient) {
      return !gradient.tensor().spec()->placement(mesh_dim).is_replicate();
    });
    if (!differs || layout->size(mesh_dim) == 1) continue;
    ProcessGroup& group = device_mesh(layout).group(mesh_dim);
    note(DTensor(group.all_reduce(found.local(), ReduceOp::kMax)));
  }
  return {};
}

//
Results handle_local_scalar(Calls&, const OpRow& row, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  if (x.numel() != 1) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("{}: a scalar is read from one element", row.name()))
        .with("op", fmt::format("self {}", type_string(x)))
        .with("fix", "index it or reduce it first");
  }
  if (!x.distributed()) return {Argument(read_scalar(x.local()))};
  const DeviceMesh& mesh = device_mesh(x.spec()->layout());
  if (!mesh.participates()) return {Argument()};
  if (x.spec()->is_replicated()) return {Argument(read_scalar(x.local()))};
  if (!x.spec()->has_partial()) return {Argument(read_scalar(broadcast_from_owner(x, mesh)))};
  const DTensorSpec* whole = x.spec()->with(Placements(x.spec()->layout()->ndim()));
  return {Argument(read_scalar(redistribute_tensor(x, whole).local()))};
}

}  // namespace

void register_handlers(OpRegistry& registry) {
  const auto set = [&](const char* name, HandlerFn handler) {
    registry.set_handler(name, {.handler = handler, .gives_the_op = true});
  };
  set("aten::_amp_foreach_non_finite_check_and_unscale_", reported<handle_found_inf>);
  set("aten::_local_scalar_dense", reported<handle_local_scalar>);
  set("aten::argmax", handle_extremum_index);
  set("aten::argmin", handle_extremum_index);
  set("aten::convolution", handle_convolution);
  set("aten::convolution_backward", handle_convolution_backward);
  set("aten::equal", reported<handle_equal>);
  set("aten::is_same_size", reported<handle_is_same_size>);
}

}  // namespace shardlab
