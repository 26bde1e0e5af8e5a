// Dims are sorted by the stride of the first array (the output) and neighbours are joined where all
// arrays step over them evenly. The inner loop is then as long and its steps in the output as small
// as the layouts allow; the order in which elements are visited does not matter to a pointwise
// kernel.
#include "kernels/strided_loop.h"

#include <algorithm>
#include <utility>

#include "tensor/past_caches.h"
#include "tensor/strided_copy.h"

namespace shardlab {

namespace {

std::int64_t quotient_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Bytes of one row of a transposed source. Rows a power of two apart would share few places in a
// cache.
std::int64_t turned_bytes(std::int64_t columns, std::int64_t element_bytes) {
  return (quotient_up(columns * element_bytes, kCacheLine) | 1) * kCacheLine;
}

}  // namespace

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

void StridedLoop::add(std::span<const std::int64_t> stride, std::int64_t element_bytes) {
  strides_[arrays_].assign(stride.begin(), stride.end());
  bytes_[arrays_++] = element_bytes;
}

void StridedLoop::add_target(std::span<const std::int64_t> stride, std::int64_t element_bytes,
                             std::byte* data) {
  target_ = data;
  add(stride, element_bytes);
}

void StridedLoop::add_source(std::span<const std::int64_t> stride, std::int64_t element_bytes,
                             const std::byte* data) {
  sources_[arrays_ - 1] = data;
  add(stride, element_bytes);
}

// A source is across the rows where its elements are neighbours along another dim: that dim is
// moved next to the rows. Small planes are not worth it. A band has as many rows as four cache
// lines of the source have elements, which is as much as memory gives at its speed, and is as long
// as a core's caches hold: the longer the rows, the faster the other arrays are read.
bool StridedLoop::turn_sources() {
  constexpr std::int64_t kFewest = 16, kLeast = 4096;
  constexpr std::int64_t kBandBytes = 256, kMostColumns = 4096;
  const std::size_t inner = dims_.size() - 1;
  if (dims_[inner].size < kFewest) return false;
  const auto across = [&](std::size_t array, const LoopDim& dim) {
    const std::int64_t along = dims_[inner].stride[array];
    return along != 0 && along != 1 && dim.stride[array] == 1;
  };
  const auto pays = [&](const LoopDim& dim) {
    return dim.size >= kFewest && dim.size * dims_[inner].size >= kLeast;
  };
  std::size_t down = inner;
  for (std::size_t d = 0; d < inner; ++d) {
    for (std::size_t i = 1; i < arrays_; ++i) {
      if (across(i, dims_[d]) && pays(dims_[d])) down = d;
    }
  }
  if (down == inner) return false;
  std::rotate(dims_.begin() + static_cast<std::ptrdiff_t>(down),
              dims_.begin() + static_cast<std::ptrdiff_t>(down) + 1, dims_.end() - 1);
  std::int64_t widest = 1, turned = 0;
  for (std::size_t i = 1; i < arrays_; ++i) {
    if (!across(i, dims_[inner - 1])) continue;
    widest = std::max(widest, bytes_[i]);
    ++turned;
  }
  const std::int64_t length = dims_[inner].size, bands = quotient_up(length * turned, kMostColumns);
  band_rows_ = std::min(kBandBytes / widest, dims_[inner - 1].size);
  band_columns_ = quotient_up(length, bands);
  const std::int64_t bytes = band_rows_ * turned_bytes(band_columns_, widest);
  turned_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(turned * bytes));
  std::byte* next = turned_.get();
  for (std::size_t i = 1; i < arrays_; ++i) {
    turned_to_[i] = nullptr;
    if (across(i, dims_[inner - 1])) turned_to_[i] = std::exchange(next, next + bytes);
  }
  return true;
}

StridedLoop::Band StridedLoop::band_at(const std::array<std::int64_t, kMaxArrays>& offsets,
                                       std::int64_t row, std::int64_t rows, std::int64_t column,
                                       std::int64_t columns) const {
  const LoopDim &down = dims_[dims_.size() - 2], &along = dims_.back();
  const auto place = [&](std::size_t array) {
    return offsets[array] +
           (row * down.stride[array] + column * along.stride[array]) * bytes_[array];
  };
  Band band{target_ + place(0), {}, along.stride, {}};
  band.step[0] = down.stride[0] * bytes_[0];
  for (std::size_t i = 1; i < arrays_; ++i) {
    const std::byte* from = sources_[i - 1] + place(i);
    band.from[i - 1] = from;
    band.step[i] = down.stride[i] * bytes_[i];
    if (turned_to_[i] == nullptr) continue;
    const std::int64_t step = turned_bytes(columns, bytes_[i]);
    const std::int64_t shape[] = {rows, columns}, to_stride[] = {step / bytes_[i], 1};
    const std::int64_t from_stride[] = {down.stride[i], along.stride[i]};
    strided_copy({turned_to_[i], to_stride}, {from, from_stride}, shape, bytes_[i]);
    band.from[i - 1] = turned_to_[i];
    band.stride[i] = 1;
    band.step[i] = step;
  }
  return band;
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
    for (std::size_t i = 0; i < arrays_; ++i) {
      offsets[i] += steps * dims_[d].stride[i] * bytes_[i];
    }
    if (!wraps) return true;
    index[d] = 0;
  }
  return false;
}

}  // namespace shardlab
