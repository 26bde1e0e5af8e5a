// A value is right when it agrees with the single-device run of the program. The rank and world of
// that run are clear as long as the program works on DTensors. If the program works on plain
// tensors, the single-device run may get the true number of ranks, or a world of one rank
// (all_reduce(g) / world_size): a value has to agree with one of the two runs.
#include "sim/judge/verdict.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "sim/language/run/program_traits.h"
#include "sim/language/syntax/ast_walk.h"
#include "sim/run/one_device.h"
#include "sim/run/process_records.h"
#include "sim/verify/assertions.h"
#include "sim/verify/causes.h"
#include "sim/verify/evidence.h"
#include "sim/verify/labels/literal_size.h"
#include "sim/verify/parting_branches.h"
#include "sim/verify/verify.h"

namespace shardlab {

// Named, because the header declares Verification, which has these as members.
namespace verification {

// One choice of rank and world for the single-device run, in the program's dtypes and in f64.
struct Meaning {
  AloneOptions alone;
  AloneRuns single;
  AloneRuns reference;  ///< of no run until it is needed
  const std::string& failure() const {
    return single.failure.empty() ? reference.failure : single.failure;
  }
  bool runs() const { return failure().empty(); }
};

/// The calls of the ranks and of one device, in f64.
struct CallLogs {
  explicit CallLogs(std::int64_t ranks) : ranks(ranks), alone(1) {}
  CallLog ranks, alone;
  bool complete = false;  ///< all of them ran to their ends
};

}  // namespace verification

namespace {

using verification::CallLogs;
using verification::Meaning;

// A program that reads its rank has one reference run per rank: up to this many, or as many as have
// together this many elements of inputs.
constexpr std::int64_t kReferenceRuns = 64;
constexpr std::int64_t kReferenceElements = std::int64_t{1} << 20;

std::int64_t most_reference_runs(const Scenario& scenario) {
  std::int64_t elements = 1;
  for (const ScenarioInput& input : scenario.inputs) elements += product(input.type.sizes);
  return std::max(kReferenceRuns, kReferenceElements / elements);
}

// True when the text calls functions with jumps: near a jump the last digit of an operand changes
// the whole result.
bool has_jumps(const ast::Program& program) {
  constexpr std::string_view kJumps[] = {"sign",  "sgn",       "heaviside",   "signbit", "copysign",
                                         "floor", "ceil",      "round",       "trunc",   "frac",
                                         "fmod",  "remainder", "floor_divide"};
  return ast::any_part(program.body, [&](const ast::Expression& part) {
    const auto* attribute = std::get_if<ast::Attribute>(&part.node);
    const auto* name = std::get_if<ast::Name>(&part.node);
    std::string_view called = attribute != nullptr ? std::string_view(attribute->name)
                              : name != nullptr    ? std::string_view(name->id)
                                                   : std::string_view();
    if (called.ends_with('_')) called.remove_suffix(1);
    return std::ranges::find(kJumps, called) != std::end(kJumps);
  });
}

// Values that [expect] names, at their end, and gradients.
void keep_outputs_only(const Scenario& scenario, std::vector<ValueReport>& values) {
  std::vector<ValueReport> kept;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string& name = values[i].name;
    const bool gradient = name.ends_with(".grad");
    const bool named = std::any_of(scenario.expect.types.begin(), scenario.expect.types.end(),
                                   [&](const ExpectedType& t) { return t.full_name() == name; });
    const bool last =
        std::none_of(values.begin() + static_cast<std::ptrdiff_t>(i) + 1, values.end(),
                     [&](const ValueReport& v) { return v.name == name; });
    if (gradient || (named && last)) kept.push_back(values[i]);
  }
  values = std::move(kept);
}

}  // namespace

class Verification {
 public:
  Verification(const Run& run, ScenarioJudgement& judgement, const ProgramRun& ranks)
      : run_(run), judgement_(judgement), ranks_(ranks), traits_(traits_of(*run.scenario.program)) {
    inputs_.ranks = recordings_of(ranks);
    inputs_.reporting_rank = static_cast<std::size_t>(run.reporting_rank);
    inputs_.traits = &traits_;
    inputs_.mesh = run.layout;
    inputs_.tolerance = run.scenario.expect.tolerance;
    inputs_.keep = run.options.keep_elements;
    if (const auto& memory = run.options.memory) {
      constexpr std::int64_t kBytesEach = 64;  // three values as doubles, and marks of their pieces
      inputs_.most_elements = memory->available_bytes / kBytesEach;
    }
  }

