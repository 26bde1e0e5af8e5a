// hooks.h - functions of a program that backward calls with gradients: of a tensor, and of all
// tensors that enter or leave a part of a program together. They run while nothing is recorded,
// except where gradients are (Graph::kCreate), and may change gradients, not their shape, dtype or
// mesh. On every rank the same ones, in the order in which backward reaches them. Used by one rank.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "mesh/dtensor.h"

namespace shardlab {

/// Receives a gradient and returns its replacement; undefined: it stays.
using GradientHook = std::function<DTensor(const DTensor& gradient)>;

/// The hooks of one place on the tape, in order of registration.
struct TensorHooks {
  struct Hook {
    std::uint64_t id = 0;
    std::uint32_t output = 0;  ///< of a node
    GradientHook run;
  };
  std::vector<Hook> hooks;
  std::uint64_t made = 0;
};

/// One registered hook.
class HookHandle {
 public:
  HookHandle() = default;
  HookHandle(std::weak_ptr<TensorHooks> hooks, std::uint64_t id)
      : hooks_(std::move(hooks)), id_(id) {}
  /// From now on it is not called. Does nothing the second time, or where the tensor is dropped.
  void remove();
  /// The action of remove(), below everything that wraps the program's calls.
  void take_off() const;
  /// Whether both are of the same registration.
  friend bool operator==(const HookHandle& a, const HookHandle& b) {
    return a.id_ == b.id_ && !a.hooks_.owner_before(b.hooks_) && !b.hooks_.owner_before(a.hooks_);
  }

 private:
  std::weak_ptr<TensorHooks> hooks_;
  std::uint64_t id_ = 0;
};

/// Calls `hook` with the gradient of x, once it is summed up: of a leaf before it is added to what
/// the leaf has, of the result of an op before it flows on, whatever is written to x later. Not
/// called where no gradient arrives.
///   fails  Runtime: x does not require a gradient
HookHandle register_hook(const DTensor& x, GradientHook hook);

/// The gradient after the hooks of this output of a place.
///   fails  Runtime: a hook gives another shape, dtype or mesh
DTensor after_hooks(const TensorHooks& hooks, std::uint32_t output, DTensor gradient);

/// Receives the gradients of several tensors and returns as many.
using GradientsHook = std::function<std::vector<DTensor>(std::vector<DTensor> gradients)>;
/// Whether zeros replace gradients that do not arrive already when the hook is called; after it
/// they always do, unless the hook itself removes a gradient.
enum class MissingGradients : std::uint8_t { kZeros, kUndefined };

/// The same values, whose gradients pass `hook` on their way to these tensors: once for all of
/// them, where any arrives. Tensors that require no gradient are returned as they are.
///   fails  as register_hook's hooks, when backward runs
std::vector<DTensor> hook_gradients(const std::vector<DTensor>& tensors, MissingGradients missing,
                                    GradientsHook hook);

}  // namespace shardlab
