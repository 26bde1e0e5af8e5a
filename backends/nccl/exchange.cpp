// NCCL's collectives need contiguous memory and even pieces. If pieces follow each other in the
// tensors themselves (the dims in front are of size 1) they are used in place; otherwise they are
// packed before and unpacked afterwards. Uneven pieces take the route that moves less (route.h):
// padded, or as grouped sends and receives. Extrema of floats are computed on integers of the same
// order, made before and turned back afterwards. Reductions that NCCL does not do are gathered and
// combined by the ranks, in rank order. All memory of an exchange is held until it is over.
#include "backends/nccl/exchange.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "backends/nccl/native.h"
#include "backends/nccl/route.h"
#include "backends/shared/pieces.h"
#include "backends/shared/reduce.h"
#include "base/error.h"
#include "tensor/device.h"

namespace shardlab::nccl {

using backends::address;
using backends::BatchPart;
using backends::Call;
using backends::copy;
using backends::with_size;

namespace {

std::vector<std::int64_t> offsets_of(Lengths lengths) {
  std::vector<std::int64_t> offsets(lengths.size());
  std::exclusive_scan(lengths.begin(), lengths.end(), offsets.begin(), std::int64_t{0});
  return offsets;
}

// One of several pieces that follow each other in one tensor's memory.
Tensor piece_in(const Tensor& memory, const Dims& shape, std::int64_t offset) {
  return memory.as_view(contiguous_meta(shape, memory.dtype()), memory.offset() + offset);
}

// The pieces one behind the other along `dim`, into a tensor of their size.
void put_together(const Tensor& whole, std::size_t dim, const std::vector<Tensor>& pieces) {
  std::int64_t offset = 0;
  for (const Tensor& piece : pieces) {
    copy(whole.narrow(dim, offset, piece.size(dim)), piece);
    offset += piece.size(dim);
  }
}

// Whether pieces along `dim` follow each other in a row-major tensor.
bool follow_each_other(const Dims& shape, std::int64_t dim) {
  return std::all_of(shape.begin(), shape.begin() + dim, [](std::int64_t s) { return s == 1; });
}

// Builds one exchange. All addresses are of tensors that it holds.
class Planner {
 public:
  Planner(Session& session, const GroupPlace& place, Device& device)
      : session_(session), place_(place), device_(device) {}

  Exchange all_reduce(const Tensor& x, ReduceOp op, std::int32_t destination);
  Exchange all_gather(const Tensor& x, std::int64_t dim, Lengths lengths, const Dims& shape);
  Exchange reduce_scatter(const Tensor& x, std::int64_t dim, Lengths lengths, ReduceOp op);
  Exchange all_to_all(const Tensor& x, const Call& call, const Dims& shape);
  Exchange broadcast(const Call& call);
  Exchange scatter(const Call& call, const Dims& shape);
  Exchange gather(const Call& call, const Dims& shape);
  Exchange permute(const Call& call);
  Exchange batch(BatchPart& part);

 private:
  struct Message {
    std::int64_t peer;
    Tensor memory;
  };

  std::size_t size() const { return place_.ranks.size(); }
  std::size_t me() const { return static_cast<std::size_t>(place_.rank); }
  Tensor memory(std::int64_t elements, DType dtype) {
    return hold(empty(device_, Dims{elements}, dtype));
  }
  Tensor hold(Tensor tensor) {
    held_.push_back(tensor);
    return tensor;
  }
  void send(std::int64_t peer, const Tensor& x) {
    if (x.numel() > 0) sends_.push_back({peer, hold(x)});
  }
  void receive(std::int64_t peer, const Tensor& into) {
    if (into.numel() > 0) receives_.push_back({peer, hold(into)});
  }
  /// The exchange that has been put together, and `calls` with it.
  Exchange done(std::function<Tensor()> finish, std::vector<GroupCall> calls = {});

  static std::vector<GroupCall> gather_call(const Tensor& from, const Tensor& to);
  static std::vector<GroupCall> reduce_call(GroupCall::Kind kind, const Tensor& from,
                                            const Tensor& to, const Tensor& counted,
                                            const Native& native);
  Tensor packed(const Tensor& x, std::int64_t dim, Lengths lengths, std::int64_t room);
  Exchange reduce_pieces(const Tensor& packed, Lengths counts, const Dims& shape, ReduceOp op);
  static Tensor ordered(Session& session, backends::Ordering::To to, ReduceOp op,
                        const Tensor& from, Tensor result);
  Tensor integers_of(const Tensor& floats, ReduceOp op, DType integers);
  static Tensor floats_of(Session& session, const Tensor& integers, const TensorMeta& meta,
                          ReduceOp op);
  static Tensor reduced(Session& session, std::size_t ranks, const Tensor& all, const Dims& shape,
                        ReduceOp op);

