// Rules for one mesh dim, written as lists of rows. An einsum text gives one row per letter:
// cutting a letter cuts every operand and result that has it, replicates the others, and leaves a
// pending sum where the result lacks it, because the product is a sum over that letter. It also
// gives one row per operand that carries a pending sum, since the product is linear in each. A
// pointwise rule gives one row per dim of the common shape, and one per word for pending reductions
// that pass. The order of rows decides ties in selection and is that of the recordings.
//
// withheld() names the rows that are in the reference's list but give wrong values here: extrema of
// terms that may be NaN, and conversions that do not commute with the reduction.
#include "ops/core/rules.h"

#include <string>
#include <string_view>

#include "base/error.h"
#include "kernels/kernel_id.h"
#include "ops/core/factor_rule.h"
#include "ops/core/meta.h"
#include "schema/op_row.h"

namespace shardlab {
namespace {

struct Factors {
  InlineVector<std::string_view, 4> operands;  ///< of the product
  std::string_view result;
  std::string_view added;  ///< operand outside of the product, in front of it; empty: none
};

Factors parse_factors(std::string_view text) {
  Factors factors;
  const std::size_t arrow = text.find("->");
  factors.result = text.substr(arrow + 2);
  text = text.substr(0, arrow);
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view operand = text.substr(0, comma);
    if (operand.starts_with('+')) {
      factors.added = operand.substr(1);
    } else {
      factors.operands.push_back(operand);
    }
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return factors;
}

// A rule is for tensors of as many dims as it has letters, and its result is the op's.
void check_dims(const FactorRule& rule, const Factors& factors, const RuleContext& context) {
  const std::size_t first = factors.added.empty() ? 0 : 1;
  for (std::size_t i = 0; i < factors.operands.size(); ++i) {
    const bool there = first + i < context.tensors.size();
    if (!there || context.tensors[first + i]->ndim() != factors.operands[i].size()) {
      fail(ErrorKind::kUnsupported,
           Fix{"write one operand per tensor, one letter per dim: \"mk,kn->mn\""},
           "{}: the rule {} does not fit the call {}", context.schema.row->name(), rule.text,
           context.schema.text());
    }
  }
  const auto size_of = [&](char letter) {
    std::int64_t size = 0;
    for (std::size_t i = 0; i < factors.operands.size(); ++i) {
      const std::size_t dim = factors.operands[i].find(letter);
      if (dim != std::string_view::npos) size = context.tensors[first + i]->shape()[dim];
    }
    return size;
  };
  Dims shape;
  const Dims& made = context.outputs[0].meta.shape;
  for (const char letter : factors.result) {
    const bool whole = letter == '_' && shape.size() < made.size();
    shape.push_back(whole ? made[shape.size()] : size_of(letter));
  }
  if (shape == made) return;
  fail(Fix{"write one letter per dim of the op's result, in its order"},
       "{}: the rule {} is for a result [{}], the op makes [{}]", context.schema.row->name(),
       rule.text, text_of_list(shape, ", "), text_of_list(made, ", "));
}

bool has(std::string_view operand, char factor) {
  return operand.find(factor) != std::string_view::npos;
}

RulePlacement shard_of(std::string_view operand, char factor) {
  const std::size_t dim = operand.find(factor);
  if (dim == std::string_view::npos) return RulePlacement::of(Placement::replicate());
  return RulePlacement::any(static_cast<std::int64_t>(dim));
}

/// Shards `factor` everywhere; a contracted one leaves a partial sum, or nothing where a program
/// makes up for the cut.
RuleRow factor_row(const Factors& factors, char factor, bool made_up) {
  RuleRow row;
  const Placement left = made_up ? Placement::replicate() : Placement::partial(ReduceOp::kSum);
  row.outputs.push_back(has(factors.result, factor) ? shard_of(factors.result, factor)
                                                    : RulePlacement::of(left));
  for (const std::string_view operand : factors.operands) {
    row.inputs.push_back(shard_of(operand, factor));
  }
  return row;
}

/// In the order batch, contracted, only in the first operand, only in the last.
std::string ordered_factors(const Factors& factors) {
  std::string all;
  for (const std::string_view operand : factors.operands) {
    for (const char factor : operand) {
      if (factor != '_' && !has(all, factor)) all += factor;
    }
  }
  std::string groups[4];
  for (const char factor : all) {
    const bool kept = has(factors.result, factor);
    bool everywhere = true;
    for (const std::string_view operand : factors.operands) {
      everywhere = everywhere && has(operand, factor);
    }
    const bool first = has(factors.operands.front(), factor);
    groups[everywhere ? (kept ? 0 : 1) : (first ? 2 : 3)] += factor;
  }
  return groups[0] + groups[1] + groups[2] + groups[3];
}

/// The added operand is laid out like the result, but replicated where it is stretched.
RulePlacement added_placement(const RulePlacement& output, const Dims& shape,
                              std::size_t result_ndim) {
  if (!output.any_shard) return output;
  const std::size_t missing = result_ndim - shape.size();
  const auto dim = static_cast<std::size_t>(output.placement.dim);
  if (dim < missing || shape[dim - missing] == 1) return RulePlacement::of(Placement::replicate());
  return RulePlacement::any(static_cast<std::int64_t>(dim - missing));
}

/// Tensor dim of an operand for dim `dim` of the common shape; -1 where it is stretched.
std::int64_t operand_dim(const Dims& common, const Dims& shape, std::size_t dim) {
  const std::size_t missing = common.size() - shape.size();
  if (dim < missing || shape[dim - missing] != common[dim]) return -1;
  return static_cast<std::int64_t>(dim - missing);
}

bool is_signed_integer(DType dtype) { return dtype != DType::kU8 && dtype != DType::kU64; }

/// Whether a row is a word of a pointwise rule that is listed and never taken.
bool in_capitals(const PointwiseRule& rule, const RuleRow& row) {
  std::string_view words = rule.passes;
  while (!words.empty()) {
    const std::string_view word = words.substr(0, words.find(' '));
    words.remove_prefix(std::min(word.size() + 1, words.size()));
    if (word[0] != 'X' && word[0] != 'N') continue;
    bool same = word.size() <= row.inputs.size() + 1 &&
                row.outputs[0].placement == placement_of_letter(word[0]).placement;
    for (std::size_t i = 1; same && i < word.size(); ++i) {
      const RulePlacement& input = row.inputs[i - 1];
      same = !input.any_shard && input.placement == placement_of_letter(word[i]).placement;
    }
    if (same) return true;
  }
  return false;
}

std::size_t output_count(const RuleContext& context) {
  // A foreach op in place returns nothing, but has the outputs of its base all the same.
  const OpRow& row = *context.schema.row;
  const OpDescriptor& op = row.base != nullptr ? row.base->op : row.op;
  std::size_t count = 0;
  for (const SchemaReturn& result : op.returns) count += result.type.is_tensor();
  return count;
}

}  // namespace

RulePlacement placement_of_letter(char letter) {
  switch (letter) {
    case 's':
      return RulePlacement::of(Placement::partial(ReduceOp::kSum));
    case 'a':
      return RulePlacement::of(Placement::partial(ReduceOp::kAvg));
    case 'x':
    case 'X':
      return RulePlacement::of(Placement::partial(ReduceOp::kMax));
    case 'n':
    case 'N':
      return RulePlacement::of(Placement::partial(ReduceOp::kMin));
    default:
      return RulePlacement::of(Placement::replicate());
  }
}

bool passes_cast(const Placement& pending, DType from, DType to) {
  if (pending.kind != PlacementKind::kPartial || from == to) return true;
  const bool keeps_order = pending.op == ReduceOp::kMax || pending.op == ReduceOp::kMin;
  if (keeps_order && to == DType::kF8E4M3FN) return false;  // larger numbers become NaN
  if (keeps_order && is_complex(to)) return false;          // they have no order
  if (is_integral(from) != is_integral(to)) return keeps_order && is_integral(from);
  if (!is_integral(from)) return !keeps_order || !is_complex(from);
  if (from == DType::kBool || to == DType::kBool) return keeps_order && from == DType::kBool;
  if (!keeps_order) return item_bytes(to) <= item_bytes(from);
  const bool is_signed = is_signed_integer(from);
  if (is_signed == is_signed_integer(to)) return item_bytes(to) >= item_bytes(from);
  return !is_signed && item_bytes(to) > item_bytes(from);
}

namespace {

/// Transforms, which the reference lets extrema pass.
bool adds_up(KernelId kernel) {
  return kernel == KernelId::kFftC2c || kernel == KernelId::kFftR2c || kernel == KernelId::kFftC2r;
}

/// Means, which the reference lets sums of integers pass.
bool divides(KernelId kernel) {
  return kernel == KernelId::kAvgPool || kernel == KernelId::kAdaptiveAvgPool;
}

}  // namespace

const char* withheld(const ShardingRule& rule, const RuleContext& context, const RuleRow& row) {
  if (row.outputs.empty() || !row.outputs[0].placement.is_partial()) return nullptr;
  const ReduceOp reduction = row.outputs[0].placement.op;
  const bool extremum = reduction == ReduceOp::kMax || reduction == ReduceOp::kMin;
  if (extremum && adds_up(context.schema.row->kernel())) {
    return "sums of extrema are not extrema of sums";
  }
  if (divides(context.schema.row->kernel()) && is_integral(context.tensors[0]->dtype())) {
    return "quotients of integers are cut off, each by itself";
  }
  const auto* pointwise = std::get_if<PointwiseRule>(&rule);
  if (extremum && pointwise != nullptr) {
    if (in_capitals(*pointwise, row)) return "terms may be NaN where the whole is not";
  }
  if (context.schema.row->kernel() == KernelId::kBucketize) return nullptr;  // counts, not casts
  // A foreach op in place gives no results: they have the dtypes of its targets.
  const DType result =
      context.outputs.empty() ? context.tensors[0]->dtype() : context.outputs[0].meta.dtype;
  for (std::size_t i = 0; i < context.tensors.size(); ++i) {
    const Placement& pending = row.inputs[i].placement;
    if (pending.kind != PlacementKind::kPartial) continue;
    const DType dtype = context.tensors[i]->dtype();
    if (context.schema.row->view() != nullptr && real_dtype(dtype) != real_dtype(result)) {
      return "the bits of terms are not terms of the bits";
    }
    if (!passes_cast(pending, dtype, result)) {
      return "converted terms do not make up the converted whole";
    }
    const bool turns = pending.op != row.outputs[0].placement.op;
    if (turns && is_integral(result)) return "the least integer has no negative";
  }
  return nullptr;
}

RuleRow uniform_row(RulePlacement placement, std::size_t outputs, std::size_t inputs) {
  return {RuleCells(outputs, placement), RuleCells(inputs, placement)};
}

std::vector<RuleRow> rule_like(const RuleContext& context) {
  std::vector<RuleRow> rows = shard_all_dims_but(context, -1, 1);
  for (const ReduceOp op :
       {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
    rows.push_back({{whole()}, {RulePlacement::of(Placement::partial(op))}});
  }
  return rows;
}

void append_passing(std::vector<RuleRow>& rows, const char* kinds, std::size_t outputs,
                    std::size_t inputs, std::size_t others) {
  for (const char* kind = kinds; *kind != '\0'; ++kind) {
    rows.push_back(uniform_row(placement_of_letter(*kind), outputs, inputs));
    rows.back().inputs.resize(inputs + others, whole());
  }
}

std::vector<RuleRow> shard_all_dims_but(const RuleContext& context, std::int64_t skipped,
                                        std::size_t inputs) {
  std::vector<RuleRow> rows;
  const auto ndim = static_cast<std::int64_t>(context.tensors[0]->ndim());
  for (std::int64_t dim = 0; dim < ndim; ++dim) {
    if (dim == skipped) continue;
    rows.push_back(uniform_row(RulePlacement::any(dim), output_count(context), inputs));
  }
  return rows;
}

std::vector<RuleRow> factor_rows(const FactorRule& rule, const RuleContext& context) {
  std::vector<std::size_t> ndims;
  for (const DTensorSpec* tensor : context.tensors) ndims.push_back(tensor->ndim());
  const std::string text = without_ellipsis(equation_of(rule.text), ndims);
  const Factors factors = parse_factors(text);
  check_dims(rule, factors, context);
  const std::string ordered = ordered_factors(factors);
  std::vector<RuleRow> rows;
  rows.reserve(ordered.size() + 2 * factors.operands.size());
  const bool program = rule.made_up != nullptr;
  for (const char factor : ordered) {
    rows.push_back(factor_row(factors, factor, program && has(rule.made_up, factor)));
  }
  const std::string_view partials = program ? "" : "sa";
  for (const char partial : partials) {
    for (const auto& group : linear_in(rule.text, factors.operands.size())) {
      RuleRow& row = rows.emplace_back();
      row.outputs.push_back(placement_of_letter(partial));
      row.inputs.assign(factors.operands.size(), placement_of_letter('r'));
      for (const std::size_t operand : group) row.inputs[operand] = placement_of_letter(partial);
    }
  }
  if (factors.added.empty()) return rows;
  const Dims& shape = context.tensors[0]->shape();
  for (RuleRow& row : rows) {
    row.inputs.insert(0, added_placement(row.outputs[0], shape, factors.result.size()));
  }
  return rows;
}

std::vector<RuleRow> pointwise_rows(const PointwiseRule& rule, const RuleContext& context) {
  const std::size_t positional = context.schema.tensor_specs().size();
  const std::size_t outputs = output_count(context);
  std::vector<const TensorMeta*> operands;
  operands.reserve(positional);
  for (std::size_t i = 0; i < positional; ++i) operands.push_back(&context.tensors[i]->meta());
  const Dims common = broadcast_shapes(context.schema.row->op, operands);

  std::vector<RuleRow> rows;
  rows.reserve(common.size() + (std::string_view(rule.passes).size() + 1) / (positional + 2));
  for (std::size_t dim = 0; dim < common.size(); ++dim) {
    RuleRow& row = rows.emplace_back();
    row.outputs.assign(outputs, RulePlacement::any(static_cast<std::int64_t>(dim)));
    for (const TensorMeta* operand : operands) {
      const std::int64_t from = operand_dim(common, operand->shape, dim);
      row.inputs.push_back(from < 0 ? placement_of_letter('r') : RulePlacement::any(from));
    }
  }
  std::string_view passes = rule.passes;
  while (!passes.empty()) {
    const std::string_view word = passes.substr(0, passes.find(' '));
    passes.remove_prefix(std::min(word.size() + 1, passes.size()));
    if (word.size() != positional + 1) continue;
    RuleRow& row = rows.emplace_back();
    row.outputs.assign(outputs, placement_of_letter(word[0]));
    for (const char letter : word.substr(1)) row.inputs.push_back(placement_of_letter(letter));
  }
  for (RuleRow& row : rows) row.inputs.resize(context.tensors.size(), placement_of_letter('r'));
  return rows;
}

std::vector<RuleRow> rule_rows(const ShardingRule& rule, const RuleContext& context) {
  if (const auto* function = std::get_if<DimRuleFn>(&rule)) return (*function)(context);
  if (const auto* factors = std::get_if<FactorRule>(&rule)) return factor_rows(*factors, context);
  if (const auto* pointwise = std::get_if<PointwiseRule>(&rule)) {
    return pointwise_rows(*pointwise, context);
  }
  return {};
}

}  // namespace shardlab
