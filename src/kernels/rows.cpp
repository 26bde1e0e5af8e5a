// A reduction over any dims becomes one over the last of a permuted view: kept dims first, reduced
// ones behind, both in row-major order. Nothing is copied here: a group is a view, too.
#include "kernels/rows.h"

#include "kernels/convert.h"

namespace shardlab {

DimMask single_dim(std::int64_t dim, const Tensor& source) {
  DimMask mask(source.shape().size(), 0);
  const std::size_t wrapped = wrapped_dim(dim, mask.size());
  if (wrapped < mask.size()) mask[wrapped] = 1;
  return mask;
}

DimMask reduced_dims(const KernelCall& call, std::size_t index, const Tensor& source) {
  const std::size_t count = source.shape().size();
  if (const Dims* dims = optional_dims_arg(call, index); dims != nullptr && !dims->empty()) {
    DimMask mask(count, 0);
    for (const std::int64_t dim : *dims) {
      const std::size_t wrapped = wrapped_dim(dim, count);
      if (wrapped < count) mask[wrapped] = 1;
    }
    return mask;
  }
  const Scalar* dim = optional_scalar_arg(call, index);
  if (dim != nullptr && dim->category() == Category::kInteger) {
    return single_dim(dim->to_int(), source);
  }
  return DimMask(count, 1);
}

std::int64_t row_size(const Tensor& source, const DimMask& reduced) {
  std::int64_t size = 1;
  for (std::size_t d = 0; d < reduced.size(); ++d) size *= reduced[d] ? source.size(d) : 1;
  return size;
}

DimMask normalized_dims(const Tensor& input, const KernelCall& call, std::size_t index) {
  const Dims* normalized = optional_dims_arg(call, index);
  check_invariant(normalized != nullptr, "normalized_shape is a list");
  DimMask mask(input.shape().size(), 0);
  for (std::size_t i = 0; i < normalized->size(); ++i) mask[mask.size() - 1 - i] = 1;
  return mask;
}

double correction_of(const KernelCall& call) {
  const Scalar* second = optional_scalar_arg(call, 1);
  const bool whole = second != nullptr && second->category() == Category::kBool;
  const Scalar* correction = whole ? second : optional_scalar_arg(call, 2);
  return correction == nullptr ? 1.0 : correction->to_double();
}

RowLayout::RowLayout(const Tensor& source, const DimMask& reduced) {
  TensorMeta meta{{}, {}, source.dtype()};
  for (const unsigned char wanted : {0, 1}) {
    for (std::size_t d = 0; d < reduced.size(); ++d) {
      if (reduced[d] != wanted) continue;
      meta.shape.push_back(source.shape()[d]);
      meta.stride.push_back(source.stride()[d]);
      (wanted ? size_ : rows_) *= source.shape()[d];
    }
    if (!wanted) kept_ = meta.shape.size();
  }
  in_one_piece_ = is_contiguous({meta.shape.data() + kept_, meta.shape.size() - kept_},
                                {meta.stride.data() + kept_, meta.stride.size() - kept_});
  permuted_ = source.as_view(std::move(meta), source.offset());
}

std::int64_t RowLayout::columns() const {
  const Dims &shape = permuted_.shape(), &stride = permuted_.stride();
  if (kept_ == 0 || stride[kept_ - 1] != 1 || rows_ * size_ == 0) return 0;
  for (std::size_t d = kept_; d + 1 < shape.size(); ++d) {
    if (stride[d] != stride[d + 1] * shape[d + 1]) return 0;
  }
  return shape[kept_ - 1];
}

RowGroup RowLayout::group_of(std::int64_t row, std::int64_t element_bytes) const {
  if (rows_ == 0 || kept_ == 0) return {0, rows_, permuted_};
  const std::span<const std::int64_t> shape = permuted_.shape(), stride = permuted_.stride();
  // A copy of neighbours in memory moves 256 bytes of each line at a time (strided_copy.cpp).
  constexpr std::int64_t kCached = std::int64_t{256} << 10, kLines = 256;
  std::size_t dim = kept_ - 1;
  const std::int64_t fewest = stride[dim] == 1 ? kLines / element_bytes : 1;
  const std::int64_t most = std::max(kCached / (size_ * element_bytes + 1), fewest);
  std::int64_t behind = 1;  // rows per index of the dim
  for (; dim > 0 && behind * shape[dim] <= most; --dim) behind *= shape[dim];
  const std::int64_t index = row / behind, first = index * behind;
  const std::int64_t part =
      std::min(std::max<std::int64_t>(most / behind, 1), shape[dim] - index % shape[dim]);
  TensorMeta meta{Dims(shape.subspan(dim)), Dims(stride.subspan(dim)), permuted_.dtype()};
  meta.shape[0] = part;
  return {first, part * behind,
          permuted_.as_view(std::move(meta), permuted_.offset() + offset_of(first))};
}

std::int64_t RowLayout::offset_of(std::int64_t row) const {
  std::int64_t offset = 0;
  for (std::size_t d = kept_; d-- > 0;) {
    offset += row % permuted_.shape()[d] * permuted_.stride()[d];
    row /= permuted_.shape()[d];
  }
  return offset;
}

}  // namespace shardlab
