// Each call is a row: its name and its ops and collectives. Arguments of c10d are positional in
// schema order, those of its functions, too.
#include "sim/replay/library_nodes.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "dispatch/all_ops.h"
#include "ops/core/meta.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"

namespace shardlab {

namespace {

using Kind = CollectiveKind;
using Ids = std::vector<std::int32_t>;

class Nodes;

constexpr std::size_t kNone = ~std::size_t{0};
struct LibraryRow {
  std::string_view op;
  void (*add)(Nodes&);
  Kind kind = Kind::kBarrier;                   // of its collective
  std::size_t reduction = kNone, root = kNone;  // their places among its arguments
  bool memory = false;                          // as moves_memory()
};

class Nodes {
 public:
  Nodes(const LibraryCall& call, const LibraryRow& row) : call_(call), row_(row) {}

  // Arguments.

  bool has(std::size_t i) const { return i < call_.args.size(); }
  const GraphArgument& at(std::size_t i) const {
    if (has(i)) return call_.args[i];
    refuse(fmt::format("argument {} is missing", i));
  }
  Ids tensors(std::size_t i) const {
    Ids values;
    for_each_value(at(i), [&](const ValueRef& value) { values.push_back(value.id); });
    return values;
  }
  std::int32_t tensor(std::size_t i) const {
    const Ids values = tensors(i);
    if (values.empty()) refuse(fmt::format("argument {} is no tensor", i));
    return values[0];
  }
  std::int64_t number(std::size_t i) const {
    if (const auto number = number_at(call_.args, i)) return *number;
    refuse(fmt::format("argument {} is no whole number", i));
  }
  Dims sizes(std::size_t i) const {
    const auto* dims = std::get_if<Dims>(&at(i).value);
    return dims == nullptr ? Dims() : *dims;
  }
  ReduceOp reduction() const {
    if (row_.reduction == kNone) return ReduceOp::kSum;
    const auto* name = std::get_if<std::string>(&at(row_.reduction).value);
    const auto op = name == nullptr ? std::nullopt : parse_reduce_op(*name);
    if (op) return *op;
    fail(ErrorKind::kUnsupported, Fix{"sum, avg, max, min and product are known"},
         "no reduction is called '{}'", name == nullptr ? "" : *name);
  }
  Ids filled() const {
    Ids values;
    for_each_value_in(call_.event.filled, [&](std::int32_t id) { values.push_back(id); });
    return values;
  }
  ValueType type(std::int32_t value) const { return call_.type_of(value); }
  std::int64_t place() const { return call_.place; }

  // Nodes.

  /// The op with its defaults; arguments that are given come first.
  void op(const std::string& name, std::vector<GraphArgument> given, std::int32_t result) {
    const OpRow& row = *all_ops().find(name);
    for (std::size_t i = given.size(); i < row.op.arguments.size(); ++i) given.emplace_back();
    GraphNode& node = call_.add(NodeKind::kOp);
    node.name = name;
    node.args = std::move(given);
    node.results = {{ValueRef{result}, {}}};
  }
  std::int32_t made(const std::string& name, std::vector<GraphArgument> given) {
    const std::int32_t result = call_.fresh();
    op(name, std::move(given), result);
    return result;
  }
  std::int32_t clone(std::int32_t x) { return made("aten::clone", {{ValueRef{x}}}); }
  std::int32_t rows(std::int32_t x, std::int64_t dim, std::int64_t from, std::int64_t count) {
    return made("aten::narrow", {{ValueRef{x}}, {Scalar(dim)}, {Scalar(from)}, {Scalar(count)}});
  }
  void copy(std::int32_t target, std::int32_t source) {
    op("aten::copy_", {{ValueRef{target}}, {ValueRef{source}}, {Scalar(false)}}, target);
  }

  /// Elements from the first one on in memory, gaps included, as many as it has: gloo moves them
  /// in calls that do not copy. Behind the last one of a tensor is what nobody knows.
  std::int32_t memory(std::int32_t x) {
    const ValueType own = type(x);
    const Dims stride = contiguous_strides(own.shape);
    if (own.stride == stride) return x;
    std::int64_t last = 0;
    for (std::size_t i = 0; i < stride.size(); ++i) last += (own.shape[i] - 1) * own.stride[i];
    if (last + 1 < product(own.shape)) {
      call_.reaches_behind();
      return clone(x);
    }
    return made("aten::as_strided", {{ValueRef{x}}, {own.shape}, {stride}});
  }
  bool is_dense(std::int32_t x) const {
    const ValueType own = type(x);
    return shardlab::is_dense({own.shape, own.stride, own.dtype});
  }

