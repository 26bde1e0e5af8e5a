#include "sim/verify/known_differences.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "sim/verify/known_row.h"

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
  const Json fact = Json::parse(
      R"({"op":"aten::add","n":4,"placements":["S0","R"],"mesh":[[0,2],[1,3]],"twice":[0,0]})");
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
  }
  ;
  for (const Row& row : rows) {
    CAPTURE(row.when);
    CHECK(holds(Json::parse(row.when), fact) == row.holds);
  }
  }

  TEST_CASE("malformed rows are refused with their line") {
    const auto path =
        std::filesystem::temp_directory_path() / "shardlab_known_differences_test.toml";
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
    CHECK(refusal("cause = 'X-1'\nfamily = 'a/b'\nwhen = { n = 1 }\nproof = 'p'\ncount = 1\n"
                  "ours = { m = { where = { a = { one_of = [1, 2] } } } }\n") ==
          ":2: the answer for 'm' is one value, not any of several");
    CHECK(refusal("cause = \n").starts_with(":3: "));
    std::filesystem::remove(path);
  }
