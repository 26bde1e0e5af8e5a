// The run is one of a scenario without a program; in its place each rank runs the calls of the
// lines. An input on the whole mesh is an input of the graph; any other is a constant.
#include "sim/capture/recorded_capture.h"

#include <algorithm>
#include <cctype>
#include <mutex>
#include <stdexcept>

#include "autograd/program.h"
#include "base/fix.h"
#include "sim/capture/input_recipe.h"
#include "sim/capture/recorded_form.h"
#include "sim/capture/recorded_json.h"
#include "sim/capture/recorders.h"
#include "sim/record/text_lines.h"
#include "sim/run/inputs.h"
#include "sim/run/program_run.h"

namespace shardlab {

namespace {

[[noreturn]] void refuse_line(const std::string& path, std::size_t line, const std::string& why) {
  fail(ErrorKind::kValue,
       Fix{"record the program again: tests/golden/facts/programs/README.md has the form"},
       "{}:{}: not a line of a recording: {}", path, line, why);
}

bool is_input_of_graph(const Json& event) {
  return event.at("k") == "input" && !event.value("local", false) && !event.contains("mesh");
}

Scalar element(double value, DType dtype) {
  if (is_integral(dtype)) return static_cast<std::int64_t>(value);
  return value;
}

// As a program could call it, and no two alike: "net1.weight" is net1_weight.
std::string input_name(const Json& event, const ProgramGraph& graph) {
  std::string name = event.at("name").get<std::string>();
  for (char& letter : name) {
    const bool fits = std::isalnum(static_cast<unsigned char>(letter)) != 0;
    if (!fits) letter = '_';
  }
  const bool taken = std::ranges::find(graph.nodes, name, &GraphNode::name) != graph.nodes.end();
  const bool begins = !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0;
  if (begins && !taken) return name;
  return fmt::format("{}_v{}", begins ? name : "input", integer_of<std::size_t>(event.at("v")));
}

GraphNode input_node(const Json& event, bool shapes_only, const ProgramGraph& graph) {
  GraphNode node;
  node.kind = NodeKind::kInput;
  node.name = input_name(event, graph);
  ValueType type;
  type.dtype = dtype_of(event.at("dtype"));
  type.shape = dims_of(event.at("shape"));
  type.stride = contiguous_strides(type.shape);
  type.mesh = 0;
  type.placements = placements_of(event.at("placements"));
  type.order = default_order(type.placements);
  if (is_complex(type.dtype)) {
    fail(ErrorKind::kUnsupported, Fix{"check it: shardlab replay FILE runs every call"},
         "the input '{}' is complex, which a graph's inputs are not", node.name);
  }
  node.recipe.init = shapes_only ? "zeros" : "values";
  if (!shapes_only) {
    for (const double value : recorded_elements(event, type.dtype, product(type.shape))) {
      node.recipe.values.push_back(element(value, type.dtype));
    }
  }
  node.results = {{ValueRef{}, std::move(type)}};
  return node;
}

void read_line(const Json& event, RecordedProgram& recording, std::vector<bool>& taken) {
  if (is_input_of_graph(event)) {
    recording.given.nodes.push_back(
        input_node(event, recording.backend == "fake", recording.given));
  }
  for_each_operand(event, [&](std::size_t number) { taken.at(number) = true; });
  if (event.at("k") == "check") recording.kept.push_back(integer_of<std::size_t>(event.at("v")));
}

// A capture in the JSON form has the same begin, and a field that shows it.
bool begins_recording(const std::string& line) {
  return line.find("\"k\":\"program\"") != std::string::npos &&
         line.find("\"form\":\"capture\"") == std::string::npos;
}

ProgramGraph begun(const std::string& path, const Json& program) {
  ProgramGraph graph;
  graph.title = program.at("program").get<std::string>();
  graph.file = path;
  GraphMesh mesh;
  mesh.shape = dims_of(program.at("mesh"));
  mesh.names = program.at("mesh_dim_names").get<std::vector<std::string>>();
  graph.world = product(mesh.shape);
  graph.meshes = {std::move(mesh)};
  graph.policies.implicit = "allow";
  return graph;
}

// One rank's program.
class RecordedRank {
 public:
  RecordedRank(const RecordedProgram& recording, const MeshLayout* mesh,
               const std::vector<GivenInput>& given)
      : recording_(recording),
        mesh_(mesh),
        given_(given),
        values_(recorded_values(recording.lines.at(0))) {
    current_rank().mixed = MixedTensors::kReplicate;  // as under implicit_replication()
  }

