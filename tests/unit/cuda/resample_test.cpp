// Upsampling and pooling on device cuda and on the CPU, forward and back: every filter, sizes up
// and down, windows that overlap and reach over the edge, every dtype and layout in memory. The
// results are checked by hand here, and on the CPU by recorded facts.
#include <doctest/doctest.h>

#include "tests/unit/cuda/rows_on_both.h"

using namespace shardlab;
using namespace shardlab::cuda;

namespace {

struct Case {
  KernelId id;
  Dims from, to;
  std::vector<LocalArg> args;  // after the tensor
  bool bytes = false;          // also of u8
};

Values waves(std::int64_t count) {
  Values values;
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<double>((i * i * 7 + i / 3) % 101) - 37);
  }
  return values;
}

void add_filter(std::vector<Case>& cases, KernelId forward, KernelId back, bool aligns) {
  const std::vector<std::pair<Dims, Dims>> sizes{
      {{2, 3, 4, 5}, {2, 3, 7, 3}}, {{1, 2, 6, 6}, {1, 2, 2, 11}}, {{2, 1, 1, 4}, {2, 1, 3, 1}}};
  for (const auto& [in, out] : sizes) {
    for (const bool align : {false, true}) {
      if (align && !aligns) continue;
      const Dims small{in[2], in[3]}, large{out[2], out[3]};
      std::vector<LocalArg> up{large};
      std::vector<LocalArg> down{large, in};
      if (aligns) up.emplace_back(Scalar(align));
      if (aligns) down.emplace_back(Scalar(align));
      cases.push_back({forward, in, out, up, true});
      cases.push_back({back, out, in, down});
    }
  }
}

std::vector<Case> linear_cases() {
  std::vector<Case> cases;
  using enum KernelId;
  add_filter(cases, kUpsampleNearest, kUpsampleNearestBackward, false);
  add_filter(cases, kUpsampleNearestExact, kUpsampleNearestExactBackward, false);
  add_filter(cases, kUpsampleLinear, kUpsampleLinearBackward, true);
  add_filter(cases, kUpsampleCubic, kUpsampleCubicBackward, true);
  add_filter(cases, kUpsampleLinearAa, kUpsampleLinearAaBackward, true);
  add_filter(cases, kUpsampleCubicAa, kUpsampleCubicAaBackward, true);
  add_filter(cases, kUpsampleLanczosAa, kUpsampleLanczosAaBackward, true);
  const Dims picture{2, 3, 5, 6}, pooled{2, 3, 3, 3}, kernel{3, 2}, stride{2, 2}, padding{1, 0};
  for (const bool padded : {false, true}) {
    const std::vector<LocalArg> numbers{kernel, stride, padding, Scalar(false), Scalar(padded)};
    cases.push_back({kAvgPool, picture, pooled, numbers});
    cases.push_back({kAvgPoolBackward, pooled, picture, numbers});
  }
  cases.push_back({kAdaptiveAvgPool, picture, {2, 3, 2, 4}, {Dims{2, 4}}});
  cases.push_back({kAdaptiveAvgPoolBackward, {2, 3, 2, 4}, picture, {}});
  return cases;
}

bool is_backward(KernelId id) {
  return id == KernelId::kAvgPoolBackward || id == KernelId::kAdaptiveAvgPoolBackward;
}

}  // namespace

