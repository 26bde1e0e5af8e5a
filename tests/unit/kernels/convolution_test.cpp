// Convolutions and their gradients against one naive loop over the definition, which knows nothing
// of runs, windows and taps.
#include <doctest/doctest.h>

#include <array>

#include "base/error.h"
#include "tests/unit/kernels/fixtures.h"

using namespace shardlab;
using namespace shardlab::test;

namespace {

struct Case {
  std::int64_t batch, groups, in, out;  // channels of one group
  std::array<std::int64_t, 2> input, kernel, stride, padding, dilation;
};

const Case kCases[] = {
    {1, 1, 1, 1, {1, 5}, {1, 3}, {1, 1}, {0, 0}, {1, 1}},
    {2, 1, 2, 3, {4, 5}, {3, 2}, {1, 1}, {0, 0}, {1, 1}},
    {1, 1, 1, 2, {5, 7}, {3, 3}, {2, 3}, {1, 1}, {1, 1}},    // strides differ, padded
    {1, 2, 1, 2, {4, 6}, {2, 2}, {1, 2}, {0, 1}, {2, 1}},    // groups, a dilated dim
    {2, 3, 2, 1, {3, 3}, {3, 3}, {1, 1}, {2, 2}, {1, 1}},    // padding reaches beyond the input
    {1, 1, 1, 1, {2, 2}, {2, 2}, {1, 1}, {3, 0}, {1, 1}},    // whole windows of padding
    {0, 1, 2, 2, {3, 3}, {2, 2}, {1, 1}, {0, 0}, {1, 1}},    // no batch
    {1, 1, 1, 1, {6, 6}, {2, 2}, {1, 1}, {-1, -2}, {1, 1}},  // negative padding crops
    {2, 2, 8, 3, {45, 64}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},  // several blocks of patches
};

std::int64_t output_size(const Case& c, std::size_t dim) {
  const std::int64_t reach = c.dilation[dim] * (c.kernel[dim] - 1) + 1;
  return (c.input[dim] + 2 * c.padding[dim] - reach) / c.stride[dim] + 1;
}

Dims input_shape(const Case& c) { return {c.batch, c.groups * c.in, c.input[0], c.input[1]}; }
Dims weight_shape(const Case& c) { return {c.groups * c.out, c.in, c.kernel[0], c.kernel[1]}; }
Dims result_shape(const Case& c) {
  return {c.batch, c.groups * c.out, output_size(c, 0), output_size(c, 1)};
}

std::int64_t count_of(const Dims& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

// Small integers, so that every order of summation is exact in f32.
std::vector<float> numbers(const Dims& shape, int seed) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count_of(shape); ++i) {
    values.push_back(float((i * 7 + seed) % 11 - 5));
  }
  return values;
}

std::size_t place(const Dims& shape, std::int64_t a, std::int64_t b, std::int64_t c,
                  std::int64_t d) {
  return static_cast<std::size_t>(((a * shape[1] + b) * shape[2] + c) * shape[3] + d);
}

// visit(input place, weight place, output place) for each product of the definition.
template <typename Visit>
void each_product(const Case& c, const Visit& visit) {
  const Dims x = input_shape(c), w = weight_shape(c), y = result_shape(c);
  for (std::int64_t n = 0; n < c.batch; ++n) {
    for (std::int64_t o = 0; o < y[1]; ++o) {
      for (std::int64_t i = 0; i < y[2]; ++i) {
        for (std::int64_t j = 0; j < y[3]; ++j) {
          for (std::int64_t k = 0; k < c.in * c.kernel[0] * c.kernel[1]; ++k) {
            const std::int64_t channel = k / (c.kernel[0] * c.kernel[1]);
            const std::int64_t u = k / c.kernel[1] % c.kernel[0], v = k % c.kernel[1];
            const std::int64_t row = i * c.stride[0] + u * c.dilation[0] - c.padding[0];
            const std::int64_t column = j * c.stride[1] + v * c.dilation[1] - c.padding[1];
            if (row < 0 || row >= x[2] || column < 0 || column >= x[3]) continue;
            visit(place(x, n, o / c.out * c.in + channel, row, column), place(w, o, channel, u, v),
                  place(y, n, o, i, j));
          }
        }
      }
    }
  }
}

std::vector<LocalArg> arguments(const Tensor& a, const Tensor& b, const Case& c) {
  const auto dims = [](const std::array<std::int64_t, 2>& two) { return Dims{two[0], two[1]}; };
  return {a, b, dims(c.stride), dims(c.padding), dims(c.dilation), Scalar(c.groups)};
}

}  // namespace

TEST_CASE("a convolution is the sum of its products") {
  Kernels kernels;
  for (std::size_t at = 0; at < std::size(kCases); ++at) {
    CAPTURE(at);
    const Case& c = kCases[at];
    const auto x = numbers(input_shape(c), 1), w = numbers(weight_shape(c), 3);
    std::vector<float> expected(static_cast<std::size_t>(count_of(result_shape(c))), 0);
    each_product(c,
                 [&](std::size_t i, std::size_t k, std::size_t o) { expected[o] += x[i] * w[k]; });
    const Tensor got =
        kernels.run(KernelId::kConvolution,
                    arguments(kernels.f32(input_shape(c), x), kernels.f32(weight_shape(c), w), c),
                    result_shape(c));
    CHECK(values_of<float>(got) == expected);
  }
}

