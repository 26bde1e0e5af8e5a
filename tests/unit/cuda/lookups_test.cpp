// Lookups and the scatters of their gradients, on device cuda (with functions of the host in place
// of a GPU) and on the CPU, against loops over elements: whole tables, pieces of tables in one and
// several runs, dims from the end, repeated indices, no indices; losses with weights and ignored
// targets.
#include <doctest/doctest.h>

#include <cmath>

#include "tensor/local_view.h"
#include "tests/unit/cuda/on_both.h"

namespace shardlab::cuda {
namespace {

using MakeArgs = std::function<std::vector<LocalArg>(Device&)>;

void check_kernel(KernelId id, const MakeArgs& args, const std::vector<Given>& outputs,
                  const std::vector<Values>& expected, const LocalView* view = nullptr) {
  const auto gpu = make_cuda_device(host_table(), 0, HostFallback::kRefuse);
  const auto cpu = make_cpu_device(cpu_kernel_table());
  for (Device* device : {static_cast<Device*>(gpu.get()), cpu.get()}) {
    CAPTURE(device->type());
    const std::vector<LocalArg> made = args(*device);
    std::vector<Tensor> results;
    for (const Given& output : outputs) results.push_back(output.on(*device));
    device->run({id, made, results, view, {}});
    for (std::size_t i = 0; i < results.size(); ++i) {
      CHECK(same(read_doubles(results[i]), expected[i]));
    }
  }
}

Values counted_to(std::int64_t count) {
  Values values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<double>(i + 1));
  return values;
}

/// The piece of a dim of `length` that these runs leave.
LocalView rows_of(std::int64_t length, InlineVector<IndexRun, 2> runs) {
  return {.global_shape = {length, 2}, .dims = {DimMap{std::move(runs)}, DimMap{{{0, 2}}}}};
}

const Values kIndices = {4, 0, 0, 6, 3, 1};

}  // namespace

TEST_CASE("V-14 cuda: embedding gives the rows of its indices, any dtype and memory") {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kI64}) {
    for (const Lies lies : kAllWays) {
      for (const DType index : {DType::kI64, DType::kI32}) {
        Values expected;
        for (const double row : kIndices) {
          expected.push_back(2 * row + 1);
          expected.push_back(2 * row + 2);
        }
        check_kernel(KernelId::kEmbedding,
                     [&](Device& device) -> std::vector<LocalArg> {
                       return {Given{{7, 2}, dtype, counted_to(14), lies}.on(device),
                               Given{{3, 2}, index, kIndices, lies}.on(device)};
                     },
                     {{{3, 2, 2}, dtype, {0}}}, {expected});
      }
    }
  }
}

TEST_CASE("K-18 cuda: a lookup in a piece of the rows gives zeros and a set mask for the others") {
  struct Row {
    InlineVector<IndexRun, 2> runs;
    std::vector<std::int64_t> rows;  ///< rows of the piece, in order
  };
  const Row rows[] = {{{{0, 7}}, {0, 1, 2, 3, 4, 5, 6}},
                      {{{3, 3}}, {3, 4, 5}},
                      {{{0, 2}, {4, 1}}, {0, 1, 4}},
                      {{{5, 2}}, {5, 6}}};
  for (const Row& row : rows) {
    Values table, expected, mask;
    for (const std::int64_t at : row.rows) {
      table.push_back(static_cast<double>(10 * at));
      table.push_back(static_cast<double>(10 * at + 1));
    }
    for (const double index : kIndices) {
      const bool here =
          std::count(row.rows.begin(), row.rows.end(), static_cast<std::int64_t>(index)) > 0;
      expected.push_back(here ? 10 * index : 0);
      expected.push_back(here ? 10 * index + 1 : 0);
      mask.push_back(here ? 0 : 1);
    }
    const auto count = static_cast<std::int64_t>(row.rows.size());
    const LocalView view = rows_of(7, row.runs);
    for (const Lies lies : kAllWays) {
      check_kernel(
          KernelId::kEmbeddingMasked,
          [&](Device& device) -> std::vector<LocalArg> {
            return {Given{{count, 2}, DType::kF32, table, lies}.on(device),
                    Given{{2, 3}, DType::kI64, kIndices, lies}.on(device)};
          },
          {{{2, 3, 2}, DType::kF32, {9}}, {{2, 3}, DType::kBool, {0}, lies}}, {expected, mask},
          &view);
    }
  }
}

