// Products of tensors of any number of dims, folded to one matrix product or stretched to one
// batch, by the conditions of the reference: the choice decides how much has to move.
#include "ops/core/matmul.h"

#include "base/error.h"
#include "ops/core/arguments.h"
#include "ops/core/view_meta.h"

namespace shardlab {
namespace {

bool has_no_gaps(const TensorMeta& meta) {
  for (std::size_t d = 0; d + 2 < meta.shape.size(); ++d) {
    if (meta.stride[d] != meta.stride[d + 1] * meta.shape[d + 1]) return false;
  }
  return true;
}

/// Whether the larger factor becomes a matrix of all its rows. A smaller factor that wants a
/// gradient is worth a copy: its gradient would be a batch of them otherwise.
bool folds(const DTensor& left, const DTensor& right) {
  const bool left_larger = left.ndim() >= right.ndim();
  const DTensor& larger = left_larger ? left : right;
  const DTensor& smaller = left_larger ? right : left;
  if (larger.ndim() < 3 || smaller.ndim() > 2) return false;
  if (smaller.requires_grad()) return true;
  if (left.ndim() == 2) return false;
  if (larger.numel() == 0) return true;
  TensorMeta meta = larger.meta();
  if (!left_larger) {
    const std::size_t last = meta.shape.size() - 1;
    std::swap(meta.shape[last], meta.shape[last - 1]);
    std::swap(meta.stride[last], meta.stride[last - 1]);
  }
  return has_no_gaps(meta);
}

DTensor transposed(Calls& calls, const DTensor& x) {
  return calls.one("transpose.int", {x, -2, -1});
}

DTensor folded(Calls& calls, const DTensor& left, const DTensor& right) {
  const bool swap = right.ndim() > left.ndim();
  const DTensor larger = swap ? transposed(calls, right) : left;
  const DTensor smaller = !swap ? right : left.ndim() == 2 ? calls.one("t", {left}) : left;
  Dims shape = larger.shape();
  const std::int64_t inner = shape.back();
  shape.pop_back();
  const DTensor rows = reshape(calls, larger, Dims{product(shape), inner});
  if (smaller.ndim() == 1) {
    return calls.one("_unsafe_view", {calls.one("mv", {rows, smaller}), shape});
  }
  shape.push_back(smaller.shape()[1]);
  const DTensor result = calls.one("_unsafe_view", {calls.one("mm", {rows, smaller}), shape});
  return swap ? contiguous(calls, transposed(calls, result)) : result;
}

Dims leading_dims(const DTensor& x) {
  Dims dims = x.shape();
  for (std::size_t i = 0; i < 2 && !dims.empty(); ++i) dims.pop_back();
  return dims;
}

Dims broadcast(Dims a, Dims b) {
  while (a.size() < b.size()) a.insert(0, 1);
  while (b.size() < a.size()) b.insert(0, 1);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i] && a[i] != 1 && b[i] != 1) {
      fail(Fix{"make them equal, or one of them 1"},
           "matmul: batch sizes {} and {} do not broadcast", a[i], b[i]);
    }
    if (a[i] == 1) a[i] = b[i];
  }
  return a;
}

/// `x` with its batch dims stretched to `batch` and flattened into one.
DTensor batched(Calls& calls, const DTensor& x, const Dims& batch, const Dims& matrix) {
  Dims sizes = batch;
  Dims flat{product(batch)};
  for (const std::int64_t size : matrix) {
    sizes.push_back(size);
    flat.push_back(size);
  }
  return reshape(calls, calls.one("expand", {x, sizes}), flat);
}

DTensor batch_product(Calls& calls, const DTensor& left, const DTensor& right) {
  const std::size_t left_ndim = left.ndim(), right_ndim = right.ndim();
  Dims shape = broadcast(leading_dims(left), leading_dims(right));
  const std::int64_t rows = left_ndim > 1 ? left.shape()[left_ndim - 2] : 1;
  const DTensor a = batched(calls, left, shape, Dims{rows, left.shape().back()});
  const bool column = right_ndim == 1;
  Dims matrix{right.shape().back()};
  if (!column) matrix.insert(0, right.shape()[right_ndim - 2]);
  DTensor b = batched(calls, right, shape, matrix);
  if (column) b = calls.one("unsqueeze", {b, 2});
  DTensor result = calls.one("bmm", {a, b});
  if (column) result = calls.one("squeeze.dim", {result, -1});
  if (left_ndim > 1) shape.push_back(rows);
  if (right_ndim > 1) shape.push_back(right.shape().back());
  return calls.one("_unsafe_view", {result, shape});
}

}  // namespace

DTensor contiguous(Calls& calls, const DTensor& x) {
  if (is_contiguous(x.shape(), x.meta().stride)) return x;
  Arguments args{x};
  args.push_back(Argument(std::string("contiguous_format")));
  return calls.one("clone", std::move(args));
}

DTensor reshape(Calls& calls, const DTensor& x, const Dims& sizes) {
  const Dims shape = infer_sizes(sizes, x.numel());
  if (view_strides(x.meta(), shape)) return calls.one("view", {x, sizes});
  return calls.one("_unsafe_view", {contiguous(calls, x), shape});
}

DTensor regrouped(Calls& calls, const DTensor& x, const Dims& sizes) {
  const bool cut = x.distributed() && x.spec()->is_sharded();
  return cut ? calls.one("view_copy", {x, sizes}) : reshape(calls, x, sizes);
}

DTensor matmul(Calls& calls, const DTensor& left, const DTensor& right) {
  const std::size_t a = left.ndim(), b = right.ndim();
  if (a == 0 || b == 0) {
    fail(Fix{"a number multiplies with *"},
         "matmul: both factors need at least one dim: {} and "
         "{}",
         type_string(left), type_string(right));
  }
  if (a == 1 && b == 1) return calls.one("dot", {left, right});
  if (a == 2 && b == 1) return calls.one("mv", {left, right});
  if (a == 1 && b == 2) {
    const DTensor row = calls.one("unsqueeze", {left, 0});
    return calls.one("squeeze.dim", {calls.one("mm", {row, right}), 0});
  }
  if (a == 2 && b == 2) return calls.one("mm", {left, right});
  if (folds(left, right)) return folded(calls, left, right);
  if (a == 3 && b == 3 && left.shape()[0] != right.shape()[0]) {
    if (left.shape()[0] == 1) return matmul(calls, calls.one("squeeze.dim", {left, 0}), right);
    if (right.shape()[0] == 1) return matmul(calls, left, calls.one("squeeze.dim", {right, 0}));
  }
  return batch_product(calls, left, right);
}

Results decompose_contiguous(Calls& calls, const Arguments& args) {
  return {contiguous(calls, args[0].tensor())};
}

Results decompose_reshape(Calls& calls, const Arguments& args) {
  return {reshape(calls, args[0].tensor(), ints_of(args[1]))};
}

}  // namespace shardlab
