#include "backends/nccl/native.h"

#include <doctest/doctest.h>

using namespace shardlab;
using nccl::DataType;
using nccl::native_reduction;
using nccl::RedOp;

TEST_CASE("K-14 nccl: reductions that NCCL does itself, and as what") {
  struct Row {
    DType dtype;
    ReduceOp op;
    DataType type;
    RedOp nccl_op;
    std::int64_t per_element;
  };
  const Row rows[] = {
      {DType::kF32, ReduceOp::kSum, DataType::kFloat32, RedOp::kSum, 1},
      {DType::kBF16, ReduceOp::kAvg, DataType::kBfloat16, RedOp::kAvg, 1},
      {DType::kF64, ReduceOp::kProduct, DataType::kFloat64, RedOp::kProd, 1},
      {DType::kI64, ReduceOp::kMax, DataType::kInt64, RedOp::kMax, 1},
      {DType::kU64, ReduceOp::kMin, DataType::kUint64, RedOp::kMin, 1},
      // A complex sum is the sum of its parts.
      {DType::kC64, ReduceOp::kSum, DataType::kFloat32, RedOp::kSum, 2},
      {DType::kC128, ReduceOp::kAvg, DataType::kFloat64, RedOp::kAvg, 2},
      // Sum of bool is "any", product is "all".
      {DType::kBool, ReduceOp::kSum, DataType::kUint8, RedOp::kMax, 1},
      {DType::kBool, ReduceOp::kProduct, DataType::kUint8, RedOp::kMin, 1},
      {DType::kBool, ReduceOp::kBitOr, DataType::kUint8, RedOp::kMax, 1},
      {DType::kBool, ReduceOp::kBitAnd, DataType::kUint8, RedOp::kMin, 1},
  };
  for (const Row& row : rows) {
    CAPTURE(to_string(row.dtype));
    CAPTURE(to_string(row.op));
    const auto native = native_reduction(row.dtype, row.op);
    REQUIRE(native);
    CHECK(native->type == row.type);
    CHECK(native->op == row.nccl_op);
    CHECK(native->per_element == row.per_element);
    CHECK(!native->stand_in);
  }
}

TEST_CASE("K-14 nccl: extrema of floats are taken of integers, of which NaN is one that wins") {
  struct Row {
    DType dtype;
    DType stand_in;
    DataType type;
  };
  const Row rows[] = {
      {DType::kF8E4M3FN, DType::kI8, DataType::kInt8}, {DType::kF16, DType::kI32, DataType::kInt32},
      {DType::kBF16, DType::kI32, DataType::kInt32},   {DType::kF32, DType::kI32, DataType::kInt32},
      {DType::kF64, DType::kI64, DataType::kInt64},
  };
  for (const Row& row : rows) {
    for (const ReduceOp op : {ReduceOp::kMax, ReduceOp::kMin}) {
      CAPTURE(to_string(row.dtype));
      const auto native = native_reduction(row.dtype, op);
      REQUIRE(native);
      CHECK(native->stand_in == row.stand_in);
      CHECK(native->type == row.type);
      CHECK(native->op == (op == ReduceOp::kMax ? RedOp::kMax : RedOp::kMin));
    }
  }
}

TEST_CASE("reductions that NCCL lacks, or does otherwise") {
  struct Row {
    DType dtype;
    ReduceOp op;
  };
  const Row rows[] = {
      {DType::kI16, ReduceOp::kSum},     {DType::kF8E4M3FN, ReduceOp::kSum},
      {DType::kI32, ReduceOp::kBitXor},  {DType::kU8, ReduceOp::kBitAnd},
      {DType::kBool, ReduceOp::kBitXor}, {DType::kC64, ReduceOp::kProduct},
      {DType::kI16, ReduceOp::kMax},     {DType::kC64, ReduceOp::kMax},
  };
  for (const Row& row : rows) CHECK(!native_reduction(row.dtype, row.op));
}
