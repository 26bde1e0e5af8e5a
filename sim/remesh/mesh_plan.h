// mesh_plan.h - placements of a program's values on a mesh, and the layouts that a user gives.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "mesh/placement.h"

namespace shardlab {

/// A mesh dim as --mesh gives it.
struct PlanMeshDim {
  std::string name;
  std::int64_t size = 1;
};
using PlanMesh = std::vector<PlanMeshDim>;

/// One --place: "layers.*.wq.weight=[_@tp, _]"; for a module's inputs or outputs,
/// "layers.*.wo:out=[_, _, _]".
struct TensorPlacing {
  std::string pattern;  ///< "*" matches any part of a path
  enum class Of : std::uint8_t { kTensor, kModuleInput, kModuleOutput } of = Of::kTensor;
  std::vector<std::string> dims;  ///< "_@tp", "_"
  std::string text;               ///< as written
};
/// A line of a plan file, in the words of parallelize_module: a style of modules.
struct ParallelStyle {
  std::string file;                            ///< the file that it is from
  std::string module;                          ///< its path; "*" matches any part
  std::string name;                            ///< "RowwiseParallel"
  std::map<std::string, std::string> options;  ///< output_layouts = "Shard(1)"
  std::string dim;                             ///< of the mesh; empty: the last
};

/// The layouts that a user gives in addition to a plan.
struct PlanLayouts {
  std::vector<ParallelStyle> styles;
  std::vector<TensorPlacing> placings;  ///< applied after all others
};
/// Placements of some mesh dims, by name; others stay as they are.
using Moved = std::vector<std::pair<std::string, Placement>>;

/// The layout of a program's inputs, and its moves.
struct MeshPlan {
  /// Each input has for each tensor dim the mesh dims that cut it, the first cut first.
  std::map<std::int32_t, std::vector<std::vector<std::string>>> cuts;
  /// Placements for redistribute() before an operand is used, by statement and operand.
  std::map<std::pair<std::size_t, std::int32_t>, Moved> before;
  /// The same for the first result of a statement.
  std::map<std::size_t, Moved> after;
  /// Statements of linear whose bias is added after `after`, since their result is a pending sum.
  std::vector<std::size_t> bias_behind;
  std::vector<std::string> notes;  ///< parts that the plan could not cut

  /// The mesh dim of this name cuts a dim of an input, if there is one with this number.
  void cut(std::int32_t value, std::size_t dim, const std::string& name) {
    const auto found = cuts.find(value);
    if (found == cuts.end() || dim >= found->second.size()) return;
    std::vector<std::string>& names = found->second[dim];
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
};

}  // namespace shardlab
