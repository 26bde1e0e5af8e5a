// First the ranks run, then their values and calls are judged. If ranks are processes, one of them
// judges, and the others take over its finding.
#include "sim/judge/scenario_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <thread>

#include "sim/graph/recorders.h"
#include "sim/judge/expected_mistake.h"
#include "sim/judge/judged_runs.h"
#include "sim/judge/kept_tensors.h"
#include "sim/judge/posted_steps.h"
#include "sim/judge/verdict.h"
#include "sim/language/run/def_use.h"
#include "sim/run/mesh_names.h"
#include "sim/run/one_device.h"
#include "sim/run/process_records.h"
#include "sim/run/program_run.h"
#include "sim/verify/early_judge.h"
#include "sim/verify/step_run.h"
#include "sim/world/backends.h"

namespace shardlab {

namespace {

bool matches(const ExpectedError& expected, const Error& error) {
  if (expected.kind && *expected.kind != error.kind()) return false;
  return expected.contains.empty() || error.text().find(expected.contains) != std::string::npos;
}

bool matches(ExpectedVerdict expected, const std::optional<Verdict>& verdict) {
  if (!verdict) return false;
  return expected == ExpectedVerdict::kMismatch ? verdict->kind == VerdictKind::kMismatch
                                                : verdict->kind == VerdictKind::kDeadlock;
}

void judge_failure(const Run& run, ScenarioJudgement& judgement) {
  const Expectation& expect = run.scenario.expect;
  bool& expected = judgement.failure_expected;
  if (expect.error) {
    expected = run.error && matches(*expect.error, *run.error);
    judgement.expectations.push_back({.what = "error",
                                      .met = expected,
                                      .text = expected ? std::string(to_string(run.error->kind()))
                                              : run.error ? "the program failed with another error"
                                                          : "the program ended without an error",
                                      .where = expect.error->where});
  }
  if (expect.verdict) {
    expected = matches(*expect.verdict, run.verdict);
    const std::string got =
        run.verdict ? std::string(to_string(run.verdict->kind)) : std::string("none");
    judgement.expectations.push_back(
        {.what = "verdict", .met = expected, .text = expected ? got : "got " + got});
  }
}

void check_missing_gradients(const Scenario& scenario, const ProgramRun& ranks,
                             ScenarioJudgement& judgement) {
  for (const ExpectedName& name : scenario.expect.gradients) {
    const std::string key = name.name + ".grad#0";
    const bool found = std::any_of(ranks.recordings.begin(), ranks.recordings.end(),
                                   [&](const Recording& r) { return r.find(key) != nullptr; });
    if (found) continue;
    judgement.expectations.push_back({.what = name.name + ".grad",
                                      .met = false,
                                      .text = "expected a gradient, got none: does the program "
                                              "call backward()?",
                                      .where = name.where});
  }
}

bool is_open(const ValueReport& value) { return value.row->fails_strictly && !value.row->fails; }

// The first value that is not verified and why, or why none is.
std::string first_open(const ScenarioJudgement& judgement) {
  const auto open = std::ranges::find_if(judgement.values, is_open);
  if (open == judgement.values.end()) return judgement.not_verified;
  return fmt::format("{} ({}) {}: {}", open->name, open->where.at(), word_of(open->outcome()),
                     open->reason);
}

ExpectationReport open_values(const ScenarioJudgement& judgement, std::string what,
                              const Bound& bound) {
  const std::int64_t found = count_values(judgement.values).not_verified;
  if (found == 0 && !judgement.not_verified.empty()) {
    return {.what = std::move(what),
            .text = "nothing is verified: " + judgement.not_verified,
            .where = bound.where};
  }
  ExpectationReport report =
      check_count(std::move(what), bound, static_cast<double>(found), ": " + first_open(judgement));
  if (!report.met && report.what == "--strict") {
    report.text += fmt::format(
        "; a file that means it has not_verified = {} in [expect], and is "
        "run without --strict",
        found);
  }
  return report;
}

void check_outcomes(const Run& run, ScenarioJudgement& judgement) {
  const ValueCounts counts = count_values(judgement.values);
  for (const auto& [key, bound] : run.scenario.expect.outcomes) {
    if (run.shapes_only()) {
      judgement.warnings.emplace_back("[expect]: outcomes are not looked at: shapes only");
      return;
    }
    for (std::size_t i = 0; i < kOutcomes; ++i) {
      if (key_of(static_cast<Outcome>(i)) != key) continue;
      judgement.expectations.push_back(
          check_count("outcomes." + key, bound, static_cast<double>(counts.of[i])));
    }
  }
}

// After the verdict: whether enough values were compared for a verdict.
void check_open_values(const Run& run, ScenarioJudgement& judgement) {
  check_outcomes(run, judgement);
  const std::optional<Bound>& expected = run.scenario.expect.not_verified;
  if (expected && run.shapes_only()) {
    judgement.warnings.emplace_back("[expect]: not_verified is not looked at: shapes only");
  } else if (expected) {
    judgement.expectations.push_back(open_values(judgement, "not_verified", *expected));
  }
  if (!run.options.strict || judgement.failure_expected) return;
  judgement.expectations.push_back(open_values(judgement, "--strict", {.text = "0"}));
}

// The verdict on the program on another fabric.
std::optional<Verdict> run_again(const Run& run, std::optional<Transport> transport,
                                 FabricLog* log) {
  ScenarioOptions options = run.options;
  options.transport = transport;
  options.log = log;
  options.memory_timeline = false;
  ProgramRun again;
  again.scenario = &run.scenario;
  again.registry = run.registry;
  again.layout = again.reported = run.layout;
  again.reporting_rank = run.reporting_rank;
  execute(again, *run.propagator, run.scenario.world, options);
  return again.verdict;
}

// The ranks once more, with sends that wait: if they never end, the program depends on buffers,
// which a backend need not have.
void look_for_buffers(const Run& run, ScenarioJudgement& judgement) {
  const bool sends = std::ranges::any_of(run.counts, [](const CollectiveCounts& counts) {
    return counts.total(CollectiveKind::kSend) > 0;
  });
  const bool simulated = find_backend(run.options.backend).processes == nullptr;
  if (!sends || !simulated || run.options.transport != Transport::kBuffered) return;
  const std::optional<Verdict> verdict = run_again(run, std::nullopt, nullptr);
  if (!verdict || verdict->kind != VerdictKind::kDeadlock) return;
  judgement.warnings.push_back("works only with buffered sends: " + verdict->cause);
}

// The steps of the ranks on each transport. A run that hangs does not know those behind; one with
// buffers gets as far as any can.
void judge_orders(const Run& run, ScenarioJudgement& judgement) {
  const std::optional<std::vector<Transport>>& expected = run.scenario.expect.transports;
  const FabricLog* log = run.options.log;
  const bool known = log != nullptr && run.options.backend == "threads" && !log->full();
  if (!known && expected) {
    judgement.warnings.emplace_back("[expect]: transports are not looked at: no steps are known");
  }
  if (!known || (!expected && (run.error || !has_orders(*log)))) return;
  FabricLog further;
  std::optional<Verdict> verdict;
  if (run.error) verdict = run_again(run, Transport::kBuffered, &further);
  Promise promise = promise_of(run.error ? further : *log, run.scenario.world);
  if (verdict && verdict->kind != VerdictKind::kDeadlock) {
    promise.open.push_back({"the program fails:", verdict->cause});
  }
  promise.asked = expected.value_or(kUsualTransports);
  if (promise.open.empty()) promise.run(run.options.lazy_groups);
  judgement.promise = promise.headline();
  if (!expected) return;
  judgement.expectations.push_back({.what = "transports",
                                    .met = promise.kind() == Promise::Kind::kFree,
                                    .text = judgement.promise});
}

// Once all else is known.
void judge_mistake(const Run& run, ScenarioJudgement& judgement) {
  if (!run.scenario.expect.mistake) return;
  if (run.shapes_only() && !run.error) {
    judgement.warnings.emplace_back("[expect]: cause and line are not looked at: shapes only");
    return;
  }
  const Findings found{judgement.values, judgement.steps, judgement.parted};
  const bool met = check_mistake(run, found, judgement.expectations);
  const bool looked_at = std::ranges::any_of(
      judgement.expectations,
      [](const ExpectationReport& one) { return one.of_failure && one.what == "cause"; });
  if (!run.scenario.expect.mistake->cause.empty() && !looked_at)
    judgement.warnings.emplace_back("[expect]: cause is not looked at: shapes only");
  judgement.failure_expected = judgement.failure_expected || met;
}

// The judgement of a run: the verdict on values, and expectations. False: it takes elements that
// are gone.
bool judge(ScenarioResult& result, const ProgramRun& ranks, Recorders* recorders,
           const EarlyJudge* early) {
  Run& run = result.run;
  ScenarioJudgement& judgement = result.judgement;
  if (run.error && early != nullptr) return false;
  Verdicts verdicts(run, judgement, ranks, early);
  if (!run.error) run.error = verdicts.failed_assertion();
  judge_failure(run, judgement);
  if (run.verdict) verdicts.explain_failure();
  if (run.error) {
    judge_orders(run, judgement);
    judge_mistake(run, judgement);
    return true;
  }

  for (ExpectationReport& report : check_expectations(run, ranks.recordings)) {
    judgement.expectations.push_back(std::move(report));
  }
  check_missing_gradients(run.scenario, ranks, judgement);
  if (recorders != nullptr) check_graphs(run, *recorders, judgement.expectations);
  verdicts.verify();
  if (verdicts.lacks_elements()) return false;
  if (run.scenario.expect.checkpoint) {
    judgement.expectations.push_back(
        check_checkpoint(run.scenario, kept_tensors(judgement.values, run.layout)));
    if (run.options.keep_elements == 0) {
      for (ValueReport& value : judgement.values) value.kept.clear();
    }
  }
  look_for_buffers(run, judgement);
  judge_orders(run, judgement);
  judge_mistake(run, judgement);
  check_open_values(run, judgement);
  return true;
}

// The program on one device, in a thread of its own.
class AloneBeside final : public ValueDrain {
 public:
  AloneBeside(const Scenario& scenario, const OpRegistry& registry, EarlyJudge& judge,
              AloneListener& listener)
      : judge_(judge), listener_(listener), thread_([this, &scenario, &registry] {
          try {
            known_ = run_alone_as_far(scenario, registry, Precision::kDeclared, this);
            listener_.ends(known_->runs.failure.empty());
          } catch (...) {
            // Nothing is known then: the run is made once more, and says why.
          }
          judge_.ends_alone();
        }) {}
  ~AloneBeside() override { ends(); }
  AloneBeside(const AloneBeside&) = delete;
  AloneBeside& operator=(const AloneBeside&) = delete;

