// Fingerprints of values in pieces beside their definition, in whole numbers, which no order of
// adding changes.
#include "sim/replay/fingerprint.h"

#include <doctest/doctest.h>

#include "mesh/local_shape.h"
#include "sim/verify/global_value.h"
#include "tests/support/local_tensor.h"
#include "tests/unit/plan/plan_support.h"

using namespace shardlab;

namespace {

// Takes the numbers 1, -2, 3, -4 ... in the shape, cut as the placements say.
Fingerprint print_in_pieces(const Dims& mesh, std::string_view placements, const Dims& shape,
                            DType dtype) {
  Arena arena;
  const MeshLayout* layout = arena.layout({.shape = mesh, .names = {}, .ranks = {}});
  const Placements placed = test::placements(placements);
  const DTensorSpec* spec =
      arena.spec(layout, placed, default_order(placed), contiguous_meta(shape, dtype));
  FingerprintSum sum;
  // The last piece first.
  for (std::int64_t index = layout->size(); index-- > 0;) {
    const Coordinate coordinate = layout->coordinate_at_index(index);
    const LocalView view = local_view(*spec, coordinate);
    std::vector<double> numbers;
    for_each_element(view, [&](std::size_t, std::size_t global) {
      const auto number = static_cast<double>(global + 1);
      numbers.push_back(global % 2 == 0 ? number : -number);
    });
    sum.add_piece(local_tensor(local_shape(*spec, coordinate), dtype, numbers), view);
  }
  return sum.print();
}

}  // namespace

TEST_CASE("B-28 a fingerprint is the same however the value is cut") {
  const struct {
    Dims mesh;
    const char* placements;
    Dims shape;
    DType dtype;
  } kCases[] = {{{1}, "R", {1}, DType::kF32},
                {{4}, "S(0)", {3, 67}, DType::kF32},
                {{4}, "S(1)", {5, 67}, DType::kF32},
                {{3}, "S(1)", {7, 180}, DType::kF64},
                {{2, 3}, "S(1) S(0)", {7, 9, 4}, DType::kBF16},
                {{2, 2}, "S(0) S(0)", {113}, DType::kF32},
                {{8}, "S(0)", {0, 4}, DType::kF32},
                {{3}, "S(0)", {100}, DType::kI64}};
  for (const auto& one : kCases) {
    CAPTURE(one.placements);
    const Fingerprint print = print_in_pieces(one.mesh, one.placements, one.shape, one.dtype);
    double sums[2] = {0, 0}, sizes[2] = {0, 0};
    for (std::int64_t i = 0; i < product(one.shape); ++i) {
      const auto number = static_cast<double>(i + 1), weight = static_cast<double>(i % 7 + 1);
      sums[0] += i % 2 == 0 ? number : -number;
      sums[1] += weight * (i % 2 == 0 ? number : -number);
      sizes[0] += number;
      sizes[1] += weight * number;
    }
    for (const int i : {0, 1}) {
      CHECK(print.sums[i] == sums[i]);
      CHECK(print.sizes[i] == sizes[i]);
    }
  }
}
