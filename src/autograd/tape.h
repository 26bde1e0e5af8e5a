// tape.h - what programs do with the tape besides recording: backward over graphs that are kept,
// leaving it, asking what is on it. Everything here runs on the current rank.
#pragma once

#include <cstdint>

#include "autograd/autograd.h"

namespace shardlab {

/// Whether what was kept for backward is dropped when it has run; then it can't run again.
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
  TargetScope(const TargetScope&) = delete;
  TargetScope& operator=(const TargetScope&) = delete;

 private:
  std::uint32_t mode_;
};

/// Whether one lives on this rank.
bool views_are_targets();

/// The same value and memory without a place on the tape: what is written to one shows in the
/// other.
DTensor detach(const DTensor& x);
/// The handle itself leaves the tape. Fails with Runtime for a view.
void detach_in_place(const DTensor& x);
/// True for tensors that are not the result of a recorded op.
bool is_leaf(const DTensor& x);
/// Whether gradients are recorded of x: its own flag, or that of what it is a view of.
bool requires_grad(const DTensor& x);
/// The opposite of require_grad(). Fails with Runtime for the result of a recorded op.
void require_no_grad(const DTensor& x);

}  // namespace shardlab