  /// A collective that fills tensors.
  void fill(const Ids& inputs, const Ids& outputs) {
    GraphNode& node = collective();
    node.in_place = true;
    node.args = {list(inputs), list(outputs)};
  }
  /// The same where gloo copies elements into the tensors: these may have gaps.
  void fill_elements(const Ids& inputs, const Ids& outputs) {
    Ids dense = outputs;
    for (std::int32_t& x : dense) {
      if (!is_dense(x)) x = clone(x);
    }
    fill(inputs, dense);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (dense[i] != outputs[i]) copy(outputs[i], dense[i]);
    }
  }
  /// One that gives the result of the call.
  void give(const Dims& sent, const Dims& received) {
    GraphNode& node = collective();
    node.args = {{ValueRef{tensor(0)}}};
    node.sent.assign(sent.begin(), sent.end());
    node.received.assign(received.begin(), received.end());
    node.results = {{ValueRef{result()}, {}}};
  }
  std::int32_t result() const { return call_.event.out.empty() ? -1 : call_.event.out[0].id.id; }

  /// Numbers of rows: equally many for each rank of the group where none are given.
  Dims counts(std::int32_t x, const Dims& given) const {
    const Dims shape = type(x).shape;
    if (!given.empty() || shape.empty()) return given;
    return Dims(static_cast<std::size_t>(call_.ranks), shape[0] / call_.ranks);
  }
  /// Views of so many rows each.
  Ids parts(std::int32_t x, const Dims& counts) {
    Ids parts;
    std::int64_t from = 0;
    for (const std::int64_t count : counts) {
      parts.push_back(rows(x, 0, from, count));
      from += count;
    }
    return parts;
  }

 private:
  GraphNode& collective() {
    const ReduceOp op = reduction();
    const std::int64_t root = row_.root == kNone ? 0 : number(row_.root);
    GraphNode& node = call_.add(NodeKind::kCollective);
    node.name = to_string(row_.kind);
    node.group = call_.group;
    node.op = op;
    node.source = root;
    return node;
  }
  [[noreturn]] void refuse(const std::string& why) const {
    fail(ErrorKind::kValue, "{}: {}", call_.event.op, why);
  }
  static GraphArgument list(const Ids& values) {
    std::vector<GraphArgument> items;
    for (const std::int32_t value : values) items.push_back({ValueRef{value}});
    return {std::move(items)};
  }

  const LibraryCall& call_;
  const LibraryRow& row_;
};

// Reduces or moves each tensor of a list by itself.
void in_place(Nodes& nodes) {
  for (const std::int32_t x : nodes.tensors(0)) {
    const Ids own = {nodes.memory(x)};
    nodes.fill(own, own);
  }
}

// The input may be this rank's part of the output.
void fill(Nodes& nodes) {
  const std::int32_t input = nodes.clone(nodes.tensor(1));
  nodes.fill_elements({input}, nodes.tensors(0));
}

// Lists on both sides, one tensor for each rank; on ranks but the root one of them is empty.
void fill_lists(Nodes& nodes) { nodes.fill_elements(nodes.tensors(1), nodes.tensors(0)); }

// Gives its result.
void give(Nodes& nodes) { nodes.give({}, {}); }
void give_rows(Nodes& nodes) { nodes.give(nodes.sizes(2), nodes.sizes(1)); }
void give_operand(Nodes& nodes) {
  nodes.op("aten::alias", {{ValueRef{nodes.tensor(0)}}}, nodes.result());
}

void scatter(Nodes& nodes) {
  Ids outputs = nodes.tensors(0), inputs = nodes.tensors(1);
  for (Ids* const list : {&outputs, &inputs}) {
    for (std::int32_t& x : *list) x = nodes.memory(x);
  }
  nodes.fill(inputs, outputs);
}

// Gloo copies this rank's input to the output, by elements, and adds the memory of the others' to
// the output's memory; they are copies, which keep the order of dense memory.
void reduce_scatter(Nodes& nodes) {
  const std::int32_t output = nodes.tensors(0).at(0);
  Ids inputs = nodes.tensors(1);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    std::int32_t& x = inputs[i];
    if (static_cast<std::int64_t>(i) == nodes.place()) {
      nodes.copy(output, x);
      x = nodes.clone(nodes.memory(output));
    } else {
      x = nodes.is_dense(x) ? nodes.memory(x) : nodes.clone(x);
    }
  }
  nodes.fill(inputs, {nodes.memory(output)});
}

// c10d::alltoall_base_(output, input, group, output rows, input rows)
void exchange_rows(Nodes& nodes) {
  const Dims sent = nodes.sizes(4), received = nodes.sizes(3);
  const std::int32_t input = nodes.tensor(1), output = nodes.tensor(0);
  const std::int32_t copy = nodes.clone(input), target = nodes.memory(output);
  if (sent.empty() && received.empty()) return nodes.fill({copy}, {target});
  const Ids inputs = nodes.parts(copy, nodes.counts(input, sent));
  nodes.fill(inputs, nodes.parts(target, nodes.counts(output, received)));
}

