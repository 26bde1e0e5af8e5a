// SHARD_TEST, used as its users do, and its messages when a test is wrong.
#include <shardlab/testing.h>

#include "sim/testing/rank_checks.h"

using namespace shardlab;
using namespace shardlab::testing;

namespace {

// "line: text" of each place that failed; lines count from `first`.
std::vector<std::string> failures(const MeshRun& run) {
  std::vector<std::string> texts;
  for (const SiteReport& place : run.checks) {
    if (!place.passed) texts.push_back(place.text);
  }
  return texts;
}

using Texts = std::vector<std::string>;

DTensor layer(const DTensor& x, const DTensor& w) { return gelu(matmul(x, w)); }

}  // namespace

SHARD_TEST("a column-parallel layer", "dp=2, tp=4") {
  const DTensor x = randn({7, 16}), w = randn({16, 10});
  const auto layer = [](const DTensor& x, const DTensor& w) { return gelu(matmul(x, w)); };
  const DTensor y =
      layer(distribute_tensor(x, mesh, "dp=S(0)"), distribute_tensor(w, mesh, "tp=S(1)"));
  CHECK(type_string(y) == "f32[7@dp, 10@tp]");
  CHECK_CLOSE(y, one_device(layer, x, w));
}

SHARD_TEST("SHARD_TEST: types and values of a column-parallel layer, 7 rows over 2", "dp=2, tp=4") {
  const DTensor x = randn({7, 16}), w = randn({16, 10});
  const DTensor y =
      layer(distribute_tensor(x, mesh, "dp=S(0)"), distribute_tensor(w, mesh, "tp=S(1)"));
  CHECK(type_string(y) == "f32[7@dp, 10@tp]");
  CHECK_FALSE(y.local().shape()[0] == 7);
  REQUIRE(mesh->size() == 8);
  CHECK(rank.world_size == 8);
  CHECK_CLOSE(y, one_device(layer, x, w));
}

SHARD_TEST("SHARD_TEST: partial, empty and given values", "x=4") {
  const DTensor rows = distribute_tensor(tensor({1, 2}, {2}), mesh, "x=S(0)");
  CHECK_CLOSE(rows, std::vector<double>{1, 2});
  const DTensor sum_of = sum(rows * 0.5);
  CHECK(type_string(sum_of) == "f32[]{sum:x}");
  CHECK_CLOSE(sum_of, std::vector<double>{1.5});
  CHECK_CLOSE(redistribute(rows, "x=R"), tensor({1, 2}, {2}));
  CHECK_CLOSE(arange(3), std::vector<double>{0, 1, 2});
}

SHARD_TEST("SHARD_TEST: gradients, however the program asks for them", "tp=4") {
  const DTensor x = randn({5, 6}), w = randn({6, 7});
  const auto by_backward = [](const DTensor& x, const DTensor& w) {
    sum(pow(matmul(x, w.requires_grad_()), 2)).backward();
    return w.grad();
  };
  const auto by_gradients = [](const DTensor& x, const DTensor& w) {
    return gradients(sum(pow(matmul(x, w.requires_grad_()), 2)), {w})[0];
  };
  const auto placed = [&](const DTensor& whole, const char* text) {
    return distribute_tensor(whole, mesh, text);
  };
  CHECK_CLOSE(by_backward(placed(x, "tp=S(0)"), placed(w, "tp=R")), one_device(by_backward, x, w));
  CHECK_CLOSE(by_gradients(placed(x, "tp=S(1)"), placed(w, "tp=S(0)")),
              one_device(by_gradients, x, w));
  // The arguments are left as they were.
  CHECK(!w.requires_grad());
  CHECK(!w.grad().defined());
}

