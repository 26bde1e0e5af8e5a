// A decision with its candidates, cheapest first, the chosen one marked and always shown.
#include "sim/report/decision_text.h"

#include <algorithm>
#include <numeric>

#include "mesh/type_string.h"
#include "plan/cost.h"
#include "schema/op_row.h"

namespace shardlab {

namespace {

constexpr std::size_t kShownCandidates = 8;
constexpr std::size_t kShownRejections = 6;

std::string specs_text(const std::vector<const DTensorSpec*>& specs, const TypeWriter& type) {
  std::string text;
  for (const DTensorSpec* spec : specs) {
    text += (text.empty() ? "" : ", ") + (spec == nullptr ? "-" : type(*spec));
  }
  return text;
}

std::string placements_of(const DTensorSpec& spec) {
  return order_text(spec.placements(), spec.order());
}

std::string candidate_line(const OpSpec& candidate, bool selected) {
  std::string line = fmt::format(
      "{} {:<12}({}) -> {}", selected ? "*" : " ", price_text(candidate.cost()),
      specs_text(candidate.inputs, placements_of), specs_text(candidate.outputs, placements_of));
  const auto& costs = candidate.input_costs;
  if (costs.size() > 1 && candidate.cost() > 0) {
    std::string parts;
    for (const double cost : costs) parts += (parts.empty() ? "" : " + ") + price_text(cost);
    line += "   = " + parts;
  }
  return line;
}

void append_candidates(std::string& out, const OpStrategy& strategy, int selected,
                       const std::string& indent) {
  std::vector<std::size_t> order(strategy.candidates.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return strategy.candidates[i].cost(); });
  for (std::size_t i = 0; i < order.size(); ++i) {
    const bool chosen = static_cast<int>(order[i]) == selected;
    if (i >= kShownCandidates && !chosen) continue;
    out += indent + candidate_line(strategy.candidates[order[i]], chosen) + "\n";
  }
  const std::size_t shown = std::min(order.size(), kShownCandidates);
  if (order.size() > shown) {
    out += fmt::format("{}  ... {} more candidates, none cheaper\n", indent, order.size() - shown);
  }
}

}  // namespace

bool is_decided(const OpRow& row) { return !std::holds_alternative<NoRule>(row.rule); }

std::string bare_type(const DTensorSpec& spec) { return type_string(spec); }

std::string op_text(const OpSchema& schema, const OutputSharding& decision,
                    const TypeWriter& type) {
  const std::string inputs = specs_text(schema.tensor_specs(), type);
  const std::string outputs = decision.outputs.empty() ? "()" : specs_text(decision.outputs, type);
  return fmt::format("{:<18} {} -> {}", short_name(*schema.row), inputs, outputs);
}

std::string local_op_text(const LocalOp& op) {
  const auto typed = [](const std::vector<TensorMeta>& metas) {
    std::string text;
    for (const TensorMeta& meta : metas) text += (text.empty() ? "" : ", ") + type_string(meta);
    return text;
  };
  const std::string outputs = op.outputs.empty() ? "()" : typed(op.outputs);
  const std::string moved = op.inputs.empty() ? outputs : typed(op.inputs) + " -> " + outputs;
  return fmt::format("{:<18} {}", short_name(*op.row), moved);
}

std::string_view short_name(const OpRow& row) {
  std::string_view name = row.name();
  if (name.starts_with("aten::")) name.remove_prefix(6);
  return name;
}

std::string argument_name(const OpSchema& schema, int argument) {
  int next = 0;
  for (std::size_t i = 0; i < schema.args.size(); ++i) {
    const SchemaArgument& declared = schema.row->op.arguments[i];
    if (!declared.type.is_tensor()) continue;
    const bool list = schema.args[i].is_list();
    const int count = list ? static_cast<int>(schema.args[i].list().size()) : 1;
    if (argument < next + count) {
      return list ? fmt::format("{}[{}]", declared.name, argument - next)
                  : std::string(declared.name);
    }
    next += count;
  }
  return std::to_string(argument);
}

std::string why_text(const OpSchema& schema, const DecisionRecord& record,
                     const std::string& indent, const TypeWriter& type) {
  std::string out;
  const std::vector<const DTensorSpec*> have = schema.tensor_specs();
  for (std::size_t i = 0; i < record.strategies.size(); ++i) {
    if (record.strategies.size() > 1) out += fmt::format("{}list element {}\n", indent, i);
    append_candidates(out, record.strategies[i], record.selected[i], indent);
  }
  out += fmt::format("{}chosen: {}\n", indent, record.choice);
  for (std::size_t i = 0; i < have.size() && i < record.sharding.inputs.size(); ++i) {
    if (have[i] == record.sharding.inputs[i]) continue;
    out += fmt::format("{}moves: input {} {} => {}\n", indent, i, type(*have[i]),
                       type(*record.sharding.inputs[i]));
  }
  for (std::size_t i = 0; i < record.rejected.size() && i < kShownRejections; ++i) {
    out += fmt::format("{}rejected: {}: {}\n", indent, record.rejected[i].row,
                       record.rejected[i].reason);
  }
  if (record.rejected.size() > kShownRejections) {
    out +=
        fmt::format("{}... {} more rejected\n", indent, record.rejected.size() - kShownRejections);
  }
  return out;
}

}  // namespace shardlab
