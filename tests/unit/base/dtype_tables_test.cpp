// Promotion and rounding against PyTorch 2.15, and against the definitions of the formats: a small
// float is the nearest of all numbers that its format has, found by walking all of them.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"

using namespace shardlab;

namespace {

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (c != ' ') {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  return words;
}

std::string promoted(const std::string& a, const std::string& b) {
  try {
    return std::string(to_string(promote(parse_dtype(a).value(), parse_dtype(b).value())));
  } catch (const Error& error) {
    return error.kind() == ErrorKind::kValue && error.find("fix") ? "-" : error.text();
  }
}

/// All finite numbers of a format at least 0, by its definition: the index is the stored value.
std::vector<double> numbers_of(int exponent_bits, int mantissa_bits, int bias) {
  std::vector<double> numbers;
  for (int exponent = 0; exponent < 1 << exponent_bits; ++exponent) {
    for (int fraction = 0; fraction < 1 << mantissa_bits; ++fraction) {
      const double part = std::pow(0.5, mantissa_bits) * fraction;
      numbers.push_back(exponent == 0 ? part * std::pow(2.0, 1 - bias)
                                      : (1 + part) * std::pow(2.0, exponent - bias));
    }
  }
  return numbers;
}

/// The index of the number that `value` is rounded to among `numbers`, which ascend: the nearest,
/// of two the even one.
std::uint32_t nearest_of(const std::vector<double>& numbers, double value) {
  std::uint32_t best = 0;
  for (std::uint32_t bits = 1; bits < numbers.size(); ++bits) {
    const double now = std::fabs(numbers[bits] - value), before = std::fabs(numbers[best] - value);
    if (now < before || (now == before && bits % 2 == 0)) best = bits;
  }
  return best;
}

/// Numbers on both sides of every place where rounding turns, and between.
std::vector<float> probes(const std::vector<double>& numbers, std::size_t step) {
  std::vector<float> found;
  for (std::size_t i = 0; i + 1 < numbers.size(); i += step) {
    const double low = numbers[i], high = numbers[i + 1];
    const auto middle = static_cast<float>((low + high) / 2);
    found.insert(found.end(),
                 {static_cast<float>(low), middle, std::nextafter(middle, 0.0f),
                  std::nextafter(middle, 1e30f), static_cast<float>(low + (high - low) / 3)});
  }
  return found;
}

}  // namespace

TEST_CASE("promote gives for each pair of dtypes what torch.promote_types gives") {
  const std::vector<std::string> names =
      words_of("bool u8 u64 i8 i16 i32 i64 f16 bf16 f32 f64 c64 c128 f8e4m3fn c32");
  // torch.promote_types(row, column); "-" where it raises.
  const char* table[] = {
      "bool u8 - i8 i16 i32 i64 f16 bf16 f32 f64 c64 c128 - c32",
      "u8 u8 - i16 i16 i32 i64 f16 bf16 f32 f64 c64 c128 - c32",
      "- - u64 - - - - f16 bf16 f32 f64 - - - -",
      "i8 i16 - i8 i16 i32 i64 f16 bf16 f32 f64 c64 c128 - c32",
      "i16 i16 - i16 i16 i32 i64 f16 bf16 f32 f64 c64 c128 - c32",
      "i32 i32 - i32 i32 i32 i64 f16 bf16 f32 f64 c64 c128 - c32",
      "i64 i64 - i64 i64 i64 i64 f16 bf16 f32 f64 c64 c128 - c32",
      "f16 f16 f16 f16 f16 f16 f16 f16 f32 f32 f64 c64 c128 - c32",
      "bf16 bf16 bf16 bf16 bf16 bf16 bf16 f32 bf16 f32 f64 c64 c128 - c64",
      "f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f64 c64 c128 - c64",
      "f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 c128 c128 - c128",
      "c64 c64 - c64 c64 c64 c64 c64 c64 c64 c128 c64 c128 - c64",
      "c128 c128 - c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 - c128",
      "- - - - - - - - - - - - - f8e4m3fn -",
      "c32 c32 - c32 c32 c32 c32 c32 c64 c64 c128 c64 c128 - c32",
  };
  for (std::size_t row = 0; row < names.size(); ++row) {
    const std::vector<std::string> expected = words_of(table[row]);
    REQUIRE(expected.size() == names.size());
    for (std::size_t column = 0; column < names.size(); ++column) {
      CAPTURE(names[row]);
      CAPTURE(names[column]);
      CHECK(promoted(names[row], names[column]) == expected[column]);
    }
  }
}