  // Only a run in f64 decides which values are close; it is made if the program asks.
  std::optional<Error> failed_assertion() {
    if (!traits_.asserts_close) return std::nullopt;
    run_in_f64();
    if (!in_f64_->error) {
      return shardlab::failed_assertion(recordings_of(*in_f64_), inputs_.ranks);
    }
    judgement_.warnings.push_back("assert_close is not decided: in f64 the program fails: " +
                                  in_f64_->error->summary());
    return std::nullopt;
  }

  void explain_failure() {
    judgement_.parted = parted_at(*run_.scenario.program, traits_, inputs_.ranks);
  }

  void run() {
    if (run_.scenario.expect.verify == Verify::kNone) {
      judgement_.not_verified = "verify = \"none\"";
      if (inputs_.keep > 0) judgement_.values = verify_values(inputs_);
      return;
    }
    if (traits_.leaves) {
      for (std::string& text : parting_branches(*run_.scenario.program, traits_, inputs_.ranks)) {
        judgement_.warnings.push_back(std::move(text));
      }
    }
    inputs_.nothing = "the single-device run does not get here";
    run_alone_as_meant();
    run_reference();
    judgement_.values = verify_values(inputs_);
    if (traits_.leaves || in_doubt(judgement_.values)) {
      run_alone_in_f64();
      judge_again();
      if (traits_.leaves || in_doubt(judgement_.values)) decide_in_f64();
    }
    doubt_jumps();
    doubt_sums();
    doubt_literal_sizes();
    warn_of_terms();
    explain_first();
    if (run_.scenario.expect.verify == Verify::kOutputs) {
      keep_outputs_only(run_.scenario, judgement_.values);
    }
  }

 private:
  static std::vector<const Recording*> recordings_of(const ProgramRun& run) {
    std::vector<const Recording*> all;
    for (const Recording& recording : run.recordings) all.push_back(&recording);
    return all;
  }

  // Only the first wrong values are explained: those that follow from them are wrong, too.
  void explain_first() {
    constexpr int kMost = 3;
    int tried = 0;
    std::optional<Cause> lost;
    for (ValueReport& report : judgement_.values) {
      if (!is_wrong(report)) continue;
      if (tried == 0 && traits_.leaves) lost = find_lost();
      if (tried++ == kMost) return;
      if (!report.cause.empty()) continue;
      report.cause = explain_wrong(inputs_, report, run_.scenario, *run_.layout, lost);
      if (report.cause.line == 0) report.cause.line = line_behind(report, lost);
      if (tried > 1 && report.cause.id == causes::kNone) report.cause = {};
    }
  }

  // The line for a cause found by numbers alone: the call with the same mistake. A gradient is at
  // its input, and the first wrong call of backward is its place.
  int line_behind(const ValueReport& report, const std::optional<Cause>& lost) const {
    const bool gradient = report.name.ends_with(".grad");
    if (lost && lost->id == report.cause.id && (gradient || lost->line <= report.line)) {
      return lost->line;
    }
    const std::optional<WrongStep>& wrong = judgement_.steps.wrong;
    const bool known = gradient && wrong && wrong->place.pass == Pass::kBackward;
    return known ? wrong->place.position.line : 0;
  }

  // The ranks and one device once more, in f64, with all operands and results of their calls. Made
  // once; null if they do not run.
  const CallLogs* logged_calls() {
    if (!logs_) {
      logs_.emplace(run_.scenario.world);
      logs_->complete = log_calls(*logs_);
    }
    return logs_->complete ? &*logs_ : nullptr;
  }

