#include "backends/threads/communicator.h"

#include <numeric>
#include <utility>

#include "backends/threads/reduce.h"
#include "backends/threads/world.h"
#include "tensor/device.h"

namespace shardlab::threads {

namespace {

// An asynchronous call. Its round holds it until it is over, its tensor until it is waited for.
class PendingCall final : public Work {
 public:
  PendingCall(Group& group, std::int64_t rank, std::uint64_t sequence, const Call& call)
      : group_(group),
        rank_(static_cast<std::size_t>(rank)),
        sequence_(sequence),
        call_(call.kind),
        x_(call.x->snapshot()),
        lengths_(call.lengths.begin(), call.lengths.end()),
        concat_lengths_(call.concat_lengths.begin(), call.concat_lengths.end()) {
    call_.op = call.op;
    call_.dim = call.dim;
    call_.concat_dim = call.concat_dim;
    call_.x = &x_;
    call_.lengths = lengths_;
    call_.concat_lengths = concat_lengths_;
    call_.device = call.device;
    call_.position = call.position;
    call_.op_name = call.op_name;
  }

  Ref<Storage> start() {
    group_.enter(rank_, sequence_, call_, Entry::kGoesOn, Ref<Counted>(this));
    auto storage = make_ref<Storage>(BufferRef{});
    storage_ = storage.get();
    storage->set_pending(Ref<Work>(this));
    return storage;
  }

  // Called by the Storage, so it is alive.
  void wait() override {
    group_.await(rank_, sequence_, call_, Entry::kGoesOn);
    storage_->complete(std::move(call_.result));
  }
  bool done() const override { return call_.over(); }

 private:
  Group& group_;
  const std::size_t rank_;
  const std::uint64_t sequence_;
  Call call_;
  const Tensor x_;
  const std::vector<std::int64_t> lengths_;
  const std::vector<std::int64_t> concat_lengths_;
  Storage* storage_ = nullptr;
};

std::int64_t total(Lengths lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
}

Dims with_size(Dims shape, std::int64_t dim, std::int64_t size) {
  shape[static_cast<std::size_t>(dim)] = size;
  return shape;
}

class ThreadsCommunicator final : public Communicator {
 public:
  ThreadsCommunicator(World& world, Group& group, std::int64_t rank)
      : world_(world), group_(group), rank_(rank) {}

  std::int64_t rank() const override { return rank_; }
  std::int64_t size() const override { return static_cast<std::int64_t>(group_.ranks().size()); }
  std::span<const std::int64_t> ranks() const override { return group_.ranks(); }
  const std::string& name() const override { return group_.name(); }

  Tensor all_reduce(const Tensor& x, ReduceOp op, Issue issue) override;
  Tensor all_gather(const Tensor& x, std::int64_t dim, Lengths lengths, Issue issue) override;
  Tensor reduce_scatter(const Tensor& x, std::int64_t dim, Lengths lengths, ReduceOp op,
                        Issue issue) override;
  Tensor all_to_all(const Tensor& x, std::int64_t split_dim, Lengths split_lengths,
                    std::int64_t concat_dim, Lengths concat_lengths, Issue issue) override;
  Tensor broadcast(const Tensor& x, std::int64_t source, const TensorMeta& meta) override;
  Tensor scatter(const Tensor& x, std::int64_t source, std::int64_t dim, Lengths lengths,
                 const TensorMeta& meta) override;
  Tensor gather(const Tensor& x, std::int64_t destination, std::int64_t dim,
                Lengths lengths) override;
  Tensor permute(const Tensor& x, std::int64_t to, std::int64_t from,
                 const TensorMeta& received) override;
  std::vector<Tensor> batch(std::span<const SendRecv> exchange) override;
  std::vector<std::string> all_gather_bytes(std::string_view bytes) override;
  void barrier() override;
  std::unique_ptr<Communicator> split(std::int64_t color, std::int64_t key,
                                      std::string name) override;
  void abort(const Error& reason) override;

 private:
  static void begin(Call& call, const Tensor* x);
  void enter_and_wait(Call& call);
  Tensor finish(Call& call, const Dims& shape, DType dtype, Issue issue);

  void check_peer(std::string_view what, std::int64_t peer) const;
  void check_dim(const Call& call, std::int64_t dim, std::int64_t rank) const;
  void check_lengths(const Call& call, Lengths lengths) const;
  void check_piece(const Call& call, std::int64_t dim, std::int64_t wanted) const;
  void check_reducible(const Call& call) const;
  template <typename... Args>
  [[noreturn]] void refuse(const Call& call, fmt::format_string<Args...> format,
                           Args&&... args) const {
    throw Error(ErrorKind::kValue, fmt::format("{} on group {}: {}", to_string(call.kind), name(),
                                               fmt::format(format, std::forward<Args>(args)...)));
  }

