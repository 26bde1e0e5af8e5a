// What stands in for std::from_chars against std::from_chars itself: this standard library has it.
#include "base/read_real.h"

#include <doctest/doctest.h>

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

using namespace shardlab;

namespace {

// Whether both read the same number, to the bit, and stop at the same place for the same reason.
bool same(std::string_view text) {
  double ours = 42, theirs = 42;
  const char *first = text.data(), *last = first + text.size();
  const auto we = read_real_by_strtod(first, last, ours);
  const auto they = std::from_chars(first, last, theirs);
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

TEST_CASE("read_real_by_strtod: words, limits, and what strtod alone would take") {
  for (const char* text : {"inf",
                           "-inf",
                           "INFinity",
                           "infinit",
                           "nan",
                           "-NaN",
                           "nan(12_a)",
                           "nan(",
                           "nan(-)",
                           "in",
                           " 1",
                           "\t1",
                           "+1",
                           "0x10",
                           "0X1p3",
                           "1e999",
                           "-1e999",
                           "1e-999",
                           "4.9e-324",
                           "2e-324",
                           "2.2250738585072011e-308",
                           "1.7976931348623157e308",
                           "1.7976931348623159e308",
                           "0.1000000000000000055511151231257827021181583404541015625",
                           "1,5",
                           "1e",
                           "1e+",
                           "1.e5",
                           ".e5",
                           "-.5",
                           "--1",
                           "9007199254740993",
                           "1_000",
                           "1f",
                           "3)"}) {
    CAPTURE(text);
    CHECK(same(text));
  }
}
