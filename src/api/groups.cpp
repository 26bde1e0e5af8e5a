// Looked up in the meshes of the running rank; only flattened_mesh() communicates.
#include "api/groups.h"

#include <algorithm>

#include "api/mesh.h"
#include "autograd/at_place.h"
#include "base/error.h"
#include "base/rank_context.h"
#include "base/text.h"
#include "comm/device_mesh.h"
#include "mesh/mesh_dim.h"
#include "mesh/mesh_views.h"
#include "ops/core/factor_rule.h"

namespace shardlab {

namespace {

std::size_t dim_named(const MeshLayout* mesh, std::string_view name, std::string_view function) {
  check_mesh(mesh, function);
  if (name.empty() && mesh->ndim() == 1) return 0;
  if (name.empty()) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("{}: the mesh has {} dims, and none is named", function, mesh->ndim()))
        .with("mesh", mesh->text())
        .with("fix", fmt::format("{}(mesh, \"{}\")", function, mesh->names()[0]));
  }
  return mesh_dim_named(*mesh, name, function);
}

std::vector<ProcessGroup*> groups_of(const MeshLayout* mesh) {
  std::vector<ProcessGroup*> groups = {&world_group()};
  const DeviceMesh& view = device_mesh(mesh);
  if (!view.participates()) return groups;
  for (std::size_t dim = 0; dim < mesh->ndim(); ++dim) groups.push_back(&view.group(dim));
  return groups;
}

}  // namespace

std::optional<Coordinate> get_coordinate(const MeshLayout* mesh) {
  check_mesh(mesh, "get_coordinate");
  return mesh->coordinate_of(current_rank().rank);
}

std::int64_t get_local_rank(const MeshLayout* mesh, std::string_view dim, SourceLine place) {
  return at_place(place, [&] {
    const std::size_t index = dim_named(mesh, dim, "get_local_rank");
    if (const auto coordinate = get_coordinate(mesh)) return (*coordinate)[index];
    throw Error(ErrorKind::kRuntime,
                fmt::format("get_local_rank: rank {} is not in the mesh", current_rank().rank))
        .with("mesh", mesh->text())
        .with("fix", "ask on the ranks of the mesh only: if (get_coordinate(mesh))");
  });
}

ProcessGroup& get_group(const MeshLayout* mesh, std::string_view dim, SourceLine place) {
  return at_place(place, [&]() -> ProcessGroup& {
    const std::size_t index = dim_named(mesh, dim, "get_group");
    return device_mesh(mesh).group(index);
  });
}

std::vector<ProcessGroup*> groups_of(const OnPieces& call, char letter) {
  std::vector<ProcessGroup*> groups;
  for (const std::size_t dim : mesh_dims_of(call, letter)) {
    groups.push_back(&device_mesh(call.decision.inputs[0]->layout()).group(dim));
  }
  return groups;
}

ProcessGroup& world_group() { return *current_rank().world; }

const MeshLayout* flattened_mesh(const MeshLayout* mesh, const std::vector<std::string>& dims,
                                 std::string_view name, SourceLine place) {
  return at_place(place, [&] {
    const auto coordinate = get_coordinate(mesh);
    const MeshLayout* flat =
        flatten_layout(mesh, dims, coordinate ? *coordinate : mesh->coordinate_at_index(0), name);
    if (dims.size() > 1) flatten_mesh(mesh, dims);
    return construct_mesh(flat);
  });
}

std::string get_group_tag(const ProcessGroup& group) { return "ptd:" + group.name(); }

bool rank_not_in_group(const ProcessGroup* group) { return group == nullptr; }

std::vector<std::int64_t> get_process_group_ranks(const ProcessGroup* group) {
  return (group != nullptr ? *group : world_group()).identity().ranks();
}

std::int64_t get_group_size_by_name(const MeshLayout* mesh, std::string_view name) {
  std::vector<std::string> names;
  for (const ProcessGroup* group : groups_of(mesh)) {
    if (group->name() == name) return group->size();
    names.push_back(group->name());
  }
  throw Error(ErrorKind::kValue,
              fmt::format("get_group_size_by_name: no process group is called '{}'", name))
      .with("mesh", mesh->text())
      .with("fix", suggest(name, names));
}

std::string resolve_group_name_by_ranks_and_tag(const MeshLayout* mesh,
                                                std::span<const std::int64_t> ranks,
                                                std::string_view tag) {
  for (const ProcessGroup* group : groups_of(mesh)) {
    if (!tag.empty() && tag != get_group_tag(*group)) continue;
    const std::vector<std::int64_t> own = get_process_group_ranks(group);
    if (std::ranges::is_permutation(own, ranks)) return group->name();
  }
  throw Error(ErrorKind::kValue, fmt::format("no process group of this rank has the ranks [{}]",
                                             text_of_list(ranks, ", ")))
      .with("mesh", mesh->text())
      .with("fix", "get_process_group_ranks(&get_group(mesh, \"tp\")) says the ranks of one");
}

}  // namespace shardlab
