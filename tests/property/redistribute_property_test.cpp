#include <doctest/doctest.h>

#include <cstdlib>

#include "tests/property/redistribute_case.h"

namespace shardlab {
namespace {

using namespace test;

/// The smallest failing case that single steps of shrinking lead to.
RedistributeCase shrink(RedistributeCase failing) {
  for (bool shrunk = true; shrunk;) {
    shrunk = false;
    for (const RedistributeCase& next : smaller(failing)) {
      if (!fault_of(next)) continue;
      failing = next;
      shrunk = true;
      break;
    }
  }
  return failing;
}

void check(const RedistributeCase& one, const std::string& name) {
  const auto fault = fault_of(one);
  if (!fault) return;
  const RedistributeCase least = shrink(one);
  FAIL(name << ": " << *fault << "\nsmallest: " << *fault_of(least) << "\n" << least.commands());
}

/// Four parts, so that a runner may share them out; together 100,000 cases and more.
constexpr std::uint64_t kFirstSeed = 20250607;
// The thread sanitizer makes them twenty times slower.
#ifdef __SANITIZE_THREAD__
constexpr int kParts = 4, kCasesOfPart = 2500;
#else
constexpr int kParts = 4, kCasesOfPart = 25500;
#endif

void check_part(int part) {
  if (const char* text = std::getenv("SHARDLAB_CASE")) {
    if (part == 0) check(read_case(text), "SHARDLAB_CASE");
    return;
  }
  std::mt19937_64 random(kFirstSeed + static_cast<std::uint64_t>(part));
  for (int number = 0; number < kCasesOfPart; ++number) {
    const RedistributeCase one = draw_case(random);
    check(one, fmt::format("part {} of {}, case {}", part, kParts, number));
  }
  MESSAGE(kCasesOfPart << " cases");
}

TEST_CASE("W-13 R-2 R-78 K-9 X-36 X-43 any legal redistribution gives every rank its piece, 1") {
  check_part(0);
}
TEST_CASE("W-13 R-2 R-78 K-9 X-36 X-43 any legal redistribution gives every rank its piece, 2") {
  check_part(1);
}
TEST_CASE("W-13 R-2 R-78 K-9 X-36 X-43 any legal redistribution gives every rank its piece, 3") {
  check_part(2);
}
TEST_CASE("W-13 R-2 R-78 K-9 X-36 X-43 any legal redistribution gives every rank its piece, 4") {
  check_part(3);
}

TEST_CASE("a case that is printed is read as the same case") {
  std::mt19937_64 random(kFirstSeed);
  for (int number = 0; number < 500; ++number) {
    const RedistributeCase one = draw_case(random);
    CHECK(read_case(one.text()).text() == one.text());
  }
}

}  // namespace
}  // namespace shardlab
