// Pointwise ops: which functor, which operands, which dtype.
#include "backends/cuda/kernels.h"

namespace shardlab::cuda {

namespace {

std::span<const LocalArg> first(const KernelCall& call, std::size_t count) {
  return call.args.first(count);
}

// The first N arguments in their promoted dtype.
template <Element op, std::size_t N>
void promoted(Ops& ops, const KernelCall& call) {
  pointwise(ops, op, promote_operands(first(call, N)), call.outputs[0], first(call, N));
}

// The same, but integers and bool become f32 first.
template <Element op, std::size_t N>
void floating(Ops& ops, const KernelCall& call) {
  const DType dtype = float_dtype(promote_operands(first(call, N)));
  pointwise(ops, op, dtype, call.outputs[0], first(call, N));
}

// Takes floats only.
template <Element op, std::size_t N>
void floats(Ops& ops, const KernelCall& call) {
  const DType dtype = promote_operands(first(call, N));
  if (is_integral(dtype)) fail(ErrorKind::kUnsupported, "no kernel for {}", to_string(dtype));
  pointwise(ops, op, dtype, call.outputs[0], first(call, N));
}

bool is_one(const LocalArg& argument) {
  const auto* number = std::get_if<Scalar>(&argument);
  return number == nullptr || number->to_complex() == std::complex<double>(1);
}

// f(self, other, alpha); alpha does not take part in the promotion.
template <Element plain, Element scaled>
void scaled_kernel(Ops& ops, const KernelCall& call) {
  const DType dtype = promote_operands(first(call, 2));
  const bool bare = call.args.size() < 3 || is_one(call.args[2]);
  pointwise(ops, bare ? plain : scaled, dtype, call.outputs[0], first(call, bare ? 2 : 3));
}

void rsub(Ops& ops, const KernelCall& call) {
  const LocalArg operands[] = {call.args[0], call.args[1],
                               call.args.size() < 3 ? LocalArg(Scalar(1)) : call.args[2]};
  pointwise(ops, Element::kRsubScaled, promote_operands(first(call, 2)), call.outputs[0], operands);
}

// As values of `dtype`.
bool has_zero(Ops& ops, const Tensor& tensor, DType dtype) {
  if (tensor.numel() == 0) return false;
  const Tensor divisors = as_contiguous(ops, tensor, dtype);
  const DimMask all(divisors.shape().size(), 1);
  const Tensor whole = fold(ops, Fold::kAll, DType::kI64, RowView(divisors, all));
  std::uint8_t truth = 1;
  ops.device().read(whole, &truth);
  return truth == 0;
}

template <Element op>
void division(Ops& ops, const KernelCall& call) {
  const DType dtype = promote_operands(first(call, 2));
  const auto* number = std::get_if<Scalar>(&call.args[1]);
  const auto* tensor = std::get_if<Tensor>(&call.args[1]);
  const bool divides = is_integral(dtype) && call.outputs[0].numel() > 0;
  if (divides && ((number != nullptr && wraps_to_zero(*number, dtype)) ||
                  (tensor != nullptr && has_zero(ops, *tensor, dtype)))) {
    fail(ErrorKind::kRuntime, "an integer is divided by zero");
  }
  pointwise(ops, op, dtype, call.outputs[0], first(call, 2));
}

void div(Ops& ops, const KernelCall& call) {
  const std::string* rounding = optional_text_arg(call, 2);
  if (rounding == nullptr) return floating<Element::kDiv, 2>(ops, call);
  if (*rounding == "floor") return division<Element::kDivFloor>(ops, call);
  if (*rounding == "trunc") return division<Element::kDivTrunc>(ops, call);
  fail(ErrorKind::kValue, "rounding_mode is None, 'trunc' or 'floor', not '{}'", *rounding);
}

// f(self, tensor1, tensor2, value); value does not take part in the promotion.
template <Element op>
void scaled_pair(Ops& ops, const KernelCall& call) {
  pointwise(ops, op, promote_operands(first(call, 3)), call.outputs[0], first(call, 4));
}

// clamp(self, min, max) with either bound None.
void clamp(Ops& ops, const KernelCall& call) {
  const bool low = !std::holds_alternative<std::monostate>(call.args[1]);
  const bool high = call.args.size() > 2 && !std::holds_alternative<std::monostate>(call.args[2]);
  check_invariant(low || high, "clamp has a bound");
  std::vector<LocalArg> operands{call.args[0]};
  if (low) operands.push_back(call.args[1]);
  if (high) operands.push_back(call.args[2]);
  const DType dtype = promote_operands(operands);
  for (LocalArg& operand : operands) operand = within_range(operand, dtype);
  const Element op = !high ? Element::kMaximum : low ? Element::kClamp : Element::kMinimum;
  pointwise(ops, op, dtype, call.outputs[0], operands);
}

template <Element op>
void bound(Ops& ops, const KernelCall& call) {
  const DType dtype = promote_operands(first(call, 2));
  const LocalArg operands[] = {call.args[0], within_range(call.args[1], dtype)};
  pointwise(ops, op, dtype, call.outputs[0], operands);
}

void where(Ops& ops, const KernelCall& call) {
  pointwise(ops, Element::kWhere, promote_operands(call.args.subspan(1, 2)), call.outputs[0],
            first(call, 3));
}

// masked_fill(self, mask, value): the value takes self's dtype.
void masked_fill(Ops& ops, const KernelCall& call) {
  const LocalArg operands[] = {call.args[1], call.args[2], call.args[0]};
  pointwise(ops, Element::kWhere, tensor_arg(call, 0).dtype(), call.outputs[0], operands);
}

// bool inverts, integers flip their bits.
void bitwise_not(Ops& ops, const KernelCall& call) {
  if (tensor_arg(call, 0).dtype() == DType::kBool) {
    return promoted<Element::kLogicalNot, 1>(ops, call);
  }
  promoted<Element::kBitwiseNot, 1>(ops, call);
}

bool approximates_with_tanh(const KernelCall& call, std::size_t index) {
  const std::string* text = optional_text_arg(call, index);
  if (text == nullptr || *text == "none") return false;
  if (*text == "tanh") return true;
  fail(ErrorKind::kValue, "approximate is 'none' or 'tanh', not '{}'", *text);
}

void gelu(Ops& ops, const KernelCall& call) {
  if (approximates_with_tanh(call, 1)) return floats<Element::kGeluTanh, 1>(ops, call);
  floats<Element::kGelu, 1>(ops, call);
}

void gelu_backward(Ops& ops, const KernelCall& call) {
  if (approximates_with_tanh(call, 2)) return floats<Element::kGeluTanhBackward, 2>(ops, call);
  floats<Element::kGeluBackward, 2>(ops, call);
}

void add_unary(CudaKernelTable& table) {
  table.set(KernelId::kNeg, promoted<Element::kNeg, 1>);
  table.set(KernelId::kAbs, promoted<Element::kAbs, 1>);
  table.set(KernelId::kSign, promoted<Element::kSign, 1>);
  table.set(KernelId::kSgn, promoted<Element::kSgn, 1>);
  table.set(KernelId::kSquare, promoted<Element::kSquare, 1>);
  table.set(KernelId::kReciprocal, floating<Element::kReciprocal, 1>);
  table.set(KernelId::kFloor, promoted<Element::kFloor, 1>);
  table.set(KernelId::kCeil, promoted<Element::kCeil, 1>);
  table.set(KernelId::kRound, promoted<Element::kRound, 1>);
  table.set(KernelId::kTrunc, promoted<Element::kTrunc, 1>);
  table.set(KernelId::kFrac, floats<Element::kFrac, 1>);
  table.set(KernelId::kPositive, promoted<Element::kIdentity, 1>);
  table.set(KernelId::kIsNan, promoted<Element::kIsNan, 1>);
  table.set(KernelId::kIsInf, promoted<Element::kIsInf, 1>);
  table.set(KernelId::kIsFinite, promoted<Element::kIsFinite, 1>);
  table.set(KernelId::kSignbit, promoted<Element::kSignbit, 1>);
  table.set(KernelId::kLogicalNot, promoted<Element::kLogicalNot, 1>);
  table.set(KernelId::kBitwiseNot, bitwise_not);
  table.set(KernelId::kExp, floating<Element::kExp, 1>);
  table.set(KernelId::kExp2, floating<Element::kExp2, 1>);
  table.set(KernelId::kExpm1, floating<Element::kExpm1, 1>);
  table.set(KernelId::kLog, floating<Element::kLog, 1>);
  table.set(KernelId::kLog2, floating<Element::kLog2, 1>);
  table.set(KernelId::kLog10, floating<Element::kLog10, 1>);
  table.set(KernelId::kLog1p, floating<Element::kLog1p, 1>);
  table.set(KernelId::kSqrt, floating<Element::kSqrt, 1>);
  table.set(KernelId::kRsqrt, floating<Element::kRsqrt, 1>);
  table.set(KernelId::kSin, floating<Element::kSin, 1>);
  table.set(KernelId::kCos, floating<Element::kCos, 1>);
  table.set(KernelId::kTan, floating<Element::kTan, 1>);
  table.set(KernelId::kAsin, floating<Element::kAsin, 1>);
  table.set(KernelId::kAcos, floating<Element::kAcos, 1>);
  table.set(KernelId::kAtan, floating<Element::kAtan, 1>);
  table.set(KernelId::kSinh, floating<Element::kSinh, 1>);
  table.set(KernelId::kCosh, floating<Element::kCosh, 1>);
  table.set(KernelId::kTanh, floating<Element::kTanh, 1>);
  table.set(KernelId::kErf, floating<Element::kErf, 1>);
  table.set(KernelId::kErfc, floating<Element::kErfc, 1>);
  table.set(KernelId::kSigmoid, floating<Element::kSigmoid, 1>);
}

void add_binary(CudaKernelTable& table) {
  table.set(KernelId::kAdd, scaled_kernel<Element::kAdd, Element::kAddScaled>);
  table.set(KernelId::kSub, scaled_kernel<Element::kSub, Element::kSubScaled>);
  table.set(KernelId::kRsub, rsub);
  table.set(KernelId::kMul, promoted<Element::kMul, 2>);
  table.set(KernelId::kDiv, div);
  table.set(KernelId::kRemainder, division<Element::kRemainder>);
  table.set(KernelId::kFmod, division<Element::kFmod>);
  table.set(KernelId::kPow, promoted<Element::kPow, 2>);
  table.set(KernelId::kMaximum, promoted<Element::kMaximum, 2>);
  table.set(KernelId::kMinimum, promoted<Element::kMinimum, 2>);
  table.set(KernelId::kAtan2, floating<Element::kAtan2, 2>);
  table.set(KernelId::kLeftShift, promoted<Element::kLeftShift, 2>);
  table.set(KernelId::kRightShift, promoted<Element::kRightShift, 2>);
  table.set(KernelId::kEq, promoted<Element::kEq, 2>);
  table.set(KernelId::kNe, promoted<Element::kNe, 2>);
  table.set(KernelId::kLt, promoted<Element::kLt, 2>);
  table.set(KernelId::kLe, promoted<Element::kLe, 2>);
  table.set(KernelId::kGt, promoted<Element::kGt, 2>);
  table.set(KernelId::kGe, promoted<Element::kGe, 2>);
  table.set(KernelId::kLogicalAnd, promoted<Element::kLogicalAnd, 2>);
  table.set(KernelId::kLogicalOr, promoted<Element::kLogicalOr, 2>);
  table.set(KernelId::kLogicalXor, promoted<Element::kLogicalXor, 2>);
  table.set(KernelId::kBitwiseAnd, promoted<Element::kBitwiseAnd, 2>);
  table.set(KernelId::kBitwiseOr, promoted<Element::kBitwiseOr, 2>);
  table.set(KernelId::kBitwiseXor, promoted<Element::kBitwiseXor, 2>);
  table.set(KernelId::kClamp, clamp);
  table.set(KernelId::kClampMin, bound<Element::kMaximum>);
  table.set(KernelId::kClampMax, bound<Element::kMinimum>);
  table.set(KernelId::kWhere, where);
  table.set(KernelId::kMaskedFill, masked_fill);
  table.set(KernelId::kLerp, floats<Element::kLerp, 3>);
  table.set(KernelId::kAddcmul, scaled_pair<Element::kAddcmul>);
  table.set(KernelId::kAddcdiv, scaled_pair<Element::kAddcdiv>);
}

void add_activations(CudaKernelTable& table) {
  table.set(KernelId::kRelu, promoted<Element::kRelu, 1>);
  table.set(KernelId::kGelu, gelu);
  table.set(KernelId::kGeluBackward, gelu_backward);
  table.set(KernelId::kSilu, floats<Element::kSilu, 1>);
  table.set(KernelId::kSiluBackward, floats<Element::kSiluBackward, 2>);
  table.set(KernelId::kTanhBackward, floats<Element::kTanhBackward, 2>);
  table.set(KernelId::kSigmoidBackward, floats<Element::kSigmoidBackward, 2>);
  table.set(KernelId::kThresholdBackward, promoted<Element::kThresholdBackward, 3>);
  table.set(KernelId::kSoftplus, floats<Element::kSoftplus, 3>);
  table.set(KernelId::kSoftplusBackward, floats<Element::kSoftplusBackward, 4>);
  table.set(KernelId::kLeakyRelu, floats<Element::kLeakyRelu, 2>);
  table.set(KernelId::kLeakyReluBackward, floats<Element::kLeakyReluBackward, 3>);
}

}  // namespace

void add_pointwise_kernels(CudaKernelTable& table) {
  add_unary(table);
  add_binary(table);
  add_activations(table);
}

}  // namespace shardlab::cuda
