// Strides of a view without a copy: input dims are read from the back as runs of memory that their
// strides step through evenly, and the result's dims have to fill such runs exactly. A run that
// ends in the middle of a dim has no strides; then the view does not exist.
#include "ops/core/view_meta.h"

#include <algorithm>

#include "base/error.h"
#include "base/saturating.h"
#include "base/text.h"
#include "ops/core/arguments.h"

namespace shardlab {

Dims infer_sizes(std::span<const std::int64_t> sizes, std::int64_t numel) {
  Dims result(sizes);
  std::optional<std::size_t> open;
  std::int64_t known = 1;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] >= 0) {
      known = saturating_product(known, sizes[i]);
      continue;
    }
    if (sizes[i] != -1) {
      fail(Fix{"give sizes of 0 or more, and -1 at most once"},
           "the size {} at dim {} is negative; only -1 is a size to infer", sizes[i], i);
    }
    if (open) {
      fail(Fix{"write one of the two sizes"},
           "dims {} and {} are both -1; only one size can be inferred", *open, i);
    }
    open = i;
  }
  const bool fits = open ? known > 0 && numel % known == 0 : known == numel;
  if (!fits) {
    fail(Fix{fmt::format("give sizes whose product is {}, or -1 for one of them", numel)},
         "the sizes [{}] do not hold {} elements", text_of_list(sizes, ", "), numel);
  }
  if (open) result[*open] = numel / known;
  return result;
}

std::optional<Dims> view_strides(const TensorMeta& meta, std::span<const std::int64_t> shape) {
  if (product(meta.shape) == 0) {
    return meta.shape == Dims(shape) ? meta.stride : contiguous_strides(shape);
  }
  Dims strides(shape.size());
  auto out = static_cast<std::int64_t>(shape.size()) - 1;
  std::int64_t base = meta.shape.empty() ? 1 : meta.stride.back();
  std::int64_t run = 1, filled = 1;  // elements of the run read so far, and written so far
  // Reads input dims from the back; as long as they continue one run of memory, output dims may
  // share it in any way.
  for (std::size_t i = meta.shape.size(); i-- > 0;) {
    run *= meta.shape[i];
    const bool ends = i == 0 || (meta.shape[i - 1] != 1 && meta.stride[i - 1] != run * base);
    if (!ends) continue;
    while (out >= 0 && (filled < run || shape[index_of(out)] == 1)) {
      strides[index_of(out)] = filled * base;
      filled *= shape[index_of(out--)];
    }
    if (filled != run) return std::nullopt;
    if (i > 0) {
      base = meta.stride[i - 1];
      run = filled = 1;
    }
  }
  for (; out >= 0; --out) strides[index_of(out)] = filled * base;  // a 0-dim input
  return strides;
}

TensorMeta expand_meta(const TensorMeta& meta, std::span<const std::int64_t> sizes) {
  if (sizes.size() < meta.shape.size()) {
    fail(Fix{"name all its dims; new ones stand in front"},
         "a tensor of {} dims cannot be expanded to {} dims", meta.shape.size(), sizes.size());
  }
  TensorMeta result{Dims(sizes), Dims(sizes.size()), meta.dtype};
  const std::size_t pad = sizes.size() - meta.shape.size();
  for (std::size_t i = sizes.size(); i-- > 0;) {
    const bool added = i < pad;
    const std::int64_t size = added ? 1 : meta.shape[i - pad];
    std::int64_t stride = 1;
    if (!added) stride = meta.stride[i - pad];
    if (added && i + 1 < sizes.size()) stride = result.shape[i + 1] * result.stride[i + 1];
    if (sizes[i] == -1 && !added) result.shape[i] = size;
    if (result.shape[i] != size) {
      if (size != 1 || result.shape[i] < 0) {
        fail(Fix{"use repeat, or give -1 to keep the size"},
             "dim {} of size {} cannot be expanded to {}; only a size of 1 can", i, size, sizes[i]);
      }
      stride = 0;
    }
    result.stride[i] = stride;
  }
  return result;
}

namespace {

/// A permutation to show: "2, 1, 0".
std::string order_reversed(std::size_t ndim) {
  Dims dims;
  for (std::size_t d = ndim; d-- > 0;) dims.push_back(static_cast<std::int64_t>(d));
  return text_of_list(dims, ", ");
}

}  // namespace

TensorMeta permute_meta(const TensorMeta& meta, std::span<const std::int64_t> dims) {
  if (dims.size() != meta.shape.size()) {
    fail(Fix{fmt::format("reverse all of them: x.permute({})", order_reversed(meta.shape.size()))},
         "permute names {} dims, the tensor has {}; it must name each once", dims.size(),
         meta.shape.size());
  }
  TensorMeta result{Dims(dims.size()), Dims(dims.size()), meta.dtype};
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (std::ranges::count(dims, dims[i]) > 1) {
      fail(Fix{fmt::format("x.permute({}) reverses all", order_reversed(dims.size()))},
           "permute names dim {} twice; it must name each once", dims[i]);
    }
    result.shape[i] = meta.shape[index_of(dims[i])];
    result.stride[i] = meta.stride[index_of(dims[i])];
  }
  return result;
}

Dims inverse_of(const Dims& order) {
  Dims inverse(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    inverse[index_of(order[i])] = static_cast<std::int64_t>(i);
  }
  return inverse;
}

TensorMeta remove_dims(const TensorMeta& meta, std::span<const std::int64_t> removed) {
  TensorMeta result{{}, {}, meta.dtype};
  for (std::size_t i = 0; i < meta.shape.size(); ++i) {
    if (std::ranges::find(removed, static_cast<std::int64_t>(i)) != removed.end()) continue;
    result.shape.push_back(meta.shape[i]);
    result.stride.push_back(meta.stride[i]);
  }
  return result;
}

void require_part_shape(std::string_view op, const Dims& source, const Dims& part) {
  if (source == part) return;
  fail(Fix{fmt::format("give a src of shape [{}]", text_of_list(part, ", "))},
       "{}: src has shape [{}]; it must have that of the part, [{}]", op,
       text_of_list(source, ", "), text_of_list(part, ", "));
}

TensorMeta unsqueeze_meta(const TensorMeta& meta, std::int64_t position) {
  TensorMeta result = meta;
  const std::size_t at = index_of(position);
  const bool last = at == meta.shape.size();
  const std::int64_t stride = last ? 1 : meta.shape[at] * meta.stride[at];
  result.shape.insert(at, 1);
  result.stride.insert(at, stride);
  return result;
}

}  // namespace shardlab
