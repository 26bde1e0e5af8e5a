// Steps of kernels that are one loop and its memory.
#include "kernels/loops.h"

#include "base/error.h"
#include "kernels/element_types.h"

namespace shardlab {

Tensor computed(Loops& loops, Element function, DType compute, std::span<const std::int64_t> shape,
                std::initializer_list<LocalArg> operands) {
  const Tensor out = empty(loops.device(), shape, compute);
  loops.run(function, compute, out, operands);
  return out;
}

Tensor tested(Loops& loops, Element function, DType compute, std::span<const std::int64_t> shape,
              std::initializer_list<LocalArg> operands) {
  const Tensor out = empty(loops.device(), shape, DType::kBool);
  loops.run(function, compute, out, operands);
  return out;
}

Tensor folded(Loops& loops, Fold fold, DType compute, const Tensor& self, const DimMask& reduced,
              std::span<const std::int64_t> shape) {
  const Tensor out = empty(loops.device(), shape, compute);
  loops.fold(fold, compute, self, reduced, out);
  return out;
}

Tensor filled(Loops& loops, std::span<const std::int64_t> shape, DType dtype,
              const Scalar& number) {
  const Tensor out = empty(loops.device(), shape, dtype);
  loops.fill(out, number);
  return out;
}

Tensor as_contiguous(Loops& loops, const Tensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype && tensor.contiguous()) return tensor;
  const Tensor out = empty(loops.device(), tensor.shape(), dtype);
  loops.convert(out, tensor);
  return out;
}

Tensor places_of_extrema(Loops& loops, Fold kind, const Tensor& self, const DimMask& reduced) {
  const Dims& shape = self.shape();
  Dims kept = shape, row = shape;
  for (std::size_t d = 0; d < shape.size(); ++d) (reduced[d] ? kept : row)[d] = 1;
  if (shardlab::product(row) == 0 && shardlab::product(kept) > 0) {
    fail(Fix{"leave empty tensors out, or reduce another dim"},
         "an empty dim has no largest or smallest element");
  }
  const DType compute = compute_dtype(self.dtype()), integer = DType::kI64;
  const Tensor extrema = folded(loops, kind, compute, self, reduced, kept);
  // The least place of those that have the extremum, or NaN.
  const Tensor has = tested(loops, Element::kEq, compute, shape, {self, extrema});
  const Tensor number = numbered(loops, row);
  Tensor places =
      computed(loops, Element::kWhere, integer, shape, {has, number, Scalar(self.numel())});
  if (!is_integral(compute)) {
    const Tensor nan = tested(loops, Element::kIsNan, compute, shape, {self});
    places = computed(loops, Element::kWhere, integer, shape, {nan, number, places});
  }
  return folded(loops, Fold::kMin, integer, places, reduced, kept);
}

void put_rows(Loops& loops, const Tensor& out, const Tensor& values) {
  loops.convert(out, values.as_view(contiguous_meta(out.shape(), values.dtype()), values.offset()));
}

Tensor numbered(Loops& loops, const Dims& shape) {
  const Tensor out = empty(loops.device(), shape, DType::kI64);
  loops.draw({{DrawLaw::Kind::kCount}, out, nullptr, {}});
  return out;
}

std::int64_t integer_part(const Scalar& number) {
  return number.is_integral() ? number.to_int() : truncated<std::int64_t>(number.to_double());
}

Tensor picked(Loops& loops, const Tensor& source, std::size_t dim, const Tensor& index,
              const IndexWords& words) {
  const Tensor out = empty(loops.device(), index.shape(), source.dtype());
  loops.look_up({out, source, dim, index, words});
  return out;
}

}  // namespace shardlab
