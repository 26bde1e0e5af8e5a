// Recorded training steps as they are stored: the promises of the replay and the re-mesh, each of
// which finds a change in the file.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "base/program_path.h"
#include "dispatch/all_ops.h"
#include "sim/capture/sequence_dims.h"
#include "sim/capture/step_scenario.h"
#include "sim/recorded/program_player.h"
#include "sim/recorded/step_blame.h"
#include "sim/recorded/step_replay.h"
#include "sim/recorded/step_self_test.h"
#include "sim/run/one_device.h"
#include "sim/scenario/scenario_file.h"
#include "tensor/device.h"

using namespace shardlab;

namespace {

// Above the program, which is built inside of the repository.
StepRecording stored(const std::string& name) {
  namespace fs = std::filesystem;
  const std::string file = "tests/golden/recordings/" + name + ".json.gz";
  fs::path folder = program_path().parent_path();
  while (!fs::exists(folder / file) && folder != folder.root_path()) folder = folder.parent_path();
  return read_step((folder / file).string());
}

StepRecording recorded(const std::string& name) { return stored(name + "__2.15.0"); }

// The nth event of this kind and op, as it may be changed.
Json& event_of(StepRecording& recording, const std::string& kind, const std::string& op,
               int skipped = 0) {
  for (Json& event : recording.events) {
    if (event.at("k") != kind || (!op.empty() && event.value("op", "") != op)) continue;
    if (skipped-- == 0) return event;
  }
  FAIL("no such event");
  return recording.events[0];
}

StepSelfTest self_test_of(const StepRecording& recording) {
  const StepProgram program = program_of(recording);
  const StepMesh one = {{"all", 1}};
  const std::string text = step_scenario(program, one, plan_of(program, one, "", {}));
  const auto file = ScenarioFile::read(std::make_shared<SourceText>(recording.path, text), {});
  return self_test(program, *run_first_alone(file.at(file.points().front()), all_ops()));
}

}  // namespace

TEST_CASE("B-28 every result of a recorded step, on every rank, is the recorded one") {
  for (const char* name : {"two_batches", "ranks/mlp_tp_2", "ranks/by_hand_2", "ranks/chain_3"}) {
    CAPTURE(name);
    const StepReplay replay = replay_step(recorded(name));
    CHECK(replay.ok());
    CHECK(replay.differences.empty());
    CHECK(replay.skipped == 0);
    CHECK(replay.agree > 50);
  }
}

TEST_CASE("B-32 the first value that another program made wrong is named, with its mending edit") {
  const StepRecording right = stored("mistakes/tp_one");
  const StepBlame healthy = blame_steps(right, stored("mistakes/tp_none"));
  CHECK(healthy.compared > 50);
  CHECK(healthy.wrong.empty());
  const StepBlame blame = blame_steps(right, stored("mistakes/tp_no_sum_of_down"));
  REQUIRE(blame.found());
  CHECK(blame.wrong[0].point.name == "blocks.1.down");
  CHECK(!blame.wrong[0].follows);
  REQUIRE(!blame.edits.empty());
  CHECK(blame.edits[0].text.starts_with("dist.all_reduce(y)"));
}

TEST_CASE("B-28 a replay holds no value that no later event names") {
  for (const char* name :
       {"llama__2.15.0", "ranks/llama_tp_4__2.15.0", "ranks/pipeline_2__2.15.0"}) {
    CAPTURE(name);
    const StepRecording recording = stored(name);
    std::size_t most = 0, last = 0;
    replay_step(recording, [&](std::size_t, const ProgramPlayer& player) {
      last = 0;
      for (std::size_t number = 0; number < recording.values; ++number) {
        last += player.value(number).defined() ? 1 : 0;
      }
      most = std::max(most, last);
    });
    CHECK(most < recording.values / 2);
    CHECK(last < recording.values / 20);
  }
}

TEST_CASE("B-28 a replay that has no memory says so at the event, and finds no difference") {
  StepRecording recording = recorded("two_batches");
  Json& event = event_of(recording, "local_op", "aten.relu.default");
  event["op"] = "aten.zeros.default";
  event["args"] = Json::array({Json::array({std::int64_t{1} << 50})});
  try {
    replay_step(recording);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(is_out_of_memory(error));
    REQUIRE(error.find("event") != nullptr);
    CHECK(error.find("event")->starts_with(std::to_string(&event - recording.events.data() + 1)));
  }
}

TEST_CASE("B-28 a number that is not PyTorch's is a difference at its event") {
  StepRecording recording = recorded("two_batches");
  Json& event = event_of(recording, "local_op", "aten.relu.default");
  event["out"][0]["fp"] = {1.5, 7.5};
  const StepReplay replay = replay_step(recording);
  REQUIRE(!replay.differences.empty());
  CHECK(replay.differences[0].op == "aten.relu.default");
  CHECK(!replay.ok());
}

