// backward_hooks.h - hooks of a module on its backward pass, while the module is captured. The
// graph does not hold the user's functions: it builds a hook object whose calls fetch module and
// functions by name from the backward state when backward runs (T-50, T-51). Used by one rank.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "trace/traced_value.h"

namespace shardlab {

using Gradients = std::vector<DTensor>;
/// A function of the user: receives the module, the present gradients, and the gradients before
/// them; returns their replacement, or nothing.
using HookFunction = std::function<std::optional<Gradients>(
    const HostObject& module, const Gradients& result, const std::vector<Gradients>& rest)>;
using HookFunctions = std::vector<HookFunction>;

/// The data of a traced hook (T-54).
struct BackwardHook {
  std::int64_t node = -1;
  HostObject module;
  HookFunctions hooks, pre_hooks;
  // In the backward state.
  std::string module_name, hooks_name, pre_hooks_name;
  /// The gradients of the results, once backward has reached them.
  std::shared_ptr<Gradients> arrived = std::make_shared<Gradients>();
};

/// The hook object of a module that is captured (T-47).
///   fails  graph break: backward is not captured (T-48)
TracedValue create_backward_hook(Tracing& tracing, HostObject module, HookFunctions hooks,
                                 HookFunctions pre_hooks);

/// The deferred call: module and functions are fetched by name, each function receives the result
/// of the one before (T-52).
///   fails  Internal: the state has no such names, or is empty. Runtime: a gradient has another
///          shape, dtype or mesh than the one that arrived
Gradients call_module_hooks(const BackwardState& state, std::string_view hooks_name,
                            std::string_view module_name, const Gradients& result,
                            const std::vector<Gradients>& rest);

/// setup_input_hook and setup_output_hook: the same tensors, whose gradients pass the deferred
/// calls (T-55).
TracedValue setup_hook(Tracing& tracing, const BackwardHook& hook, std::string_view method,
                       const TracedValue& argument);

}  // namespace shardlab
