// A rule in einsum letters is checked against the op's schema when it is set, and gives shapes,
// too: a result's size is that of its letter in the operands.
#include "ops/core/factor_rule.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "base/error.h"
#include "mesh/shard_order.h"
#include "ops/core/meta.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"

namespace shardlab {

namespace {

[[noreturn]] void refuse(std::string_view op, const std::string& rule, std::string_view why) {
  fail(Fix{"write one operand per tensor, one letter per dim: \"mk,kn->mn\""},
       "the rule {} for {}: {}", rule, op, why);
}

constexpr std::string_view kEllipsis = "...";
constexpr char kWhole = '_';

bool letters(std::string_view given) {
  std::string text(given);
  if (const std::size_t dots = text.find(kEllipsis); dots != text.npos) {
    text.erase(dots, kEllipsis.size());
  }
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == kWhole) continue;
    if (std::islower(static_cast<unsigned char>(text[i])) == 0) return false;
    if (text.find(text[i], i + 1) != std::string_view::npos) return false;
  }
  return true;
}

std::vector<std::string_view> operands_of(std::string_view text) {
  std::vector<std::string_view> operands;
  for (;;) {
    const std::size_t comma = text.find(',');
    operands.push_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return operands;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

std::string_view equation_of(std::string_view rule) {
  rule = rule.substr(0, rule.find(';'));
  while (rule.ends_with(' ')) rule.remove_suffix(1);
  return rule;
}

std::vector<std::vector<std::size_t>> linear_in(std::string_view rule, std::size_t operands) {
  std::vector<std::vector<std::size_t>> groups;
  const std::size_t said = rule.find(';');
  for (std::size_t i = 0; said == std::string_view::npos && i < operands; ++i)
    groups.push_back({i});
  if (said == std::string_view::npos) return groups;
  constexpr std::string_view kKey = "linear_in=";
  const std::size_t begin = rule.find(kKey, said);
  int depth = 0;
  bool fits = begin != std::string_view::npos;
  for (std::size_t i = begin + kKey.size(); fits && i < rule.size(); ++i) {
    const char letter = rule[i];
    depth += letter == '(' ? 1 : letter == ')' ? -1 : 0;
    fits = depth >= 0 && depth <= 2 &&
           std::string_view("(), 0123456789").find(letter) != std::string_view::npos;
    if (letter == '(' && depth == 2) groups.emplace_back();
    if (letter < '0' || letter > '9') continue;
    const auto operand = static_cast<std::size_t>(letter - '0');
    fits = fits && depth > 0 && operand < operands;
    depth == 2 ? groups.back().push_back(operand) : groups.push_back({operand});
  }
  if (fits && depth == 0) return groups;
  fail(Fix{"write the positions of operands: linear_in=(0, 1), linear_in=((0, 1),), linear_in=()"},
       "the rule {}: it does not say in which of {} operands it is linear", rule, operands);
}

std::string without_ellipsis(std::string_view equation, std::span<const std::size_t> ndims) {
  const std::size_t arrow = equation.find("->");
  std::string text, passed;
  std::size_t at = 0;
  for (const std::string_view operand : operands_of(equation.substr(0, arrow))) {
    std::string own(operand);
    if (const std::size_t dots = own.find(kEllipsis); dots != own.npos && at < ndims.size()) {
      const std::size_t named = own.size() - kEllipsis.size() - (own.starts_with('+') ? 1 : 0);
      std::string dims;
      for (std::size_t i = named; i < ndims[at]; ++i) dims += static_cast<char>('A' + dims.size());
      own.replace(dots, kEllipsis.size(), dims);
      passed = std::max(passed, dims);
    }
    text += (at++ == 0 ? "" : ",") + own;
  }
  std::string result(equation.substr(arrow + 2));
  if (const std::size_t dots = result.find(kEllipsis); dots != result.npos) {
    result.replace(dots, kEllipsis.size(), passed);
  }
  return text + "->" + result;
}

OutputMetas factor_metas(const FactorRule& rule, const MetaArgs& args) {
  const Operands given = tensor_operands(args);
  std::vector<std::size_t> ndims;
  for (const auto& meta : given.tensors) ndims.push_back(meta->shape.size());
  const std::string text = without_ellipsis(equation_of(rule.text), ndims);
  const std::size_t arrow = text.find("->");
  const std::vector<std::string_view> operands =
      operands_of(std::string_view(text).substr(0, arrow));
  std::map<char, std::int64_t> sizes;
  for (std::size_t i = 0; i < std::min(operands.size(), given.tensors.size()); ++i) {
    const Dims& shape = given.tensors[i]->shape;
    if (operands[i].starts_with('+')) continue;
    if (shape.size() != operands[i].size()) {
      fail(ErrorKind::kUnsupported, Fix{"write one letter per dim of the operand"},
           "{}: the rule {} does not fit an operand of {} dims", args.op().name(), text,
           shape.size());
    }
    for (std::size_t dim = 0; dim < shape.size(); ++dim) {
      const auto known = sizes.emplace(operands[i][dim], shape[dim]).first;
      if (known->second == shape[dim] || known->first == kWhole) continue;
      fail(Fix{"write different letters for them, or pass tensors whose sizes agree"},
           "{}: sizes {} and {} have the same letter '{}' in the rule {}", args.op().name(),
           known->second, shape[dim], operands[i][dim], text);
    }
  }
  Dims shape;
  for (const char letter : text.substr(arrow + 2)) shape.push_back(sizes[letter]);
  return {{contiguous_meta(shape, result_dtype(given))}};
}

namespace {

// Checks that the rule is one, and for the op.
void check_rule(const OpRegistry& registry, std::string_view op, const std::string& rule) {
  const OpRow& row = registry.at(op);
  const std::string_view text = equation_of(rule);
  const std::size_t arrow = text.find("->");
  if (arrow == std::string::npos) refuse(op, rule, "it has no \"->\"");
  const std::string_view result = text.substr(arrow + 2);
  if (!letters(result)) refuse(op, rule, "the result is lower-case letters, each once");
  std::string all;
  const std::vector<std::string_view> operands = operands_of(text.substr(0, arrow));
  for (std::string_view operand : operands) {
    if (operand.starts_with('+')) operand.remove_prefix(1);
    if (!letters(operand)) refuse(op, rule, "operands are lower-case letters, each once");
    all += operand;
  }
  linear_in(rule, operands.size());
  for (const char letter : result) {
    if (letter == kWhole || all.find(letter) != std::string::npos) continue;
    refuse(op, rule, fmt::format("no operand has the result's '{}'", letter));
  }
  std::size_t least = 0, most = 0;
  for (const SchemaArgument& argument : row.op.arguments) {
    if (!argument.type.is_tensor() || argument.is_out) continue;
    if (argument.type.is_list) refuse(op, rule, "the op takes a list of tensors");
    ++most;
    if (!argument.type.is_optional) ++least;
  }
  if (row.op.returns.size() != 1 || row.op.returns[0].type.is_list) {
    refuse(op, rule, "the op has more than one result");
  }
  if (operands.size() < least || operands.size() > most) {
    refuse(op, rule, fmt::format("the op takes {} tensors", least));
  }
}

}  // namespace

void set_factor_rule(OpRegistry& registry, std::string_view op, std::string rule) {
  check_rule(registry, op, rule);
  registry.set_rule(op, FactorRule{registry.keep(std::move(rule))});
}

void set_factor_rule(OpRegistry& registry, std::string_view op, std::string rule,
                     FactorProgram program) {
  check_rule(registry, op, rule);
  if (rule.find_first_of("._;") != rule.npos)
    refuse(op, rule, "its program needs a letter per dim");
  const char* made_up = registry.keep(std::move(program.made_up));
  registry.set_rule(op, FactorRule{registry.keep(std::move(rule)), made_up},
                    std::move(program.run));
}

InlineVector<std::size_t, 4> mesh_dims_of(const OnPieces& call, char letter) {
  const auto* rule = std::get_if<FactorRule>(&call.row.rule);
  check_invariant(rule != nullptr, "only factor rules have letters");
  const std::string_view text = rule->text;
  const auto operands = operands_of(text.substr(0, text.find("->")));
  const std::size_t given = std::min(operands.size(), call.decision.inputs.size());
  for (std::size_t i = 0; i < given; ++i) {
    const std::size_t dim = operands[i].find(letter);
    if (operands[i].starts_with('+') || dim == std::string_view::npos) continue;
    const DTensorSpec& spec = *call.decision.inputs[i];
    return cutting_order(spec.placements(), spec.order(), static_cast<std::int64_t>(dim));
  }
  return {};
}

}  // namespace shardlab
