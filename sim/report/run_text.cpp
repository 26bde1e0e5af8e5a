// A run, section by section: the program's lines with the ops, moves and values below them, sums of
// collectives, and what was verified and how. Values are merged into the events by the number of
// events that had happened when they were named.
#include "sim/report/run_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/bytes_text.h"
#include "mesh/type_string.h"
#include "sim/report/collective_sums.h"
#include "sim/report/decision_text.h"
#include "sim/report/implicit_moves.h"
#include "sim/report/paint.h"
#include "sim/report/printed_text.h"
#include "sim/report/why_names.h"

namespace shardlab {

namespace {

// "68.5 us", "609 ms".
std::string time_text(double us) {
  if (us < 999.95) return fmt::format("{:.1f} us", us);
  return us < 999'500 ? fmt::format("{:.3g} ms", us / 1e3) : fmt::format("{:.1f} s", us / 1e6);
}

constexpr std::size_t kWidestColumn = 60;

// How wide a column is that holds this text of all rows. A longer one pushes only its own row.
template <typename Row, typename Text>
std::size_t column_width(const std::vector<Row>& rows, Text text, std::size_t least) {
  std::size_t width = least;
  for (const Row& row : rows) width = std::max(width, std::invoke(text, row).size());
  return std::min(width, kWidestColumn);
}

// 1048576 as "1,048,576".
std::string grouped(std::int64_t number) {
  std::string text = std::to_string(number);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(static_cast<std::size_t>(at), 1, ',');
  }
  return text;
}

std::string classes_text(const Run& run) {
  const std::size_t count = run.classes.size();
  return fmt::format("{} {}", count, count == 1 ? "class" : "classes");
}

// "1 value", "2 values".
std::string counted(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string shown_name(const ValueReport& value) {
  return value.at_end ? value.name + " at the end" : value.name;
}

// "1 value verified", "12 values verified, 2 wrong".
std::string verified_text(const ScenarioJudgement& judgement) {
  std::int64_t verified = 0, wrong = 0;
  for (const ValueReport& value : judgement.values) {
    if (!value.verified) continue;
    ++verified;
    if (value.comparison.agreement == Agreement::kWrong) ++wrong;
  }
  return fmt::format("{} verified{}", counted(verified, "value"),
                     wrong > 0 ? fmt::format(", {} wrong", wrong) : "");
}

class RunText {
 public:
  RunText(const ScenarioResult& result, const RunTextOptions& options)
      : result_(result),
        run_(result.run),
        judgement_(result.judgement),
        options_(options),
        asked_(asked_about(result, options.why)) {
    name_width_ = column_width(result.judgement.values, &ValueReport::name, 16);
    type_width_ = column_width(result.judgement.values, &ValueReport::type, 34);
    type_width_ = column_width(result.run.inputs, &InputReport::type, type_width_);
  }

  // The calls alone, each explained.
  std::string build_calls() {
    margin_ = 2;
    for (std::size_t i = 0; i < run_.events.size(); ++i) show(i);
    return std::move(out_);
  }

  std::string build() {
    header();
    inputs();
    pass("forward", Pass::kForward);
    pass("backward", Pass::kBackward);
    gradients();
    printed();
    warnings();
    sums();
    classes();
    expected_failure();
    steps();
    values();
    expectations();
    last_line();
    return std::move(out_);
  }

 private:
  std::string ink(std::string_view text, Ink ink) const { return paint(text, ink, options_.color); }
  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    out_ += fmt::format(format, std::forward<Args>(args)...);
    out_ += '\n';
  }

  void header() {
    const Scenario& scenario = run_.scenario;
    std::string title = scenario.title.empty() ? scenario.file->file() : scenario.title;
    if (!scenario.point.empty()) title += " (" + scenario.point + ")";
    line("{}", ink(title, Ink::kTitle));
    std::string where =
        fmt::format("mesh {}  {}", run_.layout->text(), counted(scenario.world, "rank"));
    if (scenario.world > run_.layout->size()) {
      where += fmt::format(" ({} outside the mesh)", scenario.world - run_.layout->size());
    }
    if (run_.shapes_only()) {
      return line("{}  {} backend, seed {}", where, run_.options.backend, scenario.seed);
    }
    const std::string device = run_.options.device.name;
    const SchedulerOptions& schedule = run_.options.schedule;
    std::string order = fmt::format("{} scheduler", scheduler_name(run_.options));
    if (schedule.kind == SchedulerKind::kSeeded) order += fmt::format(" ({})", schedule.seed);
    line("{}  {} backend, {}{}, seed {}", where, run_.options.backend,
         device == "cpu" ? "" : "device " + device + ", ", order, scenario.seed);
  }

  void inputs() {
    if (run_.inputs.empty()) return;
    line("\n{}", ink("inputs", Ink::kTitle));
    const std::size_t width = column_width(run_.inputs, &InputReport::name, 0);
    for (const InputReport& input : run_.inputs) {
      const std::string held = fmt::format(
          "{} on rank {}", bytes_text(static_cast<double>(input.local_bytes)), run_.reporting_rank);
      line("  {:<{}}  {:<{}} {}", input.name, width, input.type, type_width_, ink(held, Ink::kDim));
    }
  }

  std::string source_line(int number) const {
    std::string_view text = run_.scenario.file->line(number);
    const std::size_t start = text.find_first_not_of(' ');
    return start == std::string_view::npos ? "" : std::string(text.substr(start));
  }

  void pass(std::string_view title, Pass wanted) {
    const bool forward = wanted == Pass::kForward;
    bool begun = false;
    int last = -1;
    const auto begin = [&] {
      if (!begun) line("\n{}", ink(title, Ink::kTitle));
      begun = true;
    };
    for (std::size_t i = 0; i < run_.events.size(); ++i) {
      const TraceEvent& event = run_.events[i];
      if (event.pass != wanted) continue;
      begin();
      if (forward) values_before(i, last);
      if (event.position.line != last) {
        last = event.position.line;
        source_header(last);
      }
      show(i);
    }
    if (!forward || !value_is_next()) return;
    begin();
    values_before(run_.events.size(), last);
  }

  // Gradients have a section of their own.
  bool value_is_next() const {
    return next_value_ < judgement_.values.size() &&
           !judgement_.values[next_value_].name.ends_with(".grad");
  }

  void source_header(int number) {
    line("{:>5}  {}", number, ink(source_line(number), Ink::kTitle));
  }

  static int line_of(const ValueReport& value) {
    return value.where.source ? value.where.source->place(value.where.span.begin).line : 0;
  }

  // Values that were named before event `index`. Those of line `current` stand below its ops,
  // others get a header of their own.
  void values_before(std::size_t index, int& current) {
    while (value_is_next()) {
      const ValueReport& value = judgement_.values[next_value_];
      if (value.event > index) return;
      if (const int number = line_of(value); number != current) {
        source_header(number);
        current = number;
      }
      show(value);
      ++next_value_;
    }
  }

  void show(const ValueReport& value) {
    const bool wrong = value.verified && value.comparison.agreement == Agreement::kWrong;
    const std::string verdict = value.verified ? std::string(to_string(value.comparison.agreement))
                                : run_.shapes_only() ? value.not_verified
                                                     : "not verified";
    line("       = {:<{}} {:<{}} {}", shown_name(value), name_width_, value.type, type_width_,
         ink(verdict, wrong            ? Ink::kBad
                      : value.verified ? Ink::kGood
                                       : Ink::kDim));
  }

  void gradients() {
    bool begun = false;
    for (const ValueReport& value : judgement_.values) {
      if (!value.name.ends_with(".grad")) continue;
      if (!begun) line("\n{}", ink("gradients", Ink::kTitle));
      begun = true;
      show(value);
    }
  }

  void show(std::size_t index) {
    const TraceEvent& event = run_.events[index];
    const std::string indent(margin_ + 2 * static_cast<std::size_t>(event.depth), ' ');
    switch (event.kind) {
      case TraceEvent::Kind::kOp:
        line("{}{}", indent, op_text(event.schema, *event.decision));
        if (asked_[index]) {
          const DecisionRecord record = run_.propagator->explain(event.schema);
          out_ += ink(why_text(event.schema, record, indent + "    "), Ink::kDim);
        }
        break;
      case TraceEvent::Kind::kRedistribution:
        redistribution(event, indent);
        break;
      case TraceEvent::Kind::kCollective:
        collective(event, indent);
        break;
      case TraceEvent::Kind::kWait:
        line("{}", ink(fmt::format("{}  wait for {} over {}", indent,
                                   to_string(event.collective.kind), event.collective.group.name),
                       Ink::kMove));
        break;
    }
  }

  void redistribution(const TraceEvent& event, const std::string& indent) {
    const RedistributionRecord& record = event.redistribution;
    const bool moves = record.plan != nullptr && communicates(*record.plan);
    std::string text =
        fmt::format("{} -> {}", type_string(*record.source), type_string(*record.target));
    if (record.argument >= 0) text = fmt::format("input {}: {}", record.argument, text);
    line("{}{}", indent,
         ink(fmt::format("{:<18} {}{}", "redistribute", text, moves ? "" : "  (local)"),
             moves ? Ink::kMove : Ink::kDim));
  }

  void collective(const TraceEvent& event, const std::string& indent) {
    const CollectiveRecord& record = event.collective;
    line("{}{}", indent,
         ink(fmt::format("  {} over {} ({} ranks), {} sent a rank", to_string(record.kind),
                         record.group.name, record.group.size, bytes_text(record.sent_bytes)),
             Ink::kMove));
  }

  void warnings() {
    for (const std::string& text : warnings_of(result_)) {
      line("\n{}", ink("warning: " + text, Ink::kWarn));
    }
    if (run_.ran_on_host.empty()) return;
    line("\n{}", ink(fmt::format("ran on the host, for want of a kernel on device {}: {}",
                                 run_.options.device.name, fmt::join(run_.ran_on_host, ", ")),
                     Ink::kWarn));
  }

  void printed() {
    if (options_.rank) return printed_by(*options_.rank);
    const std::vector<PrintedBy> lines = merged_prints(run_.printed);
    if (!lines.empty()) line("\n{}", ink("printed", Ink::kTitle));
    for (const PrintedBy& printed : lines) {
      const bool all = printed.who.size() == run_.printed.size();
      const std::string who = all ? "" : printers_text(run_, printed.who) + ": ";
      line("  {}{}", ink(who, Ink::kDim), printed.text);
    }
  }

  void printed_by(std::int64_t rank) {
    const std::vector<PrintedLine>& lines = run_.printed[printer_of(run_, rank)];
    if (!lines.empty()) line("\n{}", ink(fmt::format("printed by rank {}", rank), Ink::kTitle));
    for (const PrintedLine& printed : lines) line("  {}", printed.text);
  }

  void sums() {
    line("\n{}", ink(fmt::format("collectives of rank {}", run_.reporting_rank), Ink::kTitle));
    const std::vector<CollectiveSum> sums = collective_sums(run_);
    if (sums.empty()) line("  none");
    double sent = 0, predicted = 0;
    std::size_t ranks_width = 3;
    for (const CollectiveSum& sum : sums) {
      ranks_width = std::max(ranks_width, std::to_string(sum.group.size).size());
      sent += sum.forward_bytes + sum.backward_bytes;
      predicted += sum.predicted_us;
    }
    const std::size_t group_width = column_width(
        sums, [](const CollectiveSum& sum) -> const std::string& { return sum.group.name; }, 8);
    for (const CollectiveSum& sum : sums) {
      line(
          "  {:<15} over {:<{}} {:>{}} ranks  {:>3} forward {:>3} backward  {:>9} sent  {:>8} "
          "predicted ({:.0f} %)",
          to_string(sum.kind), sum.group.name, group_width, sum.group.size, ranks_width,
          sum.forward, sum.backward, bytes_text(sum.forward_bytes + sum.backward_bytes),
          time_text(sum.predicted_us), predicted > 0 ? 100 * sum.predicted_us / predicted : 0);
    }
    double largest = 0;
    for (const CollectiveCounts& rank : run_.counts) largest = std::max(largest, rank.bytes());
    if (largest > sent) line("  the rank that sends most sends {}", bytes_text(largest));
    if (run_.implicit_count > 0) {
      line("  {}", ink(counted(run_.implicit_count, "implicit redistribution") +
                           (run_.implicit_count == 1 ? " communicates" : " communicate"),
                       Ink::kWarn));
    }
    const std::string held = bytes_text(static_cast<double>(run_.memory.logical_rank_bytes));
    if (run_.shapes_only()) {
      line("memory: a rank would hold at most {} (every buffer in full)", held);
    } else {
      line(
          "memory: a rank held at most {} (every buffer in full), the process allocated {} for all",
          held, bytes_text(static_cast<double>(run_.memory.physical_bytes)));
    }
    if (!run_.kernels) return;
    line("local kernels: {} run, {} shared (replicas take the result of an equal one)",
         run_.kernels->run, run_.kernels->shared);
  }

  void classes() {
    if (!run_.shapes_only()) return;
    const std::size_t count = run_.classes.size();
    line("\n{}",
         ink(fmt::format("{} ranks in {}", grouped(run_.scenario.world), classes_text(run_)),
             Ink::kTitle));
    constexpr std::size_t kMostShown = 16;
    for (std::size_t i = 0; i < std::min(count, kMostShown); ++i) {
      const ClassReport& ranks = run_.classes[i];
      line("  {:>9} {}  {:<32} {:>9} held {:>9} sent", grouped(ranks.size),
           ranks.size == 1 ? "rank " : "ranks", ranks.where.empty() ? "the mesh" : ranks.where,
           bytes_text(static_cast<double>(ranks.logical_bytes)), bytes_text(ranks.sent_bytes));
    }
    if (count > kMostShown) line("  and {} more classes", count - kMostShown);
  }

  void expected_failure() {
    if (!run_.error || !judgement_.error_expected) return;
    line("\n{}", ink("the expected error", Ink::kDim));
    line("{}", ink(run_.error->text(), Ink::kDim));
  }

  void values() {
    if (run_.error) return;
    if (run_.shapes_only()) {
      return line("\n{}", ink(fmt::format("{}; {} values not computed", judgement_.not_verified,
                                          judgement_.values.size()),
                              Ink::kTitle));
    }
    line("\n{}", ink("values against one device", Ink::kTitle));
    if (!judgement_.not_verified.empty()) line("  not verified: {}", judgement_.not_verified);
    if (!judgement_.not_verified_fix.empty()) line("  fix: {}", judgement_.not_verified_fix);
    first_wrong();
    std::map<Agreement, int> counts;
    std::map<std::string, int> skipped;
    double worst = 0;
    const ValueReport* worst_value = nullptr;
    for (const ValueReport& value : judgement_.values) {
      if (!value.verified) {
        ++skipped[value.not_verified];
        continue;
      }
      const Comparison& comparison = value.comparison;
      ++counts[comparison.agreement];
      const double share = comparison.allowed > 0 ? comparison.error / comparison.allowed : 0;
      if (comparison.agreement == Agreement::kEnvelope && share >= worst) {
        worst = share;
        worst_value = &value;
      }
      if (comparison.agreement == Agreement::kWrong) {
        line("  {} {} {} ({})", ink("wrong", Ink::kBad), shown_name(value), value.type,
             value.where.at());
        line("        {}", comparison.what);
        if (!value.holders.empty()) line("        held by {}", value.holders);
        if (!value.cause.empty()) line("        {}", value.cause);
      }
    }
    for (const auto& [agreement, count] : counts) line("  {:>4} {}", count, to_string(agreement));
    amplified();
    accumulated();
    if (worst_value != nullptr && worst > 0) {
      line("       closest to its bound: {} uses {:.0f} % of what rounding allows",
           worst_value->name, 100 * worst);
    }
    for (const auto& [reason, count] : skipped) line("  {:>4} not verified: {}", count, reason);
  }

  // Every call on the operands it had.
  void steps() {
    const StepVerdict& steps = judgement_.steps;
    if (run_.error && !steps.wrong) return;
    if (!steps.not_judged.empty()) line("\n{}", ink(steps.not_judged, Ink::kTitle));
    if (!steps.judged || run_.shapes_only()) return;
    const std::size_t before = out_.size();
    line("\n{}", ink("calls on the operands they had", Ink::kTitle));
    const std::size_t begun = out_.size();
    if (steps.wrong) {
      line("  {} {}", ink("wrong", Ink::kBad), to_string(steps.wrong->place));
      line("        {}", steps.wrong->text());
      if (steps.wrong_calls > 1) line("        the first of {} wrong calls", steps.wrong_calls);
    }
    if (steps.bitwise > 0) line("  {:>4} bitwise", steps.bitwise);
    if (steps.bounded > 0) line("  {:>4} within what rounding explains", steps.bounded);
    if (steps.undecided_calls > 0) {
      line("  {:>4} undecided, {} elements: rounding decides", steps.undecided_calls,
           steps.undecided_elements);
    }
    for (const auto& [reason, count] : steps.skipped) line("  {:>4} not judged: {}", count, reason);
    if (steps.non_finite) {
      line("       the first NaN or infinity: {}", to_string(*steps.non_finite));
    }
    if (out_.size() == begun) out_.resize(before);  // a run that failed before its first call
  }

  // Values that are right in f64 and far from the single-device run in their own dtype.
  void amplified() {
    const ValueReport* worst = nullptr;
    for (const ValueReport& value : judgement_.values) {
      if (!value.verified || value.comparison.agreement != Agreement::kRounding) continue;
      if (worst == nullptr || value.comparison.roundings > worst->comparison.roundings) {
        worst = &value;
      }
    }
    if (worst == nullptr) return;
    line("       rounding, amplified {:.0f} times: {} ({})", worst->comparison.roundings,
         shown_name(*worst), worst->where.at());
  }

  void accumulated() {
    for (const ValueReport& value : judgement_.values) {
      if (value.passes < 2) continue;
      line("       {} adds up {} backward passes: nothing cleared it between them", value.name,
           value.passes);
    }
  }

  // Where to begin to look: values that follow from a wrong one are wrong, too.
  void first_wrong() {
    const auto wrong = [](const ValueReport& value) {
      return value.verified && value.comparison.agreement == Agreement::kWrong;
    };
    const auto& values = judgement_.values;
    if (std::count_if(values.begin(), values.end(), wrong) < 2) return;
    const auto first = std::find_if(values.begin(), values.end(), wrong);
    line("  the first wrong one is {} ({})", shown_name(*first), first->where.at());
  }

  void expectations() {
    if (judgement_.expectations.empty()) return;
    line("\n{}", ink("expected", Ink::kTitle));
    const std::size_t width = column_width(judgement_.expectations, &ExpectationReport::what, 24);
    for (const ExpectationReport& expectation : judgement_.expectations) {
      const std::string mark =
          expectation.met ? ink("met ", Ink::kGood) : ink("not met", Ink::kBad);
      line("  {} {:<{}} {}", mark, expectation.what, width, expectation.text);
      if (!expectation.met && expectation.where.source)
        line("          {}", expectation.where.at());
    }
  }

  void last_line() {
    if (!result_.met()) line("\nagain: {}", replay_command(run_));
    line("\n{}", run_line(result_, options_));
  }

  const ScenarioResult& result_;
  const Run& run_;
  const ScenarioJudgement& judgement_;
  const RunTextOptions& options_;
  std::size_t name_width_ = 0, type_width_ = 0;
  std::size_t next_value_ = 0;
  std::size_t margin_ = 9;         ///< of an op that is part of no other
  const std::vector<bool> asked_;  ///< by event: whether its decision is explained
  std::string out_;
};

}  // namespace

