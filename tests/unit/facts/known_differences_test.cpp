#include "tests/facts/known_differences.h"
#include "tests/support/temporary_folder.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "tests/facts/known_row.h"

using namespace shardlab;

TEST_CASE("fields are found by path, in lists by number, keys may hold dots") {
  const Json fact = Json::parse(R"({"a":{"b":1},"x.y":{"z":2},"l":[[5,6]]})");
  CHECK(*find_field(fact, "a.b") == 1);
  CHECK(*find_field(fact, "x.y.z") == 2);
  CHECK(*find_field(fact, "l.0.1") == 6);
  CHECK(find_field(fact, "l.1") == nullptr);
  CHECK(find_field(fact, "a.c") == nullptr);
  CHECK(find_field(fact, "a.b.c") == nullptr);
}

TEST_CASE("predicates on fields of a case") {
  const Json fact =
      Json::parse(R"({"op":"aten::add","n":4,"placements":["S0","R"],"mesh":[[0,2],[1,3]],)"
                  R"("twice":[0,0]})");
  struct Row {
    const char* when;
    bool holds;
  };
  const Row rows[] = {
      {R"({"op":"aten::add"})", true},
      {R"({"op":"aten::sub"})", false},
      {R"({"missing":1})", false},
      {R"({"missing":{"present":false}})", true},
      {R"({"op":{"present":true}})", true},
      {R"({"op":{"starts_with":"aten::a"}})", true},
      {R"({"op":{"contains":"sub"}})", false},
      {R"({"op":{"one_of":["aten::add","aten::mul"]}})", true},
      {R"({"placements":{"contains":"R"}})", true},
      {R"({"placements":{"contains":"S1"}})", false},
      {R"({"n":{"at_least":4,"at_most":4}})", true},
      {R"({"n":{"at_least":5}})", false},
      {R"({"mesh":{"ascending":false,"unique":true}})", true},
      {R"({"twice":{"unique":false}})", true},
      {R"({"placements":{"without":["S1","P"]}})", true},
      {R"({"placements":{"without":["S1","R"]}})", false},
      {R"({"n":{"more_than":"$twice.0"}})", true},
      {R"({"n":{"more_than":4}})", false},
      {R"({"n":{"more_than":"$missing"}})", false},
      {R"({"twice.0":{"same_as":"$twice.1"}})", true},
      {R"({"twice":{"same_as":"$mesh"}})", false},
  };
  for (const Row& row : rows) {
    CAPTURE(row.when);
    CHECK(holds(Json::parse(row.when), fact) == row.holds);
  }
}

TEST_CASE("malformed rows are refused with their line") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() + "/known_differences.toml";
  const auto refusal = [&](const std::string& row) {
    std::ofstream(path) << "# a comment\n[[difference]]\n" << row;
    try {
      KnownDifferences::read(path.string());
    } catch (const Error& error) {
      return error.summary().substr(path.string().size());
    }
    return std::string();
  };
  const std::string good =
      "cause = 'X-1'\nfamily = 'a/b'\nwhen = { n = 1 }\nours = { m = 2 }\nproof = 'p'\n";
  CHECK(refusal(good + "count = 1\n") == "");
  CHECK(refusal(good) == ":2: 'count' must be at least 1");
  CHECK(refusal(good + "count = 1\nid = 3\n") == ":2: unknown key 'id'");
  CHECK(refusal("cause = 'X-1'\nfamily = 'a/b'\ncount = 1\n") == ":2: 'proof' is missing");
  CHECK(refusal("cause = 'X-1'\nfamily = 'a/b'\nwhen = { n = { above = 1 } }\nours = { m = 2 }\n"
                "proof = 'p'\ncount = 1\n") == ":2: unknown predicate 'above' for 'n'");
  const std::string answer =
      "cause = 'X-1'\nfamily = 'a/b'\nwhen = { n = 1 }\nproof = 'p'\ncount = 1\nours = { m = ";
  for (const char* where : {"one_of = [1, 2]", "contains = 1", "at_least = 0.0", "unique = true",
                            "starts_with = 'P'", "present = true, at_most = 3"}) {
    CAPTURE(where);
    CHECK(refusal(answer + "{ where = { a = { " + where + " } } } }\n") ==
          ":2: the answer for 'm' is one value, not whatever holds a predicate");
  }
  CHECK(refusal(answer + "{ where = { a = { lacks = ['P(max)'] } } } }\n") ==
        ":2: unknown predicate 'lacks' for 'a'");
  CHECK(refusal(answer + "{ where = { a = 1, b = { present = false } } } }\n") == "");
  CHECK(refusal(answer + "{ cheapest_without = ['P(max)'] } }\n") == "");
  CHECK(refusal(answer + "{ cheapest_without = 'P(max)' } }\n") ==
        ":2: the answer for 'm': cheapest_without is a list of placements");
  CHECK(refusal("cause = \n").starts_with(":3: "));
}

