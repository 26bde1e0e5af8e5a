// Reports on the lines of a run: visits, operands, results, sent bytes, and their causes. Bytes are
// those of a ring, worked out by hand from pieces of 4 and 3 of 7 rows.
#include "sim/report/line_reports.h"
#include "sim/report/rank_work.h"

#include <doctest/doctest.h>

#include "dispatch/all_ops.h"
#include "sim/report/overview_text.h"
#include "sim/report/repeats.h"
#include "tests/unit/scenario/scenario_text.h"

using namespace shardlab;

namespace {

// The program begins on line 9.
ScenarioResult result_of_code(const std::string& code) {
  const std::string text =
      "[mesh]\ndp = 2\ntp = 2\n[inputs]\nx = { type = \"f32[7@dp, 6]\", requires_grad = true }\n"
      "w = { type = \"f32[6, 8@tp]\", requires_grad = true }\n[program]\ncode = \"\"\"\n" +
      code + "\"\"\"\n";
  return run_scenario(test::scenario_of(text), all_ops(), {});
}

std::string order_of(const std::string& code) {
  const ScenarioResult result = result_of_code(code);
  REQUIRE_FALSE(result.run.error);
  return order_text(result.run, line_visits(result.run.events), kReportWidth);
}

}  // namespace

TEST_CASE("B-60 a loop is folded where its passes do the same, and only there") {
  CHECK(order_of("h = x\nfor i in range(5):\n    h = h * 2\n    h = h + 1\n") ==
        "  forward\n    (11, 12) x 5\n");
  // The third pass of five has another op, on line 13.
  CHECK(order_of("h = x\nfor i in range(5):\n    h = h * 2\n    if i == 2:\n        h = h.exp()\n"
                 "    h = h + 1\n") == "  forward\n    (11, 14) x 2, 11, 13, 14, (11, 14) x 2\n");
  // The same lines on other shapes are not the same.
  CHECK(order_of("h = x\nfor n in [7, 7, 3]:\n    h = ones([n, 4])\n    h = h * 2\n") ==
        "  forward\n    (11, 12) x 2, 11, 12\n");
}

TEST_CASE("B-60 a loop inside of a loop, and a def that is called twice") {
  CHECK(order_of("h = x\nfor i in range(3):\n    for j in range(4):\n        h = h * 2\n"
                 "        h = h + 1\n    h = h.exp()\n") ==
        "  forward\n    ((12, 13) x 4, 14) x 3\n");
  CHECK(order_of("def f(h):\n    h = h @ w\n    return h.redistribute(tp=R)\nf(x)\nf(x)\n") ==
        "  forward\n    (10, 11 all_gather tp 64 B) x 2\n");
}

// The second pass adds to the gradients of the first.
TEST_CASE("B-60 forward and backward stand in the order of execution") {
  CHECK(order_of("for i in range(2):\n    loss = (x @ w).redistribute(tp=R).sum()\n"
                 "    backward(loss)\n") ==
        "  2 times:\n    forward\n      10 all_gather tp 64 B\n    backward\n      11, 10\n"
        "  backward\n    11\n");
}

TEST_CASE("B-60 a line takes what it has not made itself, and names what it gives") {
  const ScenarioResult result = result_of_code("h = ((x @ w) * 2).redistribute(tp=R)\n");
  const auto lines = line_reports(result, line_visits(result.run.events));
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].line == 9);
  CHECK(lines[0].ops == std::vector<std::string>{"mm", "mul.Scalar", "redistribute"});
  CHECK(lines[0].inputs == std::vector<std::string>{"f32[7@dp, 6]", "f32[6, 8@tp]"});
  CHECK(lines[0].outputs == std::vector<std::string>{"f32[7@dp, 8]"});
  REQUIRE(lines[0].moves.size() == 1);
  CHECK(lines[0].moves[0].count == 1);
  CHECK(lines[0].moves[0].sent_bytes == 64);  // half of 4 rows of 8
  CHECK(to_string(lines[0].moves[0].origin) == "asked for");
  CHECK(worst_verdict(result.run, lines[0].values) == "rounding");
  // A line without a name gives what its last op gives.
  const ScenarioResult unnamed = result_of_code("(x @ w).redistribute(tp=R)\n");
  const auto alone = line_reports(unnamed, line_visits(unnamed.run.events));
  CHECK(alone.at(0).outputs == std::vector<std::string>{"f32[7@dp, 8]"});
}

