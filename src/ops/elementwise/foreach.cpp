// Ops over lists of tensors. Those of ATen's table that apply a registered op to each element have
// no rows here: they are derived from that op, which decides, computes and differentiates each
// element.
#include <string>
#include <string_view>
#include <utility>

#include "ops/core/expression.h"
#include "ops/family.h"
#include "schema/aten_schemas.h"
#include "schema/list_element.h"

namespace shardlab {
namespace {

Results run_elements(Calls& calls, const OpRow& row, const Arguments& args) {
  const std::size_t count = element_count(row, args);
  ArgumentList results;
  for (std::size_t k = 0; k < count; ++k) {
    results.push_back(calls.call(*element_row(row), element_arguments(row, args, k))[0]);
  }
  return {Argument(std::move(results))};
}

// Other names that some foreach ops have for their op on each element.
constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"maximum", "clamp_min"},  // the bound may be a number, given by position
    {"minimum", "clamp_max"},
};

const OpRow* fitting(const OpRegistry& registry, const OpDescriptor& op, const std::string& name) {
  for (const OpRow* row : registry.overloads("aten::" + name)) {
    if (fits_element(op, row->op)) return row;
  }
  return nullptr;
}

// "_foreach_add_.ScalarList" -> "add_.Scalar"; null where no registered op does it.
const OpRow* element_of(const OpRegistry& registry, const OpDescriptor& op) {
  constexpr std::string_view kPrefix = "aten::_foreach_";
  const std::string name = op.base.substr(kPrefix.size());
  // The op of that name has no overload for the dtype of the result.
  if (name == "norm") return fitting(registry, op, "linalg_vector_norm");
  if (name == "powsum") return fitting(registry, op, "linalg__powsum");
  if (const OpRow* row = fitting(registry, op, name)) return row;
  const bool inplace = name.ends_with('_');
  const std::string_view stem = std::string_view(name).substr(0, name.size() - inplace);
  for (const auto& [from, to] : kOtherNames) {
    if (stem == from) return fitting(registry, op, std::string(to) + (inplace ? "_" : ""));
  }
  return nullptr;
}

// Elements are decided as the op on one tensor is, but for these, as recorded.
constexpr std::pair<std::string_view, PointwiseRule> kOtherRules[] = {
    {"aten::_foreach_clamp_max_.List", kMinLike},
    {"aten::_foreach_clamp_max_.Scalar", kNonDecreasing},
    {"aten::_foreach_clamp_min_.List", kMaxLike},
    {"aten::_foreach_clamp_min_.Scalar", kNonDecreasing},
    {"aten::_foreach_maximum_.List", kMaxLike},
    {"aten::_foreach_minimum_.List", kMinLike},
    {"aten::_foreach_zero_", kNone},
};

ShardingRule rule_of(const OpDescriptor& op, const OpRow& element) {
  for (const auto& [name, rule] : kOtherRules) {
    if (op.name() == name) return rule;
  }
  return element.rule;
}

// A list against numbers: no gradient where an element loses, half of it on a tie, all of it next
// to a NaN.
template <bool larger>
std::vector<DTensor> grad_extremes(const GradContext& context) {
  const ArgumentList& list = context.inputs[0].list();
  const Argument& bounds = context.inputs[1];
  std::vector<DTensor> gradients(list.size());
  for (std::size_t k = 0; k < list.size(); ++k) {
    if (!context.needs(k) || !context.grads[k].defined()) continue;
    const Expression x(context.calls, list[k].tensor()), g(context.calls, context.grads[k]);
    const Argument whole = bounds.is_ints() ? Argument(bounds.ints()[k]) : bounds;
    const Argument bound = bounds.is_list() ? bounds.list()[k] : whole;
    const Expression kept = x.eq(bound).choose(g * 0.5, g);
    gradients[k] = kept.filled(larger ? x.lt(bound) : x.gt(bound), 0.0);
  }
  return gradients;
}

// Gradients that differ from that of the op on each element: clamp_min has none at its bound.
constexpr std::pair<std::string_view, GradientFn> kOtherGradients[] = {
    {"aten::_foreach_maximum.Scalar", grad_extremes<true>},
    {"aten::_foreach_maximum.ScalarList", grad_extremes<true>},
    {"aten::_foreach_minimum.Scalar", grad_extremes<false>},
    {"aten::_foreach_minimum.ScalarList", grad_extremes<false>},
};

