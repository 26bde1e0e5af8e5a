// Pointwise kernels for all devices. A kernel picks the function, the operands and the dtype in
// which they meet; most of them are a row of element_functions.h with the template below that the
// row names. The costly loops are in the device, so nothing here is instantiated per dtype.
#include "kernels/pointwise.h"

#include <array>
#include <vector>

#include "base/error.h"
#include "kernels/element_types.h"
#include "kernels/kernel_args.h"
#include "kernels/kernel_table.h"
#include "kernels/promotion.h"

namespace shardlab {

namespace {

// The first operands in their promoted dtype.
template <Element function, std::size_t operands>
void promoted(Loops& loops, const KernelCall& call) {
  const std::span<const LocalArg> given = call.args.first(operands);
  loops.run(function, promote_operands(given), call.outputs[0], given);
}

// The same, but integers and bool become f32 first.
template <Element function, std::size_t operands>
void floating(Loops& loops, const KernelCall& call) {
  const std::span<const LocalArg> given = call.args.first(operands);
  loops.run(function, float_dtype(promote_operands(given)), call.outputs[0], given);
}

// f(self, tensor1, tensor2, value): the last one does not take part in the promotion.
template <Element function, std::size_t operands>
void last_apart(Loops& loops, const KernelCall& call) {
  const DType dtype = promote_operands(call.args.first(operands - 1));
  loops.run(function, dtype, call.outputs[0], call.args.first(operands));
}

// where(condition, self, other).
template <Element function, std::size_t operands>
void chosen(Loops& loops, const KernelCall& call) {
  const DType dtype = promote_operands(call.args.subspan(1, operands - 1));
  loops.run(function, dtype, call.outputs[0], call.args.first(operands));
}

// Whether an element is 0 as a value of `dtype`.
bool has_zero(Loops& loops, const Tensor& tensor, DType dtype) {
  const Tensor values = as_contiguous(loops, tensor, dtype);
  const Tensor all = empty(loops.device(), Dims{}, DType::kBool);
  loops.fold(Fold::kAll, compute_dtype(dtype), values, DimMask(values.shape().size(), 1), all);
  std::uint8_t truth = 1;
  loops.device().read(all, &truth);
  return truth == 0;
}

bool divides_by_zero(Loops& loops, DType dtype, const LocalArg& divisor) {
  if (const auto* number = std::get_if<Scalar>(&divisor)) return wraps_to_zero(*number, dtype);
  const auto* tensor = std::get_if<Tensor>(&divisor);
  return tensor != nullptr && has_zero(loops, *tensor, dtype);
}

template <Element function, std::size_t operands = 2>
void division(Loops& loops, const KernelCall& call) {
  const std::span<const LocalArg> given = call.args.first(operands);
  const DType dtype = promote_operands(given);
  const bool checked = is_integral(dtype) && call.outputs[0].numel() > 0;
  if (checked && divides_by_zero(loops, dtype, given[1])) {
    fail(ErrorKind::kRuntime, Fix{"divide floats, or replace the zeros: where(y == 0, 1, y)"},
         "an integer is divided by zero");
  }
  loops.run(function, dtype, call.outputs[0], given);
}

bool is_one(const LocalArg& argument) {
  const auto* number = std::get_if<Scalar>(&argument);
  return number == nullptr || number->is_one();
}

// f(self, other, alpha); alpha does not take part in the promotion.
template <Element plain, Element scaled>
void add_scaled(Loops& loops, const KernelCall& call) {
  const DType dtype = promote_operands(call.args.first(2));
  const bool bare = call.args.size() < 3 || is_one(call.args[2]);
  loops.run(bare ? plain : scaled, dtype, call.outputs[0], call.args.first(bare ? 2 : 3));
}

void rsub(Loops& loops, const KernelCall& call) {
  loops.run(
      Element::kRsubScaled, promote_operands(call.args.first(2)), call.outputs[0],
      {call.args[0], call.args[1], call.args.size() < 3 ? LocalArg(Scalar(1)) : call.args[2]});
}

void div(Loops& loops, const KernelCall& call) {
  const std::string* rounding = optional_text_arg(call, 2);
  if (rounding == nullptr) return floating<Element::kDiv, 2>(loops, call);
  if (*rounding == "floor") return division<Element::kDivFloor>(loops, call);
  if (*rounding == "trunc") return division<Element::kDivTrunc>(loops, call);
  fail(Fix{"leave rounding_mode out, or write rounding_mode='floor'"},
       "rounding_mode is '{}'; it must be None, 'trunc' or 'floor'", *rounding);
}

// pow(base, exponent). As in the reference a number as the exponent may mean another function, with
// its answers for -0.0 and -inf; f16 has powers only.
void power(Loops& loops, const KernelCall& call) {
  const std::span<const LocalArg> given = call.args.first(2);
  const DType dtype = promote_operands(given);
  const auto* number = std::get_if<Scalar>(&given[1]);
  const bool whole = is_integral(dtype) || dtype == DType::kF16;
  if (number == nullptr || number->category() == Category::kComplex || whole) {
    return loops.run(Element::kPow, dtype, call.outputs[0], given);
  }
  const double exponent = number->to_double();
  if (exponent == 0) return loops.fill(call.outputs[0], Scalar(1));
  if (exponent == 1) return loops.run(Element::kPositive, dtype, call.outputs[0], given.first(1));
  if (exponent == 2) {
    return loops.run(Element::kMul, dtype, call.outputs[0], {given[0], given[0]});
  }
  const Element function = exponent == 0.5    ? Element::kSqrt
                           : exponent == -0.5 ? Element::kRsqrt
                           : exponent == -1   ? Element::kReciprocal
                                              : Element::kPow;
  loops.run(function, dtype, call.outputs[0], given.first(function == Element::kPow ? 2 : 1));
}

// clamp(self, min, max) with either bound None.
void clamp(Loops& loops, const KernelCall& call) {
  const bool low = !std::holds_alternative<std::monostate>(call.args[1]);
  const bool high = call.args.size() > 2 && !std::holds_alternative<std::monostate>(call.args[2]);
  check_invariant(low || high, "clamp has a bound");
  std::vector<LocalArg> operands{call.args[0]};
  if (low) operands.push_back(call.args[1]);
  if (high) operands.push_back(call.args[2]);
  const DType dtype = promote_operands(operands);
  for (LocalArg& operand : operands) operand = within_range(operand, dtype);
  const Element function = !high ? Element::kMaximum : low ? Element::kClamp : Element::kMinimum;
  loops.run(function, dtype, call.outputs[0], operands);
}

template <Element function>
void bound(Loops& loops, const KernelCall& call) {
  const DType dtype = promote_operands(call.args.first(2));
  loops.run(function, dtype, call.outputs[0], {call.args[0], within_range(call.args[1], dtype)});
}

// masked_fill(self, mask, value): the value takes self's dtype.
void masked_fill(Loops& loops, const KernelCall& call) {
  loops.run(Element::kWhere, tensor_arg(call, 0).dtype(), call.outputs[0],
            {call.args[1], call.args[2], call.args[0]});
}

// bool inverts, integers flip their bits.
void bitwise_not(Loops& loops, const KernelCall& call) {
  if (tensor_arg(call, 0).dtype() == DType::kBool) {
    return promoted<Element::kLogicalNot, 1>(loops, call);
  }
  promoted<Element::kBitwiseNot, 1>(loops, call);
}

// frexp(self): mantissa and exponent.
void frexp(Loops& loops, const KernelCall& call) {
  const std::span<const LocalArg> given = call.args.first(1);
  const DType dtype = promote_operands(given);
  loops.run(Element::kFrexpMantissa, dtype, call.outputs[0], given);
  loops.run(Element::kFrexpExponent, dtype, call.outputs[1], given);
}

// Half types are computed in f32, whose neighbours are nearer.
void nextafter(Loops& loops, const KernelCall& call) {
  const std::span<const LocalArg> given = call.args.first(2);
  const DType dtype = promote_operands(given);
  const Element function = dtype == DType::kBF16  ? Element::kNextafterBF16
                           : dtype == DType::kF16 ? Element::kNextafterF16
                                                  : Element::kNextafter;
  loops.run(function, dtype, call.outputs[0], given);
}

// The argument behind the operands chooses how gelu is computed.
template <Element exact, Element approximated, std::size_t operands>
void gelu(Loops& loops, const KernelCall& call) {
  const std::string* text = optional_text_arg(call, operands);
  if (text == nullptr || *text == "none") return promoted<exact, operands>(loops, call);
  if (*text == "tanh") return promoted<approximated, operands>(loops, call);
  fail(Fix{"leave approximate out, or write approximate='tanh'"},
       "approximate is '{}'; it must be 'none' or 'tanh'", *text);
}

using PointwiseKernels = std::array<Kernel, static_cast<std::size_t>(KernelId::kCount)>;

constexpr PointwiseKernels make_kernels() {
  PointwiseKernels table{};
  const auto set = [&](KernelId id, Kernel kernel) {
    table[static_cast<std::size_t>(id)] = kernel;
  };
#define SHARDLAB_SET(function, operands, kinds, how) \
  set(KernelId::k##function, how<Element::k##function, operands>);
  SHARDLAB_ELEMENT_KERNELS(SHARDLAB_SET)
#undef SHARDLAB_SET
  set(KernelId::kAdd, add_scaled<Element::kAdd, Element::kAddScaled>);
  set(KernelId::kSub, add_scaled<Element::kSub, Element::kSubScaled>);
  set(KernelId::kRsub, rsub);
  set(KernelId::kDiv, div);
  set(KernelId::kPow, power);
  set(KernelId::kClamp, clamp);
  set(KernelId::kClampMin, bound<Element::kMaximum>);
  set(KernelId::kClampMax, bound<Element::kMinimum>);
  set(KernelId::kMaskedFill, masked_fill);
  set(KernelId::kBitwiseNot, bitwise_not);
  set(KernelId::kFrexp, frexp);
  set(KernelId::kNextafter, nextafter);
  set(KernelId::kGelu, gelu<Element::kGelu, Element::kGeluTanh, 1>);
  set(KernelId::kGeluBackward, gelu<Element::kGeluBackward, Element::kGeluTanhBackward, 2>);
  return table;
}

constexpr PointwiseKernels kKernels = make_kernels();

}  // namespace

bool is_pointwise(KernelId id) { return kKernels[static_cast<std::size_t>(id)] != nullptr; }

void add_pointwise_kernels(KernelTable& table) {
  for (std::size_t id = 0; id < kKernels.size(); ++id) {
    if (kKernels[id] != nullptr) table.set(static_cast<KernelId>(id), kKernels[id]);
  }
}

}  // namespace shardlab
