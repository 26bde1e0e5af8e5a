// library_nodes.h - recorded calls that are no ops of aten, as nodes: collectives and messages on
// plain tensors, and FSDP's copies around them.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "sim/recording/recorded_program.h"
#include "trace/graph.h"

namespace shardlab {

/// A call of this recorded name ("c10d.allreduce_.default") is one of them, but no message.
bool is_library_call(std::string_view op);

/// Gloo moves memory for such a call: what is stored in the gaps of a tensor, too.
bool moves_memory(std::string_view op);

/// The place in its group of the rank that such a call names; none: it names none.
std::optional<std::int64_t> root_of_call(const RecordedEvent& event);

/// Its nodes depend on the rank's place in the group.
bool has_place(std::string_view op);

/// One call, and the place for its nodes.
struct LibraryCall {
  const RecordedEvent& event;
  const std::vector<GraphArgument>& args;  ///< as the rank has them
  GraphGroup group;                        ///< if it has one, and its size
  std::int64_t ranks = 1;
  std::int64_t place = 0;  ///< the rank's in the group, of a call that has_place()
  std::function<ValueType(std::int32_t)> type_of;  ///< of a value, as the rank had it
  std::function<std::int32_t()> fresh;             ///< the number of a value in between
  std::function<GraphNode&(NodeKind)> add;         ///< the next node
  std::function<void()> reaches_behind;            ///< gloo moves what is behind a tensor's memory
};

/// Adds its nodes.
///   fails  Value: arguments that such a call does not have
void add_library_nodes(const LibraryCall& call);

}  // namespace shardlab
