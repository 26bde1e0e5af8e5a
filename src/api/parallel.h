// parallel.h - parallel styles for programs in C++: how the linear layers of a model are cut over
// one mesh dim, and what goes in and out of them. The names and the layouts are those of
// torch.distributed.tensor.parallel. Everything here runs on the current rank and is
// differentiable; every rank of the mesh calls it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mesh/dtensor.h"

namespace shardlab {

/// A linear layer: weight [out, in], bias [out] or undefined.
struct Linear {
  DTensor weight;
  DTensor bias;
};

/// What a style works along: one dim of a constructed mesh.
struct MeshAxis {
  const MeshLayout* mesh = nullptr;
  std::string dim;
};

/// Layouts along the mesh dim; where empty, the style's own.
struct StyleLayouts {
  std::optional<Placement> input;   ///< what x is taken to have when it is plain
  std::optional<Placement> output;  ///< what the result is redistributed to
};

/// The parameters of a column-wise layer: weight and bias cut along `out`. Plain parameters, equal
/// on all ranks, become leaves on the mesh that require a gradient when they did; distributed ones
/// are redistributed along this mesh dim when they have to.
///   fails  Value: no such mesh dim, or a DTensor on another mesh
Linear column_parameters(const Linear& layer, const MeshAxis& axis);
/// Of a row-wise layer: the weight cut along `in`, the bias whole.
Linear row_parameters(const Linear& layer, const MeshAxis& axis);

/// x @ weight^T + bias on x whole along the mesh dim; the result is cut along its last dim.
DTensor column_parallel(const DTensor& x, const Linear& layer, const MeshAxis& axis,
                        const StyleLayouts& layouts = {});
/// The same on x cut along its last dim; the result is summed over the mesh dim.
DTensor row_parallel(const DTensor& x, const Linear& layer, const MeshAxis& axis,
                     const StyleLayouts& layouts = {});
/// An activation cut along `sequence_dim`, for the norms and dropouts between parallel layers.
DTensor sequence_parallel(const DTensor& x, const MeshAxis& axis, std::int64_t sequence_dim = 1);

/// A plain tensor becomes a DTensor that has `given` along the mesh dim (whole on the others); any
/// DTensor is redistributed to `wanted` along it.
DTensor prepare_input(const DTensor& x, const MeshAxis& axis, Placement given, Placement wanted);
/// Redistributes to `wanted` along the mesh dim and gives this rank's piece.
DTensor prepare_output(const DTensor& x, const MeshAxis& axis, Placement wanted);

/// Distributes those of some named parameters whose name matches `pattern` ("*" stands for any
/// characters but dots, "**" for any): `text` is a type's shape in which "_" stands for a size,
/// "[_, _@tp]", or placements by mesh dim. As in column_parameters, plain ones become leaves.
///   fails  Value: nothing matches; the text does not suit a tensor (names it)
std::vector<std::pair<std::string, DTensor>> shard_parameters(
    std::vector<std::pair<std::string, DTensor>> named, std::string_view pattern,
    const MeshLayout* mesh, std::string_view text);
/// True when the whole name matches.
bool matches_pattern(std::string_view name, std::string_view pattern);

}  // namespace shardlab
