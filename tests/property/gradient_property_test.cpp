// The gradient of a redistribution, on every pair of placements that forward supports.
#include <doctest/doctest.h>

#include <numeric>

#include "mesh/local_shape.h"
#include "sim/world/spmd.h"
#include "tensor/host.h"

namespace shardlab {
namespace {

std::vector<Placements> all_placements(std::size_t mesh_dims, std::int64_t tensor_dims) {
  std::vector<Placement> kinds = {Placement::replicate(), Placement::partial(),
                                  Placement::partial(ReduceOp::kAvg),
                                  Placement::partial(ReduceOp::kMax)};
  for (std::int64_t dim = 0; dim < tensor_dims; ++dim) kinds.push_back(Placement::shard(dim));
  std::vector<Placements> all{{}};
  for (std::size_t dim = 0; dim < mesh_dims; ++dim) {
    std::vector<Placements> longer;
    for (const Placements& begun : all) {
      for (const Placement& kind : kinds) {
        const bool mixes = std::ranges::all_of(begun, [&](const Placement& other) {
          return !other.is_partial() || !kind.is_partial() || may_mix(other, kind);
        });
        if (!mixes) continue;
        longer.push_back(begun);
        longer.back().push_back(kind);
      }
    }
    all = std::move(longer);
  }
  return all;
}

/// 1, 2, 3, ...: weights that are exact in f32 and different for each element.
Tensor weights(const Dims& shape) {
  const Tensor result = empty(*current_rank().device, shape, DType::kF32);
  std::vector<double> values(static_cast<std::size_t>(product(shape)));
  std::iota(values.begin(), values.end(), 1);
  write_doubles(result, values);
  return result;
}

/// False when forward refuses the pair, which it does on every rank or on none.
bool check_pair(const DTensorSpec* source, const DTensorSpec* target, PlannerKind planner,
                const Tensor& weight) {
  const Coordinate coordinate = *device_mesh(source->layout()).coordinate();
  const DTensor x(weights(local_shape(*source, coordinate)), source);
  require_grad(x);
  DTensor moved;
  try {
    moved = redistribute(x, target, {.planner = planner});
  } catch (const Error&) {
    return false;
  }
  backward(sum(mul(full_tensor(moved), DTensor(weight))));
  const DTensor gradient = grad_of(x);
  INFO(order_text(source->placements(), source->order())
       << " -> " << order_text(target->placements(), target->order()) << " by "
       << to_string(planner) << " on rank " << current_rank().rank);
  for (std::size_t dim = 0; dim < coordinate.size(); ++dim) {
    const Placement& held = source->placement(dim);
    CHECK(gradient.spec()->placement(dim) == (held.is_partial() ? Placement::replicate() : held));
  }
  CHECK(read_doubles(full_tensor(gradient).local()) == read_doubles(weight));
  return true;
}

void check_all_pairs(const std::vector<MeshDim>& dims, const Dims& shape) {
  std::int64_t ranks = 1, pairs = 0, refused = 0;
  for (const MeshDim& dim : dims) ranks *= dim.size;
  const auto placements = all_placements(dims.size(), static_cast<std::int64_t>(shape.size()));
  spmd(ranks, [&](RankContext& rank) {
    const MeshLayout* mesh = init_mesh(dims);
    const TensorMeta meta = contiguous_meta(shape, DType::kF32);
    const Tensor weight = weights(shape);
    for (const Placements& from : placements) {
      for (const Placements& to : placements) {
        const DTensorSpec* source = mesh->arena().spec(mesh, from, meta);
        const DTensorSpec* target = mesh->arena().spec(mesh, to, meta);
        for (const PlannerKind planner : {PlannerKind::kGreedy, PlannerKind::kBytes}) {
          const bool done = check_pair(source, target, planner, weight);
          if (rank.rank == 0) (done ? pairs : refused) += 1;
        }
      }
    }
  });
  MESSAGE(pairs << " gradients, " << refused << " pairs are refused forward");
  CHECK(pairs > refused);
}

TEST_CASE("R-78 R-73 X-1 the gradient of a redistribution is the weight of every element") {
  check_all_pairs({{"x", 3}}, {7, 4});
  check_all_pairs({{"x", 2}, {"y", 2}}, {5, 3});
  check_all_pairs({{"x", 2}, {"y", 3}}, {7});
  check_all_pairs({{"x", 2}, {"y", 1}, {"z", 2}}, {3});
}

}  // namespace
}  // namespace shardlab
