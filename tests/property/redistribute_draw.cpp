#include <algorithm>
#include <cmath>

#include "tests/property/redistribute_case.h"

namespace shardlab::test {
namespace {

using Random = std::mt19937_64;

std::int64_t below(Random& random, std::int64_t end) {
  return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(end));
}
template <typename T>
T pick(Random& random, std::initializer_list<T> from) {
  return from.begin()[below(random, static_cast<std::int64_t>(from.size()))];
}

Dims draw_mesh(Random& random) {
  Dims mesh;
  const std::int64_t dims = pick(random, {1, 1, 2, 2, 2, 3, 3, 4});
  for (std::int64_t dim = 0; dim < dims; ++dim) {
    const std::int64_t size = pick(random, {1, 2, 2, 3, 4});
    mesh.push_back(product(mesh) * size <= 16 ? size : 1);
  }
  return mesh;
}

Dims draw_shape(Random& random, const Dims& mesh) {
  const std::int64_t largest = *std::max_element(mesh.begin(), mesh.end());
  Dims shape;
  const std::int64_t dims = pick(random, {0, 1, 1, 2, 2, 3});
  for (std::int64_t dim = 0; dim < dims; ++dim) shape.push_back(below(random, 2 * largest + 2));
  return shape;
}

/// The partial that a value of this dtype can be on its way; R: bool and complex values are moved
/// only.
Placement draw_partial(Random& random, DType dtype) {
  using enum ReduceOp;
  if (dtype == DType::kBool || is_complex(dtype)) return Placement::replicate();
  if (below(random, 8) == 0) {
    return Placement::mask_partial(kSum, intern_mask_shape(Dims{8, 4}), 0);
  }
  if (is_integral(dtype)) {
    return Placement::partial(pick(random, {kSum, kMax, kMin, kProduct, kBitAnd, kBitOr, kBitXor}));
  }
  if (below(random, 6) == 0) {
    return Placement::norm_partial(pick(random, {1.0, 2.0, 3.0, HUGE_VAL}));
  }
  return Placement::partial(pick(random, {kSum, kAvg, kMax, kMin, kProduct}));
}

Placements draw_placements(Random& random, const RedistributeCase& one, const Placement& partial) {
  Placements placements;
  const auto tensor_dims = static_cast<std::int64_t>(one.shape.size());
  for (std::size_t dim = 0; dim < one.mesh.size(); ++dim) {
    const std::int64_t kind = below(random, 4);
    if (kind < 2 && tensor_dims > 0) {
      placements.push_back(Placement::shard(below(random, tensor_dims)));
    } else {
      placements.push_back(kind == 2 ? partial : Placement::replicate());
    }
  }
  return placements;
}

ShardOrder draw_order(Random& random, const Placements& placements) {
  ShardOrder order = default_order(placements);
  if (below(random, 3) != 0) return order;
  for (std::size_t a = 0; a < order.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      const bool together = placements[a].is_shard() && placements[b].is_shard(placements[a].dim);
      if (together && below(random, 2) == 0) std::swap(order[a], order[b]);
    }
  }
  return order;
}

/// Some shards become strided ones, most of which represent no order. A strided shard does not
/// become a term of a sum.
void make_strided(Random& random, Placements& placements, ShardOrder& order,
                  const Placements& other) {
  order = default_order(placements);
  for (std::size_t dim = 0; dim < placements.size(); ++dim) {
    if (!placements[dim].is_shard() || other[dim].is_partial() || below(random, 2) == 0) continue;
    placements[dim] = Placement::strided_shard(placements[dim].dim, 2 + below(random, 3));
  }
}

/// Replaces pairs that the executor refuses (R -> P(product), S -> P(max), ...) in the target.
void make_legal(RedistributeCase& one) {
  for (std::size_t dim = 0; dim < one.mesh.size(); ++dim) {
    Placement& to = one.target[dim];
    if (!to.is_partial() || one.source[dim] == to) continue;
    const bool plain = to.kind == PlacementKind::kPartial;  // norms are made by their op alone
    const bool divides = plain && to.op == ReduceOp::kSum;
    const bool from_replica = plain && one.source[dim].is_replicate() &&
                              (divides ? !is_integral(one.dtype) : to.op <= ReduceOp::kMin);
    const bool from_shard = one.source[dim].is_shard() && divides;
    // A planner may pass through R on the way to P(sum): integers can't be divided there.
    if (from_replica || (from_shard && !is_integral(one.dtype))) continue;
    to = Placement::replicate();
  }
}

}  // namespace

RedistributeCase draw_case(std::mt19937_64& random) {
  RedistributeCase one;
  one.mesh = draw_mesh(random);
  one.shape = draw_shape(random, one.mesh);
  one.dtype =
      pick(random, {DType::kF32, DType::kF32, DType::kF64, DType::kI64, DType::kI32, DType::kI16,
                    DType::kI8, DType::kBF16, DType::kF16, DType::kBool, DType::kC64});
  const Placement partial = draw_partial(random, one.dtype);
  one.source = draw_placements(random, one, partial);
  one.target = draw_placements(random, one, partial);
  make_legal(one);
  one.source_order = draw_order(random, one.source);
  one.target_order = draw_order(random, one.target);
  if (below(random, 8) == 0) make_strided(random, one.source, one.source_order, one.target);
  if (below(random, 8) == 0) make_strided(random, one.target, one.target_order, one.source);
  const std::int64_t planner = below(random, 4);
  if (planner == 0) one.planner = PlannerKind::kGraph;
  if (planner == 1) one.planner = PlannerKind::kGreedy;
  if (planner == 2) one.planner = PlannerKind::kBytes;
  one.async = below(random, 4) == 0;
  one.outsiders = below(random, 3) == 0 ? below(random, 3) : 0;
  one.values = random();
  return one;
}

}  // namespace shardlab::test
