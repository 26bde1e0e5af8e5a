// Recorded training steps as they are stored: the promises of the replay and the re-mesh, each of
// which finds a change in the file.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dispatch/all_ops.h"
#include "sim/files/json_value.h"
#include "sim/judge/scenario_run.h"
#include "sim/recording/recording.h"
#include "sim/recording/recording_file.h"
#include "sim/remesh/mesh_graph.h"
#include "sim/remesh/sequence_dims.h"
#include "sim/remesh/writes.h"
#include "sim/replay/recorded_types.h"
#include "sim/replay/replay.h"
#include "sim/replay/self_test.h"
#include "sim/replay/watch.h"
#include "sim/run/one_device.h"
#include "sim/scenario/scenario_file.h"
#include "tensor/device.h"
#include "tensor/host.h"
#include "tests/unit/replay/stored.h"

using namespace shardlab;
using test::path_of, test::recorded, test::stored;

namespace {

// A file whose events may be changed before they are read.
struct Changed {
  RecordingFile file;

  explicit Changed(const std::string& name)
      : file(read_recording_file(path_of(name + "__2.15.0"))) {}

  // Changes the events of this kind and op, or the nth alone; returns the line of the last.
  template <typename Change>
  std::size_t each(const std::string& kind, const std::string& op, const Change& change,
                   int only = -1) {
    std::size_t line = 0;
    int met = 0;
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      Json event = Json::parse(file.lines[i]);
      if (event.at("k") != kind || (!op.empty() && event.value("op", "") != op)) continue;
      if (only >= 0 && met++ != only) continue;
      change(event);
      file.lines[i] = event.dump();
      line = i + 1;
    }
    REQUIRE(line > 0);
    return line;
  }
  template <typename Change>
  std::size_t one(const std::string& kind, const std::string& op, const Change& change,
                  int nth = 0) {
    return each(kind, op, change, nth);
  }
  RecordedProgram read() { return read_recording(std::move(file)); }
};

Scenario on_one_rank(const CallProgram& program) {
  const PlanMesh one = {{"all", 1}};
  const std::string text = mesh_scenario(program, one, plan_of(program, one, "", {}));
  const std::string& path = program.recording->path;
  const auto file = ScenarioFile::read(std::make_shared<SourceText>(path, text), {});
  return file.at(file.points().front());
}

// `others`: the number of runs that round differently; the first is in f64.
SelfTest self_test_of(const RecordedProgram& recording, std::uint64_t others = 0) {
  const CallProgram program = program_of(recording);
  const Scenario scenario = on_one_rank(program);
  const auto alone = run_first_alone(scenario, all_ops());
  SelfTestRuns runs(program);
  runs.take(*alone);
  for (std::uint64_t i = 0; i < others; ++i) {
    const Precision precision = i == 0 ? Precision::kReference : Precision::kDeclared;
    runs.round_as(*run_first_alone(scenario, all_ops(), precision, nullptr, i));
  }
  return runs.test();
}

// The most values that the first rank holds behind an event, and those at the end.
class Counting final : public Watch {
 public:
  using Watch::Watch;
  std::int64_t most = 0, last = 0;

 private:
  void after(std::size_t, ReplayState& state) override {
    last = std::ranges::count_if(state.values(), &DTensor::defined);
    most = std::max(most, last);
  }
};

}  // namespace

TEST_CASE("B-28 every result of a recorded step, on every rank, is the recorded one") {
  for (const char* name : {"two_batches", "turned", "started", "ranks/mlp_tp_2", "ranks/by_hand_2",
                           "ranks/chain_3", "ranks/layouts_2"}) {
    CAPTURE(name);
    const ReplayReport replay = replay_recording(recorded(name));
    CHECK(replay.ok());
    CHECK(replay.differences.empty());
    CHECK(replay.skipped == 0);
    CHECK(replay.agree > 50);
  }
}

TEST_CASE("B-28 the order of equal keys is the file's on another mesh") {
  const RecordedProgram recording = recorded("jumps");
  const CallProgram program = program_of(recording);
  const PlanMesh mesh = {{"tp", 2}};
  const std::string text = mesh_scenario(program, mesh, plan_of(program, mesh, "megatron", {}));
  CHECK(text.find("argsort.default(") == text.npos);
}

