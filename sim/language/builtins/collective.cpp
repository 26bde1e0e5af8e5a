// Collectives on local tensors that return new ones: over a mesh dim or the world, and as torch's
// functional collectives call them. They carry gradients, and so do those of
// torch.distributed.nn.functional, which have the parameters of those that fill tensors.
#include <cctype>
#include <numeric>

#include "api/tensor_ops.h"
#include "base/error.h"
#include "base/fixed_text.h"
#include "base/tensor_dim.h"
#include "sim/language/run/dist_calls.h"
#include "sim/language/run/mesh_value.h"

namespace shardlab {

namespace {

Value run_all_reduce(Interpreter& in, const Value*, const Parameters& given) {
  const ReduceOp op = given.has("op") ? reduction_of(given["op"]) : ReduceOp::kSum;
  return all_reduce(given.tensor("t"), op, group_of(in, given["group"]));
}

template <FixedText kTensor, FixedText kDim>
Value run_all_gather(Interpreter& in, const Value*, const Parameters& given) {
  return all_gather(given.tensor(kTensor), given.integer(kDim), group_of(in, given["group"]));
}

Value run_reduce_scatter(Interpreter& in, const Value*, const Parameters& given) {
  return reduce_scatter(given.tensor("t"), given.integer("dim"), reduction_of(given["op"]),
                        group_of(in, given["group"]));
}

Value run_all_to_all(Interpreter& in, const Value*, const Parameters& given) {
  return all_to_all(given.tensor("t"), given.integer("split_dim"), given.integer("concat_dim"),
                    group_of(in, given["group"]));
}

template <FixedText kTensor>
Value run_broadcast(Interpreter& in, const Value*, const Parameters& given) {
  // The single-device run has the value.
  const std::int64_t source = in.plain() ? 0 : given.integer("src");
  return broadcast(given.tensor(kTensor), source, group_of(in, given["group"]));
}

Value run_barrier(Interpreter& in, const Value*, const Parameters& given) {
  barrier(group_of(in, given["group"]));
  return {};
}

// torch.distributed._functional_collectives: "sum" in capitals or not; `tag` has no effect here.

ReduceOp written_reduction(const Parameters& given) {
  const auto* text = given["reduceOp"].get<std::string>();
  if (text == nullptr) return reduction_of(given["reduceOp"]);
  std::string lower = *text;
  for (char& c : lower) c = static_cast<char>(std::tolower(c));
  return reduction_of(lower);
}

Value run_funcol_all_reduce(Interpreter& in, const Value*, const Parameters& given) {
  return all_reduce(given.tensor("self"), written_reduction(given), group_of(in, given["group"]));
}

// Chunks of unequal length: reduce_scatter() makes them, torch does not.
Value run_funcol_reduce_scatter(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("funcol.reduce_scatter_tensor(self, reduceOp, scatter_dim, group, tag=)",
                         std::move(call));
  const DTensor x = given.tensor("self");
  const std::int64_t dim = wrap_dim(given.integer("scatter_dim"), x.ndim());
  ProcessGroup& group = group_of(in, given["group"]);
  const std::int64_t size = x.shape()[static_cast<std::size_t>(dim)];
  if (size % group.size() != 0) {
    fail(Fix{"pad it, or call reduce_scatter(t, \"sum\", dim), which cuts it unevenly"},
         "funcol.reduce_scatter_tensor on group {}: dim {} of {} is no multiple of its {} ranks",
         group.name(), dim, type_string(x), group.size());
  }
  return reduce_scatter(x, dim, written_reduction(given), group);
}

std::int64_t rows_in_all(const Dims& rows) {
  return std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
}

Value run_rows_exchanged(Interpreter& in, const Value*, const Parameters& given) {
  const DTensor x = given.tensor("self");
  ProcessGroup& group = group_of(in, given["group"]);
  const Dims send = given.sizes_or("input_split_sizes", {});
  const Dims receive = given.sizes_or("output_split_sizes", {});
  // One device uses its own rows in place of received ones: as many as are to be received.
  const bool cut = !send.empty() || !receive.empty();
  if (in.plain() && cut) return slice(x, 0, {.end = rows_in_all(receive.empty() ? send : receive)});
  return all_to_all(x, send, receive, group);
}

// torch.distributed.nn.functional

Value run_nn_all_reduce(Interpreter& in, const Value*, CallValues values) {
  const DistCall call(in, "dist.nn.functional.all_reduce(tensor, op=, group=)", std::move(values));
  const DTensor x = call.tensor("tensor");
  if (!call.takes_part() || in.plain()) return x;
  return all_reduce(x, call.op(), call.group());
}

Value run_nn_broadcast(Interpreter& in, const Value*, CallValues values) {
  const DistCall call(in, "dist.nn.functional.broadcast(tensor, src, group=)", std::move(values));
  const DTensor x = call.tensor("tensor");
  if (!call.takes_part() || in.plain()) return x;
  return broadcast(x, call.root("src", "group_src", false), call.group());
}

// One tensor for each rank.
Value run_nn_all_gather(Interpreter& in, const Value*, CallValues values) {
  const DistCall call(in, "dist.nn.functional.all_gather(tensor, group=)", std::move(values));
  const DTensor x = call.tensor("tensor");
  Values pieces;
  if (in.plain()) {
    pieces.assign(static_cast<std::size_t>(call.reported_size()), x);
  } else if (call.takes_part()) {
    for (const DTensor& piece : split(all_gather(unsqueeze(x, 0), 0, call.group()), 1)) {
      pieces.emplace_back(squeeze(piece, 0));
    }
  }
  return make_tuple(std::move(pieces));
}

Value run_nn_reduce_scatter(Interpreter& in, const Value*, CallValues values) {
  const DistCall call(in, "dist.nn.functional.reduce_scatter(output, input_list, op=, group=)",
                      std::move(values));
  if (!call.takes_part()) return call.tensor("output");
  const std::vector<DTensor> terms = call.tensors("input_list");
  if (in.plain()) return terms[static_cast<std::size_t>(call.reported_place())];
  return squeeze(reduce_scatter(stack(terms), 0, call.op(), call.group()), 0);
}

Value run_nn_all_to_all(Interpreter& in, const Value*, CallValues values) {
  const DistCall call(in,
                      "dist.nn.functional.all_to_all_single(output, input, output_split_sizes=, "
                      "input_split_sizes=, group=)",
                      std::move(values));
  const DTensor x = call.tensor("input");
  if (!call.takes_part() || in.plain()) return x;
  const Dims send = call.given().sizes_or("input_split_sizes", {});
  const Dims receive = call.given().sizes_or("output_split_sizes", {});
  return all_to_all(x, send, receive, call.group());
}

}  // namespace

BuiltinTable collective_builtins() {
  static const Builtin kTable[] = {
      {"all_gather", "(t, dim, group=)", run_all_gather<"t", "dim">},
      {"all_reduce", "(t, op=, group=)", run_all_reduce},
      {"all_to_all", "(t, split_dim, concat_dim, group=)", run_all_to_all},
      {"all_to_all_single", "(self, output_split_sizes=, input_split_sizes=, group=)",
       run_rows_exchanged},
      {"barrier", "(group=)", run_barrier},
      {"broadcast", "(t, src, group=)", run_broadcast<"t">},
      {"reduce_scatter", "(t, op, dim, group=)", run_reduce_scatter},
  };
  return kTable;
}

BuiltinTable funcol_builtins() {
  static const Builtin kTable[] = {
      {"all_gather_single", "funcol.all_gather_tensor(self, gather_dim, group, tag=)",
       run_all_gather<"self", "gather_dim">},
      {"all_gather_tensor", "funcol.all_gather_tensor(self, gather_dim, group, tag=)",
       run_all_gather<"self", "gather_dim">},
      {"all_gather_tensor_autograd", "funcol.all_gather_tensor(self, gather_dim, group, tag=)",
       run_all_gather<"self", "gather_dim">},
      {"all_reduce", "funcol.all_reduce(self, reduceOp, group, tag=)", run_funcol_all_reduce},
      {"all_to_all_single",
       "funcol.all_to_all_single(self, output_split_sizes, input_split_sizes, group, tag=)",
       run_rows_exchanged},
      {"all_to_all_single_autograd",
       "funcol.all_to_all_single(self, output_split_sizes, input_split_sizes, group, tag=)",
       run_rows_exchanged},
      {"broadcast", "funcol.broadcast(self, src, group, tag=)", run_broadcast<"self">},
      {"reduce_scatter_single", run_funcol_reduce_scatter},
      {"reduce_scatter_tensor", run_funcol_reduce_scatter},
      {"reduce_scatter_tensor_autograd", run_funcol_reduce_scatter},
      {"wait_tensor", "funcol.wait_tensor(tensor)",
       [](auto&, auto*, auto& given) -> Value { return given.tensor("tensor"); }},
  };
  return kTable;
}

BuiltinTable dist_nn_builtins() {
  static const Builtin kTable[] = {
      {"all_gather", run_nn_all_gather},         {"all_reduce", run_nn_all_reduce},
      {"all_to_all_single", run_nn_all_to_all},  {"broadcast", run_nn_broadcast},
      {"reduce_scatter", run_nn_reduce_scatter},
  };
  return kTable;
}

}  // namespace shardlab
