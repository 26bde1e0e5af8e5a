// The members of a mesh while it is captured (T-29 to T-40, T-64).
#include "base/error.h"
#include "base/rank_context.h"
#include "comm/device_mesh.h"
#include "mesh/mesh_dim.h"
#include "mesh/mesh_views.h"
#include "tensor/device.h"
#include "trace/traced_members.h"

namespace shardlab {

namespace {

const MeshLayout& layout_of(const TracedValue& self) { return *TracedObject::mesh(self); }

// A dim by number or name; without one that of a mesh of one dim.
std::size_t dim_of(const MeshLayout& layout, const Arguments& args, std::string_view method) {
  const Argument* dim = args.empty() || args[0].is_none() ? nullptr : &args[0];
  if (dim == nullptr && layout.ndim() == 1) return 0;
  if (dim == nullptr) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("{}: the mesh has {} dims, and none is named", method, layout.ndim()))
        .with("mesh", layout.text())
        .with("fix", fmt::format("{}(\"{}\")", method, layout.names()[0]));
  }
  if (dim->is_string()) return mesh_dim_named(layout, dim->string(), method);
  return mesh_dim_numbered(layout, dim->to_int(), method);
}

std::optional<Coordinate> coordinate_of(const MeshLayout& layout) {
  return layout.coordinate_of(current_rank().rank);
}

// The part of a layout that holds this rank; outside of the mesh the first one.
Coordinate place_on(const MeshLayout& layout) {
  const auto coordinate = coordinate_of(layout);
  return coordinate ? *coordinate : layout.coordinate_at_index(0);
}

TracedValue mesh_ndim(Tracing& tracing, const TracedValue& self, const Arguments&) {
  return tracing.constant(static_cast<std::int64_t>(layout_of(self).ndim()));
}

TracedValue mesh_shape(Tracing& tracing, const TracedValue& self, const Arguments&) {
  return tracing.constant(layout_of(self).shape());
}

TracedValue mesh_device_type(Tracing& tracing, const TracedValue&, const Arguments&) {
  return tracing.constant(std::string(current_rank().device->type()));
}

TracedValue mesh_dim_names(Tracing& tracing, const TracedValue& self, const Arguments&) {
  return tracing.wrap(given_names(layout_of(self)), source_of(self, "mesh_dim_names"));
}

// Ours: m0, m1, ... where the user gave none.
TracedValue mesh_names(Tracing& tracing, const TracedValue& self, const Arguments&) {
  const std::vector<std::string>& names = layout_of(self).names();
  return tracing.constant(ArgumentList(names.begin(), names.end()));
}

TracedValue mesh_size(Tracing& tracing, const TracedValue& self, const Arguments& args) {
  const MeshLayout& layout = layout_of(self);
  if (args.empty() || args[0].is_none()) return tracing.constant(layout.size());
  return tracing.constant(layout.size(dim_of(layout, args, "size")));
}

TracedValue mesh_coordinate(Tracing& tracing, const TracedValue& self, const Arguments&) {
  const auto coordinate = coordinate_of(layout_of(self));
  if (!coordinate) return tracing.constant({});
  return tracing.constant(Dims(coordinate->begin(), coordinate->end()));
}

TracedValue mesh_is_part(Tracing& tracing, const TracedValue& self, const Arguments&) {
  return tracing.constant(coordinate_of(layout_of(self)).has_value());
}

TracedValue mesh_rank(Tracing& tracing, const TracedValue&, const Arguments&) {
  return tracing.constant(current_rank().rank);
}

std::int64_t place_along(const MeshLayout& layout, std::size_t dim, std::string_view method) {
  if (const auto coordinate = coordinate_of(layout)) return (*coordinate)[dim];
  throw Error(ErrorKind::kRuntime,
              fmt::format("{}: rank {} is not in the mesh", method, current_rank().rank))
      .with("mesh", layout.text())
      .with("fix", "ask get_coordinate() first: it is None outside of the mesh");
}

