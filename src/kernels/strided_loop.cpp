// Dims are sorted by the stride of the first array (the output) and neighbours are joined where all
// arrays step over them evenly. The inner loop is then as long and its steps in the output as small
// as the layouts allow; the order in which elements are visited does not matter to a pointwise
// kernel.
#include "kernels/strided_loop.h"

#include <algorithm>

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

// A source lies across the rows where its elements are neighbours along another dim: that dim comes
// next to the rows. Small planes are not worth the tiles.
bool StridedLoop::turn_sources() {
  constexpr std::int64_t kFewest = 16, kLeast = 4096;
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
  std::int64_t widest = 1;
  for (std::size_t i = 1; i < arrays_; ++i) widest = std::max(widest, bytes_[i]);
  tile_columns_ = kTileBytes / kTileRows / widest;
  constexpr std::int64_t kLargeBytes = std::int64_t{2} << 20;
  is_large_ = dims_[inner].size * dims_[inner - 1].size >= kLargeBytes / widest;
  turned_ = std::make_unique_for_overwrite<std::byte[]>((arrays_ - 1) * kTileBytes);
  for (std::size_t i = 1; i < arrays_; ++i) {
    turned_to_[i] = across(i, dims_[inner - 1]) ? turned_.get() + (i - 1) * kTileBytes : nullptr;
  }
  return true;
}

StridedLoop::Tile StridedLoop::tile_at(const std::array<std::int64_t, kMaxArrays>& offsets,
                                       std::int64_t row, std::int64_t rows, std::int64_t column,
                                       std::int64_t columns) const {
  const LoopDim &down = dims_[dims_.size() - 2], &along = dims_.back();
  const auto place = [&](std::size_t array) {
    return offsets[array] +
           (row * down.stride[array] + column * along.stride[array]) * bytes_[array];
  };
  Tile tile{target_ + place(0), {}, along.stride, {}};
  tile.step[0] = down.stride[0] * bytes_[0];
  for (std::size_t i = 1; i < arrays_; ++i) {
    const std::byte* from = sources_[i - 1] + place(i);
    tile.from[i - 1] = from;
    tile.step[i] = down.stride[i] * bytes_[i];
    if (turned_to_[i] == nullptr) continue;
    const std::int64_t shape[] = {rows, columns}, to_stride[] = {columns, 1};
    const std::int64_t from_stride[] = {down.stride[i], along.stride[i]};
    strided_copy({turned_to_[i], to_stride}, {from, from_stride}, shape, bytes_[i]);
    tile.from[i - 1] = turned_to_[i];
    tile.stride[i] = 1;
    tile.step[i] = columns * bytes_[i];
  }
  return tile;
}

void StridedLoop::expect_part(const std::array<std::int64_t, kMaxArrays>& offsets, std::int64_t row,
                              std::int64_t column, std::int64_t part) const {
  constexpr std::int64_t kLine = 64;
  const LoopDim &down = dims_[dims_.size() - 2], &along = dims_.back();
  const std::int64_t rows = std::min(kTileRows, down.size - row);
  const std::int64_t columns = std::min(tile_columns_, along.size - column);
  if (part >= rows) return;
  for (std::size_t i = 0; i < arrays_; ++i) {
    const std::byte* place = (i == 0 ? target_ : sources_[i - 1]) + offsets[i] +
                             (row * down.stride[i] + column * along.stride[i]) * bytes_[i];
    if (i > 0 && turned_to_[i] != nullptr) {
      for (std::int64_t c = part * columns / kTileRows; c < (part + 1) * columns / kTileRows; ++c) {
        const std::byte* line = place + c * along.stride[i] * bytes_[i];
        for (std::int64_t b = 0; b < rows * bytes_[i]; b += kLine) {
          __builtin_prefetch(line + b, 0, 2);
        }
      }
    } else if (along.stride[i] == 1) {
      const std::byte* line = place + part * down.stride[i] * bytes_[i];
      for (std::int64_t b = 0; b < columns * bytes_[i]; b += kLine) {
        __builtin_prefetch(line + b, 0, 2);
      }
    }
  }
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
