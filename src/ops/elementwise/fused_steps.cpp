// Steps of optimizers over lists of tensors, each step one op: in place, and on copies.
#include <algorithm>
#include <utility>

#include "ops/family.h"
#include "schema/list_element.h"

namespace shardlab {
namespace {

// The result of a step for a tensor, unless some gradient was not finite: then the tensor does not
// change.
DTensor unless_found(Calls& calls, const Argument& found, const DTensor& kept,
                     const DTensor& made) {
  if (!found.is_tensor()) return made;
  return calls.one("where.self", {calls.one("ne.Scalar", {found, 0}), kept, made});
}

// One tensor of a fused step. All of them have the list of weights first, then their gradients, and
// last the scale of these and whether some were not finite; both may be None.
class FusedStep {
 public:
  FusedStep(Calls& calls, const Arguments& args, std::size_t k)
      : calls_(calls), args_(args), k_(k) {}

 protected:
  DTensor element(std::size_t list) const { return args_[list].list()[k_].tensor(); }
  double number(std::size_t argument) const { return args_[argument].to_double(); }
  DTensor scaled(const DTensor& x, double factor) { return calls_.one("mul.Scalar", {x, factor}); }
  /// Times an argument, a number or a tensor.
  DTensor times(const DTensor& x, std::size_t argument) {
    const Argument& factor = args_[argument];
    return factor.is_tensor() ? calls_.one("mul.Tensor", {x, factor}) : scaled(x, number(argument));
  }
  /// The gradient, without its scale, downwards.
  DTensor flowing(bool maximize) {
    const Argument& scale = args_[args_.size() - 2];
    DTensor gradient = element(1);
    if (scale.is_tensor()) gradient = calls_.one("div.Tensor", {gradient, scale});
    return maximize ? calls_.one("neg", {gradient}) : gradient;
  }
  void store(const DTensor& target, const DTensor& value) {
    calls_("copy_", {target, unless_found(calls_, args_[args_.size() - 1], target, value)});
  }

  Calls& calls_;
  const Arguments& args_;
  std::size_t k_;
};

/// Whether weights decay by themselves (AdamW) or through the gradient (Adam).
enum class Decay : std::uint8_t { kOfWeights, kOfGradient };

// One tensor of a fused Adam step.
class AdamStep : FusedStep {
 public:
  using FusedStep::FusedStep;

  void run(Decay decay) {
    DTensor weight = element(0), gradient = flowing(args_[12].to_bool());
    const double kept = number(9);
    if (decay == Decay::kOfWeights) weight = decayed(weight, kept);
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
    const DTensor moved = calls_.one("div.Tensor", {times(step, 6), unbiased(number(7))});
    store(element(0), calls_.one("sub.Tensor", {weight, moved}));
    store(element(2), mean);
    store(element(3), square);
  }

 private:
  DTensor decayed(const DTensor& x, double kept) {
    if (!args_[6].is_tensor()) return scaled(x, 1 - number(6) * kept);
    return calls_.one("sub.Tensor", {x, times(scaled(x, kept), 6)});
  }
  /// 1 - beta ** step, in f64: it is small, and a step is counted in f32.
  DTensor unbiased(double beta) {
    const DTensor count = cast_to(calls_, element(5), DType::kF64);
    return calls_.one("rsub.Scalar", {calls_.one("pow.Scalar", {beta, count}), 1});
  }
};

template <Decay kDecay>
Results run_fused_adam(Calls& calls, const OpRow& row, const Arguments& args) {
  constexpr std::size_t kMaxSquares = 4, kAmsgrad = 11;
  const std::size_t count =
      element_count(row, args, args[kAmsgrad].to_bool() ? args.size() : kMaxSquares);
  for (std::size_t k = 0; k < count; ++k) AdamStep(calls, args, k).run(kDecay);
  return {};
}

// One tensor of a fused step down the gradient.
class SgdStep : FusedStep {
 public:
  using FusedStep::FusedStep;

  void run() {
    const DTensor weight = element(0);
    DTensor gradient = flowing(args_[8].to_bool());
    if (number(3) != 0) gradient = calls_.one("add.Tensor", {gradient, weight, number(3)});
    if (number(4) != 0) gradient = with_momentum(gradient);
    store(weight, calls_.one("sub.Tensor", {weight, times(gradient, 5)}));
  }

 private:
  DTensor with_momentum(const DTensor& gradient) {
    DTensor run = gradient;  // the first step finds no momentum yet
    if (!args_[9].to_bool()) {
      run = calls_.one("add.Tensor", {scaled(element(2), number(4)), gradient, 1 - number(6)});
    }
    store(element(2), run);
    if (!args_[7].to_bool()) return run;
    return calls_.one("add.Tensor", {gradient, run, number(4)});
  }
};

Results run_fused_sgd(Calls& calls, const OpRow& row, const Arguments& args) {
  constexpr std::size_t kBuffers = 2, kMomentum = 4;
  const bool plain = args[kMomentum].to_double() == 0;
  if (plain && !args[kBuffers].list().empty()) {
    fail(Fix{"pass momentum_buffer_list=[] where momentum is 0"},
         "{}: there are {} momentum buffers; where momentum is 0 there must be none", row.name(),
         args[kBuffers].list().size());
  }
  const std::size_t count = element_count(row, args, plain ? kBuffers : args.size());
  for (std::size_t k = 0; k < count; ++k) SgdStep(calls, args, k).run();
  return {};
}

// One tensor of a fused Adagrad step.
class AdagradStep : FusedStep {
 public:
  using FusedStep::FusedStep;

