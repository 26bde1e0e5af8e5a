// Indices count over the global tensor. local_index() finds the place in a piece by walking its
// runs, and says -1 for what another rank holds.
#include "kernels/index_access.h"

#include "base/fix.h"

namespace shardlab {

std::int64_t index_in_range(std::int64_t index, std::int64_t size) {
  if (index < 0 || index >= size) {
    fail(ErrorKind::kValue, Fix{"give a larger tensor, or other indices"},
         "index {} is out of range; it must be in [0, {})", index, size);
  }
  return index;
}

std::int64_t local_index(const LocalView& view, std::size_t dim, std::int64_t global) {
  index_in_range(global, view.global_shape[dim]);
  std::int64_t before = 0;
  for (const IndexRun& run : view.dims[dim].runs) {
    if (global >= run.offset && global < run.offset + run.size) return before + global - run.offset;
    before += run.size;
  }
  return -1;
}

Tensor at_least_one_dim(const Tensor& tensor) {
  if (tensor.dim() > 0) return tensor;
  return tensor.as_view({{1}, {1}, tensor.dtype()}, tensor.offset());
}

void check_same_dtype(const Tensor& out, const Tensor& source) {
  if (out.dtype() == source.dtype()) return;
  fail(ErrorKind::kValue, Fix{"cast the source first: src.to(x.dtype)"},
       "a tensor of dtype {} cannot take elements of dtype {}", to_string(out.dtype()),
       to_string(source.dtype()));
}

SliceCopy::SliceCopy(const Tensor& out, const Tensor& source, std::size_t dim)
    : target_(writable_bytes(out)),
      source_(readable_bytes(source)),
      shape_(source.shape()),
      target_stride_(out.stride()),
      source_stride_(source.stride()),
      bytes_(item_bytes(out.dtype())),
      target_step_(out.stride()[dim] * bytes_),
      source_step_(source.stride()[dim] * bytes_) {
  check_same_dtype(out, source);
  shape_.erase(dim);
  target_stride_.erase(dim);
  source_stride_.erase(dim);
}

void SliceCopy::copy(std::int64_t to, std::int64_t from) const {
  strided_copy({target_ + to * target_step_, target_stride_},
               {source_ + from * source_step_, source_stride_}, shape_, bytes_);
}

}  // namespace shardlab
