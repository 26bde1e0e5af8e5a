// factories.h - new tensors for programs in C++: plain and equal on all ranks, or on a mesh, with
// the same values however they are cut. On a mesh every rank makes its own piece only.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <span>
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

// Fail with Value for partial placements, Runtime for a mesh that was not constructed. In place of
// options a dtype may be given, of a plain tensor: zeros({2, 3}, DType::kF64).
DTensor zeros(const Dims& shape, const Factory& options = {}, SourceLine place = {});
DTensor ones(const Dims& shape, const Factory& options = {}, SourceLine place = {});
DTensor full(const Dims& shape, Scalar value, const Factory& options = {}, SourceLine place = {});
/// 0, 1, ... before `end`.
DTensor arange(std::int64_t end, const Factory& options = {}, SourceLine place = {});
// Random: the rank's state advances by the global element count, on ranks outside the mesh too.
/// Uniform in [0, 1).
DTensor rand(const Dims& shape, const Factory& options = {}, SourceLine place = {});
DTensor randn(const Dims& shape, const Factory& options = {}, SourceLine place = {});

/// Plain, of this dtype.
inline Factory of_dtype(DType dtype) { return {nullptr, {}, dtype}; }
// Templates, so that {} are options.
template <std::same_as<DType> Type>
DTensor zeros(const Dims& shape, Type dtype, SourceLine place = {}) {
  return zeros(shape, of_dtype(dtype), place);
}
template <std::same_as<DType> Type>
DTensor ones(const Dims& shape, Type dtype, SourceLine place = {}) {
  return ones(shape, of_dtype(dtype), place);
}
template <std::same_as<DType> Type>
DTensor full(const Dims& shape, Scalar value, Type dtype, SourceLine place = {}) {
  return full(shape, value, of_dtype(dtype), place);
}
template <std::same_as<DType> Type>
DTensor arange(std::int64_t end, Type dtype, SourceLine place = {}) {
  return arange(end, of_dtype(dtype), place);
}
template <std::same_as<DType> Type>
DTensor rand(const Dims& shape, Type dtype, SourceLine place = {}) {
  return rand(shape, of_dtype(dtype), place);
}
template <std::same_as<DType> Type>
DTensor randn(const Dims& shape, Type dtype, SourceLine place = {}) {
  return randn(shape, of_dtype(dtype), place);
}

/// A plain tensor with these elements, row-major, rounded to `dtype`. Fails with Value for a wrong
/// count, Unsupported for complex.
DTensor tensor(const std::vector<double>& values, const Dims& shape, DType dtype = DType::kF32,
               SourceLine place = {});

// Memory of the program: numbers of C++'s own types, bit for bit, without a way over doubles.
/// A plain tensor with a copy of elements as they are stored, row-major.
///   fails  Value: another number of bytes than the shape has
DTensor from_bytes(std::span<const std::byte> elements, const Dims& shape, DType dtype,
                   SourceLine place = {});
/// A plain tensor with a copy of the elements of a std::vector, std::span, std::array, ...: f32 of
/// floats, i64 of std::int64_ts, ... (dtype_of).
template <std::ranges::contiguous_range Elements>
DTensor from_span(const Elements& elements, const Dims& shape, SourceLine place = {}) {
  return from_bytes(std::as_bytes(std::span(elements)), shape,
                    dtype_of<std::ranges::range_value_t<Elements>>(), place);
}
/// The own piece, checked: it is on the host, and its elements are row-major without gaps.
///   fails  Value: it has gaps or another order; Unsupported: it is on another device
const Tensor& host_piece(const DTensor& x);
/// This rank's elements where they are: an Eigen::Map<const Matrix> takes their data(). Valid until
/// x is written or dropped.
///   fails  as host_piece, and Value for elements of another type than T
template <typename T>
std::span<const T> as_span(const DTensor& x) {
  const Tensor& piece = host_piece(x);
  return {piece.data<T>(), static_cast<std::size_t>(piece.numel())};
}
/// The same, to write them. No tape and no graph sees such a write.
template <typename T>
std::span<T> as_mutable_span(const DTensor& x) {
  const Tensor& piece = host_piece(x);
  return {piece.mutable_data<T>(), static_cast<std::size_t>(piece.numel())};
}

}  // namespace shardlab
