// Written by the definitions, one loop an index.
#include "tests/unit/models/plain_loops.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace shardlab::test {

Plain zeros_of(const Dims& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return {shape, std::vector<double>(static_cast<std::size_t>(count))};
}

Plain numbers(const Dims& shape, std::int64_t start) {
  Plain out = zeros_of(shape);
  std::int64_t state = 7 + 31 * start;
  for (double& value : out.values) {
    state = (state * 1103 + 377) % 4001;
    value = static_cast<double>(state) / 2000.5 - 1;
  }
  return out;
}

Plain product_of(const Plain& a, const Plain& b) {
  Plain out = zeros_of({a.shape[0], b.shape[1]});
  for (std::int64_t i = 0; i < a.shape[0]; ++i) {
    for (std::int64_t j = 0; j < b.shape[1]; ++j) {
      for (std::int64_t k = 0; k < a.shape[1]; ++k) out.at(i, j) += a.at(i, k) * b.at(k, j);
    }
  }
  return out;
}

Plain transposed(const Plain& a) {
  Plain out = zeros_of({a.shape[1], a.shape[0]});
  for (std::int64_t i = 0; i < a.shape[0]; ++i) {
    for (std::int64_t j = 0; j < a.shape[1]; ++j) out.at(j, i) = a.at(i, j);
  }
  return out;
}

Plain product_at(const Plain& a, const Plain& b) { return product_of(transposed(a), b); }
Plain product_bt(const Plain& a, const Plain& b) { return product_of(a, transposed(b)); }

Plain map(const Plain& a, const std::function<double(double)>& f) {
  Plain out = a;
  for (double& value : out.values) value = f(value);
  return out;
}

Plain zip(const Plain& a, const Plain& b, const std::function<double(double, double)>& f) {
  Plain out = a;
  for (std::size_t i = 0; i < a.values.size(); ++i) out.values[i] = f(a.values[i], b.values[i]);
  return out;
}

double total(const Plain& a) { return std::accumulate(a.values.begin(), a.values.end(), 0.0); }

Plain column_sums(const Plain& a) {
  Plain out = zeros_of({a.shape[1]});
  for (std::int64_t i = 0; i < a.shape[0]; ++i) {
    for (std::int64_t j = 0; j < a.shape[1]; ++j) out.at(j) += a.at(i, j);
  }
  return out;
}

Plain with_bias(Plain a, const Plain& bias) {
  for (std::int64_t i = 0; i < a.shape[0]; ++i) {
    for (std::int64_t j = 0; j < a.shape[1]; ++j) a.at(i, j) += bias.at(j);
  }
  return a;
}

Plain softmax_rows(const Plain& a) {
  Plain out = a;
  for (std::int64_t i = 0; i < a.shape[0]; ++i) {
    double sum = 0;
    for (std::int64_t j = 0; j < a.shape[1]; ++j) sum += std::exp(a.at(i, j));
    for (std::int64_t j = 0; j < a.shape[1]; ++j) out.at(i, j) = std::exp(a.at(i, j)) / sum;
  }
  return out;
}

Plain softmax_back(const Plain& p, const Plain& flow) {
  Plain out = p;
  for (std::int64_t i = 0; i < p.shape[0]; ++i) {
    double sum = 0;
    for (std::int64_t j = 0; j < p.shape[1]; ++j) sum += p.at(i, j) * flow.at(i, j);
    for (std::int64_t j = 0; j < p.shape[1]; ++j) out.at(i, j) *= flow.at(i, j) - sum;
  }
  return out;
}

}  // namespace shardlab::test
