// Shapes and strides as kernels take them: dims of size 1 are dropped, neighbours that all arrays
// step over evenly become one, and the rest fits into a fixed number of dims. Operands that
// broadcast have stride 0.
#include <algorithm>

#include "backends/cuda/table_loops.h"
#include "base/error.h"
#include "kernels/element_types.h"
#include "kernels/functors.h"
#include "kernels/promotion.h"
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
      fail(ErrorKind::kUnsupported,
           "device cuda walks at most {} dims that are not adjacent in memory", kMaxDims);
    }
    walk.size[walk.dims++] = shape_[dim];
    last.push_back(dim);
  }
  for (const Array& array : arrays_) {
    for (std::size_t i = 0; i < last.size(); ++i) array.place->stride[i] = array.stride[last[i]];
  }
  return walk;
}

namespace {

void put_number(Place& place, const Scalar& number) {
  if (number.category() == Category::kComplex) compute_dtype_here(DType::kC64);
  place.real = number.to_double();
  place.integer = integer_part(number);
}

}  // namespace

void TableLoops::throw_if(Failure failure, std::string_view what) {
  if (failure != nullptr) fail(ErrorKind::kRuntime, "device cuda: {}: {}", what, failure);
}

void TableLoops::check_indices(std::string_view op) {
  std::int64_t bad = 0;
  await_stream();
  throw_if(table_.bad_indices(context_, &bad), "check of indices");
  if (bad > 0) {
    fail(ErrorKind::kValue, Fix{"--device cpu names the first of them"},
         "{}: {} indices are out of range", op, bad);
  }
}

void TableLoops::run(Element function, DType promoted, const Tensor& out,
                     std::span<const LocalArg> operands) {
  PointwiseCall call{};
  call.op = function;
  call.compute = compute_dtype_here(promoted);
  const Kinds kind = is_integral(call.compute) ? kIntegerKind : kRealKind;
  if ((kElementKinds[static_cast<std::size_t>(function)] & kind) == 0) {
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
  if (call.shape.count > 0) issue(table_.pointwise, call, "pointwise");
}

void TableLoops::convert(const Tensor& out, const Tensor& source) {
  if (out.dtype() != source.dtype()) {
    return run(Element::kPositive, compute_dtype_here(source.dtype()), out, {source});
  }
  if (out.numel() == 0) return;
  MoveCall call{};
  call.item_bytes = item_bytes(out.dtype());
  Walk walk(out.shape());
  call.out.dtype = out.dtype();
  call.out.data = writable(out);
  walk.add(call.out, out.stride());
  walk.add_read(call.in, source);
  call.shape = walk.finish();
  if (call.in.data != call.out.data || !std::ranges::equal(call.in.stride, call.out.stride)) {
    issue(table_.move, call, "copy");
  }
}

void TableLoops::fill(const Tensor& out, const Scalar& number) {
  if (out.numel() == 0) return;
  if (is_complex(out.dtype()) || out.dtype() == DType::kF8E4M3FN) {
    // One element from the host, repeated.
    alignas(16) std::byte element[16];
    store_scalar(element, out.dtype(), number);
    const Tensor one = empty(device(), Dims{}, out.dtype());
    device().write(one, element);
    return convert(out, one);
  }
  const DType compute = number.is_integral() ? DType::kI64 : DType::kF64;
  run(Element::kPositive, compute, out, {number});
}

}  // namespace shardlab::cuda