  bool log_calls(CallLogs& logs) {
    if (meanings_.empty() || in_f64_ == std::nullopt || in_f64_->error) return false;
    ProgramRun again;
    prepare_in_f64(again);
    again.listener = &logs.ranks;
    execute(again, *run_.propagator, run_.scenario.world, simulated());
    AloneOptions alone = meanings_.back().alone;  // a world of one where there is one
    alone.precision = Precision::kReference;
    alone.reported_ranks = 1;
    alone.listener = &logs.alone;
    run_alone(alone, *run_.propagator, run_.options);
    return !again.error;
  }

  std::optional<Cause> find_lost() {
    const CallLogs* logs = logged_calls();
    if (logs == nullptr) return std::nullopt;
    return first_lost(logs->ranks, logs->alone, *run_.layout, kRelativeInF64);
  }

  // A term is never claimed to be whole. If no other value is compared either, the last term is
  // reported.
  void warn_of_terms() {
    if (count_values(judgement_.values).verified > 0) return;
    const auto last = std::ranges::find_if(
        judgement_.values.rbegin(), judgement_.values.rend(), [](const ValueReport& report) {
          return report.not_verified.starts_with("each rank holds") &&
                 report.not_verified.find("a term of") != std::string::npos;
        });
    if (last == judgement_.values.rend()) return;
    judgement_.warnings.push_back(
        fmt::format("nothing is verified, and of {} in line {} {}: if it is meant to be whole, a "
                    "collective is missing",
                    last->name, last->line, last->not_verified));
  }

  // In a program of distributed tensors alone a value is made by its calls. If each of them is
  // right on its own operands, a number that is off even in f64 follows from a jump that rounding
  // turned: the sign of a number that is 0 in exact arithmetic.
  void doubt_jumps() {
    const StepVerdict& steps = judgement_.steps;
    const bool all_right = steps.judged && !steps.wrong_found() && steps.skipped.empty();
    if (traits_.leaves || !all_right || inputs_.given.single != nullptr) return;
    if (!has_jumps(*run_.scenario.program)) return;
    for (ValueReport& report : judgement_.values) {
      Comparison& comparison = report.comparison;
      if (!is_wrong(report)) continue;
      if (report.replicas_differ || comparison.worst_index < 0) continue;
      comparison.agreement = Agreement::kUndecided;
      comparison.what.clear();
      report.holders.clear();
    }
  }

  // A sum of the ranks' averages is no mistake if the program divides it by their number.
  void doubt_sums() {
    if (!traits_.leaves || inputs_.ranks_in_f64.empty()) return;
    for (ValueReport& report : judgement_.values) {
      if (!is_wrong(report)) continue;
      const std::optional<double> factor = times_too_large(report);
      if (!factor) continue;
      const CallLogs* logs = logged_calls();
      if (logs == nullptr) return;
      const RecordedValue& held = *inputs_.ranks_in_f64.front()->find(report.key());
      const auto line = line_that_divides(*run_.scenario.program, logs->ranks.by_rank().front(),
                                          report.name, whole_value(held.value.local()), *factor);
      if (!line) continue;
      report.verified = false;
      report.not_verified =
          fmt::format("is {:.0f} times one device's, and line {} divides it", *factor, *line);
      report.comparison = {};
      report.holders.clear();
    }
  }

  // The one count of ranks by which a plain value is larger than one device's, in f64.
  std::optional<double> times_too_large(const ValueReport& report) const {
    const RecordedValue* held = inputs_.ranks_in_f64.front()->find(report.key());
    const OneDeviceValues& one = inputs_.one_device.back();  // a world of one where there is one
    const RecordedValue* single =
        one.reference.empty() ? nullptr : one.reference[0]->find(report.key());
    if (held == nullptr || single == nullptr || held->value.distributed()) return std::nullopt;
    if (held->value.shape() != single->value.shape()) return std::nullopt;
    const GlobalValue got = whole_value(held->value.local());
    GlobalValue expected = whole_value(single->value.local());
    const double factor = report.comparison.got / report.comparison.expected;
    for (double& number : expected.reals) number *= factor;
    const bool whole =
        factor > 1.5 && std::fabs(factor - std::round(factor)) < 1e-6 &&
        all_close(got.reals, expected.reals, kRelativeInF64 * largest_finite(expected.reals));
    return whole ? std::optional(std::round(factor)) : std::nullopt;
  }

