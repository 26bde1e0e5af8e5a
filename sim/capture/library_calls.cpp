// Each call is a row: its name and its ops and collectives. Arguments of c10d are positional in
// schema order, those of its functions, too.
#include "sim/capture/library_calls.h"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <vector>

#include "api/collectives.h"
#include "api/groups.h"
#include "base/fix.h"
#include "dispatch/plain_calls.h"

namespace shardlab {

namespace {

using Kind = CollectiveKind;

struct LibraryCall {
  const Arguments& args;
  const ArgumentList& out;
  const MeshLayout* mesh;

  const DTensor& tensor(std::size_t i) const { return args.at(i).tensor(); }
  ProcessGroup& group(std::size_t i) const {
    const std::string& name = args.at(i).string();
    if (name.empty()) return world_group();
    if (mesh->find_dim(name)) return get_group(mesh, name);
    return get_group(recorded_group(mesh->arena(), name));
  }
  ReduceOp reduction(std::size_t i) const {
    const std::string& name = args.at(i).string();
    const auto op = parse_reduce_op(name);
    if (op) return *op;
    fail(ErrorKind::kUnsupported, Fix{"sum, avg, max, min and product are known"},
         "no reduction is called '{}'", name);
  }
  Dims sizes(std::size_t i) const { return args.at(i).is_ints() ? args.at(i).ints() : Dims(); }
};

std::vector<DTensor> tensors_in(const Argument& list) {
  std::vector<DTensor> tensors;
  if (list.is_tensor()) return {list.tensor()};
  if (list.is_ints()) return {};  // an empty list does not show its type
  for (const Argument& item : list.list()) {
    for (DTensor& one : tensors_in(item)) tensors.push_back(std::move(one));
  }
  return tensors;
}

DTensor call_of(std::string_view op, const Arguments& args) { return plain_calls().one(op, args); }

void copy_into(const DTensor& target, const DTensor& source) {
  call_of("aten::copy_", {target, source, false});
}

// Reduces or moves each tensor of a list by itself.
void in_place(const LibraryCall& call, Kind kind, std::size_t group, ReduceOp op,
              std::int64_t root) {
  for (const DTensor& x : tensors_in(call.args.at(0))) {
    collect_into({.kind = kind, .inputs = {x}, .outputs = {x}, .op = op, .root = root},
                 call.group(group));
  }
}

Results fill(const LibraryCall& call, CollectInto what, std::size_t group) {
  // The input may be this rank's part of the output.
  what.inputs = {call_of("aten::clone", {tensors_in(call.args.at(1)).at(0), Argument()})};
  what.outputs = tensors_in(call.args.at(0));
  collect_into(what, call.group(group));
  return {};
}

// Lists on both sides, one tensor for each rank; on ranks but the root one of them is empty.
Results fill_lists(const LibraryCall& call, CollectInto what, std::size_t group) {
  what.inputs = tensors_in(call.args.at(1));
  what.outputs = tensors_in(call.args.at(0));
  collect_into(what, call.group(group));
  return {};
}

// fsdp::all_gather_copy_in(inputs, output, sizes, count, rank)
Results copy_in(const LibraryCall& call) {
  const std::int64_t count = call.args.at(3).to_int(), rank = call.args.at(4).to_int();
  const DTensor own = call_of("aten::narrow", {call.tensor(1), 0, rank * count, count});
  std::int64_t at = 0;
  for (const DTensor& input : tensors_in(call.args.at(0))) {
    const std::int64_t size = input.numel();
    copy_into(call_of("aten::narrow", {own, 0, at, size}), input);
    at += size;
  }
  return {own, call.tensor(1)};
}

// fsdp::split_with_sizes_copy(x, sizes, dim, *, out)
Results split_copy(const LibraryCall& call) {
  const std::int64_t dim = call.args.size() > 2 ? call.args[2].to_int() : 0;
  const Dims sizes = call.sizes(1);
  std::int64_t at = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    copy_into(call.out.at(i).tensor(),
              call_of("aten::narrow", {call.tensor(0), dim, at, sizes[i]}));
    at += sizes[i];
  }
  return {};
}

// fsdp::chunk_cat(tensors, dim, chunks, *, out)
Results chunk_copy(const LibraryCall& call) {
  const DTensor& out = call.out.at(0).tensor();
  ArgumentList tensors;
  for (const DTensor& x : tensors_in(call.args.at(0))) {
    tensors.emplace_back(call_of("aten::to.dtype", {x, out.dtype(), false, false, Argument()}));
  }
  copy_into(out, call_of("aten::_chunk_cat", {tensors, call.args.at(1), call.args.at(2)}));
  return {};
}

struct LibraryRow {
  std::string_view op;
  Results (*run)(const LibraryCall&);
};

const LibraryRow kRows[] = {
    {"c10d.allreduce_.default",
     [](const LibraryCall& call) -> Results {
       in_place(call, Kind::kAllReduce, 1, call.reduction(2), 0);
       return {};
     }},
    {"c10d.broadcast_.default",
     [](const LibraryCall& call) -> Results {
       in_place(call, Kind::kBroadcast, 1, ReduceOp::kSum, call.args.at(2).to_int());
       return {};
     }},
    {"c10d._allgather_base_.default",
     [](const LibraryCall& call) { return fill(call, {.kind = Kind::kAllGather}, 2); }},
    {"c10d.allgather_.default",
     [](const LibraryCall& call) { return fill(call, {.kind = Kind::kAllGather}, 2); }},
    {"c10d._reduce_scatter_base_.default",
     [](const LibraryCall& call) {
       return fill(call, {.kind = Kind::kReduceScatter, .op = call.reduction(3)}, 2);
     }},
    {"c10d.reduce_scatter_.default",
     [](const LibraryCall& call) {
       return fill_lists(call, {.kind = Kind::kReduceScatter, .op = call.reduction(3)}, 2);
     }},
    {"c10d.alltoall_.default",
     [](const LibraryCall& call) { return fill_lists(call, {.kind = Kind::kAllToAll}, 2); }},
    {"c10d.gather_.default",
     [](const LibraryCall& call) {
       return fill_lists(call, {.kind = Kind::kGather, .root = call.args.at(3).to_int()}, 2);
     }},
    {"c10d.scatter_.default",
     [](const LibraryCall& call) {
       return fill_lists(call, {.kind = Kind::kScatter, .root = call.args.at(3).to_int()}, 2);
     }},
    {"c10d.alltoall_base_.default",
     [](const LibraryCall& call) {
       return fill(
           call,
           {.kind = Kind::kAllToAll, .send_rows = call.sizes(4), .receive_rows = call.sizes(3)}, 2);
     }},
    {"_c10d_functional.all_reduce.default",
     [](const LibraryCall& call) -> Results {
       return {all_reduce(call.tensor(0), call.reduction(1), call.group(2))};
     }},
    {"_c10d_functional.all_reduce_.default",
     [](const LibraryCall& call) -> Results {
       in_place(call, Kind::kAllReduce, 2, call.reduction(1), 0);
       return {call.tensor(0)};
     }},
    {"_c10d_functional.all_gather_into_tensor.default",
     [](const LibraryCall& call) -> Results {
       return {all_gather(call.tensor(0), 0, call.group(2))};
     }},
    {"_c10d_functional.reduce_scatter_tensor.default",
     [](const LibraryCall& call) -> Results {
       return {reduce_scatter(call.tensor(0), 0, call.reduction(1), call.group(3))};
     }},
    {"_c10d_functional.all_to_all_single.default",
     [](const LibraryCall& call) -> Results {
       return {all_to_all(call.tensor(0), call.sizes(2), call.sizes(1), call.group(3))};
     }},
    {"_c10d_functional.broadcast.default",
     [](const LibraryCall& call) -> Results {
       return {broadcast(call.tensor(0), call.args.at(1).to_int(), call.group(2))};
     }},
    {"_c10d_functional.wait_tensor.default",
     [](const LibraryCall& call) -> Results { return {call.tensor(0)}; }},
    {"fsdp.all_gather_copy_in.default", copy_in},
    {"fsdp.split_with_sizes_copy.default", split_copy},
    {"fsdp.chunk_cat.default", chunk_copy},
    {"fsdp.chunk_cat_mixed_dtype.default", chunk_copy},
};

const LibraryRow* row_of(std::string_view op) {
  const auto* row = std::ranges::find(kRows, op, &LibraryRow::op);
  return row == std::end(kRows) ? nullptr : row;
}

}  // namespace

const MeshLayout* recorded_group(Arena& arena, const std::string& ranks) {
  MeshLayout::Init init{.shape = {}, .names = {"group"}, .ranks = {}};
  std::istringstream text(ranks);
  for (std::string rank; std::getline(text, rank, ',');) init.ranks.push_back(std::stoll(rank));
  init.shape = {static_cast<std::int64_t>(init.ranks.size())};
  return arena.layout(std::move(init));
}

bool is_library_call(std::string_view op) { return row_of(op) != nullptr; }

Results run_library_call(std::string_view op, const Arguments& args, const ArgumentList& out,
                         const MeshLayout* mesh) {
  return row_of(op)->run({args, out, mesh});
}

}  // namespace shardlab
