// A collective of a program is an event; here its arguments are checked, before other ranks hear of
// it.
#include "api/collectives.h"

#include <fmt/format.h>

#include <numeric>

#include "api/exchange.h"
#include "autograd/at_place.h"
#include "autograd/grad_node.h"
#include "autograd/program.h"
#include "base/fix.h"
#include "base/tensor_dim.h"

namespace shardlab {

namespace {

std::int64_t dim_of(const DTensor& x, std::int64_t dim) { return wrap_dim(dim, x.ndim()); }

void check_operand(std::string_view name, const DTensor& x, bool carries) {
  if (x.distributed()) {
    throw Error(ErrorKind::kValue, fmt::format("{}: {} is distributed", name, type_string(x)))
        .with("fix", "collectives take local tensors: x.to_local()");
  }
  if (!carries && records(x)) {
    throw Error(ErrorKind::kUnsupported, fmt::format("{}: carries no gradients", name))
        .with("fix", "detach() the tensor first, or take a sum");
  }
}

DTensor collected(const SourceLine& place, const CollectiveEvent& event) {
  const PlaceScope scope(place);
  const bool linear = carries_gradients(event.kind, event.op);
  check_operand(linear ? std::string(to_string(event.kind))
                       : fmt::format("{} of {}", to_string(event.kind), to_string(event.op)),
                event.x, linear);
  return program_calls().perform(event).at(0).tensor();
}

}  // namespace

DTensor all_reduce(Operand x, ReduceOp op, ProcessGroup& group) {
  return collected(x.place,
                   {.kind = CollectiveKind::kAllReduce, .group = &group, .x = x, .op = op});
}

DTensor all_gather(Operand x, std::int64_t dim, ProcessGroup& group) {
  return collected(
      x.place,
      {.kind = CollectiveKind::kAllGather, .group = &group, .x = x, .dim = dim_of(x, dim)});
}

DTensor reduce_scatter(Operand x, std::int64_t dim, ReduceOp op, ProcessGroup& group) {
  return collected(x.place, {.kind = CollectiveKind::kReduceScatter,
                             .group = &group,
                             .x = x,
                             .op = op,
                             .dim = dim_of(x, dim)});
}

DTensor all_to_all(Operand x, std::int64_t split_dim, std::int64_t concat_dim,
                   ProcessGroup& group) {
  return collected(x.place, {.kind = CollectiveKind::kAllToAll,
                             .group = &group,
                             .x = x,
                             .dim = dim_of(x, concat_dim),
                             .split_dim = dim_of(x, split_dim)});
}

DTensor all_to_all(Operand x, const Dims& send, const Dims& receive, ProcessGroup& group) {
  if (send.empty() && receive.empty()) return all_to_all(x, 0, 0, group);
  const PlaceScope scope(x.place);
  check_operand("all_to_all of unequal rows", x.tensor, false);
  Dims shape = x.tensor.shape();
  if (!shape.empty() && !receive.empty()) {
    shape[0] = std::accumulate(receive.begin(), receive.end(), std::int64_t{0});
  }
  const DTensor result = program_calls().one("aten::new_empty", {x.tensor, shape});
  collect_into({.kind = CollectiveKind::kAllToAll,
                .inputs = {x.tensor},
                .outputs = {result},
                .send_rows = send,
                .receive_rows = receive},
               group, x.place);
  return result;
}

DTensor broadcast(Operand x, std::int64_t source, ProcessGroup& group) {
  if (source < 0 || source >= group.size()) {
    fail(ErrorKind::kValue,
         Fix{fmt::format("give its place in the group, from 0 to {}", group.size() - 1)},
         "broadcast: src is {}; the group has {} ranks", source, group.size());
  }
  return collected(x.place,
                   {.kind = CollectiveKind::kBroadcast, .group = &group, .x = x, .source = source});
}

void barrier(ProcessGroup& group, SourceLine place) {
  const PlaceScope scope(place);
  program_calls().perform(
      CollectiveEvent{.kind = CollectiveKind::kBarrier, .group = &group, .x = DTensor()});
}

}  // namespace shardlab
