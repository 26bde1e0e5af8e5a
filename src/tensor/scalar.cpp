// Numbers as Python prints them: the shortest text that reads back as the same value.
#include "tensor/scalar.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <cmath>

namespace shardlab {

namespace {

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  std::string text = fmt::format("{}", value);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

// Inside of a complex number Python prints whole parts without a point.
std::string part_text(double value) { return std::isnan(value) ? "nan" : fmt::format("{}", value); }

std::string complex_text(double real, double imaginary) {
  const std::string tail = part_text(imaginary) + "j";
  if (real == 0 && !std::signbit(real)) return tail;
  const bool plus = std::isnan(imaginary) || !std::signbit(imaginary);
  return "(" + part_text(real) + (plus ? "+" : "") + tail + ")";
}

}  // namespace

std::string Scalar::text() const {
  switch (category_) {
    case Category::kBool:
      return integer_ ? "True" : "False";
    case Category::kInteger:
      return fmt::format("{}", integer_);
    case Category::kFloat:
      return float_text(real_);
    case Category::kComplex:
      return complex_text(real_, imaginary_);
  }
  return {};
}

}  // namespace shardlab
