// The typed calls of a communicator: check the arguments, fill in a Call, perform it, and answer
// for groups of one. The meta of the result follows from the call alone (result_meta), so that
// backends need not be given it.
#include "base/error.h"
#include "comm/communicator.h"
#include "tensor/device.h"

namespace shardlab {

namespace {

// A group of one rank gets its own input.
Tensor perform_among(Communicator& group, Call& call, const Tensor& x) {
  const bool gathers = call.kind == CollectiveKind::kAllGather;
  const MakingScope scope(gathers ? HeldFor::kGathered : HeldFor::kOther);
  if (group.size() > 1) return group.perform(call);
  const Tensor own = contiguous(x);
  return own.storage() != x.storage() ? own : Tensor(x.storage()->copy(), x.meta(), x.offset());
}

Tensor staged(const Tensor& x) {
  const MakingScope scope(HeldFor::kCommunication);
  return contiguous(x);
}

// Backends reduce their whole input, from end to end.
Tensor reduce_among(Communicator& group, Call& call, const Tensor& x) {
  const Tensor input = staged(x);
  call.x = &input;
  return perform_among(group, call, input);
}

template <typename... Args>
[[noreturn]] void refuse(const Communicator& group, const Call& call, Fix fix,
                         fmt::format_string<Args...> format, Args&&... args) {
  fail(ErrorKind::kValue, std::move(fix), "{} on group {}: {}", to_string(call.kind), group.name(),
       fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace

void Communicator::begin(Call& call, const Tensor* x) {
  const RankContext& rank = current_rank();
  call.position = rank.position;
  call.op_name = rank.op;
  call.device = rank.device;
  if (x != nullptr && x->defined()) {
    x->wait();
    call.x = x;
    call.device = x->device();
  }
}

void Communicator::check_peer(std::string_view what, std::int64_t peer) const {
  if (peer >= 0 && peer < size()) return;
  fail(ErrorKind::kValue,
       Fix{fmt::format("name one from 0 to {}, the place in the group", size() - 1)},
       "group {} of {} ranks has no {} {}", name(), size(), what, peer);
}

void Communicator::check_dim(const Call& call, std::int64_t dim, std::int64_t ndim) const {
  if (dim < 0 || dim >= ndim) {
    refuse(*this, call, Fix{"name a dim that the tensor has, counted from 0"},
           "tensor dim {} is out of range for a tensor of {} dims", dim, ndim);
  }
}

void Communicator::check_lengths(const Call& call, Lengths lengths) const {
  if (static_cast<std::int64_t>(lengths.size()) != size()) {
    refuse(*this, call, Fix{"give one length per rank"}, "there are {} lengths for {} ranks",
           lengths.size(), size());
  }
  if (lengths.known() != nullptr) return;
  for (const std::int64_t length : lengths) {
    if (length < 0) {
      refuse(*this, call, Fix{"give lengths of 0 or more"}, "a length is {}", length);
    }
  }
}

void Communicator::check_piece(const Call& call, std::int64_t dim, std::int64_t wanted) const {
  const std::int64_t has = call.x->size(static_cast<std::size_t>(dim));
  if (has != wanted) {
    refuse(*this, call, Fix{"give lengths that add up to the tensor's own size"},
           "tensor dim {} has size {}, the lengths say {}", dim, has, wanted);
  }
}

void Communicator::check_source(const Call& call, const Tensor& x, const TensorMeta& meta) const {
  if (x.defined() && x.shape() == meta.shape && x.dtype() == meta.dtype) return;
  refuse(*this, call, Fix{"give the source a tensor of the shape and dtype that the ranks name"},
         "the source's tensor is not what the ranks expect");
}

void Communicator::check_reducible(const Call& call) const {
  if (reducible(call.x->dtype(), call.op)) return;
  refuse(*this, call, Fix{"cast the tensor, or use another reduction"},
         "reduction {} does not exist for dtype {}", to_string(call.op),
         to_string(call.x->dtype()));
}

Tensor Communicator::all_reduce(const Tensor& x, ReduceOp op, Issue issue) {
  Call call(CollectiveKind::kAllReduce);
  begin(call, &x);
  call.op = op;
  check_reducible(call);
  call.issue = issue;
  return reduce_among(*this, call, x);
}

Tensor Communicator::reduce(const Tensor& x, std::int64_t destination, ReduceOp op, Issue issue) {
  check_peer("destination", destination);
  Call call(CollectiveKind::kReduce);
  begin(call, &x);
  call.op = op;
  call.root = static_cast<std::int32_t>(destination);
  check_reducible(call);
  call.issue = issue;
  Tensor reduced = reduce_among(*this, call, x);
  return rank() == destination ? reduced : Tensor();
}

Tensor Communicator::all_gather(const Tensor& x, std::int64_t dim, Lengths lengths, Issue issue) {
  Call call(CollectiveKind::kAllGather);
  begin(call, &x);
  call.dim = static_cast<std::int16_t>(dim);
  call.lengths = lengths;
  check_dim(call, dim, x.dim());
  check_lengths(call, lengths);
  check_piece(call, dim, lengths[static_cast<std::size_t>(rank())]);
  call.issue = issue;
  return perform_among(*this, call, x);
}

Tensor Communicator::reduce_scatter(const Tensor& x, std::int64_t dim, Lengths lengths, ReduceOp op,
                                    Issue issue) {
  Call call(CollectiveKind::kReduceScatter);
  begin(call, &x);
  call.dim = static_cast<std::int16_t>(dim);
  call.lengths = lengths;
  call.op = op;
  check_dim(call, dim, x.dim());
  check_lengths(call, lengths);
  check_piece(call, dim, lengths.total());
  check_reducible(call);
  call.issue = issue;
  return reduce_among(*this, call, x);
}

Tensor Communicator::all_to_all(const Tensor& x, std::int64_t split_dim, Lengths split_lengths,
                                std::int64_t concat_dim, Lengths concat_lengths, Issue issue) {
  Call call(CollectiveKind::kAllToAll);
  begin(call, &x);
  call.dim = static_cast<std::int16_t>(split_dim);
  call.lengths = split_lengths;
  call.concat_dim = static_cast<std::int16_t>(concat_dim);
  call.part = &concat_lengths;
  check_dim(call, split_dim, x.dim());
  check_dim(call, concat_dim, x.dim());
  check_lengths(call, split_lengths);
  check_lengths(call, concat_lengths);
  check_piece(call, split_dim, split_lengths.total());
  call.issue = issue;
  return perform_among(*this, call, x);
}

Tensor Communicator::broadcast(const Tensor& x, std::int64_t source, const TensorMeta& meta,
                               Issue issue) {
  check_peer("source", source);
  Call call(CollectiveKind::kBroadcast);
  begin(call, rank() == source ? &x : nullptr);
  call.root = static_cast<std::int32_t>(source);
  call.expected = &meta;
  if (rank() == source) check_source(call, x, meta);
  call.issue = issue;
  return perform_among(*this, call, x);
}

Tensor Communicator::scatter(const Tensor& x, std::int64_t source, std::int64_t dim,
                             Lengths lengths, const TensorMeta& meta, Issue issue) {
  check_peer("source", source);
  Call call(CollectiveKind::kScatter);
  begin(call, rank() == source ? &x : nullptr);
  call.root = static_cast<std::int32_t>(source);
  call.dim = static_cast<std::int16_t>(dim);
  call.lengths = lengths;
  call.expected = &meta;
  check_dim(call, dim, static_cast<std::int64_t>(meta.shape.size()));
  check_lengths(call, lengths);
  if (rank() == source) check_source(call, x, meta);
  if (rank() == source) check_piece(call, dim, lengths.total());
  call.issue = issue;
  return perform_among(*this, call, x);
}

Tensor Communicator::gather(const Tensor& x, std::int64_t destination, std::int64_t dim,
                            Lengths lengths, Issue issue) {
  check_peer("destination", destination);
  Call call(CollectiveKind::kGather);
  begin(call, &x);
  call.root = static_cast<std::int32_t>(destination);
  call.dim = static_cast<std::int16_t>(dim);
  call.lengths = lengths;
  check_dim(call, dim, x.dim());
  check_lengths(call, lengths);
  check_piece(call, dim, lengths[static_cast<std::size_t>(rank())]);
  call.issue = issue;
  Tensor whole = perform_among(*this, call, x);
  return rank() == destination ? whole : Tensor();
}

Tensor Communicator::permute(const Tensor& x, std::int64_t to, std::int64_t from,
                             const TensorMeta& received) {
  Call call(CollectiveKind::kPermute);
  begin(call, to >= 0 ? &x : nullptr);
  call.to = static_cast<std::int32_t>(to);
  call.from = static_cast<std::int32_t>(from);
  call.expected = &received;
  if (to >= 0) check_peer("rank", to);
  if (from >= 0) check_peer("rank", from);
  if (to >= 0 && !x.defined()) {
    refuse(*this, call, Fix{"pass the tensor to send, or a negative rank to send nothing"},
           "there is no tensor to send to rank {}", to);
  }
  Tensor result = perform(call);
  return from >= 0 ? result : Tensor();
}

Tensor Communicator::send(const Tensor& x, std::int64_t to, std::int64_t tag, Issue issue) {
  check_peer("rank", to);
  Call call(CollectiveKind::kSend);
  begin(call, &x);
  call.to = static_cast<std::int32_t>(to);
  call.tag = static_cast<std::int32_t>(tag);
  call.issue = issue;
  return perform(call);
}

Tensor Communicator::recv(const TensorMeta& received, std::int64_t from, std::int64_t tag,
                          Issue issue) {
  check_peer("rank", from);
  Call call(CollectiveKind::kRecv);
  begin(call, nullptr);
  call.from = static_cast<std::int32_t>(from);
  call.tag = static_cast<std::int32_t>(tag);
  call.expected = &received;
  call.issue = issue;
  return perform(call);
}

Tensor Communicator::recv_from_any(const TensorMeta& received, std::int64_t tag,
                                   std::int64_t& from) {
  Call call(CollectiveKind::kRecv);
  begin(call, nullptr);
  call.tag = static_cast<std::int32_t>(tag);
  call.expected = &received;
  Tensor result = perform(call);
  from = call.from;
  return result;
}

std::vector<Tensor> Communicator::batch(std::span<const SendRecv> exchange) {
  Call call(CollectiveKind::kBatch);
  begin(call, nullptr);
  BatchPart mine{exchange, {}};
  call.part = &mine;
  for (const SendRecv& part : exchange) {
    check_peer("rank", part.peer);
    part.send.wait();
  }
  perform(call);
  return std::move(mine.received);
}

std::vector<std::string> Communicator::all_gather_bytes(std::string_view bytes) {
  Call call(CollectiveKind::kAllGatherBytes);
  begin(call, nullptr);
  BytesPart mine{bytes, {}};
  call.part = &mine;
  perform(call);
  return std::move(mine.gathered);
}

void Communicator::barrier() {
  if (size() == 1) return;
  Call call(CollectiveKind::kBarrier);
  begin(call, nullptr);
  meet(call);
}

}  // namespace shardlab
