// A captured function can be called by its graph, if its guards hold.
#include "trace/capture.h"

#include <doctest/doctest.h>

#include "api/shardlab.h"
#include "autograd/program.h"
#include "tests/unit/dispatch/op_mesh.h"
#include "trace/graph_json.h"

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

// The leaf is gone when its gradient is used first, in the program and when its graph runs.
TEST_CASE("T-58 a gradient that outlives its leaf is its gradient when the graph runs again") {
  OpMesh mesh({3});
  mesh.run([&](RankContext&) {
    const TensorProgram program = [](const std::vector<DTensor>& in) -> std::vector<DTensor> {
      DTensor gradient;
      {
        const DTensor leaf = detach(in[0]);
        require_grad(leaf);
        backward(sum(mul(leaf, leaf)));
        gradient = grad_of(leaf);
      }
      return {mul(gradient, gradient)};
    };
    const CapturedProgram f = capture(program, {mesh.place("S(0)", {4}, {1, 2, 3, 4})});
    CHECK(test::whole(f.results().at(0)) == std::vector<double>{4, 16, 36, 64});
    const auto again = f.replay({mesh.place("S(0)", {4}, {5, 0, -1, 2})});
    CHECK(test::whole(again.at(0)) == std::vector<double>{100, 0, 4, 16});
  });
}

std::string refusal(const CapturedProgram& f, const DTensor& x) {
  try {
    f.replay({x});
  } catch (const Error& error) {
    return error.summary();
  }
  return "runs";
}

TEST_CASE("T-58 T-59 a graph with a dynamic dim runs on other sizes that are cut alike") {
  OpMesh mesh({3});
  mesh.run([&](RankContext&) {
    const auto counted = [&](std::int64_t rows) {
      return mesh.place("S(0)", {rows, 2}, test::counted(2 * rows));
    };
    const TensorProgram program = [](const std::vector<DTensor>& in) -> std::vector<DTensor> {
      const DTensor y = redistribute(softmax(in[0], 1), "m0=R");
      return {y, sum(mul(in[0], in[0])),
              from_local(to_local(in[0]), in[0].spec()->layout(), "m0=S(0)")};
    };
    const CapturedProgram f = capture(program, {counted(6)}, {{.input = 0, .dim = 0}});
    const auto again = f.replay({counted(9)});
    const std::vector<DTensor> own = program({counted(9)});
    for (std::size_t i = 0; i < own.size(); ++i) {
      CHECK(again.at(i).spec() == own[i].spec());
      CHECK(test::whole(again[i]) == test::whole(own[i]));
    }
    CHECK(refusal(f, counted(7)) ==
          "the graph does not fit: arg0.shape[0] % 3 is not 0, and was 0");
    CHECK(refusal(f, counted(0)) ==
          "the graph does not fit: arg0.shape[0] >= 3 is False, and was True");
    CHECK(refusal(f, mesh.place("S(0)", {6, 3}, test::counted(18))) ==
          "the graph does not fit: arg0 is f32[*, 3] S(0), and was f32[*, 2] S(0)");
    const std::string text = graph_json(f.graph());
    CHECK(graph_json(read_graphs(text).at(0)) == text);
  });
}

TEST_CASE("T-4 a function that gives an op sizes of its own holds for those alone") {
  OpMesh mesh({3});
  mesh.run([&](RankContext&) {
    const auto counted = [&](std::int64_t rows) {
      return mesh.place("S(0)", {rows, 2}, test::counted(2 * rows));
    };
    const TensorProgram flat = [](const std::vector<DTensor>& in) -> std::vector<DTensor> {
      const Dims shape = {in[0].shape()[0], 1, 2};
      return {program_calls().one("aten::view", {in[0], shape})};
    };
    const CapturedProgram f = capture(flat, {counted(6)}, {{.input = 0, .dim = 0}});
    CHECK(refusal(f, counted(6)) == "runs");
    CHECK(refusal(f, counted(9)) == "the graph does not fit: arg0.shape[0] is 9, and was 6");
    CHECK_THROWS_AS(capture(flat, {counted(6)}, {{.input = 0, .dim = 2}}), Error);
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
