// call.h - one rank's part of one collective as a value: its input, and the place of its result.
#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/collective_kind.h"
#include "base/error.h"
#include "base/rank_context.h"
#include "base/reduce_op.h"
#include "tensor/tensor.h"

namespace shardlab {

/// Lengths that were checked once, for callers that cut the same pieces again and again: those of a
/// large group are long. Immutable; made by make_shared.
class KnownLengths : public std::enable_shared_from_this<KnownLengths> {
 public:
  /// None is negative.
  explicit KnownLengths(std::vector<std::int64_t> values)
      : values_(std::move(values)),
        total_(std::accumulate(values_.begin(), values_.end(), std::int64_t{0})) {}
  /// In group order, in elements.
  const std::vector<std::int64_t>& values() const { return values_; }
  std::int64_t total() const { return total_; }

 private:
  std::vector<std::int64_t> values_;
  std::int64_t total_;
};

/// One element count per group rank, along the named tensor dim; zeros allowed. The caller keeps
/// them alive.
class Lengths {
 public:
  /// None are given: pieces are equal, or the collective has none.
  Lengths() = default;
  /// A view: the values outlive this and every call that is given it.
  template <std::convertible_to<std::span<const std::int64_t>> Values>
  Lengths(const Values& values) : values_(values) {}
  Lengths(const KnownLengths& known) : values_(known.values()), known_(&known) {}

  const std::int64_t* begin() const { return values_.data(); }
  const std::int64_t* end() const { return values_.data() + values_.size(); }
  std::size_t size() const { return values_.size(); }
  std::int64_t operator[](std::size_t index) const { return values_[index]; }
  operator std::span<const std::int64_t>() const { return values_; }
  /// Their sum, in elements: one step where the lengths are known, else one per group rank.
  std::int64_t total() const {
    return known_ != nullptr ? known_->total() : std::accumulate(begin(), end(), std::int64_t{0});
  }
  /// Null where they have not been checked yet.
  const KnownLengths* known() const { return known_; }

 private:
  std::span<const std::int64_t> values_;
  const KnownLengths* known_ = nullptr;
};

/// Whether a call returns with its result in place, or with a pending Work on the result's Storage.
enum class Issue : std::uint8_t { kWait, kAsync };

/// One peer's part of a batch. Messages between two ranks keep their order.
struct SendRecv {
  std::int64_t peer = 0;  ///< group rank
  Tensor send;            ///< undefined: nothing is sent
  bool receives = false;
  TensorMeta receive;  ///< of the received tensor, when `receives`
};

/// An error with which many ranks fail; shared by them, and never changed.
struct Failure : Counted {
  explicit Failure(Error what) : error(std::move(what)) {}
  const Error error;
};

/// The part that only a split has: ranks of an equal colour become one group, ordered by key, then
/// rank. Backends derive the result.
struct SplitPart {
  std::int64_t color = 0;
  std::int64_t key = 0;
  std::string_view name;
};

/// Input and result of all_gather_bytes alone. `bytes` belongs to the caller.
struct BytesPart {
  std::string_view bytes;
  std::vector<std::string> gathered;  ///< result
};

/// Input and result of a batch alone.
struct BatchPart {
  std::span<const SendRecv> exchange;
  std::vector<Tensor> received;  ///< result
};

/// Lives on the caller's stack, or in its pending Work, and is not touched until over(): where
/// ranks share memory, the last one to arrive reads all calls of the round and fills in all
/// results; from then on only the caller reads it. Small, because a rendezvous of many ranks
/// touches as many of them.
struct Call {
  /// kOpen until one party has set how it ended; it ends once.
  enum class State : std::uint8_t { kOpen, kDone, kFailed };

  explicit Call(CollectiveKind collective) : kind(collective) {}

  // The input of the caller. Ranks of one group agree on kind, op, dims and root.
  const CollectiveKind kind;
  ReduceOp op = ReduceOp::kSum;
  Issue issue = Issue::kWait;  ///< kAsync: of kinds that give_tensor() but permute
  std::atomic<State> state{State::kOpen};
  std::int16_t dim = 0;         ///< all_to_all: that of the cut
  std::int16_t concat_dim = 0;  ///< all_to_all
  std::int32_t root = -1;       ///< source or destination, group rank
  std::int32_t to = -1;         ///< permute, send
  std::int32_t from = -1;       ///< permute; recv, -1: any, and who it was is set
  std::int32_t tag = 0;         ///< send, recv: they meet where it is equal
  const Tensor* x = nullptr;    ///< settled; null: nothing is brought
  Lengths lengths;
  const TensorMeta* expected = nullptr;  ///< broadcast, scatter, permute, recv: of the result
  /// The part that one kind alone has; of all_to_all the lengths along concat_dim.
  std::variant<std::monostate, const Lengths*, SplitPart*, BytesPart*, BatchPart*> part;

  // The caller and its place: for memory of results, and for messages.
  Device* device = nullptr;
  SourcePosition position;
  const char* op_name = nullptr;  ///< of the op that communicates, or null

  // The result, written before the state: it is read behind over() only.
  BufferRef result;
  // Set where the call failed; many calls may share one.
  Ref<const Failure> failure;

  /// Lengths along concat_dim of an all_to_all; empty for other kinds.
  Lengths concat_lengths() const {
    const auto* given = std::get_if<const Lengths*>(&part);
    return given == nullptr ? Lengths() : **given;
  }
  /// Any thread may call it; true orders the reader behind the thread that filled in the result.
  bool over() const { return state.load(std::memory_order_acquire) != State::kOpen; }
  /// Called by the thread that has filled in the result; its last access to this call.
  void finish() { state.store(State::kDone, std::memory_order_release); }
  void fail_with(Ref<const Failure> why) {
    failure = std::move(why);
    state.store(State::kFailed, std::memory_order_release);
  }
};

/// Whether the result is one tensor. Batches and all_gather_bytes have theirs in `part`; barriers
/// and splits have none.
bool gives_tensor(CollectiveKind kind);
/// The meta of that tensor on this group rank, contiguous; also where a rank gets none (gather,
/// permute). The meta of a send is empty: it is only waited for.
TensorMeta result_meta(const Call& call, std::int64_t rank);
/// Whether the op has a meaning for the dtype: bit ops take integers and bool, avg floats and
/// complex, max and min all but complex. Sum of bool is "any", product is "all".
bool reducible(DType dtype, ReduceOp op);

}  // namespace shardlab
