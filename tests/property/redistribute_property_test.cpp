#include <doctest/doctest.h>

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

TEST_CASE("W-13 R-2 R-78 K-9 X-36 X-43 any legal redistribution gives every rank its piece") {
  constexpr std::uint64_t kSeed = 20250607;
  constexpr int kCases = 5000;
  std::mt19937_64 random(kSeed);
  for (int number = 0; number < kCases; ++number) {
    const RedistributeCase one = draw_case(random);
    const auto fault = fault_of(one);
    if (!fault) continue;
    const RedistributeCase least = shrink(one);
    FAIL_CHECK("seed " << kSeed << ", case " << number << ": " << one.text() << "\n  " << *fault
                       << "\nsmallest: " << least.text() << "\n  " << *fault_of(least));
    break;
  }
}

}  // namespace
}  // namespace shardlab
