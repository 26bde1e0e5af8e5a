// group.h - calls of NCCL as data: the signature that identifies one, and a group of them made.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backends/nccl/api.h"
#include "base/error.h"

namespace shardlab::nccl {

/// One call in a group, as this rank makes it. Memory is that of its device.
struct GroupCall {
  enum class Kind { kAllReduce, kAllGather, kReduceScatter, kBroadcast, kSend, kRecv, kReduce };
  Kind kind = Kind::kAllReduce;
  const void* from = nullptr;  ///< null: it only receives
  void* to = nullptr;          ///< null: it only sends
  std::size_t count = 0;       ///< of `type`, as the call of NCCL counts
  DataType type = DataType::kUint8;
  RedOp op = RedOp::kSum;  ///< of those that reduce
  int peer = -1;           ///< root, destination, receiver or sender
};

/// All facts on which NCCL's choice of algorithm, channels and connections may depend, of one call:
/// everything but the addresses. A message takes all channels of its peer, whatever its length.
using Signature = std::array<std::int64_t, 5>;
/// The signatures of a group's calls; of several collectives one more, since NCCL chooses for them
/// together.
std::vector<Signature> signatures_of(std::span<const GroupCall> calls);

/// The settings of NCCL's calls of one rank. Never changes, so that any thread may read it.
struct Lane {
  Api api;
  int device = 0;
  int version = 0;  ///< of NCCL
  Stream stream = nullptr;
  std::int64_t rank = 0;
  /// Set when calls in progress are not to be waited for any more.
  std::shared_ptr<std::atomic<bool>> cut = std::make_shared<std::atomic<bool>>(false);
};

/// The result of calls of NCCL: `error` is set where one of them has been named already.
struct Outcome {
  Result result = Result::kSuccess;
  std::optional<Error> error;
};

/// The outcome of a call of a communicator that does not block, because the environment or an
/// nccl.conf says so, once it is known: waits while it is in progress. kInProgress: it was cut.
Result settled(const Lane& lane, Comm comm, Result result);

/// Makes the calls as one group on the lane's stream. Throws nothing, and leaves no group open.
/// kInProgress: as settled() has it.
Outcome make_group(const Lane& lane, Comm comm, std::span<const GroupCall> calls) noexcept;

/// Aborts all of them at once: each alone would wait for the others' work on the stream.
void abort_together(const Lane& lane, std::span<const Comm> comms) noexcept;

}  // namespace shardlab::nccl
