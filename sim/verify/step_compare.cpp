// Elements are looked at one by one: a bad one never excuses another.
#include "sim/verify/step_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/rank_context.h"
#include "base/text.h"
#include "comm/verdict.h"
#include "mesh/local_shape.h"
#include "sim/verify/compare.h"
#include "tensor/host.h"

namespace shardlab {

namespace {

// 64 fair coins for the n-th block of a sample (SplitMix64).
std::uint64_t coins(std::uint64_t sample, std::uint64_t block) {
  std::uint64_t z = (sample + 1) * 0x9E3779B97F4A7C15u + block * 0xD1B54A32D192ED03u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

bool heads(int sample, std::size_t i) {
  return (coins(static_cast<std::uint64_t>(sample), i / 64) >> (i % 64) & 1) != 0;
}

Tensor written(const Tensor& like, const std::vector<double>& numbers) {
  const Tensor result = empty(*current_rank().device, like.shape(), like.dtype());
  write_doubles(result, numbers);
  return result;
}

// Both are on the host, and of one shape.
bool same_strided(const std::byte* a, const std::byte* b, const TensorMeta& of_a,
                  const TensorMeta& of_b, std::size_t dim) {
  const auto item = static_cast<std::int64_t>(item_bytes(of_a.dtype));
  const std::size_t left = of_a.shape.size() - dim;
  const std::int64_t size = left == 0 ? 1 : of_a.shape[dim];
  const bool row = left == 0 || (left == 1 && of_a.stride[dim] == 1 && of_b.stride[dim] == 1);
  if (row) return size == 0 || std::memcmp(a, b, static_cast<std::size_t>(size * item)) == 0;
  for (std::int64_t i = 0; i < size; ++i) {
    const std::byte* const at = a + i * of_a.stride[dim] * item;
    const std::byte* const other = b + i * of_b.stride[dim] * item;
    if (!same_strided(at, other, of_a, of_b, dim + 1)) return false;
  }
  return true;
}

}  // namespace

bool same_bits(const Tensor& a, const Tensor& b) {
  const bool one = a.storage()->buffer() == b.storage()->buffer();
  if (one && a.offset() == b.offset() && a.stride() == b.stride()) return true;
  const bool host = on_host(a) && on_host(b) && a.shape() == b.shape() && a.dtype() == b.dtype();
  if (!host) return read_bytes(a) == read_bytes(b);
  if (!a.contiguous() || !b.contiguous()) {
    return a.numel() == 0 || same_strided(first_byte(a), first_byte(b), a.meta(), b.meta(), 0);
  }
  const auto size = static_cast<std::size_t>(a.size_bytes());
  return size == 0 || std::memcmp(first_byte(a), first_byte(b), size) == 0;
}

bool same_values(const Tensor& a, const Tensor& b) {
  if (same_bits(a, b)) return true;
  if (is_integral(a.dtype())) return false;
  const std::vector<double> x = read_doubles(a), y = read_doubles(b);
  return std::ranges::equal(x, y, same_bits_or_nan);
}

bool all_finite(const Tensor& x) {
  if (is_integral(x.dtype())) return true;
  if (x.dtype() == DType::kF32 && x.contiguous() && on_host(x)) {
    const float* data = x.data<float>();
    return std::all_of(data, data + x.numel(), [](float v) { return std::isfinite(v); });
  }
  return std::ranges::all_of(read_doubles(x), [](double v) { return std::isfinite(v); });
}

WrongStep bitwise_miss(const Tensor& got, const Tensor& expected) {
  WrongStep found;
  const bool integers = is_integral(got.dtype());
  std::vector<double> x, y;
  std::vector<std::int64_t> k, l;
  if (integers) {
    k = read_integers(got);
    l = read_integers(expected);
  } else {
    x = read_doubles(got);
    y = read_doubles(expected);
  }
  const std::size_t width = number_width(got.dtype());
  for (std::size_t i = 0; i < std::max(k.size(), x.size()); ++i) {
    if (integers ? k[i] == l[i] : same_bits_or_nan(x[i], y[i])) continue;
    if (found.wrong_elements++ > 0) continue;
    found.element = static_cast<std::int64_t>(i / width);
    found.got = integers ? static_cast<double>(k[i]) : x[i];
    found.expected = integers ? static_cast<double>(l[i]) : y[i];
    found.error = std::fabs(found.got - found.expected);
    found.what = integers ? fmt::format("element {} is {}, {} is right", i, k[i], l[i])
                          : fmt::format("element {} is {:.9g}, {:.9g} is right, bit for bit",
                                        found.element, x[i], y[i]);
  }
  return found;
}

WrongStep float_miss(const Misses& missed, DType dtype) {
  WrongStep found;
  found.element = static_cast<std::int64_t>(missed.worst / number_width(dtype));
  found.wrong_elements = missed.count;
  found.got = missed.got;
  found.expected = missed.expected;
  found.error = missed.error;
  found.allowed = missed.allowed;
  found.what =
      fmt::format("element {} is {:.9g}, {:.9g} is right: off by {:.3g}, allowed {:.3g}",
                  found.element, missed.got, missed.expected, missed.error, missed.allowed);
  return found;
}

std::string holders_text(const DTensorSpec& spec, std::int64_t element) {
  Dims index(spec.ndim());
  for (std::size_t dim = spec.ndim(); dim-- > 0;) {
    index[dim] = element % spec.shape()[dim];
    element /= spec.shape()[dim];
  }
  std::vector<std::int64_t> ranks;
  for (std::int64_t i = 0; i < spec.layout()->size(); ++i) {
    const LocalView view = local_view(spec, spec.layout()->coordinate_at_index(i));
    if (view.holds(index)) ranks.push_back(spec.layout()->rank_at_index(i));
  }
  std::ranges::sort(ranks);
  return fmt::format("{} at [{}]", fold_ranks(ranks), text_of_list(index, ", "));
}

Tensor absolute_value(const WholeValue& value, const Tensor& own) {
  if (is_integral(own.dtype())) return own;
  std::vector<double> numbers = value.terms.empty() ? read_doubles(own) : value.terms;
  if (is_complex(own.dtype())) {
    for (std::size_t i = 0; i + 1 < numbers.size(); i += 2) {
      numbers[i] = std::hypot(numbers[i], numbers[i + 1]);
      numbers[i + 1] = 0;
    }
  }
  for (double& number : numbers) number = std::isfinite(number) ? std::fabs(number) : 0;
  return written(own, numbers);
}

Tensor scaled_at_random(const WholeValue& value, double step, int sample) {
  const Tensor wide = value.wide();
  std::vector<double> numbers = read_doubles(wide);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const double by = step * (value.terms.empty() ? std::fabs(numbers[i]) : value.terms[i]);
    numbers[i] += heads(sample, i) ? by : -by;
  }
  return written(wide, numbers);
}

Tensor moved_by_rounding(const WholeValue& value, double least, int sample) {
  const Tensor wide = value.wide();
  if (is_integral(wide.dtype())) return wide;
  std::vector<double> numbers = read_doubles(wide);
  const double u = unit_roundoff(value.own.dtype()) * static_cast<double>(value.count);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const double by = u * (value.terms.empty() ? 0 : value.terms[i]) + least;
    numbers[i] += heads(sample, i) ? by : -by;
  }
  return written(wide, numbers);
}

double terms_added(const std::vector<WholeValue>& operands, std::int64_t results, bool any) {
  double largest = 1, product = 1;
  const auto whole = static_cast<double>(std::max<std::int64_t>(results, 1));
  int operands_seen = 0;
  for (const WholeValue& operand : operands) {
    if (!operand.own.defined() || is_integral(operand.own.dtype())) continue;
    const auto size = static_cast<double>(std::max<std::int64_t>(operand.own.numel(), 1));
    largest = std::max(largest, any ? size : size / whole);
    product *= size;
    ++operands_seen;
  }
  return operands_seen < 2 ? largest : std::max(largest, std::sqrt(product / whole));
}

}  // namespace shardlab