TEST_CASE("B-28 memory that an op without a row wrote, or one on its result, is not compared") {
  // rows = zeros(2, 2); row = rows[0]; row += nosuch(row); rows.t()
  const auto value = [](int number, const Json& shape, const Json& print) {
    return Json{{"v", number}, {"shape", shape}, {"dtype", "f32"}, {"local", true}, {"fp", print}};
  };
  const auto op = [](const char* name, const Json& args, const Json& out) {
    return Json{{"k", "local_op"}, {"op", name}, {"args", args}, {"out", Json::array({out})}};
  };
  const Json v0 = {{"v", 0}}, v1 = {{"v", 1}}, v2 = {{"v", 2}}, size = {2, 2};
  Json rows = value(0, size, {0.0, 0.0});
  rows.update({{"k", "const"}, {"raw", {0, 16}}});
  StepFile file{.path = "rows", .lines = {}, .raw = std::string(16, '\0')};
  const std::vector<Json> events = {
      {{"k", "program"},
       {"form", "recording"},
       {"schema", 2},
       {"program", "rows"},
       {"torch", "2.15.0"},
       {"rank", 0},
       {"world", 1},
       {"backend", "none"},
       {"levels", {"op"}},
       {"values", "fp"}},
      rows,
      op("aten.select.int", {v0, 0, 0}, value(1, {2}, {0.0, 0.0})),
      op("aten.nosuch.default", Json::array({v1}), value(2, {2}, {2.0, 3.0})),
      op("aten.add_.Tensor", {v1, v2}, value(1, {2}, {2.0, 3.0})),
      op("aten.t.default", Json::array({v0}), value(3, size, {2.0, 4.0})),
      {{"k", "end"}, {"events", 7}, {"n_values", 4}, {"raw", 16}, {"refused", Json::object()}}};
  for (const Json& event : events) file.lines.push_back(event.dump());
  const StepReplay replay = replay_step(read_step(std::move(file)));
  CHECK(replay.differences.empty());
  CHECK(replay.skipped == 2);
}

TEST_CASE("B-28 messages meet: one that is not sent, or not received, is a difference") {
  for (const char* op : {"c10d.send.default", "c10d.recv_.default"}) {
    CAPTURE(op);
    StepRecording recording = recorded("ranks/chain_3");
    event_of(recording, "coll", op, 1) = {{"k", "wait"}};
    bool found = false;
    for (const StepDifference& one : replay_step(recording).differences) {
      found = found || one.field == "message";
    }
    CHECK(found);
  }
}

TEST_CASE("B-29 a recorded step has PyTorch's values, gradients and parameters on one rank") {
  const StepSelfTest test = self_test_of(recorded("two_batches"));
  CHECK(test.ok());
  CHECK(test.values > 5);
  CHECK(test.gradients == 4);
  CHECK(test.parameters == 4);
}

TEST_CASE("B-29 an optimizer with another rate, and another gradient, are found") {
  StepRecording rate = recorded("two_batches");
  Json& update = event_of(rate, "local_op", "aten.addcdiv_.default");
  update["kwargs"]["value"] = -4.0;
  CHECK(!self_test_of(rate).ok());
  StepRecording gradient = recorded("two_batches");
  for (Json& event : gradient.events) {
    if (event.at("k") == "check" && event.value("pass", "") == "bwd") event["fp"] = {9.0, 9.0};
  }
  CHECK(!self_test_of(gradient).ok());
}

TEST_CASE("the sequence is found behind a mask that the program writes to") {
  const Json event = {{"args", Json::array()}};
  const auto call = [&](const char* op, std::vector<std::size_t> takes, std::size_t out) {
    StepStatement statement{.event = &event, .op = op};
    statement.takes = std::move(takes);
    statement.outs = {out};
    return statement;
  };
  enum { kQueries, kKeys, kMask, kValues, kScores, kMasked, kWeights, kResult };
  StepProgram program;
  for (const auto& [value, shape] : std::map<std::size_t, Dims>{{kQueries, {4, 6, 8}},
                                                                {kKeys, {4, 8, 6}},
                                                                {kMask, {6, 6}},
                                                                {kValues, {4, 6, 8}},
                                                                {kScores, {4, 6, 6}},
                                                                {kMasked, {4, 6, 6}},
                                                                {kWeights, {4, 6, 6}},
                                                                {kResult, {4, 6, 8}}}) {
    program.metas[value] = contiguous_meta(shape, DType::kF32);
  }
  program.statements = {call("aten.masked_fill_.Scalar", {kMask}, kMask),
                        call("aten.matmul.default", {kQueries, kKeys}, kScores),
                        call("aten.add.Tensor", {kMask, kScores}, kMasked),
                        call("aten.softmax.int", {kMasked}, kWeights),
                        call("aten.matmul.default", {kWeights, kValues}, kResult)};
  const auto dims = sequence_dims(program);
  CHECK(dims.at(kQueries) == 1);
  CHECK(dims.at(kKeys) == 2);
  CHECK(dims.at(kResult) == 1);
  program.statements[1].takes.pop_back();  // of a damaged file
  CHECK(sequence_dims(program).empty());
}
