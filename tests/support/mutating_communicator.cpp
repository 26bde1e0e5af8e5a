// The real collective runs first, so that all ranks stay in step; then the result is spoilt in one
// way on the ranks that the mutation concerns. Whether the bytes changed is noted, because a
// mutation that changes nothing need not be found.
#include "tests/support/mutating_communicator.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "base/rank_context.h"
#include "tensor/device.h"
#include "tensor/host.h"

namespace shardlab {

namespace {

struct Interval {
  std::int64_t start = 0;
  std::int64_t size = 0;
};

// Pieces of `tensor` along `dim`, one after another in this order.
Tensor rearranged(const Tensor& tensor, std::int64_t dim, const std::vector<Interval>& order) {
  const auto at = static_cast<std::size_t>(dim);
  const Tensor result = empty(*tensor.device(), tensor.shape(), tensor.dtype());
  std::int64_t next = 0;
  for (const Interval& range : order) {
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
  std::vector<Interval> pieces;
  std::int64_t start = 0;
  for (const std::int64_t length : lengths) {
    if (length > 0) pieces.push_back({start, length});
    start += length;
  }
  if (tensor.numel() == 0 || pieces.size() < 2) return tensor;
  std::swap(pieces.front(), pieces.back());
  return rearranged(tensor, dim, pieces);
}

// Complex numbers are changed as two.
template <typename Change>
Tensor changed(const Tensor& tensor, Change change) {
  Tensor out = empty(*tensor.device(), tensor.shape(), tensor.dtype());
  if (is_integral(tensor.dtype())) {
    std::vector<std::int64_t> values = read_integers(tensor);
    for (std::int64_t& value : values) value = change(value);
    write_integers(out, values);
  } else {
    std::vector<double> values = read_doubles(tensor);
    for (double& value : values) value = change(value);
    write_doubles(out, values);
  }
  return out;
}

Tensor divided(const Tensor& tensor, std::int64_t divisor) {
  return changed(tensor,
                 [divisor](auto value) { return value / static_cast<decltype(value)>(divisor); });
}

Tensor multiplied(const Tensor& tensor, std::int64_t factor) {
  return changed(tensor,
                 [factor](auto value) { return value * static_cast<decltype(value)>(factor); });
}

// For maximum, minimum and average, reducing equal terms gives the term again.
Tensor reduced_again(const Tensor& right, ReduceOp op, std::int64_t ranks) {
  return op == ReduceOp::kSum ? multiplied(right, ranks) : right;
}

// The dim along which a result is put together, and from which pieces.
std::int64_t joined_dim(const Call& call) {
  return call.kind == CollectiveKind::kAllToAll ? call.concat_dim : call.dim;
}
Lengths joined_lengths(const Call& call) {
  return call.kind == CollectiveKind::kAllToAll ? call.concat_lengths() : call.lengths;
}

// Collectives that Mutation::index counts.
bool counted(CollectiveKind kind) {
  return gives_tensor(kind) ? kind != CollectiveKind::kScatter && kind != CollectiveKind::kGather
                            : kind == CollectiveKind::kBarrier;
}

// Data that all communicators of one rank share.
struct RankMutation {
  Mutation mutation;
  std::shared_ptr<MutationEffect> effect;
  std::int64_t next_index = 0;

  // Whether the collective that begins now is the one.
  bool hits(CollectiveKind collective, std::int64_t group_size) {
    const RankContext& rank = current_rank();
    if (group_size == 1 || (rank.mode & kModeObserve) == 0) return false;
    if (next_index++ != mutation.index) return false;
    // kForeignPiece needs the next rank's result, so every rank of the group takes part.
    if (mutation.kind != MutationKind::kForeignPiece && !concerns(rank.rank)) return false;
    return applies(mutation.kind, collective);
  }
  bool concerns(std::int64_t rank) const { return mutation.rank.value_or(rank) == rank; }
};

class MutatingCommunicator final : public ForwardingCommunicator {
 public:
  MutatingCommunicator(std::unique_ptr<Communicator> real, std::shared_ptr<RankMutation> plan)
      : ForwardingCommunicator(std::move(real)), plan_(std::move(plan)) {}

  Tensor perform(Call& call) override {
    if (!counted(call.kind) || !plan_->hits(call.kind, size())) return real().perform(call);
    call.issue = Issue::kWait;
    const Tensor right = real().perform(call);
    if (call.kind == CollectiveKind::kPermute && call.from < 0) return right;  // gets nothing
    switch (kind()) {
      case MutationKind::kForeignPiece:
        return next_ranks(right);
      case MutationKind::kSwapRanks:
        return noted(right, swapped(right, joined_dim(call), joined_lengths(call)));
      case MutationKind::kShiftChunk:
        return right.dim() == 0 ? right : noted(right, rotated(right, joined_dim(call)));
      case MutationKind::kDropReduction:
        return noted(right, own_term(call));
      case MutationKind::kReduceTwice:
        return noted(right, reduced_again(right, call.op, size()));
      case MutationKind::kDivideTwice:
        return noted(right, divided(right, size()));
    }
    return right;
  }

 protected:
  std::unique_ptr<Communicator> wrap(std::unique_ptr<Communicator> part) override {
    return std::make_unique<MutatingCommunicator>(std::move(part), plan_);
  }

 private:
  MutationKind kind() const { return plan_->mutation.kind; }

  // This rank's term of a reduction, or its slice of it.
  Tensor own_term(const Call& call) const {
    if (call.kind == CollectiveKind::kAllReduce) return clone_contiguous(*call.x);
    const auto own = static_cast<std::size_t>(rank());
    const std::int64_t start =
        std::accumulate(call.lengths.begin(),
                        call.lengths.begin() + static_cast<std::ptrdiff_t>(own), std::int64_t{0});
    return clone_contiguous(
        call.x->narrow(static_cast<std::size_t>(call.dim), start, call.lengths[own]));
  }
  // Every rank of the group comes here, whether the mutation concerns it or not.
  Tensor next_ranks(const Tensor& right) {
    const std::vector<std::byte> own = read_bytes(right);
    const std::string_view text(reinterpret_cast<const char*>(own.data()), own.size());
    const std::vector<std::string> all = real().all_gather_bytes(text);
    const std::string& next = all[static_cast<std::size_t>((rank() + 1) % size())];
    if (!plan_->concerns(current_rank().rank) || next.size() != own.size()) return right;
    const Tensor wrong = empty(*right.device(), right.shape(), right.dtype());
    if (!next.empty()) wrong.device()->write(wrong, next.data());
    return noted(right, wrong);
  }
  Tensor noted(const Tensor& right, const Tensor& wrong) {
    if (read_bytes(right) != read_bytes(wrong)) ++plan_->effect->changed;
    return wrong;
  }

  const std::shared_ptr<RankMutation> plan_;
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
