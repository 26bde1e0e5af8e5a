// Texts for people about a graph: the report line by line, meshes, numbers, Graphviz. Graphs are
// written by hand as lines; the expected texts are worked out from the words of their fields.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/unit/trace/graph_lines.h"
#include "trace/compare_graphs.h"
#include "trace/graph_text.h"
#include "trace/guards.h"

namespace shardlab {
namespace {

const std::string kTwoMeshes =
    "meshes=[{shape: [2, 3], names: [dp, tp]}, {shape: [3], names: [tp], base: 0, part: [tp]}, "
    "{shape: [6], names: [all], base: 0, part: [dp, tp], flattened: True}]";

ProgramGraph read_program(const std::string& nodes, const std::string& fields) {
  return read_graph_lines(fmt::format("program p(world=6, seed=1, {}, policies={{}}, {})\n{}",
                                      kTwoMeshes, fields, nodes))
      .at(0);
}

/// The report of one node of a program that has %0 and the node's results.
std::string reported(const std::string& node, int values = 2, const std::string& more = "") {
  const std::string input = "%0: f32[7@dp, 4] = input x(init=randn)\n";
  const std::string text =
      graph_text(read_program(input + node + "\n", fmt::format("n_values={}{}", values, more)),
                 GraphLevel::kProgram);
  const std::string first = "  %0: f32[7@dp, 4] = input(x, randn)\n";
  CHECK(text.starts_with(first));
  return text.substr(first.size());
}

}  // namespace

TEST_CASE("T-63 the report of a node: results, name, arguments, options, line") {
  struct Row {
    std::string node, text;
  };
  const Row rows[] = {
      {"%1: f32[7@dp, 4] = aten::mul.Tensor(%0, 2.5)    line 3:1",
       "  %1: f32[7@dp, 4] = aten::mul.Tensor(%0, 2.5)    line 3\n"},
      {"%1: f32[7, 4] = redistribute(%0, to=f32[7, 4], async=True, planner=graph, "
       "forward_dtype=bf16, backward_dtype=f32)",
       "  %1: f32[7, 4] = redistribute(%0, to=f32[7, 4], async_op=True, planner=graph, "
       "forward_dtype=bf16, backward_dtype=f32)\n"},
      {"%1: f32[7, 4] = distribute(%0, to=f32[7, 4], source=0)",
       "  %1: f32[7, 4] = distribute(%0, to=f32[7, 4], source=0)\n"},
      {"%1: f32[4, 4] local = collective all_gather(%0, group={mesh: 0, dims: [0, 1]}, dim=1)",
       "  %1: f32[4, 4] = all_gather(%0, group=dp_tp, dim=1)\n"},
      {"%1: f32[4, 4] local = collective all_reduce(%0, reduce=max)",
       "  %1: f32[4, 4] = all_reduce(%0, group=world, op=max, dim=0)\n"},
      {"require_grad(%0, required=False)", "  require_grad(%0, False)\n"},
      {"%1: f32[7@dp, 4] = detach(%0, in_place=True)",
       "  %1: f32[7@dp, 4] = detach(%0, in_place=True)\n"},
      {"backward(%0, None, retain=True)", "  backward(%0, None, retain_graph=True)\n"},
      {"backward(%0, None, create=True)", "  backward(%0, None, create_graph=True)\n"},
      {"%1: f32[7@dp, 4] = aten::relu(%0, taped=False, replicates=True)",
       "  %1: f32[7@dp, 4] = aten::relu(%0, no_grad=True, implicit_replication=True)\n"},
      {"%1: f32[7@dp, 4] = input y(init=randn, arguments=[2.0], scale=0.5, requires_grad=True)",
       "  %1: f32[7@dp, 4] = input(y, randn(2.0) * 0.5, requires_grad=True)\n"},
      {"%1: i64[2] local = const(data=[1, 2])", "  %1: i64[2] = const([1, 2])\n"},
      {"%1: i64[5] local = const(data=[1, 2, 3, 4, 5])",
       "  %1: i64[5] = const([1, 2, 3, 4, ... 5 elements])\n"},
      {"%1: i64[2] local = const(data_ranks=[[1, 2], [3, 4], [], [], [], []])",
       "  %1: i64[2] = const(2 elements, by rank)\n"},
      {"%1: f32[7@dp, 4] = aten::f(\"word\", [1, 2], bf16, None, [%0, None])",
       "  %1: f32[7@dp, 4] = aten::f(\"word\", [1, 2], bf16, None, [%0, None])\n"},
      {"%1: f32[7, 4]{sum:(dp,tp)} = deal(%0, to=f32[7, 4]{sum:(dp,tp)})",
       "  %1: f32[7, 4]{sum:(dp,tp)} = deal(%0, to=f32[7, 4]{sum:(dp,tp)})\n"},
      {"_ = aten::relu(%0)\n    fails(class=Value, message=\"no\")    ",
       "  aten::relu(%0)    fails: no\n"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.node);
    const bool gives = row.node.starts_with("%1");
    CHECK(reported(row.node, gives ? 2 : 1) == row.text);
  }
}

TEST_CASE("T-63 hooks, seeds and generators say which one they are") {
  CHECK(reported("hook(%0, hook=0)", 1) == "  hook(%0, hook=0)\n");
  CHECK(reported("%1: f32[7@dp, 4] = hooks(%0, hook=0, zeros=True)") ==
        "  %1: f32[7@dp, 4] = hooks(%0, hook=0, zeros=True)\n");
  const std::string two = ", generators=[{seed: 1, offset: 0}, {seed: 2, offset: 0}]";
  CHECK(reported("seed(generator=1, seed=77)", 1, two) == "  seed(generator=1, 77)\n");
  CHECK(reported("%1: f32[7@dp, 4] = aten::bernoulli(%0, {generator: 1})", 2, two) ==
        "  %1: f32[7@dp, 4] = aten::bernoulli(%0, generator 1)\n");
}

TEST_CASE("T-63 a value that was written in place is marked by how often") {
  const std::string nodes =
      "%0: f32[2] = input x(init=zeros)\n%0: f32[2] = aten::add_.Tensor(%0, 1.0, 1)\n"
      "%0: f32[2] = aten::mul_.Tensor(%0, 2.0)\n%1: f32[2] = aten::relu(%0)\n";
  CHECK(graph_text(read_program(nodes, "n_values=2"), GraphLevel::kProgram) ==
        "  %0: f32[2] = input(x, zeros)\n"
        "  %0': f32[2] = aten::add_.Tensor(%0, 1.0, 1)\n"
        "  %0'': f32[2] = aten::mul_.Tensor(%0', 2.0)\n"
        "  %1: f32[2] = aten::relu(%0'')\n");
}

TEST_CASE("T-63 moves and collectives stand below their node; a rank's have ranks and lengths") {
  const std::string nodes =
      "%0: f32[2] = input x(init=zeros)\n%1: f32[2] = aten::relu(%0)\n"
      "    moves(t=1, op=aten::mm, from=\"f32[4@dp]\", to=\"f32[4]\", plan=\"S(0)->R\")\n"
      "    all_gather(f32[2], group=dp, ranks=[0, 3])\n"
      "    all_reduce(bf16[4, 2], group=world, ranks=[0, 1, 2, 3, 4, 5], reduce=sum, pass=bwd, "
      "waits=True)\n";
  const ProgramGraph graph = read_program(nodes, "n_values=2");
  const std::string head =
      "  %0: f32[2] = input(x, zeros)\n  %1: f32[2] = aten::relu(%0)\n"
      "        moves argument 1 of aten::mm from f32[4@dp] to f32[4]: S(0)->R\n";
  CHECK(graph_text(graph, GraphLevel::kProgram) ==
        head +
            "        all_gather over dp f32\n"
            "        waits for all_reduce over world sum bf16 (backward)\n");
  CHECK(graph_text(graph, GraphLevel::kRank) ==
        head +
            "        all_gather over dp f32[2] ranks 0,3\n"
            "        waits for all_reduce over world sum bf16[4, 2] ranks 0-5 (backward)\n");
  CHECK(collective_count(graph) == 1);  // a wait was counted when its collective was issued
}

TEST_CASE("T-63 meshes that a program makes are told apart from its nodes") {
  const std::string nodes =
      "mesh(mesh=0)\nmesh(mesh=1)    line 4:1\nmesh(mesh=2)\nmesh(mesh=0, mesh_dims=[0, 1])\n"
      "%0: f32[2] = input x(init=zeros)\n";
  const ProgramGraph graph = read_program(nodes, "n_values=1");
  CHECK(setup_text(graph) ==
        "  mesh 0: {dp:2, tp:3}\n"
        "  mesh 1: {tp:3} = part tp of mesh 0    line 4\n"
        "  mesh 2: {all:6} = flattened dp, tp of mesh 0\n"
        "  mesh 0: {dp:2, tp:3}, one group over dims 0, 1\n");
  CHECK(graph_text(graph, GraphLevel::kProgram) == "  %0: f32[2] = input(x, zeros)\n");
  CHECK(setup_text(read_program("%0: f32[2] = input x(init=zeros)\n", "n_values=1")).empty());
}

TEST_CASE("T-63 numbers are written as arithmetic on the sizes they follow from") {
  const std::string nodes =
      "%0: f32[7, 4] = input x(init=zeros)\n%1: f32[7, 4] = aten::relu(%0)\nn0 = size(%0, 0)\n"
      "n1 = size(%1, 1)\nn2 = number \"*\"(n0, n1)\nn3 = number \"-\"(n2, 1)\n"
      "size_guard \"<=\"(n3, 64)    line 7:2\nsize_guard \"==\"(n0, 3, required=False)\n"
      "%2: f32[7, 4] = aten::view(%1, [n2, -1])\n";
  const ProgramGraph graph = read_program(nodes, "n_values=3, n_numbers=4");
  CHECK(number_text(graph, {NumberRef{0}}) == "x.shape[0]");
  CHECK(number_text(graph, {NumberRef{1}}) == "%1.shape[1]");
  CHECK(number_text(graph, {NumberRef{3}}) == "((x.shape[0] * %1.shape[1]) - 1)");
  CHECK(number_text(graph, {NumberRef{9}}) == "n9");
  CHECK(number_text(graph, {Scalar(4)}) == "4");
  CHECK(number_text(graph, {ValueRef{0}}) == "?");
  CHECK(graph_text(graph, GraphLevel::kProgram) ==
        "  %0: f32[7, 4] = input(x, zeros)\n  %1: f32[7, 4] = aten::relu(%0)\n"
        "  guard ((x.shape[0] * %1.shape[1]) - 1) <= 64    line 7\n"
        "  guard not x.shape[0] == 3\n"
        "  %2: f32[7, 4] = aten::view(%1, [(x.shape[0] * %1.shape[1]), -1])\n");
}

TEST_CASE("T-63 a number that is made of many is named where it is deep") {
  std::string nodes = "%0: f32[7] = input x(init=zeros)\nn0 = size(%0, 0)\n";
  for (int i = 1; i < 9; ++i) nodes += fmt::format("n{} = number \"+\"(n{}, 1)\n", i, i - 1);
  const ProgramGraph graph = read_program(nodes, "n_values=1, n_numbers=9");
  CHECK(number_text(graph, {NumberRef{8}}) == "((((((n2 + 1) + 1) + 1) + 1) + 1) + 1)");
}

TEST_CASE("T-63 Graphviz has a box for each node and an arrow from who gives a value") {
  const std::string nodes =
      "%0: f32[2] = input x(init=zeros)\n%1: f32[2] = aten::f(\"a\\\\b\", %0)\n"
      "    all_reduce(f32[2], group=dp, ranks=[0, 3], reduce=max)\n"
      "%2: f32[2] = aten::mul.Tensor(%1, %0)\n";
  CHECK(graph_dot(read_program(nodes, "n_values=3")) ==
        "digraph program {\n"
        "  node [shape=box, fontname=monospace];\n"
        "  n0 [label=\"%0: f32[2] = input(x, zeros)\"];\n"
        "  n1 [label=\"%1: f32[2] = aten::f(\\\"a\\\\b\\\", %0)\\nall_reduce over dp max f32\"];\n"
        "  n0 -> n1;\n"
        "  n2 [label=\"%2: f32[2] = aten::mul.Tensor(%1, %0)\"];\n"
        "  n1 -> n2;\n"
        "  n0 -> n2;\n"
        "}\n");
}

TEST_CASE("size_arithmetic and size_comparison: Python's numbers, and none where there is none") {
  struct Row {
    const char* op;
    std::int64_t a, b;
    std::optional<std::int64_t> result;  // of Python 3
  };
  const Row rows[] = {
      {"+", 3, -5, -2},
      {"-", 3, -5, 8},
      {"*", -3, 5, -15},
      {"//", 7, 2, 3},
      {"//", -7, 2, -4},
      {"//", 7, -2, -4},
      {"//", -7, -2, 3},
      {"//", -8, 2, -4},
      {"%", 7, 2, 1},
      {"%", -7, 2, 1},
      {"%", 7, -2, -1},
      {"%", -7, -2, -1},
      {"%", -8, 2, 0},
      {"%", 0, 5, 0},
      {"//", 1, 0, {}},
      {"%", 1, 0, {}},
      {"//", INT64_MIN, -1, {}},
      {"%", INT64_MIN, -1, {}},
      {"+", INT64_MAX, 1, {}},
      {"-", INT64_MIN, 1, {}},
      {"*", INT64_MAX, 2, {}},
      {"**", 2, 2, {}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.op);
    CAPTURE(row.a);
    CAPTURE(row.b);
    CHECK(size_arithmetic(row.op, row.a, row.b) == row.result);
  }
  const char* ops[] = {"==", "!=", "<", "<=", ">", ">="};
  const bool less[] = {false, true, true, true, false, false};
  const bool equal[] = {true, false, false, true, false, true};
  const bool more[] = {false, true, false, false, true, true};
  for (std::size_t i = 0; i < 6; ++i) {
    CHECK(size_comparison(ops[i], -1, 2) == less[i]);
    CHECK(size_comparison(ops[i], 2, 2) == equal[i]);
    CHECK(size_comparison(ops[i], 3, 2) == more[i]);
  }
  CHECK_FALSE(size_comparison("=", 1, 1).has_value());
}

TEST_CASE("T-4 the first guard that does not hold is refused with source, line and fix") {
  using Kind = Guard::Kind;
  const std::vector<Guard> guards = {{Kind::kType, "inputs.x", "f32[4]", 3},
                                     {Kind::kRank, "rank", "2", 0},
                                     {Kind::kEquality, "params.n", "8", 9},
                                     {Kind::kIdentity, "mesh", "{x:2}", 0}};
  std::vector<Guard> facts = {guards[0], guards[2], guards[3]};
  CHECK_FALSE(first_broken(guards, facts).has_value());  // ranks are not asked again
  facts[1].expected = "9";
  const auto broken = first_broken(guards, facts);
  REQUIRE(broken.has_value());
  CHECK(refusal_of(*broken).text() ==
        "the graph does not fit: params.n is 9, and was 8\n"
        "  at          line 9 needed it\n"
        "  fix         capture the program again");
  facts.pop_back();
  CHECK(checked(guards, facts).at(3).found == "(nothing)");
  // A fact of another kind is another fact.
  facts[0].kind = Kind::kEquality;
  CHECK(first_broken(guards, facts)->found == "(nothing)");
}

TEST_CASE("T-63 graphs differ at the first node that differs, data and places of ranks apart") {
  const std::string input = "%0: f32[2] = input x(init=zeros)\n";
  const auto graph = [&](const std::string& node) {
    return read_program(input + node, "n_values=2");
  };
  const ProgramGraph a = graph("%1: i64[2] local = const(data=[1, 2])    line 3:1\n");
  CHECK_FALSE(first_difference(a, graph("%1: i64[2] local = const(data=[5, 6])    line 3:1\n"))
                  .has_value());
  const ProgramGraph moved = graph("%1: i64[2] local = const(data=[1, 2])    line 4:1\n");
  const auto at_line = first_difference(a, moved);
  REQUIRE(at_line.has_value());
  CHECK(at_line->node == 1);
  CHECK_FALSE(first_difference(a, moved, Places::kIgnored).has_value());
  CHECK(first_difference(a, graph("%1: i64[3] local = const(data=[1, 2, 3])    line 3:1\n"))
            .has_value());
  // Pieces of plain results may have any size.
  CHECK_FALSE(first_difference(graph("%1: f32[4] local = to_local(%0, to=f32[2])\n"),
                               graph("%1: f32[3] local = to_local(%0, to=f32[2])\n"))
                  .has_value());
  ProgramGraph longer = a;
  longer.nodes.push_back(a.nodes[0]);
  const auto ends = first_difference(a, longer);
  REQUIRE(ends.has_value());
  CHECK(ends->node == 2);
  CHECK(ends->a == "(ends)");
  CHECK(ends->b == "%0: f32[2] = input(x, zeros)");
}

}  // namespace shardlab