  // One device divides by the size of a piece, too, if that number is in the text.
  void doubt_literal_sizes() {
    if (count_values(judgement_.values).wrong > 0) return;
    if (!traits_.leaves || !divides_by_numbers(*run_.scenario.program)) return;
    const CallLogs* logs = logged_calls();
    if (logs == nullptr) return;
    const auto literal = literal_size(logs->ranks, logs->alone, *run_.layout, kRelativeInF64);
    if (!literal) return;
    const std::set<std::string> names = follow_from(*run_.scenario.program, literal->line);
    for (ValueReport& report : judgement_.values) {
      if (!report.verified || !traits_.follows_exchange(report.name)) continue;
      const std::string own = report.name.substr(report.name.rfind('.') + 1);
      const bool gradient = report.name.ends_with(".grad");
      if (!names.contains(gradient ? ".grad" : own.substr(0, own.find('[')))) continue;
      const Recording* given = inputs_.given.single;
      if (given != nullptr && given_value(*given, report.name) != nullptr) continue;
      report.verified = false;
      report.not_verified = literal->text;
    }
  }

  void run_alone_as_meant() {
    const std::int64_t ranks = run_.scenario.world;
    const std::int64_t runs =
        traits_.reads_rank ? std::min(ranks, most_reference_runs(run_.scenario)) : 1;
    if (traits_.reads_rank) inputs_.reported_ranks = runs;
    add_meaning(ReportedWorld::kTrue, runs);
    const bool counts = traits_.reads_rank || traits_.reads_world;
    if (traits_.leaves && counts) add_meaning(ReportedWorld::kOne, 1);
    note_failures();
  }

  void note_failures() {
    for (std::size_t i = 0; i < meanings_.size(); ++i) {
      inputs_.one_device[i].complete = meanings_[i].runs();
      inputs_.one_device[i].other_shape =
          std::ranges::any_of(meanings_[i].single.recordings, &Recording::has_other_shape);
    }
    if (inputs_.given.single != nullptr || std::ranges::any_of(meanings_, &Meaning::runs)) return;
    judgement_.not_verified =
        fmt::format("the single-device run fails: {}", meanings_.back().failure());
    judgement_.not_verified_fix =
        "say in [reference] what the single-device run computes, or expect verify = \"none\"";
  }

  void add_meaning(ReportedWorld world, std::int64_t runs) {
    Meaning meaning;
    meaning.alone = {.scenario = &run_.scenario,
                     .layout = run_.layout,
                     .registry = ranks_.registry,
                     .answers = &ranks_.answers,
                     .answers_rank = traits_.reads_rank ? ranks_.reporting_rank : 0,
                     .world = world,
                     .reported_ranks = runs};
    if (run_.options.alone && runs == 1) {
      meaning.single = std::move(run_.options.alone->runs);
    } else {
      meaning.single = run_alone(meaning.alone, *run_.propagator, run_.options);
    }
    inputs_.one_device.push_back({.single = meaning.single.recordings,
                                  .reference = {},
                                  .one_rank = world == ReportedWorld::kOne});
    meanings_.push_back(std::move(meaning));
  }

  // True if there was such a run already, which did not fail.
  bool takes_known_f64(Meaning& meaning) {
    const auto& alone = run_.options.alone;
    if (!alone || !alone->in_f64.valid() || &meaning != meanings_.data()) return false;
    try {
      meaning.reference = std::move(alone->in_f64.get()->runs);
    } catch (const Error&) {
      return false;
    }
    return true;
  }

  void run_in_f64(Meaning& meaning) {
    if (takes_known_f64(meaning)) return;
    meaning.alone.precision = Precision::kReference;
    meaning.reference = run_alone(meaning.alone, *run_.propagator, run_.options);
  }