// fsdp::all_gather_copy_in(inputs, output, sizes, count, rank)
void copy_in(Nodes& nodes) {
  const std::int64_t count = nodes.number(3), rank = nodes.number(4);
  const std::int32_t own = nodes.result();
  nodes.op("aten::narrow",
           {{ValueRef{nodes.tensor(1)}},
            {Scalar(std::int64_t{0})},
            {Scalar(rank * count)},
            {Scalar(count)}},
           own);
  std::int64_t at = 0;
  for (const std::int32_t input : nodes.tensors(0)) {
    const std::int64_t size = product(nodes.type(input).shape);
    nodes.copy(nodes.rows(own, 0, at, size), input);
    at += size;
  }
}

// fsdp::split_with_sizes_copy(x, sizes, dim, *, out)
void split_copy(Nodes& nodes) {
  const Dims sizes = nodes.sizes(1);
  const Ids out = nodes.filled();
  const std::int64_t dim = nodes.has(2) ? nodes.number(2) : 0;
  std::int64_t at = 0;
  for (std::size_t i = 0; i < std::min(sizes.size(), out.size()); ++i) {
    nodes.copy(out[i], nodes.rows(nodes.tensor(0), dim, at, sizes[i]));
    at += sizes[i];
  }
}

// fsdp::chunk_cat(tensors, dim, chunks, *, out)
void chunk_copy(Nodes& nodes) {
  const Ids out = nodes.filled();
  if (out.empty()) fail(ErrorKind::kValue, "it fills no tensor");
  std::vector<GraphArgument> tensors;
  for (const std::int32_t x : nodes.tensors(0)) {
    tensors.push_back({ValueRef{nodes.made(
        "aten::to.dtype",
        {{ValueRef{x}}, {nodes.type(out[0]).dtype}, {Scalar(false)}, {Scalar(false)}, {}})}});
  }
  nodes.copy(out[0], nodes.made("aten::_chunk_cat", {{std::move(tensors)},
                                                     {Scalar(nodes.number(1))},
                                                     {Scalar(nodes.number(2))}}));
}

constexpr LibraryRow kLibraryRows[] = {
    {"c10d.allreduce_.default", in_place, Kind::kAllReduce, 2, kNone, true},
    {"c10d.reduce_.default", in_place, Kind::kReduce, 2, 3, true},
    {"c10d.broadcast_.default", in_place, Kind::kBroadcast, kNone, 2, true},
    {"c10d._allgather_base_.default", fill, Kind::kAllGather},
    {"c10d.allgather_.default", fill, Kind::kAllGather},
    {"c10d._reduce_scatter_base_.default", fill, Kind::kReduceScatter, 3},
    {"c10d.reduce_scatter_.default", reduce_scatter, Kind::kReduceScatter, 3, kNone, true},
    {"c10d.alltoall_.default", fill_lists, Kind::kAllToAll},
    {"c10d.gather_.default", fill_lists, Kind::kGather, kNone, 3},
    {"c10d.scatter_.default", scatter, Kind::kScatter, kNone, 3, true},
    {"c10d.alltoall_base_.default", exchange_rows, Kind::kAllToAll, kNone, kNone, true},
    {"_c10d_functional.all_reduce.default", give, Kind::kAllReduce, 1},
    {"_c10d_functional.all_reduce_.default", in_place, Kind::kAllReduce, 1},
    {"_c10d_functional.all_gather_into_tensor.default", give, Kind::kAllGather},
    {"_c10d_functional.reduce_scatter_tensor.default", give, Kind::kReduceScatter, 1},
    {"_c10d_functional.all_to_all_single.default", give_rows, Kind::kAllToAll},
    {"_c10d_functional.broadcast.default", give, Kind::kBroadcast, kNone, 1},
    {"_c10d_functional.wait_tensor.default", give_operand},
    {"fsdp.all_gather_copy_in.default", copy_in},
    {"fsdp.split_with_sizes_copy.default", split_copy},
    {"fsdp.chunk_cat.default", chunk_copy},
    {"fsdp.chunk_cat_mixed_dtype.default", chunk_copy},
};

const LibraryRow* row_of(std::string_view op) {
  const auto* row = std::ranges::find(kLibraryRows, op, &LibraryRow::op);
  return row == std::end(kLibraryRows) ? nullptr : row;
}

}  // namespace

bool is_library_call(std::string_view op) { return row_of(op) != nullptr; }

bool has_place(std::string_view op) { return op == "c10d.reduce_scatter_.default"; }

bool moves_memory(std::string_view op) {
  const LibraryRow* row = row_of(op);
  return row != nullptr && row->memory;
}

std::optional<std::int64_t> root_of_call(const RecordedEvent& event) {
  const LibraryRow* row = row_of(event.op);
  return row == nullptr ? std::nullopt : number_at(event.args, row->root);
}

void add_library_nodes(const LibraryCall& call) {
  const LibraryRow& row = *row_of(call.event.op);
  Nodes nodes(call, row);
  row.add(nodes);
}

}  // namespace shardlab
