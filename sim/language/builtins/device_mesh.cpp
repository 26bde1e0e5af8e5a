// Meshes that a program makes: of a shape, of ranks, of groups, and of the dims of other meshes.
// Those of a shape and of ranks are collective over the world.
#include <algorithm>

#include "api/mesh.h"
#include "base/fix.h"
#include "base/place_text.h"
#include "base/text_of_list.h"
#include "comm/device_mesh.h"
#include "comm/observer.h"
#include "mesh/mesh_views.h"
#include "sim/language/builtins/local_map.h"
#include "sim/language/run/mesh_value.h"
#include "sim/language/values/global_names.h"

namespace shardlab {

namespace {

std::vector<std::string> names_given(const Parameters& given) {
  constexpr std::string_view kNames = "mesh_dim_names";
  std::vector<std::string> names;
  if (!given.has(kNames)) return names;
  const Values none, &all = given[kNames].is_sequence() ? items_of(given[kNames]) : none;
  for (const Value& name : all) {
    if (name.is<std::string>()) names.push_back(name.as<std::string>());
  }
  if (names.empty() || names.size() != all.size()) {
    fail(Fix{"mesh_dim_names=(\"dp\", \"tp\")"}, "mesh_dim_names is {}; it must be names of dims",
         repr(given[kNames]));
  }
  return names;
}

Arena& arena_of(const Interpreter& in) { return in.setup().layout->arena(); }

// init_device_mesh("cuda", (2, 4), mesh_dim_names=("dp", "tp")). The scenario's is `mesh`, also
// without its names.
Value run_init_device_mesh(Interpreter& in, const Value*, const Parameters& given) {
  const MeshLayout& own = *in.setup().reported;
  const std::vector<std::string> names = names_given(given);
  const Dims shape = given.sizes("mesh_shape");
  // [reference] may be the program itself, on one device.
  const bool alone = in.setup().world_size == 1 && shape.size() == own.ndim();
  const bool same =
      (alone || (shape == own.shape() && own.is_iota())) && (names.empty() || names == own.names());
  if (same) return in.meshes()[0];
  const MeshLayout* layout = arena_of(in).layout({.shape = shape, .names = names, .ranks = {}});
  warn_of_fake(*layout, given["backend_override"]);
  return made_mesh(in, layout);
}

// Nested lists as shape and ranks.
void read_ranks(const Parameters& given, const Value& value, std::size_t depth,
                MeshLayout::Init& init) {
  if (value.is<std::int64_t>() && depth == init.shape.size()) {
    init.ranks.push_back(value.as<std::int64_t>());
    return;
  }
  const Values none, &items = value.is_sequence() ? items_of(value) : none;
  const auto count = static_cast<std::int64_t>(items.size());
  if (init.ranks.empty() && depth == init.shape.size()) init.shape.push_back(count);
  if (items.empty() || depth >= init.shape.size() || init.shape[depth] != count) {
    fail(Fix{"write for example mesh=[[0, 1], [2, 3]]"},
         "DeviceMesh: argument 'mesh' is {}, not an array of ranks whose rows are of one length",
         repr(given["mesh"]));
  }
  for (const Value& item : items) read_ranks(given, item, depth + 1, init);
}

MeshLayout::Init ranks_given(Interpreter& in, const Parameters& given) {
  MeshLayout::Init init{.shape = {}, .names = names_given(given), .ranks = {}};
  Value ranks = given["mesh"];
  if (ranks.is_tensor()) ranks = in.call(in.attribute(ranks, "tolist"), {});
  read_ranks(given, in.settle(ranks), 0, init);
  if (init.shape.empty()) init.shape.push_back(1);
  return init;
}

// The dims whose groups PyTorch would put in another order than that of the mesh.
std::vector<std::string> sorted_dims(const MeshLayout& layout) {
  std::vector<std::string> dims;
  for (std::size_t dim = 0; dim < layout.ndim(); ++dim) {
    bool sorted = true;
    for (std::int64_t i = 0; i < layout.size(); ++i) {
      const auto group = layout.group_ranks(dim, layout.coordinate_at_index(i));
      sorted = sorted && std::ranges::is_sorted(group);
    }
    if (!sorted) dims.push_back(layout.names()[dim]);
  }
  return dims;
}

void warn_of_sorted_groups(const MeshLayout& layout) {
  Observer* const observer = observer_to_tell();
  const std::vector<std::string> dims = sorted_dims(layout);
  if (dims.empty() || observer == nullptr) return;
  observer->warning(fmt::format(
      "{}: mesh.sorted-groups: PyTorch sorts the ranks of the groups along {} of {}, so that "
      "get_local_rank() is not the coordinate there and pieces change places; "
      "preserve_rank_order=True keeps the order, as here",
      place_text(current_rank().position), text_of_list(dims, ", "), layout.text()));
}

Value run_make_mesh(Interpreter& in, const Value*, const Parameters& given) {
  const MeshLayout* layout = arena_of(in).layout(ranks_given(in, given));
  if (!given.flag_or("preserve_rank_order", false)) warn_of_sorted_groups(*layout);
  warn_of_fake(*layout, given["backend_override"]);
  return made_mesh(in, layout);
}

GroupValue group_in(const Value& value) {
  const auto* group = value.get<GroupValue>();
  if (group != nullptr && !group->outside) return *group;
  fail(ErrorKind::kRuntime, Fix{"call it with a group that the rank is in: mesh.get_group(\"tp\")"},
       "DeviceMesh.from_group: {} is no group with this rank", repr(value));
}

Value run_from_group(Interpreter& in, const Value*, const Parameters& given) {
  std::vector<GroupValue> groups;
  const bool list = given["group"].is_sequence();
  if (list) {
    for (const Value& item : items_of(given["group"])) groups.push_back(group_in(item));
  } else {
    groups.push_back(group_in(given["group"]));
  }
  MeshLayout::Init init{.shape = {}, .names = names_given(given), .ranks = {}};
  if (list) {
    if (groups.empty() || !given.has("mesh") || init.names.empty()) {
      fail(Fix{"from_group([g1, g2], \"cpu\", [[0, 1], [2, 3]], "
               "mesh_dim_names=(\"dp\", \"tp\"))"},
           "DeviceMesh.from_group: several groups need mesh= and mesh_dim_names=");
    }
    init = ranks_given(in, given);
    if (init.shape.size() != groups.size()) {
      fail(Fix{"give one group for each dim of mesh="},
           "DeviceMesh.from_group: {} groups for a mesh of {} dims", groups.size(),
           init.shape.size());
    }
  } else {
    init.ranks = groups_by_rank(in, groups[0]).ranks(in.setup().rank);
    init.shape = {static_cast<std::int64_t>(init.ranks.size())};
    if (given.has("mesh") && ranks_given(in, given).ranks != init.ranks) {
      fail(Fix{"leave mesh= out"}, "DeviceMesh.from_group: mesh= is not the ranks of the group, {}",
           text_of_list(init.ranks, ", "));
    }
  }
  const MeshValue mesh = mesh_value(in, arena_of(in).layout(std::move(init)));
  if (in.plain()) return made_mesh(in, mesh.reported);
  std::vector<ProcessGroup*> members;
  for (std::size_t dim = 0; dim < groups.size(); ++dim) {
    members.push_back(&group_of(in, groups[dim]));
    const auto wanted = mesh.reported->group_of(dim, in.setup().rank);
    if (std::ranges::equal(members[dim]->ranks(), wanted)) continue;
    fail(Fix{"give the ranks of the groups, in their order"},
         "DeviceMesh.from_group: group {} has the ranks {}, and dim {} of mesh= {}", dim,
         text_of_list(members[dim]->ranks(), ", "), dim, text_of_list(wanted, ", "));
  }
  current_rank().meshes->construct_of(mesh.layout, std::move(members));
  return mesh;
}

Value run_concatenate(Interpreter& in, const Value*, const Parameters& given) {
  constexpr std::string_view kList = "device_mesh_list";
  std::vector<MeshView> views;
  const Values none, &meshes = given[kList].is_sequence() ? items_of(given[kList]) : none;
  for (const Value& item : meshes) {
    if (item.is<MeshValue>()) views.push_back(view_of(*item.as<MeshValue>().reported));
  }
  if (views.empty() || views.size() != meshes.size()) {
    fail(Fix{"DeviceMesh._concatenate([mesh[\"dp\"], mesh[\"tp\"]])"},
         "DeviceMesh._concatenate: {} is no list of meshes", repr(given[kList]));
  }
  const MeshLayout* layout = part_of(concatenated(views), in.setup().rank);
  return mesh_value(in, layout, meshes[0].as<MeshValue>().root);
}

}  // namespace

BuiltinTable device_mesh_builtins() {
  static const Builtin kTable[] = {
      {std::string(kMakeMesh),
       "DeviceMesh(device_type, mesh, mesh_dim_names=, backend_override=, preserve_rank_order=)",
       run_make_mesh},
      {"_concatenate", "DeviceMesh._concatenate(device_mesh_list)", run_concatenate},
      {"from_group", "DeviceMesh.from_group(group, device_type, mesh=, mesh_dim_names=)",
       run_from_group}};
  return kTable;
}

BuiltinTable mesh_builtins() {
  static const Builtin kTable[] = {
      {"init_device_mesh", "(device_type, mesh_shape, mesh_dim_names=, backend_override=)",
       run_init_device_mesh},
      {"local_map", run_local_map}};
  return kTable;
}

}  // namespace shardlab