TEST_CASE("B-60 a collective is implicit where an op needed an input in another layout") {
  const ScenarioResult result = result_of_code("h = x @ w\ns = h.softmax(-1)\n");
  const auto lines = line_reports(result, line_visits(result.run.events));
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].moves.empty());
  REQUIRE(lines[1].moves.size() == 1);
  CHECK(lines[1].moves[0].origin == CollectiveOrigin{Origin::kImplicit, "_softmax", "self"});
}

TEST_CASE("B-60 ops on plain tensors are seen") {
  const ScenarioResult result = result_of_code(
      "l = x.to_local().detach()\nm = l @ l.t()\ns = all_reduce(m[:1, :1], \"sum\")\n");
  const auto lines = line_reports(result, line_visits(result.run.events));
  REQUIRE(lines.size() == 3);
  CHECK(lines[1].ops == std::vector<std::string>{"local t", "local mm"});
  CHECK(lines[1].inputs == std::vector<std::string>{"f32[4, 6]"});
  CHECK(lines[1].outputs == std::vector<std::string>{"f32[4, 4]"});
  REQUIRE(lines[2].moves.size() == 1);
  CHECK(to_string(lines[2].moves[0].origin) == "asked for");
}

// Rank 0 holds 4 of 7 rows and 4 of 8 columns: 4 x 6 by 6 x 4. The gradient of a sum is a replica,
// of which each product of backward takes the part that the other operand is cut by: 7 x 4 by 4 x
// 6, and 6 x 4 by 4 x 8.
TEST_CASE("B-60 a line's arithmetic and bytes are those of the rank's own pieces") {
  const ScenarioResult result = result_of_code("h = x @ w\nbackward(h.sum())\n");
  const auto lines = line_reports(result, line_visits(result.run.events));
  CHECK(lines[0].forward_flops == 2 * 4 * 6 * 4);
  CHECK(lines[0].backward_flops == 2 * 7 * 4 * 6 + 2 * 6 * 4 * 8);
  const ScenarioResult local = result_of_code("l = x.to_local()\nm = l @ l.t()\n");
  const LineReport product = line_reports(local, line_visits(local.run.events))[1];
  CHECK(product.forward_flops == 2 * 4 * 6 * 4);
  CHECK(product.bytes == 4 * (4 * 6 + 6 * 4 + 4 * 4));  // the view t touches nothing
}

// 7 rows over 2 ranks are 4 and 3, 8 columns 4 each: of h = x @ w the ranks with 3 rows make less.
TEST_CASE("B-60 ranks that compute unequally much are told apart") {
  const ScenarioResult result = result_of_code("h = x @ w\n");
  const auto works = rank_works(result.run, line_visits(result.run.events));
  REQUIRE(works.size() == 2);
  CHECK(works[0].ranks == "0,1");
  CHECK(works[0].flops == 2 * 4 * 6 * 4);
  CHECK(works[1].ranks == "2,3");
  CHECK(works[1].flops == 2 * 3 * 6 * 4);
}

TEST_CASE("B-60 work of ranks that make other calls is not guessed") {
  const ScenarioResult result = result_of_code("if rank == 1:\n    h = x @ w\n");
  CHECK(rank_works(result.run, line_visits(result.run.events)).empty());
  const ScenarioResult local = result_of_code("l = x.to_local()\nm = l @ l.t()\n");
  CHECK(rank_works(local.run, line_visits(local.run.events)).empty());
}

// Two of three samples: 2 x 4 x 3 x 3 results of 2 x 3 x 3 products each.
TEST_CASE(
    "B-60 a convolution multiplies each result with its kernel, and so do both its gradients") {
  const ScenarioResult result = result_of_code(
      "i = randn([3, 2, 5, 5], dp=S(0)).detach().requires_grad_()\n"
      "k = randn([4, 2, 3, 3], dp=R).detach().requires_grad_()\nc = F.conv2d(i, k)\n"
      "backward(c.sum())\n");
  REQUIRE_FALSE(result.run.error);
  const auto lines = line_reports(result, line_visits(result.run.events));
  const LineReport& convolution = lines[2];
  CHECK(convolution.line == 11);
  CHECK(convolution.forward_flops == 2 * (2 * 4 * 3 * 3) * (2 * 3 * 3));
  CHECK(convolution.backward_flops == 2 * convolution.forward_flops);
}
