// The path of one call (section D of tests/behaviour.md). All that differs between ranks, the
// coordinate and the local tensors, enters in run_distributed(), after a decision that all ranks
// share. Ranks outside the mesh take part in all that concerns the world, redistributions and the
// advance of the random state, and compute nothing.
#include "dispatch/dispatcher.h"

#include "base/rank_context.h"
#include "base/value_scope.h"
#include "comm/device_mesh.h"
#include "dispatch/index_masks.h"
#include "dispatch/list_operands.h"
#include "dispatch/local_call.h"
#include "dispatch/observed_op.h"
#include "dispatch/placed_sizes.h"
#include "dispatch/prepare.h"
#include "dispatch/random_draw.h"
#include "kernels/kernel_id.h"
#include "ops/core/meta.h"
#include "schema/op_row.h"

namespace shardlab {

namespace {

// A list of sizes, or one size where the row's argument is not a list.
Argument resolve(const OpRow& row, const AdaptedArgument& adapted, const OutputSharding& decision,
                 const Coordinate& coordinate) {
  switch (adapted.token) {
    case AdaptedArgument::Token::kLocalShapeOfOutput: {
      Dims shape = local_shape(*decision.outputs[adapted.index], coordinate);
      if (!row.op.arguments[adapted.argument].type.is_list) return shape[adapted.dim];
      return shape;
    }
    case AdaptedArgument::Token::kLocalStrideOfOutput:
      return local_stride(*decision.outputs[adapted.index], coordinate);
    case AdaptedArgument::Token::kLocalOffsetOfInput:
      return local_offset(*decision.inputs[adapted.index], coordinate)[adapted.dim];
    case AdaptedArgument::Token::kValue:
      return adapted.value;
  }
  return {};
}

// The kernel's place in the whole tensor, for rows that need it.
std::optional<LocalView> position_of(const OpRow& row, const OutputSharding& decision,
                                     const Coordinate& coordinate) {
  if (!row.has(kNeedsPosition)) return std::nullopt;
  const DTensorSpec* spec = row.position_argument < 0
                                ? decision.outputs.front()
                                : decision.inputs[static_cast<std::size_t>(row.position_argument)];
  return local_view(*spec, coordinate);
}

// Computes the local metas of the results on this rank.
OutputMetas local_metas(const OutputSharding& decision, const Coordinate& coordinate) {
  OutputMetas metas;
  metas.reserve(decision.outputs.size() + 1);
  for (const DTensorSpec* spec : decision.outputs) {
    if (spec == nullptr) {
      metas.push_back({.meta = {}, .present = false});
    } else {
      metas.push_back({.meta = local_meta(*spec, coordinate), .present = true});
    }
  }
  return metas;
}

/// A call as it came.
struct Given {
  Calls& plain;  ///< for programs that compute the op
  const OpRow& row;
  const Arguments& args;
};

LocalTensors run_on_mesh(const Unwrapped& call, const Given& given, const OutputSharding& decision,
                         const Coordinate& coordinate, const LocalTensors& locals,
                         const RandomState& random) {
  const OpRow& row = decision.local_row != nullptr ? *decision.local_row : *call.schema.row;
  Arguments adapted_args;
  const Arguments* local_args = &given.args;
  if (!decision.adapted.empty() || decision.local_row != nullptr) {
    adapted_args = given.args;
    adapted_args.resize(row.op.arguments.size());
    for (const AdaptedArgument& adapted : decision.adapted) {
      adapted_args[adapted.argument] = resolve(row, adapted, decision, coordinate);
    }
    local_args = &adapted_args;
  }
  const std::optional<LocalView> position = position_of(row, decision, coordinate);
  const LocalCall local{.row = &row,
                        .args = local_args,
                        .tensors = {locals.data(), locals.size()},
                        .view = position ? &*position : nullptr,
                        .random = random,
                        .kernel = position ? mask_making_kernel(row, decision) : KernelId::kNone,
                        .device = current_rank().device,
                        .calls = &given.plain};
  if (row.on_pieces) return run_on_pieces(local, decision, local_metas(decision, coordinate));
  const bool kernel = computed_by_kernel(row);
  if (kernel) {
    const OutputMetas* known = PlacedSizes::of_thread().find(decision.number, coordinate, locals);
    if (known != nullptr) return run_local(local, *known);
  }
  OutputMetas metas;
  if (row.view() == nullptr) {
    metas = local_metas(decision, coordinate);
    if (local.kernel != KernelId::kNone) metas.push_back(mask_meta(local));
  }
  if (kernel) {
    check_output_sizes(local, metas);
    PlacedSizes::of_thread().keep(decision.number, coordinate, locals, metas);
  }
  return run_local(local, metas);
}

// Groups `count` flat tensors as the op's declared returns have them (D-54); `take` makes the next
// one. Numbers between them have a place among the tensors where all results are counted, and are
// None: no op computes one.
Results group_results(const OpDescriptor& op, std::size_t count, auto take) {
  Results results;
  results.reserve(op.returns.size());
  std::size_t next = 0;
  const bool all_counted = count == op.returns.size();
  for (const SchemaReturn& declared : op.returns) {
    if (!declared.type.is_tensor()) {
      if (!all_counted) continue;
      ++next;
      results.emplace_back();
      continue;
    }
    if (!declared.type.is_list) {
      check_invariant(next < count, "an op gave fewer results than its schema declares");
      DTensor result = take(next++);
      result.defined() ? results.emplace_back(std::move(result)) : results.emplace_back();
      continue;
    }
    ArgumentList list;
    while (next < count) list.emplace_back(take(next++));
    results.emplace_back(std::move(list));
  }
  return results;
}

// The result of in-place and out= ops: the written handles (D-44). In-place views and out= tensors
// rebind their local tensor and, on a mesh, their spec (D-45, D-48). `decision` is null for plain
// tensors.
Results wrap_written(const Unwrapped& call, const OutputSharding* decision,
                     const LocalTensors& outputs) {
  const OpRow& row = *call.schema.row;
  const bool local_view = decision != nullptr && decision->local_row != nullptr &&
                          decision->local_row->view() != nullptr;
  const bool rebinds = row.view() != nullptr || row.out_variant() || local_view;
  Results results;
  std::size_t next = 0;
  for (const TensorSlot& slot : call.slots) {
    if (!takes_result(row, slot.argument)) continue;
    DTensorImpl* impl = slot.handle.impl();
    // Counts as a write on every rank, whether its piece holds an element to write or not.
    impl->local.storage()->writable();
    if (rebinds && next < outputs.size()) impl->local = outputs[next];
    if (rebinds && decision != nullptr && next < decision->outputs.size()) {
      impl->spec = decision->outputs[next];
    }
    ++next;
    results.emplace_back(slot.handle);
  }
  if (row.op.returns.empty()) return {};
  if (!row.op.returns.front().type.is_list) return results;
  return {Argument(ArgumentList(results.begin(), results.end()))};
}

// D-39: a rank outside of the mesh has no value for a result that the op left out.
[[noreturn]] void refuse_absent(const OpRow& row) {
  fail(ErrorKind::kUnsupported, Fix{"ask for all results, or use a mesh of the whole world"},
       "{}: a result that is left out has no value outside the mesh", row.name());
}

// D-53: the result of a local program whose rule left the spec out.
DTensor without_spec(const Tensor& local) {
  if (!local.defined()) return {};
  check_invariant(local.dim() == 0, "a result without a spec has no dims");
  return DTensor(local);
}

Results run_distributed(const Unwrapped& call, const Given& given, const OutputSharding& decision) {
  const OpRow& row = given.row;
  const DeviceMesh& mesh = device_mesh(call.schema.layout);
  const ObservedOp observed(call.schema, decision);
  const std::int64_t drawn = row.has(kRandom) ? decision.outputs.front()->numel() : 0;
  const RandomState random = draw(row, given.args, drawn);
  const LocalTensors locals = prepare_inputs(call, decision, mesh);
  LocalTensors outputs =
      mesh.participates() ? run_on_mesh(call, given, decision, *mesh.coordinate(), locals, random)
                          : LocalTensors();
  if (row.inplace() || row.out_variant()) return wrap_written(call, &decision, outputs);
  const auto take = [&](std::size_t i) -> DTensor {
    const DTensorSpec* spec = decision.outputs[i];
    if (spec != nullptr) {
      return DTensor(mesh.participates() ? std::move(outputs[i]) : outsider_value(*spec), spec);
    }
    if (!mesh.participates()) refuse_absent(row);
    return without_spec(outputs[i]);
  };
  Results results = group_results(row.op, decision.outputs.size(), take);
  if (outputs.size() > decision.outputs.size()) keep_mask(results, outputs.back());
  return results;
}

Results run_plain(const Unwrapped& call, const Given& given) {
  const OpRow& row = given.row;
  LocalTensors locals;
  locals.reserve(call.slots.size());
  for (const TensorSlot& slot : call.slots) {
    locals.push_back(slot.handle.defined() ? slot.handle.local() : Tensor());
  }
  LocalCall local{.row = &row,
                  .args = &given.args,
                  .tensors = {locals.data(), locals.size()},
                  .device = current_rank().device,
                  .calls = &given.plain};
  OutputMetas metas;
  if (row.view() == nullptr) {
    MetaList inputs;
    inputs.reserve(call.slots.size());
    for (const TensorSlot& slot : call.slots) {
      inputs.push_back(slot.handle.defined() ? &slot.handle.local().meta() : nullptr);
    }
    metas = infer_metas(row, given.args, std::move(inputs));
  }
  const std::int64_t drawn =
      row.has(kRandom) && !metas.empty() ? product(metas.front().meta.shape) : 0;
  local.random = draw(row, given.args, drawn);
  LocalTensors outputs = run_local(local, metas);
  if (row.inplace() || row.out_variant()) return wrap_written(call, nullptr, outputs);
  return group_results(row.op, outputs.size(), [&](std::size_t i) {
    return outputs[i].defined() ? DTensor(std::move(outputs[i])) : DTensor();
  });
}

Results run_row(const Given& given) {
  const Unwrapped call = unwrap(given.row, given.args);
  return call.distributed ? run_distributed(call, given, *decide(call)) : run_plain(call, given);
}

// Null if the call is decided and run.
const Handler* handler_of(const OpRow& row, const Arguments& args) {
  const auto* handled = std::get_if<Handler>(&row.compute);
  return handled != nullptr && row.on_pieces && compute_mesh(row, args) ? nullptr : handled;
}

// Here alone, since every try block that catches exceptions costs time. The error of a decided call
// shows it as the decision saw it, with plain tensors as replicas.
void add_call(Error& error, const OpRow& row, const Arguments& args) {
  if (has_context(error)) return;
  if (compute_mesh(row, args) != nullptr && handler_of(row, args) == nullptr) {
    try {
      return add_context(error, unwrap(row, args));
    } catch (const Error&) {  // this failure is the error itself
    }
  }
  add_context(error, row, args);
}

// A function of its own, whose results are made where the caller wants them: within a try block
// compilers would move them.
Results observed_results(const Given& given) {
  const auto& [plain, row, args] = given;
  ObservedCall observed(row, args, row.has(kRandom) ? &random_state(row, args) : nullptr);
  std::optional<ObservedOp> reported;
  if (row.opaque()) report_given(row, args, reported);
  const Handler* handled = handler_of(row, args);
  Results results = handled ? handled->handler(plain, row, args) : run_row(given);
  observed.ended(results);
  return results;
}

Results dispatch_one(const Given& given) {
  RankContext& rank = current_rank();
  // For reports of ranks that wait (D-42).
  const ValueScope named(rank.op, given.row.name().c_str());
  ++rank.step;
  try {
    return observed_results(given);
  } catch (Error& error) {
    add_call(error, given.row, given.args);
    throw;
  }
}

// A separate function: the needs of ops on lists of tensors are then not part of the path of all
// others.
[[gnu::noinline, gnu::cold]] Results dispatch_lists(const Given& given) {
  Calls& plain = given.plain;
  const OpRow& row = given.row;
  const Arguments& args = given.args;
  if (const auto places = with_places_of_masks(plain, row, args)) {
    return dispatch_one({plain, row, *places});
  }
  const bool raw = std::holds_alternative<Handler>(row.compute);  // as given (D-2)
  if (!row.has(kIndependentLists) || raw) return dispatch_one(given);
  const auto on_one_mesh = [&](const Arguments& part) {
    return dispatch_one({plain, row, with_whole_operands(row, part)});
  };
  const auto by_mesh = entries_by_mesh(row, args);
  return by_mesh.empty() ? on_one_mesh(args) : for_each_mesh(row, args, by_mesh, on_one_mesh);
}

}  // namespace

Results dispatch(Calls& plain, const OpRow& row, const Arguments& args) {
  const Given given{plain, row, args};
  return row.info.needs_pytree ? dispatch_lists(given) : dispatch_one(given);
}

}  // namespace shardlab