TEST_CASE("V-29 cuda: upsampling and mean pooling, as on the CPU") {
  for (const Case& tried : linear_cases()) {
    for (const DType dtype : {DType::kU8, DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
      if (dtype == DType::kU8 && !tried.bytes) continue;
      for (const Lies lies : kAllWays) {
        CAPTURE(static_cast<int>(tried.id));
        CAPTURE(to_string(dtype));
        const auto made = [&](Device& device) {
          Values values = waves(product(tried.from));
          if (dtype == DType::kU8) {
            for (double& value : values) value += 37;
          }
          std::vector<LocalArg> args{Given{tried.from, dtype, values, lies}.on(device)};
          // The pooled tensor follows a gradient.
          if (is_backward(tried.id)) args.emplace_back(Given{tried.to, dtype, {1}}.on(device));
          args.insert(args.end(), tried.args.begin(), tried.args.end());
          return args;
        };
        CHECK(difference(tried.id, made, {{tried.to, dtype, {9}, lies}}) == "");
      }
    }
  }
}

TEST_CASE("V-29 cuda: the largest of windows and where it lies, as on the CPU") {
  struct Pool {
    KernelId id;
    Dims to;
    std::vector<LocalArg> args;
  };
  const Dims from{2, 3, 5, 6};
  const std::vector<Pool> pools{
      {KernelId::kMaxPool, {2, 3, 3, 3}, {Dims{3, 2}, Dims{2, 2}, Dims{1, 0}, Dims{1, 1}}},
      {KernelId::kMaxPool, {2, 3, 3, 4}, {Dims{2, 3}, Dims{1, 1}, Dims{0, 1}, Dims{2, 2}}},
      {KernelId::kAdaptiveMaxPool, {2, 3, 2, 4}, {Dims{2, 4}}},
      {KernelId::kFractionalMaxPool, {2, 3, 3, 4}, {Dims{2, 2}, Dims{3, 4}}},
  };
  for (const Pool& pool : pools) {
    for (const DType dtype : {DType::kI32, DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
      if (is_integral(dtype) && pool.id != KernelId::kMaxPool) continue;
      for (const Lies lies : kAllWays) {
        CAPTURE(static_cast<int>(pool.id));
        CAPTURE(to_string(dtype));
        const auto made = [&](Device& device) {
          const Values keys = keys_of(dtype, product(from));
          std::vector<LocalArg> args{Given{from, dtype, keys, lies}.on(device)};
          args.insert(args.end(), pool.args.begin(), pool.args.end());
          if (pool.id == KernelId::kFractionalMaxPool) {
            args.emplace_back(
                Given{{2, 3, 2}, dtype, {0.1, 0.9, 0.5, 0.25, 0.75}, lies}.on(device));
          }
          return args;
        };
        CHECK(difference(pool.id, made,
                         {{pool.to, dtype, {9}, lies}, {pool.to, DType::kI64, {9}, lies}}) == "");
      }
    }
  }
}

TEST_CASE("V-29 cuda: upsampling and pooling by hand, on both devices") {
  struct Known {
    KernelId id;
    Values from;
    std::vector<LocalArg> args;
    std::vector<Values> to;
  };
  const auto pooled = [](std::int64_t kernel, std::int64_t stride, std::int64_t padding) {
    return std::vector<LocalArg>{Dims{kernel}, Dims{stride}, Dims{padding}};
  };
  std::vector<LocalArg> means = pooled(3, 2, 1);
  means.insert(means.end(), {Scalar(false), Scalar(false)});
  std::vector<LocalArg> largest = pooled(3, 2, 1);
  largest.insert(largest.end(), {Dims{1}, Scalar(false)});
  const Known known[] = {
      {KernelId::kAdaptiveAvgPool, {1, 2, 3, 4, 5}, {Dims{3}}, {{1.5, 3, 4.5}}},
      {KernelId::kAdaptiveAvgPoolBackward, {2, 6}, {}, {{1, 1, 3, 3}}},
      {KernelId::kAvgPool, {1, 2, 3, 4, 5}, means, {{1.5, 3, 4.5}}},
      {KernelId::kMaxPool, {1, 9, 9, kNan, 5}, largest, {{9, kNan, kNan}, {1, 3, 3}}},
      {KernelId::kAdaptiveMaxPool, {1, 9, 9, 4, 5}, {Dims{3}}, {{9, 9, 5}, {1, 1, 4}}},
      {KernelId::kUpsampleNearest, {1, 2, 3}, {Dims{5}}, {{1, 1, 2, 2, 3}}},
      {KernelId::kUpsampleLinear, {1, 3}, {Dims{3}, Scalar(true)}, {{1, 2, 3}}},
      {KernelId::kUpsampleLinearBackward,
       {1, 2, 4},
       {Dims{3}, Dims{1, 1, 2}, Scalar(true)},
       {{2, 5}}},
  };
  const auto gpu = make_cuda_device(host_table(), 0, HostFallback::kRefuse);
  const auto cpu = make_cpu_device(cpu_kernel_table());
  for (const Known& tried : known) {
    for (Device* device : {static_cast<Device*>(gpu.get()), cpu.get()}) {
      CAPTURE(static_cast<int>(tried.id));
      CAPTURE(device->type());
      const auto made = [&](Device& here) {
        const Dims shape{1, 1, static_cast<std::int64_t>(tried.from.size())};
        std::vector<LocalArg> args{Given{shape, DType::kF32, tried.from}.on(here)};
        args.insert(args.end(), tried.args.begin(), tried.args.end());
        return args;
      };
      std::vector<Given> outputs;
      for (const Values& values : tried.to) {
        const Dims shape{1, 1, static_cast<std::int64_t>(values.size())};
        outputs.push_back({shape, outputs.empty() ? DType::kF32 : DType::kI64, {7}});
      }
      const std::vector<Values> got = given_by(*device, tried.id, made, outputs);
      for (std::size_t i = 0; i < got.size(); ++i) CHECK(same(got[i], tried.to[i]));
    }
  }
}
