// Shapes and strides as kernels take them: dims of size 1 are dropped, neighbours that all arrays
// step over evenly become one, and the rest fits into a fixed number of dims. Operands that
// broadcast have stride 0. A fold gives each row to one block of threads, so a few long rows are
// cut first.
#include <algorithm>

#include "backends/cuda/kernels.h"
#include "backends/cuda/pieces.h"
#include "kernels/element_types.h"
#include "kernels/functors.h"
#include "kernels/strided_loop.h"

namespace shardlab::cuda {

DType compute_dtype_here(DType dtype) {
  if (is_complex(dtype) || dtype == DType::kF8E4M3FN) {
    fail(ErrorKind::kUnsupported, "device cuda does not compute in {}", to_string(dtype));
  }
  return compute_dtype(dtype);
}

void* readable(const Tensor& tensor) { return const_cast<std::byte*>(readable_bytes(tensor)); }
void* writable(const Tensor& tensor) { return writable_bytes(tensor); }

void Walk::add(Place& place, std::span<const std::int64_t> stride) {
  arrays_.push_back({&place, Dims(stride)});
}

void Walk::add_read(Place& place, const Tensor& tensor) {
  place.data = readable(tensor);
  place.dtype = tensor.dtype();
  arrays_.push_back({&place, broadcast_strides(tensor, shape_)});
}

bool Walk::joins(std::size_t outer, std::size_t inner) const {
  return std::ranges::all_of(arrays_, [&](const Array& array) {
    return array.stride[outer] == array.stride[inner] * shape_[inner];
  });
}

Shape Walk::finish() {
  Shape walk;
  walk.count = product(shape_);
  for (const Array& array : arrays_) std::ranges::fill(array.place->stride, 0);
  if (walk.count == 0) return walk;
  std::vector<std::size_t> last;  // of each walk dim, the innermost dim that it joins
  for (std::size_t dim = 0; dim < shape_.size(); ++dim) {
    if (shape_[dim] == 1) continue;
    if (!last.empty() && joins(last.back(), dim)) {
      walk.size[walk.dims - 1] *= shape_[dim];
      last.back() = dim;
      continue;
    }
    if (walk.dims == kMaxDims) {
      fail(ErrorKind::kUnsupported, "device cuda walks at most {} dims that lie apart", kMaxDims);
    }
    walk.size[walk.dims++] = shape_[dim];
    last.push_back(dim);
  }
  for (const Array& array : arrays_) {
    for (std::size_t i = 0; i < last.size(); ++i) array.place->stride[i] = array.stride[last[i]];
  }
  return walk;
}

std::int64_t integer_part(const Scalar& number) {
  return number.is_integral() ? number.to_int() : truncated<std::int64_t>(number.to_double());
}

namespace {

void put_number(Place& place, const Scalar& number) {
  if (number.category() == Category::kComplex) compute_dtype_here(DType::kC64);
  place.real = number.to_double();
  place.integer = integer_part(number);
}

}  // namespace

void pointwise(Ops& ops, Element op, DType promoted, const Tensor& out,
               std::span<const LocalArg> operands) {
  PointwiseCall call{};
  call.op = op;
  call.compute = compute_dtype_here(promoted);
  const Kinds kind = is_integral(call.compute) ? kIntegerKind : kRealKind;
  if ((kElementKinds[static_cast<std::size_t>(op)] & kind) == 0) {
    fail(ErrorKind::kUnsupported, "device cuda has no kernel of this op for {}",
         to_string(promoted));
  }
  call.rounded = computes_wider(promoted) ? promoted : DType::kF64;
  call.operands = static_cast<int>(operands.size());
  compute_dtype_here(out.dtype());
  Walk walk(out.shape());
  call.out.dtype = out.dtype();
  call.out.data = out.numel() == 0 ? nullptr : writable(out);
  walk.add(call.out, out.stride());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (const auto* tensor = std::get_if<Tensor>(&operands[i])) {
      compute_dtype_here(tensor->dtype());
      walk.add_read(call.in[i], *tensor);
      continue;
    }
    const auto* number = std::get_if<Scalar>(&operands[i]);
    check_invariant(number != nullptr, "an operand is a tensor or a number");
    put_number(call.in[i], *number);
  }
  call.shape = walk.finish();
  if (call.shape.count > 0) ops.pointwise(call);
}

Tensor computed(Ops& ops, Element op, DType compute, std::span<const std::int64_t> shape,
                std::initializer_list<LocalArg> operands) {
  const Tensor out = empty(ops.device(), shape, compute);
  pointwise(ops, op, compute, out, std::span(operands.begin(), operands.size()));
  return out;
}

