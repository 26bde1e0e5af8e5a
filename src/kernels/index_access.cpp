// Indices count over the global tensor. local_index() finds the place in a piece by walking its
// runs, and returns -1 for an element of another rank.
#include "kernels/index_access.h"

#include <cstring>

#include "base/fix.h"
#include "tensor/strided_copy.h"

namespace shardlab {

void refuse_index(std::int64_t index, std::int64_t size) {
  fail(ErrorKind::kValue, Fix{"give a larger tensor, or other indices"},
       "index {} is out of range; it must be in [0, {})", index, size);
}

void check_indices(const std::int64_t* indices, std::int64_t count, std::int64_t size) {
  for (std::int64_t i = 0; i < count; ++i) index_in_range(indices[i], size);
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

namespace {

// Contiguous arrays, seen as `before` times so many slices of `run` bytes each.
struct SliceRuns {
  std::byte* to;
  const std::byte* from;
  std::int64_t before, count, source_count;

  template <typename Size>
  void copy(const std::int64_t* places, Size run) const {
    const auto step = static_cast<std::int64_t>(run);
    for (std::int64_t b = 0; b < before; ++b) {
      std::byte* const target = to + b * count * step;
      const std::byte* const source = from + b * source_count * step;
      for (std::int64_t i = 0; i < count; ++i) {
        if (places[i] >= 0) std::memcpy(target + i * step, source + places[i] * step, run);
      }
    }
  }
};

}  // namespace

void copy_slices(const Tensor& out, const Tensor& source, std::size_t dim,
                 const std::int64_t* places) {
  check_same_dtype(out, source);
  const std::int64_t bytes = item_bytes(out.dtype()), count = out.size(dim);
  std::byte* const to = writable_bytes(out);
  const std::byte* const from = readable_bytes(source);
  if (out.contiguous() && source.contiguous()) {
    std::int64_t before = 1, run = bytes;
    for (std::size_t d = 0; d < dim; ++d) before *= out.size(d);
    for (std::size_t d = dim + 1; d < out.shape().size(); ++d) run *= out.size(d);
    const SliceRuns runs{to, from, before, count, source.size(dim)};
    return with_constant_size(run, [&](auto size) { runs.copy(places, size); });
  }
  Dims shape = out.shape(), to_stride = out.stride(), from_stride = source.stride();
  const std::int64_t to_step = to_stride[dim] * bytes, from_step = from_stride[dim] * bytes;
  shape.erase(dim);
  to_stride.erase(dim);
  from_stride.erase(dim);
  for (std::int64_t i = 0; i < count; ++i) {
    if (places[i] < 0) continue;
    strided_copy({to + i * to_step, to_stride}, {from + places[i] * from_step, from_stride}, shape,
                 bytes);
  }
}

}  // namespace shardlab
