// communicator.h - the door of the backend `nccl`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/nccl/session.h"
#include "backends/nccl/turns.h"
#include "comm/communicator.h"

namespace shardlab::nccl {

/// The place of this rank in a group, for NCCL.
struct GroupPlace {
  Comm comm = nullptr;
  std::vector<std::int64_t> ranks;  ///< global, in group order
  std::vector<std::int64_t> hosts;  ///< of these ranks, numbered
  std::int64_t rank = 0;            ///< in the group
  std::string name;
  std::int32_t number = 0;  ///< unique among groups that share a rank
};

/// Reports to all other ranks that this one fails.
using Abort = std::function<void(const Error& reason)>;

/// Its NCCL communicator ends with the session's others. `turns`: null where calls are reported to
/// no other rank.
std::unique_ptr<Communicator> make_communicator(std::shared_ptr<Session> session, GroupPlace place,
                                                Abort abort,
                                                std::shared_ptr<Turns> turns = nullptr);

}  // namespace shardlab::nccl
