// The replacement of std::from_chars, against recorded results of it; and against std::from_chars
// itself if the standard library has it for decimals (else read_real() is the replacement).
#include "base/read_real.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>

using namespace shardlab;

namespace {

constexpr double kBefore = 42;

// Whether both read the same number, to the bit, and stop at the same place for the same reason.
bool same(std::string_view text) {
  double ours = kBefore, theirs = kBefore;
  const char *first = text.data(), *last = first + text.size();
  const auto we = read_real_by_strtod(first, last, ours);
  const auto they = read_real(first, last, theirs);
  return we.ptr == they.ptr && we.ec == they.ec &&
         std::bit_cast<std::uint64_t>(ours) == std::bit_cast<std::uint64_t>(theirs);
}

}  // namespace

TEST_CASE("read_real_by_strtod: all short texts of the letters that numbers have") {
  constexpr std::string_view kLetters = "019.eE+-";
  for (int length = 0; length <= 5; ++length) {
    std::string text(static_cast<std::size_t>(length), kLetters[0]);
    int count = 1;
    for (int i = 0; i < length; ++i) count *= static_cast<int>(kLetters.size());
    std::string wrong;
    for (int number = 0; number < count; ++number) {
      int rest = number;
      for (char& letter : text) {
        letter = kLetters[static_cast<std::size_t>(rest) % kLetters.size()];
        rest /= static_cast<int>(kLetters.size());
      }
      if (!same(text)) wrong = text;
    }
    CHECK(wrong == "");
  }
}

TEST_CASE("read_real, read_real_by_strtod: words, limits, and what strtod alone would take") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr std::errc kNone{}, kNoNumber = std::errc::invalid_argument;
  constexpr std::errc kBeyond = std::errc::result_out_of_range;
  // The answers of std::from_chars of libstdc++ 12; the value stays if no number in range is read.
  struct Row {
    std::string_view text;
    std::ptrdiff_t taken;
    std::errc error;
    double value;
  };
  constexpr Row kRows[] = {
      {"inf", 3, kNone, kInfinity},
      {"-inf", 4, kNone, -kInfinity},
      {"INFinity", 8, kNone, kInfinity},
      {"infinit", 3, kNone, kInfinity},
      {"nan", 3, kNone, kNan},
      {"-NaN", 4, kNone, kNan},
      {"nan(12_a)", 9, kNone, kNan},
      {"nan(", 3, kNone, kNan},
      {"nan(-)", 3, kNone, kNan},
      {"in", 0, kNoNumber, kBefore},
      {" 1", 0, kNoNumber, kBefore},
      {"\t1", 0, kNoNumber, kBefore},
      {"+1", 0, kNoNumber, kBefore},
      {"0x10", 1, kNone, 0},
      {"0X1p3", 1, kNone, 0},
      {"1e999", 5, kBeyond, kBefore},
      {"-1e999", 6, kBeyond, kBefore},
      {"1e-999", 6, kBeyond, kBefore},
      {"4.9e-324", 8, kNone, std::numeric_limits<double>::denorm_min()},
      {"2e-324", 6, kBeyond, kBefore},
      {"2.2250738585072011e-308", 23, kNone, 0x0.fffffffffffffp-1022},
      {"1.7976931348623157e308", 22, kNone, std::numeric_limits<double>::max()},
      {"1.7976931348623159e308", 22, kBeyond, kBefore},
      {"0.1000000000000000055511151231257827021181583404541015625", 57, kNone, 0.1},
      {"1,5", 1, kNone, 1},
      {"1e", 1, kNone, 1},
      {"1e+", 1, kNone, 1},
      {"1.e5", 4, kNone, 100'000},
      {".e5", 0, kNoNumber, kBefore},
      {"-.5", 3, kNone, -0.5},
      {"--1", 0, kNoNumber, kBefore},
      {"9007199254740993", 16, kNone, 9007199254740992},
      {"1_000", 1, kNone, 1},
      {"1f", 1, kNone, 1},
      {"3)", 1, kNone, 3},
  };
  for (const Row& row : kRows) {
    CAPTURE(row.text);
    for (const auto read : {read_real, read_real_by_strtod}) {
      double value = kBefore;
      const auto found = read(row.text.data(), row.text.data() + row.text.size(), value);
      CHECK(found.ptr - row.text.data() == row.taken);
      CHECK(found.ec == row.error);
      CHECK((value == row.value || (std::isnan(value) && std::isnan(row.value))));
    }
  }
}
