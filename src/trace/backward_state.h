// backward_state.h - data that the hooks of modules need when backward runs: one object for each
// graph. It is empty while the forward part is captured, an input of the backward part, and filled
// when the forward part is complete (T-49). Used by one rank.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trace/graph.h"
#include "trace/host_objects.h"

namespace shardlab {

class BackwardState {
 public:
  /// Takes an object under the prefix and the number of those before: "mod0", "hook1".
  ///   fails  Internal: the name is taken
  std::string add(std::string_view prefix, HostObject object);
  /// In the order in which they were added.
  std::vector<std::string> names() const;
  /// The forward part is complete: from now on get() works.
  void fill() { filled_ = true; }
  ///   fails  Internal: it is still empty, or has no such name
  const HostObject& get(std::string_view name) const;

 private:
  struct Entry {
    std::string name;
    HostObject object;
  };
  std::vector<Entry> entries_;
  bool filled_ = false;
};

/// A step of a graph that makes or uses a backward hook.
struct HookNode {
  std::string name;                         ///< "backward_hook", "setup_input_hook", ...
  std::vector<std::string> state;           ///< backward_hook: names in the backward state
  std::int64_t hook = -1;                   ///< of the others: the node that made it
  std::vector<DTensor> arguments, results;  ///< of the others
};

}  // namespace shardlab
