// Questions of programs to a mesh. An answer that differs between ranks is a value by rank, so that
// one run can represent a class of them.
#include <algorithm>

#include "base/error.h"
#include "comm/device_mesh.h"
#include "mesh/mesh_views.h"
#include "sim/language/run/mesh_value.h"
#include "tensor/device.h"

namespace shardlab {

namespace {

const MeshValue& mesh_of(const Value* self) { return self->as<MeshValue>(); }
const MeshLayout& reported(const Value* self) { return *mesh_of(self).reported; }

// The dim that a call names; of a mesh of one dim that dim.
std::size_t chosen_dim(const MeshLayout& layout, const Parameters& given,
                       std::string_view function) {
  if (given.has("mesh_dim")) return mesh_dim(layout, given["mesh_dim"]);
  if (layout.ndim() == 1) return 0;
  throw Error(ErrorKind::kRuntime,
              fmt::format("{}: the mesh has {} dims, and none is named", function, layout.ndim()))
      .with("mesh", layout.text())
      .with("fix", fmt::format("mesh.{}(\"{}\")", function, layout.names()[0]));
}

void check_inside(const Interpreter& in, const MeshLayout& layout, std::string_view function) {
  if (layout.coordinate_of(in.setup().rank)) return;
  throw Error(ErrorKind::kRuntime,
              fmt::format("{}: rank {} is not in the mesh", function, in.setup().rank))
      .with("mesh", layout.text())
      .with("fix", "ask on the ranks of the mesh only: if mesh.get_coordinate() is not None");
}

Value run_mesh_size(Interpreter&, const Value* self, const Parameters& given) {
  const MeshLayout& layout = reported(self);
  return given.has("mesh_dim") ? layout.size(mesh_dim(layout, given["mesh_dim"])) : layout.size();
}

Value coordinates(const Interpreter& in, const MeshValue& mesh) {
  Values all;
  for (std::size_t dim = 0; dim < mesh.reported->ndim(); ++dim) {
    all.push_back(coordinate_along(in, mesh, dim));
  }
  return make_tuple(std::move(all));
}

// Outside of the mesh the coordinate is None.
Value run_coordinate(Interpreter& in, const Value* self, const Parameters& given) {
  const MeshLayout& layout = reported(self);
  if (!layout.coordinate_of(in.setup().rank)) return {};
  if (!given.has("dim")) return coordinates(in, mesh_of(self));
  return coordinate_along(in, mesh_of(self), mesh_dim(layout, given["dim"]));
}

Value run_get_coordinate(Interpreter& in, const Value* self, const Parameters&) {
  if (!reported(self).coordinate_of(in.setup().rank)) return {};
  return coordinates(in, mesh_of(self));
}

Value run_sym_coordinate(Interpreter& in, const Value* self, const Parameters& given) {
  check_inside(in, reported(self), "_sym_get_coordinate");
  return coordinate_along(in, mesh_of(self), mesh_dim(reported(self), given["index"]));
}

Value run_mesh_rank(Interpreter& in, const Value*, const Parameters&) {
  return by_rank(in, [](std::int64_t rank) { return Value(rank); });
}

Value run_get_local_rank(Interpreter& in, const Value* self, const Parameters& given) {
  const std::size_t dim = chosen_dim(reported(self), given, "get_local_rank");
  check_inside(in, reported(self), "get_local_rank");
  return coordinate_along(in, mesh_of(self), dim);
}

Value run_get_group(Interpreter& in, const Value* self, const Parameters& given) {
  const auto* name = given["mesh_dim"].get<std::string>();
  for (const MeshLayout* flat : mesh_of(self).root->flats) {
    if (name != nullptr && flat->names()[0] == *name) {
      return GroupValue{.mesh = mesh_value(in, flat, mesh_of(self).root), .dim = 0};
    }
  }
  const std::size_t dim = chosen_dim(reported(self), given, "get_group");
  check_inside(in, reported(self), "get_group");
  return GroupValue{.mesh = mesh_of(self), .dim = dim};
}

Value run_get_all_groups(Interpreter& in, const Value* self, const Parameters&) {
  check_inside(in, reported(self), "get_all_groups");
  Values groups;
  for (std::size_t dim = 0; dim < reported(self).ndim(); ++dim) {
    groups.emplace_back(GroupValue{.mesh = mesh_of(self), .dim = dim});
  }
  return make_list(std::move(groups));
}

Value run_is_part(Interpreter& in, const Value* self, const Parameters&) {
  return reported(self).coordinate_of(in.setup().rank).has_value();
}

Value run_default_group(Interpreter&, const Value*, const Parameters&) { return GroupValue{}; }

Value run_flatten(Interpreter& in, const Value* self, const Parameters& given) {
  MeshValue flat = flattened(in, mesh_of(self), given.text_or("mesh_dim_name", ""));
  warn_of_fake(*flat.reported, given["backend_override"]);
  return flat;
}

Value run_unflatten(Interpreter& in, const Value* self, const Parameters& given) {
  std::vector<std::string> names;
  if (!given["mesh_dim_names"].is_sequence()) {
    given.refuse("mesh_dim_names", "names of dims", "(\"dp\", \"tp\")");
  }
  for (const Value& name : items_of(given["mesh_dim_names"])) names.push_back(str(name));
  const MeshLayout& layout = reported(self);
  Dims sizes = given.sizes("mesh_sizes");
  if (in.plain() && in.setup().world_size == 1) std::ranges::fill(sizes, 1);
  const MeshView view = unflattened(view_of(layout), mesh_dim(layout, given["dim"]), sizes, names);
  const MeshLayout* made = part_of(view, in.setup().rank);
  warn_of_fake(*made, given["backend_override"]);
  return made_mesh(in, made, mesh_of(self).root);
}

Value run_root_mesh(Interpreter& in, const Value* self, const Parameters&) {
  return mesh_value(in, reported(self).root(), mesh_of(self).root);
}

// Lines through other ranks are meshes, too; this rank has no place in them.
Value run_submeshes(Interpreter& in, const Value* self, const Parameters& given) {
  const MeshLayout& layout = reported(self);
  const std::size_t dim = mesh_dim(layout, given["mesh_dim_name"]);
  const MeshSteps steps = layout.steps(dim);
  const MeshLayout& root = *layout.root();
  Values lines;
  for (std::int64_t i = 0; i < root.size(); ++i) {
    const std::int64_t rank = root.rank_at_index(i);
    if (first_along(root, steps, rank) != i) continue;
    const MeshLayout* line = root.arena().layout({.shape = {layout.size(dim)},
                                                  .names = {layout.names()[dim]},
                                                  .ranks = ranks_along(root, steps, rank)});
    const MeshValue mesh = mesh_value(in, line);
    const bool own = first_along(root, steps, in.setup().rank) == i && !in.plain();
    std::vector<ProcessGroup*> groups;
    if (own && line->coordinate_of(in.setup().rank)) {
      groups.push_back(&group_of(in, GroupValue{.mesh = mesh_of(self), .dim = dim}));
    }
    if (!in.plain()) current_rank().meshes->construct_of(line, std::move(groups));
    lines.emplace_back(mesh);
  }
  return make_list(std::move(lines));
}

Value nested_ranks(const MeshLayout& layout, std::size_t dim, std::int64_t index) {
  if (dim == layout.ndim()) return layout.rank_at_index(index);
  Values items;
  for (std::int64_t i = 0; i < layout.size(dim); ++i) {
    items.push_back(nested_ranks(layout, dim + 1, index * layout.size(dim) + i));
  }
  return make_list(std::move(items));
}

// An array of ranks as a plain tensor; of a part this rank's.
Value run_mesh_ranks(Interpreter& in, const Value* self, CallValues) {
  const MeshLayout& layout = reported(self);
  if (layout.is_cut()) check_inside(in, layout, "mesh");
  return find_function("tensor")->run(
      in, nullptr, {{nested_ranks(layout, 0, 0)}, {{"dtype", Value(DType::kI32)}}});
}

Value run_shape(Interpreter&, const Value* self, CallValues) {
  return make_tuple(reported(self).shape());
}

Value run_mesh_ndim(Interpreter&, const Value* self, CallValues) {
  return static_cast<std::int64_t>(reported(self).ndim());
}

Value run_names(Interpreter&, const Value* self, CallValues) {
  Values out;
  for (const std::string& name : reported(self).names()) out.emplace_back(name);
  return make_tuple(std::move(out));
}

Value run_mesh_dim_names(Interpreter& in, const Value* self, CallValues) {
  return reported(self).named() ? run_names(in, self, {}) : Value();
}

Value run_device_type(Interpreter& in, const Value*, CallValues) {
  const std::string own(current_rank().device->type());
  return in.answer([&] { return Value(own); }, own);
}

}  // namespace

BuiltinTable mesh_methods() {
  static const Builtin kTable[] = {
      {"_flatten", "(mesh_dim_name=, backend_override=)", run_flatten},
      {"_get_all_submeshes", "(mesh_dim_name)", run_submeshes},
      {"_get_or_create_default_group", "()", run_default_group},
      {"_get_root_mesh", "()", run_root_mesh},
      {"_is_current_rank_part_of_mesh", "()", run_is_part},
      {"_sym_get_coordinate", "(index)", run_sym_coordinate},
      {"_unflatten", "(dim, mesh_sizes, mesh_dim_names, backend_override=)", run_unflatten},
      {"coordinate", "(dim=)", run_coordinate, Member::kEither},
      {"device_type", run_device_type, Member::kValue},
      {"get_all_groups", "()", run_get_all_groups},
      {"get_coordinate", "()", run_get_coordinate},
      {"get_group", "(mesh_dim=)", run_get_group},
      {"get_local_rank", "(mesh_dim=)", run_get_local_rank},
      {"get_rank", "()", run_mesh_rank},
      {"mesh", run_mesh_ranks, Member::kValue},
      {"mesh_dim_names", run_mesh_dim_names, Member::kValue},
      {"names", run_names, Member::kEither},
      {"ndim", run_mesh_ndim, Member::kEither},
      {"shape", run_shape, Member::kEither},
      {"size", "(mesh_dim=)", run_mesh_size},
  };
  return kTable;
}

}  // namespace shardlab
