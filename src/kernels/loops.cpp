// Steps of kernels that are one loop and its memory.
#include "kernels/loops.h"

#include "kernels/math_functors.h"

namespace shardlab {

Tensor computed(Loops& loops, Element function, DType compute, std::span<const std::int64_t> shape,
                std::initializer_list<LocalArg> operands) {
  const Tensor out = empty(loops.device(), shape, compute);
  loops.run(function, compute, out, std::span(operands.begin(), operands.size()));
  return out;
}

Tensor as_contiguous(Loops& loops, const Tensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype && tensor.contiguous()) return tensor;
  const Tensor out = empty(loops.device(), tensor.shape(), dtype);
  loops.convert(out, tensor);
  return out;
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

Tensor picked(Loops& loops, const Tensor& values, const Tensor& index) {
  const Tensor out = empty(loops.device(), index.shape(), values.dtype());
  loops.look_up({out, values, 1, index, {"picked"}});
  return out;
}

}  // namespace shardlab