  void run() {
    const DTensor weight = element(0);
    DTensor gradient = flowing(args_[8].to_bool());
    if (number(6) != 0) gradient = calls_.one("add.Tensor", {gradient, weight, number(6)});
    const DTensor squares = calls_.one("addcmul", {element(2), gradient, gradient});
    const DTensor root = calls_.one("sqrt", {squares});
    const DTensor step =
        calls_.one("div.Tensor", {gradient, calls_.one("add.Scalar", {root, number(7)})});
    const DTensor moved = calls_.one("div.Tensor", {times(step, 4), decay()});
    store(weight, calls_.one("sub.Tensor", {weight, moved}));
    store(element(2), squares);
  }

 private:
  /// 1 + (step - 1) lr_decay
  DTensor decay() {
    const DTensor count = cast_to(calls_, element(3), DType::kF64);
    const DTensor before = calls_.one("sub.Scalar", {count, 1});
    return calls_.one("add.Scalar", {scaled(before, number(5)), 1});
  }
};

Results run_fused_adagrad(Calls& calls, const OpRow& row, const Arguments& args) {
  const std::size_t count = element_count(row, args);
  for (std::size_t k = 0; k < count; ++k) AdagradStep(calls, args, k).run();
  return {};
}

/// The step on copies of the tensors that it would write, which are its results; gradients as it
/// took them.
template <FixedText in_place>
Results fused_copies(Calls& calls, const Arguments& args) {
  constexpr std::size_t kGradients = 1;
  const std::size_t scale = args.size() - 2, found = args.size() - 1;
  const auto written = static_cast<std::size_t>(
      std::ranges::count_if(calls.find(in_place).op.arguments,
                            [](const SchemaArgument& argument) { return argument.alias.write; }));
  Arguments copies = args;
  for (std::size_t i = 0; i < written; ++i) {
    ArgumentList list;
    for (const Argument& x : args[i].list()) list.emplace_back(calls.one("clone", {x}));
    copies[i] = std::move(list);
  }
  calls(in_place, copies);
  if (args[scale].is_tensor()) {
    ArgumentList gradients;
    for (const Argument& gradient : copies[kGradients].list()) {
      const DTensor plain = calls.one("div.Tensor", {gradient, args[scale]});
      gradients.emplace_back(unless_found(calls, args[found], gradient.tensor(), plain));
    }
    copies[kGradients] = std::move(gradients);
  }
  return Results(copies.begin(), copies.begin() + written);
}

constexpr std::uint32_t kSteps =
    kAllowUneven | kIndependentLists | kNotDifferentiable | kReadsGradients;

constexpr const char* kCopies = "the same in place, on copies";
constexpr const char* kStepwise = "each step is pointwise; the step count is a replica";

// Sorted by name.
// clang-format off
constexpr Row kFusedRows[] = {
    composite("_fused_adagrad"_op, fused_copies<"_fused_adagrad_">, kCopies, kNotDifferentiable),
    composite("_fused_adagrad.tensor_lr"_op, fused_copies<"_fused_adagrad_.tensor_lr">, kCopies,
              kNotDifferentiable),
    {"_fused_adagrad_"_op, meta_nothing, kNone, run_fused_adagrad, {}, kStepwise, kSteps},
    {"_fused_adagrad_.tensor_lr"_op, meta_nothing, kNone, run_fused_adagrad, {}, kStepwise, kSteps},
    composite("_fused_adam"_op, fused_copies<"_fused_adam_">, kCopies, kNotDifferentiable),
    composite("_fused_adam.tensor_lr"_op, fused_copies<"_fused_adam_.tensor_lr">, kCopies,
              kNotDifferentiable),
    {"_fused_adam_"_op, meta_nothing, kNone, run_fused_adam<Decay::kOfGradient>, {}, kStepwise,
     kSteps},
    {"_fused_adam_.tensor_lr"_op, meta_nothing, kNone, run_fused_adam<Decay::kOfGradient>, {},
     kStepwise, kSteps},
    composite("_fused_adamw"_op, fused_copies<"_fused_adamw_">, kCopies, kNotDifferentiable),
    composite("_fused_adamw.tensor_lr"_op, fused_copies<"_fused_adamw_.tensor_lr">, kCopies,
              kNotDifferentiable),
    {"_fused_adamw_"_op, meta_nothing, kNone, run_fused_adam<Decay::kOfWeights>, {}, kStepwise,
     kSteps},
    {"_fused_adamw_.tensor_lr"_op, meta_nothing, kNone, run_fused_adam<Decay::kOfWeights>, {},
     kStepwise, kSteps},
    composite("_fused_sgd"_op, fused_copies<"_fused_sgd_">, kCopies, kNotDifferentiable),
    composite("_fused_sgd.tensor_lr"_op, fused_copies<"_fused_sgd_.tensor_lr">, kCopies,
              kNotDifferentiable),
    {"_fused_sgd_"_op, meta_nothing, kNone, run_fused_sgd, {}, kStepwise, kSteps},
    {"_fused_sgd_.tensor_lr"_op, meta_nothing, kNone, run_fused_sgd, {}, kStepwise, kSteps},
};
// clang-format on

}  // namespace

void register_fused_steps(OpRegistry& registry) { add_rows(registry, kFusedRows); }

}  // namespace shardlab
