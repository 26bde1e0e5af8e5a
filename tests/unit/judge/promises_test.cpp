// Conditions of a proof that do not hold, by their lines, and the steps of recordings.
#include <doctest/doctest.h>

#include <algorithm>

#include "dispatch/all_ops.h"
#include "sim/judge/posted_steps.h"
#include "sim/judge/promise_run.h"
#include "sim/recording/recording.h"
#include "sim/replay/played_calls.h"
#include "sim/replay/recorded_world.h"
#include "sim/replay/replay.h"
#include "tests/unit/replay/stored.h"
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

RecordedProgram recorded(const std::string& name) { return test::recorded("orders/" + name); }

// The fabrics on which a recording hangs, in their order.
std::string hangs_on(const RecordedProgram& program) {
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
  CHECK(hangs_on(recorded("head_on_2")) == "..xxxx");
  CHECK(hangs_on(recorded("batched_2")) == "......");
  CHECK(hangs_on(recorded("first_use_4")) == "...xxx");
  CHECK(hangs_on(recorded("two_groups_2")) == "....xx");
  CHECK(hangs_on(recorded("before_a_barrier_2")) == "...xxx");
  // Both ranks wait for their send, and only then post the receive.
  RecordedProgram waits = recorded("head_on_2");
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    const auto of_rank = [&](const auto& fits) {
      return std::ranges::find_if(waits.events, [&](const RecordedEvent& event) {
        return event.rank == rank && fits(event);
      });
    };
    const auto received =
        of_rank([](const RecordedEvent& event) { return event.op == "c10d.recv_.default"; });
    const auto wait = of_rank([](const RecordedEvent& event) { return event.of == 0U; });
    REQUIRE((received < wait));
    std::rotate(received, wait, wait + 1);
  }
  CHECK(hangs_on(waits) == ".xxxxx");
}

TEST_CASE("B-40 two groups of a recording with the same ranks are two communicators") {
  CHECK(hangs_on(recorded("other_calls_2")) == "....xx");
  CHECK(hangs_on(recorded("other_group_2")) == "....xx");
  for (const char* name : {"other_calls_2", "other_group_2", "two_groups_2"}) {
    const ReplayReport report = replay_recording(recorded(name), replay_settings());
    CHECK_MESSAGE(report.ok(), replay_text(recorded(name), report));
  }
}

// The reference has as many of this schedule: InterleavedZeroBubble, 2 ranks, 4 microbatches.
TEST_CASE("B-40 a recording's messages know what they are, and which receive gets another one") {
  for (const auto& [name, count] : {std::pair{"deferred_2", 4}, std::pair{"schedule_2", 0}}) {
    const RecordedProgram program = recorded(name);
    const PlayedCalls played = played_calls(program);
    const Promise promise = promise_of(played.log, 2);
    CHECK(std::ssize(promise.wrong) == count);
    const ReplayReport report = replay_recording(program, replay_settings());
    CHECK(std::ranges::count(report.differences, "message", &ReplayDifference::field) == count);
  }
}

}  // namespace
}  // namespace shardlab
