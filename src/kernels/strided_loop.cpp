// Dims are sorted by the stride of the first array (the output) and neighbours are joined where all
// arrays step over them evenly. The inner loop is then as long and its steps in the output as small
// as the layouts allow; the order in which elements are visited does not matter to a pointwise
// kernel.
#include "kernels/strided_loop.h"

#include "tensor/strided_copy.h"

namespace shardlab {

Dims broadcast_strides(const Tensor& tensor, std::span<const std::int64_t> shape) {
  Dims stride(shape.size(), 0);
  const std::size_t dims = tensor.shape().size();
  check_invariant(dims <= shape.size(), "an operand broadcasts to the output");
  const std::size_t lead = shape.size() - dims;
  for (std::size_t i = 0; i < dims; ++i) {
    const std::int64_t size = tensor.shape()[i];
    check_invariant(size == 1 || size == shape[lead + i], "an operand broadcasts to the output");
    if (size != 1) stride[lead + i] = tensor.stride()[i];
  }
  return stride;
}

Tensor broadcast_view(const Tensor& tensor, const Dims& shape) {
  return tensor.as_view({shape, broadcast_strides(tensor, shape), tensor.dtype()}, tensor.offset());
}

bool is_across(std::span<const std::int64_t> shape, std::span<const std::int64_t> stride) {
  constexpr std::int64_t kLeast = 4096;
  return !shape.empty() && product(shape) >= kLeast && stride.back() > 1 &&
         std::ranges::find(stride, 1) != stride.end();
}

void StridedLoop::add(std::span<const std::int64_t> stride, std::int64_t element_bytes) {
  strides_[arrays_].assign(stride.begin(), stride.end());
  bytes_[arrays_++] = element_bytes;
}

bool StridedLoop::joins(const LoopDim& outer, const LoopDim& inner) const {
  for (std::size_t i = 0; i < arrays_; ++i) {
    if (outer.stride[i] != inner.stride[i] * inner.size) return false;
  }
  return true;
}

bool StridedLoop::prepare() {
  InlineVector<LoopDim, 5> dims;
  for (std::size_t d = 0; d < shape_.size(); ++d) {
    if (shape_[d] == 0) return false;
    if (shape_[d] == 1) continue;
    LoopDim dim{shape_[d], {}};
    for (std::size_t i = 0; i < arrays_; ++i) dim.stride[i] = strides_[i][d];
    dims.push_back(dim);
  }
  sort_dims(dims, [](const LoopDim& a, const LoopDim& b) { return a.stride[0] > b.stride[0]; });
  dims_.clear();
  for (const LoopDim& dim : dims) {
    if (!dims_.empty() && joins(dims_.back(), dim)) {
      const std::int64_t size = dims_.back().size * dim.size;
      dims_.back() = dim;
      dims_.back().size = size;
    } else {
      dims_.push_back(dim);
    }
  }
  if (dims_.empty()) dims_.push_back({1, {}});
  return true;
}

bool StridedLoop::advance(Dims& index, std::array<std::int64_t, kMaxArrays>& offsets) const {
  for (std::size_t d = index.size(); d-- > 0;) {
    const bool wraps = ++index[d] == dims_[d].size;
    const std::int64_t steps = wraps ? 1 - dims_[d].size : 1;
    for (std::size_t i = 0; i < arrays_; ++i) offsets[i] += steps * dims_[d].stride[i] * bytes_[i];
    if (!wraps) return true;
    index[d] = 0;
  }
  return false;
}

}  // namespace shardlab
