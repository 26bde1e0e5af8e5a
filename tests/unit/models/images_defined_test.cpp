// Images: transposed and three-dimensional convolutions, samples at points, powers over windows.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "sim/world/spmd.h"
#include "tests/unit/models/definition.h"

using namespace shardlab;
using namespace shardlab::test;

namespace {

// Each element of the input spreads the weight over the output: [n, c, 3, 4] by [c, o, 2, 3].
DualArray spread(const Arrays& x) {
  DualArray out = made({2, 4, 5, 7}, [&](const Dims& at) { return x[2](at[1]); });
  for (std::int64_t i = 0; i < 2 * 3 * 3 * 4; ++i) {
    const std::int64_t n = i / 36, c = i / 12 % 3, y = i / 4 % 3, column = i % 4;
    for (std::int64_t o = 0; o < 4; ++o) {
      for (std::int64_t k = 0; k < 6; ++k) {
        // Stride 2 down and across, padding 1 across, one row more at the end.
        const std::int64_t to_y = y * 2 + k / 3 - 1, to_x = column * 2 + k % 3 - 1;
        if (to_y < 0 || to_x < 0 || to_y >= 5 || to_x >= 7) continue;
        out(n, o, to_y, to_x) += x[0](n, c, y, column) * x[1](c, o, k / 3, k % 3);
      }
    }
  }
  return out;
}

// Along three dims, padded by one in the middle one.
DualArray solid(const Arrays& x) {
  return made({2, 2, 2, 4, 2}, [&](const Dims& at) {
    return x[2](at[1]) + sum_over(2 * 2 * 2 * 2, [&](std::int64_t i) {
             const std::int64_t c = i / 8, a = i / 4 % 2, b = i / 2 % 2, d = i % 2;
             const std::int64_t middle = at[3] + b - 1;
             if (middle < 0 || middle > 2) return Dual(0);
             return x[0](at[0], c, at[2] + a, middle, at[4] + d) * x[1](at[1], c, a, b, d);
           });
  });
}

const std::vector<Definition> kConvolutions = {
    {"aten::convolution, transposed",
     {floats({2, 3, 3, 4}, 1), floats({3, 4, 2, 3}, 2), floats({4}, 3)},
     [](const Tensors& x) {
       return first_of("aten::convolution", {x[0], x[1], x[2], ints({2, 2}), ints({1, 1}),
                                             ints({1, 1}), true, ints({1, 0}), 1});
     },
     spread},
    {"aten::conv3d",
     {floats({2, 2, 3, 3, 3}, 4), floats({2, 2, 2, 2, 2}, 5), floats({2}, 6)},
     [](const Tensors& x) {
       return first_of("aten::conv3d", {x[0], x[1], x[2], ints({1, 1, 1}), ints({0, 1, 0})});
     },
     solid},
    {"aten::conv1d",
     {floats({3, 4, 6}, 7), floats({4, 1, 3}, 8)},
     [](const Tensors& x) {
       // A filter for each channel.
       return first_of("aten::conv1d",
                       {x[0], x[1], Argument(), ints({1}), ints({2}), ints({2}), 4});
     },
     [](const Arrays& x) {
       return made({3, 4, 6}, [&](const Dims& at) {
         return sum_over(3, [&](std::int64_t k) {
           const std::int64_t from = at[2] - 2 + 2 * k;
           return from < 0 || from > 5 ? Dual(0) : x[0](at[0], at[1], from) * x[1](at[1], 0, k);
         });
       });
     }},
};

// A pixel of channel c, 0 outside.
Dual pixel(const DualArray& x, std::int64_t n, std::int64_t c, std::int64_t row,
           std::int64_t column) {
  const bool inside = row >= 0 && column >= 0 && row < x.size(2) && column < x.size(3);
  return inside ? x(n, c, row, column) : Dual(0);
}

// Between the four pixels around a point whose corners are at -1 and 1.
Dual sampled(const DualArray& x, std::int64_t n, std::int64_t c, const Dual& across,
             const Dual& down) {
  const Dual column = (across + 1) / 2 * static_cast<double>(x.size(3) - 1);
  const Dual row = (down + 1) / 2 * static_cast<double>(x.size(2) - 1);
  const double left = std::floor(column.value), top = std::floor(row.value);
  const auto i = static_cast<std::int64_t>(top), j = static_cast<std::int64_t>(left);
  const Dual right = column - left, below = row - top;
  return (1 - below) * ((1 - right) * pixel(x, n, c, i, j) + right * pixel(x, n, c, i, j + 1)) +
         below * ((1 - right) * pixel(x, n, c, i + 1, j) + right * pixel(x, n, c, i + 1, j + 1));
}

// Cubic weights of the four samples around a point, a = -0.75 as in PyTorch.
double cubic(double distance) {
  constexpr double kA = -0.75;
  const double d = std::abs(distance);
  if (d <= 1) return ((kA + 2) * d - (kA + 3)) * d * d + 1;
  return d < 2 ? ((kA * d - 5 * kA) * d + 8 * kA) * d - 4 * kA : 0;
}

const std::vector<Definition> kSamples = {
    {"aten::grid_sampler_2d",
     {floats({2, 3, 4, 5}, 11), floats({2, 2, 3, 2}, 12, -1.3, 1.3)},
     [](const Tensors& x) {
       return first_of("aten::grid_sampler_2d", {x[0], x[1], 0, 0, true});
     },
     [](const Arrays& x) {
       return made({2, 3, 2, 3}, [&](const Dims& at) {
         return sampled(x[0], at[0], at[1], x[1](at[0], at[2], at[3], 0),
                        x[1](at[0], at[2], at[3], 1));
       });
     }},
    {"aten::affine_grid_generator",
     {floats({2, 2, 3}, 13)},
     [](const Tensors& x) {
       return first_of("aten::affine_grid_generator", {x[0], ints({2, 1, 3, 4}), false});
     },
     [](const Arrays& x) {
       return made({2, 3, 4, 2}, [&](const Dims& at) {
         const double across = (2 * static_cast<double>(at[2]) + 1) / 4 - 1;
         const double down = (2 * static_cast<double>(at[1]) + 1) / 3 - 1;
         return x[0](at[0], at[3], 0) * across + x[0](at[0], at[3], 1) * down +
                x[0](at[0], at[3], 2);
       });
     }},
    {"aten::upsample_bicubic2d",
     {floats({1, 2, 4, 4}, 14)},
     [](const Tensors& x) {
       return first_of("aten::upsample_bicubic2d", {x[0], ints({5, 7}), false});
     },
     [](const Arrays& x) {
       return made({1, 2, 5, 7}, [&](const Dims& at) {
         const double row = (static_cast<double>(at[2]) + 0.5) * 4 / 5 - 0.5;
         const double column = (static_cast<double>(at[3]) + 0.5) * 4 / 7 - 0.5;
         const auto top = static_cast<std::int64_t>(std::floor(row)) - 1;
         const auto left = static_cast<std::int64_t>(std::floor(column)) - 1;
         return sum_over(16, [&](std::int64_t k) {
           const std::int64_t i = top + k / 4, j = left + k % 4;
           const double weight =
               cubic(row - static_cast<double>(i)) * cubic(column - static_cast<double>(j));
           return weight * x[0](0, at[1], std::clamp<std::int64_t>(i, 0, 3),
                                std::clamp<std::int64_t>(j, 0, 3));
         });
       });
     }},
    {"aten::max_unpool2d",
     {floats({2, 3, 2, 2}, 15), integers({2, 3, 2, 2}, {0,  7, 9,  14, 1, 2, 8, 15, 5, 6, 12, 3,
                                                        10, 4, 13, 11, 0, 3, 9, 12, 4, 7, 8,  15})},
     [](const Tensors& x) {
       return first_of("aten::max_unpool2d", {x[0], x[1], ints({4, 4})});
     },
     [](const Arrays& x) {
       DualArray out(Dims{2, 3, 4, 4});
       for (std::int64_t i = 0; i < 24; ++i) out[i / 4 * 16 + whole(x[1][i])] = x[0][i];
       return out;
     }},
    {"aten::adaptive_max_pool2d",
     {floats({2, 2, 5, 3}, 16)},
     [](const Tensors& x) {
       return first_of("aten::adaptive_max_pool2d", {x[0], ints({2, 2})});
     },
     [](const Arrays& x) {
       return made({2, 2, 2, 2}, [&](const Dims& at) {
         Dual out = -100;
         for (std::int64_t i = at[2] * 5 / 2; i < ((at[2] + 1) * 5 + 1) / 2; ++i) {
           for (std::int64_t j = at[3] * 3 / 2; j < ((at[3] + 1) * 3 + 1) / 2; ++j) {
             out = max(out, x[0](at[0], at[1], i, j));
           }
         }
         return out;
       });
     }},
};

}  // namespace

TEST_CASE("V-18 convolutions of other kinds are their sums, however everything lies") {
  check_definitions(kConvolutions);
}

TEST_CASE("V-18 images sampled at points, spread and pooled are their definitions") {
  check_definitions(kSamples);
}
