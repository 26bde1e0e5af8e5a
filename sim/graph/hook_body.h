// hook_body.h - the nodes of a graph that are a hook's own, which follow the backward that called
// it, as the body of one function.
#pragma once

#include <set>
#include <string>

#include "trace/graph.h"

namespace shardlab {

struct HookBody {
  HookBody(const ProgramGraph& graph, std::int32_t hook);

  std::size_t begin = 0, end = 0;  ///< its call, and its result; equal: it is never called
  std::set<std::int32_t> shared;   ///< values that are used in the body and elsewhere, too
  std::string why_not;             ///< why no function can do what the hook did; empty: one can
};

}  // namespace shardlab
