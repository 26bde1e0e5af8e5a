// Ops over lists of tensors, decided element by element with the rule of the op on one tensor. They
// have no kernels of their own: each element runs as ops on one tensor do.
#include "ops/derive.h"
#include "ops/meta.h"
#include "ops/register.h"

namespace shardlab {
namespace {

constexpr const char* kNone = "";
constexpr const char* kLinear = "ss aa";
constexpr const char* kAdditive = "sss aaa aar XXr NNr ara";
constexpr const char* kProduct = "ss aa ssr aar srs ara";
constexpr const char* kQuotient = "ss aa ssr aar";

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
      fail(ErrorKind::kValue, "{}: lists of {} and {} tensors", args.op().name(),
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

struct ForeachRow {
  const char* base;  ///< without "_foreach_"
  const char* overload;
  const char* operand;  ///< type and name of argument 1
  const char* keywords;
  MetaFn meta;
  const char* passes;
  const char* why;
};

constexpr const char* kAlpha = ", *, Scalar alpha=1";

constexpr ForeachRow kRows[] = {
    {"add", "List", "Tensor[] other", kAlpha, kPromoted, kAdditive, "as add"},
    {"add", "Scalar", "Scalar scalar", "", kPromoted, kNone, "as add.Scalar"},
    {"add", "ScalarList", "Scalar[] scalars", "", kPromoted, kNone, "as add.Scalar"},
    {"add", "Tensor", "Tensor other", kAlpha, kPromoted, kAdditive, "as add"},
    {"div", "List", "Tensor[] other", "", kPromotedFloat, kQuotient, "as div"},
    {"div", "Scalar", "Scalar scalar", "", kPromotedFloat, kLinear, "as div.Scalar"},
    {"div", "ScalarList", "Scalar[] scalars", "", kPromotedFloat, kLinear, "as div.Scalar"},
    {"div", "Tensor", "Tensor other", "", kPromotedFloat, kQuotient, "as div"},
    {"mul", "List", "Tensor[] other", "", kPromoted, kProduct, "as mul"},
    {"mul", "Scalar", "Scalar scalar", "", kPromoted, kLinear, "as mul.Scalar"},
    {"mul", "ScalarList", "Scalar[] scalars", "", kPromoted, kLinear, "as mul.Scalar"},
    {"mul", "Tensor", "Tensor other", "", kPromoted, kProduct, "as mul"},
    {"sub", "List", "Tensor[] other", kAlpha, kPromoted, kAdditive, "as sub"},
    {"sub", "Scalar", "Scalar scalar", "", kPromoted, kNone, "as sub.Scalar"},
    {"sub", "ScalarList", "Scalar[] scalars", "", kPromoted, kNone, "as sub.Scalar"},
};

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
    fail(ErrorKind::kValue, "{}: list {} has {} elements, the first one {}", row.name(),
         row.op.arguments[i].name, size, count);
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

constexpr const char* kFusedAdam =
    "(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] exp_avgs, Tensor(d!)[] exp_avg_sqs, "
    "Tensor(e!)[] max_exp_avg_sqs, Tensor[] state_steps, *, float lr, float beta1, float beta2, "
    "float weight_decay, float eps, bool amsgrad, bool maximize, Tensor? grad_scale=None, Tensor? "
    "found_inf=None) -> ()";

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

OpRow list_row(const std::string& schema, const char* passes, const char* why) {
  OpRow row;
  row.op = parse_op_schema(schema);
  row.rule = PointwiseRule{passes};
  row.flags = kAllowUneven | kIndependentLists;
  row.why = why;
  return row;
}

OpRow unscale_row() {
  OpRow row;
  row.op = parse_op_schema(
      "_amp_foreach_non_finite_check_and_unscale_(Tensor(a!)[] self, Tensor(b!) found_inf, Tensor "
      "inv_scale) -> ()");
  row.handler = HandlerId::kFoundInf;
  row.flags = kCollective | kNotDifferentiable;
  row.why = "the handler shares the note of what is not finite (D-62)";
  return row;
}

void add_fused(OpRegistry& registry, const char* name, LocalFn local) {
  OpRow row = list_row(std::string(name) + kFusedAdam, kNone,
                       "each step is pointwise; the step count is a replica");
  row.meta = [](const MetaArgs&) { return std::vector<OutputMeta>(); };
  row.local = local;
  row.flags |= kNotDifferentiable;
  registry.add(std::move(row));
}

}  // namespace

void register_foreach(OpRegistry& registry) {
  for (const ForeachRow& entry : kRows) {
    const std::string rest = fmt::format("{}{})", entry.operand, entry.keywords);
    OpRow row = list_row(fmt::format("_foreach_{}.{}(Tensor[] self, {} -> Tensor[]", entry.base,
                                     entry.overload, rest),
                         entry.passes, entry.why);
    row.meta = entry.meta;
    row.local = run_elements;
    const OpRow& base = add_with_variants(registry, std::move(row), kNoVariants);
    OpRow inplace = base;
    inplace.base = &base;
    inplace.op = parse_op_schema(fmt::format("_foreach_{}_.{}(Tensor(a!)[] self, {} -> ()",
                                             entry.base, entry.overload, rest));
    registry.add(std::move(inplace));
  }
  add_fused(registry, "_fused_adam_", run_fused_adam<Decay::kOfGradient>);
  add_fused(registry, "_fused_adamw_", run_fused_adam<Decay::kOfWeights>);
  registry.add(unscale_row());
}

}  // namespace shardlab
