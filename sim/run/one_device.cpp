// One rank runs the whole program. Its tensors are plain, so no placement decides anything; the
// mesh of size 1 is there for the groups of the program's own collectives, which then return their
// inputs.
#include "sim/run/one_device.h"

namespace shardlab {

namespace {

// The same names, every size 1.
const MeshLayout* one_device_layout(const MeshLayout& layout) {
  MeshLayout::Init init;
  init.shape = Dims(layout.ndim(), 1);
  init.names = layout.names();
  return layout.arena().layout(std::move(init));
}

}  // namespace

std::shared_ptr<KnownAlone> run_first_alone(const Scenario& scenario, const OpRegistry& registry,
                                            Precision precision, ValueDrain* drain,
                                            std::uint64_t nudge) {
  auto known = run_alone_as_far(scenario, registry, precision, drain, nudge);
  if (const auto& error = known->runs.runs.front()->error) throw Error(*error);
  return known;
}

std::shared_ptr<KnownAlone> run_alone_as_far(const Scenario& scenario, const OpRegistry& registry,
                                             Precision precision, ValueDrain* drain,
                                             std::uint64_t nudge) {
  auto known = std::make_shared<KnownAlone>();
  known->run = prepare_run(scenario, registry, {});
  Run& run = known->run;
  const AloneOptions alone{.scenario = &run.scenario,
                           .layout = run.layout,
                           .registry = run.registry,
                           .precision = precision,
                           .nudge = nudge,
                           .drain = drain};
  known->runs = run_alone(alone, *run.propagator, run.options);
  return known;
}

AloneRuns run_alone(const AloneOptions& alone, Propagator& propagator,
                    const ScenarioOptions& options) {
  ScenarioOptions own = options;
  own.backend = "threads";
  own.communicator = nullptr;
  own.around_device = nullptr;
  AloneRuns result;
  for (std::int64_t i = 0; i < alone.reported_ranks; ++i) {
    auto run = std::make_unique<ProgramRun>();
    run->scenario = alone.scenario;
    run->registry = alone.registry;
    run->layout = one_device_layout(*alone.layout);
    run->reported = alone.world == ReportedWorld::kOne ? run->layout : alone.layout;
    run->reported_world = alone.world == ReportedWorld::kOne ? 1 : alone.scenario->world;
    run->reported_rank = alone.reported_ranks > 1 ? i : alone.reported_rank;
    run->precision = alone.precision;
    run->nudge = alone.nudge;
    run->listener = alone.listener;
    run->drain = alone.drain;
    run->parts = alone.parts;
    run->on_part = alone.on_part;
    run->tensors = Tensors::kPlain;
    // Another rank, or a world of one, may be meant to take another branch.
    const bool same =
        alone.world == ReportedWorld::kTrue && run->reported_rank == alone.answers_rank;
    if (alone.answers != nullptr) {
      run->follows.emplace(alone.answers, same ? Branches::kFollowed : Branches::kOwn);
    }
    execute(*run, propagator, 1, own);
    if (run->error && result.failure.empty()) result.failure = run->error->summary();
    result.recordings.push_back(&run->recordings.front());
    result.runs.push_back(std::move(run));
  }
  return result;
}

}  // namespace shardlab