TEST_CASE("a pair without a common dtype is named, with the cast that helps") {
  struct Row {
    DType a, b;
    const char *summary, *fix;
  };
  const Row rows[] = {
      {DType::kU64, DType::kI64, "u64 and i64 have no common dtype",
       "cast one of them first: x.to(torch.int64)"},
      {DType::kC64, DType::kU64, "c64 and u64 have no common dtype",
       "cast one of them first: x.to(torch.int64)"},
      {DType::kF8E4M3FN, DType::kF32, "f8e4m3fn and f32 have no common dtype",
       "cast it first: x.to(torch.float32)"},
  };
  for (const Row& row : rows) {
    try {
      promote(row.a, row.b);
      FAIL("not refused: ", row.summary);
    } catch (const Error& error) {
      CHECK(error.summary() == row.summary);
      CHECK(*error.find("fix") == row.fix);
    }
  }
}

TEST_CASE("f16, bf16 and f8 read every stored value as their format defines it") {
  const std::vector<double> halves = numbers_of(5, 10, 15);
  const std::vector<double> brains = numbers_of(8, 7, 127);
  const std::vector<double> eights = numbers_of(4, 3, 7);
  for (std::uint32_t bits = 0; bits < 0x7C00; ++bits) {
    const auto stored = static_cast<std::uint16_t>(bits);
    REQUIRE(to_float(Half{stored}) == halves[bits]);
    REQUIRE(to_float(Half{static_cast<std::uint16_t>(stored | 0x8000)}) == -halves[bits]);
  }
  for (std::uint32_t bits = 0; bits < 0x7F80; ++bits) {
    const auto stored = static_cast<std::uint16_t>(bits);
    REQUIRE(to_float(BFloat16{stored}) == static_cast<float>(brains[bits]));
  }
  for (std::uint32_t bits = 0; bits < 0x7F; ++bits) {
    const auto stored = static_cast<std::uint8_t>(bits);
    REQUIRE(to_float(Float8E4M3{stored}) == eights[bits]);
    REQUIRE(to_float(Float8E4M3{static_cast<std::uint8_t>(stored | 0x80)}) == -eights[bits]);
  }
  CHECK(std::isinf(to_float(Half{0x7C00})));
  CHECK(to_float(Half{0xFC00}) < 0);
  CHECK(std::isnan(to_float(Half{0x7C01})));
  CHECK(std::isnan(to_float(Float8E4M3{0x7F})));
  CHECK(std::isnan(to_float(Float8E4M3{0xFF})));
}

TEST_CASE("f16, bf16 and f8 round to the nearest number of the format, of two to the even one") {
  std::vector<double> eights = numbers_of(4, 3, 7);
  eights.pop_back();  // NaN
  for (const float value : probes(eights, 1)) {
    CAPTURE(value);
    CHECK(to_float8(value).bits == nearest_of(eights, value));
    CHECK(to_float8(-value).bits == (nearest_of(eights, value) | 0x80u));
  }
  std::vector<double> halves = numbers_of(5, 10, 15);
  halves.resize(0x7C00);
  for (const float value : probes(halves, 251)) {
    CAPTURE(value);
    CHECK(to_half(value).bits == nearest_of(halves, value));
    CHECK(to_half(-value).bits == (nearest_of(halves, value) | 0x8000u));
  }
  std::vector<double> brains = numbers_of(8, 7, 127);
  brains.resize(0x7F80);
  for (const float value : probes(brains, 257)) {
    if (std::fabs(value) < std::numeric_limits<float>::min()) continue;  // spaced as floats are
    CAPTURE(value);
    CHECK(to_bfloat16(value).bits == nearest_of(brains, value));
  }
}

