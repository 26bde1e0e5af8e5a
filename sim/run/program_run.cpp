// One rank's run: inputs are made, the program runs with an observer and a recording, and its final
// values are recorded at the end. All worlds of a verdict (the mesh, the single device, f64) pass
// through here and differ in ProgramRun's fields only.
#include "sim/run/program_run.h"

#include <zlib.h>
#include <algorithm>
#include <map>

#include <filesystem>
#include <thread>

#include "api/mesh.h"
#include "autograd/grad_node.h"
#include "backends/fake/shape_device.h"
#include "base/rank_context.h"
#include "base/text.h"
#include "comm/device_mesh.h"
#include "mesh/mesh_views.h"
#include "mesh/seen_mesh.h"
#include "mesh/type_string.h"
#include "propagate/propagator.h"
#include "sim/log/event_log.h"
#include "sim/log/marks.h"
#include "sim/run/process_records.h"
#include "sim/types/typed_program.h"
#include "sim/world/world.h"

namespace shardlab {

namespace {

// Runs a program once for each class, and merges classes whose runs were the same. Classes are
// split before the run at every possible difference of pieces, which is sometimes finer than
// needed; two classes are reported as one when everything a report shows of them is equal:
// decisions, collectives, printed lines, shapes and memory.

bool passes_messages(const Trace& trace) {
  const CollectiveCounts& counts = trace.counts();
  return counts.total(CollectiveKind::kSend) + counts.total(CollectiveKind::kRecv) > 0;
}

// Everything that a report shows of one class. Classes with equal texts did the same: they were
// separate before the run only because their pieces might have differed.
std::string seen_by(const ProgramRun& run, std::size_t index) {
  const Trace& trace = run.traces[index];
  // Partners are not in the log: classes that pass messages are never merged.
  if (passes_messages(run.traces.front()) || passes_messages(trace)) {
    return fmt::format("class {}\n", index);
  }
  const PeakReport peak = peak_of(run.accounts[index]);
  std::string text =
      fmt::format("{} B for {} at {}\n", peak.bytes, text_of_list(peak.held, ", "), peak.line);
  text += decision_log(trace.events()) + collective_log(trace.events());
  for (const PrintedLine& line : run.recordings[index].lines()) text += line.text + "\n";
  for (const RecordedValue& value : run.recordings[index].values()) {
    text += fmt::format("{} [{}]\n", value.key(), text_of_list(value.value.local().shape(), ","));
  }
  return text;
}

// The entries of the classes that the result has. Classes that did the same became one: its entry
// is that of the first.
template <typename T>
std::vector<T> picked(std::vector<T>& all, const std::vector<RankClass>& classes) {
  std::vector<T> kept;
  kept.reserve(classes.size());
  for (const RankClass& ranks : classes) kept.push_back(std::move(all[ranks.index]));
  return kept;
}

// execute() by class; the layout lives in an arena of this run. Private to execute().
void execute_classes(ProgramRun& run, Propagator& propagator, std::int64_t ranks,
                     const ScenarioOptions& options) {
  run.device = make_shape_device();
  WorldOptions world = world_of(run, propagator, ranks, options);
  world.device = [&](std::int64_t) -> Device& { return *run.device; };
  world.seen_by = [&](std::size_t index) { return seen_by(run, index); };
  // Values point to their account, recordings to their trace. A class runs at most twice.
  run.accounts.reserve(2 * world.most_classes);
  run.traces.reserve(2 * world.most_classes);
  run.recordings.reserve(2 * world.most_classes);
  std::int64_t reporter = -1;
  const auto body = [&](RankContext& rank, const RunsFor& runs) {
    if (reporter < 0) reporter = rank.rank;
    // Events that are neither compared nor reported.
    const bool alone = rank.rank != reporter && passes_messages(run.traces.front());
    run.accounts.emplace_back();
    run.recordings.emplace_back(
        &run.traces.emplace_back(alone ? options.other_ranks : TraceDetail::kEvents));
    run.traces.back().tell(options.progress);
    if (options.memory) run.recordings.back().keep_at_most(options.memory->available_bytes);
    run_on_rank(run, rank, runs);
  };
  const WorldResult seen = run_world(std::move(world), RankBody(body));
  take_outcome(run, seen);
  for (const RankClass& ranks : seen.classes) {
    run.classes.push_back({.first_rank = ranks.first_rank,
                           .size = ranks.size,
                           .where = ranks.where,
                           .peak = peak_of(run.accounts[ranks.index]),
                           .sent_bytes = run.traces[ranks.index].counts().bytes()});
    run.memory.peaks.push_back(run.classes.back().peak);
  }
  run.class_of = seen.class_of;
  run.traces = picked(run.traces, seen.classes);
  run.recordings = picked(run.recordings, seen.classes);
}

// The program's final values: every name, and the gradient of every tensor that a name holds. A
// tensor of two names has its gradient reported under the first one: inputs come before others.
void keep_what_is_left(const ProgramRun& run, const Interpreter& interpreter,
                       Recording& recording) {
  const std::vector<std::string> names = interpreter.names();
  for (const std::string& name : names) recording.ends(name, *interpreter.find(name));
  std::vector<DTensor> done;
  const auto keep_gradient = [&](const std::string& name, const Where& where) {
    const Value* value = interpreter.find(name);
    if (value == nullptr || !value->is_tensor()) return;
    const auto& tensor = value->as<DTensor>();
    if (std::ranges::any_of(done, same_as(tensor))) return;
    const DTensor gradient = grad_of(tensor);
    if (!gradient.defined()) return;
    done.push_back(tensor);
    recording.keep({name + ".grad", 0, detached(gradient), where});
  };
  for (const ScenarioInput& input : run.scenario->inputs) keep_gradient(input.name, input.where);
  const Where program{run.scenario->program->source, {}};
  for (const std::string& name : names) {
    const Where* given = recording.where(name);
    keep_gradient(name, given != nullptr ? *given : program);
  }
}

// The curve of memory is that of the program alone.
void run_with_timeline(ProgramRun& run, RankContext& rank, const std::function<void()>& program) {
  const bool of_reporter = run.timeline && rank.rank == run.reporting_rank;
  if (of_reporter) run.timeline->clear();  // a class may run once more
  const ListeningScope scope(*rank.memory, of_reporter ? &*run.timeline : nullptr);
  program();
}

// One for programs on few elements: their kernels take less time than waking a thread.
std::int64_t default_workers(const Scenario& scenario) {
  constexpr std::int64_t kElements = 1 << 20;
  std::int64_t elements = 0;
  for (const ScenarioInput& input : scenario.inputs) elements += product(input.type.sizes);
  return elements < kElements ? 1 : std::max<std::int64_t>(1, std::thread::hardware_concurrency());
}

}  // namespace

PeakReport MemoryReport::largest() const {
  const auto most = std::ranges::max_element(peaks, {}, &PeakReport::bytes);
  return most == peaks.end() ? PeakReport{} : *most;
}

PeakReport peak_of(const MemoryAccount& account) {
  return {.bytes = account.peak_bytes,
          .held = account.at_peak,
          .most = account.most,
          .line = account.peak_position.line,
          .pass = account.peak_pass};
}

std::string_view scheduler_name(const ScenarioOptions& options) {
  const bool single = find_backend(options.backend).processes != nullptr;
  return single ? "single" : to_string(options.schedule.kind);
}

static void connect(const ProgramRun& run, std::size_t index, Recording& recording) {
  if (run.drain != nullptr) recording.drain_by(*run.drain, index);
  if (!run.on_part) return;
  recording.on_part = [&run, index](SourceSpan expression, std::int64_t before, const Value& whole,
                                    const Value& part) {
    return run.on_part(index, expression, before, whole, part);
  };
}

static DTensor made_input(const ProgramRun& run, const ScenarioInput& input) {
  const MakingScope scope(HeldFor::kInput);
  if (run.tensors == Tensors::kOnMesh) {
    return make_input(*run.scenario, input, run.layout, run.precision);
  }
  const DTensor value = make_plain_input(*run.scenario, input, run.layout, run.precision);
  return run.nudge == 0 ? value : nudged(value, run.nudge);
}

// A program that may ask for the types that it has said.
static bool says_types(const Scenario& scenario) {
  return scenario.program != nullptr &&
         scenario.program->source->text().find("spmd") != std::string::npos;
}

// The error with the names that the program gave its meshes and their parts, in front of dims and
// ranks: "sparse {ep:2} over ranks 0, 2". Only such texts are left in it; nothing without one.
static std::optional<Error> with_mesh_names(const Error& error, const ProgramRun& run,
                                            const Recording& recording, std::int64_t rank) {
  const std::string* told = error.find("mesh");
  if (told == nullptr || told->find(" over ranks ") == std::string::npos) return std::nullopt;
  std::map<std::string, std::string> known;
  auto names = recording.mesh_names;
  names.insert(names.begin(), {run.layout, "mesh"});
  for (const auto& [mesh, given] : names) {
    const std::uint32_t all = (1u << mesh->ndim()) - 1;
    for (std::uint32_t bits = all; bits > 0; --bits) {
      std::vector<std::string> dims;
      for (std::size_t dim = 0; dim < mesh->ndim(); ++dim) {
        if ((bits >> dim & 1u) != 0) dims.push_back(mesh->names()[dim]);
      }
      std::string name = given;
      if (bits != all) name += fmt::format("[\"{}\"]", text_of_list(dims, "\", \""));
      known.emplace(text_with_ranks(*part_of(sliced(view_of(*mesh), dims), rank)), name);
    }
  }
  std::string text = *told;
  for (const auto& [ranks, name] : known) {
    const std::size_t at = text.find(ranks);
    if (at != std::string::npos) text.insert(at, name + " ");
  }
  Error named(error.kind(), error.summary());
  for (const auto& [key, value] : error.parts()) named.with(key, key == "mesh" ? text : value);
  if (error.cause() != nullptr) named.caused_by(*error.cause());
  return named;
}

static void run_with_names(Interpreter& interpreter, const ProgramRun& run,
                           const Recording& recording, std::int64_t rank) {
  try {
    interpreter.run();
  } catch (const Error& error) {
    if (const auto named = with_mesh_names(error, run, recording, rank)) throw *named;
    throw;
  }
}

void run_on_rank(ProgramRun& run, RankContext& rank, const RunsFor& runs) {
  Recording& recording = run.recordings[runs.index];
  rank.memory = &run.accounts[runs.index];
  construct_mesh(run.layout);
  const bool reports = rank.rank == run.reporting_rank;
  std::optional<AnswerReader> follows = run.follows;
  Interpreter interpreter(
      {.program = run.scenario->program.get(),
       .params = &run.scenario->params,
       .registry = run.registry,
       .layout = run.layout,
       .reported = run.reported,
       .rank = run.reported_rank >= 0 ? run.reported_rank : rank.rank,
       .world_size = run.reported_world >= 0 ? run.reported_world : run.scenario->world,
       .backend = run.backend,
       .tensors = run.tensors,
       .keeps = reports && runs.questions == nullptr ? &run.answers : nullptr,
       .follows = follows ? &*follows : nullptr,
       .sink = &recording,
       .parts = run.on_part ? run.parts : nullptr,
       .questions = runs.questions,
       .step_limit = run.step_limit});
  connect(run, runs.index, recording);
  if (reports) run.inputs.clear();
  std::vector<GivenInput> given;
  for (const ScenarioInput& input : run.scenario->inputs) {
    const DTensor value = made_input(run, input);
    if (run.precision == Precision::kDeclared) run.shared_inputs.share(input, value);
    if (input.requires_grad) require_grad(value);
    if (reports) run.inputs.push_back({input.name, type_string(value), value.local().size_bytes()});
    recording.begins_with(input.name, value, input.where);
    interpreter.define(input.name, Value(value));
    given.push_back({&input, value});
  }
  rank.memory->begin();  // other memory used to make the inputs is not the program's
  Observer* listening = &run.traces[runs.index];
  ReferenceCalls reference(program_calls());
  ProgramCalls* calls = run.precision == Precision::kReference ? &reference : &program_calls();
  if (run.listener != nullptr) {
    calls = &run.listener->around(rank.rank, *calls, given);
    listening = &run.listener->listen(rank.rank, listening);
  }
  std::optional<TypedProgram> typed;  // one device has no types, but those that are asked for
  const auto mode = run.tensors == Tensors::kOnMesh ? run.types : std::nullopt;
  if (mode || says_types(*run.scenario)) calls = &typed.emplace(*calls, mode, run.layout);
  Marks marks(listening, run.layout);
  {
    const ProgramScope scope(*calls);
    const ObserverScope observed(marks);
    run_with_timeline(run, rank, [&] {
      if (run.body) return run.body(runs, given);
      interpreter.trace_sizes_in(run.listener != nullptr ? run.listener->sizes(rank.rank)
                                                         : nullptr);
      run_with_names(interpreter, run, recording, rank.rank);
      interpreter.trace_sizes_in(nullptr);
    });
    if (run.listener != nullptr) run.listener->finish(rank.rank);
  }
  keep_what_is_left(run, interpreter, recording);
}

// The same on all ranks, and another text if anything of the scenario or of its options differs.
std::string what_runs(const Scenario& scenario, const ScenarioOptions& options) {
  const std::string& text = scenario.file->text();
  const auto* bytes = reinterpret_cast<const Bytef*>(text.data());
  std::string result = fmt::format(
      "scenario {} ({} bytes, {:08x})",
      scenario.title.empty() ? std::filesystem::path(scenario.file->file()).filename().string()
                             : scenario.title,
      text.size(), crc32_z(0, bytes, text.size()));
  for (const std::string& setting : scenario.settings) result += " " + setting;
  if (options.planner) result += fmt::format(" --planner {}", to_string(*options.planner));
  if (options.transport) result += fmt::format(" --transport {}", to_string(*options.transport));
  return result + " --device " + options.device.name;
}

WorldOptions world_of(const ProgramRun& run, Propagator& propagator, std::int64_t ranks,
                      const ScenarioOptions& options) {
  WorldOptions world;
  world.ranks = ranks;
  world.schedule = options.schedule;
  world.schedule.workers = options.workers.value_or(default_workers(*run.scenario));
  world.backend = options.backend;
  world.checks = options.checks;
  if (channel_of(options.backend) != nullptr) world.program = what_runs(*run.scenario, options);
  world.seed = run.scenario->seed;
  world.propagator = &propagator;
  world.plans = &propagator.plans();
  world.implicit = run.scenario->expect.implicit;
  world.communicator = options.communicator;
  world.transport = options.transport;
  world.lazy_groups = options.lazy_groups;
  if (run.tensors == Tensors::kOnMesh && run.precision == Precision::kDeclared) {
    world.log = options.log;
  }
  world.layout = run.layout;
  return world;
}

void take_outcome(ProgramRun& run, const WorldResult& outcome) {
  if (!outcome.ok()) {
    run.error = outcome.merged();
    for (Trace& trace : run.traces) trace.ends_early();
  }
  run.verdict = outcome.verdict;
  run.steps = outcome.steps;
}

void execute(ProgramRun& run, Propagator& propagator, std::int64_t ranks,
             const ScenarioOptions& options) {
  run.step_limit = options.step_limit;
  run.backend = options.backend;
  if (options.progress != nullptr) {
    const bool alone = run.tensors == Tensors::kPlain;
    options.progress->begin(alone ? RunPhase::kOneDevice : RunPhase::kRanks);
  }
  run.types = options.types;
  if (options.memory_timeline) run.timeline.emplace();
  if (is_shape_only(options.backend)) return execute_classes(run, propagator, ranks, options);
  DeviceChoice choice = options.device;
  if (options.memory) choice.most_bytes = options.memory->available_bytes;
  run.device = make_device(choice, options.backend);
  run.accounts.resize(static_cast<std::size_t>(ranks));
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    // In a process of its own any rank may have to report; the single device is never reported.
    const bool reports = run.tensors == Tensors::kOnMesh &&
                         (rank == run.reporting_rank || channel_of(options.backend) != nullptr);
    run.traces.emplace_back(reports ? TraceDetail::kEvents : options.other_ranks);
    if (rank == run.reporting_rank) run.traces.back().tell(options.progress);
  }
  for (const Trace& trace : run.traces) {
    run.recordings.emplace_back(&trace);
    if (options.memory) run.recordings.back().keep_at_most(options.memory->available_bytes / ranks);
  }
  if (options.around_device) run.around_device = options.around_device(*run.device, ranks);
  Device& launched = run.around_device ? *run.around_device : *run.device;
  SharingDevice sharing(launched, ranks);
  const bool shares = options.sharing == KernelSharing::kOn && can_share_kernels(options.backend);
  Device& device = shares ? static_cast<Device&>(sharing) : launched;
  WorldOptions world = world_of(run, propagator, ranks, options);
  world.device = [&](std::int64_t) -> Device& { return device; };
  const WorldResult outcome =
      run_world(std::move(world),
                [&](RankContext& rank, const RunsFor& runs) { run_on_rank(run, rank, runs); });
  take_outcome(run, outcome);
  for (const MemoryAccount& account : run.accounts) run.memory.peaks.push_back(peak_of(account));
  run.memory.physical_bytes = run.device->memory().peak_bytes;
  if (shares) run.kernels = sharing.stats();
}

std::vector<const Trace*> traces_by_rank(const ProgramRun& run) {
  std::vector<const Trace*> traces;
  if (run.classes.empty()) {
    for (const Trace& trace : run.traces) traces.push_back(&trace);
  }
  for (const std::size_t index : run.class_of) traces.push_back(&run.traces[index]);
  return traces;
}

}  // namespace shardlab
