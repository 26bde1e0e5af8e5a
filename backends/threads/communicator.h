// communicator.h - the door of the backend `threads`.
#pragma once

#include <cstdint>
#include <memory>

#include "comm/communicator.h"

namespace shardlab::threads {

class Group;
class World;

/// Group rank `rank` of `group`.
std::unique_ptr<Communicator> make_communicator(World& world, Group& group, std::int64_t rank);

}  // namespace shardlab::threads
