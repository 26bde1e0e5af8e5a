// Propagation (Google Benchmark's Time column).
//   first propagation   Propagator::propagate of a call it has not seen; specs interned before.
//                       Goals on 1 to 4 mesh dims: 3, 8, 40, 200 us for pointwise ops, reductions
//                       and products; on 4: 1 ms with up to 4 tensors, 5 ms with 20
//   strided_*           the same, where every second mesh dim has a strided shard that a view left
//                       and the others plain ones, so that prices take searches for plans
//   decision hit        Propagator::propagate of a known call, key hashing included
//   registering         all rows into an empty registry. Goal: 3 ms
//   replay              10,000 calls of a LLaMA-like model, 80 blocks of which each repeats the
//                       first, on an [8, 8] mesh. Goal: 60 ms by a propagator that knows nothing
//                       (cold), 6 ms by one that has seen them (warm)
// `mesh_dims` dims of size 2; operands are cut, each differently, so that candidates are priced.
#include <benchmark/benchmark.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "dispatch/all_ops.h"
#include "propagate/propagator.h"
#include "schema/binder.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"

namespace shardlab {
namespace {

// The arguments of one call of an op whose tensors are `size` long along each dim. `cut(shape)` is
// a tensor that is cut in another way than the one before.
using Cut = std::function<Argument(const Dims& shape)>;
using MakeCall = Arguments (*)(std::int64_t size, const Cut& cut);

Arguments two_matrices(std::int64_t n, const Cut& cut) { return {cut({n, n}), cut({n, n})}; }
Arguments all_dims(std::int64_t n, const Cut& cut) {
  return {cut({n, n, n}), ArgumentList{1}, true};
}
Arguments three_alike(std::int64_t n, const Cut& cut) {
  return {cut({n, n, 8, 8}), cut({n, n, 8, 8}), cut({n, n, 8, 8})};
}
Arguments bias_and_matrices(std::int64_t n, const Cut& cut) {
  return {cut({n}), cut({n, n}), cut({n, n})};
}
Arguments normalized(std::int64_t n, const Cut& cut) {
  return {cut({n, n, n}), ArgumentList{n}, cut({n}), cut({n}), 1e-5};
}
Arguments image(std::int64_t n, const Cut& cut) {
  return {cut({16, 16, n, n}), cut({16, 16, 3, 3}), cut({16}), ArgumentList{1, 1},
          ArgumentList{1, 1},  ArgumentList{1, 1},  false,     ArgumentList{0, 0},
          std::int64_t{1}};
}
Arguments heads(std::int64_t n, const Cut& cut) {
  return {cut({16, 16, n, 64}), cut({16, 16, n, 64}), cut({16, 16, n, 64}), 0.0, true};
}
Arguments indexed(std::int64_t n, const Cut& cut) {
  return {cut({n, n, n}), std::int64_t{1}, cut({n, n, n}), cut({n, n, n})};
}
Arguments twenty_joined(std::int64_t n, const Cut& cut) {
  ArgumentList list;
  for (int i = 0; i < 20; ++i) list.push_back(cut({n, n, n}));
  return {std::move(list), std::int64_t{1}};
}

enum class Cuts : std::uint8_t { kPlain, kStrided };

class Calls {
 public:
  static constexpr std::size_t kCount = 64;

  Calls(const char* op, MakeCall make, std::size_t mesh_dims, Cuts cuts) {
    register_all_ops(registry_);
    const MeshLayout* layout =
        arena_.layout({.shape = Dims(mesh_dims, 2), .names = {}, .ranks = {}});
    const OpRow& row = registry_.at(op);
    std::size_t tensors = 0;
    const Cut cut = [&](const Dims& shape) -> Argument {
      Placements placements(mesh_dims);
      const std::size_t number = tensors++;
      const auto dims = static_cast<std::int64_t>(shape.size());
      const std::int64_t dim = static_cast<std::int64_t>(number) % dims;
      placements[number % mesh_dims] = Placement::shard(dim);
      for (std::size_t i = 0; cuts == Cuts::kStrided && i < mesh_dims; ++i) {
        const auto next = static_cast<std::int64_t>(number + i) % dims;
        placements[(number + i) % mesh_dims] =
            i % 2 == 0 ? Placement::strided_shard(next, 2) : Placement::shard(next);
      }
      const bool index = row.name() == "aten::scatter.src" && number == 1;
      return arena_.spec(layout, placements, default_order(placements),
                         contiguous_meta(shape, index ? DType::kI64 : DType::kF32),
                         StridedShards::kPieces);
    };
    for (std::size_t i = 0; i < kCount; ++i) {
      tensors = 0;
      calls_.push_back(
          {&row, bind_arguments(row, make(static_cast<std::int64_t>(64 + i), cut)), layout});
    }
    forget();
  }
  void forget() { propagator_ = std::make_unique<Propagator>(registry_, PlanOptions{}); }
  InUse<OutputSharding> run(std::size_t index) { return propagator_->propagate(calls_[index]); }

