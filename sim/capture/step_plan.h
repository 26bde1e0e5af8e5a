// step_plan.h - placements of a recorded program's values on a mesh: plans by name, from the use of
// weights in calls and not from names of modules, and the user's own placements by path.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/capture/step_program.h"

namespace shardlab {

/// A mesh dim as --mesh gives it.
struct StepMeshDim {
  std::string name;
  std::int64_t size = 1;
};
using StepMesh = std::vector<StepMeshDim>;

/// One --place: "layers.*.wq.weight=[_@tp, _]"; for a module's inputs or outputs,
/// "layers.*.wo:out=[_, _, _]".
struct StepPlacing {
  std::string pattern;  ///< "*" matches any part of a path
  enum class Of : std::uint8_t { kTensor, kModuleInput, kModuleOutput } of = Of::kTensor;
  std::vector<std::string> dims;  ///< "_@tp", "_"
  std::string text;               ///< as written
};
///   fails  Value: malformed
StepPlacing parse_placing(const std::string& text);

/// A line of a plan file, in the words of parallelize_module: a style of modules.
struct StepStyle {
  std::string file;                            ///< the file that it is from
  std::string module;                          ///< its path; "*" matches any part
  std::string name;                            ///< "RowwiseParallel"
  std::map<std::string, std::string> options;  ///< output_layouts = "Shard(1)"
  std::string dim;                             ///< of the mesh; empty: the last
};

/// The layouts that a user gives in addition to a plan.
struct StepLayouts {
  std::vector<StepStyle> styles;
  std::vector<StepPlacing> placings;  ///< applied after all others
};
/// Adds the contents of a plan file:
///   dim = "tp"
///   [modules]
///   "layers.*.attention.wq" = "ColwiseParallel"
///   "layers.*.attention.wo" = { style = "RowwiseParallel", output_layouts = "Shard(1)" }
///   [weights]
///   "norm.weight" = "[_]"
///   fails  Value: no such file, malformed, a style that does not exist
void read_layouts(const std::string& path, StepLayouts& layouts);

/// The layout of a program's inputs, and its moves.
struct StepPlan {
  /// By input: for each tensor dim the mesh dims that cut it, the first cut first.
  std::map<std::size_t, std::vector<std::vector<std::string>>> cuts;
  /// By statement and operand: the placements for redistribute() before it is used.
  std::map<std::pair<std::size_t, std::size_t>, std::string> before;
  /// By statement: the same for its first result.
  std::map<std::size_t, std::string> after;
  /// Statements of linear whose bias is added after `after`, since their result is a pending sum.
  std::vector<std::size_t> bias_behind;
  std::vector<std::string> notes;  ///< parts that the plan could not cut
};

/// The names of plans: megatron, sequence, fsdp, hsdp, fsdp+tp, replicate.
const std::vector<std::string>& plan_names();

/// `name` may be empty: everything whole on every rank, except for `layouts`.
///   megatron   tp is the last mesh dim; batches are cut over the others
///   sequence   the same; between layers the sequence is cut over tp
///   fsdp       parameters and batches are cut over all mesh dims, parameters gathered on use
///   hsdp       the same, but parameters are whole over the first mesh dim
///   fsdp+tp    megatron on the last mesh dim, fsdp on the others
///   replicate  parameters are whole, batches cut over all mesh dims
///   fails  Value: no such plan; a placing or style that fits nothing
StepPlan plan_of(const StepProgram& program, const StepMesh& mesh, const std::string& name,
                 const StepLayouts& layouts);

}  // namespace shardlab