void convert(Ops& ops, const Tensor& out, const Tensor& source) {
  if (out.dtype() != source.dtype()) {
    const LocalArg operand[] = {source};
    return pointwise(ops, Element::kPositive, compute_dtype_here(source.dtype()), out, operand);
  }
  if (out.numel() == 0) return;
  MoveCall call{};
  Walk walk(out.shape());
  call.out.dtype = out.dtype();
  call.out.data = writable(out);
  walk.add(call.out, out.stride());
  walk.add_read(call.in, source);
  call.shape = walk.finish();
  if (call.in.data != call.out.data || !std::ranges::equal(call.in.stride, call.out.stride)) {
    ops.move(call);
  }
}

void fill(Ops& ops, const Tensor& out, const Scalar& number) {
  if (out.numel() == 0) return;
  if (is_complex(out.dtype()) || out.dtype() == DType::kF8E4M3FN) {
    // One element from the host, repeated.
    alignas(16) std::byte element[16];
    store_scalar(element, out.dtype(), number);
    const Tensor one = empty(ops.device(), Dims{}, out.dtype());
    ops.device().write(one, element);
    return convert(ops, out, one);
  }
  const LocalArg operand[] = {number};
  const DType compute = number.is_integral() ? DType::kI64 : DType::kF64;
  pointwise(ops, Element::kPositive, compute, out, operand);
}

Tensor as_contiguous(Ops& ops, const Tensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype && tensor.contiguous()) return tensor;
  const Tensor out = empty(ops.device(), tensor.shape(), dtype);
  convert(ops, out, tensor);
  return out;
}

RowView::RowView(const Tensor& source, const DimMask& reduced) {
  TensorMeta meta{{}, {}, source.dtype()};
  for (const unsigned char wanted : {0, 1}) {
    for (std::size_t dim = 0; dim < reduced.size(); ++dim) {
      if (reduced[dim] != wanted) continue;
      meta.shape.push_back(source.shape()[dim]);
      meta.stride.push_back(source.stride()[dim]);
      (wanted != 0 ? size : rows) *= source.shape()[dim];
      if (wanted == 0) kept.push_back(source.shape()[dim]);
    }
  }
  tensor = source.as_view(std::move(meta), source.offset());
}

Tensor RowView::over_rows(const Tensor& values) const {
  Dims shape = kept;
  shape.resize(tensor.shape().size(), 1);
  return values.as_view(contiguous_meta(shape, values.dtype()), values.offset());
}

namespace {

constexpr std::int64_t kLeastPiece = 8192;  // elements: some for each thread of a block
constexpr std::int64_t kMostPieces = 2048;  // of all rows: more blocks than a GPU runs at once

DType dtype_of(const FoldCall& call) {
  return call.fold == Fold::kAny || call.fold == Fold::kAll ? DType::kBool : call.compute;
}

}  // namespace

Rows rows_of(const RowView& view) {
  Rows rows;
  Walk walk(view.tensor.shape());
  walk.add_read(rows.source, view.tensor);
  rows.shape = walk.finish();
  rows.rows = view.rows;
  rows.size = view.size;
  return rows;
}

Pieces pieces_of(std::int64_t rows, std::int64_t size) {
  const auto parts = [](std::int64_t all, std::int64_t part) { return (all + part - 1) / part; };
  const std::int64_t wanted = std::min(parts(size, kLeastPiece), kMostPieces / rows);
  if (wanted <= 1) return {1, size};
  const std::int64_t piece = parts(size, wanted);
  return {parts(size, piece), piece};
}

void fold_rows(Ops& ops, FoldCall call) {
  if (call.rows.rows == 0) return;
  const std::int64_t rows = call.rows.rows;
  const Pieces cut = pieces_of(rows, call.rows.size);
  call.pieces = {1, call.rows.size};
  if (cut.per_row == 1) return ops.fold(call);
  const Dims shape{rows, cut.per_row};
  const Tensor folded = empty(ops.device(), shape, dtype_of(call));
  const Tensor stood = call.indices == nullptr ? Tensor() : empty(ops.device(), shape, DType::kI64);
  FoldCall first = call;
  first.pieces = cut;
  first.out = writable(folded);
  if (stood.defined()) first.indices = static_cast<std::int64_t*>(writable(stood));
  ops.fold(first);
  call.rows = rows_of(RowView(folded, DimMask{0, 1}));
  call.pieces = {1, cut.per_row};
  call.stood = first.indices;
  ops.fold(call);
}

Tensor fold(Ops& ops, Fold fold, DType compute, const RowView& view) {
  FoldCall call{};
  call.fold = fold;
  call.compute = compute;
  call.rows = rows_of(view);
  const Tensor out = empty(ops.device(), Dims{view.rows}, dtype_of(call));
  call.out = writable(out);
  fold_rows(ops, call);
  return out;
}

}  // namespace shardlab::cuda
