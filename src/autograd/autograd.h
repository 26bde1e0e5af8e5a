// autograd.h - a tape above the dispatcher. Gradients are small programs over other ops, so their
// sharding follows by propagation. Everything here runs on the current rank.
#pragma once

#include <optional>
#include <vector>

#include "mesh/operand.h"
#include "redistribute/options.h"

namespace shardlab {

class Calls;  // schema/calls.h

/// Calls that decompose composite rows, record gradients and dispatch. Stateless: state lives in
/// handles and in the rank's context, so one object serves all ranks.
Calls& recording_calls();

/// dtypes of the forward and of the backward communication.
struct RedistributeDTypes {
  std::optional<DType> forward = {};
  std::optional<DType> backward = {};
};
///
DTensor redistribute(Operand x, const DTensorSpec* target, const RedistributeOptions& options = {},
                     const RedistributeDTypes& dtypes = {});

/// Plain to distributed and back, with gradients. Without `global` the global shape is local size x
/// mesh size per cut. The gradient that from_local returns has the forward placements.
DTensor from_local(const DTensor& local, const MeshLayout* layout, const Placements& placements,
                   const std::optional<TensorMeta>& global = std::nullopt);
/// The gradient is labelled with x's own placements (partials as R) unless others are given.
DTensor to_local(const DTensor& x, const std::optional<Placements>& gradient = std::nullopt);
/// K-17: everything replicated, then the local tensor.
DTensor full_tensor(Operand x);

/// Marks a leaf: from now on calls on it are recorded. Fails with Value for integers. The result of
/// a recorded op stays that, and keeps no gradient: detach() it first (tape.h).
void require_grad(Operand x);
/// The accumulated gradient of a leaf; undefined when there is none.
DTensor grad_of(const DTensor& leaf);
/// Forgets it: x.grad = None.
void drop_grad(const DTensor& leaf);
/// Adds gradients of `loss` to every leaf that requires one. A non-scalar loss needs a `seed` of
/// its shape (Value). Fails with Runtime when nothing requires a gradient.
void backward(Operand loss, const DTensor& seed = {});
/// Gradients with respect to `inputs`; gradients of leaves do not change; undefined where loss does
/// not depend.
std::vector<DTensor> gradients(Operand loss, const std::vector<DTensor>& inputs,
                               const DTensor& seed = {});

}  // namespace shardlab
