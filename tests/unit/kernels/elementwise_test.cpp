#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "tests/unit/kernels/fixtures.h"

using namespace shardlab;
using namespace shardlab::test;

namespace {

std::vector<float> wavy(std::int64_t count) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<float>(std::sin(0.37 * static_cast<double>(i)) * 5));
  }
  return values;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("an element's value does not depend on where it stands, bit for bit") {
  Kernels kernels;
  const Tensor whole = kernels.f32({37}, wavy(37));
  const std::vector<LocalArg> options[] = {{}, {std::string("tanh")}};
  for (const KernelId kernel : {KernelId::kExp, KernelId::kLog, KernelId::kTanh, KernelId::kSigmoid,
                                KernelId::kSin, KernelId::kCos, KernelId::kGelu, KernelId::kSilu,
                                KernelId::kRsqrt, KernelId::kErf, KernelId::kLog1p}) {
    for (const auto& option : options) {
      std::vector<LocalArg> args{whole};
      args.insert(args.end(), option.begin(), option.end());
      const auto all = values_of<float>(kernels.run(kernel, args, Dims{37}));
      for (std::int64_t start = 0; start < 37; ++start) {
        args[0] = whole.narrow(0, start, 37 - start);
        const auto rest = values_of<float>(kernels.run(kernel, args, Dims{37 - start}));
        CAPTURE(static_cast<int>(kernel));
        CAPTURE(start);
        CHECK(same_bits(rest, {all.begin() + start, all.end()}));
        args[0] = whole.narrow(0, start, 1);
        CHECK(same_bits(values_of<float>(kernels.run(kernel, args, Dims{1})), {all[start]}));
      }
    }
  }
}

TEST_CASE("an op may write over its input") {
  Kernels kernels;
  const Tensor a = kernels.f32({3}, {1, 2, 3});
  kernels.run(KernelId::kMul, {a, a}, std::vector<Tensor>{a});
  CHECK(values_of<float>(a) == std::vector<float>{1, 4, 9});
}

TEST_CASE("writing in place leaves a snapshot of the value alone") {
  Kernels kernels;
  const Tensor a = kernels.f32({2}, {1, 2});
  const Tensor before = a.snapshot();
  kernels.run(KernelId::kAdd, {a, before, Scalar(1)}, std::vector<Tensor>{a});
  CHECK(values_of<float>(a) == std::vector<float>{2, 4});
  CHECK(values_of<float>(before) == std::vector<float>{1, 2});
}

TEST_CASE("V-28 operands broadcast, and outputs have any strides") {
  Kernels kernels;
  const Tensor column = kernels.f32({2, 1}, {10, 20}), row = kernels.f32({3}, {1, 2, 3});
  const Tensor out = empty(kernels.device(), TensorMeta{{2, 3}, {1, 2}, DType::kF32});
  kernels.run(KernelId::kAdd, {column, row, Scalar(1)}, std::vector<Tensor>{out});
  CHECK(values_of<float>(out) == std::vector<float>{11, 12, 13, 21, 22, 23});
}

