// communicator.h - the door of the backend `nccl`.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backends/nccl/session.h"
#include "backends/nccl/turns.h"
#include "backends/process/group_communicator.h"
#include "comm/communicator.h"

namespace shardlab::nccl {

/// The place of this rank in a group, for NCCL.
struct GroupPlace : process::GroupPlace {
  Comm comm = nullptr;
  std::vector<std::int64_t> hosts = {};  ///< of its ranks, numbered
};

/// Reports to all other ranks that this one fails.
using Abort = std::function<void(const Error& reason)>;

/// Its NCCL communicator ends with the session's others. `turns`: null where calls are reported to
/// no other rank.
std::unique_ptr<Communicator> make_communicator(std::shared_ptr<Session> session, GroupPlace place,
                                                Abort abort,
                                                std::shared_ptr<Turns> turns = nullptr);

}  // namespace shardlab::nccl
