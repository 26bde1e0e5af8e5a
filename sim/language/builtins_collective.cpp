// Collectives on local tensors, over a mesh dim or the world. They carry no gradients.
#include <vector>

#include "base/fix.h"
#include "base/tensor_dim.h"
#include "mesh/local_shape.h"
#include "sim/language/interpreter.h"
#include "sim/language/mesh_value.h"

namespace shardlab {

namespace {

Tensor local_of(const Parameters& given, std::string_view function) {
  const DTensor tensor = given.tensor("t");
  if (tensor.distributed()) {
    throw Error(ErrorKind::kValue,
                fmt::format("{}: {} is distributed", function, type_string(tensor)))
        .with("fix", "collectives take local tensors: x.to_local()");
  }
  if (tensor.requires_grad()) {
    throw Error(ErrorKind::kUnsupported, fmt::format("{}: carries no gradients", function))
        .with("fix", "use redistribute(), which does");
  }
  return tensor.local();
}

std::int64_t tensor_dim(const Parameters& given, std::string_view name, const Tensor& tensor) {
  return wrap_dim(given.integer(name), static_cast<std::size_t>(tensor.dim()));
}

std::vector<std::int64_t> equal_lengths(const ProcessGroup& group, std::int64_t length) {
  return std::vector<std::int64_t>(static_cast<std::size_t>(group.size()), length);
}

std::vector<std::int64_t> chunk_lengths(const ProcessGroup& group, std::int64_t length) {
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < group.size(); ++i) {
    out.push_back(chunk_of(length, group.size(), i).size);
  }
  return out;
}

// The result depends on how many ranks took part: the single-device run has nothing to compare it
// with.
Value collected(Tensor result) {
  DTensor value(std::move(result));
  value.impl()->exact = false;
  value.impl()->rank_local = true;
  return value;
}

Value run_all_reduce(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("all_reduce", {"t", "op=", "group="}, std::move(call));
  const Tensor tensor = local_of(given, "all_reduce");
  const ReduceOp op = given.has("op") ? reduction_of(given["op"]) : ReduceOp::kSum;
  return collected(group_of(in, given["group"]).all_reduce(tensor, op));
}

// Every rank brings as much as this one; ranks that do not are reported as a mismatch.
Value run_all_gather(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("all_gather", {"t", "dim", "group="}, std::move(call));
  const Tensor tensor = local_of(given, "all_gather");
  const std::int64_t dim = tensor_dim(given, "dim", tensor);
  ProcessGroup& group = group_of(in, given["group"]);
  const auto lengths = equal_lengths(group, tensor.size(static_cast<std::size_t>(dim)));
  return collected(group.all_gather(tensor, dim, lengths));
}

Value run_reduce_scatter(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("reduce_scatter", {"t", "op", "dim", "group="}, std::move(call));
  const Tensor tensor = local_of(given, "reduce_scatter");
  const std::int64_t dim = tensor_dim(given, "dim", tensor);
  ProcessGroup& group = group_of(in, given["group"]);
  const auto lengths = chunk_lengths(group, tensor.size(static_cast<std::size_t>(dim)));
  return collected(group.reduce_scatter(tensor, dim, lengths, reduction_of(given["op"])));
}

Value run_all_to_all(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("all_to_all", {"t", "split_dim", "concat_dim", "group="}, std::move(call));
  const Tensor tensor = local_of(given, "all_to_all");
  const std::int64_t split = tensor_dim(given, "split_dim", tensor);
  const std::int64_t concat = tensor_dim(given, "concat_dim", tensor);
  ProcessGroup& group = group_of(in, given["group"]);
  const auto sent = chunk_lengths(group, tensor.size(static_cast<std::size_t>(split)));
  // Along the dim that is cut, each rank brings this rank's chunk of it.
  const std::int64_t mine = sent[static_cast<std::size_t>(group.rank())];
  const auto received =
      equal_lengths(group, split == concat ? mine : tensor.size(static_cast<std::size_t>(concat)));
  return collected(group.all_to_all(tensor, split, sent, concat, received, Issue::kWait));
}

Value run_broadcast(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("broadcast", {"t", "src", "group="}, std::move(call));
  const Tensor tensor = local_of(given, "broadcast");
  ProcessGroup& group = group_of(in, given["group"]);
  const std::int64_t source =
      in.plain() ? 0 : given.integer("src");  // the single-device run has the value
  if (source < 0 || source >= group.size()) {
    fail(ErrorKind::kValue,
         Fix{fmt::format("give its place in the group, from 0 to {}", group.size() - 1)},
         "broadcast: src is {}; the group has {} ranks", source, group.size());
  }
  return collected(
      group.broadcast(tensor, source, contiguous_meta(tensor.shape(), tensor.dtype())));
}

Value run_barrier(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("barrier", {"group="}, std::move(call));
  group_of(in, given["group"]).barrier();
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
