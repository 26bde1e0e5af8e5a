// Ops over lists of tensors, decided element by element with the rule of the op on one tensor. They
// have no kernels of their own: each element runs as ops on one tensor do.
#include "base/fix.h"
#include "ops/meta.h"
#include "ops/register.h"
#include "ops/rows.h"

namespace shardlab {
namespace {

constexpr PointwiseRule kNone{""};
constexpr PointwiseRule kLinear{"ss aa"};
constexpr PointwiseRule kAdditive{"sss aaa aar XXr NNr ara"};
constexpr PointwiseRule kProduct{"ss aa ssr aar srs ara"};
constexpr PointwiseRule kQuotient{"ss aa ssr aar"};

/// The number beside element `k`: a Scalar, or one of a list of them.
void add_number(const Argument& argument, std::size_t k, Operands& operands) {
  if (argument.is_scalar()) operands.numbers.push_back(argument.scalar());
  if (argument.is_list() && k < argument.list().size() && argument.list()[k].is_scalar()) {
    operands.numbers.push_back(argument.list()[k].scalar());
  }
}

Operands element_operands(const MetaArgs& args, std::size_t k) {
  Operands operands;
  operands.tensors.push_back(args.tensors(0)[k]);
  const SchemaType& other = args.op().arguments[1].type;
  if (!other.is_tensor()) {
    add_number(args[1], k, operands);
  } else if (!other.is_list) {
    operands.tensors.push_back(args.tensor(1));
  } else {
    if (args.tensors(1).size() != args.tensors(0).size()) {
      fail(ErrorKind::kValue,
           Fix{fmt::format("pass {} tensors in the second list, or one number for all",
                           args.tensors(0).size())},
           "{}: the lists have {} and {} tensors; they must be of one length", args.op().name(),
           args.tensors(0).size(), args.tensors(1).size());
    }
    operands.tensors.push_back(args.tensors(1)[k]);
  }
  return operands;
}

template <DType (*kDType)(DType)>
std::vector<OutputMeta> meta_foreach(const MetaArgs& args) {
  std::vector<OutputMeta> outputs;
  for (std::size_t k = 0; k < args.tensors(0).size(); ++k) {
    const Operands operands = element_operands(args, k);
    outputs.push_back(elementwise_meta(args, operands, kDType(result_dtype(operands))));
  }
  return outputs;
}

DType unchanged(DType dtype) { return dtype; }
constexpr MetaFn kPromoted = meta_foreach<unchanged>;
constexpr MetaFn kPromotedFloat = meta_foreach<float_dtype>;

// The op that one element of a foreach call is: "aten::_foreach_add_.ScalarList" ->
// "aten::add_.Scalar".
std::string element_op(const OpDescriptor& op) {
  constexpr std::string_view kPrefix = "aten::_foreach_";
  const bool number = op.overload == "Scalar" || op.overload == "ScalarList";
  return fmt::format("aten::{}.{}", op.base.substr(kPrefix.size()), number ? "Scalar" : "Tensor");
}

// All lists are as long as the first; `may_be_empty`: one that is not read.
void check_lists(const OpRow& row, const Arguments& args, std::size_t may_be_empty) {
  const std::size_t count = args[0].list().size();
  for (std::size_t i = 1; i < args.size(); ++i) {
    if (!args[i].is_list() && !args[i].is_ints()) continue;
    const std::size_t size = args[i].is_list() ? args[i].list().size() : args[i].ints().size();
    if (size == count || (size == 0 && i == may_be_empty)) continue;
    fail(ErrorKind::kValue,
         Fix{fmt::format("pass {} elements in {}", count, row.op.arguments[i].name)},
         "{}: list {} has {} elements, the first list has {}; they must be of one length",
         row.name(), row.op.arguments[i].name, size, count);
  }
}

// Element `k` of an operand: of a list, of the numbers of a list, or the one that all share.
Argument element_of(const Argument& operand, std::size_t k) {
  if (operand.is_list()) return operand.list()[k];
  if (operand.is_ints()) return operand.ints()[k];
  return operand;
}

Results run_elements(Calls& calls, const OpRow& row, const Arguments& args) {
  check_lists(row, args, args.size());
  const std::string op = element_op(row.op);
  ArgumentList results;
  for (std::size_t k = 0; k < args[0].list().size(); ++k) {
    Arguments element;
    for (const Argument& operand : args) element.push_back(element_of(operand, k));
    results.push_back(calls(op, std::move(element))[0]);
  }
  return {Argument(std::move(results))};
}

/// Whether weights decay by themselves (AdamW) or through the gradient (Adam).
enum class Decay : std::uint8_t { kOfWeights, kOfGradient };

// One tensor of a fused Adam step.
class AdamStep {
 public:
  AdamStep(Calls& calls, const Arguments& args, std::size_t k)
      : calls_(calls), args_(args), k_(k) {}

  void run(Decay decay) {
    DTensor weight = element(0), gradient = element(1);
    if (args_[13].is_tensor()) gradient = calls_.one("div.Tensor", {gradient, args_[13]});
    if (args_[12].to_bool()) gradient = calls_.one("neg", {gradient});
    const double rate = number(6), kept = number(9);
    if (decay == Decay::kOfWeights) weight = scaled(weight, 1 - rate * kept);
    if (decay == Decay::kOfGradient && kept != 0) {
      gradient = calls_.one("add.Tensor", {gradient, weight, kept});
    }
    const DTensor mean = calls_.one("lerp.Scalar", {element(2), gradient, 1 - number(7)});
    const DTensor square =
        calls_.one("addcmul", {scaled(element(3), number(8)), gradient, gradient, 1 - number(8)});
    DTensor spread = square;
    if (args_[11].to_bool()) {
      spread = calls_.one("maximum", {element(4), square});
      store(element(4), spread);
    }
    const DTensor root = calls_.one(
        "div.Tensor", {calls_.one("sqrt", {spread}), calls_.one("sqrt", {unbiased(number(8))})});
    const DTensor step =
        calls_.one("div.Tensor", {mean, calls_.one("add.Scalar", {root, number(10)})});
    const DTensor moved = calls_.one("div.Tensor", {scaled(step, rate), unbiased(number(7))});
    store(element(0), calls_.one("sub.Tensor", {weight, moved}));
    store(element(2), mean);
    store(element(3), square);
  }

