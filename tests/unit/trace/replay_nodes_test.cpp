// Graphs written by hand, run on two ranks: the effect of each kind of node is worked out here from
// the meaning of its words, for uneven pieces too; a graph that is damaged names the node and the
// fix.
#include <doctest/doctest.h>

#include "api/shardlab.h"
#include "autograd/grad_mode.h"
#include "tests/unit/trace/hand_graph.h"

namespace shardlab {
namespace {

using test::graph_of;
using test::OpMesh;

using Held = std::vector<std::vector<double>>;

/// The values of both ranks for the graph's results.
std::vector<Held> on_both_ranks(const ProgramGraph& graph, const std::vector<double>& input = {},
                                std::string_view placed = "S(0)") {
  OpMesh mesh({2});
  std::vector<Held> held(2);
  mesh.run([&](RankContext& rank) {
    std::vector<DTensor> inputs;
    if (!input.empty()) {
      inputs.push_back(mesh.place(placed, {static_cast<std::int64_t>(input.size())}, input));
    }
    held[static_cast<std::size_t>(rank.rank)] = test::replayed_values(graph, mesh, inputs);
  });
  return held;
}

/// The refusal of a graph on rank 0: "Kind: summary | node | fix".
std::string refused_replay(const ProgramGraph& graph,
                           const std::vector<double>& input = {1, 2, 3}) {
  OpMesh mesh({2});
  std::string text = "it ran";
  mesh.run([&](RankContext& rank) {
    const DTensor x = mesh.place("S(0)", {static_cast<std::int64_t>(input.size())}, input);
    try {
      test::replayed_values(graph, mesh, {x});
    } catch (const Error& error) {
      if (rank.rank != 0) return;
      const std::string *node = error.find("node"), *fix = error.find("fix");
      text = fmt::format("{}: {} | {} | {}", to_string(error.kind()), error.summary(),
                         node ? *node : "", fix ? *fix : "");
    }
  });
  return text;
}

const std::string kInputLine = "%0: f32[3@m0] = input x(init=randn)\n";

}  // namespace

TEST_CASE("T-58 collectives of a graph do on each rank what their words say") {
  struct Row {
    std::string call, type;
    Held expected[2];  // of rank 0 and of rank 1, which bring [1, 2] and [10, 20]
  };
  const Row rows[] = {
      {"all_reduce(%0)", "f32[2] local", {{{11, 22}}, {{11, 22}}}},
      {"all_reduce(%0, reduce=max)", "f32[2] local", {{{10, 20}}, {{10, 20}}}},
      {"all_reduce(%0, reduce=min, group={mesh: 0, dims: [0]})",
       "f32[2] local",
       {{{1, 2}}, {{1, 2}}}},
      {"all_reduce(%0, reduce=product)", "f32[2] local", {{{10, 40}}, {{10, 40}}}},
      {"all_reduce(%0, reduce=avg)", "f32[2] local", {{{5.5, 11}}, {{5.5, 11}}}},
      {"all_gather(%0)", "f32[4] local", {{{1, 2, 10, 20}}, {{1, 2, 10, 20}}}},
      {"reduce_scatter(%0)", "f32[1] local", {{{11}}, {{22}}}},
      {"reduce_scatter(%0, reduce=max, group={mesh: 0, dims: [0]})",
       "f32[1] local",
       {{{10}}, {{20}}}},
      {"all_to_all(%0)", "f32[2] local", {{{1, 10}}, {{2, 20}}}},
      {"broadcast(%0)", "f32[2] local", {{{1, 2}}, {{1, 2}}}},
      {"broadcast(%0, source=1)", "f32[2] local", {{{10, 20}}, {{10, 20}}}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.call);
    const ProgramGraph graph =
        graph_of(2, "1",
                 fmt::format("%0: f32[2] local = const(data_ranks=[[1.0, 2.0], [10.0, 20.0]])\n"
                             "%1: {} = collective {}\ncollective barrier()\n",
                             row.type, row.call));
    const std::vector<Held> held = on_both_ranks(graph);
    CHECK(held[0] == row.expected[0]);
    CHECK(held[1] == row.expected[1]);
  }
}

TEST_CASE("T-58 a placed value is moved, taken apart and put together as its nodes say") {
  struct Row {
    std::string nodes, left;
    int values;
    Held expected[2];
  };
  // x = [1, 2, 3], cut 2 + 1.
  const Row rows[] = {
      {"%1: f32[3] = redistribute(%0, to=f32[3])\n", "1", 2, {{{1, 2, 3}}, {{1, 2, 3}}}},
      {"%1: f32[3] = redistribute(%0, to=f32[3], async=True)\n",
       "1",
       2,
       {{{1, 2, 3}}, {{1, 2, 3}}}},
      {"%1: f32[3] = redistribute(%0, to=f32[3], planner=bytes)\n",
       "0, 1",
       2,
       {{{1, 2}, {1, 2, 3}}, {{3}, {1, 2, 3}}}},
      {"%1: f32[2] local = to_local(%0, to=f32[3@m0])\n", "1", 2, {{{1, 2}}, {{3}}}},
      {"%1: f32[2] local = to_local(%0, to=f32[3@m0])\n"
       "%2: f32[3@m0] = from_local(%1, to=f32[3@m0])\n"
       "%3: f32[3@m0] = aten::add.Tensor(%2, %0, 10)\n",
       "3",
       4,
       {{{11, 22}}, {{33}}}},
      {"%1: f32[3] = redistribute(%0, to=f32[3])\n%2: f32[3] local = to_local(%1, to=f32[3])\n"
       "%3: f32[3@m0] = distribute(%2, to=f32[3@m0])\n",
       "3",
       4,
       {{{1, 2}}, {{3}}}},
      {"%1: f32[3] = redistribute(%0, to=f32[3])\n%2: f32[3]{sum:m0} = deal(%1, "
       "to=f32[3]{sum:m0})\n%3: f32[3] = redistribute(%2, to=f32[3])\n",
       "3",
       4,
       {{{1, 2, 3}}, {{1, 2, 3}}}},
      {"%1: f32[4@m0] = factory aten::full([4], 2.5, None, None, None, None, to=f32[4@m0])\n",
       "1",
       2,
       {{{2.5, 2.5}}, {{2.5, 2.5}}}},
      {"%1: f32[3@m0] = detach(%0)\n%1: f32[3@m0] = aten::mul_.Scalar(%1, 2.0)\n",
       "0, 1",
       2,
       {{{2, 4}, {2, 4}}, {{6}, {6}}}},
      {"%1: f32[3@m0] = const(data_ranks=[[7.0, 8.0], [9.0]])\n", "1", 2, {{{7, 8}}, {{9}}}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.nodes);
    const std::vector<Held> held =
        on_both_ranks(graph_of(row.values, row.left, kInputLine + row.nodes), {1, 2, 3});
    CHECK(held[0] == row.expected[0]);
    CHECK(held[1] == row.expected[1]);
  }
}

TEST_CASE("T-58 gradients of a graph: into leaves, of inputs, seeded, dropped, retained") {
  const std::string square = kInputLine +
                             "require_grad(%0)\n%1: f32[3@m0] = aten::mul.Tensor(%0, %0)\n"
                             "%2: f32[]{sum:m0} = aten::sum(%1, None)\n";
  struct Row {
    std::string nodes;
    const char* left;
    int values;
    Held expected[2];
  };
  const Row rows[] = {
      {"backward(%2, None)\n%3: f32[3@m0] = gradient(%0)\n", "3", 4, {{{2, 4}}, {{6}}}},
      {"backward(%2, None, retain=True)\nbackward(%2, None)\n%3: f32[3@m0] = gradient(%0)\n",
       "3",
       4,
       {{{4, 8}}, {{12}}}},
      {"backward(%2, None, retain=True)\ndrop_grad(%0)\nbackward(%2, None)\n"
       "%3: f32[3@m0] = gradient(%0)\n",
       "3",
       4,
       {{{2, 4}}, {{6}}}},
      {"%3: f32[3@m0] = backward(%2, None, %0, of_inputs=True)\n", "3", 4, {{{2, 4}}, {{6}}}},
      // d/dx of sum((2 x)^2) is 8 x; its graph is kept.
      {"%3: f32[3@m0] = backward(%2, None, %0, create=True, of_inputs=True)\n"
       "%4: f32[3@m0] = aten::mul.Tensor(%3, %3)\n%5: f32[]{sum:m0} = aten::sum(%4, None)\n"
       "%6: f32[3@m0] = backward(%5, None, %0, of_inputs=True)\n",
       "6",
       7,
       {{{8, 16}}, {{24}}}},
      {"%3: f32[3@m0] = const(data_ranks=[[1.0, 10.0], [100.0]])\nbackward(%1, %3)\n"
       "%4: f32[3@m0] = gradient(%0)\n",
       "4",
       5,
       {{{2, 40}}, {{600}}}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.nodes);
    const std::vector<Held> held =
        on_both_ranks(graph_of(row.values, row.left, square + row.nodes), {1, 2, 3});
    CHECK(held[0] == row.expected[0]);
    CHECK(held[1] == row.expected[1]);
  }
}

TEST_CASE(
    "T-58 a node that is not taped has no gradient, and a taped one ends the scope of its node") {
  OpMesh mesh({2});
  const ProgramGraph graph =
      graph_of(2, "1", kInputLine + "%1: f32[3@m0] = aten::mul.Tensor(%0, %0, taped=False)\n");
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {3}, {1, 2, 3});
    require_grad(x);
    const Replayed replayed = replay(graph, mesh.layout()->arena(), std::vector<DTensor>{x});
    CHECK_FALSE(replayed.left.at(0).requires_grad());
    CHECK(mul(x, x).requires_grad());
  });
}

