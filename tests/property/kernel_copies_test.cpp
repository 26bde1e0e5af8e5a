// Products that were compiled a second time for AVX-512 have the bits of their first copy, for all
// sizes and layouts. All NaN are equal, whatever their bits. Skipped, with exit code 77, if there
// is one copy or the processor cannot run the second.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/cpu_kernels.h"
#include "kernels/wide_products.h"

namespace shardlab {
namespace {

using Random = std::mt19937_64;

// Ends the program if there is no second copy.
const WideProducts& second_copy() {
  const WideProducts* products = wide_products();
  if (products != nullptr) return *products;
  fmt::print("this program has no second copy of products, or this processor cannot run it\n");
  std::exit(77);
}

// The first element that differs; -1: none does.
template <typename T>
std::int64_t first_difference(const T* a, const T* b, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (std::memcmp(a + i, b + i, sizeof(T)) != 0 && !(a[i] != a[i] && b[i] != b[i])) return i;
  }
  return -1;
}

// A matrix of drawn numbers; by columns: each column is contiguous, one after the other.
template <typename T>
struct DrawnMatrix {
  std::vector<T> values;
  MatrixView<const T> view;

  DrawnMatrix(Random& random, std::int64_t rows, std::int64_t columns, bool by_columns) {
    std::normal_distribution<T> normal;
    values.resize(static_cast<std::size_t>(rows * columns));
    for (T& value : values) value = normal(random);
    const MatrixView<const T> lying{values.data(), by_columns ? columns : rows,
                                    by_columns ? rows : columns, by_columns ? rows : columns, 1};
    view = by_columns ? turned(lying) : lying;
  }
};

// The first element in which two products of drawn matrices differ; -1: none does.
template <typename T>
std::int64_t differing_product(Random& random, std::int64_t rows, std::int64_t inner,
                               std::int64_t columns, const Products<T>& wide) {
  const bool turns_out = random() % 2 == 0;
  const DrawnMatrix<T> a(random, rows, inner, random() % 2 == 0);
  const DrawnMatrix<T> b(random, inner, columns, random() % 2 == 0);
  std::vector<T> one(static_cast<std::size_t>(rows * columns), T(7)), other = one;
  const auto multiply_into = [&](std::vector<T>& out, const Products<T>& products) {
    const MatrixView<T> lying{out.data(), turns_out ? columns : rows, turns_out ? rows : columns,
                              turns_out ? rows : columns, 1};
    multiply_with<T>(products, turns_out ? turned(lying) : lying, a.view, b.view);
  };
  multiply_into(one, own_products<T>());
  multiply_into(other, wide);
  return first_difference(one.data(), other.data(), rows * columns);
}

template <typename T>
void compare_products(const Products<T>& wide) {
  fix_matmul_blocking();
  Random random(5);
  const auto compare = [&](std::int64_t rows, std::int64_t inner, std::int64_t columns) {
    CAPTURE(sizeof(T));
    CAPTURE(rows);
    CAPTURE(inner);
    CAPTURE(columns);
    CHECK(differing_product(random, rows, inner, columns, wide) == -1);
  };
  const auto size = [&](std::int64_t most) {
    return 2 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most));
  };
  for (int round = 0; round < 1500; ++round) compare(size(120), size(700), size(200));
  for (int round = 0; round < 300; ++round) compare(size(4), size(90), size(100));
  // Sizes that Eigen cuts in every direction.
  for (int round = 0; round < 3; ++round) compare(size(1500), 2000 + size(2000), size(1500));
}

}  // namespace

TEST_CASE("V-30 products give the same bits in both copies") {
  compare_products<float>(second_copy().f32);
  compare_products<double>(second_copy().f64);
}

}  // namespace shardlab
