#include "sim/faults/mutating_communicator.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "base/rank_context.h"
#include "sim/language/tensor_data.h"
#include "tensor/device.h"

namespace shardlab {

namespace {

std::vector<std::byte> bytes_of(const Tensor& tensor) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.size_bytes()));
  if (!bytes.empty()) tensor.device()->read(tensor, bytes.data());
  return bytes;
}

struct Range {
  std::int64_t start = 0;
  std::int64_t size = 0;
};

// Pieces of `tensor` along `dim`, one after another in this order.
Tensor rearranged(const Tensor& tensor, std::int64_t dim, const std::vector<Range>& order) {
  const auto at = static_cast<std::size_t>(dim);
  const Tensor result = empty(*tensor.device(), tensor.shape(), tensor.dtype());
  std::int64_t next = 0;
  for (const Range& range : order) {
    if (range.size == 0) continue;
    tensor.device()->copy(result.narrow(at, next, range.size),
                          tensor.narrow(at, range.start, range.size));
    next += range.size;
  }
  return result;
}

Tensor rotated(const Tensor& tensor, std::int64_t dim) {
  if (tensor.numel() == 0) return tensor;
  const std::int64_t size = tensor.size(static_cast<std::size_t>(dim));
  return rearranged(tensor, dim, {{size - 1, 1}, {0, size - 1}});
}

Tensor swapped(const Tensor& tensor, std::int64_t dim, Lengths lengths) {
  std::vector<Range> pieces;
  std::int64_t start = 0;
  for (const std::int64_t length : lengths) {
    if (length > 0) pieces.push_back({start, length});
    start += length;
  }
  if (tensor.numel() == 0 || pieces.size() < 2) return tensor;
  std::swap(pieces.front(), pieces.back());
  return rearranged(tensor, dim, pieces);
}

struct DividedBy {
  std::int64_t divisor;
  Number operator()(std::int64_t value) const { return value / divisor; }
  Number operator()(double value) const { return value / static_cast<double>(divisor); }
};

struct Times {
  std::int64_t factor;
  Number operator()(std::int64_t value) const { return value * factor; }
  Number operator()(double value) const { return value * static_cast<double>(factor); }
};

template <typename Change>
Tensor changed(const Tensor& tensor, Change change) {
  std::vector<Number> numbers = read_numbers(tensor);
  for (Number& number : numbers) number = std::visit(change, number);
  return tensor_of(*tensor.device(), tensor.shape(), tensor.dtype(), numbers);
}

// Of a maximum, a minimum or an average the reduction of equal terms is the term.
Tensor reduced_again(const Tensor& right, ReduceOp op, std::int64_t ranks) {
  return op == ReduceOp::kSum ? changed(right, Times{ranks}) : right;
}

// What all communicators of one rank share.
struct RankMutation {
  Mutation mutation;
  std::shared_ptr<MutationEffect> effect;
  std::int64_t next_index = 0;

  // Whether the collective that begins now is the one.
  bool hits(CollectiveKind collective, std::int64_t group_size) {
    const RankContext& rank = current_rank();
    if (group_size == 1 || (rank.mode & kModeObserve) == 0) return false;
    if (next_index++ != mutation.index) return false;
    // Results of others are there only where all ranks tell theirs.
    if (mutation.kind != MutationKind::kForeignPiece && !concerns(rank.rank)) return false;
    return applies(mutation.kind, collective);
  }
  bool concerns(std::int64_t rank) const { return mutation.rank.value_or(rank) == rank; }
};

class MutatingCommunicator final : public Communicator {
 public:
  MutatingCommunicator(std::unique_ptr<Communicator> real, std::shared_ptr<RankMutation> plan)
      : real_(std::move(real)), plan_(std::move(plan)) {}

  std::int64_t rank() const override { return real_->rank(); }
  std::int64_t size() const override { return real_->size(); }
  std::span<const std::int64_t> ranks() const override { return real_->ranks(); }
  const std::string& name() const override { return real_->name(); }

  Tensor all_reduce(const Tensor& x, ReduceOp op, Issue issue) override {
    if (!hits(CollectiveKind::kAllReduce)) return real_->all_reduce(x, op, issue);
    const Tensor right = real_->all_reduce(x, op, Issue::kWait);
    if (kind() == MutationKind::kDropReduction) return noted(right, clone_contiguous(x));
    return noted(right, reduced_wrongly(right, op));
  }

  Tensor all_gather(const Tensor& x, std::int64_t dim, Lengths lengths, Issue issue) override {
    if (!hits(CollectiveKind::kAllGather)) return real_->all_gather(x, dim, lengths, issue);
    return moved(real_->all_gather(x, dim, lengths, Issue::kWait), dim, lengths);
  }

  Tensor reduce_scatter(const Tensor& x, std::int64_t dim, Lengths lengths, ReduceOp op,
                        Issue issue) override {
    if (!hits(CollectiveKind::kReduceScatter)) {
      return real_->reduce_scatter(x, dim, lengths, op, issue);
    }
    const Tensor right = real_->reduce_scatter(x, dim, lengths, op, Issue::kWait);
    if (kind() == MutationKind::kForeignPiece) return next_ranks(right);
    if (kind() == MutationKind::kShiftChunk) return noted(right, rotated(right, dim));
    if (kind() != MutationKind::kDropReduction) return noted(right, reduced_wrongly(right, op));
    const auto own = static_cast<std::size_t>(rank());
    const std::int64_t start = std::accumulate(
        lengths.begin(), lengths.begin() + static_cast<std::ptrdiff_t>(own), std::int64_t{0});
    const Tensor slice = x.narrow(static_cast<std::size_t>(dim), start, lengths[own]);
    return noted(right, clone_contiguous(slice));
  }

