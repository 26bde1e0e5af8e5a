// dual.h - numbers that carry their derivatives by every element of a model's leaves, so that an op
// is written once, by its definition, and its gradients are worked out with it. Shares nothing with
// the library's tape.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/inline_vector.h"

namespace shardlab::test {

/// A number and its derivatives; an empty list of them is a constant's.
struct Dual {
  double value = 0;
  std::vector<double> slope = {};

  Dual() = default;
  Dual(double constant) : value(constant) {}  // NOLINT: numbers take part in formulas as they are
  Dual(double v, std::vector<double> s) : value(v), slope(std::move(s)) {}

  Dual& operator+=(const Dual& other);
};

Dual operator+(const Dual& a, const Dual& b);
Dual operator-(const Dual& a, const Dual& b);
Dual operator*(const Dual& a, const Dual& b);
Dual operator/(const Dual& a, const Dual& b);
Dual operator-(const Dual& a);
/// f(a), whose derivative there is `slope`.
Dual chained(const Dual& a, double value, double slope);

inline Dual exp(const Dual& a) { return chained(a, std::exp(a.value), std::exp(a.value)); }
inline Dual log(const Dual& a) { return chained(a, std::log(a.value), 1 / a.value); }
inline Dual sqrt(const Dual& a) { return chained(a, std::sqrt(a.value), 0.5 / std::sqrt(a.value)); }
inline Dual sin(const Dual& a) { return chained(a, std::sin(a.value), std::cos(a.value)); }
inline Dual cos(const Dual& a) { return chained(a, std::cos(a.value), -std::sin(a.value)); }
inline Dual atan(const Dual& a) {
  return chained(a, std::atan(a.value), 1 / (1 + a.value * a.value));
}
inline Dual erf(const Dual& a) {
  return chained(a, std::erf(a.value), std::exp(-a.value * a.value) * 2 / std::sqrt(M_PI));
}
inline Dual pow(const Dual& a, double n) {
  return chained(a, std::pow(a.value, n), n * std::pow(a.value, n - 1));
}
inline Dual abs(const Dual& a) { return a.value < 0 ? -a : a; }
inline Dual max(const Dual& a, const Dual& b) { return a.value < b.value ? b : a; }
inline Dual min(const Dual& a, const Dual& b) { return b.value < a.value ? b : a; }
inline Dual sigmoid(const Dual& a) { return 1 / (1 + exp(-a)); }
inline Dual tanh(const Dual& a) { return 1 - 2 / (1 + exp(2 * a)); }
inline Dual softplus(const Dual& a) { return log(1 + exp(a)); }

/// Row-major.
struct DualArray {
  Dims shape;
  std::vector<Dual> elements;

  DualArray() = default;
  explicit DualArray(const Dims& sizes);

  std::int64_t size(std::size_t dim) const { return shape[dim]; }
  std::int64_t count() const { return static_cast<std::int64_t>(elements.size()); }
  /// Reads by a flat index, or by one index for each dim.
  Dual& operator[](std::int64_t i) { return elements[static_cast<std::size_t>(i)]; }
  const Dual& operator[](std::int64_t i) const { return elements[static_cast<std::size_t>(i)]; }
  template <typename... Index>
  Dual& operator()(Index... index) {
    return (*this)[flat({static_cast<std::int64_t>(index)...})];
  }
  template <typename... Index>
  const Dual& operator()(Index... index) const {
    return (*this)[flat({static_cast<std::int64_t>(index)...})];
  }
  std::int64_t flat(const Dims& index) const;
};

/// An array whose elements are `f` of their index.
DualArray made(const Dims& shape, const std::function<Dual(const Dims& index)>& f);
/// `f` of each element.
DualArray mapped(const DualArray& a, const std::function<Dual(const Dual&)>& f);
/// The sum of f(0), ..., f(count - 1), and the product.
Dual sum_over(std::int64_t count, const std::function<Dual(std::int64_t)>& f);
Dual product_over(std::int64_t count, const std::function<Dual(std::int64_t)>& f);
Dual sum_all(const DualArray& a);
/// Both are matrices.
DualArray matrix_product(const DualArray& a, const DualArray& b);
DualArray transposed(const DualArray& a);
DualArray scalar(const Dual& a);
/// The element as the index that it is.
inline std::int64_t whole(const Dual& a) { return static_cast<std::int64_t>(a.value); }

}  // namespace shardlab::test
