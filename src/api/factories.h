// factories.h - new tensors for programs in C++: plain and equal on all ranks, or on a mesh, with
// the same values however they are cut. On a mesh every rank makes its own piece only.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/rank_context.h"
#include "mesh/dtensor.h"
#include "tensor/scalar.h"

namespace shardlab {

/// The place and the dtype of a new tensor.
struct Factory {
  const MeshLayout* mesh = nullptr;  ///< null: a plain tensor
  Placements placements = {};        ///< one per mesh dim; none at all: replicated
  std::optional<DType> dtype = {};   ///< default: f32; i64 for integers in full and arange
};

/// A generator starts anew; without one the rank's own, which all draws without a generator use.
void manual_seed(std::uint64_t seed, const Generator& generator = nullptr);

// Fail with Value for partial placements, Runtime for a mesh that was not constructed.
DTensor zeros(const Dims& shape, const Factory& options = {});
DTensor ones(const Dims& shape, const Factory& options = {});
// Plain ones: zeros({2, 3}, DType::kF64). Templates, so that {} are options.
template <std::same_as<DType> Type>
DTensor zeros(const Dims& shape, Type dtype) {
  return zeros(shape, Factory{.mesh = nullptr, .placements = {}, .dtype = dtype});
}
template <std::same_as<DType> Type>
DTensor ones(const Dims& shape, Type dtype) {
  return ones(shape, Factory{.mesh = nullptr, .placements = {}, .dtype = dtype});
}
DTensor full(const Dims& shape, Scalar value, const Factory& options = {});
/// 0, 1, ... before `end`.
DTensor arange(std::int64_t end, const Factory& options = {});
// Random: the rank's state advances by the global element count, on ranks outside the mesh too.
/// Uniform in [0, 1).
DTensor rand(const Dims& shape, const Factory& options = {});
DTensor randn(const Dims& shape, const Factory& options = {});

/// A plain tensor with these elements, row-major, rounded to `dtype`. Fails with Value for a wrong
/// count, Unsupported for complex.
DTensor tensor(const std::vector<double>& values, const Dims& shape, DType dtype = DType::kF32);

}  // namespace shardlab