  // Only made when the error of the single-device run itself is needed: most values are close
  // enough to that run in the program's dtypes.
  void run_alone_in_f64() {
    for (std::size_t i = 0; i < meanings_.size(); ++i) {
      run_in_f64(meanings_[i]);
      OneDeviceValues& one = inputs_.one_device[i];
      one.reference = meanings_[i].reference.recordings;
      for (std::size_t rank = 0; rank < std::min(one.single.size(), one.reference.size()); ++rank) {
        one.largest =
            std::max(one.largest, largest_in_f64(*one.single[rank], *one.reference[rank]));
      }
    }
    if (inputs_.given.single != nullptr) {
      run_in_f64(given_);
      inputs_.given.reference = given_.reference.recordings[0];
      inputs_.given.largest = largest_in_f64(*inputs_.given.single, *inputs_.given.reference);
      if (!reference_runs()) inputs_.given = {};
    }
    note_failures();
  }

  void run_reference() {
    if (!run_.scenario.reference) return;
    reference_program_ = as_reference(run_.scenario);
    given_.alone = {.scenario = &reference_program_,
                    .layout = run_.layout,
                    .registry = ranks_.registry,
                    .world = ReportedWorld::kOne};
    given_.single = run_alone(given_.alone, *run_.propagator, run_.options);
    if (!reference_runs()) return;
    judgement_.not_verified.clear();
    judgement_.not_verified_fix.clear();
    inputs_.nothing = "the single-device run does not get here, and [reference] does not name it";
    inputs_.given.single = given_.single.recordings[0];
  }

  bool reference_runs() {
    if (given_.runs()) return true;
    judgement_.expectations.push_back(
        {.what = "reference", .met = false, .text = "fails: " + given_.failure(), .where = {}});
    return false;
  }

  // The ranks once more, in f64: rounding is then too small to be taken for a mistake, and no
  // mistake is small enough to be taken for rounding. They share this process on every backend.
  void run_in_f64() {
    if (in_f64_) return;
    in_f64_.emplace();
    prepare_in_f64(*in_f64_);
    execute(*in_f64_, *run_.propagator, run_.scenario.world, simulated());
  }

  void prepare_in_f64(ProgramRun& run) const {
    run.scenario = &run_.scenario;
    run.registry = ranks_.registry;
    run.layout = run_.layout;
    run.reported = run_.layout;
    run.reporting_rank = ranks_.reporting_rank;
    run.precision = Precision::kReference;
  }

  ScenarioOptions simulated() const {
    ScenarioOptions options = run_.options;
    if (channel_of(options.backend) != nullptr) options.backend = "threads";
    return options;
  }

  // A number that overflows in its dtype, and not in f64, may turn a branch: then the values of f64
  // are those of another path.
  void decide_in_f64() {
    run_in_f64();
    if (in_f64_->error || !same_branches(ranks_.answers, in_f64_->answers)) return;
    inputs_.ranks_in_f64 = recordings_of(*in_f64_);
    judge_again();
  }

  // If the program works on local tensors, all values are judged again in f64, not only those in
  // doubt.
  void judge_again() {
    if (traits_.leaves) {
      judgement_.values = verify_values(inputs_);
    } else {
      verify_again(inputs_, judgement_.values);
    }
  }

  const Run& run_;
  ScenarioJudgement& judgement_;
  const ProgramRun& ranks_;
  ProgramTraits traits_;
  std::vector<Meaning> meanings_;
  Scenario reference_program_;
  Meaning given_;
  std::optional<ProgramRun> in_f64_;
  std::optional<CallLogs> logs_;
  VerifyInputs inputs_;
};

Verdicts::Verdicts(const Run& run, ScenarioJudgement& judgement, const ProgramRun& ranks)
    : judgement_(judgement), ranks_(ranks) {
  if (!run.shapes_only()) verification_ = std::make_unique<Verification>(run, judgement, ranks);
}

Verdicts::~Verdicts() = default;

std::optional<Error> Verdicts::failed_assertion() {
  return verification_ ? verification_->failed_assertion() : std::nullopt;
}

void Verdicts::explain_failure() {
  if (verification_) verification_->explain_failure();
}

void Verdicts::verify() {
  if (verification_) return verification_->run();
  judgement_.not_verified = "shapes only: nothing verified";
  for (const Recording& recording : ranks_.recordings) {
    list_values(recording, "not computed", judgement_.values);
  }
}

}  // namespace shardlab
