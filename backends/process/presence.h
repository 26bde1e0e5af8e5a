// presence.h - which ranks of a job are on this host and have begun to join it, before they can
// send each other anything: for messages about those that have not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace shardlab::process {

/// A mark that other processes of this host see until this one ends. `job`: equal in all processes
/// of the job and in no other. Made once for a process. Without effect where the system has no
/// sockets that vanish with their process (Linux has them). False if another process has this mark.
bool mark_presence(const std::string& job, std::int64_t rank, std::int64_t size);
/// The ranks that have marked their presence on this host, ascending; the own one among them.
std::vector<std::int64_t> ranks_present();
/// This process has told people why the job fails: the others of this host need not.
void tell_spoken();
/// Whether this process or another one of this host has. The rank that is to speak may be lost
/// before it has, or ranks may differ about which one that is: so one that ends in silence asks,
/// and waits a second for the answer, longer behind other ranks. True where nothing is known.
bool somebody_spoke();
/// Before the job is joined: whether this rank speaks, as the first of those present, or because
/// nobody does. Rank 0 is not the first any more once it has not answered.
bool must_speak();
void rank_zero_is_silent();

}  // namespace shardlab::process
