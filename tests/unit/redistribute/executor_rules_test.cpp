// Refusals, kept values and results of the executor (R-44 to R-77, K-3 to K-13).
#include <doctest/doctest.h>

#include "autograd/autograd.h"
#include "redistribute/local_math.h"
#include "redistribute/redistribute.h"
#include "tensor/host.h"
#include "tests/unit/dispatch/op_mesh.h"
#include "tests/unit/dispatch/seen.h"
#include "tests/unit/redistribute/on_mesh.h"

namespace shardlab {
namespace {

using test::counted;
using test::kind_of;
using test::OnMesh;
using test::OpMesh;
using test::Seen;
using test::tensor;
using test::whole;
using Values = std::vector<std::vector<double>>;

TEST_CASE("R-44 K-20 waiting is the default; asynchronous results know their shape at once") {
  OnMesh mesh({2});
  mesh.run([&](RankContext& rank) {
    const Tensor piece = tensor({rank.rank == 0 ? 2 : 1}, rank.rank == 0 ? std::vector<double>{1, 2}
                                                                         : std::vector<double>{3});
    const DTensorSpec *source = mesh.spec("S(0)", {3}), *target = mesh.spec("R", {3});
    CHECK_FALSE(redistribute_local(piece, source, target).pending());
    const Tensor later = redistribute_local(piece, source, target, {.issue = Issue::kAsync});
    CHECK(later.shape() == Dims{3});
    later.wait();
    later.wait();
    CHECK(read_doubles(later) == std::vector<double>{1, 2, 3});
  });
}

TEST_CASE("R-51 R-56 R-59 R-61 X-2 X-6 pairs without a meaning are refused and both are named") {
  OnMesh mesh({2});
  struct Row {
    const char *source, *target;
  };
  for (const Row& row : {Row{"P(sum)", "P(max)"}, Row{"P(max)", "P(sum)"}, Row{"S(0)", "P(max)"}}) {
    CAPTURE(row.source);
    CAPTURE(row.target);
    mesh.run([&](RankContext&) {
      const DTensorSpec *source = mesh.spec(row.source, {4}), *target = mesh.spec(row.target, {4});
      const Tensor x = tensor({source->is_sharded() ? 2 : 4},
                              std::vector<double>(source->is_sharded() ? 2 : 4, 1));
      try {
        redistribute_local(x, source, target);
        FAIL("accepted");
      } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::kRuntime);
        CHECK(error.text().find(row.source) != std::string::npos);
        CHECK(error.text().find(row.target) != std::string::npos);
      }
    });
  }
}

TEST_CASE("R-55 X-6 a strided shard of the same dim becomes a plain one") {
  OnMesh mesh({2});
  const std::vector<Tensor> strided = {tensor({2}, {0, 2}), tensor({2}, {1, 3})};
  CHECK(mesh.moved(strided, mesh.spec("SS(0,2)", {4}), mesh.spec("S(0)", {4})) ==
        Values{{0, 1}, {2, 3}});
}

TEST_CASE("R-65 R-68 W-12 a change of dtype alone is a cast, and the input keeps its own") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {3}, {1, 2, 3});
    require_grad(x);
    const Seen seen;
    const DTensor y = redistribute(x, x.spec(), {}, {.forward = DType::kBF16});
    CHECK(seen.collectives.empty());
    CHECK(y.dtype() == DType::kBF16);
    CHECK(y.local().dtype() == DType::kBF16);
    CHECK(y.spec()->placements() == x.spec()->placements());
    CHECK(y.requires_grad());
    CHECK(x.dtype() == DType::kF32);
  });
}

TEST_CASE("R-67 X-4 another mesh is reached, another order is run") {
  OpMesh mesh({2, 2});
  mesh.run([&](RankContext& rank) {
    const MeshLayout* line = mesh.layout()->arena().layout({{4}, {}, {}});
    rank.meshes->construct(line);
    const DTensor x = mesh.place("R R", {4}, counted(4));
    const DTensorSpec* elsewhere =
        mesh.layout()->arena().spec(line, {Placement::replicate()}, x.meta());
    const DTensor moved = redistribute(x, elsewhere);
    CHECK(moved.spec() == elsewhere);
    CHECK(read_doubles(moved.local()) == counted(4));
    const DTensor nested = mesh.place("S(0) S(0)", {4}, counted(4));
    const DTensorSpec* other_order =
        nested.spec()->with(nested.spec()->placements(), ShardOrder{1, 0});
    const DTensor swapped = redistribute(nested, other_order);
    CHECK(read_doubles(swapped.local()) == std::vector<double>{std::vector<double>{
                                               0, 2, 1, 3}[static_cast<std::size_t>(rank.rank)]});
  });
}