  Session& session_;
  const GroupPlace& place_;
  Device& device_;
  std::vector<Tensor> held_;
  std::vector<Message> sends_;
  std::vector<Message> receives_;
};

Exchange Planner::done(std::function<Tensor()> finish, std::vector<GroupCall> calls) {
  Exchange exchange;
  exchange.finish = std::move(finish);
  exchange.held = std::move(held_);
  exchange.calls = std::move(calls);
  const auto message = [](GroupCall::Kind kind, const Message& part) {
    return GroupCall{.kind = kind,
                     .from = kind == GroupCall::Kind::kSend ? address(part.memory) : nullptr,
                     .to = kind == GroupCall::Kind::kRecv ? address(part.memory) : nullptr,
                     .count = static_cast<std::size_t>(part.memory.size_bytes()),
                     .peer = static_cast<int>(part.peer)};
  };
  for (const Message& sent : sends_) {
    exchange.calls.push_back(message(GroupCall::Kind::kSend, sent));
  }
  for (const Message& received : receives_) {
    exchange.calls.push_back(message(GroupCall::Kind::kRecv, received));
  }
  return exchange;
}

std::vector<GroupCall> Planner::gather_call(const Tensor& from, const Tensor& to) {
  if (from.numel() == 0) return {};
  return {{.kind = GroupCall::Kind::kAllGather,
           .from = address(from),
           .to = address(to),
           .count = static_cast<std::size_t>(from.size_bytes())}};
}

// A reduction that NCCL does, of as many elements as `counted` has.
std::vector<GroupCall> Planner::reduce_call(GroupCall::Kind kind, const Tensor& from,
                                            const Tensor& to, const Tensor& counted,
                                            const Native& native) {
  if (counted.numel() == 0) return {};
  return {{.kind = kind,
           .from = address(from),
           .to = address(to),
           .count = static_cast<std::size_t>(counted.numel() * native.per_element),
           .type = native.type,
           .op = native.op}};
}

// The ranks' terms follow each other in `all`.
Tensor Planner::reduced(Session& session, std::size_t ranks, const Tensor& all, const Dims& shape,
                        ReduceOp op) {
  const Tensor result = empty(*all.device(), shape, all.dtype());
  const std::int64_t count = result.numel();
  if (count == 0) return result;
  std::vector<const void*> inputs;
  for (std::size_t i = 0; i < ranks; ++i) {
    inputs.push_back(address(all) + static_cast<std::int64_t>(i) * count * item_bytes(all.dtype()));
  }
  session.side().reduce({.dtype = all.dtype(),
                         .op = op,
                         .inputs = inputs,
                         .output = address(result),
                         .rows = 1,
                         .row_elements = count,
                         .row_stride = count});
  return result;
}

// Floats as the integers of the same order for a maximum or minimum, or those as floats again: as
// many as `result` holds.
Tensor Planner::ordered(Session& session, backends::Ordering::To to, ReduceOp op,
                        const Tensor& from, Tensor result) {
  using To = backends::Ordering::To;
  const DType floats = to == To::kIntegers ? from.dtype() : result.dtype();
  if (result.numel() > 0) {
    session.side().order({to, floats, op, address(from), address(result), result.numel()});
  }
  return result;
}

Tensor Planner::integers_of(const Tensor& floats, ReduceOp op, DType integers) {
  return ordered(session_, backends::Ordering::To::kIntegers, op, floats,
                 memory(floats.numel(), integers));
}

Tensor Planner::floats_of(Session& session, const Tensor& integers, const TensorMeta& meta,
                          ReduceOp op) {
  return ordered(session, backends::Ordering::To::kFloats, op, integers,
                 empty(*integers.device(), meta.shape, meta.dtype));
}

// To all ranks, or to one.
Exchange Planner::all_reduce(const Tensor& x, ReduceOp op, std::int32_t destination) {
  hold(x);
  const auto native = native_reduction(x.dtype(), op);
  if (native) {
    const bool stands_in = native->stand_in.has_value();
    const Tensor from = stands_in ? integers_of(x, op, *native->stand_in) : x;
    // Integers of its own are reduced where they are.
    const Tensor arrived = stands_in ? from : hold(empty(device_, x.shape(), x.dtype()));
    const bool to_all = destination < 0;
    std::vector<GroupCall> calls =
        reduce_call(to_all ? GroupCall::Kind::kAllReduce : GroupCall::Kind::kReduce, from, arrived,
                    from, *native);
    for (GroupCall& call : calls) call.peer = destination;
    return done(
        [&session = session_, arrived, stands_in, op,
         meta = contiguous_meta(x.shape(), x.dtype())] {
          return stands_in ? floats_of(session, arrived, meta, op) : arrived;
        },
        std::move(calls));
  }
  const Tensor all = memory(x.numel() * static_cast<std::int64_t>(size()), x.dtype());
  return done([&session = session_, ranks = size(), all, shape = x.shape(),
               op] { return reduced(session, ranks, all, shape, op); },
              gather_call(x, all));
}

Exchange Planner::all_gather(const Tensor& given, std::int64_t dim, Lengths lengths,
                             const Dims& shape) {
  Tensor x = hold(contiguous(given));
  const DType dtype = x.dtype();
  const Tensor result = hold(empty(device_, shape, dtype));
  const std::int64_t row = x.numel() == 0 ? product(with_size(shape, dim, 1))
                                          : x.numel() / x.size(static_cast<std::size_t>(dim));
  const Route route = route_of(lengths, place_.hosts);
  const std::int64_t longest = *std::ranges::max_element(lengths);
  const bool direct = route != Route::kPadded && follow_each_other(shape, dim);
  // The place where each rank's piece arrives, in elements.
  std::vector<std::int64_t> places = offsets_of(lengths);
  for (std::size_t i = 0; i < places.size(); ++i) {
    places[i] =
        row * (route == Route::kPadded ? static_cast<std::int64_t>(i) * longest : places[i]);
  }
  const auto ranks = static_cast<std::int64_t>(size());
  const std::int64_t room = row * (route == Route::kPadded ? ranks * longest : lengths.total());
  const Tensor arrived = direct ? piece_in(result, Dims{room}, 0) : memory(room, dtype);
  std::vector<GroupCall> calls;
  if (route == Route::kGrouped) {
    for (std::size_t i = 0; i < size(); ++i) {
      const Tensor piece = piece_in(arrived, Dims{lengths[i] * row}, places[i]);
      if (i == me()) {
        copy(piece, piece_in(x, Dims{x.numel()}, 0));
      } else {
        send(static_cast<std::int64_t>(i), x);
        receive(static_cast<std::int64_t>(i), piece);
      }
    }
  } else {
    if (route == Route::kPadded && x.numel() < longest * row) {
      const Tensor padded = memory(longest * row, dtype);
      copy(piece_in(padded, Dims{x.numel()}, 0), piece_in(x, Dims{x.numel()}, 0));
      x = padded;
    }
    calls = gather_call(x, arrived);
  }
  const std::vector<std::int64_t> sizes(lengths.begin(), lengths.end());
  return done(
      [=] {
        std::int64_t offset = 0;
        for (std::size_t i = 0; i < sizes.size() && !direct; ++i) {
          copy(result.narrow(static_cast<std::size_t>(dim), offset, sizes[i]),
               piece_in(arrived, with_size(shape, dim, sizes[i]), places[i]));
          offset += sizes[i];
        }
        return result;
      },
      std::move(calls));
}

// The pieces of x along `dim`, one after the other, each in room for `room` elements of the dim (0:
// as much as it has).
Tensor Planner::packed(const Tensor& x, std::int64_t dim, Lengths lengths, std::int64_t room) {
  if (room == 0 && x.contiguous() && (x.dim() == 0 || follow_each_other(x.shape(), dim))) {
    return hold(piece_in(x, Dims{x.numel()}, 0));
  }
  const std::int64_t row = product(with_size(x.shape(), dim, 1));
  const Tensor result =
      memory(row * (room == 0 ? lengths.total() : room * static_cast<std::int64_t>(lengths.size())),
             x.dtype());
  std::int64_t from = 0;
  std::int64_t to = 0;
  for (const std::int64_t length : lengths) {
    copy(piece_in(result, with_size(x.shape(), dim, length), to),
         x.narrow(static_cast<std::size_t>(dim), from, length));
    from += length;
    to += row * (room == 0 ? length : room);
  }
  return result;
}

// `packed` holds for each rank a piece of counts[rank] elements; this rank's has this shape.
Exchange Planner::reduce_pieces(const Tensor& packed, Lengths counts, const Dims& shape,
                                ReduceOp op) {
  const std::int64_t mine = counts[me()];
  const Tensor all = memory(mine * static_cast<std::int64_t>(size()), packed.dtype());
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < size(); ++i) {
    const Tensor term = piece_in(packed, Dims{counts[i]}, offset);
    const Tensor place = piece_in(all, Dims{mine}, static_cast<std::int64_t>(i) * mine);
    if (i == me()) {
      copy(place, term);
    } else {
      send(static_cast<std::int64_t>(i), term);
      receive(static_cast<std::int64_t>(i), place);
    }
    offset += counts[i];
  }
  return done([&session = session_, ranks = size(), all, shape, op] {
    return reduced(session, ranks, all, shape, op);
  });
}

Exchange Planner::reduce_scatter(const Tensor& x, std::int64_t dim, Lengths lengths, ReduceOp op) {
  const auto native = native_reduction(x.dtype(), op);
  const Route route = native ? route_of(lengths, place_.hosts) : Route::kGrouped;
  const Dims shape = with_size(x.shape(), dim, lengths[me()]);
  const std::int64_t row = product(with_size(x.shape(), dim, 1));
  if (route == Route::kGrouped) {
    std::vector<std::int64_t> counts(lengths.begin(), lengths.end());
    for (std::int64_t& count : counts) count *= row;
    return reduce_pieces(packed(x, dim, lengths, 0), counts, shape, op);
  }
  const std::int64_t longest = *std::ranges::max_element(lengths);
  const bool stands_in = native->stand_in.has_value();
  Tensor from = packed(x, dim, lengths, route == Route::kPadded ? longest : 0);
  if (stands_in) from = integers_of(from, op, *native->stand_in);
  const Tensor arrived = memory(longest * row, from.dtype());
  return done(
      [&session = session_, arrived, stands_in, op, meta = contiguous_meta(shape, x.dtype())] {
        return stands_in ? floats_of(session, arrived, meta, op) : piece_in(arrived, meta.shape, 0);
      },
      reduce_call(GroupCall::Kind::kReduceScatter, from, arrived, arrived, *native));
}

Exchange Planner::all_to_all(const Tensor& x, const Call& call, const Dims& shape) {
  const Tensor result = hold(empty(device_, shape, x.dtype()));
  const Tensor arrived = memory(result.numel(), x.dtype());
  const std::vector<std::int64_t> cuts = offsets_of(call.lengths);
  std::vector<Tensor> pieces;
  std::int64_t place = 0;
  for (std::size_t i = 0; i < size(); ++i) {
    const Dims piece_shape = with_size(shape, call.concat_dim, call.concat_lengths()[i]);
    const Tensor part = x.narrow(static_cast<std::size_t>(call.dim), cuts[i], call.lengths[i]);
    pieces.push_back(piece_in(arrived, piece_shape, place));
    place += product(piece_shape);
    if (i == me()) {
      copy(pieces.back(), part);
    } else {
      send(static_cast<std::int64_t>(i), contiguous(part));
      receive(static_cast<std::int64_t>(i), pieces.back());
    }
  }
  return done([=, dim = static_cast<std::size_t>(call.concat_dim)] {
    put_together(result, dim, pieces);
    return result;
  });
}

Exchange Planner::broadcast(const Call& call) {
  const bool source = call.root == place_.rank;
  const Tensor x = source ? contiguous(*call.x).snapshot()
                          : empty(device_, call.expected->shape, call.expected->dtype);
  hold(x);
  std::vector<GroupCall> calls;
  if (x.numel() > 0) {
    calls.push_back({.kind = GroupCall::Kind::kBroadcast,
                     .from = address(x),
                     .to = address(x),
                     .count = static_cast<std::size_t>(x.size_bytes()),
                     .peer = static_cast<int>(call.root)});
  }
  return done([x] { return x; }, std::move(calls));
}

Exchange Planner::scatter(const Call& call, const Dims& shape) {
  const Tensor result = hold(empty(device_, shape, call.expected->dtype));
  if (call.root != place_.rank) {
    receive(call.root, result);
    return done([result] { return result; });
  }
  const std::vector<std::int64_t> offsets = offsets_of(call.lengths);
  for (std::size_t i = 0; i < size(); ++i) {
    const Tensor part =
        call.x->narrow(static_cast<std::size_t>(call.dim), offsets[i], call.lengths[i]);
    if (i == me()) copy(result, part);
    if (i != me()) send(static_cast<std::int64_t>(i), contiguous(part));
  }
  return done([result] { return result; });
}

Exchange Planner::gather(const Call& call, const Dims& shape) {
  if (call.root != place_.rank) {
    send(call.root, contiguous(*call.x));
    return done([] { return Tensor(); });
  }
  const Tensor result = hold(empty(device_, shape, call.x->dtype()));
  std::vector<Tensor> pieces;
  for (std::size_t i = 0; i < size(); ++i) {
    const Dims piece = with_size(shape, call.dim, call.lengths[i]);
    pieces.push_back(i == me() ? hold(*call.x) : hold(empty(device_, piece, call.x->dtype())));
    if (i != me()) receive(static_cast<std::int64_t>(i), pieces.back());
  }
  return done([result, pieces, dim = static_cast<std::size_t>(call.dim)] {
    put_together(result, dim, pieces);
    return result;
  });
}

// Messages are halves of one: a sender gets a result without elements.
Exchange Planner::permute(const Call& call) {
  Tensor result;
  if (call.kind == CollectiveKind::kSend) {
    result = empty(device_, Dims{0}, call.x->dtype());
  } else if (call.from == place_.rank) {
    result = contiguous(*call.x).snapshot();
  } else if (call.from >= 0) {
    result = empty(device_, call.expected->shape, call.expected->dtype);
    receive(call.from, result);
  }
  if (call.to >= 0 && call.to != place_.rank) send(call.to, contiguous(*call.x));
  return done([result] { return result; });
}

// NCCL matches the messages between two ranks in their order; those to the rank itself stay here.
Exchange Planner::batch(BatchPart& part) {
  std::deque<Tensor> own;
  part.received.resize(part.exchange.size());
  for (const SendRecv& message : part.exchange) {
    if (!message.send.defined()) continue;
    const Tensor x = contiguous(message.send);
    if (message.peer == place_.rank) own.push_back(x.snapshot());
    if (message.peer != place_.rank) send(message.peer, x);
  }
  for (std::size_t i = 0; i < part.exchange.size(); ++i) {
    const SendRecv& message = part.exchange[i];
    if (!message.receives) continue;
    if (message.peer != place_.rank) {
      part.received[i] = empty(device_, message.receive.shape, message.receive.dtype);
      receive(message.peer, part.received[i]);
    } else if (own.empty()) {
      fail(ErrorKind::kValue,
           Fix{"send to the rank itself in the same batch, or leave the receive out"},
           "batch on group {}: the rank receives from itself, but sends itself nothing",
           place_.name);
    } else {
      part.received[i] = own.front();
      own.pop_front();
    }
  }
  return done([] { return Tensor(); });
}

}  // namespace

