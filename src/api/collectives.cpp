// A collective of a program is an event; its arguments are checked here, before other ranks receive
// the call.
#include "api/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "api/exchange.h"
#include "autograd/at_place.h"
#include "autograd/grad_node.h"
#include "autograd/program.h"
#include "base/error.h"
#include "base/tensor_dim.h"
#include "base/text.h"

namespace shardlab {

namespace {

std::int64_t dim_of(const Operand& x, std::int64_t dim) {
  return at_place(x.place, [&] { return wrap_dim(dim, x.tensor.ndim()); });
}

void check_operand(std::string_view name, const DTensor& x, bool carries) {
  check_own(name, x);
  if (x.distributed()) {
    fail(Fix{"collectives take local tensors: x.to_local()"}, "{}: {} is distributed", name,
         type_string(x));
  }
  if (!carries && records(x)) {
    fail(ErrorKind::kUnsupported, Fix{"detach() the tensor first, or take a sum"},
         "{}: carries no gradients", name);
  }
}

DTensor collected(const SourceLine& place, const CollectiveEvent& event) {
  return at_place(place, [&] {
    const bool linear = carries_gradients(event.kind, event.op);
    check_operand(linear ? std::string(to_string(event.kind))
                         : fmt::format("{} of {}", to_string(event.kind), to_string(event.op)),
                  event.x, linear);
    return program_calls().perform(event).at(0).tensor();
  });
}

// Worded as in collect_into().
void check_rows(const CollectiveEvent& event) {
  const auto refuse = [&](const char* fix, const std::string& what) {
    fail(Fix{fix}, "all_to_all on group {} of {} ranks: {}", event.group->name(),
         event.group->size(), what);
  };
  for (const Dims* rows : {&event.sent, &event.received}) {
    const std::string text = fmt::format("it {} [{}]", rows == &event.sent ? "sends" : "receives",
                                         text_of_list(*rows, ", "));
    if (static_cast<std::int64_t>(rows->size()) != event.group->size()) {
      refuse("give one number of rows for each rank of the group",
             fmt::format("{}: {} numbers of rows", text, rows->size()));
    }
    const std::int64_t sum = std::accumulate(rows->begin(), rows->end(), std::int64_t{0});
    const bool negative = std::ranges::any_of(*rows, [](std::int64_t count) { return count < 0; });
    const bool fits = event.x.ndim() > 0 && (rows != &event.sent || event.x.shape()[0] == sum);
    if (!negative && fits) continue;
    refuse(
        "give numbers of rows that add up to those of the tensor",
        fmt::format("{} rows, {} in all, and the tensor is {}", text, sum, type_string(event.x)));
  }
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
  check_operand("all_to_all", x.tensor, true);
  const Dims equal(static_cast<std::size_t>(group.size()),
                   x.tensor.ndim() > 0 ? x.tensor.shape()[0] / group.size() : 0);
  CollectiveEvent event{.kind = CollectiveKind::kAllToAll, .group = &group, .x = x};
  event.sent = send.empty() ? equal : send;
  event.received = receive.empty() ? equal : receive;
  check_rows(event);
  return program_calls().perform(event).at(0).tensor();
}

DTensor broadcast(Operand x, std::int64_t source, ProcessGroup& group) {
  if (source < 0 || source >= group.size()) {
    fail(Fix{fmt::format("give its place in the group, from 0 to {}", group.size() - 1)},
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
