// Ops that move, repeat, choose or interpolate elements, by their definitions.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "sim/world/spmd.h"
#include "tests/unit/models/definition.h"

using namespace shardlab;
using namespace shardlab::test;

namespace {

// An op on one tensor, and the element of it that a place of the result shows.
struct Move {
  const char* op;
  Dims from;
  Arguments more;
  Dims to;
  Dual (*f)(const DualArray& x, const Dims& at);
};

// Periodic, and mirrored at the ends without repeating them.
std::int64_t round(std::int64_t i, std::int64_t size) { return ((i % size) + size) % size; }
std::int64_t mirrored(std::int64_t i, std::int64_t size) {
  if (i < 0) i = -i;
  return i < size ? i : 2 * (size - 1) - i;
}
std::int64_t clamped(std::int64_t i, std::int64_t size) {
  return std::clamp<std::int64_t>(i, 0, size - 1);
}

const std::vector<Move> kMoves = {
    {"aten::roll",
     {5, 3},
     {ints({2, -1}), ints({0, 1})},
     {5, 3},
     [](const DualArray& x, const Dims& at) {
       return x(round(at[0] - 2, 5), round(at[1] + 1, 3));
     }},
    {"aten::roll",
     {5, 3},
     {ints({4})},
     {5, 3},
     [](const DualArray& x, const Dims& at) { return x[round(at[0] * 3 + at[1] - 4, 15)]; }},
    {"aten::flip",
     {5, 3},
     {ints({0, 1})},
     {5, 3},
     [](const DualArray& x, const Dims& at) { return x(4 - at[0], 2 - at[1]); }},
    {"aten::rot90",
     {5, 3},
     {1, ints({0, 1})},
     {3, 5},
     [](const DualArray& x, const Dims& at) { return x(at[1], 2 - at[0]); }},
    {"aten::tril",
     {4, 5},
     {1},
     {4, 5},
     [](const DualArray& x, const Dims& at) {
       return at[1] <= at[0] + 1 ? x(at[0], at[1]) : 0 * x(at[0], at[1]);
     }},
    {"aten::triu",
     {4, 5},
     {-1},
     {4, 5},
     [](const DualArray& x, const Dims& at) {
       return at[1] >= at[0] - 1 ? x(at[0], at[1]) : 0 * x(at[0], at[1]);
     }},
    {"aten::diagonal",
     {4, 5},
     {1},
     {4},
     [](const DualArray& x, const Dims& at) { return x(at[0], at[0] + 1); }},
    {"aten::diag_embed",
     {3, 4},
     {-1},
     {3, 5, 5},
     [](const DualArray& x, const Dims& at) {
       return at[1] == at[2] + 1 ? x(at[0], at[2]) : Dual(0);
     }},
    {"aten::repeat",
     {3, 2},
     {ints({2, 1, 3})},
     {2, 3, 6},
     [](const DualArray& x, const Dims& at) { return x(at[1], at[2] % 2); }},
    {"aten::tile",
     {3, 2},
     {ints({2})},
     {3, 4},
     [](const DualArray& x, const Dims& at) { return x(at[0], at[1] % 2); }},
    {"aten::repeat_interleave.self_int",
     {5, 2},
     {3, 0},
     {15, 2},
     [](const DualArray& x, const Dims& at) { return x(at[0] / 3, at[1]); }},
    {"aten::movedim.intlist",
     {2, 3, 4},
     {ints({0, 1}), ints({2, 0})},
     {3, 4, 2},
     [](const DualArray& x, const Dims& at) { return x(at[2], at[0], at[1]); }},
    {"aten::constant_pad_nd",
     {3, 4},
     {ints({1, 2, -1, 1}), 0.5},
     {3, 7},
     [](const DualArray& x, const Dims& at) {
       const std::int64_t row = at[0] + 1, column = at[1] - 1;
       return row < 3 && column >= 0 && column < 4 ? x(row, column) : Dual(0.5);
     }},
    {"aten::reflection_pad2d",
     {2, 3, 4},
     {ints({2, 1, 1, 2})},
     {2, 6, 7},
     [](const DualArray& x, const Dims& at) {
       return x(at[0], mirrored(at[1] - 1, 3), mirrored(at[2] - 2, 4));
     }},
    {"aten::replication_pad1d",
     {2, 4},
     {ints({2, 3})},
     {2, 9},
     [](const DualArray& x, const Dims& at) { return x(at[0], clamped(at[1] - 2, 4)); }},
    {"aten::slice.Tensor",
     {7, 2},
     {0, -6, 100, 2},
     {3, 2},
     [](const DualArray& x, const Dims& at) { return x(1 + 2 * at[0], at[1]); }},
    {"aten::narrow",
     {7, 2},
     {0, 2, 4},
     {4, 2},
     [](const DualArray& x, const Dims& at) { return x(2 + at[0], at[1]); }},
    {"aten::unfold",
     {7, 2},
     {0, 3, 2},
     {3, 2, 3},
     [](const DualArray& x, const Dims& at) { return x(2 * at[0] + at[2], at[1]); }},
    {"aten::pixel_shuffle",
     {1, 8, 3, 2},
     {2},
     {1, 2, 6, 4},
     [](const DualArray& x, const Dims& at) {
       const std::int64_t channel = at[1] * 4 + at[2] % 2 * 2 + at[3] % 2;
       return x(0, channel, at[2] / 2, at[3] / 2);
     }},
    {"aten::pixel_unshuffle",
     {1, 2, 6, 4},
     {2},
     {1, 8, 3, 2},
     [](const DualArray& x, const Dims& at) {
       return x(0, at[1] / 4, at[2] * 2 + at[1] % 4 / 2, at[3] * 2 + at[1] % 2);
     }},
    {"aten::channel_shuffle",
     {2, 6, 3},
     {3},
     {2, 6, 3},
     [](const DualArray& x, const Dims& at) { return x(at[0], at[1] % 3 * 2 + at[1] / 3, at[2]); }},
    {"aten::im2col",
     {1, 2, 4, 5},
     {ints({2, 3}), ints({1, 1}), ints({1, 0}), ints({2, 2})},
     {1, 12, 6},
     [](const DualArray& x, const Dims& at) {
       const std::int64_t y = at[2] / 2 * 2 - 1 + at[1] % 6 / 3, column = at[2] % 2 * 2 + at[1] % 3;
       return y < 0 || y > 3 ? Dual(0) : x(0, at[1] / 6, y, column);
     }},
    {"aten::upsample_nearest2d",
     {2, 2, 3, 2},
     {ints({5, 4})},
     {2, 2, 5, 4},
     [](const DualArray& x, const Dims& at) {
       return x(at[0], at[1], at[2] * 3 / 5, at[3] * 2 / 4);
     }},
    {"aten::upsample_linear1d",
     {2, 2, 4},
     {ints({7}), true},
     {2, 2, 7},
     [](const DualArray& x, const Dims& at) {
       // Corners meet: the ends stay where they are.
       const double place = static_cast<double>(at[2]) * 3 / 6;
       const auto left = static_cast<std::int64_t>(place);
       const double part = place - static_cast<double>(left);
       return (1 - part) * x(at[0], at[1], left) + part * x(at[0], at[1], clamped(left + 1, 4));
     }},
    {"aten::upsample_bilinear2d",
     {1, 2, 3, 2},
     {ints({4, 5}), false},
     {1, 2, 4, 5},
     [](const DualArray& x, const Dims& at) {
       // Centres of pixels: points before the first one get its value.
       const double y = std::max(0.0, (static_cast<double>(at[2]) + 0.5) * 3 / 4 - 0.5);
       const double z = std::max(0.0, (static_cast<double>(at[3]) + 0.5) * 2 / 5 - 0.5);
       const auto row = static_cast<std::int64_t>(y), column = static_cast<std::int64_t>(z);
       const double down = y - static_cast<double>(row), right = z - static_cast<double>(column);
       const auto pixel = [&](std::int64_t i, std::int64_t j) {
         return x(0, at[1], clamped(row + i, 3), clamped(column + j, 2));
       };
       return (1 - down) * ((1 - right) * pixel(0, 0) + right * pixel(0, 1)) +
              down * ((1 - right) * pixel(1, 0) + right * pixel(1, 1));
     }},
    {"aten::adaptive_avg_pool2d",
     {2, 2, 5, 4},
     {ints({3, 2})},
     {2, 2, 3, 2},
     [](const DualArray& x, const Dims& at) {
       // From the floor of a cell's begin to the ceiling of its end.
       const std::int64_t top = at[2] * 5 / 3, bottom = ((at[2] + 1) * 5 + 2) / 3;
       const std::int64_t left = at[3] * 4 / 2, right = ((at[3] + 1) * 4 + 1) / 2;
       const std::int64_t width = right - left, count = (bottom - top) * width;
       return sum_over(count,
                       [&](std::int64_t i) {
                         return x(at[0], at[1], top + i / width, left + i % width);
                       }) /
              static_cast<double>(count);
     }},
    {"aten::avg_pool1d",
     {2, 2, 7},
     {ints({3}), ints({2}), ints({1}), false, false},
     {2, 2, 4},
     [](const DualArray& x, const Dims& at) {
       Dual sum;
       int count = 0;
       for (std::int64_t i = at[2] * 2 - 1; i < at[2] * 2 + 2; ++i) {
         if (i < 0 || i > 6) continue;
         sum += x(at[0], at[1], i);
         ++count;
       }
       return sum / count;
     }},
    {"aten::max_pool1d",
     {2, 2, 7},
     {ints({3}), ints({2}), ints({1})},
     {2, 2, 4},
     [](const DualArray& x, const Dims& at) {
       Dual out = -100;
       for (std::int64_t i = at[2] * 2 - 1; i < at[2] * 2 + 2; ++i) {
         if (i >= 0 && i <= 6) out = max(out, x(at[0], at[1], i));
       }
       return out;
     }},
};

std::vector<Definition> moves() {
  std::vector<Definition> definitions;
  for (const Move& row : kMoves) {
    definitions.push_back({row.op,
                           {floats(row.from, 1)},
                           [&row](const Tensors& x) {
                             Arguments args{x[0]};
                             for (const Argument& more : row.more) args.push_back(more);
                             return first_of(row.op, args);
                           },
                           [&row](const Arrays& x) {
                             return made(row.to, [&](const Dims& at) { return row.f(x[0], at); });
                           }});
  }
  return definitions;
}

const Given kRows = floats({5, 3}, 11), kFew = integers({4}, {4, 0, 4, 2});
const Given kByElement = integers({2, 3}, {0, 4, 1, 4, 4, 3});

const std::vector<Definition> kChosen = {
    {"aten::index_select",
     {kRows, kFew},
     [](const Tensors& x) {
       return first_of("aten::index_select", {x[0], 0, x[1]});
     },
     [](const Arrays& x) {
       return made({4, 3}, [&](const Dims& at) { return x[0](whole(x[1](at[0])), at[1]); });
     }},
    {"aten::take_along_dim",
     {kRows, kByElement},
     [](const Tensors& x) {
       return first_of("aten::take_along_dim", {x[0], x[1], 0});
     },
     [](const Arrays& x) {
       return made({2, 3}, [&](const Dims& at) { return x[0](whole(x[1](at[0], at[1])), at[1]); });
     }},
    {"aten::scatter_add",
     {kRows, kByElement, floats({2, 3}, 12)},
     [](const Tensors& x) {
       return first_of("aten::scatter_add", {x[0], 0, x[1], x[2]});
     },
     [](const Arrays& x) {
       DualArray out = x[0];
       for (std::int64_t i = 0; i < 6; ++i) out(whole(x[1][i]), i % 3) += x[2][i];
       return out;
     }},
    {"aten::scatter.src",
     {kRows, integers({2, 3}, {0, 4, 1, 3, 2, 0}), floats({2, 3}, 13)},
     [](const Tensors& x) {
       return first_of("aten::scatter.src", {x[0], 0, x[1], x[2]});
     },
     [](const Arrays& x) {
       DualArray out = x[0];
       for (std::int64_t i = 0; i < 6; ++i) out(whole(x[1][i]), i % 3) = x[2][i];
       return out;
     }},
    {"aten::scatter_reduce.two",
     {kRows, kByElement, floats({2, 3}, 14)},
     [](const Tensors& x) {
       return first_of("aten::scatter_reduce.two", {x[0], 0, x[1], x[2], "mean", true});
     },
     [](const Arrays& x) {
       DualArray out = x[0];
       std::vector<int> count(15, 1);
       for (std::int64_t i = 0; i < 6; ++i) {
         const std::int64_t place = whole(x[1][i]) * 3 + i % 3;
         out[place] += x[2][i];
         ++count[static_cast<std::size_t>(place)];
       }
       for (std::int64_t i = 0; i < 15; ++i) out[i] = out[i] / count[static_cast<std::size_t>(i)];
       return out;
     }},
    {"aten::index_copy",
     {kRows, integers({2}, {3, 1}), floats({2, 3}, 15)},
     [](const Tensors& x) {
       return first_of("aten::index_copy", {x[0], 0, x[1], x[2]});
     },
     [](const Arrays& x) {
       DualArray out = x[0];
       for (std::int64_t i = 0; i < 6; ++i) out(whole(x[1](i / 3)), i % 3) = x[2][i];
       return out;
     }},
    {"aten::index_fill.int_Scalar",
     {kRows, kFew},
     [](const Tensors& x) {
       return first_of("aten::index_fill.int_Scalar", {x[0], 0, x[1], -2.0});
     },
     [](const Arrays& x) {
       DualArray out = x[0];
       for (std::int64_t i = 0; i < 12; ++i) out(whole(x[1](i / 3)), i % 3) = -2;
       return out;
     }},
    {"aten::_embedding_bag",
     {kRows, integers({6}, {0, 4, 1, 4, 2, 2}), integers({3}, {0, 2, 2})},
     [](const Tensors& x) {
       return first_of("aten::_embedding_bag", {x[0], x[1], x[2], false, 1});
     },
     [](const Arrays& x) {
       // The second bag is empty, the third one has the last four.
       return made({3, 3}, [&](const Dims& at) {
         const std::int64_t first = at[0] == 0 ? 0 : 2;
         const std::int64_t count = at[0] == 0 ? 2 : at[0] == 1 ? 0 : 4;
         const Dual sum =
             sum_over(count, [&](std::int64_t i) { return x[0](whole(x[1](first + i)), at[1]); });
         return count == 0 ? sum : sum / static_cast<double>(count);
       });
     }},
    {"aten::topk",
     {floats({5, 4}, 16)},
     [](const Tensors& x) {
       return first_of("aten::topk", {x[0], 2, 0});
     },
     [](const Arrays& x) {
       return made({2, 4}, [&](const Dims& at) {
         std::vector<Dual> column;
         for (std::int64_t i = 0; i < 5; ++i) column.push_back(x[0](i, at[1]));
         std::ranges::sort(column, [](const Dual& a, const Dual& b) { return a.value > b.value; });
         return column[static_cast<std::size_t>(at[0])];
       });
     }},
    {"aten::stack",
     {floats({3, 2}, 17), floats({3, 2}, 18)},
     [](const Tensors& x) {
       return first_of("aten::stack", {tensors(x), 1});
     },
     [](const Arrays& x) {
       return made({3, 2, 2}, [&](const Dims& at) {
         return x[static_cast<std::size_t>(at[1])](at[0], at[2]);
       });
     }},
    {"aten::cat",
     {floats({3, 2}, 19), floats({3, 0}, 20), floats({3, 5}, 21)},
     [](const Tensors& x) {
       return first_of("aten::cat", {tensors(x), -1});
     },
     [](const Arrays& x) {
       return made({3, 7}, [&](const Dims& at) {
         return at[1] < 2 ? x[0](at[0], at[1]) : x[2](at[0], at[1] - 2);
       });
     }},
    {"aten::col2im",
     {floats({2, 8, 4}, 22)},
     [](const Tensors& x) {
       return first_of("aten::col2im", {x[0], ints({3, 3}), ints({2, 2}), ints({1, 1}),
                                        ints({0, 0}), ints({1, 1})});
     },
     [](const Arrays& x) {
       DualArray out(Dims{2, 2, 3, 3});
       for (std::int64_t i = 0; i < 64; ++i) {
         const std::int64_t n = i / 32, row = i / 4 % 8, place = i % 4;
         out(n, row / 4, place / 2 + row % 4 / 2, place % 2 + row % 2) += x[0][i];
       }
       return out;
     }},
};

}  // namespace

TEST_CASE("V-17 each place of what is moved, repeated or resized shows its element") {
  check_definitions(moves());
}

TEST_CASE("V-17 elements chosen, joined or written at positions are those of the definition") {
  check_definitions(kChosen);
}
