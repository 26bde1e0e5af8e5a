#include "api/distribute.h"

#include <doctest/doctest.h>

#include "sim/world/spmd.h"
#include "tests/unit/dispatch/op_mesh.h"

using namespace shardlab;

namespace {

using test::local_values;
using Values = std::vector<double>;

}  // namespace

TEST_CASE("a sum is dealt out: each element to one rank, the owners taking turns") {
  spmd(2, [](RankContext& rank) {
    const MeshLayout* mesh = init_mesh({{"pp", 2}});
    const DTensor x = distribute_tensor(tensor({1, 2, 3}, {3}), mesh, "pp=P(sum)");
    CHECK(local_values(x) == (rank.rank == 0 ? Values{0, 2, 0} : Values{1, 0, 3}));
  });
}

TEST_CASE("parts of every reduction differ between ranks and reduce to the value") {
  const Values value = {1, -2, 3, -4, 5};
  for (const std::string op : {"sum", "avg", "max", "min", "product"}) {
    CAPTURE(op);
    std::vector<Values> parts(3);
    spmd(3, [&](RankContext& rank) {
      const MeshLayout* mesh = init_mesh({{"pp", 3}});
      const DTensor x = distribute_tensor(tensor(value, {5}), mesh, "pp=P(" + op + ")");
      parts[static_cast<std::size_t>(rank.rank)] = local_values(x);
      CHECK(local_values(full_tensor(x)) == value);
    });
    CHECK(parts[0] != parts[1]);
    CHECK(parts[1] != parts[2]);
  }
}

TEST_CASE("integers are dealt out exactly, bits beyond 2^53 included") {
  spmd(3, [](RankContext&) {
    const MeshLayout* mesh = init_mesh({{"pp", 3}});
    const std::int64_t large = (std::int64_t{1} << 60) + 1;
    const DTensor value = full({4}, large);
    for (const char* op : {"pp=P(sum)", "pp=P(max)", "pp=P(min)", "pp=P(product)"}) {
      CAPTURE(op);
      const DTensor x = distribute_tensor(value, mesh, op);
      CHECK(read_integers(full_tensor(x).local()) == std::vector<std::int64_t>(4, large));
    }
  });
}

TEST_CASE("K-19 K-2 cuts beside partials: two cuts of a dim, in either order, and empty shards") {
  spmd(8, [](RankContext&) {
    const MeshLayout* mesh = init_mesh({{"a", 2}, {"b", 2}, {"c", 2}});
    for (const Dims& shape : {Dims{5, 3}, Dims{1, 3}, Dims{0, 3}}) {
      const DTensor value = to(reshape(arange(product(shape)), shape), DType::kF32);
      const std::string rows = std::to_string(shape[0]);
      for (const std::string cut : {"@(a,b), 3]{sum:c}", "@(b,a), 3]{sum:c}", "@c, 3@a]{avg:b}"}) {
        const DTensor x = distribute_tensor(value, mesh, "[" + rows + cut);
        CHECK(type_string(x) == "f32[" + rows + cut);
        CHECK(local_values(full_tensor(x)) == local_values(value));
      }
      const DTensor strided = distribute_tensor(value, mesh, "a=SS(0,2), b=S(0)");
      CHECK(local_values(full_tensor(strided)) == local_values(value));
    }
  });
}

TEST_CASE("a 0-dim value is held whole or dealt out; a mask partial can't be made of a value") {
  spmd(2, [](RankContext& rank) {
    const MeshLayout* mesh = init_mesh({{"pp", 2}});
    const DTensor x = distribute_tensor(tensor({7}, {}), mesh, "pp=P(sum)");
    CHECK(local_values(x) == Values{rank.rank == 0 ? 0.0 : 7.0});
    CHECK(local_values(full_tensor(x)) == Values{7});
    CHECK_THROWS_WITH_AS(distribute_tensor(zeros({4}), mesh, "pp=MP(sum,4x2,0)"),
                         doctest::Contains("cannot be an input"), Error);
  });
}
