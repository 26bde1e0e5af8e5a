#include "ops/core/meta.h"

#include <doctest/doctest.h>

#include <complex>
#include <limits>

#include "dispatch/all_ops.h"
#include "schema/op_registry.h"

namespace shardlab {
namespace {

TensorMeta meta_of(Dims shape, Dims stride, DType dtype = DType::kF32) {
  return {std::move(shape), std::move(stride), dtype};
}

DType result_of(DType with_dims, std::optional<DType> zero_dim, std::optional<Scalar> number) {
  const TensorMeta a = contiguous_meta(Dims{2}, with_dims);
  Operands operands{{&a}, {}};
  TensorMeta b;
  if (zero_dim) {
    b = contiguous_meta(Dims{}, *zero_dim);
    operands.tensors.push_back(&b);
  }
  if (number) operands.numbers.push_back(*number);
  return result_dtype(operands);
}

Dims strides_of(Dims shape, std::vector<TensorMeta> metas) {
  std::vector<const TensorMeta*> operands;
  for (const TensorMeta& meta : metas) operands.push_back(&meta);
  return elementwise_strides(shape, operands);
}

}  // namespace

TEST_CASE("dtypes: tensors with dims rule, lower categories give way (kernels README)") {
  CHECK(result_of(DType::kU8, DType::kI64, {}) == DType::kU8);
  CHECK(result_of(DType::kBool, DType::kU8, {}) == DType::kU8);
  CHECK(result_of(DType::kI32, DType::kF64, {}) == DType::kF64);
  CHECK(result_of(DType::kF16, DType::kF64, {}) == DType::kF16);
  CHECK(result_of(DType::kF64, DType::kC64, {}) == DType::kC128);
  CHECK(result_of(DType::kF16, {}, Scalar(std::complex<double>(1, 2))) == DType::kC32);
  CHECK(result_of(DType::kI64, {}, Scalar(2.0)) == DType::kF32);
  CHECK(result_of(DType::kBool, {}, Scalar(2)) == DType::kI64);
  CHECK(result_of(DType::kF32, DType::kBF16, Scalar(2.0)) == DType::kF32);
}

TEST_CASE("elementwise strides follow the operands' order in memory") {
  CHECK(strides_of({3, 5}, {meta_of({3, 5}, {5, 1})}) == Dims{5, 1});
  CHECK(strides_of({3, 5}, {meta_of({3, 5}, {1, 3})}) == Dims{1, 3});
  // The first operand whose strides order two dims decides.
  CHECK(strides_of({3, 5}, {meta_of({3, 5}, {1, 3}), meta_of({3, 5}, {5, 1})}) == Dims{1, 3});
  CHECK(strides_of({3, 5}, {meta_of({5}, {1}), meta_of({3, 5}, {1, 3})}) == Dims{1, 3});
  CHECK(strides_of({2, 3, 4}, {meta_of({2, 3, 4}, {12, 1, 3})}) == Dims{12, 1, 3});
}

TEST_CASE("an in-place result keeps its target's metadata, or is refused") {
  OpRegistry registry;
  register_all_ops(registry);
  const OpRow& row = registry.at("add_.Tensor");
  const TensorMeta integers = contiguous_meta(Dims{4}, DType::kI32);
  const TensorMeta floats = contiguous_meta(Dims{4}, DType::kF32);
  const TensorMeta matrix = contiguous_meta(Dims{3, 4}, DType::kF32);
  const Arguments args = {Argument(), Argument(), 1};
  CHECK(infer_metas(row, args, {&floats, &integers})[0].meta == floats);
  CHECK_THROWS_AS(infer_metas(row, args, {&integers, &floats}), Error);
  CHECK_THROWS_AS(infer_metas(row, args, {&floats, &matrix}), Error);
}

TEST_CASE("an out= tensor keeps its dtype, and its strides when its shape is right") {
  OpRegistry registry;
  register_all_ops(registry);
  const OpRow& row = registry.at("exp.out");
  const TensorMeta self = contiguous_meta(Dims{3, 5}, DType::kF32);
  const TensorMeta transposed = meta_of({3, 5}, {1, 3}, DType::kF64);
  const TensorMeta wrong = contiguous_meta(Dims{2}, DType::kF32);
  const Arguments args = {Argument(), Argument()};
  CHECK(infer_metas(row, args, {&self, &transposed})[0].meta == transposed);
  CHECK(infer_metas(row, args, {&self, &wrong})[0].meta == self);
}

TEST_CASE("numbers of pooling windows that no int holds are refused, and not multiplied") {
  const OpRow& row = all_ops().at("aten::max_pool3d_with_indices");
  const TensorMeta image = contiguous_meta(Dims{1, 2, 3, 6, 5}, DType::kF32);
  const auto pooled = [&](Dims kernel, Dims stride, Dims padding, Dims dilation) {
    const Arguments args{Argument(), kernel, stride, padding, dilation, true};
    return infer_metas(row, args, {&image})[0].meta.shape;
  };
  const Dims three{3, 3, 3}, two{2, 2, 2}, one{1, 1, 1}, none{0, 0, 0};
  CHECK(pooled(three, two, one, one) == Dims{1, 2, 2, 4, 3});
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t huge : {kMost, kMost / 2 + 2, std::int64_t{1} << 31}) {
    const Dims beyond{1, huge, 1};
    CAPTURE(huge);
    CHECK_THROWS_AS(pooled(three, two, beyond, one), Error);
    CHECK_THROWS_AS(pooled(three, two, none, beyond), Error);
    CHECK_THROWS_AS(pooled(three, beyond, none, one), Error);
    CHECK_THROWS_AS(pooled(beyond, two, none, one), Error);
  }
}

}  // namespace shardlab
