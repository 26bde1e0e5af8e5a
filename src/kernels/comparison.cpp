// Comparisons, logic, bits, and choosing between operands.
#include <vector>

#include "kernels/elementwise.h"
#include "kernels/functors.h"
#include "kernels/kernel_table.h"

namespace shardlab {

namespace {

constexpr unsigned kNoComplex = kIntegerKind | kRealKind;

template <typename F>
void bound_kernel(const KernelCall& call) {
  const DType dtype = promote_operands(call.args.first(2));
  const LocalArg operands[] = {call.args[0], within_range(call.args[1], dtype)};
  apply_as<F, 2, kNoComplex>(dtype, call.outputs[0], operands);
}

// clamp(self, min, max) with either bound None.
void clamp_kernel(const KernelCall& call) {
  const bool low = !std::holds_alternative<std::monostate>(call.args[1]);
  const bool high = call.args.size() > 2 && !std::holds_alternative<std::monostate>(call.args[2]);
  check_invariant(low || high, "clamp has a bound");
  std::vector<LocalArg> operands{call.args[0]};
  if (low) operands.push_back(call.args[1]);
  if (high) operands.push_back(call.args[2]);
  const DType dtype = promote_operands(operands);
  for (LocalArg& operand : operands) operand = within_range(operand, dtype);
  const Tensor& out = call.outputs[0];
  if (low && high) return apply_as<Clamp, 3, kNoComplex>(dtype, out, operands);
  if (low) return apply_as<Maximum, 2, kNoComplex>(dtype, out, operands);
  apply_as<Minimum, 2, kNoComplex>(dtype, out, operands);
}

template <typename T>
void where_block(const KernelCall& call, std::span<const LocalArg> operands, DType dtype) {
  apply_block<Where, bool, T, T>(dtype, call.outputs[0], operands);
}

void choose(const KernelCall& call, std::span<const LocalArg> operands, DType dtype) {
  with_compute_type<kAllKinds>(
      dtype, [&](auto type) { where_block<decltype(type)>(call, operands, dtype); });
}

void where_kernel(const KernelCall& call) {
  choose(call, call.args.first(3), promote_operands(call.args.subspan(1, 2)));
}

// masked_fill(self, mask, value): the value takes self's dtype.
void masked_fill_kernel(const KernelCall& call) {
  const LocalArg operands[] = {call.args[1], call.args[2], call.args[0]};
  choose(call, operands, tensor_arg(call, 0).dtype());
}

}  // namespace

void add_comparison_kernels(KernelTable& table) {
  table.set(KernelId::kEq, pointwise_kernel<Eq, 2, kAllKinds>);
  table.set(KernelId::kNe, pointwise_kernel<Ne, 2, kAllKinds>);
  table.set(KernelId::kLt, pointwise_kernel<Lt, 2, kNoComplex>);
  table.set(KernelId::kLe, pointwise_kernel<Le, 2, kNoComplex>);
  table.set(KernelId::kGt, pointwise_kernel<Gt, 2, kNoComplex>);
  table.set(KernelId::kGe, pointwise_kernel<Ge, 2, kNoComplex>);
  table.set(KernelId::kLogicalAnd, pointwise_kernel<LogicalAnd, 2, kAllKinds>);
  table.set(KernelId::kLogicalOr, pointwise_kernel<LogicalOr, 2, kAllKinds>);
  table.set(KernelId::kLogicalXor, pointwise_kernel<LogicalXor, 2, kAllKinds>);
  table.set(KernelId::kBitwiseAnd, pointwise_kernel<BitwiseAnd, 2, kIntegerKind>);
  table.set(KernelId::kBitwiseOr, pointwise_kernel<BitwiseOr, 2, kIntegerKind>);
  table.set(KernelId::kBitwiseXor, pointwise_kernel<BitwiseXor, 2, kIntegerKind>);
  table.set(KernelId::kClamp, clamp_kernel);
  table.set(KernelId::kClampMin, bound_kernel<Maximum>);
  table.set(KernelId::kClampMax, bound_kernel<Minimum>);
  table.set(KernelId::kWhere, where_kernel);
  table.set(KernelId::kMaskedFill, masked_fill_kernel);
}

}  // namespace shardlab
