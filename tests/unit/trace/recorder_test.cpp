// Programs in C++ become graphs, and graphs have the results of the programs.
#include <doctest/doctest.h>

#include "api/shardlab.h"
#include "autograd/hooks.h"
#include "tests/unit/dispatch/op_mesh.h"
#include "trace/compare_graphs.h"
#include "trace/digest.h"
#include "trace/graph_break.h"
#include "trace/graph_json.h"
#include "trace/graph_text.h"
#include "trace/recorder.h"
#include "trace/replay.h"

namespace shardlab {
namespace {

using test::OpMesh;

std::vector<std::string> words_of(const ProgramGraph& graph) {
  std::vector<std::string> words;
  for (const GraphNode& node : graph.nodes) {
    const bool named = node.kind == NodeKind::kOp || node.kind == NodeKind::kCollective;
    words.push_back(named ? node.name : std::string(kind_name(node.kind)));
  }
  return words;
}

// The graph of `program` on x, which is the input "x"; `end` makes a graph of the results.
template <typename Program, typename End>
ProgramGraph recorded(const OpMesh& mesh, const DTensor& x, const Program& program,
                      const End& end) {
  Recorder recorder(program_calls(), mesh.layout());
  recorder.input("x", {.init = "randn", .arguments = {}, .values = {}}, x);
  const ObserverScope observed(recorder.listen(nullptr));
  const ProgramScope scope(recorder);
  const auto held = program(x);
  return end(recorder, held);
}
template <typename Program>
ProgramGraph captured(const OpMesh& mesh, const DTensor& x, const Program& program) {
  return recorded(mesh, x, program,
                  [](Recorder& recorder, const auto&) { return recorder.finish(); });
}
// The graph of a function, whose results are its outputs.
template <typename Program>
ProgramGraph captured_function(const OpMesh& mesh, const DTensor& x, const Program& program) {
  return recorded(mesh, x, program,
                  [](Recorder& recorder, const auto& held) { return recorder.function(held); });
}

// Gradients, a view that is written to, a constant, a collective of its own and one of a move.
std::vector<DTensor> step_of(const OpMesh& mesh, const DTensor& x) {
  require_grad(x);
  const DTensor y = redistribute(mul(x, tensor({2}, {1})), "m0=R");
  const DTensor held = detach(y);
  program_calls().one("aten::mul_.Tensor", {held, held});
  backward(sum(softmax(y, 0)));
  const DTensor own = all_reduce(to_local(held), ReduceOp::kMax, *current_rank().world);
  return {from_local(own, mesh.layout(), "m0=R"), mul(grad_of(x), x), held};
}

TEST_CASE("T-1 every step of a program is a node, and what is left is known") {
  OpMesh mesh({3});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {7}, test::counted(7));
    const ProgramGraph graph =
        captured(mesh, x, [&](const DTensor& in) { return step_of(mesh, in); });
    const std::vector<std::string> expected = {"input",
                                               "require_grad",
                                               "const",
                                               "aten::mul.Tensor",
                                               "redistribute",
                                               "detach",
                                               "aten::mul_.Tensor",
                                               "aten::softmax.int",
                                               "aten::sum",
                                               "backward",
                                               "to_local",
                                               "all_reduce",
                                               "from_local",
                                               "gradient",
                                               "aten::mul.Tensor"};
    CHECK(words_of(graph) == expected);
    CHECK(collective_count(graph) > 0);
    CHECK(graph.nodes[4].collectives.size() == 1);
    CHECK(graph.nodes[4].collectives[0].kind == CollectiveKind::kAllGather);
    CHECK(writes(graph.nodes[6], graph.nodes[5].results[0].value));
  });
}

TEST_CASE("T-58 a graph that is read from its text leaves the same bits, uneven rows and none") {
  for (const std::int64_t rows : {7, 1, 0}) {
    CAPTURE(rows);
    OpMesh mesh({3});
    mesh.run([&](RankContext&) {
      const auto make = [&] { return mesh.place("S(0)", {rows}, test::counted(rows)); };
      const ProgramGraph graph =
          captured(mesh, make(), [&](const DTensor& in) { return step_of(mesh, in); });
      const std::string text = graph_json(graph);
      const ProgramGraph read = read_graphs(text).at(0);
      CHECK(graph_json(read) == text);
      const DTensor again = make();
      const Replayed replayed =
          replay(read, mesh.layout()->arena(), std::span<const DTensor>(&again, 1));
      CHECK(replayed.digest == graph.digests.at(0));
      CHECK(replayed.complete);
    });
  }
}

