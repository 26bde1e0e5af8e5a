// A label that fits what ranks hold; the step at which the meaning was lost; a value on the way
// that is off in a known way, and with which the program is right if it is not; the value itself.
#include "sim/judge/explain_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/verify/evidence.h"
#include "sim/verify/held_numbers.h"
#include "sim/verify/labels/exchanged.h"
#include "sim/verify/labels/label.h"

namespace shardlab {

namespace {

class Explainer {
 public:
  explicit Explainer(JudgedRuns& runs) : runs_(runs) {}

  // Only the first are explained, as others follow from them; what differs takes no turn of these.
  void explain_first() {
    constexpr int kMost = 3;
    int tried = 0;
    for (const Outcome outcome : {Outcome::kWrong, Outcome::kDiffers}) {
      for (ValueReport& report : runs_.judgement.values) {
        if (report.outcome() != outcome || report.told || !report.cause.empty()) continue;
        if (tried++ == kMost) return explain_by_messages();
        report.cause = explain(report);
        if (tried > 1 && report.cause.id == causes::kNone) report.cause = {};
      }
    }
    explain_by_messages();
  }

 private:
  // A stage that is right itself has a wrong value from the stage that is not.
  void explain_by_messages() {
    for (ValueReport& report : runs_.judgement.values) {
      if (!runs_.is_in_stage(report) || report.cause.id != causes::kNone) continue;
      const auto all = runs_.before(report);
      for (const ValueReport& other : runs_.judgement.values) {
        const bool known = runs_.is_in_stage(other) && other.cause.line > 0 &&
                           runs_.stages->stage_of(other) != runs_.stages->stage_of(report);
        if (!known || !runs_.follows(other, all)) continue;
        report.cause = other.cause;
        break;
      }
    }
  }

  // A label that fits what ranks hold; the step at which the meaning was lost; a value on the way
  // that is off in a known way, and with which the program is right if it is not; this value.
  Cause explain(const ValueReport& report) {
    Cause cause = cause_by_numbers(runs_.inputs_of(report), report, runs_.run.scenario);
    const bool label = cause.id == causes::kOtherLabel && report.spec != nullptr &&
                       cause.text.find("=P(") == std::string::npos;
    const bool number = cause.id == causes::kUnequalNumber;
    // A gradient is at its input, and the first wrong call of backward is its place.
    const std::optional<WrongStep>& wrong = runs_.judgement.steps.wrong;
    const bool in_backward =
        report.name.ends_with(".grad") && wrong && wrong->place.pass == Pass::kBackward;
    if (runs_.traits.leaves && !label && !number) {
      const bool told = !cause.empty() && cause.id != causes::kOtherChunk;
      if (auto step = cause_by_steps(report, told || in_backward)) return *step;
      if (auto part = cause_by_parts(report)) return *part;
    }
    if (cause.empty()) {
      cause = last_cause(runs_.inputs_of(report), report, runs_.run.scenario);
      const bool weak = cause.id == causes::kNone || cause.id == causes::kSomeRanks;
      if (weak && runs_.traits.leaves) {
        Cause known = cause_by_text(runs_.flow(), report, runs_.run.warnings);
        if (known.empty()) known = cause_by_branch(report);
        if (!known.empty()) return known;
      }
      cause.line = first_part_line(report);
    }
    if (in_backward && cause.line == 0) cause.line = wrong->place.position.line;
    return cause;
  }

  // The line of the first value on the way that is not right; 0: there is none. Ranks may go apart
  // in values that follow from the rank.
  int first_part_line(const ValueReport& report) {
    if (!runs_.traits.leaves) return 0;
    const auto all = runs_.before(report);
    for (const ValueReport& part : runs_.judgement.values) {
      const bool told = part.outcome() == Outcome::kPartOfCause && !part.facts.by_rank;
      if (told && runs_.follows(part, all)) return part.line;
    }
    return 0;
  }

  std::optional<Cause> cause_by_parts(const ValueReport& report) {
    const auto all = runs_.before(report);
    for (const ValueReport& part : runs_.judgement.values) {
      if (part.outcome() != Outcome::kPartOfCause || !runs_.follows(part, all)) continue;
      Cause cause = cause_by_numbers(runs_.inputs_of(part), part, runs_.run.scenario);
      if (cause.empty() || !is_right_with_right(part, report)) continue;
      if (cause.line == 0) cause.line = cause.id == causes::kFactor ? last_sum(part) : part.line;
      return cause;
    }
    return std::nullopt;
  }

  // A sum in place that ends the value counts it once too often.
  int last_sum(const ValueReport& report) {
    int line = report.line;
    for (const DefUse::Id id : nodes_of(runs_.flow(), report)) {
      if (runs_.flow().nodes()[id].kind == DefUse::Kind::kReduced) {
        line = std::max(line, runs_.flow().line_of(id));
      }
    }
    return line;
  }

  // The value is right where a part of it is: the step that made the part gives one device's.
  bool is_right_with_right(const ValueReport& part, const ValueReport& report) {
    const auto held = held_by_ranks(runs_.inputs_of(part), part);
    const auto expected = expected_of(runs_.inputs_of(part), part);
    if (!held || !expected || runs_.matched() == nullptr) return false;
    const auto& steps =
        runs_.logged_ranks()
            .by_rank()[static_cast<std::size_t>(runs_.run.layout->rank_at_index(0))];
    for (std::size_t i = steps.size(); i-- > 0;) {
      const LoggedCall& step = steps[i];
      for (std::size_t k = 0; k < step.results.size(); ++k) {
        if (!same_numbers(step.results[k], (*held)[0])) continue;
        const auto ranks = static_cast<std::size_t>(runs_.run.scenario.world);
        return is_right_with({{step.key, k, {ranks, expected}}}, report);
      }
    }
    return false;
  }

