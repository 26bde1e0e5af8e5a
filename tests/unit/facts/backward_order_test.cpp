// Facts about the order of backward, right and altered: the checker must see each difference.
#include <doctest/doctest.h>

#include "sim/files/json_value.h"
#include "tests/facts/case_report.h"
#include "tests/facts/order_facts.h"

using namespace shardlab;

namespace {

Json node(int line, int call, int visit = 0) {
  return {{"line", line}, {"visit", visit}, {"call", call}, {"op", "?"}, {"node", "?"}, {"nth", 0}};
}
Json leaf(const char* name) { return {{"leaf", name}, {"type", "f32[3, 3]"}}; }

Json fact(const std::string& program, int line, Json order) {
  Json line_of_fact = {{"id", "test/order"}, {"kind", "test"}, {"program", program}};
  for (const char* name : {"x", "w", "v"}) {
    line_of_fact["inputs"][name] = {{"type", "f32[3, 3]"}, {"requires_grad", *name != 'x'}};
  }
  line_of_fact["passes"] = Json::array({{{"line", line}, {"order", std::move(order)}}});
  return line_of_fact;
}

// Two ways from the inputs to the loss.
Json two_branches() {
  return fact("a = x @ w\nb = relu(x) @ v\nloss = (a * b).sum()\nbackward(loss)", 4,
              {node(3, 1), node(3, 0), node(2, 0), leaf("v"), node(1, 0), leaf("w")});
}

std::string difference(const Json& line) {
  CaseReport report;
  make_order_checker("")->check(line, report);
  CHECK_FALSE(report.skipped());
  return report.differences().empty() ? "" : report.differences().front().field;
}

}  // namespace

TEST_CASE("V-21 the branch made last runs first, and its leaf is written before the other runs") {
  CHECK(difference(two_branches()) == "");
}

TEST_CASE("V-21 each pass of a loop is run for itself, in the reverse of its order") {
  Json order;
  for (const int visit : {2, 1, 0}) {
    order.push_back(node(3, 1, visit));
    order.push_back(node(3, 0, visit));
    if (visit == 0) order.push_back(leaf("w"));
  }
  order.insert(order.begin(), node(4, 0));
  CHECK(difference(fact("h = x\nfor i in range(3):\n    h = relu(h @ w)\n"
                        "loss = h.sum()\nbackward(loss)",
                        5, order)) == "");
}

TEST_CASE("a recorded order that is not the one that is seen differs") {
  for (const auto& row : {std::pair{0, 1}, {2, 4}, {3, 4}, {3, 5}}) {
    const auto& first = row.first;
    const auto& second = row.second;
    CAPTURE(first);
    Json line = two_branches();
    Json& order = line["passes"][0]["order"];
    std::swap(order[static_cast<std::size_t>(first)], order[static_cast<std::size_t>(second)]);
    CHECK(difference(line) == "passes");
  }
  Json line = two_branches();
  line["passes"][0]["order"].erase(3);
  CHECK(difference(line) == "passes");
}

TEST_CASE("a line whose calls are counted otherwise is compared as one") {
  Json line = two_branches();
  Json& order = line["passes"][0]["order"];
  order[2]["call"] = 3;
  CHECK(difference(line) == "");
  std::swap(order[2], order[4]);
  CHECK(difference(line) == "passes");
}

TEST_CASE("facts about ops without a row are skipped") {
  CaseReport report;
  make_order_checker("")->check(fact("y = no_such_op(x)", 1, Json::array()), report);
  CHECK(report.skipped() == SkipReason::kNotSupported);
}