SHARD_TEST("SHARD_TEST: gradients of weights on other meshes, uneven", "dp=2, tp=3") {
  const DTensor x = randn({7, 5}), w = randn({5, 4});
  const auto gradient = [&](const DTensor& x, const DTensor& w) {
    w.requires_grad_();
    const DTensor used =
        w.distributed() ? redistribute(w, mesh, Placements{Replicate(), Shard(1)}) : w;
    layer(x, used).sum().backward();
    return w.grad();
  };
  const std::vector<std::int64_t> permuted = {4, 0, 5, 1, 3, 2};
  for (const auto& ranks : {std::vector<std::int64_t>(), permuted}) {
    const MeshLayout* other = init_mesh({{"a", 3}, {"b", 2}}, ranks);
    CHECK_CLOSE(
        gradient(distribute_tensor(x, mesh, "dp=S(0)"), distribute_tensor(w, other, "a=S(0)")),
        one_device(gradient, x, w));
  }
}

SHARD_TEST("SHARD_TEST: weights that a program trains", "dp=2, tp=2") {
  const DTensor x = randn({7, 6}), w = randn({6, 3});
  const auto trained = [](const DTensor& x, const DTensor& w) {
    Sgd optimizer({w.requires_grad_()}, {.lr = 0.01, .momentum = 0.9});
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      mean(pow(matmul(x, w), 2)).backward();
      optimizer.step();
    }
    return w.detach();
  };
  CHECK_CLOSE(trained(distribute_tensor(x, mesh, "dp=S(0)"), distribute_tensor(w, mesh, "tp=S(1)")),
              one_device(trained, x, w));
}

TEST_CASE("B-13 a call that is wrong fails the test, whether its value is checked or not") {
  const MeshRun run = run_on_mesh("x=2", [](RankContext& rank, const MeshLayout* mesh) {
    const DTensor mine = tensor({1.0 + static_cast<double>(rank.rank)}, {1});
    from_local(mine, mesh, "x=R");
  });
  CHECK(run.error ==
        "a call is wrong: from_local of f32[1]\nranks 0 and 1 hold different replicas");
}

TEST_CASE("failures of all ranks are merged, each place once, with the ranks that failed") {
  const MeshRun run = run_on_mesh("dp=2,tp=2", [](RankContext& rank, const MeshLayout*) {
    const std::int64_t half = rank.rank / 2;
    for (int pass = 0; pass < 3; ++pass) CHECK(half == 5);
    CHECK(rank.rank != 2);
    CHECK(rank.rank < 4);
  });
  CHECK(failures(run) == Texts{"0 == 5 on ranks 0,1\n1 == 5 on ranks 2,3", "2 != 2 on rank 2"});
  CHECK(run.checks.size() == 3);
  CHECK(run.error == "");
}

TEST_CASE("a REQUIRE ends its rank; who waits for it is not told as a failure of its own") {
  const MeshRun run = run_on_mesh("x=3", [](RankContext& rank, const MeshLayout* mesh) {
    REQUIRE(rank.rank != 1);
    redistribute(distribute_tensor(randn({6}), mesh, "x=S(0)"), "x=R");
    FAIL("rank 1 is gone, so the others cannot get here");
  });
  CHECK(failures(run) == Texts{"1 != 1 on rank 1"});
  CHECK(run.error == "");
}

TEST_CASE("an error on ranks is told with its parts") {
  const MeshRun run = run_on_mesh("x=2", [](RankContext&, const MeshLayout* mesh) {
    matmul(distribute_tensor(randn({6, 2}), mesh, "x=S(0)"), randn({3, 3}));
  });
  CHECK(run.error.find("failed      ranks 0,1") != std::string::npos);
}

TEST_CASE("CHECK_CLOSE finds an element that one rank holds wrongly") {
  const MeshRun run = run_on_mesh("x=4", [](RankContext& rank, const MeshLayout* mesh) {
    const DTensor local = full({rank.rank < 3 ? 2 : 1}, rank.rank == 2 ? 9.0 : 1.0);
    CHECK_CLOSE(from_local(local, mesh, "x=S(0)", Dims{7}), ones({7}));
    CHECK_CLOSE(from_local(local, mesh, "x=S(0)", Dims{7}), tensor({1, 1}, {2}));
  });
  const Texts texts = failures(run);
  REQUIRE(texts.size() == 2);
  CHECK(texts[0].starts_with("element 4 is 9, expected 1: off by 8"));
  CHECK(texts[0].ends_with("on ranks 0-3"));
  CHECK(texts[1] == "is f32[7], the single-device run has f32[2] on ranks 0-3");
}

