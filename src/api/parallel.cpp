#include "api/parallel.h"

#include <algorithm>

#include "api/distribute.h"
#include "api/mesh.h"
#include "api/tensor_ops.h"
#include "mesh/type_string.h"

namespace shardlab {

namespace {

std::size_t mesh_dim_of(const MeshAxis& axis) {
  if (const auto dim = axis.mesh->find_dim(axis.dim)) return *dim;
  throw Error(ErrorKind::kValue, fmt::format("the mesh has no dim '{}'", axis.dim))
      .with("mesh", axis.mesh->text());
}

/// S(-1) of a tensor with `ndim` dims.
Placement counted_from_front(Placement placement, std::size_t ndim) {
  Placements one{placement};
  normalize_dims(one, ndim);
  return one[0];
}

/// Redistributed along one mesh dim only.
DTensor moved(const DTensor& x, const MeshAxis& axis, Placement wanted) {
  if (x.spec()->layout() != axis.mesh) {
    throw Error(ErrorKind::kValue, fmt::format("{} lives on another mesh", type_string(x)))
        .with("mesh", axis.mesh->text());
  }
  Placements placements = x.spec()->placements();
  Placement& along = placements[mesh_dim_of(axis)];
  wanted = counted_from_front(wanted, x.ndim());
  if (along == wanted) return x;
  along = wanted;
  return redistribute(x, placements);
}

/// A leaf on the mesh with a plain parameter's value.
DTensor as_leaf(const DTensor& parameter, const DTensorSpec* spec) {
  const DTensor leaf = distribute(parameter.local(), spec);
  if (parameter.requires_grad()) require_grad(leaf);
  return leaf;
}

DTensor placed(const DTensor& parameter, const MeshAxis& axis, Placement wanted) {
  if (!parameter.defined()) return parameter;
  if (parameter.distributed()) return moved(parameter, axis, wanted);
  Placements placements(axis.mesh->ndim());
  placements[mesh_dim_of(axis)] = wanted;
  return as_leaf(parameter, spec_of(placements, axis.mesh, parameter.meta()));
}

/// "[_, _@tp]" with the sizes of a shape; other text as it is.
std::string with_sizes(std::string_view text, const Dims& shape) {
  std::string filled;
  std::size_t dim = 0;
  int depth = 0;
  for (const char c : text) {
    if (c == '[' || c == '(') ++depth;
    if (c == ']' || c == ')') --depth;
    if (c == ',' && depth == 1) ++dim;
    if (c == '_' && depth == 1 && !filled.empty() &&
        (filled.back() == '[' || filled.back() == ',' || filled.back() == ' ')) {
      filled += dim < shape.size() ? fmt::format("{}", shape[dim]) : "_";
    } else {
      filled += c;
    }
  }
  return filled;
}

}  // namespace

Linear column_parameters(const Linear& layer, const MeshAxis& axis) {
  return {placed(layer.weight, axis, Placement::shard(0)),
          placed(layer.bias, axis, Placement::shard(0))};
}

Linear row_parameters(const Linear& layer, const MeshAxis& axis) {
  return {placed(layer.weight, axis, Placement::shard(1)),
          placed(layer.bias, axis, Placement::replicate())};
}

DTensor column_parallel(const DTensor& x, const Linear& layer, const MeshAxis& axis,
                        const StyleLayouts& layouts) {
  const Placement whole = Placement::replicate();
  const DTensor input = prepare_input(x, axis, layouts.input.value_or(whole), whole);
  const Linear cut = column_parameters(layer, axis);
  const DTensor out = linear(input, cut.weight, cut.bias);
  return layouts.output ? moved(out, axis, *layouts.output) : out;
}

DTensor row_parallel(const DTensor& x, const Linear& layer, const MeshAxis& axis,
                     const StyleLayouts& layouts) {
  const Placement columns = Placement::shard(-1);
  const DTensor input = prepare_input(x, axis, layouts.input.value_or(columns), columns);
  const Linear cut = row_parameters(layer, axis);
  const DTensor out = linear(input, cut.weight, cut.bias);
  return moved(out, axis, layouts.output.value_or(Placement::replicate()));
}

DTensor sequence_parallel(const DTensor& x, const MeshAxis& axis, std::int64_t sequence_dim) {
  return prepare_input(x, axis, Placement::replicate(), Placement::shard(sequence_dim));
}

DTensor prepare_input(const DTensor& x, const MeshAxis& axis, Placement given, Placement wanted) {
  if (x.distributed()) return moved(x, axis, wanted);
  Placements placements(axis.mesh->ndim());
  placements[mesh_dim_of(axis)] = counted_from_front(given, x.ndim());
  return moved(from_local(x, axis.mesh, placements), axis, wanted);
}

DTensor prepare_output(const DTensor& x, const MeshAxis& axis, Placement wanted) {
  return to_local(moved(x, axis, wanted));
}

bool matches_pattern(std::string_view name, std::string_view pattern) {
  if (pattern.empty()) return name.empty();
  if (pattern.front() != '*') {
    return !name.empty() && name.front() == pattern.front() &&
           matches_pattern(name.substr(1), pattern.substr(1));
  }
  const bool any = pattern.starts_with("**");
  const std::string_view rest = pattern.substr(any ? 2 : 1);
  for (std::size_t taken = 0;; ++taken) {
    if (matches_pattern(name.substr(taken), rest)) return true;
    if (taken == name.size() || (!any && name[taken] == '.')) return false;
  }
}

std::vector<std::pair<std::string, DTensor>> shard_parameters(
    std::vector<std::pair<std::string, DTensor>> named, std::string_view pattern,
    const MeshLayout* mesh, std::string_view text) {
  bool found = false;
  for (auto& [name, parameter] : named) {
    if (!matches_pattern(name, pattern)) continue;
    found = true;
    try {
      const std::string placements = with_sizes(text, parameter.shape());
      const DTensorSpec* spec = spec_of(placements, mesh, parameter.meta());
      parameter =
          parameter.distributed() ? redistribute(parameter, spec) : as_leaf(parameter, spec);
    } catch (Error& error) {
      throw error.with("op",
                       fmt::format("shard_parameters '{}': {}", name, type_string(parameter)));
    }
  }
  if (found) return named;
  std::vector<std::string> names;
  for (const auto& [name, parameter] : named) names.push_back(name);
  throw Error(ErrorKind::kValue, fmt::format("no name matches '{}'", pattern))
      .with("op", fmt::format("names: {}", fmt::join(names, ", ")))
      .with("fix", "'*' stands for one part of a name between dots, '**' for any number of them");
}

}  // namespace shardlab
