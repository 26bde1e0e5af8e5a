// A run, section by section: its lines, on two screens or event by event, sums of collectives, and
// the verdict.
#include "sim/report/run_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "kernels/matmul.h"
#include "sim/judge/expected_mistake.h"
#include "sim/report/collective_sums.h"
#include "sim/report/implicit_moves.h"
#include "sim/report/memory_text.h"
#include "sim/report/moves.h"
#include "sim/report/op_work.h"
#include "sim/report/outcome_text.h"
#include "sim/report/printed_text.h"
#include "sim/report/rank_work.h"
#include "sim/report/run_listing.h"
#include "sim/report/verdict_text.h"
#include "sim/world/backends.h"

namespace shardlab {

namespace {

// 1048576 as "1,048,576".
std::string grouped(std::int64_t number) {
  std::string text = std::to_string(number);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(static_cast<std::size_t>(at), 1, ',');
  }
  return text;
}

// Bytes, times and memory.
class RunFigures : protected ReportLines {
 protected:
  using ReportLines::ReportLines;

  void sums() {
    const std::vector<CollectiveSum> sums = collective_sums(run_);
    line("\n{}{}", ink(fmt::format("collectives of rank {}", run_.reporting_rank), Ink::kTitle),
         sums.empty() ? "" : ", with predicted time and its share of their sum");
    if (sums.empty()) line("  none");
    const Cost cost = cost_of(run_);
    std::size_t ranks_width = 3;
    for (const CollectiveSum& sum : sums)
      ranks_width = std::max(ranks_width, std::to_string(sum.group.size).size());
    const auto name = [](const CollectiveSum& sum) -> const std::string& { return sum.group.name; };
    const std::size_t group_width = column_width(sums, name, 8);
    for (const CollectiveSum& sum : sums) {
      const std::string who = fmt::format("  {:<14} over {:<{}} {:>{}} ranks", to_string(sum.kind),
                                          sum.group.name, group_width, sum.group.size, ranks_width);
      const std::string figures = fmt::format(
          "{:>4} forward {:>4} backward {:>9} sent {:>8} ({:.0f} %)", sum.forward, sum.backward,
          bytes_text(sum.forward_bytes + sum.backward_bytes), time_text(sum.predicted_us),
          cost.predicted_us > 0 ? 100 * sum.predicted_us / cost.predicted_us : 0);
      const bool one_row = options_.width >= kReportWidth;
      line("{}{}{}", who, one_row ? " " : "\n       ", figures);
    }
    if (!sums.empty()) links();
    double largest = 0;
    for (const CollectiveCounts& rank : run_.counts) largest = std::max(largest, rank.bytes());
    if (largest > cost.sent_bytes) line("  the rank that sends most sends {}", bytes_text(largest));
    const std::int64_t numbers = foreign_numbers(run_);
    const std::int64_t sends = run_.implicit_count - numbers;
    if (sends > 0) {
      line("  {}", ink(counted(sends, "implicit redistribution") +
                           (sends == 1 ? " communicates" : " communicate"),
                       Ink::kWarn));
    }
    if (numbers > 0) {
      line("  {}",
           ink(counted(numbers, "implicit use") + " of numbers on other meshes", Ink::kWarn));
    }
  }

  void links() {
    const std::string text = links_text(links_used(run_));
    if (!text.empty()) line("  links: {}", text);
  }

  // If a run failed, the last op may not have computed anything. Two screens have room for the sum
  // of many lines, not for each.
  void compute(const std::vector<LineReport>& lines, const std::vector<LineVisit>& visits) {
    LineReport all;
    for (const LineReport& one : lines) {
      all.forward_flops += one.forward_flops;
      all.backward_flops += one.backward_flops;
      all.bytes += one.bytes;
    }
    constexpr std::size_t kMostCells = 6;
    const bool backward = all.backward_flops > 0;
    if (run_.error || (all.forward_flops == 0 && !backward)) return;
    const std::vector<RankWork> works = rank_works(run_, visits);
    const auto text = [&](const LineReport& one) {
      return flops_text(one.forward_flops) +
             (backward ? " + " + flops_text(one.backward_flops) : "");
    };
    std::vector<std::string> cells;
    for (const LineReport& one : lines) {
      const bool computes = one.forward_flops + one.backward_flops > 0;
      if (computes) cells.push_back(fmt::format("{}: {}", one.line, text(one)));
    }
    const std::string who =
        ink(works.size() == 1 ? std::string("computed by each rank")
                              : fmt::format("computed by rank {}", run_.reporting_rank),
            Ink::kTitle);
    const std::string_view passes = backward ? ", forward + backward" : "";
    if (whole() || cells.size() <= kMostCells) {
      line("\n{}{}, in products and convolutions by line", who, passes);
      out_ += flowed(cells, 2, options_.width);
      line("  all: {}; {} read and written by all ops", text(all), bytes_text(all.bytes));
    } else {
      line("\n{}{}: {}; {} read and written", who, passes, text(all), bytes_text(all.bytes));
    }
    if (works.size() < 2) return;
    std::vector<std::string> others;
    for (const RankWork& work : works) {
      const bool one = work.ranks.find_first_of(",-") == std::string::npos;
      const std::string_view noun = run_.shapes_only() ? "" : one ? "rank " : "ranks ";
      others.push_back(fmt::format("{}{}: {} on {}", noun, work.ranks, flops_text(work.flops),
                                   bytes_text(work.bytes)));
    }
    line("  by rank:");
    out_ += flowed(others, 4, options_.width);
  }

