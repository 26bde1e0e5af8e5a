// The user's functions are in the backward state alone. The calls that backward makes hold names.
#include "trace/backward_hooks.h"

#include <algorithm>

#include "autograd/grad_mode.h"
#include "autograd/hooks.h"
#include "base/error.h"
#include "mesh/type_string.h"

namespace shardlab {

std::string BackwardState::add(std::string_view prefix, HostObject object) {
  std::string name = fmt::format("{}{}", prefix, entries_.size());
  const bool taken = std::ranges::find(entries_, name, &Entry::name) != entries_.end();
  if (taken) fail(ErrorKind::kInternal, "the backward state has a '{}' already", name);
  entries_.push_back({name, std::move(object)});
  return name;
}

std::vector<std::string> BackwardState::names() const {
  std::vector<std::string> names;
  for (const Entry& entry : entries_) names.push_back(entry.name);
  return names;
}

const HostObject& BackwardState::get(std::string_view name) const {
  if (!filled_) {
    fail(ErrorKind::kInternal, "the backward state is empty while the forward part is captured");
  }
  const auto found = std::ranges::find(entries_, name, &Entry::name);
  if (found == entries_.end()) fail(ErrorKind::kInternal, "the backward state has no '{}'", name);
  return found->object;
}

TracedValue create_backward_hook(Tracing& tracing, HostObject module, HookFunctions hooks,
                                 HookFunctions pre_hooks) {
  if (!tracing.options().backward) {
    tracing.break_graph({.gb_type = "module backward hooks need backward capture",
                         .context = "",
                         .explanation = "",
                         .hints = {"capture with TraceOptions{.backward = true}"}});
  }
  BackwardHook hook{.module = module, .hooks = hooks, .pre_hooks = pre_hooks};
  BackwardState& state = tracing.backward_state();
  hook.module_name = state.add("mod", std::move(module));
  hook.pre_hooks_name = state.add("hook", std::move(pre_hooks));
  hook.hooks_name = state.add("hook", std::move(hooks));
  hook.node = tracing.add_node(
      {.name = "backward_hook", .state = {hook.module_name, hook.pre_hooks_name, hook.hooks_name}});
  return tracing.hook_value(std::make_shared<const BackwardHook>(std::move(hook)));
}

namespace {

void check_meta(const Gradients& now, const Gradients& before, std::string_view name) {
  if (now.size() != before.size()) {
    fail(ErrorKind::kRuntime, Fix{"return one gradient for each that arrives, or nothing"},
         "{}: {} gradients arrive and {} come back", name, before.size(), now.size());
  }
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (now[i].defined() != before[i].defined() ||
        (now[i].defined() && type_string(now[i]) != type_string(before[i]))) {
      fail(ErrorKind::kRuntime, Fix{"keep shape, dtype and placements of the gradient"},
           "{}: gradient {} was {} and is {}", name, i, Argument(before[i]).text(),
           Argument(now[i]).text());
    }
  }
}

}  // namespace

Gradients call_module_hooks(const BackwardState& state, std::string_view hooks_name,
                            std::string_view module_name, const Gradients& result,
                            const std::vector<Gradients>& rest) {
  const HostObject& module = state.get(module_name);
  const auto& hooks = std::any_cast<const HookFunctions&>(state.get(hooks_name));
  const GradModeScope unrecorded(false);
  Gradients now = result;
  for (const HookFunction& hook : hooks) {
    if (auto replaced = hook(module, now, rest)) now = std::move(*replaced);
  }
  check_meta(now, result, hooks_name);
  return now;
}

TracedValue setup_hook(Tracing& tracing, const BackwardHook& hook, std::string_view method,
                       const TracedValue& argument) {
  const DTensor x = argument.as_proxy().value;
  // For both methods of one hook: the gradients that arrived at the results are passed to the hooks
  // of the arguments.
  const auto arrived = hook.arrived;
  const bool output = method == "setup_output_hook";
  const auto deferred =
      [&state = tracing.backward_state(), arrived, output, module = hook.module_name,
       hooks = output ? hook.pre_hooks_name : hook.hooks_name](std::vector<DTensor> gradients) {
        if (!output) return call_module_hooks(state, hooks, module, gradients, {*arrived});
        *arrived = call_module_hooks(state, hooks, module, gradients, {});
        return *arrived;
      };
  const std::vector<DTensor> passed = hook_gradients(
      {x}, output ? MissingGradients::kUndefined : MissingGradients::kZeros, deferred);
  tracing.add_node(
      {.name = std::string(method), .hook = hook.node, .arguments = {x}, .results = passed});
  return tracing.wrap(passed.at(0));
}

}  // namespace shardlab
