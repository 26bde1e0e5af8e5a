// Sorting on device cuda: by hand, and against the CPU's kernels, which sort in another way.
#include <doctest/doctest.h>

#include "tests/unit/cuda/rows_on_both.h"

using namespace shardlab;
using namespace shardlab::cuda;

namespace {

// values and places along the last dim.
std::vector<Values> sorted_by_hand(KernelId id, const Values& row,
                                   const std::vector<LocalArg>& numbers, std::int64_t wanted) {
  const auto gpu = make_cuda_device(host_table(), 0, HostFallback::kRefuse);
  const Dims shape{static_cast<std::int64_t>(row.size())};
  const auto made = [&](Device& device) {
    std::vector<LocalArg> args{Given{shape, DType::kF32, row}.on(device)};
    args.insert(args.end(), numbers.begin(), numbers.end());
    return args;
  };
  const Values none{0};
  return given_by(*gpu, id, made,
                  {{Dims{wanted}, DType::kF32, none}, {Dims{wanted}, DType::kI64, none}});
}

}  // namespace

TEST_CASE("V-24 cuda: equal elements keep their order, NaN is the largest of all") {
  const Values row{3, kNan, -0.0, 1, 0.0, kNan, 3};
  const auto up = sorted_by_hand(KernelId::kSort, row, {Scalar(0), Scalar(false)}, 7);
  CHECK(same(up[0], {-0.0, 0.0, 1, 3, 3, kNan, kNan}));
  CHECK(up[1] == Values{2, 4, 3, 0, 6, 1, 5});
  const auto down =
      sorted_by_hand(KernelId::kSortStable, row, {Scalar(true), Scalar(-1), Scalar(true)}, 7);
  CHECK(same(down[0], {kNan, kNan, 3, 3, 1, -0.0, 0.0}));
  CHECK(down[1] == Values{1, 5, 0, 6, 3, 2, 4});
  const auto largest =
      sorted_by_hand(KernelId::kTopk, row, {Scalar(4), Scalar(0), Scalar(true), Scalar(true)}, 4);
  CHECK(same(largest[0], {kNan, kNan, 3, 3}));
  CHECK(largest[1] == Values{1, 5, 0, 6});
  const auto least =
      sorted_by_hand(KernelId::kTopk, row, {Scalar(3), Scalar(0), Scalar(false), Scalar(true)}, 3);
  CHECK(same(least[0], {-0.0, 0.0, 1}));
  CHECK(least[1] == Values{2, 4, 3});
}

TEST_CASE("V-24 cuda: a long row of few different elements is sorted, each of them once") {
  const std::int64_t size = 5000;
  Values row, expected;
  for (std::int64_t i = 0; i < size; ++i) row.push_back(static_cast<double>(i * 7919 % 13));
  // All places of 0 in order, then all of 1: the result of a stable sort of small numbers.
  for (double key = 0; key < 13; ++key) {
    for (std::int64_t i = 0; i < size; ++i) {
      if (row[static_cast<std::size_t>(i)] == key) expected.push_back(static_cast<double>(i));
    }
  }
  CHECK(sorted_by_hand(KernelId::kSort, row, {Scalar(0), Scalar(false)}, size)[1] == expected);
  for (const std::int64_t k : {1, 3, 100, 4999}) {
    const std::vector<LocalArg> numbers{Scalar(k), Scalar(0), Scalar(false), Scalar(true)};
    const Values first(expected.begin(), expected.begin() + k);
    CHECK(sorted_by_hand(KernelId::kTopk, row, numbers, k)[1] == first);
  }
}

TEST_CASE("V-24 cuda: sorts are those of the CPU, in any shape, dtype and memory") {
  for_each_row([](const Row& tried, const Given& x) {
    const std::vector<Given> outputs{{x.shape, x.dtype, {0}, x.lies},
                                     {x.shape, DType::kI64, {0}, x.lies}};
    for (const bool descending : {false, true}) {
      const auto sort = [&](Device& device) {
        return std::vector<LocalArg>{x.on(device), Scalar(tried.dim), Scalar(descending)};
      };
      CHECK(difference(KernelId::kSort, sort, outputs) == "");
      const auto stable = [&](Device& device) {
        return std::vector<LocalArg>{x.on(device), Scalar(true), Scalar(tried.dim),
                                     Scalar(descending)};
      };
      CHECK(difference(KernelId::kSortStable, stable, outputs) == "");
    }
  });
}

TEST_CASE("V-24 cuda: the first k of a row are those of the CPU, whatever k") {
  for_each_row([](const Row& tried, const Given& x) {
    const std::int64_t size = size_along(tried);
    for (const std::int64_t k : {std::int64_t{0}, std::int64_t{1}, size / 3, size / 2, size}) {
      if (k == 0 && tried.shape.empty()) continue;
      const Dims shape = with_size(tried, k);
      const std::vector<Given> outputs{{shape, x.dtype, {0}}, {shape, DType::kI64, {0}}};
      for (const bool largest : {false, true}) {
        const auto topk = [&](Device& device) {
          return std::vector<LocalArg>{x.on(device), Scalar(k), Scalar(tried.dim), Scalar(largest),
                                       Scalar(true)};
        };
        CHECK(difference(KernelId::kTopk, topk, outputs) == "");
      }
    }
  });
}

