#include "tests/support/local_tensor.h"

#include <complex>
#include <cstddef>
#include <cstring>

#include "base/error.h"
#include "tests/support/on_ranks.h"

namespace shardlab {

namespace {

template <typename T>
struct Element {
  static T from(double value) { return static_cast<T>(value); }
  static double to(T value) { return static_cast<double>(value); }
};
template <>
struct Element<Half> {
  static Half from(double value) { return to_half(static_cast<float>(value)); }
  static double to(Half value) { return to_float(value); }
};
template <>
struct Element<BFloat16> {
  static BFloat16 from(double value) { return to_bfloat16(static_cast<float>(value)); }
  static double to(BFloat16 value) { return to_float(value); }
};
template <>
struct Element<Float8E4M3> {
  static Float8E4M3 from(double value) { return to_float8(static_cast<float>(value)); }
  static double to(Float8E4M3 value) { return to_float(value); }
};
template <typename Real>
struct Element<std::complex<Real>> {
  static std::complex<Real> from(double value) { return static_cast<Real>(value); }
  static double to(std::complex<Real> value) { return value.real(); }
};

template <typename Function>
void with_element(DType dtype, const Function& function) {
  switch (dtype) {
    case DType::kBool:
      return function(Element<bool>{}, bool{});
    case DType::kU8:
      return function(Element<std::uint8_t>{}, std::uint8_t{});
    case DType::kU64:
      return function(Element<std::uint64_t>{}, std::uint64_t{});
    case DType::kI8:
      return function(Element<std::int8_t>{}, std::int8_t{});
    case DType::kI16:
      return function(Element<std::int16_t>{}, std::int16_t{});
    case DType::kI32:
      return function(Element<std::int32_t>{}, std::int32_t{});
    case DType::kI64:
      return function(Element<std::int64_t>{}, std::int64_t{});
    case DType::kF16:
      return function(Element<Half>{}, Half{});
    case DType::kBF16:
      return function(Element<BFloat16>{}, BFloat16{});
    case DType::kF32:
      return function(Element<float>{}, float{});
    case DType::kF64:
      return function(Element<double>{}, double{});
    case DType::kC64:
      return function(Element<std::complex<float>>{}, std::complex<float>{});
    case DType::kC128:
      return function(Element<std::complex<double>>{}, std::complex<double>{});
    case DType::kF8E4M3FN:
      return function(Element<Float8E4M3>{}, Float8E4M3{});
    default:
      check_invariant(false, "a dtype that has elements");
  }
}

}  // namespace

Tensor local_tensor(const Dims& shape, DType dtype, const std::vector<double>& values) {
  const Tensor tensor = empty(plain_device(), shape, dtype);
  check_invariant(static_cast<std::int64_t>(values.size()) == tensor.numel(), "one value each");
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.size_bytes()));
  with_element(dtype, [&](auto format, auto element) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      element = format.from(values[i]);
      std::memcpy(bytes.data() + i * sizeof(element), &element, sizeof(element));
    }
  });
  plain_device().write(tensor, bytes.data());
  return tensor;
}

std::vector<double> values_of(const Tensor& tensor) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.size_bytes()));
  plain_device().read(tensor, bytes.data());
  std::vector<double> values(static_cast<std::size_t>(tensor.numel()));
  with_element(tensor.dtype(), [&](auto format, auto element) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::memcpy(&element, bytes.data() + i * sizeof(element), sizeof(element));
      values[i] = format.to(element);
    }
  });
  return values;
}

}  // namespace shardlab