TEST_CASE("beyond the largest number: f16 and bf16 are infinite, f8 stays at 448 as in torch") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  struct Row {
    float value;
    std::uint32_t half, brain, eight;
  };
  // torch.tensor(value).to(dtype).view(torch.uint8 or int16)
  const Row rows[] = {
      {65504.0f, 0x7bff, 0x4780, 0x7e}, {65519.9f, 0x7bff, 0x4780, 0x7e},
      {65520.0f, 0x7c00, 0x4780, 0x7e}, {-65520.0f, 0xfc00, 0xc780, 0xfe},
      {464.1f, 0x5f40, 0x43e8, 0x7e},   {-500.0f, 0xdfd0, 0xc3fa, 0xfe},
      {3.39e38f, 0x7c00, 0x7f7f, 0x7e}, {kInfinity, 0x7c00, 0x7f80, 0x7e},
      {0x1p-10f, 0x1400, 0x3a80, 0x00}, {0x1.03p-10f, 0x140c, 0x3a82, 0x01},
      {0x1p-25f, 0x0000, 0x3300, 0x00}, {0x1.03p-25f, 0x0001, 0x3302, 0x00},
      {-0.0f, 0x8000, 0x8000, 0x80},    {0.3f, 0x34cd, 0x3e9a, 0x2a},
      {19.0f, 0x4cc0, 0x4198, 0x5a},    {-1.0f / 3, 0xb555, 0xbeab, 0xab},
  };
  for (const Row& row : rows) {
    CAPTURE(row.value);
    CHECK(to_half(row.value).bits == row.half);
    CHECK(to_bfloat16(row.value).bits == row.brain);
    CHECK(to_float8(row.value).bits == row.eight);
  }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isnan(to_float(to_half(nan))));
  CHECK(std::isnan(to_float(to_bfloat16(nan))));
  CHECK(to_float8(nan).bits == 0x7f);
}

TEST_CASE("categories, halves of complex numbers and roundoff by dtype") {
  struct Row {
    DType dtype;
    std::int64_t bytes;
    Category category;
    DType real, floated;
    double roundoff;  // torch.finfo(dtype).eps / 2
  };
  const Row rows[] = {
      {DType::kBool, 1, Category::kBool, DType::kBool, DType::kF32, 0},
      {DType::kI16, 2, Category::kInteger, DType::kI16, DType::kF32, 0},
      {DType::kU64, 8, Category::kInteger, DType::kU64, DType::kF32, 0},
      {DType::kF8E4M3FN, 1, Category::kFloat, DType::kF8E4M3FN, DType::kF8E4M3FN, 0.0625},
      {DType::kF16, 2, Category::kFloat, DType::kF16, DType::kF16, 0x1p-11},
      {DType::kBF16, 2, Category::kFloat, DType::kBF16, DType::kBF16, 0x1p-8},
      {DType::kF64, 8, Category::kFloat, DType::kF64, DType::kF64, 0x1p-53},
      {DType::kC32, 4, Category::kComplex, DType::kF16, DType::kC32, 0x1p-11},
      {DType::kBC32, 4, Category::kComplex, DType::kBF16, DType::kBC32, 0x1p-8},
      {DType::kC64, 8, Category::kComplex, DType::kF32, DType::kC64, 0x1p-24},
      {DType::kC128, 16, Category::kComplex, DType::kF64, DType::kC128, 0x1p-53},
  };
  for (const Row& row : rows) {
    CAPTURE(to_string(row.dtype));
    CHECK(item_bytes(row.dtype) == row.bytes);
    CHECK(category_of(row.dtype) == row.category);
    CHECK(real_dtype(row.dtype) == row.real);
    CHECK(float_dtype(row.dtype) == row.floated);
    CHECK(unit_roundoff(row.dtype) == row.roundoff);
    CHECK(is_half(row.dtype) == (row.dtype == DType::kF16 || row.dtype == DType::kBF16));
  }
  const DType defaults[] = {DType::kBool, DType::kI64, DType::kF32, DType::kC64};
  for (int i = 0; i < 4; ++i) CHECK(default_dtype(static_cast<Category>(i)) == defaults[i]);
}
