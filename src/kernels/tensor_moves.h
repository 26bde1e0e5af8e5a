// tensor_moves.h - ops that only move, convert and fill views of tensors, over the two calls that a
// device has for that; shared by all devices.
#pragma once

#include "tensor/device.h"

namespace shardlab {

/// The two calls, made on one device; used for the duration of one kernel.
class TensorMoves {
 public:
  virtual ~TensorMoves() = default;
  /// out[...] = source[...], converted and broadcast.
  virtual void convert(const Tensor& out, const Tensor& source) const = 0;
  virtual void fill(const Tensor& out, const Scalar& number) const = 0;
};

namespace moves {

// Kernels of these ops, with their arguments.
void cat(const TensorMoves& moves, const KernelCall& call);
void stack(const TensorMoves& moves, const KernelCall& call);
void reshape_copy(const TensorMoves& moves, const KernelCall& call);
void slice_backward(const TensorMoves& moves, const KernelCall& call);
void select_backward(const TensorMoves& moves, const KernelCall& call);
void flip(const TensorMoves& moves, const KernelCall& call);
void repeat(const TensorMoves& moves, const KernelCall& call);
void pad(const TensorMoves& moves, const KernelCall& call);

}  // namespace moves

}  // namespace shardlab