 private:
  DTensor element(std::size_t list) const { return args_[list].list()[k_].tensor(); }
  double number(std::size_t argument) const { return args_[argument].to_double(); }
  DTensor scaled(const DTensor& x, double factor) { return calls_.one("mul.Scalar", {x, factor}); }
  /// 1 - beta ** step
  DTensor unbiased(double beta) {
    return calls_.one("rsub.Scalar", {calls_.one("pow.Scalar", {beta, element(5)}), 1});
  }
  /// Unless some gradient was not finite: then nothing changes.
  void store(const DTensor& target, DTensor value) {
    if (args_[14].is_tensor()) {
      const DTensor found = calls_.one("ne.Scalar", {args_[14], 0});
      value = calls_.one("where.self", {found, target, value});
    }
    calls_("copy_", {target, value});
  }

  Calls& calls_;
  const Arguments& args_;
  std::size_t k_;
};

template <Decay kDecay>
Results run_fused_adam(Calls& calls, const OpRow& row, const Arguments& args) {
  constexpr std::size_t kMaxSquares = 4, kAmsgrad = 11;
  check_lists(row, args, args[kAmsgrad].to_bool() ? args.size() : kMaxSquares);
  for (std::size_t k = 0; k < args[0].list().size(); ++k) AdamStep(calls, args, k).run(kDecay);
  return {};
}

std::vector<OutputMeta> no_results(const MetaArgs&) { return {}; }

constexpr std::uint32_t kLists = kAllowUneven | kIndependentLists;
constexpr std::uint32_t kSteps = kLists | kNotDifferentiable;

// The check of the scaler has its handler from dispatch/all_ops.cpp.
// Sorted by name.
// clang-format off
constexpr Row kForeachRows[] = {
    {"_amp_foreach_non_finite_check_and_unscale_", nullptr, {}, {}, {}, {},
     "the handler shares the note of what is not finite (D-62)", kCollective | kNotDifferentiable},
    {"_foreach_add.List", kPromoted, kAdditive, run_elements, {"_foreach_add_.List"}, {}, "as add",
     kLists},
    {"_foreach_add.Scalar", kPromoted, kNone, run_elements, {"_foreach_add_.Scalar"}, {},
     "as add.Scalar", kLists},
    {"_foreach_add.ScalarList", kPromoted, kNone, run_elements, {"_foreach_add_.ScalarList"}, {},
     "as add.Scalar", kLists},
    {"_foreach_add.Tensor", kPromoted, kAdditive, run_elements, {"_foreach_add_.Tensor"}, {},
     "as add", kLists},
    {"_foreach_div.List", kPromotedFloat, kQuotient, run_elements, {"_foreach_div_.List"}, {},
     "as div", kLists},
    {"_foreach_div.Scalar", kPromotedFloat, kLinear, run_elements, {"_foreach_div_.Scalar"}, {},
     "as div.Scalar", kLists},
    {"_foreach_div.ScalarList", kPromotedFloat, kLinear, run_elements, {"_foreach_div_.ScalarList"},
     {}, "as div.Scalar", kLists},
    {"_foreach_div.Tensor", kPromotedFloat, kQuotient, run_elements, {"_foreach_div_.Tensor"}, {},
     "as div", kLists},
    {"_foreach_mul.List", kPromoted, kProduct, run_elements, {"_foreach_mul_.List"}, {}, "as mul",
     kLists},
    {"_foreach_mul.Scalar", kPromoted, kLinear, run_elements, {"_foreach_mul_.Scalar"}, {},
     "as mul.Scalar", kLists},
    {"_foreach_mul.ScalarList", kPromoted, kLinear, run_elements, {"_foreach_mul_.ScalarList"}, {},
     "as mul.Scalar", kLists},
    {"_foreach_mul.Tensor", kPromoted, kProduct, run_elements, {"_foreach_mul_.Tensor"}, {},
     "as mul", kLists},
    {"_foreach_sub.List", kPromoted, kAdditive, run_elements, {"_foreach_sub_.List"}, {}, "as sub",
     kLists},
    {"_foreach_sub.Scalar", kPromoted, kNone, run_elements, {"_foreach_sub_.Scalar"}, {},
     "as sub.Scalar", kLists},
    {"_foreach_sub.ScalarList", kPromoted, kNone, run_elements, {"_foreach_sub_.ScalarList"}, {},
     "as sub.Scalar", kLists},
    {"_fused_adam_", no_results, kNone, run_fused_adam<Decay::kOfGradient>, {}, {},
     "each step is pointwise; the step count is a replica", kSteps},
    {"_fused_adamw_", no_results, kNone, run_fused_adam<Decay::kOfWeights>, {}, {},
     "each step is pointwise; the step count is a replica", kSteps},
};
// clang-format on

}  // namespace

void register_foreach(OpRegistry& registry) { add_rows(registry, kForeachRows); }

}  // namespace shardlab
