// scalar.h - a number as programs write it: bool, integer, float or complex.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>

#include "base/dtype.h"

namespace shardlab {

/// std::complex<double>, described by its members: <complex> takes longer to compile than all else
/// here.
template <typename Number>
concept ComplexNumber = requires(const Number& value) {
  { value.real() } -> std::same_as<double>;
  { value.imag() } -> std::same_as<double>;
};

/// A value with its category, which takes part in type promotion: 2 and 2.0 are different scalars,
/// and compare unequal. Integers have 64 bits and a sign, floats 64 bits. A value: cheap to copy,
/// safe to share between threads.
class Scalar {
 public:
  /// The integer 0.
  Scalar() = default;
  // Implicit, so that a number may be given wherever ops take one: add(x, 2). The C++ type decides
  // the category.
  Scalar(bool value) : category_(Category::kBool), integer_(value) {}
  Scalar(std::int64_t value) : category_(Category::kInteger), integer_(value) {}
  Scalar(int value) : Scalar(static_cast<std::int64_t>(value)) {}
  Scalar(double value) : category_(Category::kFloat), real_(value) {}
  /// Complex even where the imaginary part is 0.
  template <ComplexNumber Number>
  Scalar(const Number& value)
      : category_(Category::kComplex), real_(value.real()), imaginary_(value.imag()) {}

  /// Bool, integer, float or complex: as it was written, not as it would fit.
  Category category() const { return category_; }
  /// bool counts as integral.
  bool is_integral() const { return category_ <= Category::kInteger; }
  /// Integers exactly; floats truncated toward zero.
  std::int64_t to_int() const {
    return is_integral() ? integer_ : static_cast<std::int64_t>(real_);
  }
  /// Integers beyond 2^53 are rounded; of a complex number, the real part.
  double to_double() const { return is_integral() ? static_cast<double>(integer_) : real_; }
  /// 0 of all but complex numbers.
  double imaginary() const { return imaginary_; }
  /// 1 of any category.
  bool is_one() const { return to_double() == 1 && imaginary_ == 0; }
  /// Not equal to zero.
  bool to_bool() const { return is_integral() ? integer_ != 0 : (real_ != 0 || imaginary_ != 0); }

  /// The text that Python prints: "2", "2.0", "True", "(1+2j)".
  std::string text() const;
  bool operator==(const Scalar&) const = default;

 private:
  Category category_ = Category::kInteger;
  std::int64_t integer_ = 0;
  double real_ = 0;
  double imaginary_ = 0;
};

}  // namespace shardlab
