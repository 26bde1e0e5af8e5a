#include <doctest/doctest.h>

#include <cmath>

#include "kernels/strided_loop.h"
#include "tests/unit/kernels/fixtures.h"

using namespace shardlab;
using namespace shardlab::test;

namespace {

std::vector<float> harmonic(std::int64_t count) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(1.0f / static_cast<float>(i % 97 + 1));
  return values;
}

}  // namespace

TEST_CASE("bf16 accumulates in f32 and rounds once: 4097 times 0.1 is 410") {
  Kernels kernels;
  const std::vector<std::uint16_t> tenths(4097, to_bfloat16(0.1f).bits);
  const Tensor x = kernels.tensor({4097}, DType::kBF16, tenths);
  const Tensor sum = kernels.run(KernelId::kSum, {x}, Dims{}, DType::kBF16);
  CHECK(to_float(BFloat16{values_of<std::uint16_t>(sum)[0]}) == 410.0f);
}

TEST_CASE("a sum does not depend on how the tensor lies in memory, bit for bit") {
  Kernels kernels;
  const Tensor flat = kernels.f32({3, 2500}, harmonic(7500));
  const auto rows = values_of<float>(kernels.run(KernelId::kSum, {flat, Dims{1}}, Dims{3}));
  const Tensor turned = clone_contiguous(flat.as_view({{2500, 3}, {1, 2500}, DType::kF32}, 0));
  const auto columns = values_of<float>(kernels.run(KernelId::kSum, {turned, Dims{0}}, Dims{3}));
  CHECK(rows == columns);
}

TEST_CASE("f32 sums of many elements keep their digits") {
  Kernels kernels;
  const Tensor x = kernels.f32({1000000}, std::vector<float>(1000000, 0.1f));
  const Tensor sum = kernels.run(KernelId::kSum, {x}, Dims{});
  CHECK(values_of<float>(sum)[0] == doctest::Approx(100000.0015).epsilon(5e-7));
}

TEST_CASE("reductions of nothing give the neutral element") {
  Kernels kernels;
  const Tensor none = kernels.f32({2, 0}, {});
  CHECK(values_of<float>(kernels.run(KernelId::kSum, {none, Dims{1}}, Dims{2})) ==
        std::vector<float>{0, 0});
  CHECK(values_of<float>(kernels.run(KernelId::kProd, {none}, Dims{})) == std::vector<float>{1});
  CHECK(std::isnan(values_of<float>(kernels.run(KernelId::kMean, {none}, Dims{}))[0]));
  CHECK(values_of<float>(kernels.run(KernelId::kAmax, {none, Dims{1}}, Dims{2})) ==
        std::vector<float>{-INFINITY, -INFINITY});
  const Tensor no_rows = kernels.f32({0, 3}, {});
  CHECK(values_of<float>(kernels.run(KernelId::kAmax, {no_rows, Dims{1}}, Dims{0})).empty());
}

TEST_CASE("equal maxima: the lowest index; NaN wins") {
  Kernels kernels;
  const Tensor x = kernels.f32({2, 4}, {1, 7, 7, 2, 5, NAN, 9, NAN});
  const Tensor index = kernels.run(KernelId::kArgmax, {x, Scalar(1)}, Dims{2}, DType::kI64);
  CHECK(values_of<std::int64_t>(index) == std::vector<std::int64_t>{1, 1});
}

TEST_CASE("topk names elements that hold its values") {
  Kernels kernels;
  const Tensor x = kernels.f32({6}, {3, 9, 3, 1, 9, 4});
  const Tensor values = empty(kernels.device(), Dims{3}, DType::kF32);
  const Tensor indices = empty(kernels.device(), Dims{3}, DType::kI64);
  kernels.run(KernelId::kTopk, {x, Scalar(3), Scalar(0), Scalar(true), Scalar(true)},
              std::vector<Tensor>{values, indices});
  CHECK(values_of<float>(values) == std::vector<float>{9, 9, 4});
  CHECK(values_of<std::int64_t>(indices) == std::vector<std::int64_t>{1, 4, 5});
}

