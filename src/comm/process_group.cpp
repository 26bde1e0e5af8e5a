// The record of an observer follows from the call alone: its kind and its input give how much a
// ring would move.
#include "comm/process_group.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "comm/observer.h"
#include "tensor/pending_storage.h"

namespace shardlab {

namespace {

double bytes_of(const TensorMeta& meta) {
  return static_cast<double>(product(meta.shape)) * static_cast<double>(item_bytes(meta.dtype));
}

struct Volume {
  double bytes = 0;       ///< CollectiveRecord::bytes
  double sent_bytes = 0;  ///< by this rank
};

Volume volume_of_permute(const Call& call, std::int64_t rank) {
  const double sent = call.to >= 0 && call.to != rank ? bytes_of(call.x->meta()) : 0;
  const double got = call.from >= 0 && call.from != rank ? bytes_of(*call.expected) : 0;
  return {std::max(sent, got), sent};
}

// A receiver sends nothing.
Volume volume_of_message(const Call& call) {
  if (call.kind == CollectiveKind::kRecv) return {bytes_of(*call.expected), 0};
  const double bytes = bytes_of(call.x->meta());
  return {bytes, bytes};
}

Volume volume_of_batch(const Call& call) {
  double sent = 0, got = 0;
  for (const SendRecv& part : std::get<BatchPart*>(call.part)->exchange) {
    if (part.receives) got += bytes_of(part.receive);
    if (part.send.defined()) sent += bytes_of(part.send.meta());
  }
  return {std::max(sent, got), sent};
}

double whole_bytes(const Call& call, std::int64_t rank) {
  switch (call.kind) {
    case CollectiveKind::kAllGather:
    case CollectiveKind::kGather:
      return bytes_of(result_meta(call, rank));
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kScatter:
      return bytes_of(*call.expected);
    case CollectiveKind::kAllGatherBytes:
      return static_cast<double>(std::get<BytesPart*>(call.part)->bytes.size());
    default:
      return call.x != nullptr ? bytes_of(call.x->meta()) : 0;
  }
}

Volume volume_of(const Call& call, std::int64_t rank, std::int64_t size) {
  if (call.kind == CollectiveKind::kPermute) return volume_of_permute(call, rank);
  if (call.kind == CollectiveKind::kBatch) return volume_of_batch(call);
  if (is_message(call.kind)) return volume_of_message(call);
  const double bytes = whole_bytes(call, rank);
  return {bytes, ring_sends(call.kind, bytes, size)};
}

// Dtype and shape of this rank's input, or of its result where it has no input.
TensorMeta input_of(const Call& call) {
  TensorMeta meta;
  meta.dtype = DType::kU8;
  if (call.kind == CollectiveKind::kBatch) {
    for (const SendRecv& part : std::get<BatchPart*>(call.part)->exchange) {
      if (part.receives) meta.dtype = part.receive.dtype;
      if (part.send.defined()) meta = part.send.meta();
    }
  } else if (call.x != nullptr) {
    meta = call.x->meta();
  } else if (call.expected != nullptr) {
    meta = *call.expected;
  }
  return meta;
}

// Those whose one result is the same on whichever rank it is computed from the inputs of all ranks.
bool has_told_result(CollectiveKind kind) {
  return gives_tensor(kind) && kind != CollectiveKind::kPermute;
}

// A reduce and a gather give nothing elsewhere, and a sender gets nothing.
bool gives_here(const Call& call, std::int64_t rank) {
  if (call.kind == CollectiveKind::kSend) return false;
  const bool to_one = call.kind == CollectiveKind::kReduce || call.kind == CollectiveKind::kGather;
  return !to_one || call.root == rank;
}

CollectiveCall ended(ProcessGroup& group, const Call& call, const Tensor& result) {
  CollectiveCall end{.kind = call.kind, .group = &group, .op = call.op, .dim = call.dim};
  if (call.kind == CollectiveKind::kAllToAll) {
    end.dim = call.concat_dim;
    end.split_dim = call.dim;
    end.split_lengths.assign(call.lengths.begin(), call.lengths.end());
  }
  if (call.root >= 0) end.source = call.root;
  if (is_message(call.kind)) end.source = call.kind == CollectiveKind::kSend ? call.to : call.from;
  if (call.x != nullptr) end.input = *call.x;
  if (gives_here(call, group.rank())) end.result = result;
  return end;
}

bool observed() { return current_rank_or_null() != nullptr && observer_to_tell() != nullptr; }

bool observed(const ProcessGroup& group) { return observed() && group.size() > 1; }

// The result of an asynchronous collective, whose wait is reported to the observer once. If a
// backend has nothing to wait for (a stream orders its work), the program waits all the same.
class ObservedWait final : public Work {
 public:
  ObservedWait(Tensor result, CollectiveRecord record, Storage& storage)
      : result_(std::move(result)), record_(std::move(record)), storage_(storage) {}

