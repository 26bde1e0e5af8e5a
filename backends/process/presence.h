// presence.h - which ranks of a job are on this host and have begun to join it, before they can
// send each other anything: for messages about those that have not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace shardlab::process {

/// A mark that other processes of this host see until this one ends. `job`: equal in all processes
/// of the job and in no other. Made once for a process. Without effect where the system has no
/// sockets that vanish with their process (Linux has them).
void mark_presence(const std::string& job, std::int64_t rank);
/// Those of `size` ranks that have marked their presence on this host, ascending; the own one among
/// them.
std::vector<std::int64_t> ranks_present(std::int64_t size);
/// Whether the own rank is the first of these, so that it speaks for them: true where nothing is
/// known. Rank 0 does not count any more once it has not answered.
bool first_present();
void rank_zero_is_silent();
/// After this rank has spoken: keeps the mark for a second, so that others see it that give up
/// next.
void stay_present();

}  // namespace shardlab::process
