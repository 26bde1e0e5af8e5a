// Each row is searched among those that are not found yet.
#include "sim/verify/labels/row_order.h"

#include <algorithm>
#include <span>

#include "sim/verify/compare.h"

namespace shardlab {

namespace {

using Row = std::vector<double>;

// For longer dims comparing every pair of rows takes too long.
constexpr std::int64_t kMostRows = 64;

std::vector<Row> rows_of(const GlobalValue& value, std::size_t dim) {
  const Dims& shape = value.meta.shape;
  const std::int64_t inner = product(std::span(shape).subspan(dim + 1));
  std::vector<Row> rows(static_cast<std::size_t>(shape[dim]));
  const auto put = [&](std::size_t i, double number) {
    const std::int64_t row = static_cast<std::int64_t>(i) / inner % shape[dim];
    rows[static_cast<std::size_t>(row)].push_back(number);
  };
  for (std::size_t i = 0; i < value.reals.size(); ++i) put(i, value.reals[i]);
  for (std::size_t i = 0; i < value.integers.size(); ++i) {
    put(i, static_cast<double>(value.integers[i]));
  }
  return rows;
}

}  // namespace

std::optional<RowOrder> row_order(const GlobalValue& got, const GlobalValue& whole,
                                  double relative) {
  for (std::size_t dim = 0; dim < whole.meta.shape.size(); ++dim) {
    auto rows = row_order(got, whole, dim, relative);
    if (rows && !std::ranges::is_sorted(*rows)) return RowOrder{dim, std::move(*rows)};
  }
  return std::nullopt;
}

std::optional<std::vector<std::int64_t>> row_order(const GlobalValue& got, const GlobalValue& whole,
                                                   std::size_t dim, double relative) {
  if (got.meta.shape != whole.meta.shape || is_complex(got.meta.dtype)) return std::nullopt;
  const std::int64_t rows = whole.meta.shape[dim];
  if (rows < 2 || rows > kMostRows) return std::nullopt;
  const double allowed = relative * largest_finite(whole.reals);
  const std::vector<Row> held = rows_of(got, dim), right = rows_of(whole, dim);
  std::vector<std::int64_t> order;
  for (const Row& row : held) {
    const auto fits = [&](const Row& other) { return all_close(row, other, allowed); };
    if (std::ranges::count_if(right, fits) != 1) return std::nullopt;
    order.push_back(std::ranges::find_if(right, fits) - right.begin());
    if (std::ranges::count(order, order.back()) > 1) return std::nullopt;
  }
  return order;
}

GlobalValue in_order(const GlobalValue& whole, std::size_t dim,
                     const std::vector<std::int64_t>& order) {
  GlobalValue result{.meta = whole.meta};
  const Dims& shape = whole.meta.shape;
  const std::int64_t rows = std::ssize(order), inner = (is_complex(whole.meta.dtype) ? 2 : 1) *
                                                       product(std::span(shape).subspan(dim + 1));
  result.meta.shape[dim] = rows;
  const auto put = [&](const auto& from, auto& to) {
    if (!from.empty()) to.resize(from.size() / static_cast<std::size_t>(shape[dim]) * order.size());
    for (std::size_t i = 0; i < to.size(); ++i) {
      const std::int64_t at = static_cast<std::int64_t>(i), line = at / inner;
      const std::int64_t row =
          line / rows * shape[dim] + order[static_cast<std::size_t>(line % rows)];
      to[i] = from[static_cast<std::size_t>(row * inner + at % inner)];
    }
  };
  put(whole.reals, result.reals);
  put(whole.integers, result.integers);
  return result;
}

}  // namespace shardlab
