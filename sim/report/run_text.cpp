#include "sim/report/run_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "mesh/type_string.h"
#include "sim/report/decision_text.h"
#include "sim/report/paint.h"

namespace shardlab {

std::string bytes_text(double bytes) {
  static constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.3g} {}", bytes, kUnits[unit]);
}

namespace {

class RunText {
 public:
  RunText(const ScenarioResult& result, const RunTextOptions& options)
      : result_(result), options_(options) {}

  std::string build() {
    header();
    inputs();
    pass("forward", Pass::kForward);
    pass("backward", Pass::kBackward);
    printed();
    warnings();
    sums();
    expected_failure();
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
    const Scenario& scenario = result_.scenario;
    std::string title = scenario.title.empty() ? scenario.file->file() : scenario.title;
    if (!scenario.point.empty()) title += " (" + scenario.point + ")";
    line("{}", ink(title, Ink::kTitle));
    std::string where = fmt::format("mesh {}  {} ranks", result_.layout->text(), scenario.world);
    if (scenario.world > result_.layout->size()) {
      where += fmt::format(" ({} outside the mesh)", scenario.world - result_.layout->size());
    }
    line("{}  {} backend, {} scheduler, seed {}", where, result_.options.backend,
         to_string(result_.options.schedule.kind), scenario.seed);
  }

  void inputs() {
    if (result_.inputs.empty()) return;
    line("\n{}", ink("inputs", Ink::kTitle));
    std::size_t width = 0;
    for (const InputReport& input : result_.inputs) width = std::max(width, input.name.size());
    for (const InputReport& input : result_.inputs) {
      const std::string held =
          fmt::format("{} on rank {}", bytes_text(static_cast<double>(input.local_bytes)),
                      result_.reporting_rank);
      line("  {:<{}}  {:<34} {}", input.name, width, input.type, ink(held, Ink::kDim));
    }
  }

  std::string source_line(int number) const {
    std::string_view text = result_.scenario.file->line(number);
    const std::size_t start = text.find_first_not_of(' ');
    return start == std::string_view::npos ? "" : std::string(text.substr(start));
  }

  void pass(std::string_view title, Pass wanted) {
    bool begun = false;
    int last = -1;
    for (const TraceEvent& event : result_.events) {
      if (event.pass != wanted) continue;
      if (!begun) line("\n{}", ink(title, Ink::kTitle));
      begun = true;
      if (event.position.line != last) {
        last = event.position.line;
        line("{:>5}  {}", last, ink(source_line(last), Ink::kTitle));
      }
      show(event);
    }
  }

