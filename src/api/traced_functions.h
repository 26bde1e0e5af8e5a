// traced_functions.h - functions on process groups, and from_local, as a capture sees them:
// recognised by identity, and the five that give constants run at capture (T-13, T-14).
#pragma once

#include "trace/traced_value.h"

namespace shardlab {

/// Exactly a function that makes a distributed tensor of this rank's piece: from_local.
bool is_from_local(const HostObject& function);

/// One of get_group_size_by_name, get_group_tag, rank_not_in_group, get_process_group_ranks and
/// resolve_group_name_by_ranks_and_tag.
bool is_constant_group_function(const HostObject& function);

/// Runs one of them on constants; its answer is a constant of the graph.
///   fails  Internal: another function. Graph break: an argument that is not a constant. Else
///          as the function does
TracedValue call_group_function(Tracing& tracing, const HostObject& function,
                                const TracedCall& call);

}  // namespace shardlab