  // The ranks have run. Null if the run alone has failed.
  std::shared_ptr<KnownAlone> ends() {
    judge_.ranks_end();
    if (thread_.joinable()) thread_.join();
    judge_.ends();
    if (known_ && !known_->runs.failure.empty()) known_ = nullptr;
    return known_;
  }

  void kept(std::size_t, const RecordedValue& value) override {
    listener_.kept(value);
    judge_.kept(judge_.one_device(), value);
  }
  bool is_spent(std::size_t, const DTensor& value) const override {
    return judge_.is_spent(judge_.one_device(), value);
  }
  const UnusedNames& unused() const override { return judge_.unused(); }

 private:
  EarlyJudge& judge_;
  AloneListener& listener_;
  std::shared_ptr<KnownAlone> known_;
  std::thread thread_;  // the last member: it uses the others
};

// Judges values of a recording's program while it runs; null if that is not asked for.
std::unique_ptr<EarlyJudge> early_judge_of(const Run& run) {
  if (run.options.beside == nullptr || !judges_early(run.scenario, run.options)) return nullptr;
  VerifyInputs inputs;
  inputs.mesh = run.layout;
  inputs.tolerance = run.scenario.expect.tolerance;
  if (const auto& memory = run.options.memory)
    inputs.most_elements = most_compared_elements(*memory);
  return std::make_unique<EarlyJudge>(*run.scenario.program, std::move(inputs),
                                      static_cast<std::size_t>(run.scenario.world),
                                      run.options.beside->most_ahead);
}

// Types with their meshes. Values of stages that have one name get their places: "h on pp=0".
void name_by_mesh(const Run& run, std::vector<ValueReport>& values) {
  std::map<std::string, int> listed;
  for (const ValueReport& value : values) ++listed[value.key()];
  for (ValueReport& value : values) {
    value.type += on_mesh(run, value.spec);
    if (value.spec == nullptr || listed[value.key()] < 2) continue;
    value.name += " on " + place_in_mesh(run, *value.spec->layout());
  }
}

// Judges the calls of the run; null if that is not asked for, or if no process sees the values of
// all ranks.
std::unique_ptr<Steps> steps_of(const Run& run, StepVerdict& verdict) {
  const ScenarioOptions& options = run.options;
  if (is_shape_only(options.backend)) return nullptr;
  if (run.scenario.expect.verify == Verify::kNone) return nullptr;
  if (find_backend(options.backend).processes != nullptr) {
    verdict.not_judged = "calls are judged in simulation only";
    return nullptr;
  }
  StepOptions steps{.ranks = run.scenario.world, .propagator = run.propagator.get()};
  DeviceChoice choice = options.device;
  if (options.memory) {
    constexpr std::int64_t kShare = 4;  // of the memory there is, for values that wait
    steps.most_bytes = options.memory->available_bytes / kShare;
    choice.most_bytes = options.memory->available_bytes;
  }
  steps.device = make_device(choice, options.backend);
  return std::make_unique<Steps>(std::move(steps));
}

// Records the graphs of the ranks; null if nothing is expected of them.
std::unique_ptr<Recorders> recorders_of(const Run& run, ScenarioJudgement& judgement) {
  if (!run.scenario.expect.asks_for_graphs()) return nullptr;
  if (find_backend(run.options.backend).processes == nullptr) {
    return std::make_unique<Recorders>(run.layout);
  }
  judgement.warnings.emplace_back(
      "[expect]: graphs are not looked at where each rank is a process of its own");
  return nullptr;
}

}  // namespace

bool judges_early(const Scenario& scenario, const ScenarioOptions& options) {
  const bool wanted = options.keep_elements > 0 || options.recorded || options.memory_timeline ||
                      scenario.expect.checkpoint || scenario.reference;
  const bool usual = options.backend == "threads" &&
                     options.schedule.kind == SchedulerKind::kPool &&
                     options.device.name == DeviceChoice().name;
  const ProgramTraits traits = traits_of(*scenario.program);
  const bool plain = traits.leaves || traits.reads_rank || traits.asserts_close;
  return !wanted && usual && !plain && scenario.expect.verify == Verify::kEvery;
}

bool ScenarioResult::met() const {
  if (run.reported_elsewhere) return judgement.met_elsewhere;
  for (const ExpectationReport& expectation : judgement.expectations) {
    if (!expectation.met) return false;
  }
  if (judgement.failure_expected) return true;
  if (run.error || judgement.steps.wrong_found()) return false;
  return std::ranges::none_of(judgement.values, is_wrong);
}

std::int64_t ScenarioResult::line_to_look_at() const {
  const auto mistake = mistake_of(run, {judgement.values, judgement.steps, judgement.parted});
  if (mistake && !mistake->lines.empty() && mistake->lines[0] > 0) return mistake->lines[0];
  for (const ExpectationReport& expectation : judgement.expectations) {
    if (expectation.met || expectation.where.source == nullptr) continue;
    return expectation.where.source->place(expectation.where.span.begin).line;
  }
  return 0;
}

ScenarioResult run_scenario(const Scenario& scenario, const OpRegistry& all_ops,
                            const ScenarioOptions& options) {
  ScenarioResult result;
  result.run = prepare_run(scenario, all_ops, options);
  ProgramRun ranks;
  const std::unique_ptr<Steps> steps = steps_of(result.run, result.judgement.steps);
  const std::unique_ptr<Recorders> recorders = recorders_of(result.run, result.judgement);
  CallListeners listeners;
  if (steps != nullptr) listeners.add(*steps);
  if (recorders != nullptr) listeners.add(*recorders);
  const auto log = std::make_shared<FabricLog>();
  log->most = 100'000;
  constexpr std::int64_t kMostRanks = 64;  // of those that are proven in passing
  const bool proven = options.backend == "threads" && options.log == nullptr &&
                      (scenario.expect.transports || scenario.world <= kMostRanks);
  if (proven) result.run.options.log = log.get();
  const std::unique_ptr<EarlyJudge> early = early_judge_of(result.run);
  ranks.drain = early.get();
  std::optional<AloneBeside> beside;
  if (early) beside.emplace(scenario, all_ops, *early, *options.beside);
  run_on_ranks(result.run, listeners.empty() ? nullptr : &listeners, ranks);
  if (beside) result.run.options.alone = beside->ends();
  name_groups(result.run);
  if (steps != nullptr) result.judgement.steps = steps->verdict();
  process::ControlChannel* channel = channel_of(options.backend);
  if (channel != nullptr && !result.run.reported_elsewhere) channel->reports();
  const std::int64_t reporter = result.run.reporting_rank;
  if (result.run.reported_elsewhere) {
    result.judgement.met_elsewhere = share_finding(
        *channel, reporter, result.run.error ? RunFinding::kRunFailed : RunFinding::kNotMet);
    return result;
  }
  if (!judge(result, ranks, recorders.get(), early.get())) {
    ScenarioOptions again = options;
    again.beside = nullptr;
    return run_scenario(scenario, all_ops, again);
  }
  name_by_mesh(result.run, result.judgement.values);
  result.run.options.log = options.log;
  if (proven && !log->full()) result.judgement.calls = log;
  if (channel != nullptr) {
    share_finding(*channel, reporter, result.met() ? RunFinding::kMet : RunFinding::kNotMet);
  }
  return result;
}

}  // namespace shardlab
