// Pointwise ops of two or three operands. The operands' common dtype is found first and the loop
// runs in it. Numbers that only scale (alpha, value) take no part in finding it; a scale of one
// gets a loop without the multiplication.
#include "base/error.h"
#include "kernels/convert.h"
#include "kernels/elementwise.h"
#include "kernels/functors.h"
#include "kernels/kernel_table.h"
#include "kernels/strided_loop.h"

namespace shardlab {

namespace {

bool is_one(const LocalArg& argument) {
  const auto* number = std::get_if<Scalar>(&argument);
  return number == nullptr || (number->to_complex() == std::complex<double>(1));
}

// f(self, other, alpha); alpha does not take part in the promotion.
template <typename Plain, typename Scaled>
void scaled_kernel(const KernelCall& call) {
  const std::span<const LocalArg> operands = call.args.first(2);
  const DType dtype = promote_operands(operands);
  if (call.args.size() < 3 || is_one(call.args[2])) {
    return apply_as<Plain, 2, kAllKinds>(dtype, call.outputs[0], operands);
  }
  apply_as<Scaled, 3, kAllKinds>(dtype, call.outputs[0], call.args.first(3));
}

void rsub_kernel(const KernelCall& call) {
  const DType dtype = promote_operands(call.args.first(2));
  const LocalArg operands[] = {call.args[0], call.args[1],
                               call.args.size() < 3 ? LocalArg(Scalar(1)) : call.args[2]};
  apply_as<RsubScaled, 3, kAllKinds>(dtype, call.outputs[0], operands);
}

// As a value of `dtype`.
bool any_zero(const Tensor& tensor, DType dtype) {
  StridedLoop loop(tensor.shape());
  loop.add(tensor.stride(), item_bytes(tensor.dtype()));
  bool found = false;
  const std::byte* data = readable_bytes(tensor);
  loop.run([&](std::span<const std::int64_t> offsets, std::span<const std::int64_t> strides,
               std::int64_t count) {
    for (std::int64_t i = 0; i < count && !found; ++i) {
      std::int64_t value = 0;
      const std::int64_t at = i * strides[0] * item_bytes(tensor.dtype());
      convert_run({&value, 1, dtype}, {data + offsets[0] + at, 1, tensor.dtype()}, 1);
      found = value == 0;
    }
  });
  return found;
}

void refuse_zero_divisor(DType dtype, const LocalArg& divisor) {
  if (!is_integral(dtype)) return;
  const auto* number = std::get_if<Scalar>(&divisor);
  const auto* tensor = std::get_if<Tensor>(&divisor);
  if ((number != nullptr && wraps_to_zero(*number, dtype)) ||
      (tensor != nullptr && any_zero(*tensor, dtype))) {
    fail(ErrorKind::kRuntime, "an integer is divided by zero");
  }
}

template <typename F>
void integer_division_kernel(const KernelCall& call) {
  const std::span<const LocalArg> operands = call.args.first(2);
  const DType dtype = promote_operands(operands);
  if (call.outputs[0].numel() > 0) refuse_zero_divisor(dtype, call.args[1]);
  apply_as<F, 2, kIntegerKind | kRealKind>(dtype, call.outputs[0], operands);
}

void div_kernel(const KernelCall& call) {
  const std::string* rounding = optional_text_arg(call, 2);
  if (rounding == nullptr) return float_kernel<Div, 2, kRealKind | kComplexKind>(call);
  if (*rounding == "floor") return integer_division_kernel<DivFloor>(call);
  if (*rounding == "trunc") return integer_division_kernel<DivTrunc>(call);
  fail(ErrorKind::kValue, "rounding_mode is None, 'trunc' or 'floor', not '{}'", *rounding);
}

// f(self, tensor1, tensor2, value); value does not take part in the promotion.
template <typename F, unsigned kinds>
void scaled_pair_kernel(const KernelCall& call) {
  const std::span<const LocalArg> operands = call.args.first(4);
  apply_as<F, 4, kinds>(promote_operands(operands.first(3)), call.outputs[0], operands);
}

}  // namespace

void add_binary_kernels(KernelTable& table) {
  constexpr unsigned kNoComplex = kIntegerKind | kRealKind;
  constexpr unsigned kFloatKinds = kRealKind | kComplexKind;
  table.set(KernelId::kAdd, scaled_kernel<Add, AddScaled>);
  table.set(KernelId::kSub, scaled_kernel<Sub, SubScaled>);
  table.set(KernelId::kRsub, rsub_kernel);
  table.set(KernelId::kMul, pointwise_kernel<Mul, 2, kAllKinds>);
  table.set(KernelId::kDiv, div_kernel);
  table.set(KernelId::kRemainder, integer_division_kernel<Remainder>);
  table.set(KernelId::kFmod, integer_division_kernel<Fmod>);
  table.set(KernelId::kPow, pointwise_kernel<Pow, 2, kAllKinds>);
  table.set(KernelId::kMaximum, pointwise_kernel<Maximum, 2, kNoComplex>);
  table.set(KernelId::kMinimum, pointwise_kernel<Minimum, 2, kNoComplex>);
  table.set(KernelId::kLerp, pointwise_kernel<Lerp, 3, kFloatKinds>);
  table.set(KernelId::kAddcmul, scaled_pair_kernel<Addcmul, kAllKinds>);
  table.set(KernelId::kAddcdiv, scaled_pair_kernel<Addcdiv, kFloatKinds>);
  table.set(KernelId::kAtan2, float_kernel<Atan2, 2, kRealKind>);
  table.set(KernelId::kLeftShift, pointwise_kernel<LeftShift, 2, kIntegerKind>);
  table.set(KernelId::kRightShift, pointwise_kernel<RightShift, 2, kIntegerKind>);
}

}  // namespace shardlab