TEST_CASE("the cheapest candidate without certain placements is one answer") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() + "/cheapest.toml";
  std::ofstream(path) << "[[difference]]\ncause = 'X-1'\nfamily = 'a/b'\nwhen = { op = 'add' }\n"
                         "proof = 'p'\ncount = 1\n[difference.ours]\n"
                         "outputs = { cheapest_without = ['P(max)'] }\n"
                         "cost = { cheapest_without = ['P(max)'] }\n"
                         "inputs = { cheapest_without = ['0:P(max)'] }\n"
                         "n_strategies = { candidates_without = ['P(max)'] }\n";
  const KnownDifferences known = KnownDifferences::read(path.string());
  Json fact = {{"op", "add"}, {"candidates", Json::array()}};
  const auto specs = [](const char* placement) { return Json::array({Json::array({placement})}); };
  const auto output = [](const char* placement) {
    Json result;
    result["placements"] = Json::array({placement});
    return Json::array({result});
  };
  const auto add = [&](const char* from, const char* to, double cost) {
    Json candidate;
    candidate["inputs"] = specs(from);
    candidate["outputs"] = output(to);
    candidate["cost"] = Json::array({cost});
    fact["candidates"].push_back(candidate);
  };
  add("P(max)", "P(max)", 0);
  add("P(max)", "S(0)", 1);
  add("R", "R", 3);
  add("S(0)", "S(0)", 2);
  add("S(1)", "S(1)", 2);
  const auto explained = [&](const char* field, const Json& got) {
    return known.explain("a/b", fact, field, got).has_value();
  };
  CHECK(explained("outputs", output("S(0)")));
  CHECK_FALSE(explained("outputs", output("R")));
  CHECK_FALSE(explained("outputs", output("S(1)")));
  CHECK(explained("inputs", specs("S(0)")));
  CHECK_FALSE(explained("inputs", specs("P(max)")));
  CHECK(explained("n_strategies", Json::array({3})));
  CHECK_FALSE(explained("n_strategies", Json::array({5})));
  CHECK_FALSE(explained("selected", Json::array({0})));  // the row does not name it
  CHECK(explained("cost", Json::array({2.0})));
  CHECK_FALSE(explained("cost", Json::array({1.0})));
  fact.erase("candidates");
  CHECK_FALSE(explained("cost", Json::array({2.0})));
}

TEST_CASE("contains looks into nested lists, and one of several texts will do") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() + "/contains.toml";
  std::ofstream(path) << "[[difference]]\ncause = 'X-1'\nfamily = 'a/b'\nproof = 'p'\ncount = 1\n"
                         "when = { inputs = { contains = ['P(max)', 'P(min)'] } }\n"
                         "ours = { error = 'Runtime' }\n";
  const KnownDifferences known = KnownDifferences::read(path.string());
  const auto explained = [&](const char* inputs) {
    const Json fact = {{"inputs", Json::parse(inputs)}};
    return known.explain("a/b", fact, "error", "Runtime").has_value();
  };
  CHECK(explained(R"j([["R"], ["S(0)", "P(min)"]])j"));
  CHECK(explained(R"j(["P(max)"])j"));
  CHECK_FALSE(explained(R"j([["R"], ["S(0)", "P(sum)"]])j"));
}
