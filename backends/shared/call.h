// call.h - one rank's part of one collective: what it brings, and where its result goes.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/rank_context.h"
#include "comm/communicator.h"

namespace shardlab::backends {

/// An error with which many ranks fail.
struct Failure : Counted {
  explicit Failure(Error what) : error(std::move(what)) {}
  const Error error;
};

/// What only a split brings. Backends derive what it gets.
struct SplitPart {
  std::int64_t color = 0;
  std::int64_t key = 0;
  std::string_view name;
};

/// all_gather_bytes.
struct BytesPart {
  std::string_view bytes;
  std::vector<std::string> gathered;  ///< result
};

/// batch.
struct BatchPart {
  std::span<const SendRecv> exchange;
  std::vector<Tensor> received;  ///< result
};

/// Lives on the caller's stack, or in its pending Work, and is left alone until over(): where ranks
/// share memory, the last one to arrive reads all calls of the round and fills in all results; from
/// then on nobody but the caller looks at it. Small, because a rendezvous of many ranks touches as
/// many of them.
struct Call {
  enum class State : std::uint8_t { kOpen, kDone, kFailed };

  explicit Call(CollectiveKind collective) : kind(collective) {}

  const CollectiveKind kind;
  ReduceOp op = ReduceOp::kSum;
  std::atomic<State> state{State::kOpen};
  std::int32_t dim = 0;         ///< all_to_all: that of the cut
  std::int32_t concat_dim = 0;  ///< all_to_all
  std::int32_t root = -1;       ///< source or destination, group rank
  std::int32_t to = -1;         ///< permute
  std::int32_t from = -1;
  const Tensor* x = nullptr;  ///< settled; null: nothing is brought
  Lengths lengths;
  Lengths concat_lengths;                ///< all_to_all
  const TensorMeta* expected = nullptr;  ///< broadcast, scatter, permute: what arrives
  std::variant<std::monostate, SplitPart*, BytesPart*, BatchPart*> part;

  Device* device = nullptr;
  SourcePosition position;
  const char* op_name = nullptr;  ///< of the op that communicates, or null

  BufferRef result;
  Ref<const Failure> failure;

  bool over() const { return state.load(std::memory_order_acquire) != State::kOpen; }
  void finish() { state.store(State::kDone, std::memory_order_release); }
  void fail_with(Ref<const Failure> why) {
    failure = std::move(why);
    state.store(State::kFailed, std::memory_order_release);
  }
};

/// "all_gather(f32[4,3], dim 0, lengths 4,4,2)".
std::string signature(const Call& call);

/// What keeps two ranks of a group from meeting in these calls: "different dtypes", ...; empty when
/// they may meet. What only pairs must agree on is left out. A static text.
std::string_view difference(const Call& a, const Call& b);
inline bool compatible(const Call& a, const Call& b) { return difference(a, b).empty(); }
/// Whether rank `to` takes what rank `from` gives it. All calls have come and are compatible.
bool pair_fits(std::span<const Call* const> calls, std::size_t from, std::size_t to);
/// Whether the calls of all ranks, by group rank, fit together.
bool consistent(std::span<const Call* const> calls);

}  // namespace shardlab::backends