TEST_CASE("CHECK_CLOSE finds replicas that differ") {
  const MeshRun run = run_on_mesh("x=2", [](RankContext& rank, const MeshLayout* mesh) {
    CHECK_CLOSE(from_local(full({2}, rank.rank + 1.0), mesh, "x=R"), tensor({1, 1}, {2}));
  });
  const Texts texts = failures(run);
  REQUIRE(texts.size() == 1);
  CHECK(texts[0].find("ranks 0 and 1 hold different replicas") != std::string::npos);
}

TEST_CASE("CHECK_CLOSE allows what rounding explains and no more") {
  const MeshRun run = run_on_mesh("x=2", [](RankContext&, const MeshLayout* mesh) {
    const double unit = 1.0 / (1 << 24);  // unit roundoff of f32
    const DTensor y = distribute_tensor(ones({4}), mesh, "x=S(0)");
    CHECK_CLOSE(y, std::vector<double>{1, 1, 1, 1 + 12 * unit});
    CHECK_CLOSE(y, std::vector<double>{1, 1, 1, 1 + 1000 * unit});
  });
  CHECK(failures(run).size() == 1);
}

TEST_CASE("CHECK_CLOSE needs every rank of the mesh") {
  const MeshRun run = run_on_mesh("x=3", [](RankContext& rank, const MeshLayout* mesh) {
    const DTensor y = distribute_tensor(ones({3}), mesh, "x=S(0)");
    if (rank.rank != 1) CHECK_CLOSE(y, ones({3}));
  });
  CHECK(failures(run) == Texts{"rank 1 did not compare a f32[3@x] on ranks 0,2"});
}

TEST_CASE("V-32 CHECK_CLOSE of plain tensors says which pieces or terms the ranks hold") {
  const MeshRun run = run_on_mesh("dp=2, tp=2", [](RankContext&, const MeshLayout* mesh) {
    const DTensor whole = tensor({1, 2, 4, 8, 16, 32}, {2, 3});
    const DTensor x = distribute_tensor(whole, mesh, "tp=S(1)");
    CHECK_CLOSE(to_local(x), whole);
    CHECK_CLOSE(to_local(x).sum(), whole.sum());
    CHECK_CLOSE(to_local(x) * 3, whole);
    CHECK_CLOSE(all_reduce(to_local(x).sum(), ReduceOp::kSum, get_group(mesh, "tp")), whole.sum());
  });
  const Texts texts = failures(run);
  REQUIRE(texts.size() == 3);
  CHECK(texts[0] == "each rank holds its piece of dim 1, which tp cuts on ranks 0-3");
  CHECK(texts[1] == "each rank holds a term of a sum over tp on ranks 0-3");
  CHECK(texts[2].find("each rank holds") == std::string::npos);
}

TEST_CASE("the merged failures are the same under threads") {
  const auto body = [](RankContext& rank, const MeshLayout*) { CHECK(rank.rank % 2 == 0); };
  const Texts wanted{"1 == 0 on ranks 1,3"};
  CHECK(failures(run_on_mesh("x=4", body)) == wanted);
  CHECK(failures(run_on_mesh("x=4", body, SchedulerKind::kThreads)) == wanted);
}

TEST_CASE("a text that names no mesh is refused") {
  const auto body = [](RankContext&, const MeshLayout*) {};
  CHECK_THROWS_WITH_AS(run_on_mesh("dp", body), doctest::Contains("can't read \"dp\""), Error);
  CHECK_THROWS_AS(run_on_mesh("dp=0", body), Error);
  CHECK_THROWS_AS(run_on_mesh("dp=2,dp=2", body), Error);
}
