// group.h - calls of NCCL as data: the signature that identifies one, and a group of them made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backends/nccl/api.h"
#include "base/error.h"

namespace shardlab::nccl {

/// One call in a group, as this rank makes it. Memory is that of its device.
struct GroupCall {
  enum class Kind { kAllReduce, kAllGather, kReduceScatter, kBroadcast, kSend, kRecv };
  Kind kind = Kind::kAllReduce;
  const void* from = nullptr;  ///< null: it only receives
  void* to = nullptr;          ///< null: it only sends
  std::size_t count = 0;       ///< of `type`, as the call of NCCL counts
  DataType type = DataType::kUint8;
  RedOp op = RedOp::kSum;  ///< of those that reduce
  int peer = -1;           ///< root, receiver or sender
};

/// All facts on which NCCL's choice of algorithm, channels and connections may depend, of the calls
/// of a group in their order: everything but the addresses.
using Signature = std::vector<std::int64_t>;
Signature signature_of(std::span<const GroupCall> calls);

/// The settings of NCCL's calls of one rank. Never changes, so that any thread may read it.
struct Lane {
  Api api;
  int device = 0;
  int version = 0;  ///< of NCCL
  Stream stream = nullptr;
  std::int64_t rank = 0;
};

/// The result of calls of NCCL: `error` is set where one of them has been named already.
struct Outcome {
  Result result = Result::kSuccess;
  std::optional<Error> error;
};

/// Makes the calls as one group on the lane's stream. Throws nothing, and leaves no group open.
Outcome make_group(const Lane& lane, Comm comm, std::span<const GroupCall> calls) noexcept;

/// Aborts all of them at once: each alone would wait for the others' work on the stream.
void abort_together(const Lane& lane, std::span<const Comm> comms) noexcept;

}  // namespace shardlab::nccl
