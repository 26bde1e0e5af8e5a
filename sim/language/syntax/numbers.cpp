// Python's arithmetic in 64 bits: every overflow is found by the compiler's checked operations and
// refused, since Python's integers would grow.
#include "sim/language/syntax/numbers.h"

#include <cmath>
#include <limits>

#include "base/error.h"

namespace shardlab {

namespace {

[[noreturn]] void refuse_overflow(ast::BinaryOp op, std::int64_t left, std::int64_t right) {
  fail(ErrorKind::kUnsupported, Fix{"compute with floats: write 1.0 for 1"},
       "{} {} {} does not fit into 64 bits", left, ast::to_string(op), right);
}

constexpr std::string_view kNegativePower = "0.0 cannot be raised to a negative power";

void check_divisor(bool zero, std::string_view python = "integer division or modulo by zero") {
  if (!zero) return;
  throw Error(ErrorKind::kValue, "the divisor is zero")
      .with("python", fmt::format("ZeroDivisionError: {}", python))
      .with("fix", "divide by a number that is not 0");
}

std::int64_t floor_divide(std::int64_t left, std::int64_t right) {
  check_divisor(right == 0);
  if (right == -1) {
    if (left == std::numeric_limits<std::int64_t>::min()) {
      refuse_overflow(ast::BinaryOp::kFloorDiv, left, right);
    }
    return -left;
  }
  const std::int64_t quotient = left / right;
  return quotient - (left % right != 0 && (left < 0) != (right < 0) ? 1 : 0);
}

Number power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) {
    check_divisor(base == 0, kNegativePower);
    return std::pow(static_cast<double>(base), static_cast<double>(exponent));
  }
  const auto overflow = [&] { refuse_overflow(ast::BinaryOp::kPow, base, exponent); };
  std::int64_t result = 1;
  std::int64_t square = base;
  for (std::int64_t left = exponent; left > 0; left >>= 1) {
    if ((left & 1) != 0 && __builtin_mul_overflow(result, square, &result)) overflow();
    if (left > 1 && __builtin_mul_overflow(square, square, &square)) overflow();
  }
  return result;
}

std::int64_t shift(ast::BinaryOp op, std::int64_t left, std::int64_t right) {
  if (right < 0) {
    throw Error(ErrorKind::kValue,
                fmt::format("the shift count is {}; it must be 0 or more", right))
        .with("python", "ValueError: negative shift count")
        .with("fix", "shift the other way: << or >>");
  }
  if (op == ast::BinaryOp::kRight) return right > 62 ? (left < 0 ? -1 : 0) : left >> right;
  std::int64_t result = 0;
  const bool lost = left != 0 && right > 62;
  if (lost || __builtin_mul_overflow(left, std::int64_t{1} << (right > 62 ? 0 : right), &result)) {
    refuse_overflow(op, left, right);
  }
  return result;
}

Number integers(ast::BinaryOp op, std::int64_t left, std::int64_t right) {
  using enum ast::BinaryOp;
  if (op == kDiv) {
    check_divisor(right == 0, "division by zero");
    return static_cast<double>(left) / static_cast<double>(right);
  }
  if (op == kFloorDiv) return floor_divide(left, right);
  if (op == kMod) {
    check_divisor(right == 0);
    return right == -1 ? 0 : left - floor_divide(left, right) * right;
  }
  if (op == kPow) return power(left, right);
  if (op == kBitAnd) return left & right;
  if (op == kBitOr) return left | right;
  if (op == kBitXor) return left ^ right;
  if (op == kLeft || op == kRight) return shift(op, left, right);
  if (op == kMatMul) fail(Fix{"multiply numbers with *"}, "'@' needs tensors, not numbers");
  std::int64_t result = 0;
  const bool overflow = op == kAdd   ? __builtin_add_overflow(left, right, &result)
                        : op == kSub ? __builtin_sub_overflow(left, right, &result)
                                     : __builtin_mul_overflow(left, right, &result);
  if (overflow) refuse_overflow(op, left, right);
  return result;
}

// Python's remainder has the divisor's sign, also where it is 0, and the quotient follows
// from it, so that left == quotient * right + rest holds as well as it can.
double floored_rest(double left, double right) {
  const double rest = std::fmod(left, right);
  if (rest == 0) return std::copysign(0.0, right);
  return (rest < 0) != (right < 0) ? rest + right : rest;
}

double floored_quotient(double left, double right) {
  const double rest = std::fmod(left, right);
  double quotient = (left - rest) / right;
  if (rest != 0 && (rest < 0) != (right < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, left / right);
  const double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1 : floored;
}

Number reals(ast::BinaryOp op, double left, double right) {
  using enum ast::BinaryOp;
  if (op == kAdd) return left + right;
  if (op == kSub) return left - right;
  if (op == kMul) return left * right;
  if (op == kDiv) return check_divisor(right == 0, "float division by zero"), left / right;
  if (op == kFloorDiv) {
    check_divisor(right == 0, "float floor division by zero");
    return floored_quotient(left, right);
  }
  if (op == kMod) return check_divisor(right == 0, "float modulo"), floored_rest(left, right);
  if (op == kPow) {
    check_divisor(left == 0 && right < 0, kNegativePower);
    if (left < 0 && right != std::floor(right)) {
      fail(Fix{"raise abs(x), or use a whole exponent"}, "({}) ** {} is complex", float_text(left),
           float_text(right));
    }
    return std::pow(left, right);
  }
  if (op == kMatMul) fail(Fix{"multiply numbers with *"}, "'@' needs tensors, not numbers");
  fail(Fix{"convert them first: int(x)"}, "'{}' needs integers, not floats", ast::to_string(op));
}

template <typename T>
bool compare_as(ast::CompareOp op, T left, T right) {
  using enum ast::CompareOp;
  if (op == kEqual || op == kIs) return left == right;
  if (op == kNotEqual || op == kIsNot) return left != right;
  if (op == kLess) return left < right;
  if (op == kLessEqual) return left <= right;
  if (op == kGreater) return left > right;
  if (op == kGreaterEqual) return left >= right;
  fail(ErrorKind::kInternal, "'{}' between numbers", ast::to_string(op));
}

bool both_integers(Number left, Number right) { return left.index() == 0 && right.index() == 0; }

}  // namespace

double to_double(Number number) {
  return std::visit([](auto value) { return static_cast<double>(value); }, number);
}

Number arithmetic(ast::BinaryOp op, Number left, Number right) {
  if (both_integers(left, right)) return integers(op, std::get<0>(left), std::get<0>(right));
  return reals(op, to_double(left), to_double(right));
}

Number negate(Number number) {
  if (number.index() == 1) return -std::get<1>(number);
  return integers(ast::BinaryOp::kSub, 0, std::get<0>(number));
}

Number magnitude(Number number) {
  if (number.index() == 1) return std::fabs(std::get<1>(number));
  return std::get<0>(number) < 0 ? negate(number) : number;
}

bool compare(ast::CompareOp op, Number left, Number right) {
  if (both_integers(left, right)) return compare_as(op, std::get<0>(left), std::get<0>(right));
  // Wide enough for every integer: f64 would take 2 ** 53 + 1 for 2.0 ** 53.
  const auto wide = [](Number number) {
    return std::visit([](auto value) { return static_cast<long double>(value); }, number);
  };
  static_assert(std::numeric_limits<long double>::digits >= 64);
  return compare_as(op, wide(left), wide(right));
}

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string to_string(Number number) {
  if (number.index() == 0) return fmt::format("{}", std::get<0>(number));
  return float_text(std::get<1>(number));
}

}  // namespace shardlab
