// Megatron's two ways to split a linear layer. Column-wise: x is whole and W is cut by its output
// features, so that y is cut by its last dim and nothing has to be added up. Row-wise: x is cut by
// its last dim and W by its input features, so that each rank has a term of x W^T; the bias is
// added once, to the sum. One layer after the other needs a single reduction, behind the second.
// Everything else is redistribution along one mesh dim.
#include "api/parallel.h"

#include <algorithm>

#include "api/mesh.h"
#include "autograd/at_place.h"
#include "autograd/program.h"
#include "base/error.h"
#include "mesh/mesh_dim.h"
#include "mesh/placement_dims.h"
#include "mesh/shard_pattern.h"
#include "mesh/type_string.h"
#include "schema/argument.h"
#include "schema/torch_spelling.h"

namespace shardlab {

namespace {

// A weight with `placement` on one mesh dim; a plain one is placed first, replicated elsewhere.
DTensor placed(const DTensor& weight, const MeshLayout* mesh, std::string_view mesh_dim,
               Placement placement) {
  if (!weight.defined()) return {};
  if (weight.distributed()) return on_mesh_dim(weight, mesh_dim, placement);
  Placements placements(mesh->ndim());
  placements[mesh_dim_named(*mesh, mesh_dim, "a parallel layer")] = placement;
  return distribute_tensor(weight, mesh, placements);
}

// A parameter on the mesh where it is by now.
DTensor moved(const DTensor& parameter, const MeshLayout* mesh, const std::string& type) {
  if (parameter.distributed()) return redistribute(parameter, type);
  return distribute_tensor(parameter, mesh, type);
}

}  // namespace

DTensor on_mesh_dim(Operand operand, std::string_view mesh_dim, Placement placement) {
  const PlaceScope scope(operand.place);
  const DTensor& x = operand.tensor;
  if (!x.distributed()) {
    fail(Fix{"distribute_tensor(x, mesh, ...) places it on the mesh"}, "{} is a plain tensor",
         type_string(x));
  }
  Placements placements = x.spec()->placements();
  placements[mesh_dim_named(*x.spec()->layout(), mesh_dim, "on_mesh_dim")] = placement;
  placements = normalized(std::move(placements), x.ndim());
  return placements == x.spec()->placements() ? x : redistribute(x, placements);
}

LinearWeights column_wise_weights(const LinearWeights& weights, const MeshLayout* mesh,
                                  std::string_view mesh_dim) {
  return {placed(weights.weight, mesh, mesh_dim, Placement::shard(0)),
          placed(weights.bias, mesh, mesh_dim, Placement::shard(0))};
}

LinearWeights row_wise_weights(const LinearWeights& weights, const MeshLayout* mesh,
                               std::string_view mesh_dim) {
  return {placed(weights.weight, mesh, mesh_dim, Placement::shard(1)),
          placed(weights.bias, mesh, mesh_dim, Placement::replicate())};
}

DTensor column_wise(Operand x, const LinearWeights& weights, std::string_view mesh_dim,
                    Placement output) {
  const PlaceScope scope(x.place);
  const DTensor whole = on_mesh_dim(x, mesh_dim, Placement::replicate());
  return on_mesh_dim(linear(whole, weights.weight, weights.bias), mesh_dim, output);
}

DTensor row_wise(Operand x, const LinearWeights& weights, std::string_view mesh_dim,
                 Placement output) {
  const PlaceScope scope(x.place);
  const DTensor cut = on_mesh_dim(x, mesh_dim, Placement::shard(-1));
  // The bias is added to the sum, not to every term of it.
  const DTensor product = on_mesh_dim(linear(cut, weights.weight), mesh_dim, output);
  return weights.bias.defined() ? add(product, weights.bias) : product;
}

DTensor sequence_parallel(Operand x, std::string_view mesh_dim, std::int64_t dim) {
  return on_mesh_dim(x, mesh_dim, Placement::shard(dim));
}

DTensor loss_parallel(Operand logits, const DTensor& target, const ClassLoss& loss) {
  const PlaceScope scope(logits.place);
  const auto number = reduction_number(loss.reduction);
  if (!number) {
    fail(Fix{"use 'mean', 'sum' or 'none'"},
         "loss_parallel: reduction is '{}'; it must be 'mean', 'sum' or 'none'", loss.reduction);
  }
  const Argument weight = loss.weight.defined() ? Argument(loss.weight) : Argument();
  const Results results = program_calls()(
      "shardlab::loss_parallel", {logits.tensor, target, weight, *number, loss.ignore_index});
  return results[0].tensor();
}

NamedTensors shard(const NamedTensors& parameters, const MeshLayout* mesh,
                   const std::vector<ShardPattern>& patterns, SourceLine place) {
  const PlaceScope scope(place);
  std::vector<bool> used(patterns.size(), false);
  NamedTensors placed_ones;
  for (const auto& [name, parameter] : parameters) {
    // Bindings are captured by name since clang 16 only.
    const auto found = std::ranges::find_if(patterns, [&name = name](const ShardPattern& pattern) {
      return name_fits(pattern.first, name);
    });
    if (found == patterns.end()) {
      const bool there = parameter.distributed();
      placed_ones[name] =
          there ? parameter : distribute_tensor(parameter, mesh, Placements(mesh->ndim()));
      continue;
    }
    used[static_cast<std::size_t>(found - patterns.begin())] = true;
    placed_ones[name] =
        moved(parameter, mesh,
              with_sizes(found->second, parameter.shape(),
                         fmt::format("'{}', {}", name, Argument(parameter).text())));
  }
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    if (used[i]) continue;
    fail(Fix{parameters.empty() ? "give some parameters"
                                : "the first one is called " + parameters.begin()->first},
         "no parameter is called '{}'", patterns[i].first);
  }
  return placed_ones;
}

}  // namespace shardlab
