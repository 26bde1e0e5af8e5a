#include "base/inline_vector.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <utility>

#include "base/saturating.h"

using namespace shardlab;

namespace {

using Small = InlineVector<std::int64_t, 3>;

Small counted(std::int64_t size) {
  Small result;
  for (std::int64_t i = 0; i < size; ++i) result.push_back(10 + i);
  return result;
}

}  // namespace

TEST_CASE("a copy has the elements, in place or not, and its own ones") {
  for (const std::int64_t size : {0, 1, 2, 3, 4, 7}) {
    CAPTURE(size);
    const Small original = counted(size);
    Small copy = original;
    CHECK(copy == original);
    copy.push_back(99);
    CHECK(original == counted(size));
    Small shrunk = counted(7);  // few elements in memory of its own
    shrunk.resize(static_cast<std::size_t>(size));
    const Small in_place = shrunk;
    CHECK(in_place == counted(size));
    for (const std::int64_t before : {0, 2, 3, 5}) {
      Small assigned = counted(before);
      assigned = original;
      CHECK(assigned == original);
      assigned = Small(shrunk);
      CHECK(assigned == counted(size));
    }
  }
}

TEST_CASE("a vector that was moved from is empty and can be used again") {
  for (const std::int64_t size : {0, 2, 3, 4, 7}) {
    CAPTURE(size);
    Small source = counted(size);
    const Small taken = std::move(source);
    CHECK(taken == counted(size));
    CHECK(source.empty());  // NOLINT(bugprone-use-after-move)
    source.push_back(1);
    CHECK(source == Small{1});
  }
}

TEST_CASE("a product that does not fit is the largest number, but zero stays zero") {
  constexpr std::int64_t kLarge = std::int64_t{1} << 40;
  CHECK(product(Dims{}) == 1);
  CHECK(product(Dims{kLarge, 1 << 20}) == std::int64_t{1} << 60);
  CHECK(product(Dims{kLarge, kLarge}) == std::numeric_limits<std::int64_t>::max());
  CHECK(product(Dims{kLarge, kLarge, 0}) == 0);
  CHECK(product(Dims{0, kLarge, kLarge}) == 0);
  CHECK(saturating_product(kLarge, 1 << 20) == std::int64_t{1} << 60);
  CHECK(saturating_product(kLarge, kLarge) == std::numeric_limits<std::int64_t>::max());
  CHECK(saturating_product(0, kLarge) == 0);
}
