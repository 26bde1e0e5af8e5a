// Meshes, placements, reductions and groups as programs write them: by name if the mesh has names.
// A run of the single-device reference keeps two layouts apart: the one it runs on and the one that
// the program sees.
#include "sim/language/run/mesh_value.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <unordered_map>

#include "api/mesh.h"
#include "base/fix.h"
#include "base/nearest.h"
#include "base/text_of_list.h"
#include "comm/device_mesh.h"
#include "mesh/mesh_dim.h"
#include "sim/language/values/rank_value.h"

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

// The dims of the scenario's mesh that one dim of a mesh runs over.
Dims dims_along(const Interpreter& in, const MeshValue& mesh, std::size_t dim) {
  if (mesh.along != nullptr) return (*mesh.along)[dim];
  const auto found = in.setup().reported->find_dim(mesh.reported->names()[dim]);
  check_invariant(found.has_value(), "a part of a mesh has its names");
  return {static_cast<std::int64_t>(*found)};
}

std::int64_t place_along(const MeshLayout& whole, const Dims& dims, const Coordinate& coordinate) {
  std::int64_t place = 0;
  for (const std::int64_t dim : dims) {
    const auto index = static_cast<std::size_t>(dim);
    place = place * whole.size(index) + coordinate[index];
  }
  return place;
}

// The place whose parts of a layout the program sees: the running rank's, or the first if it is not
// in the mesh.
Coordinate place_in(const MeshLayout& layout, std::int64_t rank) {
  const auto coordinate = layout.coordinate_of(rank);
  return coordinate ? *coordinate : layout.coordinate_at_index(0);
}

std::int64_t running_rank_of(const Interpreter& in) {
  const RankContext* context = current_rank_or_null();
  return context != nullptr ? context->rank : in.setup().rank;
}

}  // namespace

MeshValue slice_mesh(const Interpreter& in, const MeshValue& mesh, const Value& key) {
  const std::vector<std::string> names = names_of(key);
  if (names.size() == 1) {
    const auto flat = in.flattened_meshes().find(names[0]);
    if (flat != in.flattened_meshes().end()) return flat->second;
  }
  std::vector<Dims> along;
  for (const std::string& name : names) {
    along.push_back(dims_along(in, mesh, mesh_dim_named(*mesh.reported, name, "mesh[...]")));
  }
  // No part holds a rank outside of the mesh: the first part gives the shape.
  return {slice_layout(mesh.layout, names, place_in(*mesh.layout, running_rank_of(in))),
          slice_layout(mesh.reported, names, place_in(*mesh.reported, in.setup().rank)),
          std::make_shared<const std::vector<Dims>>(std::move(along))};
}

MeshValue flattened(Interpreter& in, const MeshValue& mesh, std::string name) {
  const std::vector<std::string>& names = mesh.reported->names();
  if (name.empty()) name = text_of_list(names, "_");
  const MeshLayout& whole = *in.setup().reported;
  Dims along;
  std::vector<std::string> whole_names;
  for (std::size_t dim = 0; dim < names.size(); ++dim) {
    for (const std::int64_t one : dims_along(in, mesh, dim)) {
      along.push_back(one);
      whole_names.push_back(whole.names()[static_cast<std::size_t>(one)]);
    }
  }
  const auto known = in.flattened_meshes().find(name);
  const bool again = known != in.flattened_meshes().end();
  if (again && known->second.along->at(0) == along) return known->second;
  if (names.size() == 1 && names[0] == name) return mesh;
  if (again || whole.find_dim(name)) {
    throw Error(ErrorKind::kValue, fmt::format("_flatten: the mesh has a dim '{}' already", name))
        .with("mesh", whole.text())
        .with("fix", "give the flattened dim another name: mesh._flatten(\"all\")");
  }
  const MeshValue flat{
      flatten_layout(mesh.layout, names, place_in(*mesh.layout, running_rank_of(in)), name),
      flatten_layout(mesh.reported, names, place_in(*mesh.reported, in.setup().rank), name),
      std::make_shared<const std::vector<Dims>>(1, along)};
  if (whole_names.size() > 1) flatten_mesh(in.setup().layout, whole_names);
  construct_mesh(flat.layout);
  in.keep_flattened(name, flat);
  return flat;
}