  void memory() {
    const PeakReport peak = run_.memory.largest();
    const std::string held = bytes_text(static_cast<double>(peak.bytes));
    if (run_.shapes_only()) {
      line("memory: a rank would hold at most {} (every buffer in full)", held);
    } else {
      line(
          "memory: a rank held at most {} (every buffer in full), the process allocated {} for all",
          held, bytes_text(static_cast<double>(run_.memory.physical_bytes)));
    }
    const bool brief = options_.length == ReportLength::kSummary;
    if (peak.bytes > 0 && !brief) out_ += flowed(peak_cells(peak), 2, options_.width);
    if (!whole()) return;
    if (run_.kernels) {
      line("local kernels: {} run, {} shared (replicas take the result of an equal one)",
           run_.kernels->run, run_.kernels->shared);
    }
    line("caches: {} decisions made and asked for {} times, {} plans and {} times",
         run_.decisions.made, run_.decisions.asked, run_.plans.made, run_.plans.asked);
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
           bytes_text(static_cast<double>(ranks.peak.bytes)), bytes_text(ranks.sent_bytes));
    }
    if (count > kMostShown) line("  and {} more classes", count - kMostShown);
  }
};

class RunText : RunFigures {
 public:
  RunText(const ScenarioResult& result, const RunTextOptions& options)
      : RunFigures(result, options), listing_(result, options) {
    type_width_ = column_width(result.judgement.values, &ValueReport::type, 34);
    type_width_ = column_width(result.run.inputs, &InputReport::type, type_width_);
  }

  std::string build_calls() { return listing_.calls(); }

  std::string build() {
    lead();
    header();
    if (options_.line > 0) {
      one_line();
    } else if (!options_.why.empty() && !whole()) {
      out_ += listing_.visits(listing_.asked());
    } else if (options_.length == ReportLength::kSummary) {
      summary();
    } else {
      sections();
    }
    last_line();
    return std::move(out_);
  }

 private:
  // The place of the failure and its reason, before all else. All of an error is on stderr.
  void lead() {
    if (result_.met()) return;
    const auto mistake = mistake_of(run_, {judgement_.values, judgement_.steps, judgement_.parted});
    const std::int64_t at = result_.line_to_look_at();
    const std::string statement =
        at > 0 ? fmt::format("line {}: {}", at, source_line(run_, static_cast<int>(at)))
               : "the run";
    const bool caused =
        !run_.error && mistake && mistake->value != nullptr && !mistake->value->cause.empty();
    line("{}  {}", ink(run_.error ? "failed" : "wrong ", Ink::kBad), statement);
    line("why     {}\n", caused ? cause_text(mistake->value->cause) : failure_text(result_));
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
    // The usual level is not shown.
    const std::string_view level = product_level();
    const bool usual = device != "cpu" || level == "avx2" || level == "neon";
    line("{}  {} backend, {}{}{}, seed {}", where, run_.options.backend,
         device == "cpu" ? "" : "device " + device + ", ", order,
         usual ? "" : fmt::format(", {} products", level), scenario.seed);
  }

  void sections() {
    inputs();
    const std::vector<LineVisit> visits = line_visits(run_.events);
    const std::vector<LineReport> lines = line_reports(result_, visits);
    if (whole()) {
      out_ += listing_.passes();
    } else {
      overview(visits, lines);
    }
    compute(lines, visits);
    gradients();
    printed();
    warnings();
    sums();
    memory();
    classes();
    if (!judgement_.promise.empty()) {
      // The conditions, in brackets, are a line of their own.
      std::string promise = judgement_.promise;
      const std::size_t bracket = promise.find(" (");
      if (bracket != std::string::npos) promise.replace(bracket, 1, "\n  ");
      line("\norders of ranks: {}", promise);
    }
    if (!run_.live_microbatches.empty()) {
      line("live microbatches by rank: {}", text_of_list(run_.live_microbatches, " "));
    }
    expected_failure();
    out_ += verdict_text(result_, options_);
  }

  void summary() {
    const Cost cost = cost_of(run_);
    line("collectives of rank {}: {}, {} sent, {} predicted", run_.reporting_rank, cost.collectives,
         bytes_text(cost.sent_bytes), time_text(cost.predicted_us));
    if (cost.collectives > 0) links();
    memory();
    warnings();
    if (!result_.met()) line("{}", ink(failure_text(result_), Ink::kBad));
  }