Exchange plan_exchange(Session& session, const GroupPlace& place, const Call& call,
                       const Dims& shape) {
  Planner planner(session, place, *call.device);
  // The value at the time of the call is sent, also for a call that is awaited later.
  const Tensor x = call.x == nullptr ? Tensor() : call.x->snapshot();
  switch (call.kind) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kReduce:
      return planner.all_reduce(x, call.op, call.root);
    case CollectiveKind::kAllGather:
      return planner.all_gather(x, call.dim, call.lengths, shape);
    case CollectiveKind::kReduceScatter:
      return planner.reduce_scatter(x, call.dim, call.lengths, call.op);
    case CollectiveKind::kAllToAll:
      return planner.all_to_all(x, call, shape);
    case CollectiveKind::kBroadcast:
      return planner.broadcast(call);
    case CollectiveKind::kScatter:
      return planner.scatter(call, shape);
    case CollectiveKind::kGather:
      return planner.gather(call, shape);
    case CollectiveKind::kPermute:
    case CollectiveKind::kSend:
    case CollectiveKind::kRecv:
      return planner.permute(call);
    default:
      check_invariant(false, "a collective whose result is one tensor");
      return {};
  }
}

Exchange plan_batch(Session& session, const GroupPlace& place, Call& call) {
  return Planner(session, place, *call.device).batch(*std::get<BatchPart*>(call.part));
}

}  // namespace shardlab::nccl
