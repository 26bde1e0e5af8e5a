// communicator.h - the door of the backend `threads`.
#pragma once

#include <cstdint>
#include <memory>

#include "comm/communicator.h"

namespace shardlab::threads {

class Group;

/// Group rank `rank` of `group`.
std::unique_ptr<Communicator> make_communicator(Group& group, std::int64_t rank);

}  // namespace shardlab::threads
