// layouts.h - the layouts that a user gives in addition to a plan, applied to a program.
#pragma once

#include <string>

#include "sim/remesh/call_program.h"
#include "sim/remesh/mesh_plan.h"

namespace shardlab {

///   fails  Value: malformed
TensorPlacing parse_placing(const std::string& text);

/// Adds the contents of a plan file:
///   dim = "tp"
///   [modules]
///   "layers.*.attention.wq" = "ColwiseParallel"
///   "layers.*.attention.wo" = { style = "RowwiseParallel", output_layouts = "Shard(1)" }
///   [weights]
///   "norm.weight" = "[_]"
///   fails  Value: no such file, malformed, a style that does not exist
void read_layouts(const std::string& path, PlanLayouts& layouts);

/// Styles of modules, then placings; the last that names a value counts.
///   fails  Value: a style or placing that fits nothing
void apply_layouts(const CallProgram& program, const PlanMesh& mesh, const PlanLayouts& layouts,
                   MeshPlan& plan);

}  // namespace shardlab