TEST_CASE("T-58 a replay on another input computes what the program computes") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const auto program = [&](const DTensor& x) { return std::vector<DTensor>{mul(x, x)}; };
    const DTensor x = mesh.place("S(0)", {3}, {1, 2, 3});
    const ProgramGraph graph = captured(mesh, x, program);
    const DTensor other = mesh.place("S(0)", {3}, {4, 5, 6});
    const Replayed replayed =
        replay(graph, mesh.layout()->arena(), std::span<const DTensor>(&other, 1));
    CHECK(test::whole(replayed.left.back()) == std::vector<double>{16, 25, 36});
  });
}

TEST_CASE("T-58 a replay runs up to the node that is asked for") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {3}, {1, 2, 3});
    const auto program = [&](const DTensor& in) { return std::vector<DTensor>{mul(in, in)}; };
    const ProgramGraph graph = captured(mesh, x, program);
    const Replayed replayed =
        replay(graph, mesh.layout()->arena(), std::span<const DTensor>(&x, 1), {.until = 0});
    CHECK_FALSE(replayed.complete);
    CHECK(replayed.left.size() == 1);
  });
}

TEST_CASE("T-6 elements that the program has read are compared when it is run again") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const auto program = [&](const DTensor& in) {
      const DTensor whole = full_tensor(in);
      program_calls().perform(ReadEvent{whole});
      return std::vector<DTensor>{whole};
    };
    const ProgramGraph graph = captured(mesh, mesh.place("S(0)", {3}, {1, 2, 3}), program);
    CHECK(breaks_of(graph).size() == 1);
    const DTensor other = mesh.place("S(0)", {3}, {1, 2, 4});
    try {
      replay(graph, mesh.layout()->arena(), std::span<const DTensor>(&other, 1));
      FAIL("it was not refused");
    } catch (const Error& error) {
      CHECK(error.summary() == "the program read 3.0 here, which is 4.0 now");
      CHECK(*error.find("node") == "3 of the graph: read ");
    }
  });
}

TEST_CASE("T-5 a hook from before the graph is a break, and its graph is not replayed") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const auto make = [&] {
      const DTensor x = mesh.place("S(0)", {3}, {1, 2, 3});
      require_grad(x);
      register_hook(x, [](const DTensor& gradient) { return mul(gradient, gradient); });
      return x;
    };
    const auto program = [&](const DTensor& in) {
      backward(redistribute(sum(mul(in, in)), "m0=R"));
      return std::vector<DTensor>{};
    };
    const ProgramGraph graph = captured(mesh, make(), program);
    CHECK(counted(breaks_of(graph)) ==
          std::map<std::string, std::int64_t>{{"backward hooks need backward capture", 1}});
    const DTensor again = make();
    CHECK(test::kind_of([&] {
            replay(graph, mesh.layout()->arena(), std::span<const DTensor>(&again, 1));
          }) == ErrorKind::kUnsupported);
  });
}

std::vector<NodeKind> kinds_of(const ProgramGraph& graph) {
  std::vector<NodeKind> kinds;
  for (const GraphNode& node : graph.nodes) kinds.push_back(node.kind);
  return kinds;
}

// d/dx of x*x is 2x, which the hook squares; the third of 3 elements is alone on rank 1, and rank 2
// has none.
TEST_CASE("X-64 T-1 T-55 nodes of hooks inside of backward come after it, and run again") {
  OpMesh mesh({3});
  mesh.run([&](RankContext&) {
    const auto program = [&](const DTensor& in) {
      const DTensor leaf = detach(in);
      require_grad(leaf);
      HookHandle square =
          register_hook(leaf, [](const DTensor& gradient) { return mul(gradient, gradient); });
      backward(redistribute(sum(mul(leaf, leaf)), "m0=R"));
      const DTensor first = mul(grad_of(leaf), 1);
      square.remove();
      backward(redistribute(sum(leaf), "m0=R"));
      return std::vector<DTensor>{first, mul(grad_of(leaf), 1)};
    };
    const ProgramGraph graph = captured_function(mesh, mesh.place("S(0)", {3}, {1, 2, 3}), program);
    using enum NodeKind;
    CHECK(breaks_of(graph).empty());
    CHECK(kinds_of(graph) == std::vector<NodeKind>{kInput, kDetach, kRequireGrad, kHook, kOp, kOp,
                                                   kRedistribute, kBackward, kHookCall, kOp,
                                                   kHookGives, kGradient, kOp, kRemoveHook, kOp,
                                                   kRedistribute, kBackward, kOp});
    CHECK(read_graphs(graph_json(graph)).at(0).nodes == graph.nodes);
    const DTensor again = mesh.place("S(0)", {3}, {2, 0, -1});
    const Replayed replayed =
        replay(graph, mesh.layout()->arena(), std::span<const DTensor>(&again, 1));
    CHECK(replayed.complete);
    REQUIRE(replayed.outputs.size() == 2);
    CHECK(test::whole(replayed.outputs[0]) == std::vector<double>{16, 0, 4});
    CHECK(test::whole(replayed.outputs[1]) == std::vector<double>{17, 1, 5});
  });
}