TEST_CASE("T-58 numbers that follow from sizes are those of the values that are given") {
  const std::string nodes =
      kInputLine +
      "n0 = size(%0, 0)\nn1 = number \"*\"(n0, 2)\nn2 = number \"-\"(n1, 5)\nn3 = number "
      "\"//\"(n2, 2)\nn4 = number \"%\"(n2, 2)\nsize_guard \">\"(n1, 1)\n";
  const ProgramGraph graph = graph_of(1, "0", nodes, ", n_numbers=5, dynamic=True");
  OpMesh mesh({2});
  struct Row {
    std::int64_t rows;
    std::vector<std::int64_t> numbers;
  };
  // 2 n - 5, halved downwards as in Python, and the remainder.
  const Row rows[] = {{3, {3, 6, 1, 0, 1}}, {1, {1, 2, -3, -2, 1}}, {6, {6, 12, 7, 3, 1}}};
  for (const Row& row : rows) {
    CAPTURE(row.rows);
    mesh.run([&](RankContext&) {
      const DTensor x = mesh.place("S(0)", {row.rows}, test::counted(row.rows));
      CHECK(replay(graph, mesh.layout()->arena(), std::vector<DTensor>{x}).numbers == row.numbers);
    });
  }
  CHECK(refused_replay(graph, {}).starts_with(
      "Value: the graph does not fit: (x.shape[0] * 2) > 1 is False, and was True | 6 of the "
      "graph: size_guard > | capture the program again"));
}

