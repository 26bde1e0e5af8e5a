// tensor_ops.h - ops under their PyTorch names, for programs in C++: on plain tensors and on
// DTensors, recorded for gradients. Each is one call of the ATen op that it names, so shapes,
// dtypes, shardings and errors are those of the op. Dims may count from the end. Everything here
// runs on the current rank: a function called outside of a world fails with Runtime, and a tensor
// that is undefined with Value. Results are new handles that share ownership of their memory;
// arguments are changed only by functions whose name ends in "_". If placements do not fit, an
// op redistributes its operands, and the rank communicates: all ranks of the mesh have to make the
// call. An Operand is a DTensor and the line of the call, which errors name.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <vector>

#include "mesh/operand.h"
#include "tensor/scalar.h"

namespace shardlab {

// Arithmetic. Operands broadcast; a number takes part without deciding the dtype of its kind.
DTensor add(Operand a, const DTensor& b);
DTensor add(Operand a, Scalar b);
DTensor sub(Operand a, const DTensor& b);
DTensor sub(Operand a, Scalar b);
/// The same dtype as for add: that of the operands together, by the promotion rules (base/dtype.h).
DTensor mul(Operand a, const DTensor& b);
DTensor mul(Operand a, Scalar b);
/// True division: integers and bools give f32.
DTensor div(Operand a, const DTensor& b);
DTensor div(Operand a, Scalar b);
/// Integers to the power of negative integers are refused with Value.
DTensor pow(Operand base, const DTensor& exponent);
DTensor pow(Operand base, Scalar exponent);
DTensor neg(Operand x);

// Python's operators, as calls of the functions above.
inline DTensor operator+(Operand a, const DTensor& b) { return add(a, b); }
inline DTensor operator+(Operand a, Scalar b) { return add(a, b); }
inline DTensor operator+(Scalar a, Operand b) { return add(b, a); }
inline DTensor operator-(Operand a, const DTensor& b) { return sub(a, b); }
inline DTensor operator-(Operand a, Scalar b) { return sub(a, b); }
DTensor operator-(Scalar a, Operand b);
inline DTensor operator*(Operand a, const DTensor& b) { return mul(a, b); }
inline DTensor operator*(Operand a, Scalar b) { return mul(a, b); }
inline DTensor operator*(Scalar a, Operand b) { return mul(b, a); }
inline DTensor operator/(Operand a, const DTensor& b) { return div(a, b); }
inline DTensor operator/(Operand a, Scalar b) { return div(a, b); }
DTensor operator/(Scalar a, Operand b);
inline DTensor operator-(Operand x) { return neg(x); }

// In place: x itself is written, so that views and other handles of it show it. Its dtype, shape
// and placements stay; operands broadcast to it. Gives x.
//   fails  Runtime: a leaf that requires a gradient, while calls are recorded; placements that
//          would have to change
DTensor add_(Operand x, const DTensor& y);
DTensor add_(Operand x, Scalar y);
DTensor sub_(Operand x, const DTensor& y);
DTensor sub_(Operand x, Scalar y);
DTensor mul_(Operand x, const DTensor& y);
DTensor mul_(Operand x, Scalar y);
DTensor div_(Operand x, const DTensor& y);
DTensor div_(Operand x, Scalar y);
/// The elements of `source`, converted.
DTensor copy_(Operand x, const DTensor& source);
DTensor fill_(Operand x, Scalar value);
DTensor zero_(Operand x);

// Python's augmented operators: x is written, even through a const handle.
inline const DTensor& operator+=(Operand x, const DTensor& y) {
  add_(x, y);
  return x.tensor;
}
inline const DTensor& operator+=(Operand x, Scalar y) {
  add_(x, y);
  return x.tensor;
}
inline const DTensor& operator-=(Operand x, const DTensor& y) {
  sub_(x, y);
  return x.tensor;
}
inline const DTensor& operator-=(Operand x, Scalar y) {
  sub_(x, y);
  return x.tensor;
}
inline const DTensor& operator*=(Operand x, const DTensor& y) {
  mul_(x, y);
  return x.tensor;
}
inline const DTensor& operator*=(Operand x, Scalar y) {
  mul_(x, y);
  return x.tensor;
}
inline const DTensor& operator/=(Operand x, const DTensor& y) {
  div_(x, y);
  return x.tensor;
}
inline const DTensor& operator/=(Operand x, Scalar y) {
  div_(x, y);
  return x.tensor;
}

// Comparisons give bool tensors; x.is_same(y) compares handles.
/// Element by element, operands broadcast; a NaN is unequal to everything, itself included.
DTensor eq(Operand a, const DTensor& b);
DTensor eq(Operand a, Scalar b);
DTensor ne(Operand a, const DTensor& b);
DTensor ne(Operand a, Scalar b);
DTensor lt(Operand a, const DTensor& b);
DTensor lt(Operand a, Scalar b);
DTensor le(Operand a, const DTensor& b);
DTensor le(Operand a, Scalar b);
DTensor gt(Operand a, const DTensor& b);
DTensor gt(Operand a, Scalar b);
DTensor ge(Operand a, const DTensor& b);
DTensor ge(Operand a, Scalar b);
// Python's operators, as calls of these.
inline DTensor operator==(Operand a, Operand b) { return eq(a, b); }
inline DTensor operator==(Operand a, Scalar b) { return eq(a, b); }
inline DTensor operator!=(Operand a, Operand b) { return ne(a, b); }
inline DTensor operator!=(Operand a, Scalar b) { return ne(a, b); }
inline DTensor operator<(Operand a, const DTensor& b) { return lt(a, b); }
inline DTensor operator<(Operand a, Scalar b) { return lt(a, b); }
inline DTensor operator<=(Operand a, const DTensor& b) { return le(a, b); }
inline DTensor operator<=(Operand a, Scalar b) { return le(a, b); }
inline DTensor operator>(Operand a, const DTensor& b) { return gt(a, b); }
inline DTensor operator>(Operand a, Scalar b) { return gt(a, b); }
inline DTensor operator>=(Operand a, const DTensor& b) { return ge(a, b); }
inline DTensor operator>=(Operand a, Scalar b) { return ge(a, b); }
/// Elements of `a` where `condition` holds, else of `b`; all three broadcast.
DTensor where(Operand condition, const DTensor& a, const DTensor& b);

// Functions of one element
/// With the error function, or approximated with tanh, as torch's `approximate`.
enum class Gelu : std::uint8_t { kExact, kTanh };
// Integers and bools give f32, but for relu, which keeps the dtype, and gelu and silu, which refuse
// them. On cut tensors none of these communicates; pending sums are reduced first.
DTensor exp(Operand x);
DTensor log(Operand x);
DTensor sqrt(Operand x);
DTensor rsqrt(Operand x);
DTensor tanh(Operand x);
DTensor sigmoid(Operand x);
DTensor relu(Operand x);
DTensor gelu(Operand x, Gelu form = Gelu::kExact);
DTensor silu(Operand x);

// Reductions: over all dims to 0-dim, or over some.
/// Whether a reduced dim stays, with size 1.
enum class KeepDim : std::uint8_t { kNo, kYes };
/// A sum of integers or bools is i64; of no elements 0. A dim that is cut becomes a pending sum,
/// which is reduced where another op or the program needs its value.
DTensor sum(Operand x);
DTensor sum(Operand x, const Dims& dims, KeepDim keep = KeepDim::kNo);
template <std::integral Dim>  // a template, so that {} is a list of dims
DTensor sum(Operand x, Dim dim, KeepDim keep = KeepDim::kNo) {
  return sum(x, Dims{static_cast<std::int64_t>(dim)}, keep);
}
/// Takes floats and complex numbers. NaN if there are no elements.
DTensor mean(Operand x);
DTensor mean(Operand x, const Dims& dims, KeepDim keep = KeepDim::kNo);
template <std::integral Dim>  // a template, so that {} is a list of dims
DTensor mean(Operand x, Dim dim, KeepDim keep = KeepDim::kNo) {
  return mean(x, Dims{static_cast<std::int64_t>(dim)}, keep);
}
/// Without dims: over all.
DTensor amax(Operand x, const Dims& dims = {}, KeepDim keep = KeepDim::kNo);
DTensor amin(Operand x, const Dims& dims = {}, KeepDim keep = KeepDim::kNo);
/// The divisor is the element count less `correction`.
struct Variance {
  double correction = 1;
  KeepDim keep = KeepDim::kNo;
};
/// Takes floats and complex numbers. NaN or inf if there are no more elements than the correction.
DTensor var(Operand x, const Dims& dims = {}, const Variance& options = {});

// Products. matmul takes 1 to n dims and broadcasts all but the last two; mm takes two.
/// [.., m, k] and [.., k, n] give [.., m, n]; one dim on the left is a row, on the right a column,
/// and is dropped from the result. A k that is cut on both sides gives a pending sum.
DTensor matmul(Operand a, const DTensor& b);
/// Takes matrices only: [m, k] and [k, n].
DTensor mm(Operand a, const DTensor& b);
/// x @ weight^T + bias; weight is [out, in], bias undefined for none.
/// [.., in] gives [.., out]. A weight that is cut by `out` gives a result that is cut by its last
/// dim; x and a weight that are both cut by `in` give a pending sum.
DTensor linear(Operand x, const DTensor& weight, const DTensor& bias = {});

// Layers
/// exp(x) over its sum along `dim`, which is made whole on every rank if it was cut.
DTensor softmax(Operand x, std::int64_t dim);
/// Its logarithm, computed without the detour over exp(x) itself.
DTensor log_softmax(Operand x, std::int64_t dim);
/// Undefined weights are left out; without `eps` rms_norm takes that of its dtype, layer_norm 1e-5.
struct Norm {
  DTensor weight = {};
  DTensor bias = {};  ///< layer_norm only
  std::optional<double> eps = {};
};
/// Over the trailing dims, whose sizes are `shape`.
/// (x - mean) / sqrt(variance + eps) * weight + bias.
DTensor layer_norm(Operand x, const Dims& shape, const Norm& options = {});
/// Fails with Value when a bias is given.
/// x / sqrt(mean of squares + eps) * weight.
DTensor rms_norm(Operand x, const Dims& shape, const Norm& options = {});
/// Rows of `weight` by index.
/// [..] and [rows, width] give [.., width]. A table whose rows are cut gives a pending sum under a
/// mask (K-18).
DTensor embedding(Operand indices, const DTensor& weight);
/// Reduction of the losses of all samples.
enum class Reduction : std::uint8_t { kNone, kMean, kSum };
/// Arguments with torch's names and meanings.
struct CrossEntropy {
  DTensor weight = {};  ///< per class
  Reduction reduction = Reduction::kMean;
  std::int64_t ignore_index = -100;
  double label_smoothing = 0;
};
/// Takes logits over dim 1 (dim 0 if there is one dim) and class indices.
DTensor cross_entropy(Operand x, const DTensor& target, const CrossEntropy& options = {});

/// With probability p 0, else x / (1 - p): of training.
DTensor dropout(Operand x, double p = 0.5);
/// Undefined masks are left out; scale by default 1 / sqrt(width).
struct Attention {
  DTensor mask = {};  ///< bool: what takes part; floats: added to the scores
  double dropout = 0;
  bool causal = false;
  std::optional<double> scale = {};
};
/// softmax(q @ k^T * scale) @ v; each is [.., heads, length, width].
DTensor scaled_dot_product_attention(Operand query, const DTensor& key, const DTensor& value,
                                     const Attention& options = {});

// Shapes. One size of view and reshape may be -1: what is left.
/// Shares memory with x.
///   fails  Value: the strides of x do not allow it
DTensor view(Operand x, const Dims& shape);
/// A view where that is possible, else a copy.
DTensor reshape(Operand x, const Dims& shape);
/// Views of x with its dims in another order; a dim that is cut stays cut, at its new place.
DTensor transpose(Operand x, std::int64_t dim0, std::int64_t dim1);
DTensor permute(Operand x, const Dims& dims);
/// Drops all dims of size 1, or only `dim`.
DTensor squeeze(Operand x);
DTensor squeeze(Operand x, std::int64_t dim);
/// A new dim of size 1 in front of `dim`, which may be one past the last.
DTensor unsqueeze(Operand x, std::int64_t dim);
/// -1 keeps a size. A view in which dims of size 1 repeat, and new dims are added in front.
DTensor expand(Operand x, const Dims& shape);

// Parts and wholes
/// Elements start, start + step, ... before `end`; bounds may count from the end.
struct Range {
  std::optional<std::int64_t> start = {};
  std::optional<std::int64_t> end = {};
  std::int64_t step = 1;
};
/// A view; bounds beyond the ends are those of the ends, and an empty range gives an empty tensor.
/// A dim that is cut is made whole first, unless the range is all of it.
DTensor slice(Operand x, std::int64_t dim, const Range& range);
/// A view without `dim`.
///   fails  Value: no such index
DTensor select(Operand x, std::int64_t dim, std::int64_t index);
/// Pieces of `size`; the last may be smaller.
std::vector<DTensor> split(Operand x, std::int64_t size, std::int64_t dim = 0);
std::vector<DTensor> split_with_sizes(Operand x, const Dims& sizes, std::int64_t dim = 0);
/// Along a dim that exists; sizes of all others agree.
/// The result has the dtype of all together.
DTensor cat(const std::vector<DTensor>& tensors, std::int64_t dim = 0, SourceLine place = {});
/// Along a new dim; all shapes agree.
DTensor stack(const std::vector<DTensor>& tensors, std::int64_t dim = 0, SourceLine place = {});
/// x at index, element by element, along `dim`; the result has the shape of `index`.
/// The dtype of `index` is i64 or i32.
DTensor gather(Operand x, std::int64_t dim, const DTensor& index);
/// A copy with memory of its own.
DTensor clone(Operand x);
/// The tensor itself when it has the dtype.
DTensor to(Operand x, DType dtype);
/// The number in a tensor of one element; a distributed one is made whole first. On ranks outside
/// of its mesh 0.
///   fails  Value: more elements, or none
Scalar item(Operand x);
/// The tensor that item() reads: whole, plain, one element. The program may depend on it from now
/// on.
DTensor whole_item(Operand x);

}  // namespace shardlab