TEST_CASE(
    "any and all of bools: one byte decides wherever it stands, and every byte but 0 is true") {
  Kernels kernels;
  for (const std::int64_t size : {1, 2, 15, 16, 17, 300}) {
    for (std::int64_t at = 0; at < size; at += std::max<std::int64_t>(1, size / 7)) {
      CAPTURE(size);
      CAPTURE(at);
      // Row 0: one byte is 5, the others 0. Row 1: one byte is 0, the others 1. Then 0 and 1 alone.
      const Tensor x = empty(kernels.device(), Dims{4, size}, DType::kU8);
      auto* bytes = reinterpret_cast<std::uint8_t*>(writable_bytes(x));
      for (std::int64_t i = 0; i < size; ++i) {
        bytes[i] = i == at ? 5 : 0;
        bytes[size + i] = i == at ? 0 : 1;
        bytes[2 * size + i] = 0;
        bytes[3 * size + i] = 1;
      }
      const Tensor bools = x.as_view({x.shape(), x.stride(), DType::kBool}, 0);
      const auto truths = [&](KernelId kernel) {
        const Tensor out = empty(kernels.device(), Dims{4}, DType::kBool);
        kernels.run(kernel, {bools, Scalar(1), Scalar(false)}, std::vector<Tensor>{out});
        return values_of<bool>(out);
      };
      CHECK(truths(KernelId::kAny) == std::vector<bool>{true, size > 1, false, true});
      CHECK(truths(KernelId::kAll) == std::vector<bool>{size == 1, false, false, true});
    }
  }
  const Tensor none = empty(kernels.device(), Dims{2, 0}, DType::kBool);
  const Tensor out = empty(kernels.device(), Dims{2}, DType::kBool);
  kernels.run(KernelId::kAny, {none, Scalar(1), Scalar(false)}, std::vector<Tensor>{out});
  CHECK(values_of<bool>(out) == std::vector<bool>{false, false});
  kernels.run(KernelId::kAll, {none, Scalar(1), Scalar(false)}, std::vector<Tensor>{out});
  CHECK(values_of<bool>(out) == std::vector<bool>{true, true});
}

TEST_CASE("any and all of every dtype over any dims, however elements lie, are those of a loop") {
  const Dims shape{5, 40, 12};
  const std::vector<std::size_t> orders[] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {1, 0, 2}};
  const DType dtypes[] = {DType::kBool, DType::kU8,  DType::kI32, DType::kI64, DType::kF16,
                          DType::kBF16, DType::kF32, DType::kF64, DType::kC64, DType::kC128};
  const Dims reduced[] = {{0}, {1}, {2}, {0, 1}, {1, 2}, {0, 2}, {0, 1, 2}};
  Kernels kernels;
  for (const auto& order : orders) {
    Dims lying, stride(3, 0);
    for (const std::size_t d : order) lying.push_back(shape[d]);
    for (std::size_t i = 0; i < 3; ++i) stride[order[i]] = contiguous_strides(lying)[i];
    for (const std::int64_t mostly : {0, 3}) {
      std::vector<std::int64_t> elements;
      for (std::int64_t i = 0; i < product(shape); ++i) {
        elements.push_back(i * 7919 % 151 == 0 ? 3 - mostly : mostly);
      }
      for (const DType dtype : dtypes) {
        const Tensor memory =
            kernels.run(KernelId::kConvert, {kernels.i64(lying, elements)}, lying, dtype);
        const Tensor x = memory.as_view({shape, stride, dtype}, 0);
        for (const Dims& dims : reduced) {
          Dims kept = shape;
          for (const std::int64_t d : dims) kept[static_cast<std::size_t>(d)] = 1;
          std::vector<bool> any(static_cast<std::size_t>(product(kept)), false);
          std::vector<bool> all(any.size(), true);
          for (std::int64_t i = 0; i < product(shape); ++i) {
            const std::int64_t at[] = {i / 480, i / 12 % 40, i % 12};
            const std::int64_t from = at[0] * stride[0] + at[1] * stride[1] + at[2] * stride[2];
            const auto to = static_cast<std::size_t>(
                (at[0] % kept[0] * kept[1] + at[1] % kept[1]) * kept[2] + at[2] % kept[2]);
            const bool is_true = elements[static_cast<std::size_t>(from)] != 0;
            any[to] = any[to] || is_true;
            all[to] = all[to] && is_true;
          }
          const auto truths = [&](KernelId kernel) {
            return values_of<bool>(
                kernels.run(kernel, {x, dims, Scalar(true)}, kept, DType::kBool));
          };
          CAPTURE(to_string(dtype));
          CAPTURE(product(kept));
          CHECK(truths(KernelId::kAny) == any);
          CHECK(truths(KernelId::kAll) == all);
        }
      }
    }
  }
}
