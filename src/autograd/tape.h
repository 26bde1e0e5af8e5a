// tape.h - further use of the tape by programs: backward over graphs that are kept, leaving it,
// questions about its contents. Everything here runs on the current rank.
#pragma once

#include <cstdint>

#include "autograd/autograd.h"

namespace shardlab {

/// Whether the values kept for backward are dropped when it has run; then it can't run again.
enum class Graph : std::uint8_t {
  kFree,
  kRetain,
  kCreate,  ///< kept, and the gradients are recorded: they have gradients of their own
};

/// backward() and gradients() of autograd.h, whose graph may run again.
///   fails  as those. Runtime, too: a graph that was dropped; a tensor that a gradient needs was
///          written to in place since. Unsupported: backward() with kCreate, whose leaves would
///          hold gradients that hold the leaves
void backward(Operand loss, const DTensor& seed, Graph graph);
std::vector<DTensor> gradients(Operand loss, const std::vector<DTensor>& inputs,
                               const DTensor& seed, Graph graph);

/// While one lives, views are taken to be overwritten, not to be read: x[0:2] = 5 gathers nothing.
class TargetScope {
 public:
  TargetScope();
  ~TargetScope();
  TargetScope& operator=(TargetScope&&) = delete;

 private:
  std::uint32_t mode_;
};

/// Whether one lives on this rank.
bool views_are_targets();

/// The same value and memory without a place on the tape: writes to one show in the other.
DTensor detach(const DTensor& x);
/// The handle itself leaves the tape. Fails with Runtime for a view.
void detach_in_place(const DTensor& x);
/// True for tensors that are not the result of a recorded op.
bool is_leaf(const DTensor& x);
/// Whether gradients of x are recorded: its own flag, or that of the base of a view.
bool requires_grad(const DTensor& x);
/// The opposite of require_grad(). Fails with Runtime for the result of a recorded op.
void require_no_grad(const DTensor& x);

}  // namespace shardlab
