#include "kernels/philox.h"

#include <doctest/doctest.h>

using namespace shardlab;

TEST_CASE("Philox 4x32-10 gives the known answers of Random123") {
  struct Row {
    PhiloxWords counter;
    std::uint32_t key0, key1;
    PhiloxWords words;
  };
  const std::uint32_t ones = 0xFFFFFFFF;
  const Row rows[] = {
      {{{0, 0, 0, 0}}, 0, 0, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
      {{{ones, ones, ones, ones}}, ones, ones, {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
      {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
       0xa4093822,
       0x299f31d0,
       {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}},
  };
  for (const Row& row : rows) {
    const PhiloxWords got = philox4x32(row.counter, row.key0, row.key1);
    for (int i = 0; i < 4; ++i) CHECK(got.word[i] == row.words.word[i]);
  }
}

TEST_CASE("an element's words come from its position and the seed alone") {
  const PhiloxWords zero = element_words(0, 0);
  CHECK(zero.word[0] == 0x6627e8d5);
  const PhiloxWords high = philox4x32({{7, 1, 0, 0}}, 5, 2);
  CHECK(element_words((std::uint64_t{2} << 32) | 5, (std::uint64_t{1} << 32) | 7).word[3] ==
        high.word[3]);
}

TEST_CASE("uniform numbers lie in [0, 1), also at the ends of their range") {
  const PhiloxWords least{{0, 0, 0, 0}}, most{{0xFFFFFFFF, 0xFFFFFFFF, 0, 0}};
  CHECK(uniform_double(least) == 0.0);
  CHECK(uniform_double(most) == 1.0 - 0x1p-53);
  CHECK(uniform_float(most, 24) == 1.0f - 0x1p-24f);
  CHECK(uniform_float(most, 8) == 1.0f - 0x1p-8f);
  CHECK(normal_source_double(least).radius == 0x1p-53);
  CHECK(normal_source_double(most).radius == 1.0);
  CHECK(normal_source_float(least).radius == 0x1p-32f);
  CHECK(normal_source_float(most).radius == 1.0f);
}
