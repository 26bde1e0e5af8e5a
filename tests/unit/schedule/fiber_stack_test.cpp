// Stacks that one world leaves to the next.
#include "sim/schedule/fiber_stack.h"

#include <doctest/doctest.h>

#include <optional>

namespace shardlab {

namespace {

// A size that no scheduler uses, so that other tests leave no stack of it.
constexpr std::size_t kBytes = 96 * 1024;

TEST_CASE("B-3 a world gets the stacks of one that has ended, with nothing on them") {
  std::byte* bottom = nullptr;
  {
    LentStacks stacks(kBytes);
    stacks.reserve(3);
    bottom = stacks.stack(1).bottom;
    bottom[5] = std::byte{7};
  }
  LentStacks again(kBytes);
  again.reserve(4);
  REQUIRE(again.stack(1).bottom == bottom);
  CHECK(bottom[5] == std::byte{0});
  CHECK(again.stack(3).bottom != nullptr);
}

TEST_CASE("B-3 a small world leaves nothing on the stacks of a pool that grew in steps") {
  std::byte* bottoms[3] = {};
  {
    LentStacks stacks(kBytes);
    stacks.reserve(1);
    stacks.reserve(5);
  }
  {
    LentStacks stacks(kBytes);
    stacks.reserve(3);
    for (std::size_t i = 0; i < 3; ++i) {
      bottoms[i] = stacks.stack(i).bottom;
      bottoms[i][9] = std::byte{1};
    }
  }
  LentStacks again(kBytes);
  again.reserve(5);
  for (std::size_t i = 0; i < 3; ++i) {
    REQUIRE(again.stack(i).bottom == bottoms[i]);
    CHECK(bottoms[i][9] == std::byte{0});
  }
}

TEST_CASE("B-3 the world that ended last leaves its stacks, however many ended before it") {
  for (std::size_t other = 1; other <= 6; ++other) {
    LentStacks stacks(kBytes + other * 4096);
    stacks.reserve(1);
  }
  std::byte* bottom = nullptr;
  {
    LentStacks stacks(kBytes);
    stacks.reserve(1);
    bottom = stacks.stack(0).bottom;
  }
  LentStacks again(kBytes);
  again.reserve(1);
  CHECK(again.stack(0).bottom == bottom);
}

TEST_CASE("B-3 worlds that run at once, or want other sizes, have stacks of their own") {
  std::optional<LentStacks> first(kBytes);
  first->reserve(1);
  std::byte* const of_first = first->stack(0).bottom;
  LentStacks second(kBytes);
  second.reserve(1);
  CHECK(second.stack(0).bottom != of_first);
  first.reset();
  LentStacks larger(2 * kBytes);
  larger.reserve(1);
  CHECK(larger.stack(0).bottom != of_first);
}

}  // namespace

}  // namespace shardlab