Gradient gradient_of(const OpDescriptor& op) {
  const std::string wanted = op.name();
  for (const auto& [name, program] : kOtherGradients) {
    if (wanted == name) return {program, "self"};
  }
  return {};
}

// Every foreach op of ATen whose element is a registered op.
void add_derived(OpRegistry& registry) {
  for (const std::string_view schema : aten_schemas_of("aten::_foreach_")) {
    OpRow row;
    row.op = parse_literal_schema(schema);
    if (row.op.is_out_variant()) continue;
    const OpRow* element = element_of(registry, row.op);
    if (element == nullptr) continue;
    row.meta = element->meta;
    row.rule = rule_of(row.op, *element);
    row.compute = run_elements;
    row.gradient = gradient_of(row.op);
    row.flags = element->flags | kIndependentLists;
    row.why = "each element by itself";
    row.base = element;
    registry.add(std::move(row));
  }
}

/// _foreach_addcdiv_.Tensor, _foreach_addcmul_.Tensor(self, tensor1, tensor2, scalars): each
/// element takes its number from a tensor.
template <FixedText op>
Results numbers_from_tensor(Calls& calls, const Arguments& args) {
  const ArgumentList &self = args[0].list(), &first = args[1].list(), &second = args[2].list();
  const DTensor& numbers = args[3].tensor();
  const auto count = static_cast<std::int64_t>(self.size());
  if (first.size() != self.size() || second.size() != self.size() ||
      numbers.shape() != Dims{count}) {
    fail(Fix{"give lists of one length, and a number for each element"},
         "{}: there are {}, {} and {} tensors, and numbers of shape [{}]; there must be as many of "
         "each",
         op, self.size(), first.size(), second.size(), text_of_list(numbers.shape(), ", "));
  }
  for (std::int64_t k = 0; k < count; ++k) {
    const auto i = static_cast<std::size_t>(k);
    const DTensor one = calls.one("select.int", {numbers, 0, k});
    calls(op, {self[i], first[i], second[i], calls("_local_scalar_dense", {one})[0]});
  }
  return {};
}

/// _foreach_zero(self)
Results zeros_of_list(Calls& calls, const Arguments& args) {
  ArgumentList zeros;
  for (const Argument& x : args[0].list()) zeros.emplace_back(calls.one("zeros_like", {x}));
  return {Argument(std::move(zeros))};
}

/// _amp_update_scale_(self, growth_tracker, found_inf, growth, backoff, interval): a scale that is
/// infinite is not taken.
Results next_scale(Calls& calls, const Arguments& args) {
  const Expression scale(calls, args[0].tensor()), tracker(calls, args[1].tensor());
  const Expression found = Expression(calls, args[2].tensor()).gt(0.0);
  const Expression grown = scale.with("aten::mul.Scalar", args[3]);
  const Expression smaller = scale.with("aten::mul.Scalar", args[4]);
  const Expression steps = tracker.with("aten::add.Scalar", 1), full = steps.eq(args[5]);
  const Expression larger = (full && grown.of("aten::isfinite")).choose(grown, scale);
  calls("aten::copy_", {scale.value(), found.choose(smaller, larger).value()});
  const Expression kept = steps.filled(found || full, 0);
  calls("aten::copy_", {tracker.value(), kept.value()});
  return {args[0]};
}

// The check of the scaler has its handler from dispatch/all_ops.cpp.
// Sorted by name.
// clang-format off
constexpr Row kForeachRows[] = {
    {"_amp_foreach_non_finite_check_and_unscale_"_op, meta_nothing, kNone, {}, {},
     "the handler shares the note of what is not finite (D-62)",
     kCollective | kNotDifferentiable | kAllowUneven | kIndependentLists},
    composite("_amp_update_scale_"_op, next_scale, "each element by itself", kNotDifferentiable),
    composite("_foreach_addcdiv_.Tensor"_op, numbers_from_tensor<"addcdiv_">,
              "each element by itself", kDataDependent),
    composite("_foreach_addcmul_.Tensor"_op, numbers_from_tensor<"addcmul_">,
              "each element by itself", kDataDependent),
    composite("_foreach_zero"_op, zeros_of_list, "each element by itself", kNotDifferentiable),
};
// clang-format on

}  // namespace

void register_foreach(OpRegistry& registry) {
  add_rows(registry, kForeachRows);
  add_derived(registry);
}

}  // namespace shardlab