 private:
  Arena arena_;
  OpRegistry registry_;
  std::vector<OpSchema> calls_;
  std::unique_ptr<Propagator> propagator_;
};

void first_propagation(benchmark::State& state, const char* op, MakeCall make,
                       Cuts cuts = Cuts::kPlain) {
  Calls calls(op, make, static_cast<std::size_t>(state.range(0)), cuts);
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
#define FIRST(name, op, ...)                                  \
  BENCHMARK_CAPTURE(first_propagation, name, op, __VA_ARGS__) \
      ->ArgName("mesh_dims")                                  \
      ->DenseRange(1, 4)                                      \
      ->Unit(benchmark::kMicrosecond)
FIRST(add, "add.Tensor", two_matrices);
FIRST(sum, "sum.dim_IntList", all_dims);
FIRST(mm, "mm", two_matrices);
FIRST(addcmul, "addcmul", three_alike);
FIRST(addmm, "addmm", bias_and_matrices);
FIRST(layer_norm, "native_layer_norm", normalized);
FIRST(convolution, "convolution", image);
FIRST(attention, "_scaled_dot_product_flash_attention", heads);
FIRST(scatter, "scatter.src", indexed);
FIRST(cat_20, "cat", twenty_joined);
FIRST(strided_add, "add.Tensor", two_matrices, Cuts::kStrided);
FIRST(strided_mm, "mm", two_matrices, Cuts::kStrided);
FIRST(strided_addcmul, "addcmul", three_alike, Cuts::kStrided);
FIRST(strided_norm, "native_layer_norm", normalized, Cuts::kStrided);
FIRST(strided_cat_20, "cat", twenty_joined, Cuts::kStrided);
FIRST(strided_conv, "convolution", image, Cuts::kStrided);
FIRST(strided_scatter, "scatter.src", indexed, Cuts::kStrided);
FIRST(strided_addmm, "addmm", bias_and_matrices, Cuts::kStrided);
FIRST(strided_attention, "_scaled_dot_product_flash_attention", heads, Cuts::kStrided);

void decision_hit(benchmark::State& state) {
  Calls calls("add.Tensor", two_matrices, 2, Cuts::kPlain);
  calls.run(0);
  for (auto _ : state) benchmark::DoNotOptimize(calls.run(0));
}
BENCHMARK(decision_hit)->Unit(benchmark::kMicrosecond);

void registering(benchmark::State& state) {
  for (auto _ : state) {
    auto registry = std::make_unique<OpRegistry>();
    register_all_ops(*registry);
    benchmark::DoNotOptimize(registry->find("add.Tensor"));
    state.PauseTiming();
    registry.reset();
    state.ResumeTiming();
  }
}
BENCHMARK(registering)->Unit(benchmark::kMillisecond);

// A block of the model, forward and the products of backward, as calls: batch and heads of 8 each,
// cut along the two mesh dims.
class Model {
 public:
  static constexpr std::size_t kCalls = 10'000;

  Model() {
    register_all_ops(registry_);
    layout_ = arena_.layout({.shape = {8, 8}, .names = {}, .ranks = {}});
    propagator_ = std::make_unique<Propagator>(registry_, PlanOptions{});
    const Spec* x = tensor({8, 2048, 4096}, Placement::shard(0), Placement::replicate());
    while (calls_.size() < kCalls) block(x);
    calls_.resize(kCalls);
  }
  void run(Propagator& propagator) const {
    for (const OpSchema& call : calls_) benchmark::DoNotOptimize(&*propagator.propagate(call));
  }
  std::unique_ptr<Propagator> fresh() const {
    return std::make_unique<Propagator>(registry_, PlanOptions{});
  }

 private:
  using Spec = DTensorSpec;

  const Spec* tensor(const Dims& shape, const Placement& first, const Placement& second) {
    return arena_.spec(layout_, {first, second}, contiguous_meta(shape, DType::kF32));
  }
  const Spec* call(const char* op, Arguments args) {
    const OpRow& row = registry_.at(op);
    calls_.push_back({&row, bind_arguments(row, std::move(args)), layout_});
    return propagator_->propagate(calls_.back())->outputs.at(0);
  }
  const Spec* view(const Spec* x, const Dims& shape) {
    ArgumentList sizes;
    for (const std::int64_t size : shape) sizes.push_back(size);
    return call("view", {x, std::move(sizes)});
  }
  const Spec* norm(const Spec* x) {
    const Spec* scale = tensor({4096}, Placement::replicate(), Placement::replicate());
    const Spec* mean =
        call("mean.dim", {call("pow.Tensor_Scalar", {x, 2}), ArgumentList{-1}, true});
    const Spec* root = call("rsqrt", {call("add.Scalar", {mean, 1e-5})});
    return call("mul.Tensor", {call("mul.Tensor", {x, root}), scale});
  }
  // x of [8, 2048, in] times [in, out], and both products of its backward.
  const Spec* linear(const Spec* x, std::int64_t in, std::int64_t out, const Placement& cut) {
    const Spec* weight = tensor({out, in}, Placement::replicate(), cut);
    const Spec* rows = view(x, {16384, in});
    const Spec* result = call("mm", {rows, call("t", {weight})});
    const Spec* gradient =
        tensor({16384, out}, Placement::shard(0),
               cut == Placement::shard(0) ? Placement::shard(1) : Placement::replicate());
    call("mm", {gradient, weight});
    call("mm", {call("t", {gradient}), rows});
    return view(result, {8, 2048, out});
  }
  const Spec* turned(const Spec* x) {
    const Spec* by_head =
        call("transpose.int", {view(x, {8, 2048, 32, 128}), std::int64_t{1}, std::int64_t{2}});
    const Spec* table = tensor({2048, 128}, Placement::replicate(), Placement::replicate());
    const Spec* half = call("neg", {call("slice.Tensor", {by_head, 3, 64, 128, 1})});
    const Spec* other =
        call("cat", {ArgumentList{half, call("slice.Tensor", {by_head, 3, 0, 64, 1})}, 3});
    return call("add.Tensor",
                {call("mul.Tensor", {by_head, table}), call("mul.Tensor", {other, table})});
  }
  void block(const Spec* x) {
    const Spec* inner = norm(x);
    const Spec* q = turned(linear(inner, 4096, 4096, Placement::shard(0)));
    const Spec* k = turned(linear(inner, 4096, 4096, Placement::shard(0)));
    const Spec* v = turned(linear(inner, 4096, 4096, Placement::shard(0)));
    const Spec* heads = call("_scaled_dot_product_flash_attention", {q, k, v, 0.0, true});
    const Spec* joined =
        view(call("transpose.int", {heads, std::int64_t{1}, std::int64_t{2}}), {8, 2048, 4096});
    const Spec* after = call("add.Tensor", {x, linear(joined, 4096, 4096, Placement::shard(1))});
    const Spec* wide = norm(after);
    const Spec* gate = linear(wide, 4096, 14336, Placement::shard(0));
    const Spec* up = linear(wide, 4096, 14336, Placement::shard(0));
    const Spec* hidden = call("mul.Tensor", {call("silu", {gate}), up});
    call("silu_backward", {hidden, gate});
    call("add.Tensor", {after, linear(hidden, 14336, 4096, Placement::shard(1))});
  }

  Arena arena_;
  OpRegistry registry_;
  const MeshLayout* layout_ = nullptr;
  std::unique_ptr<Propagator> propagator_;
  std::vector<OpSchema> calls_;
};

void replay_cold(benchmark::State& state) {
  const Model model;
  for (auto _ : state) {
    const auto propagator = model.fresh();
    model.run(*propagator);
  }
}
BENCHMARK(replay_cold)->Unit(benchmark::kMillisecond);

void replay_warm(benchmark::State& state) {
  const Model model;
  const auto propagator = model.fresh();
  model.run(*propagator);
  for (auto _ : state) model.run(*propagator);
}
BENCHMARK(replay_warm)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace shardlab

BENCHMARK_MAIN();