TEST_CASE("V-14 cuda: index_select and gather take elements along any dim, from the end too") {
  const Values self = counted_to(12);  // [3, 4]
  for (const Lies lies : kAllWays) {
    for (const std::int64_t dim : {0, 1, -1, -2}) {
      const bool rows = dim == 0 || dim == -2;
      const Values chosen = rows ? Values{2, 0, 2} : Values{3, 1};
      Values selected, gathered;
      const std::int64_t m = rows ? 3 : 3, n = rows ? 4 : 2;
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t k = 0; k < n; ++k) {
          const std::int64_t row =
              rows ? static_cast<std::int64_t>(chosen[static_cast<std::size_t>(i)]) : i;
          const std::int64_t column =
              rows ? k : static_cast<std::int64_t>(chosen[static_cast<std::size_t>(k)]);
          selected.push_back(self[static_cast<std::size_t>(row * 4 + column)]);
        }
      }
      CAPTURE(dim);
      check_kernel(
          KernelId::kIndexSelect,
          [&](Device& device) -> std::vector<LocalArg> {
            return {Given{{3, 4}, DType::kF64, self, lies}.on(device), Scalar(dim),
                    Given{{static_cast<std::int64_t>(chosen.size())}, DType::kI64, chosen, lies}.on(
                        device)};
          },
          {{{m, n}, DType::kF64, {0}, lies}}, {selected});
      const Values at{0, 2, 1, 1};  // [2, 2]
      for (std::int64_t i = 0; i < 2; ++i) {
        for (std::int64_t k = 0; k < 2; ++k) {
          const auto picked = static_cast<std::int64_t>(at[static_cast<std::size_t>(2 * i + k)]);
          gathered.push_back(
              self[static_cast<std::size_t>(rows ? picked * 4 + k : i * 4 + picked)]);
        }
      }
      check_kernel(KernelId::kGather,
                   [&](Device& device) -> std::vector<LocalArg> {
                     return {Given{{3, 4}, DType::kF64, self, lies}.on(device), Scalar(dim),
                             Given{{2, 2}, DType::kI64, at, lies}.on(device), Scalar(false)};
                   },
                   {{{2, 2}, DType::kF64, {0}, lies}}, {gathered});
    }
  }
}

TEST_CASE("K-18 cuda: a gather from a piece gives zeros and a set mask where the piece ends") {
  // Columns 1 and 2 of [2, 4]; 0-dim ones have one element.
  const LocalView view{.global_shape = {2, 4}, .dims = {DimMap{{{0, 2}}}, DimMap{{{1, 2}}}}};
  for (const std::int64_t dim : {1, -1}) {
    check_kernel(
        KernelId::kGatherMasked,
        [&](Device& device) -> std::vector<LocalArg> {
          return {Given{{2, 2}, DType::kF32, {11, 12, 21, 22}}.on(device), Scalar(dim),
                  Given{{2, 3}, DType::kI64, {0, 1, 2, 3, 2, 2}}.on(device), Scalar(false)};
        },
        {{{2, 3}, DType::kF32, {9}}, {{2, 3}, DType::kBool, {0}}},
        {{0, 11, 12, 0, 22, 22}, {1, 0, 0, 1, 0, 0}}, &view);
  }
}