TEST_CASE("T-58 a damaged graph names the node, what is wrong and the fix") {
  const char* again = "capture the program again";
  struct Row {
    std::string nodes;
    int values;
    std::string summary, node;
    const char* fix;
  };
  const Row rows[] = {
      {"%1: f32[3@m0] = aten::mul.Tensor(%0, %2)\n%2: f32[3@m0] = aten::relu(%0)\n", 3,
       "Value: no node before this one gives value 2", "1 of the graph: op aten::mul.Tensor",
       again},
      {"%1: f32[3@m0] = aten::mul.Tensor(%0)\n", 2,
       "Value: aten::mul.Tensor has 2 arguments, not 1", "1 of the graph: op aten::mul.Tensor",
       again},
      {"_ = aten::relu(%0)\n", 1, "Value: result 0 is a tensor, and was none",
       "1 of the graph: op aten::relu", again},
      {"%1: f32[3@m0], %2: f32[3@m0] = aten::relu(%0)\n", 3,
       "Value: the call gives 1 results, and gave 2", "1 of the graph: op aten::relu", again},
      {"%1: f32[3] = redistribute(%0)\n", 2, "Value: the node does not say what it makes",
       "1 of the graph: redistribute ", again},
      {"%1: f32[4] = redistribute(%0, to=f32[4])\n", 2, "Value: f32[3@m0] cannot become f32[4]",
       "1 of the graph: redistribute ", again},
      {"%1: f32[3] = redistribute(%0, to=f32[3], planner=best)\n", 2,
       "Value: 'best' is not a planner", "1 of the graph: redistribute ", "greedy, graph or bytes"},
      {"%1: f32[3] = redistribute(2, to=f32[3])\n", 2, "Value: argument 0 must be a value",
       "1 of the graph: redistribute ", again},
      {"backward(%0)\n", 1, "Value: backward takes loss and seed", "1 of the graph: backward ",
       again},
      {"%1: f32[2] local = collective all_hop(%0)\n", 2, "Value: 'all_hop' is not a collective",
       "1 of the graph: collective all_hop", again},
      {"%1: f32[2] local = to_local(%0, to=f32[3@m0])\n"
       "%2: f32[2] local = collective all_reduce(%1, group={mesh: 0, dims: [1]})\n",
       3, "Value: a group along mesh dim 1 of 1", "2 of the graph: collective all_reduce", again},
      {"%1: f32[3@m0] = input y(init=randn)\n", 2,
       "Value: the graph has more inputs than the 1 that are given", "1 of the graph: input y",
       "give one value for each input node"},
      {"%1: f32[2] local = const(data_ranks=[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])\n"
       "%2: f32[3] = redistribute(%0, to=f32[3] placements=[])\n",
       3, "Value: a value has 0 placements on a mesh of 1 dims", "2 of the graph: redistribute ",
       again},
  };
  for (const Row& row : rows) {
    CAPTURE(row.nodes);
    CHECK(refused_replay(graph_of(row.values, "0", kInputLine + row.nodes)) ==
          fmt::format("{} | {} | {}", row.summary, row.node, row.fix));
  }
}

