// Values by place and by law on device cuda and on the CPU: whole tensors, and pieces of them in
// one and several runs. The laws themselves are tested on the CPU (random_laws_test,
// sequence_test).
#include <doctest/doctest.h>

#include "tensor/local_view.h"
#include "tests/unit/cuda/on_both.h"

using namespace shardlab;
using namespace shardlab::cuda;

namespace {

struct Law {
  KernelId id;
  std::vector<LocalArg> numbers;  // after self, if there is one
  bool in_place;
};

const std::vector<Law>& laws() {
  static const std::vector<Law> all{
      {KernelId::kLinspace, {Scalar(-1.5), Scalar(7.25), Scalar(12)}, false},
      {KernelId::kLogspace, {Scalar(-1.5), Scalar(2.25), Scalar(12), Scalar(3.0)}, false},
      {KernelId::kHannWindow, {Scalar(12), Scalar(true)}, false},
      {KernelId::kHannWindow, {Scalar(12), Scalar(false)}, false},
      {KernelId::kHannWindow, {Scalar(1), Scalar(false)}, false},
      {KernelId::kExponential, {Scalar(0.75)}, true},
      {KernelId::kGeometric, {Scalar(0.3)}, true},
      {KernelId::kCauchy, {Scalar(1.0), Scalar(2.5)}, true},
      {KernelId::kLogNormal, {Scalar(0.5), Scalar(1.25)}, true},
  };
  return all;
}

Values drawn(Device& device, const Law& law, DType dtype, Lies lies, const LocalView& view) {
  const Dims shape{3, 2};
  std::vector<LocalArg> args;
  if (law.in_place) args.emplace_back(Given{shape, dtype, {0}, lies}.on(device));
  args.insert(args.end(), law.numbers.begin(), law.numbers.end());
  std::vector<Tensor> outputs{Given{shape, dtype, {0}, lies}.on(device)};
  device.run({law.id, args, outputs, &view, {.seed = 7, .offset = 1000}});
  return read_doubles(outputs[0]);
}

}  // namespace

TEST_CASE("X-40 cuda: sequences and random laws by place, as on the CPU") {
  const auto gpu = make_cuda_device(host_table(), 0, HostFallback::kRefuse);
  const auto cpu = make_cpu_device(cpu_kernel_table());
  const LocalView views[] = {
      {.global_shape = {3, 2}, .dims = {DimMap{{{0, 3}}}, DimMap{{{0, 2}}}}},
      {.global_shape = {6, 2}, .dims = {DimMap{{{2, 3}}}, DimMap{{{0, 2}}}}},
      {.global_shape = {6, 4}, .dims = {DimMap{{{0, 1}, {3, 2}}}, DimMap{{{1, 1}, {3, 1}}}}},
  };
  for (const Law& law : laws()) {
    for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
      for (const LocalView& view : views) {
        for (const Lies lies : kAllWays) {
          CAPTURE(static_cast<int>(law.id));
          CAPTURE(to_string(dtype));
          const Values expected = drawn(*cpu, law, dtype, lies, view);
          CHECK(same(drawn(*gpu, law, dtype, lies, view), expected));
          CHECK(std::ranges::any_of(expected, [](double x) { return x != 0; }));
        }
      }
    }
  }
}

TEST_CASE("X-40 cuda: a law of Cauchy four times as wide has numbers four times as far apart") {
  const auto gpu = make_cuda_device(host_table(), 0, HostFallback::kRefuse);
  const LocalView whole{.global_shape = {3, 2}, .dims = {DimMap{{{0, 3}}}, DimMap{{{0, 2}}}}};
  const auto of_width = [&](double sigma) {
    const Law law{KernelId::kCauchy, {Scalar(0.0), Scalar(sigma)}, true};
    return drawn(*gpu, law, DType::kF64, Lies::kDense, whole);
  };
  Values narrow = of_width(1);
  for (double& number : narrow) number *= 4;
  CHECK(of_width(4) == narrow);
}

TEST_CASE("X-40 cuda: a law refuses numbers that it does not have") {
  const auto gpu = make_cuda_device(host_table(), 0, HostFallback::kRefuse);
  const LocalView whole{.global_shape = {3, 2}, .dims = {DimMap{{{0, 3}}}, DimMap{{{0, 2}}}}};
  const Law wrong[] = {{KernelId::kExponential, {Scalar(0.0)}, true},
                       {KernelId::kGeometric, {Scalar(1.0)}, true},
                       {KernelId::kCauchy, {Scalar(0.0), Scalar(-1.0)}, true},
                       {KernelId::kLogNormal, {Scalar(0.0), Scalar(0.0)}, true}};
  for (const Law& law : wrong) {
    CHECK_THROWS_AS(drawn(*gpu, law, DType::kF32, Lies::kDense, whole), Error);
  }
}
