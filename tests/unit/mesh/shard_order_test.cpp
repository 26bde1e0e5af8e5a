#include "mesh/shard_order.h"

#include <doctest/doctest.h>

using namespace shardlab;

namespace {
const Placement kR = Placement::replicate();
const Placement kS0 = Placement::shard(0);
const Placement kS1 = Placement::shard(1);
}  // namespace

TEST_CASE("M-9 the default order cuts by ascending mesh dim, per tensor dim") {
  CHECK(default_order({kS0, kS1, kS0}) == ShardOrder{0, 0, 1});
  CHECK(default_order({kR, Placement::partial()}) == ShardOrder{-1, -1});
  CHECK(default_order({Placement::strided_shard(0, 2), kS0}) == ShardOrder{0, 1});
}

TEST_CASE("M-10 an order is default when mesh dims increase within each tensor dim") {
  CHECK(is_default_order({kS0, kS1, kS0}, {0, 0, 1}));
  CHECK_FALSE(is_default_order({kS0, kS1, kS0}, {1, 0, 0}));
  CHECK(is_default_order({kR, kR}, {-1, -1}));
}

TEST_CASE("cutting_order lists the mesh dims of a tensor dim, first cut first") {
  using Sequence = InlineVector<std::size_t, 4>;
  CHECK(cutting_order({kS0, kS1, kS0, kS0}, {1, 0, 2, 0}, 0) == Sequence{3, 0, 2});
  CHECK(cutting_order({kS0, kS1, kS0, kS0}, {1, 0, 2, 0}, 1) == Sequence{1});
  CHECK(cutting_order({kS0, kR}, {0, -1}, 1).empty());
}

TEST_CASE("M-11 an invalid order is an Internal error") {
  const auto refused = [](const Placements& placements, const ShardOrder& order) {
    try {
      check_order(placements, order);
    } catch (const Error& error) {
      return error.kind() == ErrorKind::kInternal;
    }
    return false;
  };
  CHECK(refused({kS0, kS0}, {0, 0}));
  CHECK(refused({kS0, kS0}, {0, 2}));
  CHECK(refused({kS0, kR}, {-1, -1}));
  CHECK(refused({kS0, kR}, {0, 0}));
  CHECK(refused({kS0, kR}, {0}));
  CHECK_FALSE(refused({kS0, kS1, kS0}, {1, 0, 0}));
}

TEST_CASE("M-12 the place is written only where a tensor dim is cut twice") {
  const Placement max = Placement::partial(ReduceOp::kMax);
  CHECK(order_text({kS0, max, kS0}, {1, -1, 0}) == "S(0)[1]P(max)S(0)[0]");
  CHECK(order_text({kS0, kS1, kR}, {0, 0, -1}) == "S(0)S(1)R");
}

TEST_CASE("K-19 order to strided form and back") {
  struct Row {
    Dims mesh;
    Placements placements;
    ShardOrder order;
    const char* strided;
  };
  const Row rows[] = {
      {{2, 2}, {kS0, kS0}, {0, 1}, "S(0)S(0)"},
      {{4, 2}, {kS0, kS0}, {1, 0}, "SS(0,2)S(0)"},
      {{2, 4}, {kS0, kS0}, {1, 0}, "SS(0,4)S(0)"},
      {{2, 2, 2}, {kS0, kS0, kS0}, {2, 0, 1}, "SS(0,4)S(0)S(0)"},
      {{2, 2, 2}, {kS0, kS0, kS0}, {2, 1, 0}, "SS(0,4)SS(0,2)S(0)"},
      {{2, 2, 2}, {kS1, kS0, kS1}, {1, 0, 0}, "SS(1,2)S(0)S(1)"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.strided);
    const Placements strided = encode_strided(row.placements, row.order, row.mesh);
    CHECK(to_string(strided) == row.strided);
    const auto back = decode_strided(strided, row.mesh);
    REQUIRE(back.has_value());
    CHECK(back->placements == row.placements);
    CHECK(back->order == row.order);
  }
}

TEST_CASE("K-19 strided shards that no order produces do not decode") {
  const Placement ss2 = Placement::strided_shard(0, 2);
  CHECK_FALSE(decode_strided({kR, ss2}, {2, 2}).has_value());
  CHECK_FALSE(decode_strided({ss2, ss2}, {2, 2}).has_value());
  CHECK_FALSE(decode_strided({Placement::strided_shard(0, 3), kS0}, {2, 2}).has_value());
}