TEST_CASE("B-29 writes, moved weights, fused heads and casts are taken to any mesh") {
  const struct {
    const char *name, *plan, *mended, *gone;
    PlanMesh mesh;
  } kCases[] = {
      {"picked", "sequence", "aten.mul.Tensor(Relative_slice_2, mask)", "mul_.", {{"tp", 4}}},
      {"picked", "fsdp+tp", "= aten.scatter_add.default(", "scatter_add_.", {{"dp", 2}, {"tp", 2}}},
      {"standard", "megatron", "_0_reshape_moved", "view.default(", {{"tp", 3}}},
      {"flattened", "megatron", "cross_entropy_loss.default(", "log_softmax", {{"tp", 2}}},
      {"fused", "megatron", "qkv_moved = qkv.redistribute(tp=R)", "view.default(", {{"tp", 3}}},
      {"clamped", "fsdp", "", "view.default(", {{"dp", 3}}},
      {"clamped", "megatron", "", "view.default(", {{"tp", 3}}},
      {"started", "fsdp", "clamp_.default(detach(outer)", "1j", {{"dp", 3}}},
      {"started", "megatron", "aten.complex.default(", "1j", {{"tp", 3}}},
      {"started", "sequence", "to.requires_grad_()", "1j", {{"tp", 4}}},
      {"time_first", "sequence", "", "view.default(", {{"dp", 2}, {"tp", 2}}},
  };
  for (const auto& [name, plan, mended, gone, mesh] : kCases) {
    CAPTURE(name);
    CAPTURE(plan);
    const RecordedProgram recording = recorded(name);
    CallProgram program = program_of(recording);
    renew_written(program);
    const std::string text = mesh_scenario(program, mesh, plan_of(program, mesh, plan, {}));
    CHECK(text.find(mended) != text.npos);
    CHECK(text.find(gone) == text.npos);
    const auto file = ScenarioFile::read(std::make_shared<SourceText>(recording.path, text), {});
    const Scenario scenario = file.at(file.points().front());
    ScenarioOptions options;
    options.alone = run_first_alone(scenario, all_ops());
    const ScenarioResult result = run_scenario(scenario, all_ops(), options);
    CHECK(result.met());
    CHECK(result.judgement.values.size() > 10);
    CHECK(self_test_of(recording, 1).ok());
  }
}

TEST_CASE("B-28 a replay holds no value that no later event names") {
  for (const char* name :
       {"llama__2.15.0", "ranks/llama_tp_4__2.15.0", "ranks/pipeline_2__2.15.0"}) {
    CAPTURE(name);
    const RecordedProgram recording = stored(name);
    const PlayedGraph graph = played_graph(recording);
    RecordedWorld world(recording, replay_settings());
    SeenTable seen(recording, world.ranks());
    const auto ranks = world.watches<Counting>(graph, seen);
    REQUIRE(world.play(graph, ranks).ok());
    CHECK(ranks[0]->most < recording.values / 2);
    CHECK(ranks[0]->last < recording.values / 20);
  }
}

TEST_CASE("B-28 a replay that has no memory says so at the event, and finds no difference") {
  Changed changed("two_batches");
  const std::size_t line = changed.one("local_op", "aten.relu.default", [](Json& event) {
    event["op"] = "aten.zeros.default";
    event["args"] = Json::array({Json::array({std::int64_t{1} << 50})});
  });
  try {
    replay_recording(changed.read());
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(is_out_of_memory(error));
    REQUIRE(error.find("event") != nullptr);
    CHECK(error.find("event")->starts_with(std::to_string(line)));
  }
}

TEST_CASE("B-28 a number that is not PyTorch's is a difference at its event") {
  Changed changed("two_batches");
  const std::size_t line = changed.one("local_op", "aten.relu.default", [](Json& event) {
    event["out"][0]["fp"] = {1.5, 7.5};
  });
  const ReplayReport replay = replay_recording(changed.read());
  REQUIRE(!replay.differences.empty());
  CHECK(replay.differences[0].op == "aten.relu.default");
  CHECK(replay.differences[0].line == line);
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
  RecordingFile file{.path = "rows", .lines = {}, .raw = std::string(16, '\0')};
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
  const ReplayReport replay = replay_recording(read_recording(std::move(file)));
  CHECK(replay.differences.empty());
  CHECK(replay.skipped == 2);
}

