// Propagation: microseconds of one call (Google Benchmark's Time column).
//   first propagation   Propagator::propagate of a call it has not seen; specs interned before
//   decision hit        Propagator::propagate of a known call, key hashing included
// `mesh_dims` dims of size 2; both operands are cut, differently, so that candidates are priced.
#include <benchmark/benchmark.h>

#include <memory>

#include "dispatch/all_ops.h"
#include "propagate/propagator.h"

namespace shardlab {
namespace {

class Calls {
 public:
  static constexpr std::size_t kCount = 512;

  Calls(const char* op, std::size_t mesh_dims) {
    register_all_ops(registry_);
    const MeshLayout* layout =
        arena_.layout({.shape = Dims(mesh_dims, 2), .names = {}, .ranks = {}});
    Placements first(mesh_dims), second(mesh_dims);
    first[0] = Placement::shard(0);
    second[mesh_dims - 1] = Placement::shard(1);
    const OpRow& row = registry_.at(op);
    for (std::size_t i = 0; i < kCount; ++i) {
      const auto size = static_cast<std::int64_t>(64 + i);
      const TensorMeta meta = contiguous_meta(Dims{size, size}, DType::kF32);
      calls_.push_back({&row,
                        bind_arguments(row, {arena_.spec(layout, first, meta),
                                             arena_.spec(layout, second, meta)}),
                        layout});
    }
    forget();
  }
  void forget() { propagator_ = std::make_unique<Propagator>(registry_, PlanOptions{}); }
  const OutputSharding& run(std::size_t index) { return propagator_->propagate(calls_[index]); }

 private:
  Arena arena_;
  OpRegistry registry_;
  std::vector<OpSchema> calls_;
  std::unique_ptr<Propagator> propagator_;
};

void first_propagation(benchmark::State& state, const char* op) {
  Calls calls(op, static_cast<std::size_t>(state.range(0)));
  std::size_t index = 0;
  for (auto _ : state) {
    if (index == Calls::kCount) {
      state.PauseTiming();
      calls.forget();
      index = 0;
      state.ResumeTiming();
    }
    benchmark::DoNotOptimize(calls.run(index++));
  }
}
BENCHMARK_CAPTURE(first_propagation, add, "add.Tensor")
    ->ArgName("mesh_dims")
    ->DenseRange(1, 4)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(first_propagation, mm, "mm")
    ->ArgName("mesh_dims")
    ->DenseRange(1, 4)
    ->Unit(benchmark::kMicrosecond);

void decision_hit(benchmark::State& state) {
  Calls calls("add.Tensor", 2);
  calls.run(0);
  for (auto _ : state) benchmark::DoNotOptimize(calls.run(0));
}
BENCHMARK(decision_hit)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace shardlab

BENCHMARK_MAIN();
