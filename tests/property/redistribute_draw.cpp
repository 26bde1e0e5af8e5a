#include <algorithm>

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

/// Reductions that a value of this dtype can have on its way.
ReduceOp draw_op(Random& random, DType dtype) {
  using enum ReduceOp;
  if (!is_integral(dtype)) return pick(random, {kSum, kAvg, kMax, kMin, kProduct});
  return pick(random, {kSum, kMax, kMin, kProduct, kBitAnd, kBitOr, kBitXor});
}

Placements draw_placements(Random& random, const RedistributeCase& one, ReduceOp op) {
  Placements placements;
  const auto tensor_dims = static_cast<std::int64_t>(one.shape.size());
  for (std::size_t dim = 0; dim < one.mesh.size(); ++dim) {
    const std::int64_t kind = below(random, 4);
    if (kind < 2 && tensor_dims > 0) {
      placements.push_back(Placement::shard(below(random, tensor_dims)));
    } else {
      placements.push_back(kind == 2 ? Placement::partial(op) : Placement::replicate());
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

/// Some shards become strided ones, most of which stand for no order. A strided shard does not
/// become a term of a sum.
void make_strided(Random& random, Placements& placements, ShardOrder& order,
                  const Placements& other) {
  order = default_order(placements);
  for (std::size_t dim = 0; dim < placements.size(); ++dim) {
    if (!placements[dim].is_shard() || other[dim].is_partial() || below(random, 2) == 0) continue;
    placements[dim] = Placement::strided_shard(placements[dim].dim, 2 + below(random, 3));
  }
}

/// Replaces what the executor refuses (R -> P(product), S -> P(max), ...) in the target.
void make_legal(RedistributeCase& one) {
  for (std::size_t dim = 0; dim < one.mesh.size(); ++dim) {
    Placement& to = one.target[dim];
    if (!to.is_partial() || one.source[dim] == to) continue;
    const bool divides = to.op == ReduceOp::kSum;
    const bool from_replica = one.source[dim].is_replicate() &&
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
  one.dtype = pick(random, {DType::kF32, DType::kF32, DType::kF64, DType::kI64, DType::kI32,
                            DType::kBF16, DType::kF16});
  const ReduceOp op = draw_op(random, one.dtype);
  one.source = draw_placements(random, one, op);
  one.target = draw_placements(random, one, op);
  make_legal(one);
  one.source_order = draw_order(random, one.source);
  one.target_order = draw_order(random, one.target);
  if (below(random, 8) == 0) make_strided(random, one.source, one.source_order, one.target);
  if (below(random, 8) == 0) make_strided(random, one.target, one.target_order, one.source);
  const std::int64_t planner = below(random, 4);
  if (planner == 0) one.planner = PlannerKind::kGraph;
  if (planner == 1) one.planner = PlannerKind::kGreedy;
  one.async = below(random, 4) == 0;
  one.outsiders = below(random, 3) == 0 ? below(random, 3) : 0;
  one.values = random();
  return one;
}

std::string RedistributeCase::text() const {
  return fmt::format("mesh ({}) shape ({}) {} {} -> {} planner {} {} outsiders {} values {}",
                     fmt::join(mesh, ","), fmt::join(shape, ","), to_string(dtype),
                     order_text(source, source_order), order_text(target, target_order),
                     planner ? to_string(*planner) : "default", async ? "async" : "waiting",
                     outsiders, values);
}

std::vector<RedistributeCase> smaller(const RedistributeCase& one) {
  std::vector<RedistributeCase> cases;
  const auto add = [&](const RedistributeCase& next) { cases.push_back(next); };
  for (std::size_t dim = 0; dim < one.mesh.size(); ++dim) {
    if (one.mesh.size() > 1) {  // without this mesh dim
      RedistributeCase next = one;
      next.mesh.erase(dim);
      next.source.erase(dim);
      next.target.erase(dim);
      next.source_order = default_order(next.source);
      next.target_order = default_order(next.target);
      add(next);
    }
    if (one.mesh[dim] > 1) {
      RedistributeCase next = one;
      --next.mesh[dim];
      add(next);
    }
    for (Placements RedistributeCase::*side :
         {&RedistributeCase::source, &RedistributeCase::target}) {
      if ((one.*side)[dim].is_replicate()) continue;
      RedistributeCase next = one;
      (next.*side)[dim] = Placement::replicate();
      next.source_order = default_order(next.source);
      next.target_order = default_order(next.target);
      add(next);
    }
  }
  for (std::size_t dim = 0; dim < one.shape.size(); ++dim) {
    if (one.shape[dim] == 0) continue;
    RedistributeCase next = one;
    --next.shape[dim];
    add(next);
  }
  const auto change = [&](auto member, auto value) {
    if (one.*member == value) return;
    RedistributeCase next = one;
    next.*member = value;
    add(next);
  };
  change(&RedistributeCase::outsiders, std::int64_t{0});
  change(&RedistributeCase::async, false);
  change(&RedistributeCase::planner, std::optional<PlannerKind>());
  change(&RedistributeCase::dtype, DType::kF32);
  change(&RedistributeCase::source_order, default_order(one.source));
  change(&RedistributeCase::target_order, default_order(one.target));
  return cases;
}

}  // namespace shardlab::test