TEST_CASE("the gradient of the input: each product sends the gradient times the weight back") {
  Kernels kernels;
  for (std::size_t at = 0; at < std::size(kCases); ++at) {
    CAPTURE(at);
    const Case& c = kCases[at];
    const auto w = numbers(weight_shape(c), 3), dy = numbers(result_shape(c), 5);
    std::vector<float> expected(static_cast<std::size_t>(count_of(input_shape(c))), 0);
    each_product(c,
                 [&](std::size_t i, std::size_t k, std::size_t o) { expected[i] += dy[o] * w[k]; });
    const Tensor got =
        kernels.run(KernelId::kConvolutionInputGrad,
                    arguments(kernels.f32(result_shape(c), dy), kernels.f32(weight_shape(c), w), c),
                    input_shape(c));
    CHECK(values_of<float>(got) == expected);
  }
}

TEST_CASE("the gradient of the weight: each product sends the gradient times the input back") {
  Kernels kernels;
  for (std::size_t at = 0; at < std::size(kCases); ++at) {
    CAPTURE(at);
    const Case& c = kCases[at];
    const auto x = numbers(input_shape(c), 1), dy = numbers(result_shape(c), 5);
    std::vector<float> expected(static_cast<std::size_t>(count_of(weight_shape(c))), 0);
    each_product(c,
                 [&](std::size_t i, std::size_t k, std::size_t o) { expected[k] += dy[o] * x[i]; });
    const Tensor got =
        kernels.run(KernelId::kConvolutionWeightGrad,
                    arguments(kernels.f32(input_shape(c), x), kernels.f32(result_shape(c), dy), c),
                    weight_shape(c));
    CHECK(values_of<float>(got) == expected);
  }
}

TEST_CASE("one spatial dim, three, and one number for all dims") {
  Kernels kernels;
  const Tensor line = kernels.f32({1, 1, 4}, {1, 2, 3, 4}), pair = kernels.f32({1, 1, 2}, {1, 10});
  CHECK(values_of<float>(kernels.run(KernelId::kConvolution,
                                     {line, pair, Dims{1}, Dims{0}, Dims{1}, Scalar(1)},
                                     Dims{1, 1, 3})) == std::vector<float>{21, 32, 43});
  const Tensor cube = kernels.f32({1, 1, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Tensor corner = kernels.f32({1, 1, 2, 2, 2}, {1, 0, 0, 0, 0, 0, 0, 100});
  CHECK(values_of<float>(kernels.run(KernelId::kConvolution,
                                     {cube, corner, Dims{1}, Dims{0}, Dims{1}, Scalar(1)},
                                     Dims{1, 1, 1, 1, 1})) == std::vector<float>{801});
  // Padded by one on all sides: the first window holds only element 1, under the last tap.
  const auto padded = values_of<float>(
      kernels.run(KernelId::kConvolution, {cube, corner, Dims{1}, Dims{1}, Dims{1}, Scalar(1)},
                  Dims{1, 1, 3, 3, 3}));
  CHECK(padded.front() == 100);
  CHECK(padded.back() == 8);
}

TEST_CASE("halves convolve in f32 and are rounded once; integers stay integers") {
  Kernels kernels;
  const auto bits = [](float value) { return to_bfloat16(value).bits; };
  const Tensor x =
      kernels.tensor<std::uint16_t>({1, 1, 3}, DType::kBF16, {bits(256), bits(1), bits(1)});
  const Tensor ones =
      kernels.tensor<std::uint16_t>({1, 1, 3}, DType::kBF16, {bits(1), bits(1), bits(1)});
  const Tensor sum =
      kernels.run(KernelId::kConvolution, {x, ones, Dims{1}, Dims{0}, Dims{1}, Scalar(1)},
                  Dims{1, 1, 1}, DType::kBF16);
  CHECK(values_of<std::uint16_t>(sum)[0] == bits(258));
  constexpr std::int64_t kLarge = (std::int64_t{1} << 60) + 1;
  const Tensor integers =
      kernels.run(KernelId::kConvolution,
                  {kernels.i64({1, 1, 1}, {kLarge}), kernels.i64({1, 1, 1}, {3}), Dims{1}, Dims{0},
                   Dims{1}, Scalar(1)},
                  Dims{1, 1, 1}, DType::kI64);
  CHECK(values_of<std::int64_t>(integers)[0] == 3 * kLarge);
}

TEST_CASE("operands of any strides; complex ones are Unsupported and say what to do") {
  Kernels kernels;
  const Tensor lying = kernels.f32({1, 1, 2, 3}, {1, 4, 2, 5, 3, 6});
  const Tensor turned = lying.as_view({{1, 1, 3, 2}, {6, 6, 1, 3}, DType::kF32}, 0);
  const Tensor weight = kernels.f32({1, 1, 1, 2}, {1, 10});
  CHECK(values_of<float>(kernels.run(KernelId::kConvolution,
                                     {turned, weight, Dims{1}, Dims{0}, Dims{1}, Scalar(1)},
                                     Dims{1, 1, 3, 1})) == std::vector<float>{51, 34, 62});
  const Tensor complex = empty(kernels.device(), Dims{1, 1, 1}, DType::kC64);
  try {
    kernels.run(KernelId::kConvolution, {complex, complex, Dims{1}, Dims{0}, Dims{1}, Scalar(1)},
                Dims{1, 1, 1}, DType::kC64);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kUnsupported);
    CHECK(error.find("fix") != nullptr);
  }
}
