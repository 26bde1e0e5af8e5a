// V may be anything; every other type is one placement.
#include "sim/verify/claims.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "sim/verify/held_numbers.h"

namespace shardlab {

namespace {

// Along this mesh dim: none if there is one rank alone, which has the value.
Placements placements_for(const SpmdClaim& claim, std::size_t dim,
                          const std::vector<GlobalValue>& held) {
  const SpmdType& type = claim.type.types[dim];
  if (claim.mesh->size(dim) == 1) return {Placement::replicate()};
  if (type.placement && !(claim.gradient && type.is_p())) return {*type.placement};
  Placements all;
  if (!type.is_p() && alike_along(held, *claim.mesh, dim)) all.push_back(Placement::replicate());
  if (type.is_p()) {
    all = {*type.placement};
    if (!alike_along(held, *claim.mesh, dim)) all.push_back(Placement::partial(ReduceOp::kAvg));
    return all;
  }
  for (std::size_t i = 0; i < held[0].meta.shape.size(); ++i) {
    all.push_back(Placement::shard(static_cast<std::int64_t>(i)));
  }
  all.push_back(Placement::partial());
  return all;
}

// Cuts of V come after those that the claim names, in the order of these mesh dims.
ShardOrder order_of(const SpmdClaim& claim, const Placements& placements,
                    const std::vector<std::size_t>& mesh_dims) {
  ShardOrder order = claim.type.order;
  for (const std::size_t dim : mesh_dims) {
    if (!placements[dim].is_shard() || order[dim] >= 0) continue;
    std::int32_t place = 0;
    for (std::size_t other = 0; other < placements.size(); ++other) {
      place += placements[other] == placements[dim] && order[other] >= 0 ? 1 : 0;
    }
    order[dim] = place;
  }
  for (std::size_t dim = 0; dim < placements.size(); ++dim) {
    if (!placements[dim].is_shard()) order[dim] = -1;
  }
  return order;
}

bool is_zero(const GlobalValue& value) {
  return std::ranges::all_of(value.reals, [](double number) { return number == 0; });
}

}  // namespace

std::vector<Label> labels_of(const SpmdClaim& claim, const std::vector<GlobalValue>& held) {
  std::vector<Placements> found = {{}};
  for (std::size_t dim = 0; dim < claim.mesh->ndim(); ++dim) {
    std::vector<Placements> longer;
    for (const Placements& begun : found) {
      for (const Placement& next : placements_for(claim, dim, held)) {
        longer.push_back(begun);
        longer.back().push_back(next);
      }
    }
    found = std::move(longer);
  }
  constexpr std::size_t kMostOrdered = 4;  // with more mesh dims cuts are in the mesh's order
  std::vector<Label> labels;
  std::vector<std::size_t> mesh_dims(claim.mesh->ndim());
  std::iota(mesh_dims.begin(), mesh_dims.end(), 0);
  do {  // in the mesh's order first
    for (const Placements& placements : found) {
      const Label label{placements, order_of(claim, placements, mesh_dims)};
      if (std::ranges::find(labels, label) == labels.end()) labels.push_back(label);
    }
  } while (mesh_dims.size() <= kMostOrdered && std::ranges::next_permutation(mesh_dims).found);
  return labels;
}

std::string fault_of(const SpmdClaim& claim, const std::vector<GlobalValue>& held) {
  for (std::size_t dim = 0; dim < claim.mesh->ndim(); ++dim) {
    if (claim.mesh->size(dim) == 1) continue;
    const SpmdType& type = claim.type.types[dim];
    const std::string& name = claim.mesh->names()[dim];
    const bool alike = alike_along(held, *claim.mesh, dim);
    const bool replicas = type.placement && type.placement->is_replicate();
    if (replicas && !alike && claim.gradient && type.is_i()) {
      return fmt::format(
          "{0} is I along {1}, and the gradients that come to it differ there: ranks use it for "
          "other work, which is R; convert(I to R) adds them",
          claim.subject, name);
    }
    if (replicas && !alike) {
      return fmt::format("{} is {} along {}, and the ranks hold different values there",
                         claim.subject, to_string(type), name);
    }
    if (claim.gradient && type.is_p() && alike && !is_zero(held[0])) {
      return fmt::format(
          "{0} is R along {1}, and every rank there has the same gradient, not a term of it: ranks "
          "use it for the same work, which is I",
          claim.subject, name);
    }
  }
  return {};
}

std::string fault_of(const SpmdClaim& claim, const Placements& placements) {
  for (std::size_t dim = 0; dim < claim.mesh->ndim() && !claim.gradient; ++dim) {
    const SpmdType& type = claim.type.types[dim];
    if (claim.mesh->size(dim) == 1 || !type.placement || *type.placement == placements[dim]) {
      continue;
    }
    return fmt::format("{} is {} along {}, not {}", claim.subject, to_string(placements[dim]),
                       claim.mesh->names()[dim], to_string(type));
  }
  return {};
}

bool leaves_open(const SpmdClaim& claim) {
  for (std::size_t dim = 0; dim < claim.mesh->ndim(); ++dim) {
    if (claim.mesh->size(dim) > 1 && !claim.type.types[dim].placement) return true;
  }
  return false;
}

}  // namespace shardlab
