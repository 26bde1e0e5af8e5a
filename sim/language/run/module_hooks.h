// module_hooks.h - hooks of backward on a def, which is in the place of PyTorch's module: its
// tensor arguments and results are those of the module. Used by one rank.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "sim/language/run/interpreter.h"
#include "sim/language/values/cells.h"

namespace shardlab {

/// The hooks of one function, in order of registration; the functions are stored in variables, as
/// one may hold the def whose hook it is.
struct ModuleHooks {
  enum class When : std::uint8_t { kBefore, kAfter };
  struct Hook {
    std::uint64_t id = 0;
    When when = When::kAfter;
    std::shared_ptr<Cell> run;
  };
  std::vector<Hook> hooks;
  std::uint64_t made = 0;
};

/// Calls `run` with the arguments, so that the gradients of its tensors pass the hooks: in backward
/// first hooks of kind kBefore are called with (f, grad_output), then, when the gradients of the
/// arguments are known, those of kind kAfter with (f, grad_input, grad_output): tuples with an
/// entry for every positional argument or result. The result of a hook replaces its last argument
/// but grad_output. If no argument requires a gradient, both are called one after the other and
/// hooks of kind kAfter cannot change anything.
///   fails  Value: the result is no tensor or tuple. In backward, Runtime: a hook returns tuples of
///          another length, or another kind of value
Value call_hooked(Interpreter& interpreter, const FunctionValue& function, CallValues call,
                  const std::function<Value(CallValues)>& run);

/// x.register_hook(f).
Value run_register_hook(Interpreter& interpreter, const Value* self, CallValues call);

}  // namespace shardlab
