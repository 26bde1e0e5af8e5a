// Forward differentiation: the chain rule, number by number.
#include "tests/unit/models/dual.h"

namespace shardlab::test {

namespace {

// x * a + y * b of two lists of derivatives.
std::vector<double> mixed(const Dual& a, double x, const Dual& b, double y) {
  if (a.slope.empty() && b.slope.empty()) return {};
  std::vector<double> out(std::max(a.slope.size(), b.slope.size()));
  for (std::size_t i = 0; i < a.slope.size(); ++i) out[i] += x * a.slope[i];
  for (std::size_t i = 0; i < b.slope.size(); ++i) out[i] += y * b.slope[i];
  return out;
}

}  // namespace

Dual operator+(const Dual& a, const Dual& b) { return {a.value + b.value, mixed(a, 1, b, 1)}; }
Dual operator-(const Dual& a, const Dual& b) { return {a.value - b.value, mixed(a, 1, b, -1)}; }
Dual operator*(const Dual& a, const Dual& b) {
  return {a.value * b.value, mixed(a, b.value, b, a.value)};
}
Dual operator/(const Dual& a, const Dual& b) {
  return {a.value / b.value, mixed(a, 1 / b.value, b, -a.value / (b.value * b.value))};
}
Dual operator-(const Dual& a) { return {-a.value, mixed(a, -1, {}, 0)}; }
Dual chained(const Dual& a, double value, double slope) { return {value, mixed(a, slope, {}, 0)}; }

Dual& Dual::operator+=(const Dual& other) { return *this = *this + other; }

DualArray::DualArray(const Dims& sizes) : shape(sizes) {
  std::size_t count = 1;
  for (const std::int64_t size : sizes) count *= static_cast<std::size_t>(size);
  elements.resize(count);
}

std::int64_t DualArray::flat(const Dims& index) const {
  std::int64_t at = 0;
  for (std::size_t dim = 0; dim < shape.size(); ++dim) at = at * shape[dim] + index[dim];
  return at;
}

DualArray made(const Dims& shape, const std::function<Dual(const Dims& index)>& f) {
  DualArray out(shape);
  Dims index(shape.size(), 0);
  for (Dual& element : out.elements) {
    element = f(index);
    for (std::size_t dim = shape.size(); dim-- > 0;) {
      if (++index[dim] < shape[dim]) break;
      index[dim] = 0;
    }
  }
  return out;
}

DualArray mapped(const DualArray& a, const std::function<Dual(const Dual&)>& f) {
  DualArray out = a;
  for (Dual& element : out.elements) element = f(element);
  return out;
}

Dual sum_over(std::int64_t count, const std::function<Dual(std::int64_t)>& f) {
  Dual out;
  for (std::int64_t i = 0; i < count; ++i) out += f(i);
  return out;
}

Dual product_over(std::int64_t count, const std::function<Dual(std::int64_t)>& f) {
  Dual out = 1;
  for (std::int64_t i = 0; i < count; ++i) out = out * f(i);
  return out;
}

Dual sum_all(const DualArray& a) {
  return sum_over(a.count(), [&](std::int64_t i) { return a[i]; });
}

DualArray matrix_product(const DualArray& a, const DualArray& b) {
  return made({a.size(0), b.size(1)}, [&](const Dims& at) {
    return sum_over(a.size(1), [&](std::int64_t k) { return a(at[0], k) * b(k, at[1]); });
  });
}

DualArray transposed(const DualArray& a) {
  return made({a.size(1), a.size(0)}, [&](const Dims& at) { return a(at[1], at[0]); });
}

DualArray scalar(const Dual& a) {
  DualArray out(Dims{});
  out[0] = a;
  return out;
}

}  // namespace shardlab::test
