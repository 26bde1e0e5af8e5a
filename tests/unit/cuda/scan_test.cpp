// Kernels along rows on device cuda: by hand, and against the CPU's kernels.
#include <doctest/doctest.h>

#include "tests/unit/cuda/rows_on_both.h"

using namespace shardlab;
using namespace shardlab::cuda;

namespace {

// Values along a row, and for extrema their indices.
std::vector<Values> along(KernelId id, const Values& row, bool with_places) {
  const auto gpu = make_cuda_device(host_table(), 0, HostFallback::kRefuse);
  const Dims shape{static_cast<std::int64_t>(row.size())};
  const auto made = [&](Device& device) {
    return std::vector<LocalArg>{Given{shape, DType::kF64, row}.on(device), Scalar(0)};
  };
  std::vector<Given> outputs{{shape, DType::kF64, {0}}};
  if (with_places) outputs.push_back({shape, DType::kI64, {0}});
  return given_by(*gpu, id, made, outputs);
}

bool is_float(DType dtype) { return dtype != DType::kBool && !is_integral(dtype); }

}  // namespace

TEST_CASE("V-24 cuda: running products and sums of exponentials, by hand") {
  CHECK(along(KernelId::kCumprod, {2, -3, 0.5, 0, 7}, false)[0] == Values{2, -6, -3, 0, 0});
  const Values logs = along(KernelId::kLogcumsumexp, {-kInfinity, 0, 0, 1000, kInfinity}, false)[0];
  CHECK(logs[0] == -kInfinity);
  CHECK(logs[1] == 0);
  CHECK(logs[2] == doctest::Approx(0.6931471805599453));
  CHECK(logs[3] == 1000);
  CHECK(logs[4] == kInfinity);
  CHECK(same(along(KernelId::kLogcumsumexp, {1, kNan, 2}, false)[0], {1, kNan, kNan}));
}

TEST_CASE("V-24 cuda: running extrema tell the latest place, and NaN stays") {
  const Values row{1, 3, 3, 2, kNan, 5, kNan};
  const auto most = along(KernelId::kCummax, row, true);
  CHECK(same(most[0], {1, 3, 3, 3, kNan, kNan, kNan}));
  CHECK(most[1] == Values{0, 1, 2, 2, 4, 4, 6});
  const auto least = along(KernelId::kCummin, {2, 2, -1, 0, -1}, true);
  CHECK(least[0] == Values{2, 2, -1, -1, -1});
  CHECK(least[1] == Values{0, 1, 2, 2, 4});
}

TEST_CASE(
    "V-24 cuda: running values along rows are those of the CPU, in any shape, dtype and memory") {
  for_each_row([](const Row& tried, const Given& x) {
    const auto made = [&](Device& device) {
      return std::vector<LocalArg>{x.on(device), Scalar(tried.dim)};
    };
    const DType sums = is_float(x.dtype) ? x.dtype : DType::kI64;
    const std::vector<Given> running{{x.shape, sums, {0}, x.lies}};
    CHECK(difference(KernelId::kCumsum, made, running) == "");
    CHECK(difference(KernelId::kCumprod, made, running) == "");
    if (is_float(x.dtype)) CHECK(difference(KernelId::kLogcumsumexp, made, running) == "");
    const std::vector<Given> extrema{{x.shape, x.dtype, {0}, x.lies},
                                     {x.shape, DType::kI64, {0}, x.lies}};
    CHECK(difference(KernelId::kCummax, made, extrema) == "");
    CHECK(difference(KernelId::kCummin, made, extrema) == "");
  });
}
