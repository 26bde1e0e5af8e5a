// Everything that can be refused without running is refused first; then the ranks run. If ranks are
// processes, all records are sent to the one that reports.
#include "sim/run/run.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text.h"
#include "mesh/local_shape.h"
#include "ops/core/factor_rule.h"
#include "plan/topology.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"
#include "sim/language/run/local_program.h"
#include "sim/run/process_records.h"
#include "sim/run/program_run.h"
#include "sim/scenario/scenario_file.h"
#include "sim/scenario/type_text.h"

namespace shardlab {

namespace {

// Type strings and names are checked before any rank starts: their errors are the file's fault, not
// the run's.
void check_as_written(const Scenario& scenario, const MeshLayout* layout,
                      const OpRegistry& registry) {
  check_names(scenario, registry);
  if (scenario.reference) check_names(as_reference(scenario), registry);
  for (const ScenarioInput& input : scenario.inputs) spec_of(input.type, layout);
}

// Bytes of the inputs on all ranks and, for the verdict, in two single-device runs (one in f64).
void check_input_memory(const Scenario& scenario, const MeshLayout* layout,
                        const MemoryLimits& limits) {
  double sum = 0, largest = 0;
  const ScenarioInput* culprit = nullptr;
  for (const ScenarioInput& input : scenario.inputs) {
    const DTensorSpec* spec = spec_of(input.type, layout);
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
      fmt::format(
          "the inputs would take {} on {} ranks and in the single-device run; {} are available",
          bytes_text(sum), layout->size(), bytes_text(static_cast<double>(limits.available_bytes))),
      fmt::format("make '{}' smaller: it takes {}", culprit->name, bytes_text(largest)));
}

// Returns the rank whose process reports.
std::int64_t gather_processes(ProgramRun& run, process::ControlChannel& channel) {
  const std::int64_t reporter = reporter_of(channel, run.reporting_rank);
  RankRecords records{.scenario = run.scenario,
                      .device = run.device.get(),
                      .recordings = &run.recordings,
                      .traces = &run.traces,
                      .peaks = &run.memory.peaks,
                      .physical_bytes = run.memory.physical_bytes};
  gather_records(channel, reporter, run.error ? ValuesToo::kNo : ValuesToo::kYes, records);
  run.memory.physical_bytes = records.physical_bytes;
  return reporter;
}

// The counts for reports, from the records of each rank. Two ranks may miss the same entry at once;
// that is one made and two asked for.
CacheUse use_of(const CacheStats& stats) {
  return {stats.hits + stats.misses, stats.entries + stats.evictions};
}

void keep(Run& run, ProgramRun& program) {
  run.inputs = program.inputs;
  run.memory = program.memory;
  if (program.timeline) run.memory_timeline = program.timeline->points();
  run.kernels = program.kernels;
  run.classes = program.classes;
  run.verdict = program.verdict;
  run.steps = program.steps;
  run.error = program.error;
  // With classes the reporting rank's comes first.
  const auto reporter = run.shapes_only() ? 0 : static_cast<std::size_t>(run.reporting_rank);
  run.events = program.traces[reporter].take_events();
  if (run.options.other_ranks == TraceDetail::kEvents) {
    for (Trace& trace : program.traces) run.events_of_others.push_back(trace.take_events());
  }
  for (const Recording& recording : program.recordings) {
    run.printed.push_back(recording.lines());
    run.traced_breaks = std::max(run.traced_breaks, recording.traced_breaks());
  }
  run.class_of = program.class_of;
  run.warnings = program.traces[reporter].warnings();
  run.live_microbatches = program.recordings[reporter].live_microbatches;
  run.schedule = program.recordings[reporter].schedule;
  run.mesh_names = program.recordings[reporter].mesh_names;
  if (program.device) run.ran_on_host = ran_on_host(*program.device);
  for (const Trace& trace : program.traces) {
    run.counts.push_back(trace.counts());
    run.implicit_count = std::max(run.implicit_count, trace.implicit_count());
  }
}

void set_rule(OpRegistry& ops, const ScenarioRule& rule) {
  const OpRow* row = nullptr;
  try {
    row = &ops.at(rule.op);
  } catch (const Error& error) {
    rule.op_where.refuse(error.summary(), fix_of(error));
  }
  try {
    if (rule.local == nullptr) return set_factor_rule(ops, rule.op, rule.rule);
    set_factor_rule(ops, rule.op, rule.rule, local_program(rule.local, *row, rule.rule, ops));
  } catch (const ScenarioError&) {
    throw;
  } catch (const Error& error) {
    rule.where.refuse(error.summary(), fix_of(error));
  }
}

}  // namespace

std::shared_ptr<const OpRegistry> ops_of(const Scenario& scenario, const OpRegistry& all_ops) {
  auto ops = std::make_shared<OpRegistry>();
  for (const OpRow* row : all_ops.rows()) {
    OpRow own = *row;
    if (own.base != nullptr) own.base = ops->find(own.base->name());
    ops->add(std::move(own));
  }
  for (const ScenarioRule& rule : scenario.rules) set_rule(*ops, rule);
  return ops;
}

// A figure that a dim does not give is the default one.
static Topology topology_of(const std::vector<TopologyDim>& dims, const MeshLayout* layout) {
  Topology topology;
  topology.mesh = layout;
  for (const TopologyDim& dim : dims) {
    const Link link = topology.link(*layout, *layout->find_dim(dim.mesh_dim));
    topology.links[dim.mesh_dim] = {dim.gbps.value_or(link.gbps), dim.us.value_or(link.us)};
  }
  return topology;
}

Run prepare_run(const Scenario& scenario, const OpRegistry& all_ops,
                const ScenarioOptions& options) {
  Run run;
  if (!scenario.rules.empty()) run.own_ops = ops_of(scenario, all_ops);
  run.registry = run.own_ops ? run.own_ops.get() : &all_ops;
  run.scenario = scenario;
  run.options = options;
  const bool shapes_only = is_shape_only(options.backend);
  if (options.memory && !shapes_only) check_memory(scenario, *options.memory);
  if (shapes_only) run.arena = std::make_unique<Arena>();
  run.layout = layout_of(scenario.mesh, shapes_only ? *run.arena : process_arena());
  check_as_written(scenario, run.layout, *run.registry);
  if (options.memory && !shapes_only) check_input_memory(scenario, run.layout, *options.memory);
  PlanOptions plans;
  plans.topology = topology_of(scenario.topology, run.layout);
  plans.planner = options.planner ? options.planner : scenario.planner;
  plans.weights = scenario.weights;
  run.propagator = std::make_unique<Propagator>(*run.registry, plans);
  run.reporting_rank = options.reporting_rank.value_or(run.layout->rank_at_index(0));
  return run;
}

void run_on_ranks(Run& run, CallListener* listener, ProgramRun& program) {
  program.scenario = &run.scenario;
  program.registry = run.registry;
  program.layout = run.layout;
  program.reported = run.layout;
  program.reporting_rank = run.reporting_rank;
  program.listener = listener;
  execute(program, *run.propagator, run.scenario.world, run.options);
  run.decisions = use_of(run.propagator->stats());
  run.plans = use_of(run.propagator->plans().stats());
  if (process::ControlChannel* channel = channel_of(run.options.backend)) {
    run.reporting_rank = gather_processes(program, *channel);
    run.reported_elsewhere = channel->rank() != run.reporting_rank;
    if (program.verdict) run.lost = lost_ranks(*channel, *program.verdict);
    if (run.reported_elsewhere) {
      run.error = program.error;
      run.verdict = program.verdict;
      return;
    }
  }
  if (run.options.recorded) run.options.recorded(program.recordings);
  if (run.options.traced) run.options.traced(traces_by_rank(program));
  keep(run, program);
}

}  // namespace shardlab