std::size_t mesh_dim(const MeshLayout& layout, const Value& dim) {
  constexpr std::string_view kAsker = "mesh";
  if (const auto* name = dim.get<std::string>()) return mesh_dim_named(layout, *name, kAsker);
  if (const auto* index = dim.get<std::int64_t>()) return mesh_dim_numbered(layout, *index, kAsker);
  throw Error(ErrorKind::kValue, fmt::format("{} is not a mesh dim", repr(dim)))
      .with("mesh", layout.text())
      .with("fix", suggest("", layout.names()));
}

Value by_rank(const Interpreter& in, std::function<Value(std::int64_t)> at) {
  if (!in.stands_for_several()) return at(in.setup().rank);
  return rank_value(std::move(at), in.setup().rank);
}

Value coordinate_along(const Interpreter& in, const MeshValue& mesh, std::size_t dim) {
  const MeshLayout* whole = in.setup().reported;
  return by_rank(in, [whole, dims = dims_along(in, mesh, dim)](std::int64_t rank) -> Value {
    const auto coordinate = whole->coordinate_of(rank);
    return coordinate ? Value(place_along(*whole, dims, *coordinate)) : Value();
  });
}

GroupsByRank groups_by_rank(const Interpreter& in, const GroupValue& group) {
  using Ranks = std::vector<std::int64_t>;
  std::function<std::int64_t(std::int64_t)> number = [](std::int64_t) { return std::int64_t{0}; };
  if (group.made != nullptr) {
    return {[made = group.made](std::int64_t) -> const Ranks& { return *made; }, number};
  }
  std::function<Ranks(std::int64_t)> list;
  if (group.is_world()) {
    list = [size = in.setup().world_size](std::int64_t) {
      Ranks all(static_cast<std::size_t>(size));
      std::iota(all.begin(), all.end(), 0);
      return all;
    };
  } else {
    std::vector<std::size_t> dims;
    for (const std::int64_t dim : dims_along(in, group.mesh, group.dim)) {
      dims.push_back(static_cast<std::size_t>(dim));
    }
    const MeshLayout* const whole = in.setup().reported;
    list = [whole, dims](std::int64_t rank) {
      return whole->group_ranks(dims, place_in(*whole, rank));
    };
    number = [whole, dims](std::int64_t rank) {
      Coordinate first = place_in(*whole, rank);
      for (const std::size_t dim : dims) first[dim] = 0;
      return whole->index_of(first);
    };
  }
  // One for each rank would cost the square of a large group.
  const auto known = std::make_shared<std::unordered_map<std::int64_t, Ranks>>();
  const auto ranks = [list, number, known](std::int64_t rank) -> const Ranks& {
    const auto [place, is_new] = known->try_emplace(number(rank));
    if (is_new) place->second = list(rank);
    return place->second;
  };
  return {ranks, number};
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
    base[mesh_dim_named(layout, name, function)] = placement_of(value);
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

GroupValue group_value_of(const Interpreter& interpreter, const Value& group) {
  if (group.is_none()) return {};
  if (const auto* given = group.get<GroupValue>()) return *given;
  if (is_outside(group)) return {.mesh = {}, .outside = true};
  const MeshLayout* layout = interpreter.setup().layout;
  std::string name;
  if (const auto* text = group.get<std::string>()) {
    name = *text;
  } else if (const auto* mesh = group.get<MeshValue>(); mesh && mesh->layout->ndim() == 1) {
    name = mesh->layout->names()[0];
  } else {
    fail(ErrorKind::kValue,
         Fix{fmt::format("use \"world\" or one of: {}", text_of_list(layout->names(), ", "))},
         "a group must be a process group, the name of a mesh dim or a mesh of one dim, not {}",
         repr(group));
  }
  if (name == "world") return {};
  return {.mesh = {layout, interpreter.setup().reported, nullptr},
          .dim = mesh_dim_named(*layout, name, "group")};
}

std::string group_text(const Interpreter& interpreter, const GroupValue& group) {
  if (group.outside && group.made == nullptr) return "NON_GROUP_MEMBER";
  const std::vector<std::int64_t> ranks =
      groups_by_rank(interpreter, group).ranks(interpreter.setup().rank);
  constexpr std::size_t kMostListed = 16;
  if (ranks.size() > kMostListed) {
    return fmt::format("group {} of {} ranks", group_name(group), ranks.size());
  }
  return fmt::format("group {} (ranks {})", group_name(group), text_of_list(ranks, ", "));
}

ProcessGroup& group_of(const Interpreter& interpreter, const GroupValue& group) {
  if (group.outside) {
    const bool known = group.made != nullptr;
    fail(ErrorKind::kRuntime,
         Fix{fmt::format("call it on the ranks of the group only: if rank in [{}]",
                         known ? text_of_list(*group.made, ", ") : "...")},
         "rank {} is not in {}", interpreter.setup().rank, group_text(interpreter, group));
  }
  if (group.is_world()) return *current_rank().world;
  if (group.made != nullptr) return device_mesh(group.mesh.layout).group(group.dim);
  const auto known = interpreter.setup().layout->find_dim(group_name(group));
  return known ? device_mesh(interpreter.setup().layout).group(*known)
               : device_mesh(group.mesh.layout).group(group.dim);
}

namespace {

// "ranks_0_2", or of many "ranks_0_to_7"; another one of the same name has a number after it.
std::string name_of_group(const Interpreter& in, const std::vector<std::int64_t>& ranks) {
  constexpr std::size_t kMostNamed = 4;
  std::string name = ranks.size() <= kMostNamed
                         ? "ranks_" + text_of_list(ranks, "_")
                         : fmt::format("ranks_{}_to_{}", ranks.front(), ranks.back());
  const auto taken = std::ranges::count_if(in.made_groups(), [&](const GroupValue& group) {
    return group_name(group) == name || group_name(group).starts_with(name + "_no_");
  });
  return taken == 0 ? name : fmt::format("{}_no_{}", name, taken + 1);
}

void check_ranks(const Interpreter& in, std::vector<std::int64_t> ranks) {
  if (ranks.empty()) {
    fail(ErrorKind::kValue, Fix{"name the ranks: dist.new_group([0, 2])"},
         "new_group: a group has one rank or more");
  }
  std::ranges::sort(ranks);
  const auto twice = std::ranges::adjacent_find(ranks);
  if (twice != ranks.end()) {
    fail(ErrorKind::kValue, Fix{"name each rank once"}, "new_group: rank {} is named twice",
         *twice);
  }
  const std::int64_t world = in.setup().world_size;
  for (const std::int64_t rank : ranks) {
    if (rank >= 0 && rank < world) continue;
    fail(ErrorKind::kValue, Fix{fmt::format("name ranks from 0 to {}", world - 1)},
         "new_group: there is no rank {} in a world of {} ranks", rank, world);
  }
}

}  // namespace

// In the single-device run a world of one rank has groups of that one.
GroupValue new_group(Interpreter& in, std::vector<std::int64_t> ranks) {
  if (in.plain() && in.setup().world_size == 1) ranks = {0};
  check_ranks(in, ranks);
  const auto size = static_cast<std::int64_t>(ranks.size());
  const Value member = in.settle(by_rank(in, [ranks](std::int64_t rank) {
    return Value(std::ranges::find(ranks, rank) != ranks.end());
  }));
  Arena& arena = in.setup().layout->arena();
  const std::vector<std::string> names = {name_of_group(in, ranks)};
  const MeshLayout* const same =
      arena.layout({.shape = Dims{size}, .names = names, .ranks = ranks});
  GroupValue group{.mesh = {same, same, nullptr}, .outside = !member.as<bool>()};
  if (in.plain()) {
    group.mesh.layout = arena.layout({.shape = Dims{1}, .names = names, .ranks = {}});
  }
  group.made = std::make_shared<const std::vector<std::int64_t>>(std::move(ranks));
  construct_mesh(group.mesh.layout);
  in.keep_group(group);
  return group;
}

const MeshLayout* layout_of(const Interpreter& interpreter, const Value& mesh) {
  if (mesh.is_none()) return interpreter.setup().layout;
  if (const auto* given = mesh.get<MeshValue>()) return given->layout;
  fail(ErrorKind::kValue, Fix{"pass mesh, or leave it out for the scenario's mesh"},
       "'mesh' is {}; it must be a mesh", a_kind(mesh));
}

}  // namespace shardlab
