// A run in the program's dtypes is close enough to most values; f64 is asked where it leaves a
// doubt.
#include "sim/judge/judged_runs.h"

#include <algorithm>

#include "base/kept_memory.h"
#include "sim/verify/early_judge.h"
#include "sim/world/backends.h"

namespace shardlab {

namespace {

// A program that reads its rank has one reference run per rank: up to this many, or as many as have
// together this many elements of inputs.
constexpr std::int64_t kReferenceRuns = 64;
constexpr std::int64_t kReferenceElements = std::int64_t{1} << 20;

}  // namespace

std::int64_t most_reference_runs(const Scenario& scenario) {
  std::int64_t elements = 1;
  for (const ScenarioInput& input : scenario.inputs) elements += product(input.type.sizes);
  return std::max(kReferenceRuns, kReferenceElements / elements);
}

std::vector<const Recording*> recordings_of(const ProgramRun& run) {
  std::vector<const Recording*> all;
  for (const Recording& recording : run.recordings) all.push_back(&recording);
  return all;
}

bool is_open_claim(const ValueReport& report) {
  const ValueFacts& facts = report.facts;
  return facts.comparable && !facts.agrees() && facts.role != ValueFacts::Role::kOnTheWay;
}

JudgedRuns::JudgedRuns(const Run& run, ScenarioJudgement& judgement, const ProgramRun& ranks,
                       const EarlyJudge* early)
    : run(run), judgement(judgement), ranks(ranks), traits(traits_of(*run.scenario.program)) {
  inputs.ranks = recordings_of(ranks);
  inputs.early = early;
  inputs.reporting_rank = static_cast<std::size_t>(run.reporting_rank);
  inputs.leaves = traits.leaves;
  inputs.mesh = run.layout;
  inputs.tolerance = run.scenario.expect.tolerance;
  inputs.keep = run.scenario.expect.checkpoint ? kKeepAll : run.options.keep_elements;
  if (const auto& memory = run.options.memory)
    inputs.most_elements = most_compared_elements(*memory);
}

const DefUse& JudgedRuns::flow() {
  if (!flow_) flow_.emplace(*run.scenario.program);
  return *flow_;
}

// The ranks and one device once more, in f64, with all operands and results of their steps. Made
// once; null if they do not run.
const std::vector<MatchedCall>* JudgedRuns::matched() {
  if (!logs_) {
    logs_.emplace(run.scenario.world);
    logs_->complete = log_calls(*logs_);
    if (logs_->complete) {
      logs_->matched =
          matched_calls(logs_->ranks, logs_->alone, *run.layout, rounding::kRelativeInF64);
    }
  }
  return logs_->complete ? &logs_->matched : nullptr;
}

// A stage's steps are those of its rank in the smaller world.
std::vector<MatchedCall> JudgedRuns::steps_of(const CallLog& calls,
                                              const ValueReport& report) const {
  const int stage = stages ? stages->stage_of(report) : -1;
  return matched_calls(calls, stage < 0 ? logs_->alone : stages->calls(), *inputs_of(report).mesh,
                       rounding::kRelativeInF64, std::max(stage, 0));
}

// `of_stage` is filled in if they are a stage's.
const std::vector<MatchedCall>* JudgedRuns::matched_of(const ValueReport& report,
                                                       std::vector<MatchedCall>& of_stage) {
  const auto* calls = matched();
  if (calls == nullptr || !is_in_stage(report)) return calls;
  of_stage = steps_of(logs_->ranks, report);
  return &of_stage;
}

bool JudgedRuns::log_calls(CallLogs& logs) {
  if (!in_f64_ || in_f64_->error) return false;
  ProgramRun again;
  prepare_in_f64(again);
  again.listener = &logs.ranks;
  execute(again, *run.propagator, run.scenario.world, simulated());
  AloneOptions options = alone.options;
  options.precision = Precision::kReference;
  options.listener = &logs.alone;
  run_alone(options, *run.propagator, run.options);
  return !again.error;
}

AloneOptions JudgedRuns::alone_options(ReportedWorld world, std::int64_t runs) const {
  return {.scenario = &run.scenario,
          .layout = run.layout,
          .registry = ranks.registry,
          .answers = &ranks.answers,
          .answers_rank = traits.reads_rank ? ranks.reporting_rank : 0,
          .world = world,
          .reported_ranks = runs};
}

void JudgedRuns::take_alone() {
  inputs.one_device.emplace();
  inputs.one_device->single = alone.single.recordings;
  note_failure();
}

void JudgedRuns::note_failure() {
  OneDeviceValues& one = *inputs.one_device;
  one.failure = alone.failure();
  one.other_shape = std::ranges::any_of(alone.single.recordings, &Recording::has_other_shape);
  if (one.failure.empty()) return;
  inputs.nothing = "the single-device run fails: " + one.failure;
  if (inputs.given.single != nullptr) return;
  judgement.not_verified = inputs.nothing;
  judgement.not_verified_fix =
      "say in [reference] what the single-device run computes, or expect verify = \"none\"";
}

// True if there was such a run already, which did not fail.
bool JudgedRuns::takes_known_f64() {
  const auto& known = run.options.alone;
  if (!known || !known->in_f64 || traits.leaves) return false;
  alone.reference = std::move(known->in_f64->runs);
  return true;
}

std::set<std::string> JudgedRuns::names_in_doubt() const {
  std::set<std::string> names;
  for (const ValueReport& report : judgement.values) {
    if (in_doubt(report)) names.insert(report.name);
  }
  return names;
}

// Only open values are kept, if right ones are let go. The noise of values in f64 is that of all.
void JudgedRuns::run_open_in_f64() {
  const bool wide =
      std::ranges::any_of(alone.single.recordings.front()->values(), [](const RecordedValue& held) {
        return held.value.dtype() == DType::kF64 || held.value.dtype() == DType::kC128;
      });
  const std::set<std::string> names = names_in_doubt();
  auto all = inputs.ranks;
  all.insert(all.end(), inputs.one_device->single.begin(), inputs.one_device->single.end());
  for (const Recording* recording : all) {
    if (inputs.early == nullptr) break;
    for (const RecordedValue& value : recording->values()) {
      if (!names.contains(value.name)) let_go(value.value.local());
    }
  }
  if (inputs.early != nullptr) give_back_freed_memory();
  WantedValues wanted(*run.scenario.program, names);
  if (inputs.early != nullptr && !wide) alone.options.drain = &wanted;
  run_in_f64(alone);
  alone.options.drain = nullptr;
}

void JudgedRuns::run_in_f64(Alone& one) {
  one.options.precision = Precision::kReference;
  one.reference = run_alone(one.options, *run.propagator, run.options);
}

// Only made when the error of the single-device run itself is needed: most values are close
// enough to that run in the program's dtypes.
void JudgedRuns::run_alone_in_f64() {
  if (!takes_known_f64()) run_open_in_f64();
  take_alone_in_f64();
  if (inputs.given.single != nullptr) run_reference_in_f64();
}

void JudgedRuns::take_alone_in_f64() {
  OneDeviceValues& one = *inputs.one_device;
  one.reference = alone.reference.recordings;
  for (std::size_t rank = 0; rank < std::min(one.single.size(), one.reference.size()); ++rank) {
    one.largest = std::max(one.largest, largest_in_f64(*one.single[rank], *one.reference[rank]));
  }
  note_failure();
}

void JudgedRuns::run_reference_in_f64() {
  run_in_f64(given_);
  inputs.given.reference = given_.reference.recordings[0];
  inputs.given.largest = largest_in_f64(*inputs.given.single, *inputs.given.reference);
  if (!reference_runs()) inputs.given = {};
}

void JudgedRuns::run_reference() {
  if (!run.scenario.reference) return;
  reference_program_ = as_reference(run.scenario);
  given_.options = {.scenario = &reference_program_,
                    .layout = run.layout,
                    .registry = ranks.registry,
                    .world = ReportedWorld::kOne};
  given_.single = run_alone(given_.options, *run.propagator, run.options);
  if (!reference_runs()) return;
  judgement.not_verified.clear();
  judgement.not_verified_fix.clear();
  inputs.given.single = given_.single.recordings[0];
}

bool JudgedRuns::reference_runs() {
  if (given_.runs()) return true;
  judgement.expectations.push_back(
      {.what = "reference", .met = false, .text = "fails: " + given_.failure()});
  return false;
}

// The ranks once more, in f64: rounding is then too small to be taken for a mistake, and no
// mistake is small enough to be taken for rounding. They share this process on every backend.
const ProgramRun& JudgedRuns::ranks_in_f64() {
  if (in_f64_) return *in_f64_;
  in_f64_.emplace();
  prepare_in_f64(*in_f64_);
  if (traits.leaves) {
    parts.emplace(flow().parts_by_rank, *run.layout, run.scenario.world);
    in_f64_->parts = parts->expressions();
    if (!in_f64_->parts->empty()) in_f64_->on_part = parts->listener();
  }
  WantedValues wanted(*run.scenario.program, names_in_doubt());
  if (inputs.early != nullptr) in_f64_->drain = &wanted;
  execute(*in_f64_, *run.propagator, run.scenario.world, simulated());
  in_f64_->drain = nullptr;
  return *in_f64_;
}

void JudgedRuns::prepare_in_f64(ProgramRun& again) const {
  again.scenario = &run.scenario;
  again.registry = ranks.registry;
  again.layout = run.layout;
  again.reported = run.layout;
  again.reporting_rank = ranks.reporting_rank;
  again.precision = Precision::kReference;
}

ScenarioOptions JudgedRuns::simulated() const {
  ScenarioOptions options = run.options;
  if (channel_of(options.backend) != nullptr) options.backend = "threads";
  return options;
}

// A number that overflows in its dtype, and not in f64, may turn a branch: then the values of f64
// are those of another path.
void JudgedRuns::take_ranks_in_f64() {
  const ProgramRun& in_f64 = ranks_in_f64();
  if (in_f64.error || !same_branches(ranks.answers, in_f64.answers)) return;
  inputs.ranks_in_f64 = recordings_of(in_f64);
}

}  // namespace shardlab
