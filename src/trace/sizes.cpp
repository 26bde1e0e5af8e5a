// Results that do not fit are reported instead of wrapping around: a graph may be read from a file.
#include "trace/sizes.h"

#include <limits>

namespace shardlab {

std::optional<std::int64_t> size_arithmetic(std::string_view op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (op == "+")
    return __builtin_add_overflow(a, b, &result) ? std::nullopt : std::optional(result);
  if (op == "-")
    return __builtin_sub_overflow(a, b, &result) ? std::nullopt : std::optional(result);
  if (op == "*")
    return __builtin_mul_overflow(a, b, &result) ? std::nullopt : std::optional(result);
  const bool divides = op == "//" || op == "%";
  const bool fits = b != 0 && !(a == std::numeric_limits<std::int64_t>::min() && b == -1);
  if (!divides || !fits) return std::nullopt;
  const bool down = a % b != 0 && (a < 0) != (b < 0);
  if (op == "//") return a / b - (down ? 1 : 0);
  return a % b + (down ? b : 0);
}

std::optional<bool> size_comparison(std::string_view op, std::int64_t a, std::int64_t b) {
  if (op == "==") return a == b;
  if (op == "!=") return a != b;
  if (op == "<") return a < b;
  if (op == "<=") return a <= b;
  if (op == ">") return a > b;
  if (op == ">=") return a >= b;
  return std::nullopt;
}

}  // namespace shardlab