  Tensor all_to_all(const Tensor& x, std::int64_t split_dim, Lengths split_lengths,
                    std::int64_t concat_dim, Lengths concat_lengths, Issue issue) override {
    const bool mutates = hits(CollectiveKind::kAllToAll);
    const Tensor right = real_->all_to_all(x, split_dim, split_lengths, concat_dim, concat_lengths,
                                           mutates ? Issue::kWait : issue);
    if (mutates && kind() == MutationKind::kForeignPiece) return next_ranks(right);
    return mutates ? moved(right, concat_dim, concat_lengths) : right;
  }

  Tensor broadcast(const Tensor& x, std::int64_t source, const TensorMeta& meta) override {
    const bool mutates = hits(CollectiveKind::kBroadcast) && !meta.shape.empty();
    const Tensor right = real_->broadcast(x, source, meta);
    return mutates ? noted(right, rotated(right, 0)) : right;
  }

  Tensor scatter(const Tensor& x, std::int64_t source, std::int64_t dim, Lengths lengths,
                 const TensorMeta& meta) override {
    return real_->scatter(x, source, dim, lengths, meta);
  }
  Tensor gather(const Tensor& x, std::int64_t destination, std::int64_t dim,
                Lengths lengths) override {
    return real_->gather(x, destination, dim, lengths);
  }

  Tensor permute(const Tensor& x, std::int64_t to, std::int64_t from,
                 const TensorMeta& received) override {
    const bool mutates = hits(CollectiveKind::kPermute);
    const Tensor right = real_->permute(x, to, from, received);
    if (!mutates || !right.defined() || right.dim() == 0) return right;
    return noted(right, rotated(right, 0));
  }

  std::vector<Tensor> batch(std::span<const SendRecv> exchange) override {
    return real_->batch(exchange);
  }
  std::vector<std::string> all_gather_bytes(std::string_view bytes) override {
    return real_->all_gather_bytes(bytes);
  }
  void barrier() override {
    hits(CollectiveKind::kBarrier);
    real_->barrier();
  }

  std::unique_ptr<Communicator> split(std::int64_t color, std::int64_t key,
                                      std::string name) override {
    std::unique_ptr<Communicator> part = real_->split(color, key, std::move(name));
    if (!part) return nullptr;
    return std::make_unique<MutatingCommunicator>(std::move(part), plan_);
  }
  void abort(const Error& reason) override { real_->abort(reason); }

 private:
  MutationKind kind() const { return plan_->mutation.kind; }
  bool hits(CollectiveKind collective) { return plan_->hits(collective, size()); }

  Tensor moved(const Tensor& right, std::int64_t dim, Lengths lengths) {
    return noted(right, kind() == MutationKind::kSwapRanks ? swapped(right, dim, lengths)
                                                           : rotated(right, dim));
  }
  Tensor reduced_wrongly(const Tensor& right, ReduceOp op) const {
    return kind() == MutationKind::kReduceTwice ? reduced_again(right, op, size())
                                                : changed(right, DividedBy{size()});
  }
  // Every rank of the group comes here, whether the mutation concerns it or not.
  Tensor next_ranks(const Tensor& right) {
    const std::vector<std::byte> own = bytes_of(right);
    const std::string_view text(reinterpret_cast<const char*>(own.data()), own.size());
    const std::vector<std::string> all = real_->all_gather_bytes(text);
    const std::string& next = all[static_cast<std::size_t>((rank() + 1) % size())];
    if (!plan_->concerns(current_rank().rank) || next.size() != own.size()) return right;
    const Tensor wrong = empty(*right.device(), right.shape(), right.dtype());
    if (!next.empty()) wrong.device()->write(wrong, next.data());
    return noted(right, wrong);
  }
  Tensor noted(const Tensor& right, const Tensor& wrong) {
    if (bytes_of(right) != bytes_of(wrong)) ++plan_->effect->changed;
    return wrong;
  }

  std::unique_ptr<Communicator> real_;
  std::shared_ptr<RankMutation> plan_;
};

}  // namespace

std::string_view to_string(MutationKind kind) {
  constexpr std::string_view kNames[] = {"drop reduction", "divide twice", "shift chunk",
                                         "swap ranks",     "reduce twice", "foreign piece"};
  return kNames[static_cast<std::size_t>(kind)];
}

bool applies(MutationKind mutation, CollectiveKind collective) {
  const bool reduces =
      collective == CollectiveKind::kAllReduce || collective == CollectiveKind::kReduceScatter;
  const bool gathers =
      collective == CollectiveKind::kAllGather || collective == CollectiveKind::kAllToAll;
  switch (mutation) {
    case MutationKind::kDropReduction:
    case MutationKind::kDivideTwice:
    case MutationKind::kReduceTwice:
      return reduces;
    case MutationKind::kShiftChunk:
      return gathers || collective == CollectiveKind::kReduceScatter ||
             collective == CollectiveKind::kBroadcast || collective == CollectiveKind::kPermute;
    case MutationKind::kSwapRanks:
      return gathers;
    case MutationKind::kForeignPiece:
      return collective == CollectiveKind::kReduceScatter ||
             collective == CollectiveKind::kAllToAll;
  }
  return false;
}

CommunicatorDecorator plant(const Mutation& mutation, std::shared_ptr<MutationEffect> effect) {
  return [mutation, effect = std::move(effect)](std::unique_ptr<Communicator> real) {
    auto plan = std::make_shared<RankMutation>(RankMutation{mutation, effect});
    return std::make_unique<MutatingCommunicator>(std::move(real), std::move(plan));
  };
}

}  // namespace shardlab
