// spmd_type.h - the type of a plain tensor on its ranks, as programs with `spmd_types` say it: a
// placement along each mesh dim, and the two things that placements leave open. Pure values.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mesh/mesh_layout.h"
#include "mesh/shard_order.h"
#include "mesh/spec.h"

namespace shardlab {

/// R, I, V, P or S(d): the type of a plain tensor along one mesh dim. Replicas tell what their
/// gradient is: terms of a sum (R, each rank uses them for other work), or replicas again (I).
struct SpmdType {
  /// Empty for V: values that differ, and nothing is known of how they belong together.
  std::optional<Placement> placement;
  /// Replicas alone may have it: every rank uses them for the same work.
  bool invariant = false;

  static SpmdType replicated() { return {Placement::replicate()}; }
  static SpmdType same_work() { return {Placement::replicate(), true}; }
  static SpmdType varying() { return {}; }
  static SpmdType term() { return {Placement::partial()}; }
  static SpmdType piece(std::int64_t tensor_dim) { return {Placement::shard(tensor_dim)}; }

  bool is_r() const { return placement && placement->is_replicate() && !invariant; }
  bool is_i() const { return invariant; }
  bool is_p() const { return placement && placement->is_partial(); }
  bool is_s() const { return placement && placement->is_shard(); }
  /// V or S(d): each rank has values of its own.
  bool varies() const { return !placement || placement->is_shard(); }
  bool operator==(const SpmdType&) const = default;
};

/// One for each mesh dim, mesh dim 0 first.
using SpmdTypes = InlineVector<SpmdType, 4>;

/// The type of one tensor on a mesh.
struct TensorType {
  SpmdTypes types;
  /// The order in which mesh dims cut one tensor dim; -1 for mesh dims that do not.
  ShardOrder order;
  bool operator==(const TensorType&) const = default;
};

/// Fails with Value where two mesh dims cut one tensor dim: the order would be unknown.
TensorType tensor_type(const SpmdTypes& types);
/// Placements, or a label's: replicas are R.
TensorType tensor_type(const Placements& placements, const ShardOrder& order);
/// Adds the cuts of a PartitionSpec: for each tensor dim its mesh dims, first cut first. Fails with
/// Value for a mesh dim that is named twice, or whose type is not V.
TensorType cut_by(TensorType type, const std::vector<std::vector<std::size_t>>& spec);
/// Another type along a mesh dim; where it cuts a tensor dim, it cuts behind the mesh dims that do.
void retype(TensorType& type, std::size_t mesh_dim, const SpmdType& to);
/// A tensor dim is added at `place`, or the one there is taken away: V then, where it was cut.
void shift_cuts(TensorType& type, std::int64_t place, bool added);
/// Its cuts as cut_by() takes them, without mesh dims of size 1; empty where there are none.
std::vector<std::vector<std::size_t>> cuts_by_dim(const TensorType& type, const MeshLayout& layout,
                                                  std::size_t ndim);
/// Empty if the type is V along a mesh dim.
std::optional<Placements> placements_of(const TensorType& type);

/// Replicas are R where the placement of the gradient is partial, I elsewhere. Fails with Value for
/// placements that no type says: a maximum's terms, strided pieces.
SpmdType dtensor_placement_to_spmd_type(const Placement& placement,
                                        const std::optional<Placement>& gradient = {});
/// Fails with Value for V.
Placement spmd_type_to_dtensor_placement(const SpmdType& type);

/// The type of the gradient: P for R, R for P, itself for the others.
SpmdType gradient_type(const SpmdType& type);
/// V for S(d), itself for the others.
SpmdType without_dim(const SpmdType& type);

/// "R", "I", "V", "P", "S(0)".
std::string to_string(const SpmdType& type);
/// Reads what to_string() prints, dims from the end too; empty when malformed.
std::optional<SpmdType> parse_spmd_type(std::string_view text);
/// "dp S(0)  tp I"; mesh dims of size 1 are left out. A tensor dim that several mesh dims cut shows
/// their places: "dp S(0)[1]".
std::string text_of(const TensorType& type, const MeshLayout& layout);
/// "f32[8@dp, 16]  dp S(0)  tp I"; `meta` has the sizes of the whole tensor.
std::string text_of(const TensorType& type, const MeshLayout& layout, const TensorMeta& meta);

}  // namespace shardlab
