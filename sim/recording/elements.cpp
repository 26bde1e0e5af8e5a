// Bytes are those of torch: little-endian, row-major, bool one byte.
#include "sim/recording/elements.h"

#include <complex>

#include "base/error.h"
#include "base/fix.h"
#include "sim/files/stored_scalar.h"
#include "sim/recording/advice.h"

namespace shardlab {

namespace {

using Load = Scalar (*)(const char*);

Load load_of(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kU8:
      return stored_scalar<std::uint8_t>;
    case DType::kI8:
      return stored_scalar<std::int8_t>;
    case DType::kI16:
      return stored_scalar<std::int16_t>;
    case DType::kI32:
      return stored_scalar<std::int32_t>;
    case DType::kI64:
    case DType::kU64:
      return stored_scalar<std::int64_t>;
    case DType::kF16:
      return stored_scalar<Half>;
    case DType::kBF16:
      return stored_scalar<BFloat16>;
    case DType::kF8E4M3FN:
      return stored_scalar<Float8E4M3>;
    case DType::kF32:
      return stored_scalar<float>;
    case DType::kF64:
      return stored_scalar<double>;
    case DType::kC64:
      return stored_scalar<std::complex<float>>;
    case DType::kC128:
      return stored_scalar<std::complex<double>>;
    case DType::kC32:
    case DType::kBC32:
      break;
  }
  fail(ErrorKind::kUnsupported, Fix{"record it in a dtype of 32 or 64 bits"},
       "elements of dtype {} are not read", to_string(dtype));
}

}  // namespace

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
  const Load load = load_of(dtype);
  const auto size = static_cast<std::size_t>(item_bytes(dtype));
  std::vector<Scalar> elements;
  elements.reserve(bytes.size() / size);
  for (std::size_t at = 0; at + size <= bytes.size(); at += size) {
    elements.push_back(load(bytes.data() + at));
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
    fail(ErrorKind::kValue, Fix{record_again()}, "the file has fewer elements than the value");
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
