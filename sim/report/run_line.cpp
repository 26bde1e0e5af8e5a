// A run in a line or two: its end, its first failure, and the command that repeats it.
#include <fmt/format.h>

#include <algorithm>

#include "backends/process/checks.h"
#include "base/text.h"
#include "sim/judge/expected_mistake.h"
#include "sim/report/implicit_moves.h"
#include "sim/report/outcome_text.h"
#include "sim/report/paint.h"
#include "sim/report/run_listing.h"
#include "sim/report/run_text.h"

namespace shardlab {

namespace {

// The first value of an outcome, with its line.
std::string first_of(const std::vector<ValueReport>& values, Outcome outcome) {
  const auto first = std::ranges::find(values, outcome, &ValueReport::outcome);
  return fmt::format("{} (line {})", shown_name(*first), first->line);
}

// "7 values verified", "6 verified, 1 differs: token (line 12)".
std::string outcomes_text(const std::vector<ValueReport>& values, bool wrong_expected) {
  constexpr Outcome kOthers[] = {Outcome::kWrong, Outcome::kDiffers, Outcome::kLeftAsTerms,
                                 Outcome::kNoCounterpart, Outcome::kNotCompared};
  const ValueCounts counts = count_values(values);
  std::string others;
  for (const Outcome outcome : kOthers) {
    if (counts[outcome] == 0) continue;
    others += fmt::format(", {} {}", counts[outcome], word_of(outcome));
    if (outcome == Outcome::kWrong && wrong_expected) {
      others += " as expected";
    } else if (outcome == Outcome::kWrong || outcome == Outcome::kDiffers) {
      others += ": " + first_of(values, outcome);
    }
  }
  const std::int64_t verified = counts[Outcome::kVerified];
  return (others.empty() ? counted(verified, "value") : fmt::format("{}", verified)) + " verified" +
         others;
}

std::string unmet_text(const ExpectationReport& expectation) {
  return fmt::format("{}: {}", expectation.what, expectation.text);
}

// One word for a shell.
std::string quoted(const std::string& word) {
  static constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string result = "'";
  for (const char letter : word) {
    if (letter == '\'') {
      result += "'\\''";
    } else {
      result += letter;
    }
  }
  return result + "'";
}

}  // namespace

std::string classes_text(const Run& run) {
  const std::size_t count = run.classes.size();
  return fmt::format("{} {}", count, count == 1 ? "class" : "classes");
}

std::string replay_command(const Run& run) {
  const ProcessBackend* processes = find_backend(run.options.backend).processes;
  const SchedulerOptions& schedule = run.options.schedule;
  const bool seeded = schedule.kind == SchedulerKind::kSeeded;
  std::string command =
      processes != nullptr ? processes->launcher(run.scenario.world) + " " : std::string();
  command += "shardlab run " + quoted(run.scenario.file->file());
  for (const std::string& setting : run.scenario.settings) {
    if (!seeded && setting.starts_with("seed=")) continue;
    command += " --set " + quoted(setting);
  }
  if (run.options.backend != run.scenario.backend) command += " --backend " + run.options.backend;
  if (processes != nullptr && run.options.checks == CollectiveChecks::kOff) {
    command += " --no-check-collectives";
  }
  if (run.options.transport) {
    command += fmt::format(" --transport {}", to_string(*run.options.transport));
  }
  if (run.options.lazy_groups) command += " --lazy-groups";
  if (run.options.strict) command += " --strict";
  if (schedule.kind != SchedulerKind::kPool) {
    command += fmt::format(" --scheduler {}", to_string(schedule.kind));
  }
  return command + fmt::format(" --seed {}", seeded ? schedule.seed : run.scenario.seed);
}

std::vector<std::string> warnings_of(const ScenarioResult& result) {
  std::vector<std::string> texts = result.run.warnings;
  const std::vector<std::string>& undecided = result.judgement.warnings;
  texts.insert(texts.end(), undecided.begin(), undecided.end());
  if (!result.judgement.parted.empty()) texts.push_back(cause_text(result.judgement.parted));
  const std::vector<std::string> implicit = implicit_warnings(result.run);
  texts.insert(texts.end(), implicit.begin(), implicit.end());
  return texts;
}

static std::string difference_text(const std::vector<ValueReport>& values) {
  const auto first = std::ranges::find(values, Outcome::kDiffers, &ValueReport::outcome);
  if (first == values.end()) return "";
  const std::string cause = first->cause.empty() ? "" : "; " + cause_text(first->cause);
  return fmt::format("{} ({}) differs: {}{}", shown_name(*first), first->where.at(), first->reason,
                     cause);
}

std::string failure_text(const ScenarioResult& result) {
  const ScenarioJudgement& judgement = result.judgement;
  if (result.met()) return judgement.failure_expected ? "" : difference_text(judgement.values);
  for (const ExpectationReport& expectation : judgement.expectations) {
    if (expectation.of_failure && !expectation.met) return unmet_text(expectation);
  }
  if (result.run.error && !judgement.failure_expected) return result.run.error->summary();
  if (const auto& call = judgement.steps.wrong) {
    const auto mistake =
        mistake_of(result.run, {judgement.values, judgement.steps, judgement.parted});
    const ValueReport* value = mistake ? mistake->value : nullptr;
    const bool known = value != nullptr && !value->cause.empty();
    // A value of another line has a mistake of its own.
    const int line = call->place.position.line;
    const bool apart = known && value->line != line && line_of_cause(*value) != line &&
                       call->place.pass != Pass::kBackward;
    if (!apart) {
      return fmt::format("wrong call {}: {}{}", to_string(call->place), call->text(),
                         known ? "; " + cause_text(value->cause) : "");
    }
  }
  for (const ValueReport& value : judgement.values) {
    if (!is_wrong(value)) continue;
    std::string what = value.comparison.what;
    if (!value.cause.empty()) what += (what.empty() ? "" : "; ") + cause_text(value.cause);
    return fmt::format("wrong value {} ({}): {}", shown_name(value), value.where.at(), what);
  }
  for (const ExpectationReport& expectation : judgement.expectations) {
    if (!expectation.met) return unmet_text(expectation);
  }
  return "not as expected";
}

std::string run_line(const ScenarioResult& result, const RunTextOptions& options) {
  const Run& run = result.run;
  std::int64_t collectives = 0;
  for (const CollectiveCounts& rank : run.counts) {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < kCollectiveKinds; ++i) sum += rank.forward[i] + rank.backward[i];
    collectives = std::max(collectives, sum);
  }
  // Green means proven.
  const std::vector<ValueReport>& values = result.judgement.values;
  const ValueCounts counts = count_values(values);
  const bool expected = result.judgement.failure_expected;
  const bool proven = counts[Outcome::kVerified] > 0 || expected;
  const bool differs = counts[Outcome::kDiffers] > 0 && !expected;
  const std::string verdict =
      !result.met() ? paint("FAILED", Ink::kBad, options.color)
      : differs     ? paint("differs", Ink::kWarn, options.color)
                    : paint("ok    ", proven ? Ink::kGood : Ink::kWarn, options.color);
  std::string name = run.scenario.file->file();
  if (!run.scenario.point.empty()) name += " [" + run.scenario.point + "]";
  const std::string ranks = counted(run.scenario.world, "rank");
  const std::string verified = outcomes_text(values, expected);
  const bool yellow = !proven || differs;
  std::string facts = fmt::format("{}, {}, {}", ranks,
                                  yellow ? paint(verified, Ink::kWarn, options.color) : verified,
                                  counted(collectives, "collective"));
  if (run.shapes_only()) {
    facts = fmt::format("{} in {}, {}, {}", ranks, classes_text(run), result.judgement.not_verified,
                        counted(collectives, "collective"));
  }
  const bool warns = run.scenario.expect.implicit == ImplicitRedistribution::kWarn;
  if (warns && run.implicit_count > 0) {
    facts += ", " + counted(run.implicit_count, "implicit redistribution");
  }
  if (run.error) facts = fmt::format("{}, {}", ranks, run.error->summary());
  return fmt::format("{} {}  {}", verdict, name, facts);
}

}  // namespace shardlab
