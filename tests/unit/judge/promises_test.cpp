// Conditions of a proof that do not hold, by their lines, and the steps of recordings.
#include <doctest/doctest.h>

#include <filesystem>

#include "base/program_path.h"
#include "dispatch/all_ops.h"
#include "sim/judge/posted_steps.h"
#include "sim/judge/promise_run.h"
#include "sim/recording/recording.h"
#include "sim/replay/played_calls.h"
#include "tests/unit/scenario/scenario_text.h"

namespace shardlab {
namespace {

// A program on three ranks, whose first line is line 7.
Promise promised(const std::string& code) {
  const Scenario scenario = test::scenario_of(
      "[mesh]\nx = 3\n[inputs]\na = \"f32[4]\"\n[program]\ncode = \"\"\"\n" + code + "\"\"\"\n");
  return promise_of(scenario, all_ops(), {}, {});
}

std::string conditions_of(const std::string& code) {
  std::string text;
  for (const OpenCondition& one : promised(code).open) {
    text += one.name + " " + one.text.substr(0, one.text.find(':')) + ";";
  }
  return text;
}

// The fabrics on which a recording of tests/golden/recordings/orders hangs, in their order.
std::string hangs_on(const std::string& name) {
  const std::string file = "tests/golden/recordings/orders/" + name + "__2.15.0.json.gz";
  std::filesystem::path folder = program_path().parent_path();
  while (!std::filesystem::exists(folder / file) && folder.has_relative_path()) {
    folder = folder.parent_path();
  }
  const RecordedProgram program = read_recording((folder / file).string());
  const PlayedCalls played = played_calls(program);
  REQUIRE_FALSE(played.verdict);
  Promise promise = promise_of(played.log, static_cast<std::int64_t>(program.ranks));
  promise.run(false);
  std::string text;
  for (const auto& [transport, outcome] : promise.outcomes) text += outcome.ends() ? '.' : 'x';
  return text;
}

TEST_CASE("B-40 a condition on a sum that rounds is no promise, one on an exact value is") {
  const std::string branch = "if t.sum().item() > 2:\n    dist.all_reduce(t)\n";
  const std::string sum = "t = a.to_local() * 1.0\ndist.all_reduce(t";
  CHECK(conditions_of(sum + ")\n" + branch) == "C2 line 9;");
  CHECK(conditions_of(sum + ", op=dist.ReduceOp.MAX)\n" + branch).empty());
  CHECK(conditions_of("t = a.to_local() * 1.0\n" + branch).empty());
}

TEST_CASE("B-40 ranks that enter a group's collectives in two orders break C3") {
  const std::string code =
      "t = a.to_local() * 1.0\nif rank == 0:\n    dist.all_reduce(t)\n    dist.broadcast(t, 0)\n"
      "else:\n    dist.broadcast(t, 0)\n    dist.all_reduce(t)\n";
  const Promise promise = promised(code);
  REQUIRE(promise.open.size() == 1);
  CHECK(promise.open[0].name == "C3");
  CHECK(promise.open[0].text.find(":9: rank 0 is in all_reduce") != std::string::npos);
}

TEST_CASE("B-40 a recording has the waits, batches and barriers of its program") {
  CHECK(hangs_on("head_on_2") == "..xxxx");
  CHECK(hangs_on("batched_2") == "......");
  CHECK(hangs_on("first_use_4") == "...xxx");
  CHECK(hangs_on("two_groups_2") == "....xx");
  CHECK(hangs_on("before_a_barrier_2") == "...xxx");
}

}  // namespace
}  // namespace shardlab