TEST_CASE("T-63 graphs of ranks are one where they are the same, and else part at a node") {
  OpMesh mesh({3});
  std::vector<ProgramGraph> graphs(3);
  mesh.run([&](RankContext& rank) {
    const DTensor x = mesh.place("S(0)", {7}, test::counted(7));
    graphs[static_cast<std::size_t>(rank.rank)] = captured(mesh, x, [&](const DTensor& in) {
      const DTensor own = tensor({static_cast<double>(rank.rank)}, {1});
      const DTensor y = mul(to_local(in), own);
      return std::vector<DTensor>{rank.rank == 2 ? neg(y) : exp(y)};
    });
  });
  const std::vector<ProgramGraph> classes = joined(std::move(graphs), {0, 1, 2});
  REQUIRE(classes.size() == 2);
  CHECK(classes[0].ranks == std::vector<std::int64_t>{0, 1});
  CHECK(classes[1].ranks == std::vector<std::int64_t>{2});
  // Constants differ from rank to rank, and both are kept.
  CHECK(classes[0].nodes[2].data == std::vector<std::vector<Scalar>>{{0.0}, {1.0}});
  const auto difference = first_difference(classes[0], classes[1]);
  REQUIRE(difference.has_value());
  CHECK(difference->node == 4);
  CHECK(difference->a.find("aten::exp") != std::string::npos);
  CHECK(difference->b.find("aten::neg") != std::string::npos);
}

// The hook doubles the gradients of both, of which b has none but zeros.
TEST_CASE("X-64 T-55 gradients that pass a hook together pass it again") {
  OpMesh mesh({3});
  mesh.run([&](RankContext&) {
    const auto hooked = [](const DTensor& in) {
      const DTensor a = detach(in), b = detach(in);
      require_grad(a);
      require_grad(b);
      const std::vector<DTensor> passed =
          hook_gradients({a, b}, MissingGradients::kZeros, [](const auto& grads) {
            return std::vector<DTensor>{mul(grads[0], 2), add(grads[1], grads[0])};
          });
      backward(redistribute(sum(mul(passed[0], passed[0])), "m0=R"));
      return std::vector<DTensor>{mul(grad_of(a), 1), mul(grad_of(b), 1)};
    };
    const ProgramGraph graph =
        captured_function(mesh, mesh.place("S(0)", {4}, {1, 2, 3, 4}), hooked);
    CHECK(breaks_of(graph).empty());
    CHECK(read_graphs(graph_json(graph)).at(0).nodes == graph.nodes);
    const DTensor again = mesh.place("S(0)", {4}, {0, 1, -2, 5});
    const Replayed replayed =
        replay(graph, mesh.layout()->arena(), std::span<const DTensor>(&again, 1));
    CHECK(test::whole(replayed.outputs.at(0)) == std::vector<double>{0, 4, -8, 20});
    CHECK(test::whole(replayed.outputs.at(1)) == std::vector<double>{0, 2, -4, 10});
  });
}

TEST_CASE("T-58 a result of an op from before the graph is a break, not a constant") {
  OpMesh mesh({3});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {7}, test::counted(7));
    require_grad(x);
    const DTensor outside = mul(x, x);
    const auto program = [&](const DTensor& in) { return std::vector<DTensor>{mul(in, outside)}; };
    CHECK_THROWS_WITH_AS(captured(mesh, x, program),
                         doctest::Contains("a value with a history from outside"), Error);
  });
}

}  // namespace
}  // namespace shardlab