  void show(const TraceEvent& event) {
    const std::string indent(7 + 2 * static_cast<std::size_t>(event.depth) + 2, ' ');
    switch (event.kind) {
      case TraceEvent::Kind::kOp:
        line("{}{}", indent, op_text(event.schema, *event.decision));
        if (options_.detail == RunDetail::kWhy) {
          out_ += ink(
              why_text(event.schema, result_.propagator->explain(event.schema), indent + "    "),
              Ink::kDim);
        }
        break;
      case TraceEvent::Kind::kRedistribution:
        redistribution(event, indent);
        break;
      case TraceEvent::Kind::kCollective:
        collective(event, indent);
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
                         record.group, record.group_size, bytes_text(record.sent_bytes)),
             Ink::kMove));
  }

  void warnings() {
    for (const std::string& text : result_.warnings) {
      line("\n{}", ink("warning: " + text, Ink::kWarn));
    }
  }

  void printed() {
    if (result_.printed.empty()) return;
    line("\n{}", ink("printed", Ink::kTitle));
    for (const std::string& text : result_.printed) line("  {}", text);
  }

  void sums() {
    CollectiveCounts largest;
    for (const CollectiveCounts& rank : result_.counts) {
      for (std::size_t i = 0; i < CollectiveCounts::kKinds; ++i) {
        largest.forward[i] = std::max(largest.forward[i], rank.forward[i]);
        largest.backward[i] = std::max(largest.backward[i], rank.backward[i]);
      }
      if (rank.bytes() >= largest.bytes()) {
        largest.forward_bytes = rank.forward_bytes;
        largest.backward_bytes = rank.backward_bytes;
      }
    }
    line("\n{}", ink("collectives of one rank (the largest)", Ink::kTitle));
    bool any = false;
    for (std::size_t i = 0; i < CollectiveCounts::kKinds; ++i) {
      if (largest.forward[i] + largest.backward[i] == 0) continue;
      any = true;
      line("  {:<16} {:>4} forward {:>4} backward", to_string(static_cast<CollectiveKind>(i)),
           largest.forward[i], largest.backward[i]);
    }
    if (!any) line("  none");
    if (any)
      line("  {} sent forward, {} backward", bytes_text(largest.forward_bytes),
           bytes_text(largest.backward_bytes));
    if (result_.implicit_count > 0) {
      line("  {}",
           ink(fmt::format("{} implicit redistributions communicate", result_.implicit_count),
               Ink::kWarn));
    }
    line("  memory: a rank held at most {}",
         bytes_text(static_cast<double>(result_.memory.largest_rank_bytes)));
  }

  void expected_failure() {
    if (!result_.error || !result_.error_expected) return;
    line("\n{}", ink("the expected error", Ink::kDim));
    line("{}", ink(result_.error->text(), Ink::kDim));
  }

  void values() {
    if (result_.error) return;
    line("\n{}", ink("values against one device", Ink::kTitle));
    if (!result_.not_verified.empty()) line("  not verified: {}", result_.not_verified);
    std::map<Agreement, int> counts;
    std::map<std::string, int> skipped;
    double worst = 0;
    const ValueReport* worst_value = nullptr;
    for (const ValueReport& value : result_.values) {
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
        line("  {} {} {} ({})", ink("wrong", Ink::kBad), value.name, value.type, value.where.at());
        line("        {}", comparison.what);
      }
    }
    for (const auto& [agreement, count] : counts) line("  {:>4} {}", count, to_string(agreement));
    if (worst_value != nullptr && worst > 0) {
      line("       closest to its bound: {} uses {:.0f} % of what rounding allows",
           worst_value->name, 100 * worst);
    }
    for (const auto& [reason, count] : skipped) line("  {:>4} not verified: {}", count, reason);
  }

  void expectations() {
    if (result_.expectations.empty()) return;
    line("\n{}", ink("expected", Ink::kTitle));
    for (const ExpectationReport& expectation : result_.expectations) {
      const std::string mark =
          expectation.met ? ink("met ", Ink::kGood) : ink("not met", Ink::kBad);
      line("  {} {:<24} {}", mark, expectation.what, expectation.text);
      if (!expectation.met && expectation.where.source)
        line("          {}", expectation.where.at());
    }
  }

  void last_line() { line("\n{}", run_line(result_, options_)); }

  const ScenarioResult& result_;
  const RunTextOptions& options_;
  std::string out_;
};

}  // namespace

std::string run_text(const ScenarioResult& result, const RunTextOptions& options) {
  return RunText(result, options).build();
}

std::string run_line(const ScenarioResult& result, const RunTextOptions& options) {
  std::int64_t collectives = 0;
  for (const CollectiveCounts& rank : result.counts) {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < CollectiveCounts::kKinds; ++i)
      sum += rank.forward[i] + rank.backward[i];
    collectives = std::max(collectives, sum);
  }
  const auto verified = std::count_if(result.values.begin(), result.values.end(),
                                      [](const ValueReport& value) { return value.verified; });
  const std::string verdict = result.met() ? paint("ok    ", Ink::kGood, options.color)
                                           : paint("FAILED", Ink::kBad, options.color);
  std::string name = result.scenario.file->file();
  if (!result.scenario.point.empty()) name += " [" + result.scenario.point + "]";
  std::string facts = fmt::format("{} ranks, {} values verified, {} collectives",
                                  result.scenario.world, verified, collectives);
  if (result.error)
    facts = fmt::format("{} ranks, {}", result.scenario.world, result.error->summary());
  return fmt::format("{} {}  {}", verdict, name, facts);
}

}  // namespace shardlab
