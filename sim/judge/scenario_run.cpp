// The order of a run: what can be refused without running, then the ranks, then the verdicts. Where
// ranks are processes, all records go to the one that reports, and the others take over its
// finding.
#include "sim/judge/scenario_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "base/bytes_text.h"
#include "base/fix.h"
#include "dispatch/all_ops.h"
#include "mesh/local_shape.h"
#include "mesh/type_string.h"
#include "ops/factor_rule.h"
#include "sim/judge/verdict.h"
#include "sim/language/lexer.h"
#include "sim/run/class_run.h"
#include "sim/run/inputs.h"
#include "sim/run/process_records.h"
#include "sim/run/program_run.h"
#include "sim/scenario/scenario_file.h"
#include "sim/verify/step_run.h"
#include "sim/world/backends.h"

namespace shardlab {

namespace {

Topology topology_of(const Scenario& scenario, const MeshLayout* layout) {
  Topology topology;
  topology.mesh = layout;
  for (const TopologyDim& dim : scenario.topology) {
    topology.links[dim.mesh_dim] = {dim.gbps, dim.us};
  }
  return topology;
}

// Type strings and names are looked at before any rank starts: what is wrong with them is the
// file's fault, not the run's.
void check_as_written(const Scenario& scenario, const MeshLayout* layout,
                      const OpRegistry& registry) {
  check_names(scenario, registry);
  if (scenario.reference) check_names(as_reference(scenario), registry);
  for (const ScenarioInput& input : scenario.inputs) spec_of(input.type, layout, DType::kF32);
  for (const ExpectedType& type : scenario.expect.types) spec_of(type.type, layout, DType::kF32);
}

// Bytes of the inputs on all ranks and, for the verdict, in two single-device runs (one in f64).
void check_input_memory(const Scenario& scenario, const MeshLayout* layout,
                        const MemoryLimits& limits) {
  double sum = 0, largest = 0;
  const ScenarioInput* culprit = nullptr;
  for (const ScenarioInput& input : scenario.inputs) {
    const DTensorSpec* spec = spec_of(input.type, layout, DType::kF32);
    const Dims shape = local_shape(*spec, *layout->coordinate_of(layout->rank_at_index(0)));
    const double element = static_cast<double>(item_bytes(spec->dtype()));
    double local = element, whole = element + 8;
    for (const std::int64_t size : shape) local *= static_cast<double>(size);
    for (const std::int64_t size : spec->shape()) whole *= static_cast<double>(size);
    const double bytes = local * static_cast<double>(layout->size()) + whole;
    sum += bytes;
    if (bytes < largest) continue;
    largest = bytes;
    culprit = &input;
  }
  if (sum <= static_cast<double>(limits.available_bytes)) return;
  culprit->where.refuse(
      fmt::format("the inputs would take {} on {} ranks and one device; {} are available",
                  bytes_text(sum), layout->size(),
                  bytes_text(static_cast<double>(limits.available_bytes))),
      fmt::format("make '{}' smaller: it takes {}", culprit->name, bytes_text(largest)));
}

bool matches(const ExpectedError& expected, const Error& error) {
  if (expected.kind && *expected.kind != error.kind()) return false;
  return expected.contains.empty() || error.text().find(expected.contains) != std::string::npos;
}

bool matches(ExpectedVerdict expected, const std::optional<Verdict>& verdict) {
  if (!verdict) return false;
  return expected == ExpectedVerdict::kMismatch ? verdict->kind == VerdictKind::kMismatch
                                                : verdict->kind == VerdictKind::kDeadlock;
}

void judge_failure(ScenarioResult& result) {
  const Expectation& expect = result.scenario.expect;
  if (expect.error) {
    result.error_expected = result.error && matches(*expect.error, *result.error);
    result.expectations.push_back({.what = "error",
                                   .met = result.error_expected,
                                   .text = result.error_expected
                                               ? std::string(to_string(result.error->kind()))
                                           : result.error ? "the program failed with another error"
                                                          : "the program ended without an error",
                                   .where = expect.error->where});
  }
  if (expect.verdict) {
    result.error_expected = matches(*expect.verdict, result.verdict);
    const std::string got =
        result.verdict ? std::string(to_string(result.verdict->kind)) : std::string("none");
    result.expectations.push_back({.what = "verdict",
                                   .met = result.error_expected,
                                   .text = result.error_expected ? got : "got " + got,
                                   .where = {}});
  }
}

void check_missing_gradients(ScenarioResult& result, const ProgramRun& run) {
  for (const ExpectedName& name : result.scenario.expect.gradients) {
    const std::string key = name.name + ".grad#0";
    const bool found = std::any_of(run.recordings.begin(), run.recordings.end(),
                                   [&](const Recording& r) { return r.find(key) != nullptr; });
    if (found) continue;
    result.expectations.push_back({.what = name.name + ".grad",
                                   .met = false,
                                   .text = "expected a gradient, got none: does the program call "
                                           "backward()?",
                                   .where = name.where});
  }
}

// What the run means: reports, expectations, the verdict on values.
void judge(ScenarioResult& result, ProgramRun& run) {
  if (result.options.recorded) result.options.recorded(run.recordings);
  if (result.options.traced) result.options.traced(traces_by_rank(run));

  result.inputs = run.inputs;
  result.memory = run.memory;
  result.kernels = run.kernels;
  result.classes = run.classes;
  result.verdict = run.verdict;
  // Of classes the reporting rank's comes first.
  const auto reporter = result.shapes_only() ? 0 : static_cast<std::size_t>(result.reporting_rank);
  result.events = run.traces[reporter].events();
  for (const Recording& recording : run.recordings) result.printed.push_back(recording.lines());
  result.class_of = run.class_of;
  result.warnings = run.traces[reporter].warnings();
  if (run.device) result.ran_on_host = ran_on_host(result.options.device, *run.device);
  for (const Trace& trace : run.traces) {
    result.counts.push_back(trace.counts());
    result.implicit_count = std::max(result.implicit_count, trace.implicit_count());
  }
  Verdicts verdicts(result, run);
  result.error = run.error ? run.error : verdicts.failed_assertion();
  judge_failure(result);
  if (result.error) return;

  std::vector<const Recording*> recordings;
  for (const Recording& recording : run.recordings) recordings.push_back(&recording);
  std::vector<const CollectiveCounts*> counts;
  for (const CollectiveCounts& count : result.counts) counts.push_back(&count);
  for (ExpectationReport& report :
       check_expectations(result.scenario, result.layout, recordings, counts)) {
    result.expectations.push_back(std::move(report));
  }
  check_missing_gradients(result, run);
  verdicts.verify();
}

// Returns the rank whose process reports.
std::int64_t gather_processes(ProgramRun& run, process::ControlChannel& channel) {
  const std::int64_t reporter = reporter_of(channel, run.reporting_rank);
  RankRecords records{.scenario = run.scenario,
                      .device = run.device.get(),
                      .recordings = &run.recordings,
                      .traces = &run.traces,
                      .logical_bytes = run.memory.logical_rank_bytes,
                      .physical_bytes = run.memory.physical_bytes};
  gather_records(channel, reporter, run.error ? ValuesToo::kNo : ValuesToo::kYes, records);
  run.memory = {records.logical_bytes, records.physical_bytes};
  return reporter;
}

// All ops, with the scenario's rules for some of them.
std::shared_ptr<const OpRegistry> ops_of(const Scenario& scenario) {
  auto ops = std::make_shared<OpRegistry>();
  register_all_ops(*ops);
  for (const ScenarioRule& rule : scenario.rules) {
    try {
      ops->at(rule.op);
    } catch (const Error& error) {
      rule.op_where.refuse(error.summary(), fix_of(error));
    }
    try {
      set_factor_rule(*ops, rule.op, rule.rule);
    } catch (const Error& error) {
      rule.where.refuse(error.summary(), fix_of(error));
    }
  }
  return ops;
}

// Judges the calls of the run; null where that is not asked for, or where no process sees the
// values of all ranks.
std::unique_ptr<Steps> steps_of(ScenarioResult& result) {
  const ScenarioOptions& options = result.options;
  if (is_shape_only(options.backend)) return nullptr;
  if (result.scenario.expect.verify == Verify::kNone) return nullptr;
  if (find_backend(options.backend).processes != nullptr) {
    result.steps.not_judged = "calls are judged in simulation only";
    return nullptr;
  }
  StepOptions steps{.ranks = result.scenario.world, .propagator = result.propagator.get()};
  DeviceChoice choice = options.device;
  if (options.memory) {
    constexpr std::int64_t kShare = 4;  // of the memory there is, for values that wait
    steps.most_bytes = options.memory->available_bytes / kShare;
    choice.most_bytes = options.memory->available_bytes;
  }
  steps.device = make_device(choice, options.backend);
  return std::make_unique<Steps>(std::move(steps));
}

}  // namespace

bool ScenarioResult::met() const {
  if (reported_elsewhere) return met_elsewhere;
  if (error && !error_expected) return false;
  if (steps.wrong_found()) return false;
  for (const ExpectationReport& expectation : expectations) {
    if (!expectation.met) return false;
  }
  for (const ValueReport& value : values) {
    if (value.verified && value.comparison.agreement == Agreement::kWrong) return false;
  }
  return true;
}

ScenarioResult run_scenario(const Scenario& scenario, const OpRegistry& all_ops,
                            const ScenarioOptions& options) {
  ScenarioResult result;
  if (!scenario.rules.empty()) result.own_ops = ops_of(scenario);
  const OpRegistry& registry = result.own_ops ? *result.own_ops : all_ops;
  result.scenario = scenario;
  result.options = options;
  const bool shapes_only = is_shape_only(options.backend);
  if (options.memory && !shapes_only) check_memory(scenario, *options.memory);
  if (shapes_only) result.arena = std::make_unique<Arena>();
  result.layout = layout_of(scenario.mesh, shapes_only ? *result.arena : process_arena());
  check_as_written(scenario, result.layout, registry);
  if (options.memory && !shapes_only) check_input_memory(scenario, result.layout, *options.memory);
  PlanOptions plans;
  plans.topology = topology_of(scenario, result.layout);
  plans.planner = options.planner ? options.planner : scenario.planner;
  result.propagator = std::make_unique<Propagator>(registry, plans);
  result.reporting_rank = result.layout->rank_at_index(0);

  ProgramRun run;
  run.scenario = &result.scenario;
  run.registry = &registry;
  run.layout = result.layout;
  run.reported = result.layout;
  run.reporting_rank = result.reporting_rank;
  const std::unique_ptr<Steps> steps = steps_of(result);
  run.listener = steps.get();
  if (shapes_only) {
    execute_classes(run, *result.propagator, options);
  } else {
    execute(run, *result.propagator, scenario.world, options);
  }
  if (steps != nullptr) result.steps = steps->verdict();
  process::ControlChannel* channel = channel_of(options.backend);
  if (channel != nullptr) {
    result.reporting_rank = gather_processes(run, *channel);
    result.reported_elsewhere = channel->rank() != result.reporting_rank;
    if (result.reported_elsewhere) {
      result.met_elsewhere = share_finding(*channel, result.reporting_rank, false);
      return result;
    }
  }
  judge(result, run);
  if (channel != nullptr) share_finding(*channel, result.reporting_rank, result.met());
  return result;
}

}  // namespace shardlab
