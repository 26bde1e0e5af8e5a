// `shardlab test`: many files, one line each, on several threads if runs share nothing. Failures
// are listed at the end; the exit code says whether all passed.
#include <algorithm>
#include <memory>
#include <thread>

#include "backends/process/control_channel.h"
#include "backends/process/presence.h"
#include "base/error.h"
#include "dispatch/all_ops.h"
#include "sim/cli/interrupts.h"
#include "sim/cli/open_recording.h"
#include "sim/cli/run_arguments.h"
#include "sim/edit/stopwatch.h"
#include "sim/judge/schedules.h"
#include "sim/report/junit.h"
#include "sim/report/paint.h"
#include "sim/schedule/ordered_jobs.h"
#include "sim/world/backends.h"
#include "sim/world/last_words.h"
#include "tensor/needs_values.h"

namespace shardlab {

namespace {

// One scenario at one point of its matrix, or a file that can't be read.
struct TestCase {
  std::string path;
  std::shared_ptr<const ScenarioFile> file;
  MatrixPoint point;
  std::optional<Refusal> unreadable;
};

struct TestOutcome {
  TestReport report;
  RunOutput output;
  std::string again;  ///< the command that runs the failure again
  int code = kFine;
};

// The lines about a failed case at the end.
struct FailedCase {
  std::string name, message, again;
};

bool selected(const RunArguments& arguments, const TestCase& one) {
  const auto has = [&](const std::string& text) {
    return text.find(arguments.filter) != std::string::npos;
  };
  return has(one.path) || has(one.file->title()) || has(one.point.name);
}

std::vector<TestCase> cases_of(const RunArguments& arguments) {
  std::vector<TestCase> cases;
  for (const std::string& path : scenario_files(arguments.files)) {
    TestCase one{path, nullptr, {}, {}};
    one.unreadable = refusal_of(
        [&] { one.file = std::make_shared<ScenarioFile>(open_scenario(path, arguments)); });
    if (one.unreadable) {
      cases.push_back(one);
      continue;
    }
    for (const MatrixPoint& point : one.file->points()) {
      one.point = point;
      if (selected(arguments, one)) cases.push_back(one);
    }
  }
  return cases;
}

std::string name_of(const TestCase& one) {
  return one.point.name.empty() ? one.path : fmt::format("{} [{}]", one.path, one.point.name);
}

void tell(const ScenarioResult& result, const std::string& tried, const RunArguments& arguments,
          TestOutcome& outcome) {
  outcome.code = code_of(result, arguments);
  if (outcome.code != kFine) outcome.report.verdict = TestReport::Verdict::kFailed;
  // A lost process says nothing of the program.
  if (outcome.code == kOnlyByOthers) outcome.report.verdict = TestReport::Verdict::kError;
  if (result.run.reported_elsewhere) return;
  outcome.report.values = count_values(result.judgement.values);
  const bool whole = !result.met() && arguments.verbose;
  if (arguments.common.json || whole) {
    outcome.output = output_of(result, arguments);
  } else {
    outcome.output.out = run_line(result, text_options(arguments)) + tried + "\n";
  }
  outcome.report.message = failure_text(result);
  outcome.report.line = result.line_to_look_at();
  if (result.met()) return;
  RunTextOptions plain = text_options(arguments);
  plain.color = Color::kOff;
  outcome.again = replay_command(result.run);
  outcome.report.text = run_text(result, plain);
  if (result.run.error && !result.judgement.failure_expected) {
    outcome.report.text += "error: " + result.run.error->text() + "\n";
  }
}

// Why this job cannot run the scenario, though the scenario itself is right; empty: it can.
std::string reason_to_skip(const Scenario& scenario, const RunArguments& arguments) {
  const std::string& backend = arguments.backend.empty() ? scenario.backend : arguments.backend;
  if (scenario.transport && backend != "threads") return "needs --backend threads, its fabric";
  const process::ControlChannel* channel = channel_of(arguments);
  if (channel == nullptr || channel->size() == scenario.world) return "";
  return fmt::format("needs {} ranks, and the job has {} processes", scenario.world,
                     channel->size());
}

// The thing that a run on shapes alone could not do, though the scenario is right; empty: none.
std::string missing_values(const Scenario& scenario, const ScenarioResult& result) {
  if (!is_shape_only(result.run.options.backend) || result.met()) return "";
  const auto& error = scenario.expect.error;
  if (!result.run.error && error && error->kind == ErrorKind::kAssert) {
    return "needs values, which shapes alone do not have";  // an assert of elements holds there
  }
  if (result.run.takes_from_any() && result.run.error) {
    return "needs the order of messages, which shapes alone do not have";
  }
  const std::string* needs = result.run.error ? result.run.error->find(kNeeds) : nullptr;
  return needs != nullptr ? "needs " + *needs : "";
}

void skip_case(const TestCase& one, const std::string& reason, const RunArguments& arguments,
               TestOutcome& outcome) {
  outcome.report.verdict = TestReport::Verdict::kSkipped;
  outcome.report.message = reason;
  if (!speaks(arguments) || arguments.common.json) return;
  outcome.output.out = fmt::format("skip   {}  {}\n", name_of(one), reason);
}

void run_case(const TestCase& one, const OpRegistry& registry, const RunArguments& arguments,
              TestOutcome& outcome) {
  const Scenario scenario = one.file->at(one.point);
  if (const std::string reason = reason_to_skip(scenario, arguments); !reason.empty()) {
    return skip_case(one, reason, arguments, outcome);
  }
  const ScenarioOptions options = options_of(arguments, scenario);
  if (arguments.schedules == 0) {
    const ScenarioResult result = run_scenario(scenario, registry, options);
    const std::string reason = missing_values(scenario, result);
    if (!reason.empty()) return skip_case(one, reason, arguments, outcome);
    return tell(result, "", arguments, outcome);
  }
  const ScheduleRange range{options.schedule.seed, arguments.schedules};
  const ScheduleSearch search = try_schedules(scenario, registry, options, range);
  std::string orders = fmt::format(", {} schedules", search.passed);
  if (search.passed > 1) {
    orders +=
        fmt::format(" (a failure by one change of order shows in one with chance {:.1g}: PCT)",
                    pct_bound(scenario.world, search.steps));
  }
  tell(search.result, orders, arguments, outcome);
}

void refuse_case(const Refusal& refusal, TestOutcome& outcome) {
  outcome.report.verdict = TestReport::Verdict::kError;
  outcome.report.message = refusal.text.substr(0, refusal.text.find('\n'));
  outcome.report.text = refusal.text;
  outcome.code = refusal.code;
}

// A file that cannot be run has no report: the error is all of its output.
void refused(const Refusal& refusal, const RunArguments& arguments, TestOutcome& outcome) {
  outcome.output.err = refusal.text;
  if (arguments.common.json) return;
  outcome.output.out =
      fmt::format("{} {}  cannot run\n", paint("FAILED", Ink::kBad, text_options(arguments).color),
                  outcome.report.name);
}

TestOutcome outcome_of(const TestCase& one, const OpRegistry& registry,
                       const RunArguments& arguments) {
  const Stopwatch watch;
  TestOutcome outcome;
  outcome.report.file = one.path;
  outcome.report.name = name_of(one);
  std::optional<Refusal> refusal = one.unreadable;
  if (!refusal) {
    refusal = refusal_of([&] { run_case(one, registry, arguments, outcome); });
  }
  if (refusal) {
    refuse_case(*refusal, outcome);
    if (speaks(arguments)) {
      refused(*refusal, arguments, outcome);
      process::tell_spoken();
    }
    say_elsewhere(refusal->text, {}, arguments);
  }
  outcome.report.seconds = watch.seconds();
  return outcome;
}

int list_cases(const std::vector<TestCase>& cases) {
  int code = kFine;
  const std::string* last = nullptr;
  for (const TestCase& one : cases) {
    if (last != nullptr && *last == one.path) continue;
    last = &one.path;
    if (one.unreadable) {
      print({.err = one.unreadable->text});
      code = kCannotRun;
    } else {
      print(
          {.out = fmt::format("{}\n  {}\n  {}\n", one.path, one.file->title(), one.file->about())});
    }
  }
  return code;
}

void check_arguments(const RunArguments& arguments) {
  const bool other = arguments.scheduler && arguments.scheduler != SchedulerKind::kSeeded;
  if (arguments.schedules == 0 || !other) return;
  fail(Fix{"leave --scheduler out"}, "--schedules draws schedules; --scheduler {} does not",
       to_string(*arguments.scheduler));
}

void list_failures(const std::vector<FailedCase>& failures) {
  if (failures.empty()) return;
  std::string text = "\nfailed\n";
  for (const FailedCase& failure : failures) {
    text += fmt::format("  {}\n      {}\n", failure.name, failure.message);
    if (!failure.again.empty()) text += fmt::format("      again: {}\n", failure.again);
  }
  print({.out = text + "\n"});
}

}  // namespace

int test_command(const RunArguments& arguments) {
  check_arguments(arguments);
  const std::vector<TestCase> cases = cases_of(arguments);
  if (arguments.list) return list_cases(cases);
  const OpRegistry& registry = all_ops();
  const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
  // Ranks in processes of their own meet in the order of the cases.
  const bool in_order = channel_of(arguments) != nullptr;
  const std::size_t wanted = arguments.jobs > 0 ? static_cast<std::size_t>(arguments.jobs) : cores;
  const std::size_t workers = in_order ? 1 : wanted;
  std::vector<TestOutcome> outcomes(cases.size());
  std::vector<TestReport> reports;
  std::vector<FailedCase> failures;
  int counts[4] = {};
  int code = kFine;
  run_in_order(
      cases.size(), workers,
      [&](std::size_t i) {
        const CaseUnderWay shown(cases[i].path.c_str(), cases.size());
        outcomes[i] = outcome_of(cases[i], registry, arguments);
      },
      [&](std::size_t i) {
        TestReport& report = outcomes[i].report;
        print(outcomes[i].output);
        code = std::max(code, outcomes[i].code);
        ++counts[static_cast<std::size_t>(report.verdict)];
        const bool differs =
            report.verdict == TestReport::Verdict::kPassed && !report.message.empty();
        if (differs && arguments.github && speaks(arguments))
          print({.out = github_annotation(report)});
        if (report.verdict == TestReport::Verdict::kFailed ||
            report.verdict == TestReport::Verdict::kError) {
          failures.push_back({report.name, report.message, outcomes[i].again});
          if (arguments.github && speaks(arguments)) print({.out = github_annotation(report)});
        }
        reports.push_back(std::move(report));
        outcomes[i] = {};
      });
  const bool written = !arguments.junit.empty() && speaks(arguments);
  if (written) write_file(arguments.junit, junit_xml(reports));
  const auto [passed, failed, unreadable, skipped] = counts;
  if (!arguments.common.json && speaks(arguments)) {
    list_failures(failures);
    const std::string skips = skipped > 0 ? fmt::format(", {} skipped", skipped) : "";
    print({.out = fmt::format("{} passed, {} failed{}\n", passed, failed + unreadable, skips)});
  }
  return code;
}

}  // namespace shardlab
