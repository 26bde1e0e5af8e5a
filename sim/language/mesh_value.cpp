// Meshes, placements, reductions and groups as programs write them: by name wherever the mesh has
// names. A run of the single-device reference keeps two layouts apart: the one it runs on and the
// one that the program is told.
#include "sim/language/mesh_value.h"

#include <algorithm>

#include "base/fix.h"
#include "base/nearest.h"
#include "comm/device_mesh.h"

namespace shardlab {

namespace {

std::vector<std::string> names_of(const Value& key) {
  if (const auto* name = key.get<std::string>()) return {*name};
  std::vector<std::string> names;
  if (key.is_sequence()) {
    for (const Value& item : items_of(key)) {
      if (!item.is<std::string>()) break;
      names.push_back(item.as<std::string>());
    }
    if (!names.empty() && names.size() == items_of(key).size()) return names;
  }
  fail(ErrorKind::kValue, Fix{"write mesh[\"tp\"], or mesh[\"dp\", \"tp\"]"},
       "the index of a mesh must be names of its dims, not {}", repr(key));
}

[[noreturn]] void refuse_dim(const MeshLayout& layout, std::string_view name,
                             std::string_view where) {
  throw Error(ErrorKind::kValue, fmt::format("{}: '{}' is not a mesh dim", where, name))
      .with("mesh", layout.text())
      .with("fix", suggest(name, layout.names()));
}

}  // namespace

MeshValue slice_mesh(const MeshValue& mesh, const Value& key, std::int64_t told_rank) {
  const std::vector<std::string> names = names_of(key);
  for (const std::string& name : names) {
    if (!mesh.reported->find_dim(name)) refuse_dim(*mesh.reported, name, "mesh[...]");
  }
  // No part holds a rank outside of the mesh: the first part gives the shape.
  const auto part = [&](const MeshLayout* layout, std::int64_t rank) {
    const auto coordinate = layout->coordinate_of(rank);
    return slice_layout(layout, names, coordinate ? *coordinate : layout->coordinate_at_index(0));
  };
  const RankContext* context = current_rank_or_null();
  return {part(mesh.layout, context != nullptr ? context->rank : told_rank),
          part(mesh.reported, told_rank)};
}

Placement placement_of(const Value& value) {
  if (const auto* placement = value.get<Placement>()) return *placement;
  if (const auto* text = value.get<std::string>()) {
    if (const auto parsed = parse_placement(*text)) return *parsed;
  }
  throw Error(ErrorKind::kValue, fmt::format("{} is not a placement", repr(value)))
      .with("fix", "write R, S(dim) or P(sum)");
}

Placements placements_of(const MeshLayout& layout, Placements base,
                         const std::vector<std::pair<std::string, Value>>& keywords,
                         std::string_view function) {
  for (const auto& [name, value] : keywords) {
    const auto dim = layout.find_dim(name);
    if (!dim) refuse_dim(layout, name, function);
    base[*dim] = placement_of(value);
  }
  return base;
}

ReduceOp reduction_of(const Value& value) {
  std::string name;
  if (const auto* op = value.get<ReduceOp>()) return *op;
  if (const auto* text = value.get<std::string>()) name = *text;
  if (const auto* builtin = value.get<BuiltinValue>()) name = builtin->builtin->name;
  if (const auto* op = value.get<OpValue>()) name = op->name;
  if (const auto op = parse_reduce_op(name)) return *op;
  std::vector<std::string> known;
  for (int i = 0; i < kReduceOpCount; ++i) known.emplace_back(to_string(static_cast<ReduceOp>(i)));
  throw Error(ErrorKind::kValue, fmt::format("{} is not a reduction", repr(value)))
      .with("fix", suggest(name, known));
}

ProcessGroup& group_of(const Interpreter& interpreter, const Value& group) {
  if (group.is_none()) return *current_rank().world;
  const MeshLayout* layout = interpreter.setup().layout;
  std::string name;
  if (const auto* text = group.get<std::string>()) {
    name = *text;
  } else if (const auto* mesh = group.get<MeshValue>(); mesh && mesh->layout->ndim() == 1) {
    name = mesh->layout->names()[0];
  } else {
    fail(ErrorKind::kValue,
         Fix{fmt::format("use \"world\" or one of: {}", fmt::join(layout->names(), ", "))},
         "a group must be the name of a mesh dim, or a mesh of one dim, not {}", repr(group));
  }
  if (name == "world") return *current_rank().world;
  const auto dim = layout->find_dim(name);
  if (!dim) refuse_dim(*layout, name, "group");
  return device_mesh(layout).group(*dim);
}

const MeshLayout* layout_of(const Interpreter& interpreter, const Value& mesh) {
  if (mesh.is_none()) return interpreter.setup().layout;
  if (const auto* given = mesh.get<MeshValue>()) return given->layout;
  fail(ErrorKind::kValue, Fix{"pass mesh, or leave it out for the scenario's mesh"},
       "'mesh' is {}; it must be a mesh", a_kind(mesh));
}

}  // namespace shardlab
