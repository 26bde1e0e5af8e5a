// mesh_names.h - meshes as a report names them: by the names that the program gave them.
#pragma once

#include <string>

#include "sim/run/run.h"

namespace shardlab {

/// `mesh`, `mesh["dp"]`, `sparse`; of a mesh without a name its dims and ranks.
std::string mesh_name(const Run& run, const MeshLayout& layout);
/// " on sparse"; empty on the scenario's mesh, and without a spec.
std::string on_mesh(const Run& run, const DTensorSpec* spec);
/// "f32[8@dp]", "f32[8@ep] on sparse".
std::string shown_type(const Run& run, const DTensorSpec& spec);
/// "pp=0": the places along dims of the scenario's mesh that all ranks of `layout` share.
std::string place_in_mesh(const Run& run, const MeshLayout& layout);
/// Collectives of the run's events are over "tp" of the scenario's mesh or "ep of sparse"; groups
/// of the same ranks in one order become one.
void name_groups(Run& run);

}  // namespace shardlab
