// scatter_reduction.h - the ways to join values that an index sends to one place, by the names that
// calls write: for shape inference, and for the CPU and GPUs.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "kernels/loop_kinds.h"

namespace shardlab {

enum class ScatterReduction : std::uint8_t { kSum, kProduct, kMean, kLargest, kLeast };

/// A mean folds like a sum.
inline Fold fold_of(ScatterReduction reduction) {
  switch (reduction) {
    case ScatterReduction::kProduct:
      return Fold::kProduct;
    case ScatterReduction::kLargest:
      return Fold::kMax;
    case ScatterReduction::kLeast:
      return Fold::kMin;
    default:
      return Fold::kSum;
  }
}

/// The one of this name; none has another one.
inline std::optional<ScatterReduction> scatter_reduction_named(std::string_view name) {
  constexpr std::array<std::string_view, 5> kNames{"sum", "prod", "mean", "amax", "amin"};
  const auto found = std::ranges::find(kNames, name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<ScatterReduction>(found - kNames.begin());
}

/// The same of segments, whose extrema have a shorter name, too.
inline std::optional<ScatterReduction> segment_reduction_named(std::string_view name) {
  if (name == "max") return ScatterReduction::kLargest;
  if (name == "min") return ScatterReduction::kLeast;
  return scatter_reduction_named(name);
}

}  // namespace shardlab