TEST_CASE("V-14 cuda: scatter assigns and adds along a dim, in the order of the index") {
  const Values self = {1, 2, 3, 4, 5, 6};  // [2, 3]
  const Values at = {2, 0, 2, 1, 1, 1};    // [2, 3], along dim 1
  const Values src = {10, 20, 30, 40, 50, 60};
  Values assigned = self, added = self, filled = self;
  for (std::size_t i = 0; i < 6; ++i) {
    const std::size_t place = i / 3 * 3 + static_cast<std::size_t>(at[i]);
    assigned[place] = src[i];
    added[place] += src[i];
    filled[place] = -1;
  }
  for (const Lies lies : kAllWays) {
    for (const std::int64_t dim : {1, -1}) {
      const auto args = [&](const LocalArg& number) {
        return [&, number](Device& device) -> std::vector<LocalArg> {
          const bool tensor = std::holds_alternative<std::monostate>(number);
          return {Given{{2, 3}, DType::kF64, self, lies}.on(device), Scalar(dim),
                  Given{{2, 3}, DType::kI64, at, lies}.on(device),
                  tensor ? LocalArg(Given{{2, 3}, DType::kF64, src, lies}.on(device)) : number};
        };
      };
      const std::vector<Given> out{{{2, 3}, DType::kF64, {0}, lies}};
      check_kernel(KernelId::kScatter, args({}), out, {assigned});
      check_kernel(KernelId::kScatterAdd, args({}), out, {added});
      check_kernel(KernelId::kScatter, args(Scalar(-1.0)), out, {filled});
    }
  }
}

TEST_CASE("V-14 cuda: the gradient of a lookup adds up rows, and leaves out the padding") {
  const Values grad = counted_to(12);  // [6, 2]
  for (const std::int64_t padding : {-1, 0}) {
    Values expected(14, 0);
    for (std::size_t i = 0; i < 6; ++i) {
      if (static_cast<std::int64_t>(kIndices[i]) == padding) continue;
      const auto row = static_cast<std::size_t>(kIndices[i]);
      expected[2 * row] += grad[2 * i];
      expected[2 * row + 1] += grad[2 * i + 1];
    }
    for (const Lies lies : kAllWays) {
      check_kernel(KernelId::kEmbeddingDenseBackward,
                   [&](Device& device) -> std::vector<LocalArg> {
                     return {Given{{6, 2}, DType::kF32, grad, lies}.on(device),
                             Given{{6}, DType::kI64, kIndices, lies}.on(device), Scalar(7),
                             Scalar(padding), Scalar(false)};
                   },
                   {{{7, 2}, DType::kF32, {5}, lies}}, {expected});
    }
  }
}

TEST_CASE("V-14 cuda: losses of classes weigh rows and ignore targets, in each reduction") {
  const Values scores = {-0.5, -1.5, -2.5, -0.25,  -0.75, -3,
                         -1,   -2,   -4,   -0.125, -0.5,  -2};  // [4, 3]
  const Values targets = {2, 0, -100, 1}, weights = {1, 2, 0.5};
  for (const bool weighted : {false, true}) {
    Values each;
    double sum = 0, weight_sum = 0;
    for (std::size_t row = 0; row < 4; ++row) {
      if (targets[row] < 0) {
        each.push_back(0);
        continue;
      }
      const auto target = static_cast<std::size_t>(targets[row]);
      const double weight = weighted ? weights[target] : 1;
      each.push_back(-scores[3 * row + target] * weight);
      sum += each.back();
      weight_sum += weight;
    }
    for (const std::int64_t reduction : {0, 1, 2}) {
      CAPTURE(weighted);
      CAPTURE(reduction);
      const Dims shape = reduction == 0 ? Dims{4} : Dims{};
      const Values loss = reduction == 0 ? each : Values{reduction == 1 ? sum / weight_sum : sum};
      check_kernel(KernelId::kNllLossForward,
                   [&](Device& device) -> std::vector<LocalArg> {
                     const LocalArg weight =
                         weighted ? LocalArg(Given{{3}, DType::kF64, weights}.on(device))
                                  : LocalArg(std::monostate{});
                     return {Given{{4, 3}, DType::kF64, scores}.on(device),
                             Given{{4}, DType::kI64, targets}.on(device), weight, Scalar(reduction),
                             Scalar(-100)};
                   },
                   {{shape, DType::kF64, {7}}, {{}, DType::kF64, {7}}},
                   {loss, {reduction == 0 ? 0 : weight_sum}});
    }
  }
}