TEST_CASE("B-28 messages meet: one that is not sent, or not received, is a difference") {
  for (const char* op : {"c10d.send.default", "c10d.recv_.default"}) {
    CAPTURE(op);
    Changed changed("ranks/chain_3");
    changed.one(
        "coll", op,
        [](Json& event) {
          event = {{"k", "wait"}};
        },
        1);
    bool found = false;
    for (const ReplayDifference& one : replay_recording(changed.read()).differences) {
      found = found || one.field == "message";
    }
    CHECK(found);
  }
}

TEST_CASE("B-29 a recorded step has PyTorch's values, gradients and parameters on one rank") {
  const SelfTest test = self_test_of(recorded("two_batches"));
  CHECK(test.ok());
  CHECK(test.values > 5);
  CHECK(test.gradients == 4);
  CHECK(test.parameters == 4);
  const SelfTest shifted = self_test_of(recorded("standard"));
  CHECK(shifted.ok());
  CHECK(shifted.undecided == 2);  // a gradient that is the rounding of 0, and its step
}

TEST_CASE("B-29 an optimizer with another rate, and another gradient, are found") {
  Changed rate("two_batches");
  rate.one("local_op", "aten.addcdiv_.default",
           [](Json& event) { event["kwargs"]["value"] = -4.0; });
  CHECK(!self_test_of(rate.read()).ok());
  Changed gradient("two_batches");
  gradient.each("check", "", [](Json& event) {
    if (event.value("pass", "") == "bwd") event["fp"] = {9.0, 9.0};
  });
  CHECK(!self_test_of(gradient.read()).ok());
}

TEST_CASE("B-29 a gradient that is off by one in a hundred is found, however others round") {
  Changed off("two_batches");
  off.each("check", "", [](Json& event) {
    if (event.value("pass", "") != "bwd") return;
    for (Json& number : event["fp"]) number = number.get<double>() * 1.01;
  });
  const RecordedProgram recording = off.read();
  CHECK(self_test_of(recording).differences.size() == 4);
  CHECK(self_test_of(recording, 7).differences.size() == 4);
  CHECK(self_test_of(recorded("standard"), 7).ok());
}

TEST_CASE("B-29 nudged inputs of f32 are off by roundings, the same with one seed") {
  const RecordedProgram recording = recorded("two_batches");
  const CallProgram program = program_of(recording);
  const Scenario scenario = on_one_rank(program);
  const auto losses = [&](std::uint64_t nudge) {
    const auto run = run_first_alone(scenario, all_ops(), Precision::kDeclared, nullptr, nudge);
    std::vector<double> all;
    for (const RecordedValue& value : run->runs.recordings.at(0)->values()) {
      if (value.name.ends_with("_after")) {
        for (const double element : read_doubles(value.value.local())) all.push_back(element);
      }
    }
    return all;
  };
  const auto own = losses(0), first = losses(1), second = losses(2);
  REQUIRE(own.size() > 10);
  CHECK(first == losses(1));
  CHECK(first != second);
  std::size_t off = 0;
  for (std::size_t i = 0; i < own.size(); ++i) {
    off += first[i] != own[i];
    CHECK(std::fabs(first[i] - own[i]) <= 1e-5 * std::max(1.0, std::fabs(own[i])));
  }
  CHECK(off > own.size() / 2);
}