TEST_CASE(
    "R-75 R-76 R-77 X-8 one gradient comes back: the input's mesh, dtype and shape, itself without "
    "a gradient") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("P(sum)", {3}, {1, 2, 3});
    require_grad(x);
    const DTensor y = redistribute(x, x.spec()->with({Placement::shard(0)}));
    const std::vector<DTensor> grads = gradients(y, {x}, mesh.place("S(0)", {3}, {1, 1, 1}));
    REQUIRE(grads.size() == 1);
    CHECK(grads[0].spec() == x.spec()->with({Placement::replicate()}));
    CHECK_FALSE(grads[0].requires_grad());
    CHECK(whole(grads[0]) == std::vector<double>{1, 1, 1});
  });
}

TEST_CASE(
    "K-3 K-8 X-42 no dims, no cut; nothing at all is cut into empty pieces; only tails are short") {
  OnMesh mesh({3});
  CHECK(kind_of([&] { mesh.spec("S(0)", {}); }) == ErrorKind::kValue);
  CHECK(kind_of([&] { mesh.spec("S(2)", {4, 4}); }) == ErrorKind::kValue);
  const std::vector<Tensor> empty(3, tensor({0, 2}, {}));
  CHECK(mesh.moved(empty, mesh.spec("R", {0, 2}), mesh.spec("S(0)", {0, 2})) == Values{{}, {}, {}});
  const std::vector<Tensor> wholes(3, tensor({4}, {0, 1, 2, 3}));
  const Values pieces = {{0, 1}, {2, 3}, {}};
  CHECK(mesh.moved(wholes, mesh.spec("R", {4}), mesh.spec("S(0)", {4})) == pieces);
}

TEST_CASE("K-4 K-5 K-13 X-36 pieces travel as they are: no padding is sent, none comes out") {
  OnMesh mesh({3});
  mesh.run([&](RankContext& rank) {
    const std::int64_t own = rank.rank == 0 ? 2 : rank.rank == 1 ? 2 : 0;
    const Seen seen;
    const Tensor all = redistribute_local(
        tensor({own, 2}, std::vector<double>(static_cast<std::size_t>(own * 2), 1)),
        mesh.spec("S(0)", {4, 2}), mesh.spec("R", {4, 2}));
    CHECK(all.shape() == Dims{4, 2});
    REQUIRE(seen.collectives.size() == 1);
    CHECK(seen.collectives[0].input_shape == Dims{own, 2});
  });
}

TEST_CASE("K-11 an all-to-all gives what a gather and a chunk give, bitwise") {
  OnMesh mesh({3});
  std::vector<Tensor> rows;
  for (const std::int64_t count : {2, 2, 1}) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < count * 4; ++i) values.push_back(0.1 * static_cast<double>(i + 7));
    rows.push_back(tensor({count, 4}, values));
  }
  const DTensorSpec *source = mesh.spec("S(0)", {5, 4}), *target = mesh.spec("S(1)", {5, 4});
  const Values wholes = mesh.moved(rows, source, mesh.spec("R", {5, 4}));
  std::vector<Tensor> replicas;
  for (const std::vector<double>& values : wholes) replicas.push_back(tensor({5, 4}, values));
  CHECK(mesh.moved(rows, source, target) == mesh.moved(replicas, mesh.spec("R", {5, 4}), target));
}

TEST_CASE("K-12 X-43 the ranks of a step are those along its mesh dim, in the array's order") {
  OnMesh mesh({2, 2}, {3, 1, 2, 0});
  std::vector<Tensor> pieces;
  // Coordinates along m0 of ranks 0 to 3: 1, 0, 1, 0.
  for (const double first : {2.0, 0.0, 2.0, 0.0}) pieces.push_back(tensor({2}, {first, first + 1}));
  const std::vector<double> all = {0, 1, 2, 3};
  CHECK(mesh.moved(pieces, mesh.spec("S(0) R", {4}), mesh.spec("R R", {4})) ==
        Values{all, all, all, all});
  mesh.run([&](RankContext& rank) {
    const auto ranks = device_mesh(mesh.layout()).group(0).ranks();
    const std::vector<std::int64_t> upper = {3, 2}, lower = {1, 0};
    CHECK(std::vector<std::int64_t>(ranks.begin(), ranks.end()) ==
          (rank.rank >= 2 ? upper : lower));
  });
}

}  // namespace
}  // namespace shardlab
