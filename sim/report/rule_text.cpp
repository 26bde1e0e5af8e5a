// A rule that is a function is shown by its results for an example: a call of the op on tensors of
// 3, 2 or 1 dims of size 8, the first of these that the op takes, or else a given call.
#include "sim/report/rule_text.h"

#include "ops/core/meta.h"
#include "ops/core/rules.h"
#include "propagate/elements.h"
#include "schema/binder.h"
#include "schema/op_row.h"

namespace shardlab {
namespace {

std::string cell_text(const RulePlacement& cell) {
  return cell.absent ? "none" : to_string(cell.placement);
}

std::string cells_text(std::span<const RulePlacement> cells) {
  std::string text;
  for (const RulePlacement& cell : cells) text += (text.empty() ? "" : ", ") + cell_text(cell);
  return text.empty() ? "()" : text;
}

std::string rows_text(const std::vector<RuleRow>& rows) {
  std::string text;
  for (const RuleRow& row : rows) {
    text += fmt::format("{}{} -> {}", text.empty() ? "" : " | ", cells_text(row.inputs),
                        cells_text(row.outputs));
  }
  return text;
}

/// "sss aar" -> "sum,sum->sum avg,R->avg".
std::string passes_text(std::string_view passes) {
  std::string text;
  for (std::size_t i = 0; i < passes.size();) {
    const std::string_view word = passes.substr(i, passes.find(' ', i) - i);
    i += word.size() + 1;
    std::string inputs;
    for (const char letter : word.substr(1)) {
      inputs += (inputs.empty() ? "" : ", ") + cell_text(placement_of_letter(letter));
    }
    text += fmt::format("{}{} -> {}", text.empty() ? "" : " | ", inputs,
                        cell_text(placement_of_letter(word[0])));
  }
  return text;
}

/// A call that shows the rule of an op: dims of one size, dim 1 if one is named.
class Example {
 public:
  explicit Example(const OpRow& row) : row_(row) {
    layout_ = arena_.layout({.shape = Dims{2}, .names = {}, .ranks = {}});
  }

  /// Empty when the op does not take such a call.
  std::string text(std::size_t ndim) {
    Arguments args;
    std::string shown;
    for (const SchemaArgument& argument : row_.op.arguments) {
      args.push_back(value_of(argument, ndim));
      const bool named = argument.name == "dim" && !args.back().is_none();
      if (named) shown += fmt::format(", dim={}", args.back().text());
    }
    const std::string rows = rows_of({&row_, std::move(args), layout_});
    return rows.empty() ? "" : fmt::format("of {}{}: {}", type_text(ndim), shown, rows);
  }

  /// The same of a call that is given.
  std::string text(const ExampleCall& call) {
    const OpSchema schema{&row_, call(row_, layout_), layout_};
    if (schema.args.empty()) return "";
    const std::string rows = rows_of(schema);
    return rows.empty() ? "" : fmt::format("of {}: {}", schema.text(), rows);
  }

 private:
  static Dims shape_of(std::size_t ndim) { return Dims(ndim, 8); }
  static std::string type_text(std::size_t ndim) { return Argument(shape_of(ndim)).text(); }

  Argument tensor(const SchemaArgument& argument, std::size_t ndim) {
    const bool index = argument.name.starts_with("ind") || argument.name == "target";
    return arena_.spec(layout_, Placements{Placement::replicate()},
                       contiguous_meta(shape_of(ndim), index ? DType::kI64 : DType::kF32));
  }

  Argument value_of(const SchemaArgument& argument, std::size_t ndim) {
    const SchemaType& type = argument.type;
    if (type.is_tensor()) {
      if (type.is_optional) return {};
      const Argument one = tensor(argument, ndim);
      return type.is_list ? Argument(ArgumentList{one, one}) : one;
    }
    const std::int64_t dim = ndim > 1 ? 1 : 0;
    if (argument.name == "dim") return type.is_list ? Argument(Dims{dim}) : Argument(dim);
    if (argument.default_text || type.is_optional) return parse_default(argument);
    if (type.is_list) return shape_of(ndim);
    if (type.kind == TypeKind::kBool) return false;
    if (type.kind == TypeKind::kDType) return DType::kF32;
    return 1;
  }

  std::string rows_of(const OpSchema& schema) const {
    try {
      const OutputMetas outputs = infer_outputs(schema);
      std::vector<const DTensorSpec*> tensors = schema.tensor_specs();
      if (!row_.out_variant()) {
        for (const DTensorSpec* spec : schema.keyword_tensor_specs()) tensors.push_back(spec);
      }
      const RuleContext context{schema, outputs, tensors};
      std::vector<RuleRow> taken, never;
      for (RuleRow& row : rule_rows(row_.rule, context)) {
        (withheld(row_.rule, context, row) == nullptr ? taken : never).push_back(std::move(row));
      }
      const std::string last = never.empty() ? "" : "; never " + rows_text(never);
      return rows_text(taken) + last;
    } catch (const Error&) {
      return "";
    }
  }

  const OpRow& row_;
  Arena arena_;
  const MeshLayout* layout_ = nullptr;
};

}  // namespace

std::string rule_text(const OpRow& row) {
  struct Visit {
    const OpRow& row;
    std::string operator()(const NoRule&) const {
      if (std::holds_alternative<Handler>(row.compute)) return "handler";
      return row.parts() != nullptr ? "in terms of other ops" : "none: makes new tensors";
    }
    std::string operator()(const FactorRule& rule) const { return rule.text; }
    std::string operator()(const PointwiseRule& rule) const {
      if (rule.passes[0] == '\0') return "pointwise";
      return "pointwise, passing " + passes_text(rule.passes);
    }
    std::string operator()(DimRuleFn) const { return "rows for one mesh dim"; }
    std::string operator()(MeshRuleFn) const { return "follows its input"; }
    std::string operator()(StrategyFn) const { return "candidates for the whole mesh"; }
    std::string operator()(TupleStrategyFn) const { return "candidates for each list element"; }
  };
  return std::visit(Visit{row}, row.rule);
}

std::string rule_rows_text(const OpRow& row, const ExampleCall& call) {
  const OpRow& base = row.base != nullptr ? *row.base : row;
  const ShardingRule& rule = base.rule;
  if (std::holds_alternative<NoRule>(rule) || std::holds_alternative<MeshRuleFn>(rule) ||
      std::holds_alternative<StrategyFn>(rule) || std::holds_alternative<TupleStrategyFn>(rule)) {
    return "";
  }
  Example example(base);
  for (const std::size_t ndim : {3, 2, 1}) {
    if (std::string text = example.text(ndim); !text.empty()) return text;
  }
  return call ? example.text(call) : "";
}

}  // namespace shardlab
