// Convolutions on device cuda: by hand, and against the CPU's loops.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/unit/cuda/on_both.h"

using namespace shardlab;
using namespace shardlab::cuda;

namespace {

// Small integers, which are added up exactly in any order; of no period.
Values small_numbers(std::int64_t count, std::int64_t seed) {
  Values numbers;
  for (std::int64_t i = 0; i < count; ++i) {
    numbers.push_back(static_cast<double>((i * 7919 + seed * 31 + i * i % 11) % 5));
  }
  return numbers;
}

// A convolution of pictures [batch, groups * in, spatial]; numbers for each spatial dim.
struct Windows {
  std::int64_t batch, groups, in, out;  // channels of one group
  Dims spatial, kernel, stride, padding, dilation;

  Dims input() const { return with_dims({batch, groups * in}, spatial); }
  Dims weight() const { return with_dims({groups * out, in}, kernel); }
  Dims output() const {
    Dims sizes = spatial;
    for (std::size_t dim = 0; dim < sizes.size(); ++dim) {
      const std::int64_t reach = dilation[dim] * (kernel[dim] - 1) + 1;
      const std::int64_t room = spatial[dim] + 2 * padding[dim] - reach;
      sizes[dim] = room < 0 ? 0 : room / stride[dim] + 1;
    }
    return with_dims({batch, groups * out}, sizes);
  }

