// Every planner answers for itself and is measured with the same figures and the lower bound that
// holds for all plans. A planner whose steps equal an earlier one's is named as its twin.
#include "sim/report/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "mesh/type_string.h"
#include "plan/whole.h"
#include "sim/files/json_value.h"
#include "sim/report/paint.h"
#include "sim/report/runs_table.h"

namespace shardlab {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::string_view kind_text(StepKind kind) {
  static constexpr std::string_view kTexts[] = {
      "all_reduce", "all_gather", "reduce_scatter",  "all_to_all", "permute",
      "cut",        "make terms", "fill with zeros", "nothing",    "can't be executed"};
  return kTexts[static_cast<std::size_t>(kind)];
}

std::vector<std::string> dim_names(const PlanStep& step, const MeshLayout& layout) {
  auto dims = step.mesh_dims;
  std::ranges::sort(dims);
  std::vector<std::string> names;
  for (const std::size_t dim : dims) names.push_back(layout.names()[dim]);
  return names;
}

/// "all_gather over x (2 ranks)", "cut by y".
std::string action_text(const PlanStep& step, const MeshLayout& layout) {
  const std::string names = text_of_list(dim_names(step, layout), "+");
  std::int64_t ranks = 1;
  for (const std::size_t dim : step.mesh_dims) ranks *= layout.size(dim);
  if (ranks == 1) return fmt::format("nothing over {} (1 rank)", names);
  if (step.kind == StepKind::kPermute) {
    return step.senders.empty() ? "rename: every rank keeps its piece" : "permute pieces";
  }
  if (!step.communicates()) return fmt::format("{} along {}", kind_text(step.kind), names);
  return fmt::format("{} over {} ({} ranks)", kind_text(step.kind), names, ranks);
}

std::string whole_bytes(std::int64_t bytes) { return bytes_text(static_cast<double>(bytes)); }

std::string range_text(const StepFigures& figures) {
  if (figures.sent_most == 0) return "-";
  const std::string least = whole_bytes(figures.sent_least), most = whole_bytes(figures.sent_most);
  return least == most ? most : least + " to " + most;
}

std::string us_text(double us) { return us == 0 ? "-" : fmt::format("{:.2f} us", us); }

std::string state_text(const DTensorSpec& source, const PlanStep& step) {
  const bool strided = std::ranges::any_of(step.after, &Placement::is_strided_shard);
  if (strided) return to_string(step.after);
  return type_string(*source.with(step.after, step.order_after));
}

using Row = TableRow;

Row summary_row(const PlanReport& report, const PlannerAnswer& answer) {
  const std::string name(to_string(answer.planner));
  const Plan* plan = answer.plan();
  if (!plan) return {name, "no plan: " + std::get<NoPlan>(answer.result).reason};
  const bool refused = std::ranges::any_of(
      plan->steps, [](const PlanStep& step) { return step.kind == StepKind::kRefused; });
  if (refused) return {name, "can't be executed"};
  const std::int64_t over = answer.total.received - report.bound.value_or(0);
  return {name,
          plan->proof ? plan->proof->text() : "",
          fmt::format("{}", plan->steps.size()),
          whole_bytes(answer.total.received),
          report.bound ? (over == 0 ? "0" : "+" + whole_bytes(over)) : "?",
          us_text(answer.total.us),
          whole_bytes(answer.total.peak)};
}

std::string summary(const PlanReport& report) {
  std::vector<Row> rows{{"planner", "", "steps", "received", "over bound", "predicted", "peak"}};
  for (const PlannerAnswer& answer : report.answers) rows.push_back(summary_row(report, answer));
  return text_table(rows, "<<>", "  ");
}

/// "1->2, 2->4": sender and receiver of each piece.
std::string senders_text(const PlanStep& step, const MeshLayout& layout) {
  constexpr std::size_t kListed = 8;
  std::vector<std::string> moves;
  std::size_t left_out = 0;
  for (std::size_t to = 0; to < step.senders.size(); ++to) {
    const auto from = static_cast<std::int64_t>(step.senders[to]);
    if (from == static_cast<std::int64_t>(to)) continue;
    if (moves.size() == kListed) {
      ++left_out;
      continue;
    }
    moves.push_back(fmt::format("{}->{}", layout.rank_at_index(from),
                                layout.rank_at_index(static_cast<std::int64_t>(to))));
  }
  const std::string more = left_out > 0 ? fmt::format(" and {} more", left_out) : "";
  return fmt::format("{}{}", text_of_list(moves, ", "), more);
}

std::string steps_text(const PlannerAnswer& answer) {
  const Plan& plan = *answer.plan();
  const MeshLayout& layout = *plan.source->layout();
  std::vector<Row> rows{{"", "step", "gives", "sent per rank", "predicted", "peak"}};
  for (std::size_t index = 0; index < plan.steps.size(); ++index) {
    const PlanStep& step = plan.steps[index];
    const StepFigures& figures = answer.steps[index];
    std::string action = action_text(step, layout);
    if (step.avg_scale > 1) action += fmt::format(", then / {}", step.avg_scale);
    if (!step.senders.empty()) action += " " + senders_text(step, layout);
    rows.push_back({fmt::format("{}", index + 1), action, state_text(*plan.source, step),
                    range_text(figures), us_text(figures.us), whole_bytes(figures.peak)});
  }
  return text_table(rows, "<<<>", "  ");
}

std::string drawings_text(const PlannerAnswer& answer, const DrawOptions& options) {
  const Plan& plan = *answer.plan();
  std::string text = fmt::format("\n  at first\n{}", draw_pieces(*plan.source, options));
  for (std::size_t index = 0; index < plan.steps.size(); ++index) {
    const PlanStep& step = plan.steps[index];
    text += fmt::format("\n  after step {}, {}\n", index + 1,
                        action_text(step, *plan.source->layout()));
    const bool strided = std::ranges::any_of(step.after, &Placement::is_strided_shard);
    text += strided ? "  (strided shards in a cutting order are not drawn)\n"
                    : draw_pieces(*plan.source->with(step.after, step.order_after), options);
  }
  return text;
}

/// An earlier planner with the same steps: their tables would be equal.
const PlannerAnswer* twin_of(const PlanReport& report, const PlannerAnswer& answer) {
  for (const PlannerAnswer& other : report.answers) {
    if (&other == &answer) break;
    if (other.plan() && other.plan()->text() == answer.plan()->text()) return &other;
  }
  return nullptr;
}

OrderedJson json_of(const PlanStep& step, const StepFigures& figures, const DTensorSpec& source) {
  OrderedJson json = {{"kind", kind_text(step.kind)},
                      {"mesh_dims", dim_names(step, *source.layout())},
                      {"from", to_string(step.from)},
                      {"to", to_string(step.to)},
                      {"gives", state_text(source, step)},
                      {"communicates", figures.gbps > 0},
                      {"sent_bytes", {figures.sent_least, figures.sent_most}},
                      {"received_bytes", figures.received_most},
                      {"predicted_us", figures.us},
                      {"peak_bytes", figures.peak}};
  if (!step.senders.empty()) json["senders"] = step.senders;
  if (step.avg_scale > 1) json["avg_scale"] = step.avg_scale;
  return json;
}

OrderedJson json_of(const PlanReport& report, const PlannerAnswer& answer) {
  const Plan* plan = answer.plan();
  if (!plan) return {{"no_plan", std::get<NoPlan>(answer.result).reason}};
  OrderedJson json = {{"text", plan->text()},
                      {"received_bytes", answer.total.received},
                      {"predicted_us", answer.total.us},
                      {"peak_bytes", answer.total.peak}};
  if (report.bound) json["over_bound_bytes"] = answer.total.received - *report.bound;
  if (plan->proof) {
    json["optimal"] = plan->proof->optimal;
    json["gap_bytes"] = plan->proof->bytes - plan->proof->bound;
    json["states_expanded"] = plan->proof->expanded;
  }
  json["steps"] = OrderedJson::array();
  for (std::size_t index = 0; index < plan->steps.size(); ++index) {
    json["steps"].push_back(json_of(plan->steps[index], answer.steps[index], *plan->source));
  }
  return json;
}

void check_one_tensor(const DTensorSpec& source, const DTensorSpec& target) {
  if (source.meta() == target.meta()) return;
  throw Error(ErrorKind::kValue, "plan: source and target differ in more than placements")
      .with("op", fmt::format("{} -> {}", type_string(source), type_string(target)))
      .with("fix", "give both the same dtype and sizes");
}

PlannerAnswer ask(const DTensorSpec& source, const DTensorSpec& target, PlannerKind planner,
                  PlanOptions options) {
  options.planner = planner;
  PlannerAnswer answer{planner, make_safe_plan(source, target, options), {}, {}};
  if (!answer.plan()) return answer;
  answer.steps = measure_steps(*answer.plan(), options.topology);
  answer.total = sum_up(answer.steps, *source.layout(), options.topology);
  return answer;
}

}  // namespace

