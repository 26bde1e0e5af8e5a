// Bytes are those of torch: little-endian, row-major, bool one byte.
#include "sim/record/step_elements.h"

#include <complex>

#include "base/error.h"
#include "base/fix.h"
#include "sim/record/json_value.h"
#include "sim/record/step_file.h"
#include "sim/record/stored_scalar.h"
#include "tensor/host.h"

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

Scalar element_of(double number, DType dtype) {
  return is_integral(dtype) ? Scalar(static_cast<std::int64_t>(number)) : Scalar(number);
}

}  // namespace

std::vector<double> formula_elements(const Json& fill, DType dtype, std::int64_t count) {
  std::vector<double> values;
  const auto seed = integer_of<std::int64_t>(fill.at("seed"));
  const std::int64_t parts = is_complex(dtype) ? 2 : 1;
  for (std::int64_t i = 0; i < count * parts; ++i) {
    const std::int64_t h = (i + 1) * 7919 + (seed + 1) * 104729 + ((i * i) % 251) * 31;
    if (dtype == DType::kBool) {
      values.push_back(static_cast<double>((h / 7) % 2));
    } else if (is_integral(dtype)) {
      values.push_back(static_cast<double>(h % integer_of<std::int64_t>(fill.at("mod"))));
    } else {
      const double step = static_cast<double>(h % 509 - 254) / 256;
      values.push_back(fill.at("bias").get<double>() + fill.at("scale").get<double>() * step);
    }
  }
  return values;
}

std::string_view stored_bytes(std::string_view raw, const Json& value, DType dtype,
                              std::int64_t count) {
  const auto bytes = static_cast<std::size_t>(item_bytes(dtype));
  const auto from = integer_of<std::size_t>(value.at("raw").at(0));
  if (from > raw.size() || static_cast<std::size_t>(count) > (raw.size() - from) / bytes) {
    fail(ErrorKind::kValue, Fix{record_again()}, "the elements of value {} are outside of the file",
         value.at("v").dump());
  }
  return raw.substr(from, static_cast<std::size_t>(count) * bytes);
}

std::vector<Scalar> stored_scalars(std::string_view bytes, DType dtype) {
  const Load load = load_of(dtype);
  const auto size = static_cast<std::size_t>(item_bytes(dtype));
  std::vector<Scalar> elements;
  elements.reserve(bytes.size() / size);
  for (std::size_t at = 0; at < bytes.size(); at += size) {
    elements.push_back(load(bytes.data() + at));
  }
  return elements;
}

std::optional<std::vector<Scalar>> step_elements(std::string_view raw, const Json& value,
                                                 DType dtype, std::int64_t count) {
  std::vector<Scalar> elements;
  if (value.contains("fill")) {
    const std::vector<double> numbers = formula_elements(value.at("fill"), dtype, count);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (is_complex(dtype)) {
        elements.emplace_back(std::complex<double>(numbers[i], numbers[i + 1]));
        ++i;
      } else {
        elements.push_back(element_of(numbers[i], dtype));
      }
    }
    return elements;
  }
  if (!value.contains("raw")) return std::nullopt;
  const Json& where = value.at("raw");
  if (where.is_object()) {
    elements.assign(static_cast<std::size_t>(count), element_of(number_of(where.at("all")), dtype));
    return elements;
  }
  return stored_scalars(stored_bytes(raw, value, dtype, count), dtype);
}

}  // namespace shardlab