  // All events of one line of the source, and its values.
  void one_line() {
    std::vector<bool> wanted;
    for (const TraceEvent& event : run_.events) {
      wanted.push_back(event.position.line == options_.line);
    }
    out_ += listing_.visits(wanted);
    bool begun = false;
    for (const ValueReport& value : judgement_.values) {
      if (line_of(run_, value) != options_.line || value.name.ends_with(".grad")) continue;
      if (!begun) line("\n{}", ink("values", Ink::kTitle));
      begun = true;
      out_ += listing_.value_line(value);
    }
  }

  void overview(const std::vector<LineVisit>& visits, const std::vector<LineReport>& lines) {
    if (lines.empty()) return;
    // The table is in the order of lines: often the order in which they ran.
    const bool in_order = std::ranges::is_sorted(
        visits, {}, [](const LineVisit& visit) { return std::pair(visit.pass, visit.line); });
    const bool one_pass = visits.empty() || visits.front().pass == visits.back().pass;
    if (!in_order || !one_pass) {
      line("\n{}", ink("in order of execution, by line", Ink::kTitle));
      out_ += order_text(run_, visits, options_.width);
    }
    const bool moves =
        std::ranges::any_of(lines, [](const LineReport& one) { return !one.moves.empty(); });
    line("\n{}{}", ink("by line", Ink::kTitle),
         moves ? ink(fmt::format("{:>{}} {:>9} {:>9}", "times", options_.width - 27, "sent",
                                 "predicted"),
                     Ink::kDim)
               : "");
    out_ += line_table_text(run_, lines, options_.color, options_.width);
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

  void gradients() {
    constexpr std::size_t kMostShown = 10;
    std::vector<const ValueReport*> gradients;
    for (const ValueReport& value : judgement_.values) {
      if (value.name.ends_with(".grad")) gradients.push_back(&value);
    }
    if (gradients.empty()) return;
    line("\n{}", ink("gradients", Ink::kTitle));
    const std::size_t shown = whole() ? gradients.size() : std::min(kMostShown, gradients.size());
    for (std::size_t i = 0; i < shown; ++i) out_ += listing_.value_line(*gradients[i]);
    if (shown < gradients.size()) line("       and {} more: --full", gradients.size() - shown);
  }

  void warnings() {
    for (const std::string& text : warnings_of(result_)) {
      line("\n{}", ink("warning: " + text, Ink::kWarn));
    }
    if (run_.ran_on_host.empty()) return;
    line("\n{}", ink(fmt::format("ran on the host, for want of a kernel on device {}: {}",
                                 run_.options.device.name, text_of_list(run_.ran_on_host, ", ")),
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

  void expected_failure() {
    if (!run_.error || !judgement_.failure_expected) return;
    line("\n{}", ink("the expected error", Ink::kDim));
    line("{}", ink(run_.error->text(), Ink::kDim));
  }

  // Whether a command with this file alone can blame it: it fails whoever runs first.
  bool may_be_blamed() const {
    const bool typed = options_.replay == Replay::kWhereItAdds && run_.scenario.settings.empty();
    const bool simulated = find_backend(run_.options.backend).processes == nullptr;
    const bool any_order =
        run_.options.schedule.kind == SchedulerKind::kPool && !run_.options.transport;
    // A run that --strict alone refuses has no wrong line.
    const bool wrong = !run_.options.strict || run_.error ||
                       std::ranges::any_of(result_.judgement.values,
                                           [](const ValueReport& one) { return one.row->fails; });
    return typed && simulated && any_order && wrong && !run_.shapes_only() &&
           run_.scenario.file->file().ends_with(".toml");
  }

  void last_line() {
    const bool adds = options_.replay == Replay::kShown || !run_.scenario.point.empty();
    if (!result_.met() && adds) line("\nagain: {}", replay_command(run_));
    if (!result_.met() && may_be_blamed()) {
      line("\nthe first wrong line: shardlab blame {0}; a smaller program: shardlab shrink {0}",
           run_.scenario.file->file());
    }
    if (result_.met() && may_be_blamed()) advice();
    line("\n{}", run_line(result_, options_));
  }

  void advice() {
    constexpr std::size_t kMostAdvice = 2;
    const std::vector<MovedAgain> all = moved_again(result_);
    for (std::size_t i = 0; i < std::min(kMostAdvice, all.size()); ++i) {
      line("{}{} moves to {} more than once (line {})", i == 0 ? "\nadvice: " : "        ",
           all[i].name, all[i].arguments, text_of_list(all[i].lines, ", "));
    }
    if (all.empty()) return;
    line("        shardlab advise {} tries cheaper programs", run_.scenario.file->file());
  }

  RunListing listing_;
  std::size_t type_width_ = 0;
};

}  // namespace

std::string run_text(const ScenarioResult& result, const RunTextOptions& options) {
  return RunText(result, options).build();
}

std::string calls_text(const ScenarioResult& result, Color color) {
  const RunTextOptions options{.color = color, .why = "all"};
  return RunText(result, options).build_calls();
}

}  // namespace shardlab
