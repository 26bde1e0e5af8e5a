#include "mesh/placement.h"

#include <doctest/doctest.h>

using namespace shardlab;

TEST_CASE("M-4 predicates of placements") {
  CHECK(Placement::replicate().is_replicate());
  CHECK(Placement::shard(1).is_shard(1));
  CHECK_FALSE(Placement::shard(1).is_shard(0));
  CHECK(Placement::strided_shard(0, 2).is_shard());
  CHECK_FALSE(Placement::strided_shard(0, 2).is_plain_shard());
  CHECK(Placement::partial() == Placement::partial(ReduceOp::kSum));
  CHECK(Placement::norm_partial(2).is_partial());
  CHECK_FALSE(Placement::norm_partial(2).is_partial(ReduceOp::kSum));
  CHECK(Placement::shard(0) != Placement::strided_shard(0, 1));
}

TEST_CASE("M-5 X-7 placements print and parse in one spelling that keeps reduction and factor") {
  const std::int64_t table[] = {16, 8};
  const MaskShapeId id = intern_mask_shape(table);
  struct Row {
    Placement placement;
    const char* text;
  };
  const Row rows[] = {
      {Placement::replicate(), "R"},
      {Placement::shard(0), "S(0)"},
      {Placement::shard(-1), "S(-1)"},
      {Placement::strided_shard(0, 2), "SS(0,2)"},
      {Placement::partial(), "P(sum)"},
      {Placement::partial(ReduceOp::kProduct), "P(product)"},
      {Placement::partial(ReduceOp::kBitXor), "P(bxor)"},
      {Placement::norm_partial(2), "NP(2)"},
      {Placement::norm_partial(0.5), "NP(0.5)"},
      {Placement::mask_partial(ReduceOp::kSum, id, 0), "MP(sum,16x8,0)"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(to_string(row.placement) == row.text);
    CHECK(parse_placement(row.text) == row.placement);
  }
  CHECK(to_string(Placements{Placement::shard(0), Placement::replicate()}) == "S(0)R");
}

TEST_CASE("readers also take the reference's spellings") {
  CHECK(parse_placement("_S(0, 2)") == Placement::strided_shard(0, 2));
  CHECK(parse_placement("_NormP(2.0)") == Placement::norm_partial(2));
  CHECK(parse_placement("NP(inf)").has_value());
  CHECK(parse_placement("MP")->kind == PlacementKind::kMaskPartial);
}

TEST_CASE("malformed placements are refused") {
  for (const char* text : {"", "S", "S()", "S(a)", "S(0", "S(0)x", "SS(0)", "SS(0,0)", "P(mean)",
                           "Q(1)", "MP(sum,16x,0)", "MP(sum,16x8)", "S(99999999999)"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_placement(text).has_value());
  }
}

TEST_CASE("X-41 only sum and avg may be pending together") {
  CHECK(may_mix(Placement::partial(ReduceOp::kSum), Placement::partial(ReduceOp::kAvg)));
  CHECK(may_mix(Placement::norm_partial(2), Placement::norm_partial(2)));
  CHECK_FALSE(may_mix(Placement::partial(ReduceOp::kSum), Placement::partial(ReduceOp::kMax)));
  CHECK_FALSE(may_mix(Placement::norm_partial(2), Placement::norm_partial(1)));
  CHECK_FALSE(may_mix(Placement::partial(), Placement::norm_partial(2)));
}

TEST_CASE("equal mask shapes have one id") {
  const std::int64_t a[] = {3, 5}, b[] = {5, 3};
  CHECK(intern_mask_shape(a) == intern_mask_shape(a));
  CHECK(intern_mask_shape(a) != intern_mask_shape(b));
  CHECK(mask_shape(intern_mask_shape(b)) == Dims{5, 3});
}

TEST_CASE("M-11 dims counted from the end are normalised before a spec is made") {
  Placements placements{Placement::shard(-1), Placement::strided_shard(-2, 2),
                        Placement::replicate()};
  normalize_dims(placements, 2);
  CHECK(to_string(placements) == "S(1)SS(0,2)R");
  Placements beyond{Placement::shard(-3)};
  CHECK_THROWS_WITH_AS(
      normalize_dims(beyond, 2),
      doctest::Contains("placement S(-3) shards a dim that a tensor of 2 dims does not have"),
      Error);
}