PlanReport report_plans(const DTensorSpec& source, const DTensorSpec& target,
                        const PlanOptions& options) {
  check_one_tensor(source, target);
  PlanReport report{&source,
                    &target,
                    redistribute_cost(source, target, options),
                    received_bound(source, target, options),
                    {},
                    links_of(*source.layout(), options.topology)};
  for (const PlannerKind planner :
       {PlannerKind::kGreedy, PlannerKind::kGraph, PlannerKind::kBytes}) {
    if (options.planner && *options.planner != planner) continue;
    const bool ordered = !source.has_default_order() || !target.has_default_order();
    if (planner == PlannerKind::kGreedy && ordered) {
      report.answers.push_back({planner, NoPlan{"for default orders only (R-37)"}, {}, {}});
    } else {
      report.answers.push_back(ask(source, target, planner, options));
    }
  }
  return report;
}

std::string plan_report_text(const PlanReport& report, Drawings drawings,
                             const DrawOptions& options) {
  std::string text = fmt::format("{} -> {}  on {}\n", type_string(*report.source),
                                 type_string(*report.target), report.source->layout()->text());
  if (report.bound.value_or(0) > 0) {
    text += fmt::format("every plan: some rank receives {} or more over the slowest links\n",
                        whole_bytes(*report.bound));
  }
  if (const std::string links = links_text(report.links); !links.empty()) {
    text += fmt::format("links: {}\n", links);
  }
  text += "\n" + summary(report);
  for (const PlannerAnswer& answer : report.answers) {
    const Plan* plan = answer.plan();
    if (!plan) continue;
    text += fmt::format("\n{}", paint(to_string(answer.planner), Ink::kTitle, options.color));
    if (plan->steps.empty()) {
      text += ": nothing to do\n";
    } else if (const PlannerAnswer* twin = twin_of(report, answer)) {
      text += fmt::format(": the steps of {}\n", to_string(twin->planner));
    } else {
      text += fmt::format("  {}\n{}", plan->text(), steps_text(answer));
      if (drawings == Drawings::kOn) text += drawings_text(answer, options);
    }
  }
  return text;
}

std::string plan_report_json(const PlanReport& report) {
  const bool possible = std::isfinite(report.priced_us);
  OrderedJson json = {{"source", type_string(*report.source)},
                      {"target", type_string(*report.target)},
                      {"predicted_us", possible ? OrderedJson(report.priced_us) : OrderedJson()},
                      {"bound_bytes", report.bound ? OrderedJson(*report.bound) : OrderedJson()}};
  for (const PlannerAnswer& answer : report.answers) {
    json["planners"][std::string(to_string(answer.planner))] = json_of(report, answer);
  }
  for (const LinkUsed& used : report.links) {
    json["links"][used.mesh_dim] = {
        {"gbps", used.link.gbps}, {"us", used.link.us}, {"given", used.given}};
  }
  return json.dump();
}

}  // namespace shardlab