TEST_CASE("cuda: a piece of more runs than a lookup takes is refused") {
  const auto device = make_cuda_device(host_table(), 0, HostFallback::kRefuse);
  const auto refused = [&](KernelId id, const std::vector<LocalArg>& args,
                           const std::vector<Tensor>& out, const LocalView* view) -> std::string {
    try {
      device->run({id, args, out, view, {}});
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kUnsupported);
      return error.summary();
    }
    return "not refused";
  };
  InlineVector<IndexRun, 2> runs;
  for (std::int64_t i = 0; i < 100; ++i) runs.push_back({2 * i, 1});
  const LocalView view = rows_of(200, runs);
  const std::vector<LocalArg> lookup{Given{{100, 2}, DType::kF32, {1}}.on(*device),
                                     Given{{1}, DType::kI64, {0}}.on(*device)};
  const std::vector<Tensor> both{Given{{1, 2}, DType::kF32, {0}}.on(*device),
                                 Given{{1}, DType::kBool, {0}}.on(*device)};
  CHECK(refused(KernelId::kEmbeddingMasked, lookup, both, &view)
            .starts_with("device cuda takes at most "));
}

TEST_CASE("cuda: a gradient by frequency is shared by the uses of a row") {
  const auto device = make_cuda_device(host_table(), 0, HostFallback::kRefuse);
  const std::vector<LocalArg> args{Given{{3, 2}, DType::kF32, {1, 2, 3, 4, 7, 8}}.on(*device),
                                   Given{{3}, DType::kI64, {0, 0, 2}}.on(*device), Scalar(3),
                                   Scalar(-1), Scalar(true)};
  const Tensor out = Given{{3, 2}, DType::kF32, {9}}.on(*device);
  device->run({KernelId::kEmbeddingDenseBackward, args, {&out, 1}, nullptr, {}});
  CHECK(read_doubles(out) == Values{2, 3, 0, 0, 7, 8});
}

TEST_CASE("V-14 cuda: scatter_reduce by hand, and as on the CPU in every dtype and memory") {
  // Element 0 gets 5 and 7, element 2 gets NaN and 1, element 1 nothing.
  const auto by_hand = [](const char* reduce, bool with_self, const Values& expected) {
    check_kernel(KernelId::kScatterReduce,
                 [&](Device& device) -> std::vector<LocalArg> {
                   return {Given{{3}, DType::kF32, {2, 3, 4}}.on(device),
                           Scalar(0),
                           Given{{4}, DType::kI64, {0, 2, 0, 2}}.on(device),
                           Given{{4}, DType::kF32, {5, kNan, 7, 1}}.on(device),
                           std::string(reduce),
                           Scalar(with_self)};
                 },
                 {{{3}, DType::kF32, {0}}}, {expected});
  };
  by_hand("sum", true, {14, 3, kNan});
  by_hand("sum", false, {12, 3, kNan});
  by_hand("prod", true, {70, 3, kNan});
  by_hand("mean", false, {6, 3, kNan});
  by_hand("amax", false, {7, 3, kNan});
  by_hand("amin", true, {2, 3, kNan});
  for (const DType dtype : kDtypes) {
    if (dtype == DType::kBool) continue;
    for (const Lies lies : kAllWays) {
      for (const char* reduce : {"sum", "prod", "mean", "amax", "amin"}) {
        for (const bool with_self : {true, false}) {
          CAPTURE(to_string(dtype));
          CAPTURE(reduce);
          const auto made = [&](Device& device) -> std::vector<LocalArg> {
            const bool is_unsigned = dtype == DType::kU8;
            const Values values = is_unsigned ? Values{3, 0, 7, 1} : Values{-3, 0.0, 7, -0.0, 5};
            return {Given{{3, 4}, dtype, {2, 0, 5, 1, 9}, lies}.on(device),
                    Scalar(-1),
                    Given{{2, 5}, DType::kI64, {3, 0, 3, 1, 0, 2, 2, 2, 2, 0}, lies}.on(device),
                    Given{{2, 6}, dtype, values, lies}.on(device),
                    std::string(reduce),
                    Scalar(with_self)};
          };
          CHECK(difference(KernelId::kScatterReduce, made, {{{3, 4}, dtype, {9}, lies}}) == "");
        }
      }
    }
  }
}

}  // namespace shardlab::cuda
