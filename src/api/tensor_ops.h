// tensor_ops.h - ops under their PyTorch names, for programs in C++: on plain tensors and on
// DTensors, recorded for gradients. Each is one call of the ATen op that it names, so shapes,
// dtypes, shardings and errors are those of the op. Dims may count from the end. Everything here
// runs on the current rank: a function called outside of a world fails with Internal. Results are
// new handles that share ownership of their memory; arguments are not changed. Where placements do
// not fit, an op redistributes its operands, and the rank communicates: all ranks of the mesh have
// to make the call.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "mesh/dtensor.h"
#include "tensor/scalar.h"

namespace shardlab {

// Arithmetic. Operands broadcast; a number takes part without deciding the dtype of its kind.
DTensor add(const DTensor& a, const DTensor& b);
DTensor add(const DTensor& a, Scalar b);
DTensor sub(const DTensor& a, const DTensor& b);
DTensor sub(const DTensor& a, Scalar b);
/// The same dtype as for add: that of the operands together, by the promotion rules (base/dtype.h).
DTensor mul(const DTensor& a, const DTensor& b);
DTensor mul(const DTensor& a, Scalar b);
/// True division: integers and bools give f32.
DTensor div(const DTensor& a, const DTensor& b);
DTensor div(const DTensor& a, Scalar b);
/// Integers to the power of negative integers are refused with Value.
DTensor pow(const DTensor& base, const DTensor& exponent);
DTensor pow(const DTensor& base, Scalar exponent);
DTensor neg(const DTensor& x);

// Python's operators, as calls of the functions above.
inline DTensor operator+(const DTensor& a, const DTensor& b) { return add(a, b); }
inline DTensor operator+(const DTensor& a, Scalar b) { return add(a, b); }
inline DTensor operator+(Scalar a, const DTensor& b) { return add(b, a); }
inline DTensor operator-(const DTensor& a, const DTensor& b) { return sub(a, b); }
inline DTensor operator-(const DTensor& a, Scalar b) { return sub(a, b); }
DTensor operator-(Scalar a, const DTensor& b);
inline DTensor operator*(const DTensor& a, const DTensor& b) { return mul(a, b); }
inline DTensor operator*(const DTensor& a, Scalar b) { return mul(a, b); }
inline DTensor operator*(Scalar a, const DTensor& b) { return mul(b, a); }
inline DTensor operator/(const DTensor& a, const DTensor& b) { return div(a, b); }
inline DTensor operator/(const DTensor& a, Scalar b) { return div(a, b); }
DTensor operator/(Scalar a, const DTensor& b);
inline DTensor operator-(const DTensor& x) { return neg(x); }

// Comparisons give bool tensors. They are functions: == between handles asks for identity.
/// Element by element, operands broadcast; a NaN is unequal to everything, itself included.
DTensor eq(const DTensor& a, const DTensor& b);
DTensor eq(const DTensor& a, Scalar b);
DTensor ne(const DTensor& a, const DTensor& b);
DTensor ne(const DTensor& a, Scalar b);
DTensor lt(const DTensor& a, const DTensor& b);
DTensor lt(const DTensor& a, Scalar b);
DTensor le(const DTensor& a, const DTensor& b);
DTensor le(const DTensor& a, Scalar b);
DTensor gt(const DTensor& a, const DTensor& b);
DTensor gt(const DTensor& a, Scalar b);
DTensor ge(const DTensor& a, const DTensor& b);
DTensor ge(const DTensor& a, Scalar b);
/// Elements of `a` where `condition` holds, else of `b`; all three broadcast.
DTensor where(const DTensor& condition, const DTensor& a, const DTensor& b);

// Functions of one element
/// With the error function, or approximated with tanh, as torch's `approximate`.
enum class Gelu : std::uint8_t { kExact, kTanh };
// Integers and bools give f32, but for relu, which keeps the dtype, and gelu and silu, which refuse
// them. On cut tensors none of these communicates; pending sums are reduced first.
DTensor exp(const DTensor& x);
DTensor log(const DTensor& x);
DTensor sqrt(const DTensor& x);
DTensor rsqrt(const DTensor& x);
DTensor tanh(const DTensor& x);
DTensor sigmoid(const DTensor& x);
DTensor relu(const DTensor& x);
DTensor gelu(const DTensor& x, Gelu form = Gelu::kExact);
DTensor silu(const DTensor& x);

// Reductions: over all dims to 0-dim, or over some.
/// Whether a reduced dim stays, with size 1.
enum class KeepDim : std::uint8_t { kNo, kYes };
/// A sum of integers or bools is i64; of no elements 0. A dim that is cut becomes a pending sum,
/// which is reduced where another op or the program needs its value.
DTensor sum(const DTensor& x);
DTensor sum(const DTensor& x, const Dims& dims, KeepDim keep = KeepDim::kNo);
/// Of floats and complex numbers; of no elements NaN.
DTensor mean(const DTensor& x);
DTensor mean(const DTensor& x, const Dims& dims, KeepDim keep = KeepDim::kNo);
/// Without dims: over all.
DTensor amax(const DTensor& x, const Dims& dims = {}, KeepDim keep = KeepDim::kNo);
DTensor amin(const DTensor& x, const Dims& dims = {}, KeepDim keep = KeepDim::kNo);
/// The divisor is the element count less `correction`.
struct Variance {
  double correction = 1;
  KeepDim keep = KeepDim::kNo;
};
/// Of floats and complex numbers. Where no more elements than the correction are there: NaN or inf.
DTensor var(const DTensor& x, const Dims& dims = {}, const Variance& options = {});

// Products. matmul takes 1 to n dims and broadcasts all but the last two; mm takes two.
/// [.., m, k] and [.., k, n] give [.., m, n]; one dim on the left is a row, on the right a column,
/// and goes from the result. A k that is cut on both sides gives a pending sum.
DTensor matmul(const DTensor& a, const DTensor& b);
/// Of matrices alone: [m, k] and [k, n].
DTensor mm(const DTensor& a, const DTensor& b);
/// x @ weight^T + bias; weight is [out, in], bias undefined for none.
/// [.., in] gives [.., out]. A weight that is cut by `out` gives a result that is cut by its last
/// dim; x and a weight that are both cut by `in` give a pending sum.
DTensor linear(const DTensor& x, const DTensor& weight, const DTensor& bias = {});

// Layers
/// exp(x) over its sum along `dim`, which is made whole on every rank if it was cut.
DTensor softmax(const DTensor& x, std::int64_t dim);
/// Its logarithm, computed without the detour over exp(x) itself.
DTensor log_softmax(const DTensor& x, std::int64_t dim);
/// Undefined weights are left out; without `eps` rms_norm takes that of its dtype, layer_norm 1e-5.
struct Norm {
  DTensor weight;
  DTensor bias;  ///< layer_norm only
  std::optional<double> eps;
};
/// Over the trailing dims, whose sizes are `shape`.
/// (x - mean) / sqrt(variance + eps) * weight + bias.
DTensor layer_norm(const DTensor& x, const Dims& shape, const Norm& options = {});
/// Fails with Value when a bias is given.
/// x / sqrt(mean of squares + eps) * weight.
DTensor rms_norm(const DTensor& x, const Dims& shape, const Norm& options = {});
/// Rows of `weight` by index.
/// [..] and [rows, width] give [.., width]. A table whose rows are cut gives a pending sum under a
/// mask (K-18).
DTensor embedding(const DTensor& indices, const DTensor& weight);
/// What becomes of the losses of all samples.
enum class Reduction : std::uint8_t { kNone, kMean, kSum };
/// As torch's arguments of these names.
struct CrossEntropy {
  DTensor weight;  ///< per class
  Reduction reduction = Reduction::kMean;
  std::int64_t ignore_index = -100;
  double label_smoothing = 0;
};
/// Of logits over dim 1 (of 0 when there is one dim) and class indices.
DTensor cross_entropy(const DTensor& x, const DTensor& target, const CrossEntropy& options = {});

// Shapes. One size of view and reshape may be -1: what is left.
/// Shares memory with x.
///   fails  Value: the strides of x do not allow it
DTensor view(const DTensor& x, const Dims& shape);
/// A view where that is possible, else a copy.
DTensor reshape(const DTensor& x, const Dims& shape);
/// Views of x whose dims stand in another order; a dim that is cut stays cut, where it comes to
/// stand.
DTensor transpose(const DTensor& x, std::int64_t dim0, std::int64_t dim1);
DTensor permute(const DTensor& x, const Dims& dims);
/// All dims of size 1 go, or only `dim`.
DTensor squeeze(const DTensor& x);
DTensor squeeze(const DTensor& x, std::int64_t dim);
/// A new dim of size 1 in front of `dim`, which may be one past the last.
DTensor unsqueeze(const DTensor& x, std::int64_t dim);
/// -1 keeps a size.
/// A view in which dims of size 1 repeat, and new dims stand in front.
DTensor expand(const DTensor& x, const Dims& shape);

// Parts and wholes
/// Elements start, start + step, ... before `end`; bounds may count from the end.
struct Range {
  std::optional<std::int64_t> start;
  std::optional<std::int64_t> end;
  std::int64_t step = 1;
};
/// A view; bounds beyond the ends are those of the ends, and an empty range gives an empty tensor.
/// A dim that is cut is made whole first, unless the range is all of it.
DTensor slice(const DTensor& x, std::int64_t dim, const Range& range);
/// A view without `dim`.
///   fails  Value: no such index
DTensor select(const DTensor& x, std::int64_t dim, std::int64_t index);
/// Pieces of `size`; the last may be smaller.
std::vector<DTensor> split(const DTensor& x, std::int64_t size, std::int64_t dim = 0);
std::vector<DTensor> split_with_sizes(const DTensor& x, const Dims& sizes, std::int64_t dim = 0);
/// Along a dim that exists; sizes of all others agree.
/// The result has the dtype of all together.
DTensor cat(const std::vector<DTensor>& tensors, std::int64_t dim = 0);
/// Along a new dim; all shapes agree.
DTensor stack(const std::vector<DTensor>& tensors, std::int64_t dim = 0);
/// x at index, element by element, along `dim`; the result has the shape of `index`.
/// The dtype of `index` is i64 or i32.
DTensor gather(const DTensor& x, std::int64_t dim, const DTensor& index);
/// A copy with memory of its own.
DTensor clone(const DTensor& x);
/// The tensor itself when it has the dtype.
DTensor to(const DTensor& x, DType dtype);

}  // namespace shardlab
