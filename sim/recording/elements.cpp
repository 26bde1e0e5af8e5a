// Bytes are those of torch: little-endian, row-major, bool one byte.
#include "sim/recording/elements.h"

#include <complex>

#include "base/error.h"
#include "sim/checkpoint/edited.h"
#include "sim/recording/advice.h"

namespace shardlab {

std::vector<double> equal_or_formula(const RecordedElements& elements, DType dtype,
                                     std::int64_t count) {
  const std::int64_t parts = is_complex(dtype) ? 2 : 1;
  std::vector<double> values(static_cast<std::size_t>(count * parts), 0.0);
  if (elements.stored == RecordedElements::Stored::kEqual) {
    for (std::int64_t i = 0; i < count; ++i) {
      values[static_cast<std::size_t>(i * parts)] = elements.value;
    }
    return values;
  }
  for (std::int64_t i = 0; i < count * parts; ++i) {
    const std::int64_t h = (i + 1) * 7919 + (elements.seed + 1) * 104729 + ((i * i) % 251) * 31;
    double& value = values[static_cast<std::size_t>(i)];
    if (dtype == DType::kBool) {
      value = static_cast<double>((h / 7) % 2);
    } else if (is_integral(dtype)) {
      value = static_cast<double>(h % elements.below);
    } else {
      value = elements.bias + elements.scale * static_cast<double>(h % 509 - 254) / 256;
    }
  }
  return values;
}

std::vector<Scalar> stored_scalars(std::string_view bytes, DType dtype) {
  const bool complex = is_complex(dtype);
  const bool real = complex || is_floating(dtype);
  const std::string wide = converted(std::string(bytes), dtype,
                                     complex ? DType::kC128
                                     : real  ? DType::kF64
                                             : DType::kI64);
  const auto* reals = reinterpret_cast<const double*>(wide.data());
  const auto* integers = reinterpret_cast<const std::int64_t*>(wide.data());
  std::vector<Scalar> elements(wide.size() / (complex ? 16 : 8));
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (!real) elements[i] = integers[i];
    if (real && !complex) elements[i] = reals[i];
    if (complex) elements[i] = std::complex<double>(reals[2 * i], reals[2 * i + 1]);
  }
  return elements;
}

std::vector<Scalar> scalars_of(const RecordedElements& elements, std::string_view raw, DType dtype,
                               std::int64_t count) {
  if (elements.stored == RecordedElements::Stored::kBytes) {
    const auto bytes = static_cast<std::size_t>(count * item_bytes(dtype));
    if (bytes <= elements.bytes) return stored_scalars(raw.substr(elements.at, bytes), dtype);
  }
  if (elements.stored == RecordedElements::Stored::kNowhere ||
      elements.stored == RecordedElements::Stored::kBytes) {
    fail(Fix{record_again()}, "the file has fewer elements than the value");
  }
  std::vector<Scalar> scalars;
  const std::vector<double> numbers = equal_or_formula(elements, dtype, count);
  const std::size_t step = is_complex(dtype) ? 2 : 1;
  for (std::size_t i = 0; i < numbers.size(); i += step) {
    if (step == 2) {
      scalars.emplace_back(std::complex<double>(numbers[i], numbers[i + 1]));
    } else if (is_integral(dtype)) {
      scalars.emplace_back(static_cast<std::int64_t>(numbers[i]));
    } else {
      scalars.emplace_back(numbers[i]);
    }
  }
  return scalars;
}

}  // namespace shardlab
