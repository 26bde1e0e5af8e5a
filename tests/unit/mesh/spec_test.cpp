#include "mesh/spec.h"

#include <doctest/doctest.h>

#include <thread>

using namespace shardlab;

namespace {

const Placement kR = Placement::replicate();
const Placement kS0 = Placement::shard(0);

template <typename Call>
std::optional<ErrorKind> kind_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.kind();
  }
  return std::nullopt;
}

std::int64_t specs_in(const Arena& arena) {
  std::int64_t count = 0;
  arena.visit_specs([&](const DTensorSpec&) { ++count; });
  return count;
}

}  // namespace

TEST_CASE("M-8 equal specs are one object; every field counts") {
  Arena arena;
  const MeshLayout* mesh = arena.layout({{2, 2}, {}, {}});
  const TensorMeta meta = contiguous_meta(Dims{8, 8}, DType::kF32);
  const DTensorSpec* spec = arena.spec(mesh, {kS0, kS0}, meta);
  CHECK(spec == arena.spec(mesh, {kS0, kS0}, {0, 1}, meta));
  CHECK(spec != arena.spec(mesh, {kS0, kS0}, {1, 0}, meta));
  CHECK(spec != arena.spec(mesh, {kS0, kR}, meta));
  CHECK(spec != arena.spec(arena.layout({{2, 2}, {"a", "b"}, {}}), {kS0, kS0}, meta));
  CHECK(spec != arena.spec(mesh, {kS0, kS0}, {{8, 8}, {1, 8}, DType::kF32}));
  CHECK(spec != arena.spec(mesh, {kS0, kS0}, contiguous_meta(Dims{8, 8}, DType::kF64)));
  CHECK(specs_in(arena) == 6);
  CHECK(spec->with({kS0, kR}) == arena.spec(mesh, {kS0, kR}, meta));
  CHECK(spec->with({kS0, kS0}, {1, 0})->has_default_order() == false);
  CHECK(spec->with(contiguous_meta(Dims{8, 8}, DType::kF64))->dtype() == DType::kF64);
}

TEST_CASE("M-13 num_shards multiplies the sizes of sharding mesh dims") {
  Arena arena;
  const TensorMeta meta = contiguous_meta(Dims{8, 8}, DType::kF32);
  const MeshLayout* mesh = arena.layout({{2, 3}, {}, {}});
  CHECK(arena.spec(mesh, {kS0, kR}, meta)->num_shards() == 2);
  CHECK(arena.spec(mesh, {kS0, Placement::shard(1)}, meta)->num_shards() == 6);
  CHECK(arena.spec(mesh, {kR, Placement::partial()}, meta)->num_shards() == 1);
  CHECK(arena.spec(arena.layout({{1}, {}, {}}), {kS0}, meta)->num_shards() == 1);
}

TEST_CASE("flags of a spec") {
  Arena arena;
  const TensorMeta meta = contiguous_meta(Dims{8, 8}, DType::kF32);
  const MeshLayout* mesh = arena.layout({{2, 3}, {}, {}});
  CHECK(arena.spec(mesh, {kR, kR}, meta)->is_replicated());
  const DTensorSpec* mixed = arena.spec(mesh, {Placement::strided_shard(0, 2), kR}, meta);
  CHECK(mixed->has_strided());
  CHECK(mixed->is_sharded());
  CHECK_FALSE(mixed->has_partial());
  CHECK(arena.spec(mesh, {kR, Placement::partial()}, meta)->has_partial());
}

TEST_CASE("K-19 the meaning of strided shards belongs to a spec, and nothing else has it") {
  Arena arena;
  const TensorMeta meta = contiguous_meta(Dims{8, 8}, DType::kF32);
  const MeshLayout* mesh = arena.layout({{2, 3}, {}, {}});
  const DTensorSpec* order = arena.spec(mesh, {Placement::strided_shard(0, 2), kR}, meta);
  CHECK(order->has_strided_order());
  const DTensorSpec* pieces = order->with(StridedShards::kPieces);
  CHECK(pieces != order);
  CHECK(pieces->hash() != order->hash());
  CHECK_FALSE(pieces->has_strided_order());
  CHECK(pieces->same_pieces(*order));
  CHECK(pieces->with(StridedShards::kOrder) == order);
  CHECK(pieces->with(contiguous_meta(Dims{8, 8}, DType::kF64))->strided() ==
        StridedShards::kPieces);
  const DTensorSpec* plain = pieces->with({kS0, kR});
  CHECK(plain == arena.spec(mesh, {kS0, kR}, meta));
  CHECK(plain->with(StridedShards::kPieces) == plain);
  CHECK_FALSE(plain->same_pieces(*order));
}

TEST_CASE("M-11 X-41 X-42 specs that make no sense are refused, and nothing is kept") {
  Arena arena;
  const MeshLayout* mesh = arena.layout({{2, 2}, {}, {}});
  const TensorMeta meta = contiguous_meta(Dims{8, 8}, DType::kF32);
  const auto kind = [&](const Placements& placements) {
    return kind_of([&] { arena.spec(mesh, placements, meta); });
  };
  CHECK(kind({kS0}) == ErrorKind::kValue);
  CHECK(kind({Placement::shard(2), kR}) == ErrorKind::kValue);
  CHECK(kind({Placement::shard(-1), kR}) == ErrorKind::kInternal);
  CHECK(kind({Placement::partial(), Placement::partial(ReduceOp::kMax)}) == ErrorKind::kValue);
  CHECK_FALSE(kind({Placement::partial(), Placement::partial(ReduceOp::kAvg)}).has_value());
  CHECK(kind_of([&] { arena.spec(mesh, {kS0, kS0}, {0, 0}, meta); }) == ErrorKind::kInternal);
  CHECK(kind_of([&] {
          arena.spec(mesh, {Placement::strided_shard(0, 2), kS0}, {1, 0}, meta);
        }) == ErrorKind::kValue);
  CHECK(specs_in(arena) == 1);
}

TEST_CASE("a spec whose bytes cannot be counted is refused, also when a size is 0") {
  Arena arena;
  const MeshLayout* mesh = arena.layout({{2}, {}, {}});
  const auto kind = [&](const Dims& shape) {
    return kind_of([&] { arena.spec(mesh, {kR}, contiguous_meta(shape, DType::kF32)); });
  };
  constexpr std::int64_t kLarge = std::int64_t{1} << 31;
  CHECK(kind({kLarge, kLarge}) == ErrorKind::kValue);
  CHECK(kind({0, kLarge, kLarge}) == ErrorKind::kValue);
  CHECK(kind({4, -1}) == ErrorKind::kValue);
  CHECK_FALSE(kind({kLarge, kLarge / 4}).has_value());
}

TEST_CASE("M-16 threads that intern the same spec get the same object") {
  Arena arena;
  const MeshLayout* mesh = arena.layout({{4}, {}, {}});
  constexpr std::int64_t kSpecs = 500;
  constexpr std::size_t kThreads = 4;
  std::vector<std::vector<const DTensorSpec*>> found(kThreads);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::int64_t size = 0; size < kSpecs; ++size) {
        found[t].push_back(arena.spec(mesh, {kS0}, contiguous_meta(Dims{size}, DType::kF32)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t t = 1; t < kThreads; ++t) CHECK(found[t] == found[0]);
  CHECK(specs_in(arena) == kSpecs);
}