  void run() {
    for (std::size_t line = 1; line < recording_.lines.size(); ++line) {
      const Json& event = recording_.lines[line];
      if (event.is_null()) continue;
      current_rank().position = {recording_.path.c_str(), static_cast<std::int32_t>(line + 1), 1};
      if (event.at("k") != "check") run_line(event, line + 1);
    }
  }

  std::vector<DTensor> kept() const {
    std::vector<DTensor> kept;
    for (const std::size_t number : recording_.kept) kept.push_back(values_.at(number));
    return kept;
  }

 private:
  // A file can ask for calls that no program can write.
  void run_line(const Json& event, std::size_t line) {
    const auto refuse = [&](const std::string& what) { refuse_line(recording_.path, line, what); };
    try {
      read_or_refuse([&] { run(event); }, refuse);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInternal) throw;
      refuse(error.summary());
    }
  }

  void run(const Json& event) {
    if (is_input_of_graph(event)) {
      values_.at(integer_of<std::size_t>(event.at("v"))) = given_.at(next_input_++).value;
      return;
    }
    check(event);
    if (event.contains("mesh") && event.at("k") == "input") {
      const auto names = event.at("mesh").get<std::vector<std::string>>();
      const Coordinate here = *mesh_->coordinate_of(current_rank().rank);
      program_calls().perform(MeshEvent{slice_layout(mesh_, names, here), {}});
    }
    keep_recorded(event, run_recorded(event, mesh_, values_), values_);
  }

  void check(const Json& event) const {
    const bool calls = event.at("k") == "op" || event.at("k") == "local_op";
    const std::string op = calls ? event.at("op").get<std::string>() : "";
    if (calls && recorded_row(event) == nullptr) {
      fail(ErrorKind::kUnsupported, Fix{"shardlab ops lists the ops that are there"},
           "{} does not exist here", op);
    }
    for_each_operand(event, [&](std::size_t number) {
      if (values_.at(number).defined()) return;
      fail(ErrorKind::kValue, Fix{"see tests/golden/facts/programs/README.md"},
           "nothing has given value {}", number);
    });
  }

  const RecordedProgram& recording_;
  const MeshLayout* mesh_;
  const std::vector<GivenInput>& given_;
  std::vector<DTensor> values_;
  std::size_t next_input_ = 0;
};

}  // namespace

std::optional<RecordedProgram> recording_of_file(const std::string& path) {
  return read_recording(path, read_lines(path));
}

std::optional<RecordedProgram> read_recording(const std::string& path,
                                              const std::vector<std::string>& lines) {
  if (!begins_recording(lines[0])) return std::nullopt;
  RecordedProgram recording{
      .path = path, .lines = {}, .backend = "threads", .given = {}, .kept = {}};
  std::vector<bool> taken;
  std::optional<RecordedForm> form;
  for (const std::string& line : lines) {
    const Json& event = recording.lines.emplace_back();
    try {
      if (!line.empty()) recording.lines.back() = parsed_json(line);
      if (recording.lines.size() == 1) {
        form.emplace(event);
        if (event.at("backend") == "fake") recording.backend = "fake";
        recording.given = begun(path, event);
        taken.resize(recorded_values(event));
      } else if (!event.is_null()) {
        form->check(event);
        read_line(event, recording, taken);
      }
    } catch (const Json::parse_error& error) {  // the error's text has the wrong bytes
      refuse_line(path, recording.lines.size(), fmt::format("no JSON from byte {} on", error.byte));
    } catch (const std::exception& error) {
      refuse_line(path, recording.lines.size(), error.what());
    }
  }
  if (recording.kept.empty()) {
    for (std::size_t i = 0; i < taken.size(); ++i) {
      if (!taken[i]) recording.kept.push_back(i);
    }
  }
  std::ranges::sort(recording.kept);
  return recording;
}

Captured capture_recording(const RecordedProgram& recording, const OpRegistry& registry,
                           const ScenarioOptions& options, const RankChoice& ranks) {
  refuse_processes(options);
  Captured captured{.run = prepare_run(scenario_of(recording.given), registry, options),
                    .graphs = {},
                    .of_ranks = {}};
  ProgramRun program;
  std::mutex mutex;
  std::vector<std::vector<DTensor>> kept;  // until the recorders have seen the final values
  program.body = [&](const RunsFor&, const std::vector<GivenInput>& given) {
    RecordedRank rank(recording, program.layout, given);
    rank.run();
    const std::lock_guard lock(mutex);
    kept.push_back(rank.kept());
  };
  Recorders recorders(captured.run.layout);
  run_on_ranks(captured.run, &recorders, program);
  captured.graphs = graphs_of(captured.run, recorders, ranks, &captured.of_ranks);
  return captured;
}

}  // namespace shardlab
