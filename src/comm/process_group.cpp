#include "comm/process_group.h"

#include "comm/observer.h"

namespace shardlab {

namespace {

// What a ring sends from one rank, on average, for a whole of this size.
double ring_bytes(const ProcessGroup& group, double whole_bytes) {
  const auto n = static_cast<double>(group.size());
  return (n - 1) / n * whole_bytes;
}

// Bytes of x with its size along `dim` replaced by `size`.
double bytes_with(const Tensor& x, std::int64_t dim, std::int64_t size) {
  double count = static_cast<double>(item_bytes(x.dtype()));
  for (std::int64_t i = 0; i < x.dim(); ++i) {
    count *= static_cast<double>(i == dim ? size : x.size(static_cast<std::size_t>(i)));
  }
  return count;
}

double bytes_of(const Tensor& x) { return static_cast<double>(x.size_bytes()); }

struct Event {
  CollectiveKind kind;
  DType dtype;
  const Dims& input_shape;
  double sent_bytes;
  ReduceOp op = ReduceOp::kSum;
};

void tell(const ProcessGroup& group, const Event& event) {
  const RankContext& rank = current_rank();
  CollectiveRecord record;
  record.kind = event.kind;
  record.group = group.name();
  record.group_size = group.size();
  record.dtype = event.dtype;
  record.input_shape = event.input_shape;
  record.op = event.op;
  record.sent_bytes = event.sent_bytes;
  record.position = rank.position;
  rank.observer->collective(record);
}

// Groups of one rank never communicate (B-12).
bool observed(const ProcessGroup& group) {
  return current_rank_or_null() != nullptr && observer_to_tell() != nullptr && group.size() > 1;
}

// The result, of which the observer is told.
Tensor told(ProcessGroup& group, CollectiveCall call, Tensor result) {
  if (!observed(group)) return result;
  call.group = &group;
  call.result = result;
  current_rank().observer->collective_ends(call);
  return result;
}

}  // namespace

Tensor ProcessGroup::all_reduce(const Tensor& x, ReduceOp op, Issue issue) {
  if (observed(*this)) {
    const double sent = 2 * ring_bytes(*this, bytes_of(x));
    tell(*this, {CollectiveKind::kAllReduce, x.dtype(), x.shape(), sent, op});
  }
  return told(*this, {.kind = CollectiveKind::kAllReduce, .op = op, .input = x},
              communicator_->all_reduce(x, op, issue));
}

Tensor ProcessGroup::all_gather(const Tensor& x, std::int64_t dim, Lengths lengths, Issue issue) {
  if (observed(*this)) {
    std::int64_t whole = 0;
    for (const std::int64_t length : lengths) whole += length;
    const double sent = ring_bytes(*this, bytes_with(x, dim, whole));
    tell(*this, {CollectiveKind::kAllGather, x.dtype(), x.shape(), sent});
  }
  return told(*this, {.kind = CollectiveKind::kAllGather, .dim = dim, .input = x},
              communicator_->all_gather(x, dim, lengths, issue));
}

Tensor ProcessGroup::reduce_scatter(const Tensor& x, std::int64_t dim, Lengths lengths, ReduceOp op,
                                    Issue issue) {
  if (observed(*this)) {
    const double sent = ring_bytes(*this, bytes_of(x));
    tell(*this, {CollectiveKind::kReduceScatter, x.dtype(), x.shape(), sent, op});
  }
  return told(*this, {.kind = CollectiveKind::kReduceScatter, .op = op, .dim = dim, .input = x},
              communicator_->reduce_scatter(x, dim, lengths, op, issue));
}

Tensor ProcessGroup::all_to_all(const Tensor& x, std::int64_t split_dim, Lengths split_lengths,
                                std::int64_t concat_dim, Lengths concat_lengths, Issue issue) {
  if (observed(*this)) {
    const double sent = ring_bytes(*this, bytes_of(x));
    tell(*this, {CollectiveKind::kAllToAll, x.dtype(), x.shape(), sent});
  }
  Tensor result = communicator_->all_to_all(x, split_dim, split_lengths, concat_dim, concat_lengths,
                                            issue);
  if (!observed(*this)) return result;
  return told(*this,
              {.kind = CollectiveKind::kAllToAll,
               .dim = concat_dim,
               .split_dim = split_dim,
               .split_lengths = {split_lengths.begin(), split_lengths.end()},
               .input = x},
              std::move(result));
}

Tensor ProcessGroup::broadcast(const Tensor& x, std::int64_t source, const TensorMeta& meta) {
  if (observed(*this)) {
    const double whole = static_cast<double>(product(meta.shape) * item_bytes(meta.dtype));
    tell(*this, {CollectiveKind::kBroadcast, meta.dtype, meta.shape, ring_bytes(*this, whole)});
  }
  return told(*this, {.kind = CollectiveKind::kBroadcast, .source = source, .input = x},
              communicator_->broadcast(x, source, meta));
}

Tensor ProcessGroup::permute(const Tensor& x, std::int64_t to, std::int64_t from,
                             const TensorMeta& received) {
  if (observed(*this)) {
    const bool sends = to >= 0 && to != rank();
    const TensorMeta& meta = x.defined() ? x.meta() : received;
    tell(*this, {CollectiveKind::kPermute, meta.dtype, meta.shape, sends ? bytes_of(x) : 0.0});
  }
  return communicator_->permute(x, to, from, received);
}

std::vector<Tensor> ProcessGroup::batch(std::span<const SendRecv> exchange) {
  if (observed(*this)) {
    double sent = 0;
    DType dtype = DType::kU8;
    Dims shape;
    for (const SendRecv& part : exchange) {
      if (part.receives) dtype = part.receive.dtype;
      if (!part.send.defined()) continue;
      sent += bytes_of(part.send);
      dtype = part.send.dtype();
      shape = part.send.shape();
    }
    tell(*this, {CollectiveKind::kBatch, dtype, shape, sent});
  }
  return communicator_->batch(exchange);
}

void ProcessGroup::barrier() {
  if (observed(*this)) tell(*this, {CollectiveKind::kBarrier, DType::kU8, Dims{}, 0});
  communicator_->barrier();
}

}  // namespace shardlab