 private:
  static Dims with_dims(Dims shape, const Dims& more) {
    for (const std::int64_t size : more) shape.push_back(size);
    return shape;
  }
};

const std::vector<Windows>& all_windows() {
  static const std::vector<Windows> cases{
      {1, 1, 1, 1, {5}, {3}, {1}, {0}, {1}},
      {2, 1, 3, 2, {7}, {3}, {2}, {1}, {1}},
      {3, 2, 2, 3, {9}, {2}, {3}, {2}, {2}},
      {2, 1, 2, 4, {5, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
      {2, 3, 1, 2, {6, 5}, {3, 2}, {2, 1}, {1, 0}, {1, 2}},
      {1, 4, 1, 1, {4, 4}, {1, 1}, {1, 1}, {0, 0}, {1, 1}},
      {2, 2, 2, 2, {8, 7}, {3, 3}, {3, 2}, {2, 1}, {2, 1}},
      {2, 1, 2, 2, {6, 6}, {3, 3}, {1, 1}, {-1, -2}, {1, 1}},
      {2, 2, 1, 3, {3, 4, 5}, {2, 3, 2}, {1, 2, 1}, {1, 0, 1}, {1, 1, 2}},
      {1, 1, 2, 1, {2, 3, 2}, {2, 2, 2}, {2, 2, 2}, {1, 1, 1}, {1, 1, 1}},
      // No samples, no channels of either kind, no pixels, windows that are larger than pictures.
      {0, 1, 2, 2, {4, 4}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
      {2, 2, 0, 2, {4, 4}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
      {2, 1, 2, 0, {4, 4}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
      {2, 1, 2, 3, {0, 4}, {3, 3}, {1, 1}, {2, 1}, {1, 1}},
      {2, 1, 2, 3, {2, 2}, {5, 5}, {1, 1}, {0, 0}, {1, 1}},
  };
  return cases;
}

Given numbers_in(const Dims& shape, DType dtype, std::int64_t seed, Lies lies = Lies::kDense) {
  Values values = small_numbers(std::max<std::int64_t>(product(shape), 1), seed);
  if (dtype == DType::kBool) {
    for (double& value : values) value = value > 3 ? 1 : 0;
  }
  return {shape, dtype, values, lies};
}

std::string difference_of(const Windows& tried, KernelId id, const Given& a, const Given& b,
                          const Given& out) {
  const auto made = [&](Device& device) {
    return std::vector<LocalArg>{a.on(device),  b.on(device),   tried.stride,
                                 tried.padding, tried.dilation, Scalar(tried.groups)};
  };
  return difference(id, made, {out});
}

// Checks the convolution and both gradients.
void check_all(const Windows& tried, DType dtype, Lies lies) {
  const Given input = numbers_in(tried.input(), dtype, 1, lies);
  const Given weight = numbers_in(tried.weight(), dtype, 2, lies);
  const Given output = numbers_in(tried.output(), dtype, 3, lies);
  CHECK(difference_of(tried, KernelId::kConvolution, input, weight, output) == "");
  CHECK(difference_of(tried, KernelId::kConvolutionInputGrad, output, weight, input) == "");
  CHECK(difference_of(tried, KernelId::kConvolutionWeightGrad, input, output, weight) == "");
}

Values result(KernelId id, const Given& a, const Given& b, const Given& out, std::int64_t padding,
              std::int64_t groups, std::int64_t stride = 1) {
  const auto gpu = make_cuda_device(host_table(), 0, HostFallback::kRefuse);
  const auto made = [&](Device& device) {
    return std::vector<LocalArg>{a.on(device),  b.on(device), Dims{stride},
                                 Dims{padding}, Dims{1},      Scalar(groups)};
  };
  return given_by(*gpu, id, made, {out})[0];
}

}  // namespace

TEST_CASE("V-25 cuda: a convolution by hand, each group with its own weights") {
  const Given input{{1, 2, 3}, DType::kF32, {1, 2, 3, 10, 20, 30}};
  const Given weight{{2, 1, 2}, DType::kF32, {1, 100, 2, 3}};
  const Given output{{1, 2, 4}, DType::kF32, {0}};
  // Padded by one zero on either side.
  CHECK(result(KernelId::kConvolution, input, weight, output, 1, 2) ==
        Values{100, 201, 302, 3, 30, 80, 130, 60});
  const Given slopes{{1, 2, 4}, DType::kF32, {1, 0, 0, 0, 0, 1, 0, 2}};
  CHECK(result(KernelId::kConvolutionInputGrad, slopes, weight, input, 1, 2) ==
        Values{100, 0, 0, 2, 3, 4});
  CHECK(result(KernelId::kConvolutionWeightGrad, input, slopes, weight, 1, 2) ==
        Values{0, 1, 10 + 60, 20});
  // In steps of two: windows (0, 1), (2, 3).
  const Given every{{1, 1, 3}, DType::kF32, {1, 2, 3}}, pair{{1, 1, 2}, DType::kF32, {1, 100}};
  const Given twice{{1, 1, 2}, DType::kF32, {1, 10}};
  CHECK(result(KernelId::kConvolution, every, pair, twice, 1, 1, 2) == Values{100, 302});
  CHECK(result(KernelId::kConvolutionInputGrad, twice, pair, every, 1, 1, 2) ==
        Values{100, 10, 1000});
  // Two samples.
  const Given pictures{{2, 1, 2}, DType::kF32, {1, 2, 3, 4}}, ones{{2, 1, 2}, DType::kF32, {1}};
  const Given factor{{1, 1, 1}, DType::kF32, {0}};
  CHECK(result(KernelId::kConvolutionWeightGrad, pictures, ones, factor, 0, 1) == Values{10});
}

TEST_CASE("V-25 cuda: convolutions and their gradients are those of the CPU, in any memory") {
  for (const Windows& tried : all_windows()) {
    for (const DType dtype : kDtypes) {
      for (const Lies lies : kAllWays) {
        CAPTURE(product(tried.input()));
        CAPTURE(product(tried.weight()));
        CAPTURE(to_string(dtype));
        check_all(tried, dtype, lies);
      }
    }
  }
}

TEST_CASE("V-25 cuda: a NaN in a picture reaches the windows that read it") {
  for (Windows tried : all_windows()) {
    Given input = numbers_in(tried.input(), DType::kF32, 1);
    Given output = numbers_in(tried.output(), DType::kF32, 3);
    const Given weight = numbers_in(tried.weight(), DType::kF32, 2);
    for (Given* picture : {&input, &output}) {
      picture->values[picture->values.size() / 2] = kNan;
      picture->values[0] = kInfinity;
    }
    CHECK(difference_of(tried, KernelId::kConvolution, input, weight, output) == "");
    CHECK(difference_of(tried, KernelId::kConvolutionInputGrad, output, weight, input) == "");
  }
}

TEST_CASE("V-25 cuda: an infinite weight is multiplied with the zeros outside, too") {
  const Given input{{1, 1, 3}, DType::kF32, {1, 2, 3}};
  const Given weight{{1, 1, 2}, DType::kF32, {kInfinity, 1}};
  const Given output{{1, 1, 4}, DType::kF32, {1}};
  // The result of torch 2.15 for conv1d in f32, and for the gradient, which reads nothing outside.
  CHECK(same(result(KernelId::kConvolution, input, weight, output, 1, 1),
             {kNan, kInfinity, kInfinity, kInfinity}));
  CHECK(result(KernelId::kConvolutionInputGrad, output, weight, input, 1, 1) ==
        Values{kInfinity, kInfinity, kInfinity});
}
