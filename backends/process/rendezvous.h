// rendezvous.h - the meeting of the processes of a job, over TCP.
#pragma once

#include <optional>
#include <vector>

#include "backends/process/control_channel.h"

namespace shardlab::process {

/// On rank 0 the connections of ranks 1.., by rank - 1; elsewhere one connection, to rank 0.
/// Returns when all are present.
///   fails  Runtime naming those that did not arrive within the membership's patience
std::vector<Connection> meet(const Membership& membership, std::optional<Listener> listener);

/// Called by a process that cannot take part, for this reason, as far as it knows its place: all
/// that join within two seconds hear it.
void tell_unfit(Membership membership, const std::string& reason);

}  // namespace shardlab::process