  void wait() override {
    if (!std::exchange(reported_, true) && observed()) {
      current_rank().observer->collective_waits(record_);
    }
    result_.wait();
    BufferRef buffer = result_.storage()->buffer();
    result_ = Tensor();  // its memory counts for the Storage that programs see from here on
    storage_.complete(std::move(buffer));
  }
  bool done() const override { return PendingStorage::done(*result_.storage()); }

 private:
  Tensor result_;
  const CollectiveRecord record_;
  Storage& storage_;  // holds this
  bool reported_ = false;
};

Tensor with_observed_wait(Tensor result, CollectiveRecord record) {
  auto storage = make_ref<PendingStorage>();
  TensorMeta meta = result.meta();
  storage->await(make_ref<ObservedWait>(std::move(result), std::move(record), *storage));
  return Tensor(std::move(storage), std::move(meta));
}

}  // namespace

std::vector<std::int64_t> GroupIdentity::ranks() const {
  if (layout != nullptr) return layout->group_ranks(mesh_dims, *layout->coordinate_of(first_rank));
  std::vector<std::int64_t> all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

ProcessGroup::ProcessGroup(std::unique_ptr<Communicator> world)
    : ForwardingCommunicator(std::move(world)), size_(real().size()) {
  identity_.size = size_;
}

ProcessGroup::ProcessGroup(std::unique_ptr<Communicator> communicator, const MeshLayout* layout,
                           std::span<const std::size_t> mesh_dims, Coordinate coordinate)
    : ForwardingCommunicator(std::move(communicator)), size_(real().size()) {
  for (const std::size_t mesh_dim : mesh_dims) coordinate[mesh_dim] = 0;
  identity_ = {.name = group_name(*layout, mesh_dims),
               .layout = layout,
               .mesh_dims = {mesh_dims.begin(), mesh_dims.end()},
               .first_rank = layout->rank_at(coordinate),
               .size = size_};
}

CollectiveRecord ProcessGroup::record_of(const Call& call, std::int64_t sequence) const {
  const RankContext& rank = current_rank();
  const Volume volume = volume_of(call, this->rank(), size());
  const TensorMeta input = input_of(call);
  CollectiveRecord record;
  record.kind = call.kind;
  record.group = identity_;
  record.sequence = sequence;
  record.issue = call.issue;
  record.dtype = input.dtype;
  record.input_shape = input.shape;
  record.op = call.op;
  record.bytes = volume.bytes;
  record.sent_bytes = volume.sent_bytes;
  record.pass = rank.pass;
  record.position = rank.position;
  if (is_message(call.kind)) {
    record.peer = call.kind == CollectiveKind::kSend ? call.to : call.from;
    record.tag = call.tag;
  }
  return record;
}

// Counted with or without an observer, so that ranks agree in the number; messages apart, of which
// each rank has its own.
Tensor ProcessGroup::perform(Call& call) {
  const std::int64_t sequence = is_message(call.kind) ? messages_++ : entered_++;
  return observed(*this) ? perform_observed(call, sequence) : real().perform(call);
}

void ProcessGroup::meet(Call& call) {
  const std::int64_t sequence = entered_++;
  if (observed(*this)) {
    meet_observed(call, sequence);
  } else {
    real().meet(call);
  }
}

// A function of its own, as is the one without a result: many ranks without an observer need no
// room on their stacks for a record or a tensor.
Tensor ProcessGroup::perform_observed(Call& call, std::int64_t sequence) {
  CollectiveRecord record = record_of(call, sequence);
  current_rank().observer->collective(record);
  Tensor result = real().perform(call);
  if (call.issue == Issue::kAsync) {
    result = with_observed_wait(std::move(result), std::move(record));
  }
  if (has_told_result(call.kind) && observed(*this)) {
    current_rank().observer->collective_ends(ended(*this, call, result));
  }
  return result;
}

void ProcessGroup::meet_observed(Call& call, std::int64_t sequence) {
  perform_observed(call, sequence);
}

}  // namespace shardlab
