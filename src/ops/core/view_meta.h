// view_meta.h - shapes and strides of views. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "tensor/tensor.h"

namespace shardlab {

/// Fills in the one -1 of a view's sizes.
///   fails   Value: more than one -1, a negative size, or another number of elements
Dims infer_sizes(std::span<const std::int64_t> sizes, std::int64_t numel);

/// Strides under which the elements of `meta`, in its order, take on `shape` without being moved;
/// empty when that is impossible. `shape` has as many elements as `meta`.
std::optional<Dims> view_strides(const TensorMeta& meta, std::span<const std::int64_t> shape);

/// Broadcasts dims of size 1; -1 keeps a size.
///   fails   Value: fewer sizes than dims, or a size that is neither 1 nor the wanted one
TensorMeta expand_meta(const TensorMeta& meta, std::span<const std::int64_t> sizes);

/// Output dim i is input dim dims[i].
TensorMeta permute_meta(const TensorMeta& meta, std::span<const std::int64_t> dims);

/// The order of dims that undoes `order`, which has each dim once.
Dims inverse_of(const Dims& order);

/// Without the dims in `removed`.
TensorMeta remove_dims(const TensorMeta& meta, std::span<const std::int64_t> removed);

/// The source that is put into a part of a tensor (slice_scatter, ..) has the part's shape.
///   fails  Value
void require_part_shape(std::string_view op, const Dims& source, const Dims& part);

/// With a dim of size 1 before `position`.
TensorMeta unsqueeze_meta(const TensorMeta& meta, std::int64_t position);

}  // namespace shardlab