TEST_CASE("V-24 cuda: k-th values, medians and modes are those of the CPU, with their places") {
  for_each_row([](const Row& tried, const Given& x) {
    const Dims shape = with_size(tried, 1);
    const std::vector<Given> outputs{{shape, x.dtype, {0}}, {shape, DType::kI64, {0}}};
    for (const KernelId id : {KernelId::kMedianDim, KernelId::kNanMedianDim, KernelId::kMode}) {
      const auto along = [&](Device& device) {
        return std::vector<LocalArg>{x.on(device), Scalar(tried.dim), Scalar(true)};
      };
      CHECK(difference(id, along, outputs) == "");
    }
    for (const std::int64_t k : {std::int64_t{1}, (size_along(tried) + 1) / 2, size_along(tried)}) {
      const auto kth = [&](Device& device) {
        return std::vector<LocalArg>{x.on(device), Scalar(k), Scalar(tried.dim), Scalar(true)};
      };
      CHECK(difference(KernelId::kKthvalue, kth, outputs) == "");
    }
    for (const KernelId id : {KernelId::kMedian, KernelId::kNanMedian}) {
      const auto all = [&](Device& device) { return std::vector<LocalArg>{x.on(device)}; };
      CHECK(difference(id, all, {{{}, x.dtype, {0}}}) == "");
    }
  });
}

TEST_CASE("V-24 cuda: medians by hand: one of NaN, one of the numbers") {
  const auto device = make_cuda_device(host_table(), 0, HostFallback::kRefuse);
  const auto made = [](Device& here) {
    return std::vector<LocalArg>{Given{{5}, DType::kF32, {5, kNan, kNan, 1, 3}}.on(here)};
  };
  const std::vector<Given> out{{{}, DType::kF32, {0}}};
  CHECK(same(given_by(*device, KernelId::kMedian, made, out)[0], {kNan}));
  CHECK(given_by(*device, KernelId::kNanMedian, made, out)[0] == Values{3});
}

TEST_CASE("V-24 cuda: rows of NaN alone, and of nothing") {
  const auto rows_of = [](const Values& values) { return Given{{2, 3}, DType::kF32, values}; };
  for (const Given& x :
       {rows_of({kNan}), rows_of({kNan, kNan, 1, 2, kNan, 2}), rows_of({1, kNan, kNan, 5, 4, 4})}) {
    for (const KernelId id : {KernelId::kMedianDim, KernelId::kNanMedianDim, KernelId::kMode}) {
      const auto along = [&](Device& device) {
        return std::vector<LocalArg>{x.on(device), Scalar(1), Scalar(false)};
      };
      CHECK(difference(id, along, {{{2}, DType::kF32, {0}}, {{2}, DType::kI64, {0}}}) == "");
    }
  }
  for (const DType dtype : kDtypes) {
    const auto none = [&](Device& device) {
      return std::vector<LocalArg>{Given{{0, 3}, dtype, {0}}.on(device)};
    };
    CHECK(difference(KernelId::kMedian, none, {{{}, dtype, {0}}}) == "");
    CHECK(difference(KernelId::kNanMedian, none, {{{}, dtype, {0}}}) == "");
    for (const Dims& shape : {Dims{0, 3}, Dims{3, 0}, Dims{0}}) {
      const auto sort = [&](Device& device) {
        return std::vector<LocalArg>{Given{shape, dtype, {0}}.on(device), Scalar(-1),
                                     Scalar(false)};
      };
      CHECK(difference(KernelId::kSort, sort, {{shape, dtype, {0}}, {shape, DType::kI64, {0}}}) ==
            "");
    }
    const auto no_rows = [&](Device& device) {
      return std::vector<LocalArg>{Given{{0, 3}, dtype, {0}}.on(device), Scalar(1), Scalar(false)};
    };
    CHECK(difference(KernelId::kMode, no_rows, {{{0}, dtype, {0}}, {{0}, DType::kI64, {0}}}) == "");
  }
}

TEST_CASE("V-24 cuda: places among boundaries are those of the CPU, on either side of equals") {
  const Values borders{-1, 0, 0, 2, 2, 2, 9};
  for (const bool right : {false, true}) {
    for (const std::int64_t count : {7, 3, 0}) {
      for (const DType dtype : {DType::kI32, DType::kF16, DType::kF64}) {
        const auto numbers = [&](Device& device, LocalArg self) {
          return std::vector<LocalArg>{std::move(self), Given{{count}, dtype, borders}.on(device),
                                       Scalar(false), Scalar(right)};
        };
        for (const Dims& shape : {Dims{}, Dims{2, 6}, Dims{0}}) {
          const auto bucketize = [&](Device& device) {
            return numbers(device, Given{shape, dtype, {2, -1, 5, 0, 100, 1}}.on(device));
          };
          CHECK(difference(KernelId::kBucketize, bucketize, {{shape, DType::kI64, {0}}}) == "");
        }
        const auto one = [&](Device& device) { return numbers(device, Scalar(2)); };
        CHECK(difference(KernelId::kBucketize, one, {{{}, DType::kI32, {0}}}) == "");
      }
    }
  }
}
