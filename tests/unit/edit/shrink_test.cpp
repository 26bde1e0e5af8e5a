// Each pass on a scenario of which the smallest one that fails alike is known.
#include <doctest/doctest.h>

#include "dispatch/all_ops.h"
#include "sim/edit/shrink.h"
#include "sim/edit/shrink_passes.h"
#include "tests/unit/scenario/scenario_text.h"

using namespace shardlab;

namespace {

const ShrinkOptions kOptions{.run = {}, .most_time = 1000, .least_seconds = 60, .progress = {}};

// Rows of x are cut over tp: each rank adds its number to its own.
std::string scenario(const std::string& code, const std::string& more = "") {
  return "title = \"t\"\n[mesh]\ndp = 2\ntp = 4\n[inputs]\nx = \"f32[8@tp, 6]\"\nu = \"f32[3]\"\n"
         "[program]\ncode = '''\n" +
         code + "'''\n" + more;
}

// The wrong statement: from_local of pieces that differ from those of x.
constexpr const char* kWrong = "y = from_local(x.to_local() * (1.0 + rank), mesh=mesh, tp=S(0))\n";
const std::string kReference = "[reference]\ncode = 'y = x * 1.0'\n";

std::string after(ShrinkPass pass, const std::string& text) {
  const Scenario given = test::scenario_of(text);
  Trials trials(given, kOptions);
  pass(trials);
  return text_of(trials.best().program);
}

}  // namespace

TEST_CASE("B-31 statements that the failure does not need go") {
  const std::string text =
      scenario(std::string("a = u + 1.0\n") + kWrong + "b = x.relu()\nc = a * 2.0\n", kReference);
  CHECK(after(drop_statements, text) == kWrong);
}

TEST_CASE("B-31 blocks give way to what is inside of them, where no reference says what is meant") {
  const std::string refused = "z = x.redistribute(tp=S(7))\n";
  const std::string inside = "with no_grad():\n    if True:\n        " + refused;
  for (const bool given_meaning : {false, true}) {
    const Scenario given =
        test::scenario_of(scenario(inside, given_meaning ? "[reference]\ncode = 'z = x'\n" : ""));
    Trials trials(given, kOptions);
    repeat(trials, {unwrap_blocks});
    CHECK(text_of(trials.best().program) == (given_meaning ? inside : refused));
  }
}

TEST_CASE("B-31 a failure at another statement is another failure") {
  // Both are wrong in the same way; the first in line is the one.
  const Scenario given = test::scenario_of(scenario(
      std::string(kWrong) + "z = from_local(x.to_local() * (1.0 + rank), mesh=mesh, tp=S(0))\n",
      "[reference]\ncode = 'y = x * 1.0; z = x * 1.0'\n"));
  Trials trials(given, kOptions);
  CHECK(!trials.keeps(without(trials.best().program, 0, 1)));
  CHECK(trials.keeps(without(trials.best().program, 1, 2)));
  CHECK(text_of(trials.best().program) == kWrong);
}

TEST_CASE("B-31 mesh dims and sizes get as small as the failure allows") {
  const Scenario given = test::scenario_of(scenario(kWrong, kReference));
  Trials trials(given, kOptions);
  repeat(trials, {shrink_mesh});
  const TomlTable& mesh = *table_of(trials.best(), "mesh");
  REQUIRE(mesh.size() == 1);
  CHECK(mesh[0].key == "tp");
  CHECK(std::get<std::int64_t>(mesh[0].value.value) == 2);
  repeat(trials, {shrink_sizes});
  const TomlEntry* x = find(*table_of(trials.best(), "inputs"), "x");
  REQUIRE(x != nullptr);
  CHECK(std::get<SourcePtr>(x->value.value)->text() == "f32[2@tp, 2]");
}

TEST_CASE("B-31 a scenario that is right is not shrunk") {
  const Scenario right = test::scenario_of(scenario("y = x * 2.0\n"));
  CHECK_THROWS_WITH_AS(shrink(right, kOptions),
                       doctest::Contains("nothing is wrong, so there is nothing to shrink"), Error);
}

TEST_CASE("B-31 a smaller scenario expects its failure, and fails so") {
  const Scenario given = test::scenario_of(
      scenario(std::string("a = u + 1.0\n") + kWrong + "b = x.relu()\n", kReference));
  const Shrunk shrunk = shrink(given, kOptions);
  CHECK(!shrunk.out_of_time);
  CHECK(shrunk.lines_after < shrunk.lines_before);
  const Scenario small = test::scenario_of(shrunk.text);
  CHECK(small.inputs.size() == 1);
  CHECK(small.program->body.size() == 1);
  const ScenarioResult result = run_scenario(small, all_ops(), {});
  CHECK(result.met());
  CHECK(symptom_of(result).is_like(shrunk.failure));
}