TEST_CASE("T-58 sizes in a damaged graph are refused like its values") {
  const char* again = "capture the program again";
  struct Row {
    std::string nodes;
    const char *summary, *node;
  };
  const Row rows[] = {
      {"n0 = size(%0, 1)\n", "a tensor of 1 dims has no dim 1", "1 of the graph: size "},
      {"n0 = size(%0, -1)\n", "a tensor of 1 dims has no dim -1", "1 of the graph: size "},
      {"n0 = size(%0)\n", "argument 1 must be a number", "1 of the graph: size "},
      {"n0 = size(%0, 0.5)\n", "argument 1 must be an integer", "1 of the graph: size "},
      {"n0 = number \"//\"(3, 0)\n", "(3 // 0) has no value here", "1 of the graph: number //"},
      {"n0 = number \"**\"(3, 2)\n", "(3 ** 2) has no value here", "1 of the graph: number **"},
      {"n0 = number \"*\"(9223372036854775807, 2)\n", "(9223372036854775807 * 2) has no value here",
       "1 of the graph: number *"},
      {"n0 = size(%0, 0)\nsize_guard \"=\"(n0, 3)\n", "'=' is not a comparison",
       "2 of the graph: size_guard ="},
  };
  for (const Row& row : rows) {
    CAPTURE(row.nodes);
    CHECK(refused_replay(graph_of(1, "0", kInputLine + row.nodes, ", n_numbers=1")) ==
          fmt::format("Value: {} | {} | {}", row.summary, row.node, again));
  }
}