TEST_CASE("V-28 operands that lie across the output's rows give what their elements say") {
  struct Shape {
    Dims out;
    std::vector<std::size_t> order;  // dim d of the operand is dim order[d] of the array in memory
  };
  const Shape shapes[] = {{{70, 130}, {1, 0}},       {{64, 64}, {1, 0}},        {{300, 17}, {1, 0}},
                          {{2, 70, 130}, {0, 2, 1}}, {{70, 3, 130}, {2, 1, 0}}, {{5, 9}, {1, 0}},
                          {{19, 9001}, {1, 0}}};
  Kernels kernels;
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kI64, DType::kU8}) {
    for (const Shape& shape : shapes) {
      const std::size_t dims = shape.out.size();
      Dims lying(dims, 0), stride(dims, 0);
      for (std::size_t d = 0; d < dims; ++d) lying[shape.order[d]] = shape.out[d];
      const Dims steps = contiguous_strides(lying);
      for (std::size_t d = 0; d < dims; ++d) stride[d] = steps[shape.order[d]];
      const std::int64_t count = product(shape.out);
      std::vector<std::int64_t> counted;
      for (std::int64_t i = 0; i < count; ++i) counted.push_back(i * 7 % 101);
      const Tensor numbers =
          kernels.run(KernelId::kConvert, {kernels.i64(lying, counted)}, lying, dtype);
      const Tensor across = numbers.as_view({shape.out, stride, dtype}, 0);
      const Tensor row =
          kernels.i64({shape.out.back()}, {counted.begin(), counted.begin() + shape.out.back()});
      const Tensor sum =
          kernels.run(KernelId::kAdd, {across, row, Scalar(1)}, shape.out, DType::kI64);
      const Tensor wide = kernels.run(KernelId::kConvert, {across}, shape.out, DType::kI64);
      const Tensor twice =
          kernels.run(KernelId::kAdd, {across, across, Scalar(1)}, shape.out, DType::kI64);
      const auto sums = values_of<std::int64_t>(sum), copied = values_of<std::int64_t>(wide);
      const auto doubled = values_of<std::int64_t>(twice);
      const Dims places = contiguous_strides(shape.out);
      bool right = true;
      for (std::int64_t i = 0; i < count; ++i) {
        std::int64_t at = 0;
        for (std::size_t d = 0; d < dims; ++d) at += i / places[d] % shape.out[d] * stride[d];
        const auto here = static_cast<std::size_t>(i);
        const std::int64_t value = counted[static_cast<std::size_t>(at)];
        const std::int64_t beside = counted[static_cast<std::size_t>(i % shape.out.back())];
        right = right && copied[here] == value && sums[here] == value + beside &&
                doubled[here] == 2 * value;
      }
      CAPTURE(to_string(dtype));
      CAPTURE(dims);
      CHECK(right);
    }
  }
}

TEST_CASE("rows longer than a block, converted and constant operands") {
  Kernels kernels;
  std::vector<std::int32_t> counting(5000);
  for (std::int32_t i = 0; i < 5000; ++i) counting[static_cast<std::size_t>(i)] = i;
  const Tensor integers = kernels.tensor({5000}, DType::kI32, counting);
  const Tensor out = kernels.run(KernelId::kMul, {integers, Scalar(0.5)}, Dims{5000});
  const auto values = values_of<float>(out);
  for (std::size_t i = 0; i < values.size(); ++i) REQUIRE(values[i] == 0.5f * float(i));
}

TEST_CASE("empty tensors are no work") {
  Kernels kernels;
  const Tensor none = kernels.f32({0, 3}, {});
  CHECK(values_of<float>(kernels.run(KernelId::kExp, {none}, Dims{0, 3})).empty());
  CHECK(values_of<float>(kernels.run(KernelId::kAdd, {none, Scalar(1)}, Dims{0, 3})).empty());
}

TEST_CASE("dividing integers by zero is refused, floats give infinity") {
  Kernels kernels;
  const Tensor ones = kernels.i64({2}, {1, 1}), zeros = kernels.i64({2}, {3, 0});
  CHECK_THROWS_AS(
      kernels.run(KernelId::kDiv, {ones, zeros, std::string("floor")}, Dims{2}, DType::kI64),
      Error);
  const Tensor quotient = kernels.run(KernelId::kDiv, {ones, zeros}, Dims{2});
  CHECK(std::isinf(values_of<float>(quotient)[1]));
}

TEST_CASE("a dtype without arithmetic is Unsupported") {
  Kernels kernels;
  const Tensor complex = empty(kernels.device(), Dims{2}, DType::kC64);
  try {
    kernels.run(KernelId::kLt, {complex, complex}, Dims{2}, DType::kBool);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kUnsupported);
    CHECK(error.summary() == "device cpu has no kernel of this op for c64");
  }
}
