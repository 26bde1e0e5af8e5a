// Nothing here allows for rounding.
#include "sim/verify/held_numbers.h"

#include "sim/verify/compare.h"

namespace shardlab {

GlobalValue in_reals(GlobalValue value) {
  if (!value.is_integral()) return value;
  value.reals.assign(value.integers.begin(), value.integers.end());
  value.integers.clear();
  value.meta = contiguous_meta(value.meta.shape, DType::kF64);
  return value;
}

bool same_numbers(const GlobalValue& a, const GlobalValue& b) {
  return a.meta.shape == b.meta.shape && a.reals == b.reals && a.integers == b.integers;
}

bool close_numbers(const GlobalValue& a, const GlobalValue& b, double relative) {
  return a.meta.shape == b.meta.shape && a.integers == b.integers &&
         all_close(a.reals, b.reals, relative * largest_finite(a.reals));
}

Dims index_of(std::int64_t element, const Dims& shape) {
  Dims index(shape.size());
  for (std::size_t dim = shape.size(); dim-- > 0;) {
    index[dim] = element % shape[dim];
    element /= shape[dim];
  }
  return index;
}

bool alike_along(const std::vector<GlobalValue>& held, const MeshLayout& layout, std::size_t dim) {
  for (std::int64_t i = 0; i < layout.size(); ++i) {
    Coordinate first = layout.coordinate_at_index(i);
    first[dim] = 0;
    const auto other = static_cast<std::size_t>(layout.index_of(first));
    if (!same_numbers(held[static_cast<std::size_t>(i)], held[other])) return false;
  }
  return true;
}

}  // namespace shardlab
