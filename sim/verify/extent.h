// extent.h - how large numbers are, and how far apart, in a loop that compilers make wide.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace shardlab {

struct Extent {
  double size = 0;      ///< largest |b|
  double distance = 0;  ///< largest |a - b|
  bool finite = true;   ///< all of them
};

template <typename T>
Extent extent_of(const T* a, const T* b, std::size_t count) {
  constexpr std::size_t kLanes = 8;
  double size[kLanes] = {}, apart[kLanes] = {}, zero[kLanes] = {};
  const auto add = [&](std::size_t begin, std::size_t lanes) {
    for (std::size_t i = 0; i < lanes; ++i) {
      const double x = a[begin + i], y = b[begin + i];
      const double off = std::fabs(x - y), large = std::fabs(y);
      size[i] = large > size[i] ? large : size[i];
      apart[i] = off > apart[i] ? off : apart[i];
      zero[i] += off * 0;  // NaN from here on, if one is not finite
    }
  };
  const std::size_t full = count / kLanes * kLanes;
  for (std::size_t begin = 0; begin < full; begin += kLanes) add(begin, kLanes);
  add(full, count - full);
  Extent all;
  for (std::size_t i = 0; i < kLanes; ++i) {
    all.size = std::max(all.size, size[i]);
    all.distance = std::max(all.distance, apart[i]);
    all.finite = all.finite && zero[i] == 0;
  }
  return all;
}

}  // namespace shardlab
