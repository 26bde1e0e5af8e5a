// transfer.h - calls of NCCL as messages between pairs of ranks, and their progress.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/nccl/api.h"
#include "tests/nccl/double/region.h"

namespace shardlab::nccl_double {

enum class Kind : std::int32_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kReduce,
  kSend,
  kRecv,
};

/// One call as a rank made it.
struct Operation {
  Kind kind = Kind::kAllReduce;
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;  ///< as NCCL counts: of the call's signature
  nccl::DataType type = nccl::DataType::kInt8;
  nccl::RedOp op = nccl::RedOp::kSum;
  std::int32_t peer = -1;  ///< root of a broadcast or reduce
  std::uint64_t sequence = 0;
};
/// "ncclAllReduce(12 x ncclFloat32, ncclSum), call 3".
std::string text(const Operation& operation);

/// The calls' view of a communicator. Outlives them.
struct Place {
  Region region;
  int rank = 0;
  std::atomic<bool> aborted{false};  ///< by this rank: its calls end, the others' do not
};

/// Operations of one group, of any communicators, in the order of the calls.
struct GroupedOperation {
  std::shared_ptr<Place> place;
  Operation operation;
};

/// Runs all of them to the end, or until a communicator has failed; messages between two ranks keep
/// the order of the calls. Fails the communicator where the two ends of a message do not agree.
/// Ends the process after the deadline without any progress.
void run_operations(const std::vector<GroupedOperation>& operations);

}  // namespace shardlab::nccl_double
