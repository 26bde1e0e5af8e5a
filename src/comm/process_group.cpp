#include "comm/process_group.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "comm/observer.h"

namespace shardlab {

namespace {

// Bytes of x with its size along `dim` replaced by `size`.
double bytes_with(const Tensor& x, std::int64_t dim, std::int64_t size) {
  double count = static_cast<double>(item_bytes(x.dtype()));
  for (std::int64_t i = 0; i < x.dim(); ++i) {
    count *= static_cast<double>(i == dim ? size : x.size(static_cast<std::size_t>(i)));
  }
  return count;
}

double bytes_of(const Tensor& x) { return static_cast<double>(x.size_bytes()); }

double bytes_of(const TensorMeta& meta) {
  return static_cast<double>(product(meta.shape) * item_bytes(meta.dtype));
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

std::vector<std::int64_t> GroupIdentity::ranks() const {
  if (layout != nullptr) return layout->group_ranks(mesh_dims, *layout->coordinate_of(first_rank));
  std::vector<std::int64_t> all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

ProcessGroup::ProcessGroup(std::unique_ptr<Communicator> world)
    : communicator_(std::move(world)), identity_{.size = communicator_->size()} {}

ProcessGroup::ProcessGroup(std::unique_ptr<Communicator> communicator, const MeshLayout* layout,
                           std::span<const std::size_t> mesh_dims, Coordinate coordinate)
    : communicator_(std::move(communicator)) {
  for (const std::size_t mesh_dim : mesh_dims) coordinate[mesh_dim] = 0;
  identity_ = {.name = group_name(*layout, mesh_dims),
               .layout = layout,
               .mesh_dims = {mesh_dims.begin(), mesh_dims.end()},
               .first_rank = layout->rank_at(coordinate),
               .size = communicator_->size()};
}

// What tells one collective from the next, beyond what the group knows.
struct ProcessGroup::Event {
  CollectiveKind kind;
  DType dtype;
  const Dims& input_shape;
  double bytes;
  Issue issue = Issue::kWait;
  ReduceOp op = ReduceOp::kSum;
  std::optional<double> sent_bytes;  ///< where that does not follow from `bytes`
};

// Counts every collective, observed or not, so that ranks agree in the number.
void ProcessGroup::enters(const Event& event) {
  const std::int64_t sequence = entered_++;
  if (!observed(*this)) return;
  const RankContext& rank = current_rank();
  CollectiveRecord record;
  record.kind = event.kind;
  record.group = identity_;
  record.sequence = sequence;
  record.issue = event.issue;
  record.dtype = event.dtype;
  record.input_shape = event.input_shape;
  record.op = event.op;
  record.bytes = event.bytes;
  record.sent_bytes = event.sent_bytes.value_or(ring_sends(event.kind, event.bytes, size()));
  record.pass = rank.pass;
  record.position = rank.position;
  rank.observer->collective(record);
}

Tensor ProcessGroup::all_reduce(const Tensor& x, ReduceOp op, Issue issue) {
  enters({CollectiveKind::kAllReduce, x.dtype(), x.shape(), bytes_of(x), issue, op, {}});
  return told(*this, {.kind = CollectiveKind::kAllReduce, .op = op, .input = x},
              communicator_->all_reduce(x, op, issue));
}

Tensor ProcessGroup::all_gather(const Tensor& x, std::int64_t dim, Lengths lengths, Issue issue) {
  std::int64_t whole = 0;
  for (const std::int64_t length : lengths) whole += length;
  enters({CollectiveKind::kAllGather, x.dtype(), x.shape(), bytes_with(x, dim, whole), issue});
  return told(*this, {.kind = CollectiveKind::kAllGather, .dim = dim, .input = x},
              communicator_->all_gather(x, dim, lengths, issue));
}

Tensor ProcessGroup::reduce_scatter(const Tensor& x, std::int64_t dim, Lengths lengths, ReduceOp op,
                                    Issue issue) {
  enters({CollectiveKind::kReduceScatter, x.dtype(), x.shape(), bytes_of(x), issue, op, {}});
  return told(*this, {.kind = CollectiveKind::kReduceScatter, .op = op, .dim = dim, .input = x},
              communicator_->reduce_scatter(x, dim, lengths, op, issue));
}

Tensor ProcessGroup::all_to_all(const Tensor& x, std::int64_t split_dim, Lengths split_lengths,
                                std::int64_t concat_dim, Lengths concat_lengths, Issue issue) {
  enters({CollectiveKind::kAllToAll, x.dtype(), x.shape(), bytes_of(x), issue});
  Tensor result =
      communicator_->all_to_all(x, split_dim, split_lengths, concat_dim, concat_lengths, issue);
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
  enters({CollectiveKind::kBroadcast, meta.dtype, meta.shape, bytes_of(meta)});
  return told(*this, {.kind = CollectiveKind::kBroadcast, .source = source, .input = x},
              communicator_->broadcast(x, source, meta));
}

Tensor ProcessGroup::permute(const Tensor& x, std::int64_t to, std::int64_t from,
                             const TensorMeta& received) {
  const double sent = to >= 0 && to != rank() ? bytes_of(x) : 0;
  const double got = from >= 0 && from != rank() ? bytes_of(received) : 0;
  const TensorMeta& meta = x.defined() ? x.meta() : received;
  enters({.kind = CollectiveKind::kPermute,
          .dtype = meta.dtype,
          .input_shape = meta.shape,
          .bytes = std::max(sent, got),
          .sent_bytes = sent});
  return communicator_->permute(x, to, from, received);
}

std::vector<Tensor> ProcessGroup::batch(std::span<const SendRecv> exchange) {
  double sent = 0, got = 0;
  DType dtype = DType::kU8;
  Dims shape;
  for (const SendRecv& part : exchange) {
    if (part.receives) {
      dtype = part.receive.dtype;
      got += bytes_of(part.receive);
    }
    if (!part.send.defined()) continue;
    sent += bytes_of(part.send);
    dtype = part.send.dtype();
    shape = part.send.shape();
  }
  enters({.kind = CollectiveKind::kBatch,
          .dtype = dtype,
          .input_shape = shape,
          .bytes = std::max(sent, got),
          .sent_bytes = sent});
  return communicator_->batch(exchange);
}

void ProcessGroup::barrier() {
  enters({CollectiveKind::kBarrier, DType::kU8, Dims{}, 0});
  communicator_->barrier();
}

}  // namespace shardlab
