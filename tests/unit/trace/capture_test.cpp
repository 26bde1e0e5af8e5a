// A function that is captured can be called by its graph, where its guards hold.
#include "trace/capture.h"

#include <doctest/doctest.h>

#include "api/shardlab.h"
#include "tests/unit/dispatch/op_mesh.h"

namespace shardlab {
namespace {

using test::OpMesh;

std::vector<DTensor> squares(const std::vector<DTensor>& in) {
  return {mul(in[0], in[0]), DTensor(), sum(in[0])};
}

TEST_CASE("T-1 T-58 a captured function gives its results, and its graph those of other inputs") {
  OpMesh mesh({3});
  mesh.run([&](RankContext&) {
    const CapturedProgram f = capture(squares, {mesh.place("S(0)", {4}, {1, 2, 3, 4})});
    CHECK(test::whole(f.results().at(0)) == std::vector<double>{1, 4, 9, 16});
    const auto again = f.replay({mesh.place("S(0)", {4}, {5, 6, 7, 8})});
    REQUIRE(again.size() == 3);
    CHECK(test::whole(again[0]) == std::vector<double>{25, 36, 49, 64});
    CHECK_FALSE(again[1].defined());
    CHECK(test::whole(redistribute(again[2], "m0=R")) == std::vector<double>{26});
  });
}

TEST_CASE("T-4 T-56 inputs of another type, and other policies, are refused by name") {
  OpMesh mesh({3});
  mesh.run([&](RankContext& rank) {
    const CapturedProgram f = capture(squares, {mesh.place("S(0)", {4}, {1, 2, 3, 4})});
    const auto refused = [&](const DTensor& x) -> std::string {
      try {
        f.replay({x});
      } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::kValue);
        return error.summary();
      }
      return "runs";
    };
    CHECK(refused(mesh.place("R", {4}, {1, 2, 3, 4})) ==
          "the graph does not fit: arg0 is f32[4], and was f32[4@m0]");
    CHECK(refused(mesh.place("S(0)", {5}, {1, 2, 3, 4, 5})) ==
          "the graph does not fit: arg0 is f32[5@m0], and was f32[4@m0]");
    const DTensor leaf = mesh.place("S(0)", {4}, {1, 2, 3, 4});
    CHECK(refused(leaf) == "runs");
    require_grad(leaf);
    CHECK(refused(leaf) ==
          "the graph does not fit: arg0 is f32[4@m0] requires_grad, and was f32[4@m0]");
    rank.mixed = MixedTensors::kReplicate;
    CHECK(refused(mesh.place("S(0)", {4}, {1, 2, 3, 4})) ==
          "the graph does not fit: mixed is replicate, and was refuse");
  });
}

TEST_CASE("a function of plain tensors alone has no mesh to be captured on") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    CHECK(test::kind_of([] { capture(squares, {test::plain({1}, {1})}); }) == ErrorKind::kValue);
  });
}

}  // namespace
}  // namespace shardlab