TEST_CASE("the sequence is found behind a mask that the program writes to") {
  const RecordedEvent event;
  const auto call = [&](const char* op, std::vector<std::int32_t> takes, std::int32_t out) {
    Statement statement{.event = &event, .op = op};
    statement.takes = std::move(takes);
    statement.outs = {out};
    return statement;
  };
  enum { kQueries, kKeys, kMask, kValues, kScores, kMasked, kWeights, kResult };
  CallProgram program;
  for (const auto& [value, shape] : std::map<std::int32_t, Dims>{{kQueries, {4, 6, 8}},
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
  CHECK(dims.at(kQueries).dim == 1);
  CHECK(dims.at(kKeys).dim == 2);
  CHECK(dims.at(kResult).dim == 1);
  program.statements[1].takes.pop_back();  // of a damaged file
  CHECK(sequence_dims(program).empty());
}

TEST_CASE("V-42 claims and moves of a recording hold, and each that is changed is found") {
  const RecordedProgram one = stored("typed/llama_1");
  const RecordedProgram ranks = stored("typed/llama_4");
  const TypesJudgement right = judge_types(ranks, &one);
  CHECK(right.judged == 42);
  CHECK(right.wrong.empty());
  struct Row {
    const char *call, *dim, *from, *to, *expected;
    bool alone;  // the values of the ranks tell it
  };
  const Row rows[] = {
      {"assert_type", "tp", "S(0)", "R", "R along tp: equal values", true},
      {"assert_type", "tp", "I", "R", "R along tp: gradients that are terms", true},
      {"assert_type", "dp", "R", "P", "P along dp, I along tp: the value of one process", false},
      {"assert_type", "tp", "S(1)", "S(0)", "R along dp, S(0) along tp: the value of one", false},
      {"all_reduce", "tp", "P", "R", "R along tp: equal values before", true},
      {"all_reduce", "tp", "I", "R", "R along tp: gradients that are terms", true},
      {"all_gather", "tp", "S(2)", "S(1)", "S(1) to I along tp: the same whole", true},
  };
  for (const Row& row : rows) {
    RecordedProgram changed = ranks;
    std::size_t line = 0;
    for (RecordedEvent& event : changed.events) {
      if (event.kind != RecordedKind::kTyped || event.name != row.call || line != 0) continue;
      for (RecordedType& type : event.types) {
        if (type.dim != row.dim || to_string(type.type) != row.from || line != 0) continue;
        type.type = *parse_spmd_type(row.to);
        line = event.line;
      }
    }
    CAPTURE(row.expected);
    const auto wrong = judge_types(changed, &one).wrong;
    REQUIRE(wrong.size() == 1);
    CHECK(wrong[0].line == line);
    CHECK(wrong[0].expected.starts_with(row.expected));
    CHECK(judge_types(changed).wrong.empty() != row.alone);
  }
}

TEST_CASE("V-42 replicas that part in the step, and a sum that is added twice, are found") {
  RecordedProgram right = stored("mistakes/step/none"), one = right;
  for (RecordedEvent& event : one.events) event.types.clear();  // as one process has them
  CHECK(judge_types(right, &one).wrong.empty());
  for (const auto& [name, got] : {std::pair("left_out", "a term on each rank"),
                                  {"twice", "the sum, of step.py:24: it is added twice"}}) {
    const auto wrong = judge_types(stored(fmt::format("mistakes/step/{}", name))).wrong;
    CHECK((wrong.size() == 1 && wrong[0].got.ends_with(got)));
  }
}

TEST_CASE("V-42 types of calls are those that one process tells, and open without it") {
  const RecordedProgram one = stored("typed/llama_1");
  const RecordedProgram ranks = stored("typed/llama_4");
  std::map<std::string, std::string> found, open;
  for (const auto& [program, types] :
       {std::pair(&one, &found), {static_cast<const RecordedProgram*>(nullptr), &open}}) {
    for (const InferredType& value : types_of_recording(ranks, program).values) {
      types->emplace(fmt::format("{} {}", value.name, value.held),
                     fmt::format("{} {}", value.types.at(0), value.types.at(1)));
    }
  }
  // Features are cut by tp, a row-parallel product is a term; by the text of llama.py.
  CHECK(found.at("llama.py silu f32[2, 6, 12]") == "S(0) S(2)");
  CHECK(found.at("llama.py all_reduce f32[2, 6, 16]") == "S(0) I");
  CHECK(found.at("llama.py all_gather f32[2, 6, 32]") == "S(0) I");
  CHECK(found.at("llama.py convert f32[2, 6, 16]") == "S(0) R");
  CHECK(open.at("llama.py silu f32[2, 6, 12]") == "? ?");
  CHECK(open.at("llama.py all_reduce f32[2, 6, 16]") == "? I");
  CHECK_THROWS(types_of_recording(one, nullptr));
}
