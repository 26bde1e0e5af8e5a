// Complex numbers add up as pairs of reals; their products are not left to NCCL. NCCL promises
// nothing about NaN in an extremum of floats, while ours lets it win: so NCCL gets integers of the
// same order, in which NaN is the extreme that wins.
#include "backends/nccl/native.h"

#include <algorithm>
#include <span>
#include <utility>

#include "backends/shared/ordered.h"

namespace shardlab::nccl {

namespace {

constexpr std::pair<DType, DataType> kTypes[] = {
    {DType::kBool, DataType::kUint8},  {DType::kU8, DataType::kUint8},
    {DType::kI8, DataType::kInt8},     {DType::kI32, DataType::kInt32},
    {DType::kI64, DataType::kInt64},   {DType::kU64, DataType::kUint64},
    {DType::kF16, DataType::kFloat16}, {DType::kBF16, DataType::kBfloat16},
    {DType::kF32, DataType::kFloat32}, {DType::kC64, DataType::kFloat32},
    {DType::kF64, DataType::kFloat64}, {DType::kC128, DataType::kFloat64},
};
// Elements are 0 or 1: any is a maximum, all a minimum.
constexpr std::pair<ReduceOp, RedOp> kOfBools[] = {
    {ReduceOp::kSum, RedOp::kMax},   {ReduceOp::kMax, RedOp::kMax},
    {ReduceOp::kBitOr, RedOp::kMax}, {ReduceOp::kProduct, RedOp::kMin},
    {ReduceOp::kMin, RedOp::kMin},   {ReduceOp::kBitAnd, RedOp::kMin},
};
constexpr std::pair<ReduceOp, RedOp> kOfReals[] = {
    {ReduceOp::kSum, RedOp::kSum},      {ReduceOp::kAvg, RedOp::kAvg},
    {ReduceOp::kProduct, RedOp::kProd}, {ReduceOp::kMax, RedOp::kMax},
    {ReduceOp::kMin, RedOp::kMin},
};
constexpr std::span<const std::pair<ReduceOp, RedOp>> kOfComplex(kOfReals, 2);  // sums, means

template <typename Ours, typename Theirs>
std::optional<Theirs> named(std::span<const std::pair<Ours, Theirs>> table, Ours ours) {
  const auto row = std::ranges::find(table, ours, &std::pair<Ours, Theirs>::first);
  return row == table.end() ? std::nullopt : std::optional(row->second);
}

}  // namespace

std::optional<Native> native_reduction(DType dtype, ReduceOp op) {
  std::optional<DType> stand_in;
  if (op == ReduceOp::kMax || op == ReduceOp::kMin) stand_in = backends::integers_for(dtype);
  const auto type = named<DType, DataType>(kTypes, stand_in.value_or(dtype));
  const auto red_op = named<ReduceOp, RedOp>(dtype == DType::kBool ? kOfBools
                                             : is_complex(dtype)   ? kOfComplex
                                                                   : kOfReals,
                                             op);
  if (!type || !red_op) return std::nullopt;
  return Native{*type, *red_op, is_complex(dtype) ? 2 : 1, stand_in};
}

}  // namespace shardlab::nccl