TracedValue mesh_local_rank(Tracing& tracing, const TracedValue& self, const Arguments& args) {
  const MeshLayout& layout = layout_of(self);
  const std::size_t dim = dim_of(layout, args, "get_local_rank");
  return tracing.constant(place_along(layout, dim, "get_local_rank"));
}

TracedValue mesh_sym_coordinate(Tracing& tracing, const TracedValue& self, const Arguments& args) {
  const MeshLayout& layout = layout_of(self);
  const std::size_t dim = dim_of(layout, args, "_sym_get_coordinate");
  return tracing.constant(place_along(layout, dim, "_sym_get_coordinate"));
}

TracedValue mesh_group(Tracing& tracing, const TracedValue& self, const Arguments& args) {
  const MeshLayout& layout = layout_of(self);
  return tracing.wrap(&device_mesh(&layout).group(dim_of(layout, args, "get_group")));
}

// The world's group exists before any program.
TracedValue default_group(Tracing& tracing, const TracedValue&, const Arguments&) {
  return tracing.wrap(current_rank().world);
}

TracedValue mesh_flatten(Tracing& tracing, const TracedValue& self, const Arguments& args) {
  const MeshLayout* layout = TracedObject::mesh(self);
  const std::string name = args.empty() || args[0].is_none() ? "" : args[0].string();
  const MeshLayout* flat = flatten_layout(layout, layout->names(), place_on(*layout), name);
  const bool known = current_rank().meshes->contains(flat);
  if (!known && layout->ndim() > 1) tracing.flatten(layout);
  tracing.construct(flat, fmt::format("{} = flatten {}", flat->text(), layout->text()));
  return tracing.wrap(flat);
}

TracedValue mesh_part(Tracing& tracing, const TracedValue& self, const Arguments& args) {
  const MeshLayout* layout = TracedObject::mesh(self);
  std::vector<std::string> names;
  if (!args.empty() && args[0].is_list()) {
    for (const Argument& name : args[0].list()) names.push_back(name.string());
  } else if (!args.empty()) {
    names.push_back(args[0].string());
  }
  const MeshLayout* part = slice_layout(layout, names, place_on(*layout));
  tracing.construct(part, fmt::format("{} = part of {}", part->text(), layout->text()));
  return tracing.wrap(part);
}

constexpr TracedMember attribute(std::string_view name,
                                 TracedValue (*run)(Tracing&, const TracedValue&,
                                                    const Arguments&)) {
  return {name, MemberUse::kAttribute, Answers::kAlike, run};
}

constexpr TracedMember kMesh[] = {
    {"__getitem__", MemberUse::kMethod, Answers::kAlike, mesh_part, {"mesh_dim_names"}},
    {"_flatten", MemberUse::kMethod, Answers::kAlike, mesh_flatten, {"mesh_dim_name"}},
    {"_get_or_create_default_group", MemberUse::kMethod, Answers::kAlike, default_group},
    {"_is_current_rank_part_of_mesh", MemberUse::kMethod, Answers::kByRank, mesh_is_part},
    {"_sym_get_coordinate", MemberUse::kMethod, Answers::kByRank, mesh_sym_coordinate, {"index"}},
    {"coordinate", MemberUse::kAttribute, Answers::kByRank, mesh_coordinate},
    attribute("device_type", mesh_device_type),
    {"get_coordinate", MemberUse::kMethod, Answers::kByRank, mesh_coordinate},
    {"get_group", MemberUse::kMethod, Answers::kAlike, mesh_group, {"mesh_dim"}},
    {"get_local_rank", MemberUse::kMethod, Answers::kByRank, mesh_local_rank, {"mesh_dim"}},
    {"get_rank", MemberUse::kMethod, Answers::kByRank, mesh_rank},
    attribute("mesh_dim_names", mesh_dim_names),
    attribute("names", mesh_names),
    attribute("ndim", mesh_ndim),
    attribute("shape", mesh_shape),
    {"size", MemberUse::kMethod, Answers::kAlike, mesh_size, {"mesh_dim"}}};

}  // namespace

std::span<const TracedMember> traced_mesh_members() { return kMesh; }

}  // namespace shardlab
