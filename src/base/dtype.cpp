// One table row per element type, and promotion over it: the higher category wins, within one
// category the wider type, and f16 with bf16 give f32, since neither holds the other. The small
// float formats are rounded here once, to nearest with ties to even: the magnitude is scaled so
// that one unit in the last place becomes 1, and nearbyint does the rest.
#include "base/dtype.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"

namespace shardlab {

namespace {

struct DTypeRow {
  std::string_view name;
  double roundoff;
  // Width order inside a category. u64 is wider than every signed type and does not mix with them.
  int rank_in_category = 0;
};

constexpr std::array<DTypeRow, kDTypeCount> kRows = {{
    {"bool", 0},
    {"u8", 0},
    {"u64", 0, 5},
    {"i8", 0, 1},
    {"i16", 0, 2},
    {"i32", 0, 3},
    {"i64", 0, 4},
    {"f16", 0x1p-11, 1},
    {"bf16", 0x1p-8, 1},
    {"f32", 0x1p-24, 2},
    {"f64", 0x1p-53, 3},
    {"c64", 0x1p-24},
    {"c128", 0x1p-53},
    {"f8e4m3fn", 0x1p-4},
    {"c32", 0x1p-11},
    {"bc32", 0x1p-8},
}};

struct ComplexOf {
  DType real, complex;
};
constexpr ComplexOf kComplex[] = {{DType::kF16, DType::kC32},
                                  {DType::kBF16, DType::kBC32},
                                  {DType::kF32, DType::kC64},
                                  {DType::kF64, DType::kC128}};

const DTypeRow& row_of(DType dtype) { return kRows[static_cast<std::size_t>(dtype)]; }

int rank_in_category(DType dtype) { return row_of(dtype).rank_in_category; }

DType promote_floats(DType a, DType b) {
  const int rank_a = rank_in_category(a), rank_b = rank_in_category(b);
  if (rank_a == rank_b) return DType::kF32;  // f16 with bf16: neither holds the other
  return rank_a > rank_b ? a : b;
}

DType promote_integers(DType a, DType b) {
  if ((a == DType::kU8 && b == DType::kI8) || (a == DType::kI8 && b == DType::kU8)) {
    return DType::kI16;
  }
  return rank_in_category(a) > rank_in_category(b) ? a : b;
}

// The reference promotes f8 with nothing, and u64 with floats alone.
void refuse_unpromoted(DType a, DType b) {
  const bool any_f8 = a == DType::kF8E4M3FN || b == DType::kF8E4M3FN;
  const bool any_u64 = a == DType::kU64 || b == DType::kU64;
  if (!any_f8 && (!any_u64 || is_floating(a) || is_floating(b))) return;
  fail(ErrorKind::kValue,
       Fix{any_f8 ? "cast it first: x.to(torch.float32)"
                  : "cast one of them first: x.to(torch.int64)"},
       "{} and {} have no common dtype", to_string(a), to_string(b));
}

}  // namespace

std::string_view to_string(DType dtype) { return row_of(dtype).name; }

std::optional<DType> parse_dtype(std::string_view name) {
  if (name == "b8") return DType::kBool;
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

double unit_roundoff(DType dtype) { return row_of(dtype).roundoff; }

DType promote(DType a, DType b) {
  if (a == b) return a;
  refuse_unpromoted(a, b);
  const Category category_a = category_of(a), category_b = category_of(b);
  if (category_a == Category::kComplex || category_b == Category::kComplex) {
    const DType real_a = real_dtype(a), real_b = real_dtype(b);
    if (!is_floating(real_a)) return b;
    if (!is_floating(real_b)) return a;
    return complex_dtype(real_a == real_b ? real_a : promote_floats(real_a, real_b));
  }
  if (category_a != category_b) return category_a > category_b ? a : b;
  return category_a == Category::kFloat ? promote_floats(a, b) : promote_integers(a, b);
}

DType default_dtype(Category category) {
  constexpr DType kDefaults[] = {DType::kBool, DType::kI64, DType::kF32, DType::kC64};
  return kDefaults[static_cast<std::size_t>(category)];
}

DType real_dtype(DType dtype) {
  const auto* row = std::ranges::find(kComplex, dtype, &ComplexOf::complex);
  return row == std::end(kComplex) ? dtype : row->real;
}

DType complex_dtype(DType dtype) {
  const auto* row = std::ranges::find(kComplex, dtype, &ComplexOf::real);
  if (row != std::end(kComplex)) return row->complex;
  return is_complex(dtype) ? dtype : DType::kC64;
}

DType float_dtype(DType dtype) { return is_integral(dtype) ? DType::kF32 : dtype; }

namespace {

// Rounds |value| to a float format with `mantissa` stored bits and exponent bias `bias`; the caller
// handles overflow. Returns exponent and mantissa packed as the format stores them.
std::uint32_t pack_small_float(float magnitude, int mantissa, int bias) {
  if (magnitude == 0.0f) return 0;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  const int scale = std::max(exponent - 1, 1 - bias) - mantissa;
  // The quotient has at most mantissa + 1 bits before the point: nearbyint is exact, ties to even.
  const auto units = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(magnitude, -scale)));
  const int biased = scale + mantissa + bias;
  if (biased == 1 && units < (1u << mantissa)) return units;  // subnormal
  return (static_cast<std::uint32_t>(biased) << mantissa) + (units - (1u << mantissa));
}

float unpack_small_float(std::uint32_t exponent, std::uint32_t fraction, int mantissa, int bias) {
  const auto value = static_cast<float>(exponent == 0 ? fraction : fraction + (1u << mantissa));
  return std::ldexp(value, static_cast<int>(exponent == 0 ? 1 : exponent) - bias - mantissa);
}

}  // namespace

Half to_half(float value) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  if (std::isnan(value)) return {static_cast<std::uint16_t>(sign | 0x7E00)};
  const float magnitude = std::fabs(value);
  if (magnitude >= 65520.0f) return {static_cast<std::uint16_t>(sign | 0x7C00)};
  return {static_cast<std::uint16_t>(sign | pack_small_float(magnitude, 10, 15))};
}

float to_float(Half value) {
  const std::uint32_t exponent = (value.bits >> 10) & 0x1F, fraction = value.bits & 0x3FF;
  float magnitude =
      exponent == 31 ? (fraction ? NAN : INFINITY) : unpack_small_float(exponent, fraction, 10, 15);
  return (value.bits & 0x8000) ? -magnitude : magnitude;
}

Float8E4M3 to_float8(float value) {
  const auto sign = static_cast<std::uint8_t>(std::signbit(value) ? 0x80 : 0);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return {static_cast<std::uint8_t>(sign | 0x7F)};
  return {static_cast<std::uint8_t>(sign | pack_small_float(std::min(magnitude, 448.0f), 3, 7))};
}

float to_float(Float8E4M3 value) {
  const std::uint32_t exponent = (value.bits >> 3) & 0xF, fraction = value.bits & 7;
  float magnitude =
      exponent == 15 && fraction == 7 ? NAN : unpack_small_float(exponent, fraction, 3, 7);
  return (value.bits & 0x80) ? -magnitude : magnitude;
}

}  // namespace shardlab
