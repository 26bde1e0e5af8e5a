// mesh.h - meshes, and values placed on them, for programs in C++. Placements are written as a list
// with one entry per mesh dim, or as text: by mesh dim ("tp=S(0), dp=R") or as a type's shape
// ("[8@dp, 16]"). Functions that torch.distributed.tensor has, too, have its names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/autograd.h"
#include "mesh/placement.h"

namespace shardlab {

// torch's names, for lists of placements: {Shard(0), Replicate()}.
inline Placement Shard(std::int64_t dim) { return Placement::shard(dim); }
inline Placement Replicate() { return Placement::replicate(); }
inline Placement Partial(ReduceOp op = ReduceOp::kSum) { return Placement::partial(op); }

/// One dim of a mesh: its name and the number of ranks along it.
struct MeshDim {
  std::string name;
  std::int64_t size;
};
/// "dp=2, tp=4".
///   fails  Value: another text; sizes are checked when the mesh is made
std::vector<MeshDim> parse_mesh_dims(std::string_view text);

/// The mesh of these dims over ranks 0, 1, 2, ... or over `ranks` (row-major), constructed on this
/// rank; every rank of the world calls this. Equal meshes are one layout.
///   fails  as Arena::layout and MeshRegistry::construct
const MeshLayout* init_mesh(const std::vector<MeshDim>& dims,
                            const std::vector<std::int64_t>& ranks = {}, SourceLine place = {});

/// Fails with Value, naming the function, where there is no mesh.
void check_mesh(const MeshLayout* mesh, std::string_view function);

/// Constructs the mesh of a layout on this rank where it is missing; every rank of the world calls
/// this.
///   fails  as MeshRegistry::construct
const MeshLayout* construct_mesh(const MeshLayout* layout);

/// The part of `mesh` along these dims that holds this rank, constructed; parts on other ranks are
/// other meshes. Every rank of the world calls this; ranks outside of `mesh` are given the first
/// part.
///   fails  as slice_layout
const MeshLayout* submesh(const MeshLayout* mesh, const std::vector<std::string>& dims,
                          SourceLine place = {});

/// One dim of a mesh as several, row-major: another view of the same ranks. Every rank of the world
/// calls this.
///   fails  Value: sizes that do not multiply to that of the dim
const MeshLayout* unflatten_mesh(const MeshLayout* mesh, std::string_view dim,
                                 const std::vector<MeshDim>& dims, SourceLine place = {});
/// The dims of parts of one mesh, side by side. Makes no group, so that ranks may call it alone.
///   fails  Runtime: parts of other ranks, dims that overlap
const MeshLayout* concatenate_meshes(const std::vector<const MeshLayout*>& meshes,
                                     SourceLine place = {});

/// The placements that a text gives to a value with this meta; by mesh dim, dims that are not named
/// keep `base` (default: replicated). Dims of shards may count from the end.
///   fails  Value: malformed, or a type of another shape or dtype
const DTensorSpec* spec_of(std::string_view text, const MeshLayout* mesh, const TensorMeta& meta,
                           const std::optional<Placements>& base = std::nullopt);
const DTensorSpec* spec_of(Placements placements, const MeshLayout* mesh, const TensorMeta& meta);

/// A plain tensor, equal on all ranks, placed on a mesh: every rank cuts its own piece, nothing is
/// communicated. A leaf that requires a gradient becomes another such leaf; a value that has these
/// placements already is returned as it is. With `source` the value is the tensor of the rank with
/// this index on every mesh dim, and all ranks of the mesh communicate. A distributed value is
/// redistributed, to another mesh, too.
///   fails  Value: a mesh dim is not as long as `source`.
///          Runtime: it is the result of an op that takes part in gradients.
DTensor distribute_tensor(Operand value, const MeshLayout* mesh, const Placements& placements,
                          std::optional<std::int64_t> source = std::nullopt);
DTensor distribute_tensor(Operand value, const MeshLayout* mesh, std::string_view text,
                          std::optional<std::int64_t> source = std::nullopt);

/// The spec of a distributed value.
///   fails  Value: a plain tensor
const DTensorSpec& spec_of(const DTensor& x);

/// Differentiable. By mesh dim, dims that are not named keep their placements. `options` choose the
/// planner of this call, `dtypes` the dtype that is sent in forward and in backward.
///   fails  Value: a plain tensor
DTensor redistribute(Operand x, const Placements& placements,
                     const RedistributeOptions& options = {},
                     const RedistributeDTypes& dtypes = {});
/// To another mesh; collective over the ranks of both.
DTensor redistribute(Operand x, const MeshLayout* mesh, const Placements& placements,
                     const RedistributeOptions& options = {},
                     const RedistributeDTypes& dtypes = {});
DTensor redistribute(Operand x, std::string_view text, const RedistributeOptions& options = {},
                     const RedistributeDTypes& dtypes = {});

/// From now on one collective may run over these dims of the mesh where redistributions would run
/// one over each. Every rank of the world calls this.
///   fails  Value: unknown or repeated names, fewer than two
void flatten_mesh(const MeshLayout* mesh, const std::vector<std::string>& dims,
                  SourceLine place = {});

/// from_local of autograd.h with placements by mesh dim. `shape` is the global one; it is needed
/// where pieces are uneven.
DTensor from_local(const DTensor& local, const MeshLayout* mesh, std::string_view text,
                   const std::optional<Dims>& shape = std::nullopt);

}  // namespace shardlab
