// Complex numbers add up as pairs of reals; their products are not left to NCCL. NCCL promises
// nothing about NaN in an extremum of floats, while ours lets it win: so NCCL gets integers of the
// same order, in which NaN is the extreme that wins.
#include "backends/nccl/native.h"

#include "backends/shared/ordered.h"

namespace shardlab::nccl {

namespace {

std::optional<DataType> type_of(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kU8:
      return DataType::kUint8;
    case DType::kI8:
      return DataType::kInt8;
    case DType::kI32:
      return DataType::kInt32;
    case DType::kI64:
      return DataType::kInt64;
    case DType::kU64:
      return DataType::kUint64;
    case DType::kF16:
      return DataType::kFloat16;
    case DType::kBF16:
      return DataType::kBfloat16;
    case DType::kF32:
    case DType::kC64:
      return DataType::kFloat32;
    case DType::kF64:
    case DType::kC128:
      return DataType::kFloat64;
    case DType::kI16:
    case DType::kF8E4M3FN:
    case DType::kC32:
    case DType::kBC32:
      return std::nullopt;
  }
  return std::nullopt;
}

// Elements are 0 or 1: any is a maximum, all a minimum.
std::optional<RedOp> bool_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kMax:
    case ReduceOp::kBitOr:
      return RedOp::kMax;
    case ReduceOp::kProduct:
    case ReduceOp::kMin:
    case ReduceOp::kBitAnd:
      return RedOp::kMin;
    case ReduceOp::kAvg:
    case ReduceOp::kBitXor:
      return std::nullopt;
  }
  return std::nullopt;
}

std::optional<RedOp> number_op(DType dtype, ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return RedOp::kSum;
    case ReduceOp::kAvg:
      return RedOp::kAvg;
    case ReduceOp::kProduct:
      if (is_complex(dtype)) return std::nullopt;
      return RedOp::kProd;
    case ReduceOp::kMax:
    case ReduceOp::kMin:
      if (is_complex(dtype)) return std::nullopt;
      return op == ReduceOp::kMax ? RedOp::kMax : RedOp::kMin;
    case ReduceOp::kBitAnd:
    case ReduceOp::kBitOr:
    case ReduceOp::kBitXor:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Native> native_reduction(DType dtype, ReduceOp op) {
  std::optional<DType> stand_in;
  if (op == ReduceOp::kMax || op == ReduceOp::kMin) stand_in = backends::integers_for(dtype);
  const std::optional<DataType> type = type_of(stand_in.value_or(dtype));
  const std::optional<RedOp> red_op = dtype == DType::kBool ? bool_op(op) : number_op(dtype, op);
  if (!type || !red_op) return std::nullopt;
  return Native{*type, *red_op, is_complex(dtype) ? 2 : 1, stand_in};
}

}  // namespace shardlab::nccl
