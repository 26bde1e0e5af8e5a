// The handle programs hold (M-14, M-15).
#include "mesh/dtensor.h"

#include <doctest/doctest.h>

#include "tests/unit/dispatch/op_mesh.h"

namespace shardlab {
namespace {

using test::counted;
using test::OpMesh;
using test::plain;

TEST_CASE("M-14 M-15 shape, stride and dtype are the spec's, which always has them") {
  OpMesh mesh({2});
  mesh.run([&](RankContext& rank) {
    const DTensor x = mesh.place("S(0)", {3, 2}, counted(6), DType::kF64);
    CHECK(x.shape() == Dims{3, 2});
    CHECK(x.meta().stride == Dims{2, 1});
    CHECK(x.dtype() == DType::kF64);
    CHECK(x.ndim() == 2);
    CHECK(x.local().shape() == Dims{rank.rank == 0 ? 2 : 1, 2});
    CHECK(&x.meta() == &x.spec()->meta());
    CHECK_FALSE(x.requires_grad());
    const DTensor y = plain({2}, {1, 2});
    CHECK(y.spec() == nullptr);
    CHECK(&y.meta() == &y.local().meta());
  });
}

}  // namespace
}  // namespace shardlab