TEST_CASE("T-58 a node that failed when it was captured has to fail again") {
  const std::string fails = "    fails(class=Value, message=\"it did\")\n";
  CHECK(refused_replay(graph_of(2, "0", kInputLine + "%1: f32[3@m0] = aten::relu(%0)\n" + fails)) ==
        "Assert: node 1 failed when it was captured (it did), and runs now |  | capture the "
        "program again");
  const std::string failed =
      refused_replay(graph_of(1, "0", kInputLine + "_ = aten::reshape(%0, [2, 2])\n" + fails));
  CAPTURE(failed);
  CHECK(failed.starts_with("Value: "));
  CHECK(failed.find("| 1 of the graph: op aten::reshape |") != std::string::npos);
}

TEST_CASE("T-55 hooks of a graph are called where they were, or the graph is refused") {
  const std::string leaf = kInputLine + "require_grad(%0)\n";
  const std::string sum =
      "%1: f32[]{sum:m0} = aten::sum(%0, None)\n%2: f32[] = redistribute(%1, to=f32[])\n";
  const std::string twice =
      "%3: f32[3] = hook_call(hook=0)\n%4: f32[3] = aten::mul.Scalar(%3, 2.0)\n"
      "hook_gives(%4, hook=0)\n";
  // The gradient of a sum is ones on every rank, which the hook doubles.
  const std::vector<Held> held =
      on_both_ranks(graph_of(6, "5",
                             leaf + "hook(%0, hook=0)\n" + sum + "backward(%2, None)\n" + twice +
                                 "%5: f32[3] = gradient(%0)\n"),
                    {1, 2, 3});
  CHECK(held[0] == Held{{2, 2, 2}});
  CHECK(held[1] == Held{{2, 2, 2}});
  // Taken away before: it is not called.
  CHECK(on_both_ranks(graph_of(4, "3",
                               leaf + "hook(%0, hook=0)\n" + sum +
                                   "remove_hook(hook=0)\nbackward(%2, None)\n"
                                   "%3: f32[3] = gradient(%0)\n"),
                      {1, 2, 3})[0] == Held{{1, 1, 1}});
  CHECK(refused_replay(graph_of(3, "0", leaf + "hook(%0, hook=0)\n" + sum + "backward(%2, None)\n"))
            .starts_with("Value: hook 0 is called, and was not here | 5 of the graph: backward"));
  CHECK(refused_replay(graph_of(5, "0",
                                leaf + sum +
                                    "hook(%0, hook=0)\nremove_hook(hook=0)\n"
                                    "backward(%2, None)\n" +
                                    twice))
            .starts_with("Value: hook 0 was called here, and is not now"));
  CHECK(refused_replay(graph_of(1, "0", leaf + "hook(%0, hook=0)\nhook_gives(None, hook=0)\n"))
            .starts_with("Value: hook 0 is called outside of a backward | 3 of the graph: "
                         "hook_gives"));
}

TEST_CASE("T-60 data_on gives each rank its elements, and says whose are missing") {
  ProgramGraph graph;
  GraphNode node;
  node.data = {{1, 2}};
  CHECK(data_on(graph, node, 5) == node.data[0]);  // the same on all
  node.data = {{1}, {2}, {3}};
  CHECK(data_on(graph, node, 2) == node.data[2]);
  graph.ranks = {4, 7, 9};
  CHECK(data_on(graph, node, 7) == node.data[1]);
  for (const std::int64_t rank : {0, 8}) {
    try {
      data_on(graph, node, rank);
      FAIL("not refused");
    } catch (const Error& error) {
      CHECK(error.summary() == fmt::format("the graph has no elements for rank {}", rank));
      CHECK(*error.find("fix") == "capture the program again");
    }
  }
}

}  // namespace shardlab