  std::optional<Cause> cause_by_steps(const ValueReport& report, bool explained) {
    std::vector<MatchedCall> of_stage;
    const auto* calls = runs_.matched_of(report, of_stage);
    if (calls == nullptr) return std::nullopt;
    const auto all = runs_.before(report);
    Suspicions suspicions{{.calls = *calls,
                           .layout = runs_.inputs_of(report).mesh,
                           .relative = rounding::kRelativeInF64,
                           .by_backward = runs_.flow().any(all, DefUse::Kind::kBackward)},
                          {},
                          explained};
    const SourceText& source = *runs_.run.scenario.program->source;
    for (const DefUse::Id id : all) {
      const SourcePlace place = source.place(runs_.flow().nodes()[id].begin);
      suspicions.path.emplace(place.line, place.column);
    }
    suspicions.number_in = [&](int line, double own, double alone) {
      return number_in(line, own, alone);
    };
    suspicions.mends = [&](const std::vector<ChangedResult>& changes,
                           std::vector<MatchedCall>& steps) {
      return is_right_with(changes, report, &steps);
    };
    if (!runs_.is_in_stage(report) && report.in_floats) {
      suspicions.exchanged = [&]() -> std::optional<Cause> {
        if (!cause_by_text(runs_.flow(), report, runs_.run.warnings).empty()) return std::nullopt;
        return cause_by_exchange({runs_.logged_ranks(), *runs_.run.layout, suspicions.path,
                                  [&](const std::vector<ChangedResult>& changes) {
                                    return is_right_with(changes, report);
                                  }});
      };
    }
    return cause_on_path(suspicions);
  }

  // Ranks that a branch on their number parts, where all are right if they go one device's way.
  Cause cause_by_branch(const ValueReport& report) {
    const auto all = runs_.before(report);
    const auto parts = [&](DefUse::Id id) {
      return runs_.flow().nodes()[id].kind == DefUse::Kind::kDecides &&
             runs_.flow().any(runs_.flow().made_of({id}), DefUse::Kind::kRank);
    };
    const auto turn = std::ranges::find_if(all, parts);
    if (turn == all.end() || runs_.is_in_stage(report)) return {};
    ProgramRun again;
    again.follows.emplace(&runs_.alone.reference.runs.front()->answers, Branches::kFollowed);
    if (!is_right_in(again, report)) return {};
    const int line = runs_.flow().line_of(*turn);
    return {causes::kPartedBranch,
            fmt::format("line {} parts the ranks by their number, and the value is right if all go "
                        "on there as one device does",
                        line),
            line};
  }

  // A name in a line that has these numbers on the ranks and on one device, and the line of it.
  std::optional<std::pair<std::string, int>> number_in(int line, double own, double alone) {
    const auto is = [](double a, double b) {  // 0 is no number that was read
      return std::fabs(a - b) < rounding::kFactor * std::fabs(b);
    };
    const auto& others = runs_.inputs.one_device->single.front()->notes().numbers;
    for (const auto& [name, number] : runs_.inputs.ranks.front()->notes().numbers) {
      const auto other = others.find(name);
      if (other == others.end() || !is(number, own) || !is(other->second, alone)) continue;
      const std::string_view text = runs_.run.scenario.program->source->line(line);
      const int bound = text.find(name) == text.npos ? 0 : line_bound(runs_.flow(), name, line);
      if (bound > 0) return std::pair(name, bound);
    }
    return std::nullopt;
  }

  // A value of other sizes that fits as pieces or terms: its claim is one more mistake.
  bool fits_resized(const VerifyInputs& other, const ValueReport& report) const {
    const auto held = held_by_ranks(other, report),
               before = held_by_ranks(runs_.inputs_of(report), report);
    const auto expected = expected_of(runs_.inputs_of(report), report);
    return held && before && expected && held->front().meta.shape != before->front().meta.shape &&
           label_of(*held, *expected, *mesh_of(report, other.mesh), rounding::kRelativeInF64);
  }

  // The ranks once more with some results changed.
  bool is_right_with(const std::vector<ChangedResult>& changes, const ValueReport& report,
                     std::vector<MatchedCall>* steps = nullptr) {
    ProgramRun again;
    auto changed = std::make_unique<CallLog>(runs_.run.scenario.world, changes);
    again.listener = changed.get();
    if (is_right_in(again, report)) return true;
    if (steps != nullptr && !again.error) {
      trial_ = std::move(changed);
      *steps = runs_.steps_of(*trial_, report);
    }
    return false;
  }

  bool is_right_in(ProgramRun& again, const ValueReport& report) const {
    runs_.prepare_in_f64(again);
    ScenarioOptions options = runs_.simulated();
    options.sharing = KernelSharing::kOff;
    execute(again, *runs_.run.propagator, runs_.run.scenario.world, options);
    if (again.error) return false;
    VerifyInputs other = runs_.inputs_of(report);
    other.keep = 0;
    other.ranks_in_f64 = recordings_of(again);
    if (runs_.is_in_stage(report)) {
      other.ranks_in_f64 =
          runs_.stages->only_of(runs_.stages->stage_of(report), other.ranks_in_f64);
    }
    return agrees_in(other, report) || fits_resized(other, report);
  }

  JudgedRuns& runs_;
  std::unique_ptr<CallLog> trial_;  // of the last run with changed results
};

}  // namespace

void explain_values(JudgedRuns& runs) { Explainer(runs).explain_first(); }

}  // namespace shardlab
