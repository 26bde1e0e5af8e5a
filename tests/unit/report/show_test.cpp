#include "sim/report/show.h"

#include <doctest/doctest.h>

#include "sim/files/json_value.h"
#include "sim/report/holdings.h"
#include "tests/unit/report/report_text.h"

using namespace shardlab;

using test::has;
using test::read;

TEST_CASE("an uneven 2-d tensor is drawn with lines where the owner changes") {
  Arena arena;
  const DTensorSpec* spec = read(arena, {2, 3}, {"x", "y"}, "f32[3@x, 4@y]");
  CHECK(draw_spec(*spec, {}) == R"(f32[3@x, 4@y]  on mesh {x:2, y:3}, 6 ranks: S(0)S(1)
  x:2  S(0)  cuts dim 0 of 3 into 2 + 1
  y:3  S(1)  cuts dim 1 of 4 into 2 + 2 + 0

         dim 1
  dim 0  0  1   2  3
      0  0  0 │ 1  1
      1  0  0 │ 1  1
        ──────┼──────
      2  3  3 │ 4  4
  a cell names the ranks that hold it

  rank  at       local shape  offset  elements  bytes
     0  x=0 y=0  [2, 2]       [0, 0]         4     16
     1  x=0 y=1  [2, 2]       [0, 2]         4     16
     2  x=0 y=2  [2, 0]       [0, 4]         0      0  empty
     3  x=1 y=0  [1, 2]       [2, 0]         2      8
     4  x=1 y=1  [1, 2]       [2, 2]         2      8
     5  x=1 y=2  [1, 0]       [2, 4]         0      0  empty

  local shapes  [2, 2] on 2 ranks, [1, 2] on 2 ranks, [2, 0] on 1 rank, [1, 0] on 1 rank
  tensor        12 elements, 48 bytes
  all ranks     12 elements, 48 bytes (1 times the tensor)
  imbalance     2.00 (largest piece 4 / mean 2 elements)
  empty         2 of 6 ranks hold no element
)");
}

TEST_CASE("replicas and terms of a pending reduction share a cell") {
  Arena arena;
  const auto* replicas = read(arena, {2, 2}, {"x", "y"}, "f32[2@y]");
  has(draw_spec(*replicas, {}), "    0,2 │ 1,3\n");
  const auto* terms = read(arena, {2, 2}, {"x", "y"}, "f32[2@y]{sum:x}");
  has(draw_spec(*terms, {}), "    0+2 │ 1+3\n");
  has(draw_spec(*terms, {}), "x:2  P(sum)  terms of a pending reduction: the value is their sum");
  const auto* both = read(arena, {2, 2}, {"x", "y"}, "f32[1]{max:y}");
  CHECK(owners_text(*both, {0, 1, 2, 3}) == "0+1,2+3");
}

TEST_CASE("the second cut of a dim names the first") {
  Arena arena;
  const std::string text = draw_spec(*read(arena, {2, 4}, {"x", "y"}, "f32[9@(y,x)]"), {});
  has(text, "x:2  S(0)  cuts dim 0 again: each piece in 2, after y");
  has(text, "y:4  S(0)  cuts dim 0 of 9 into 3 + 3 + 3 + 0");
  has(text, "    0  0 │ 4 │ 1  1 │ 5 │ 2  2 │ 6\n");
}

TEST_CASE("a strided shard shows every run it owns") {
  Arena arena;
  const std::string text = draw_spec(*read(arena, {2}, {"x"}, "f32[7@x~3]"), {});
  has(text, "x:2  SS(0,3)  cuts dim 0 in 3 chunks, then each chunk in 2");
  has(text, "     0  x=0  [5]          [0:2+3:5+6:7]         5     20\n");
  has(text, "     1  x=1  [2]          [2:3+5:6]             2      8\n");
}

TEST_CASE("long tables and drawings say how much they leave out") {
  Arena arena;
  const std::string many = draw_spec(*read(arena, {100}, {"x"}, "f32[250@x, 4]"), {});
  has(many, "x:100  S(0)  cuts dim 0 of 250 into 83 of 3, 1 of 1, 16 of 0");
  has(many, "   ...  68 ranks left out\n");
  has(many, "  69 rows of blocks left out\n");
  has(many, "[3, 4] on 83 ranks, [1, 4] on 1 rank, [0, 4] on 16 ranks");
  const auto* huge = read(arena, {1024, 1024}, {"x", "y"}, "f32[4096@(x,y)]");
  has(draw_spec(*huge, {}), "not drawn: the mesh has more than 4096 ranks");
  const auto* wide = read(arena, {60}, {"x"}, "f32[120@x]");
  const std::string narrow = draw_spec(*wide, {.width = 60});
  has(narrow, " columns of blocks left out\n");
  const auto drawn = narrow.find("dim 0\n");
  CHECK(narrow.find('\n', drawn + 6) - drawn - 6 <= 60);
}

TEST_CASE("long sets of ranks become letters with a legend") {
  Arena arena;
  const auto* spec = read(arena, {12, 2}, {"x", "y"}, "f32[2@y]");
  const std::string text = draw_spec(*spec, {});
  has(text, "    A │ B\n");
  has(text, "  A = 0,2,4,6,8,10,12,14,16,18,20,22\n");
}

TEST_CASE("a type that cannot be drawn is refused with the reason") {
  Arena arena;
  has(draw_spec(*read(arena, {2}, {"x"}, "f32[0@x]"), {}), "not drawn: the tensor has no elements");
  has(draw_spec(*read(arena, {2}, {"x"}, "f32[2,2,2@x]"), {}),
      "not drawn: the tensor has more than 2 dims");
  CHECK_THROWS_AS(draw_spec(*read(arena, {1 << 30}, {"x"}, "f32[2@x]"), {}), Error);
}

TEST_CASE("colours surround the same labels") {
  Arena arena;
  const auto* spec = read(arena, {2}, {"x"}, "f32[2@x]");
  has(draw_spec(*spec, {.color = Color::kOn}),
      "\x1b[48;5;117m\x1b[38;5;16m 0 \x1b[0m│\x1b[48;5;222m\x1b[38;5;16m 1 \x1b[0m\n");
}

TEST_CASE("the JSON form holds the same facts") {
  Arena arena;
  const auto* spec = read(arena, {2, 2}, {"x", "y"}, "f32[3@x, 2]{sum:y}");
  const auto json = nlohmann::json::parse(json_of_spec(*spec));
  CHECK(json["type"] == "f32[3@x, 2]{sum:y}");
  CHECK(json["placements"] == nlohmann::json::array({"S(0)", "P(sum)"}));
  CHECK(json["elements_on_all_ranks"] == 12);
  CHECK(json["ranks"].size() == 4);
  CHECK(json["ranks"][3]["rank"] == 3);
  CHECK(json["ranks"][3]["local_shape"] == nlohmann::json::array({1, 2}));
  CHECK(json["ranks"][3]["offset"] == nlohmann::json::array({2, 0}));
  CHECK(json["ranks"][3]["bytes"] == 8);
  CHECK(json["ranks_left_out"] == 0);
}
