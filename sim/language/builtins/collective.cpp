// Collectives on local tensors, over a mesh dim or the world. They carry no gradients.
#include "api/collectives.h"

#include "sim/language/run/interpreter.h"
#include "sim/language/run/mesh_value.h"

namespace shardlab {

namespace {

Value run_all_reduce(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("all_reduce", {"t", "op=", "group="}, std::move(call));
  const ReduceOp op = given.has("op") ? reduction_of(given["op"]) : ReduceOp::kSum;
  return all_reduce(given.tensor("t"), op, group_of(in, given["group"]));
}

Value run_all_gather(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("all_gather", {"t", "dim", "group="}, std::move(call));
  return all_gather(given.tensor("t"), given.integer("dim"), group_of(in, given["group"]));
}

Value run_reduce_scatter(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("reduce_scatter", {"t", "op", "dim", "group="}, std::move(call));
  return reduce_scatter(given.tensor("t"), given.integer("dim"), reduction_of(given["op"]),
                        group_of(in, given["group"]));
}

Value run_all_to_all(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("all_to_all", {"t", "split_dim", "concat_dim", "group="}, std::move(call));
  return all_to_all(given.tensor("t"), given.integer("split_dim"), given.integer("concat_dim"),
                    group_of(in, given["group"]));
}

Value run_broadcast(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("broadcast", {"t", "src", "group="}, std::move(call));
  // The single-device run has the value.
  const std::int64_t source = in.plain() ? 0 : given.integer("src");
  return broadcast(given.tensor("t"), source, group_of(in, given["group"]));
}

Value run_barrier(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("barrier", {"group="}, std::move(call));
  barrier(group_of(in, given["group"]));
  return {};
}

}  // namespace

BuiltinTable collective_builtins() {
  static const Builtin kTable[] = {
      {"all_gather", run_all_gather}, {"all_reduce", run_all_reduce},
      {"all_to_all", run_all_to_all}, {"barrier", run_barrier},
      {"broadcast", run_broadcast},   {"reduce_scatter", run_reduce_scatter},
  };
  return kTable;
}

}  // namespace shardlab