  World& world_;
  Group& group_;
  const std::int64_t rank_;
  std::uint64_t sequence_ = 0;
};

void ThreadsCommunicator::begin(Call& call, const Tensor* x) {
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

void ThreadsCommunicator::enter_and_wait(Call& call) {
  const auto rank = static_cast<std::size_t>(rank_);
  const std::uint64_t sequence = sequence_++;
  group_.enter(rank, sequence, call, Entry::kBlocks, nullptr);
  group_.await(rank, sequence, call, Entry::kBlocks);
}

Tensor ThreadsCommunicator::finish(Call& call, const Dims& shape, DType dtype, Issue issue) {
  if (issue == Issue::kAsync) {
    const auto pending = make_ref<PendingCall>(group_, rank_, sequence_++, call);
    return Tensor(pending->start(), contiguous_meta(shape, dtype));
  }
  enter_and_wait(call);
  return Tensor(make_ref<Storage>(std::move(call.result)), contiguous_meta(shape, dtype));
}

void ThreadsCommunicator::check_peer(std::string_view what, std::int64_t peer) const {
  if (peer >= 0 && peer < size()) return;
  fail(ErrorKind::kValue, "group {} of {} ranks has no {} {}", name(), size(), what, peer);
}

void ThreadsCommunicator::check_dim(const Call& call, std::int64_t dim, std::int64_t rank) const {
  if (dim < 0 || dim >= rank) refuse(call, "tensor dim {} of a tensor with {} dims", dim, rank);
}

void ThreadsCommunicator::check_lengths(const Call& call, Lengths lengths) const {
  if (static_cast<std::int64_t>(lengths.size()) != size()) {
    refuse(call, "{} lengths for {} ranks", lengths.size(), size());
  }
  for (const std::int64_t length : lengths) {
    if (length < 0) refuse(call, "length {}", length);
  }
}

void ThreadsCommunicator::check_piece(const Call& call, std::int64_t dim,
                                      std::int64_t wanted) const {
  const std::int64_t has = call.x->size(static_cast<std::size_t>(dim));
  if (has != wanted)
    refuse(call, "tensor dim {} has size {}, the lengths say {}", dim, has, wanted);
}

void ThreadsCommunicator::check_reducible(const Call& call) const {
  if (reducible(call.x->dtype(), call.op)) return;
  refuse(call, "{} of {}", to_string(call.op), to_string(call.x->dtype()));
}

Tensor ThreadsCommunicator::all_reduce(const Tensor& x, ReduceOp op, Issue issue) {
  Call call(CollectiveKind::kAllReduce);
  begin(call, &x);
  call.op = op;
  check_reducible(call);
  if (size() == 1) return contiguous(x).snapshot();
  const Tensor input = contiguous(x);
  call.x = &input;
  return finish(call, x.shape(), x.dtype(), issue);
}

Tensor ThreadsCommunicator::all_gather(const Tensor& x, std::int64_t dim, Lengths lengths,
                                       Issue issue) {
  Call call(CollectiveKind::kAllGather);
  begin(call, &x);
  call.dim = static_cast<std::int32_t>(dim);
  call.lengths = lengths;
  check_dim(call, dim, x.dim());
  check_lengths(call, lengths);
  check_piece(call, dim, lengths[static_cast<std::size_t>(rank_)]);
  if (size() == 1) return contiguous(x).snapshot();
  return finish(call, with_size(x.shape(), dim, total(lengths)), x.dtype(), issue);
}

Tensor ThreadsCommunicator::reduce_scatter(const Tensor& x, std::int64_t dim, Lengths lengths,
                                           ReduceOp op, Issue issue) {
  Call call(CollectiveKind::kReduceScatter);
  begin(call, &x);
  call.dim = static_cast<std::int32_t>(dim);
  call.lengths = lengths;
  call.op = op;
  check_dim(call, dim, x.dim());
  check_lengths(call, lengths);
  check_piece(call, dim, total(lengths));
  check_reducible(call);
  if (size() == 1) return contiguous(x).snapshot();
  const Tensor input = contiguous(x);
  call.x = &input;
  return finish(call, with_size(x.shape(), dim, lengths[static_cast<std::size_t>(rank_)]),
                x.dtype(), issue);
}

Tensor ThreadsCommunicator::all_to_all(const Tensor& x, std::int64_t split_dim,
                                       Lengths split_lengths, std::int64_t concat_dim,
                                       Lengths concat_lengths, Issue issue) {
  Call call(CollectiveKind::kAllToAll);
  begin(call, &x);
  call.dim = static_cast<std::int32_t>(split_dim);
  call.lengths = split_lengths;
  call.concat_dim = static_cast<std::int32_t>(concat_dim);
  call.concat_lengths = concat_lengths;
  check_dim(call, split_dim, x.dim());
  check_dim(call, concat_dim, x.dim());
  check_lengths(call, split_lengths);
  check_lengths(call, concat_lengths);
  check_piece(call, split_dim, total(split_lengths));
  if (size() == 1) return contiguous(x).snapshot();
  const Dims cut = with_size(x.shape(), split_dim, split_lengths[static_cast<std::size_t>(rank_)]);
  return finish(call, with_size(cut, concat_dim, total(concat_lengths)), x.dtype(), issue);
}

Tensor ThreadsCommunicator::broadcast(const Tensor& x, std::int64_t source,
                                      const TensorMeta& meta) {
  check_peer("source", source);
  Call call(CollectiveKind::kBroadcast);
  begin(call, rank_ == source ? &x : nullptr);
  call.root = static_cast<std::int32_t>(source);
  call.expected = &meta;
  if (rank_ == source && (!x.defined() || x.shape() != meta.shape || x.dtype() != meta.dtype)) {
    refuse(call, "the source's tensor is not what the ranks expect");
  }
  if (size() == 1) return contiguous(x).snapshot();
  return finish(call, meta.shape, meta.dtype, Issue::kWait);
}

Tensor ThreadsCommunicator::scatter(const Tensor& x, std::int64_t source, std::int64_t dim,
                                    Lengths lengths, const TensorMeta& meta) {
  check_peer("source", source);
  Call call(CollectiveKind::kScatter);
  begin(call, rank_ == source ? &x : nullptr);
  call.root = static_cast<std::int32_t>(source);
  call.dim = static_cast<std::int32_t>(dim);
  call.lengths = lengths;
  call.expected = &meta;
  check_dim(call, dim, static_cast<std::int64_t>(meta.shape.size()));
  check_lengths(call, lengths);
  if (rank_ == source && (!x.defined() || x.shape() != meta.shape || x.dtype() != meta.dtype)) {
    refuse(call, "the source's tensor is not what the ranks expect");
  }
  if (rank_ == source) check_piece(call, dim, total(lengths));
  if (size() == 1) return contiguous(x).snapshot();
  return finish(call, with_size(meta.shape, dim, lengths[static_cast<std::size_t>(rank_)]),
                meta.dtype, Issue::kWait);
}

Tensor ThreadsCommunicator::gather(const Tensor& x, std::int64_t destination, std::int64_t dim,
                                   Lengths lengths) {
  check_peer("destination", destination);
  Call call(CollectiveKind::kGather);
  begin(call, &x);
  call.root = static_cast<std::int32_t>(destination);
  call.dim = static_cast<std::int32_t>(dim);
  call.lengths = lengths;
  check_dim(call, dim, x.dim());
  check_lengths(call, lengths);
  check_piece(call, dim, lengths[static_cast<std::size_t>(rank_)]);
  if (size() == 1) return contiguous(x).snapshot();
  Tensor whole = finish(call, with_size(x.shape(), dim, total(lengths)), x.dtype(), Issue::kWait);
  return rank_ == destination ? whole : Tensor();
}

Tensor ThreadsCommunicator::permute(const Tensor& x, std::int64_t to, std::int64_t from,
                                    const TensorMeta& received) {
  Call call(CollectiveKind::kPermute);
  begin(call, to >= 0 ? &x : nullptr);
  call.to = static_cast<std::int32_t>(to);
  call.from = static_cast<std::int32_t>(from);
  call.expected = &received;
  if (to >= 0) check_peer("rank", to);
  if (from >= 0) check_peer("rank", from);
  if (to >= 0 && !x.defined()) refuse(call, "nothing to send to rank {}", to);
  Tensor result = finish(call, received.shape, received.dtype, Issue::kWait);
  return from >= 0 ? result : Tensor();
}

std::vector<Tensor> ThreadsCommunicator::batch(std::span<const SendRecv> exchange) {
  Call call(CollectiveKind::kBatch);
  begin(call, nullptr);
  BatchPart mine{exchange, {}};
  call.part = &mine;
  for (const SendRecv& part : exchange) {
    check_peer("rank", part.peer);
    part.send.wait();
  }
  enter_and_wait(call);
  return std::move(mine.received);
}

std::vector<std::string> ThreadsCommunicator::all_gather_bytes(std::string_view bytes) {
  Call call(CollectiveKind::kAllGatherBytes);
  begin(call, nullptr);
  BytesPart mine{bytes, {}};
  call.part = &mine;
  enter_and_wait(call);
  return std::move(mine.gathered);
}

void ThreadsCommunicator::barrier() {
  if (size() == 1) return;
  Call call(CollectiveKind::kBarrier);
  begin(call, nullptr);
  enter_and_wait(call);
}

std::unique_ptr<Communicator> ThreadsCommunicator::split(std::int64_t color, std::int64_t key,
                                                         std::string name) {
  Call call(CollectiveKind::kSplit);
  begin(call, nullptr);
  SplitPart mine{.color = color, .key = key, .name = name};
  call.part = &mine;
  enter_and_wait(call);
  if (mine.group == nullptr) return nullptr;
  return make_communicator(world_, *mine.group, mine.group_rank);
}

void ThreadsCommunicator::abort(const Error& reason) {
  world_.rank_failed(group_.ranks()[static_cast<std::size_t>(rank_)], reason);
}

}  // namespace

std::unique_ptr<Communicator> make_communicator(World& world, Group& group, std::int64_t rank) {
  return std::make_unique<ThreadsCommunicator>(world, group, rank);
}

}  // namespace shardlab::threads