namespace {

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
  if (run.options.backend != "threads") command += " --backend " + run.options.backend;
  if (schedule.kind != SchedulerKind::kPool) {
    command += fmt::format(" --scheduler {}", to_string(schedule.kind));
  }
  return command + fmt::format(" --seed {}", seeded ? schedule.seed : run.scenario.seed);
}

std::string run_text(const ScenarioResult& result, const RunTextOptions& options) {
  return RunText(result, options).build();
}

std::string calls_text(const ScenarioResult& result, Color color) {
  const RunTextOptions options{.color = color, .why = "all"};
  return RunText(result, options).build_calls();
}

std::vector<std::string> warnings_of(const ScenarioResult& result) {
  std::vector<std::string> texts = result.run.warnings;
  const std::vector<std::string>& undecided = result.judgement.warnings;
  texts.insert(texts.end(), undecided.begin(), undecided.end());
  const std::vector<std::string> implicit = implicit_warnings(result.run);
  texts.insert(texts.end(), implicit.begin(), implicit.end());
  return texts;
}

std::string run_line(const ScenarioResult& result, const RunTextOptions& options) {
  const Run& run = result.run;
  std::int64_t collectives = 0;
  for (const CollectiveCounts& rank : run.counts) {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < kCollectiveKinds; ++i) sum += rank.forward[i] + rank.backward[i];
    collectives = std::max(collectives, sum);
  }
  const std::string verdict = result.met() ? paint("ok    ", Ink::kGood, options.color)
                                           : paint("FAILED", Ink::kBad, options.color);
  std::string name = run.scenario.file->file();
  if (!run.scenario.point.empty()) name += " [" + run.scenario.point + "]";
  const std::string ranks = counted(run.scenario.world, "rank");
  std::string facts = fmt::format("{}, {}, {}", ranks, verified_text(result.judgement),
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
