// Meshes, placements, reductions and groups as programs write them: by name if the mesh has names.
// A run of the single-device reference keeps two layouts apart: the one it runs on and the one that
// the program sees.
#include "sim/language/run/mesh_value.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <unordered_map>

#include "api/mesh.h"
#include "base/error.h"
#include "base/rank_context.h"
#include "base/text.h"
#include "comm/device_mesh.h"
#include "comm/observer.h"
#include "mesh/mesh_dim.h"
#include "mesh/mesh_views.h"
#include "sim/language/values/dict_entries.h"
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
  fail(Fix{"write mesh[\"tp\"], or mesh[\"dp\", \"tp\"]"},
       "the index of a mesh must be names of its dims, not {}", repr(key));
}

std::vector<MeshView> views_of_flats(const MeshValue& mesh) {
  std::vector<MeshView> views;
  if (mesh.reported != mesh.root->reported) return views;
  for (const MeshLayout* flat : mesh.root->flats) views.push_back(view_of(*flat));
  return views;
}

// Redistributions on the root, or on the mesh itself if the root lacks its dims, may from now on
// run one collective over them.
void merge_dims(const Interpreter& in, const MeshValue& mesh) {
  if (mesh.reported->ndim() < 2) return;
  const MeshLayout* merged = in.plain() ? mesh.layout : mesh.root->reported;
  for (std::size_t dim = 0; dim < mesh.reported->ndim(); ++dim) {
    const auto same = merged->find_dim(mesh.reported->names()[dim]);
    const bool own = in.plain() || (same && merged->steps(*same) == mesh.reported->steps(dim));
    if (!own) merged = mesh.layout;
  }
  flatten_mesh(merged, mesh.reported->names());
}

const MeshLayout* of_one_rank(const MeshLayout& layout) {
  return layout.arena().layout({.shape = Dims(layout.ndim(), 1), .names = layout.names()});
}

}  // namespace

MeshValue mesh_value(Interpreter& in, const MeshLayout* reported, std::shared_ptr<MeshRoot> root) {
  for (const MeshValue& mesh : in.meshes()) {
    if (mesh.reported == reported && (root == nullptr || mesh.root == root)) return mesh;
  }
  if (root == nullptr) root = std::make_shared<MeshRoot>(MeshRoot{.reported = reported});
  const MeshLayout* layout = reported;
  if (in.plain()) layout = of_one_rank(*reported);
  return {layout, reported, std::move(root)};
}

MeshValue made_mesh(Interpreter& in, const MeshLayout* reported, std::shared_ptr<MeshRoot> root) {
  // In the single-device run a world of one rank has meshes of that one.
  if (in.plain() && in.setup().world_size == 1) reported = of_one_rank(*reported);
  reported->check_fits(in.setup().world_size);
  MeshValue mesh = mesh_value(in, reported, std::move(root));
  construct_mesh(mesh.layout);
  const bool known = std::ranges::any_of(in.meshes(), [&](const MeshValue& other) {
    return other.reported == mesh.reported && other.root == mesh.root;
  });
  if (!known) in.keep_mesh(mesh);
  return mesh;
}

MeshValue slice_mesh(Interpreter& in, const MeshValue& mesh, const Value& key) {
  const std::vector<std::string> names = names_of(key);
  const std::vector<MeshView> flats = views_of_flats(mesh);
  for (const std::string& name : names) {
    const bool flat =
        std::ranges::any_of(flats, [&](const MeshView& view) { return view.names[0] == name; });
    if (!flat) mesh_dim_named(*mesh.reported, name, "mesh[...]");
  }
  // No part holds a rank outside of the mesh: the first part gives the shape.
  return mesh_value(in, part_of(sliced(view_of(*mesh.reported), names, flats), in.setup().rank),
                    mesh.root);
}

MeshValue flattened(Interpreter& in, const MeshValue& mesh, std::string name) {
  const std::vector<std::string>& names = mesh.reported->names();
  if (name.empty()) name = text_of_list(names, "_");
  if (names.size() == 1 && names[0] == name) return mesh;
  const MeshView view = flattened(view_of(*mesh.reported), name);
  for (const MeshLayout* flat : mesh.root->flats) {
    if (flat->names()[0] == name && flat->steps(0) == view.steps[0]) {
      return mesh_value(in, flat, mesh.root);
    }
  }
  const auto taken = [&](const MeshLayout* flat) { return flat->names()[0] == name; };
  if (std::ranges::any_of(mesh.root->flats, taken) || mesh.root->reported->find_dim(name)) {
    throw Error(ErrorKind::kValue, fmt::format("_flatten: the mesh has a dim '{}' already", name))
        .with("mesh", mesh.root->reported->text())
        .with("fix", "give the flattened dim another name: mesh._flatten(\"all\")");
  }
  merge_dims(in, mesh);
  const MeshValue flat = made_mesh(in, part_of(view, in.setup().rank), mesh.root);
  mesh.root->flats.push_back(flat.reported);
  return flat;
}

// "fake", or ("fake", options).
static bool names_fake(const Value& backend) {
  if (const auto* text = backend.get<std::string>()) return *text == "fake";
  return backend.is_sequence() && std::ranges::any_of(items_of(backend), names_fake);
}

void warn_of_fake(const MeshLayout& layout, const Value& backends) {
  std::vector<std::string> dims;
  const auto* by_dim = backends.get<DictValue>();
  const DictEntries none;
  for (std::size_t dim = 0; dim < layout.ndim(); ++dim) {
    if (layout.size(dim) == 1) continue;
    bool fake = by_dim == nullptr && layout.ndim() == 1 && names_fake(backends);
    for (const auto& [key, backend] : by_dim != nullptr ? *by_dim->entries : none) {
      fake |= mesh_dim(layout, key) == dim && names_fake(backend);
    }
    if (fake) dims.push_back(layout.names()[dim]);
  }
  Observer* const observer = observer_to_tell();
  if (dims.empty() || observer == nullptr) return;
  observer->warning(fmt::format(
      "{}: mesh.fake-backend: backend_override gives {} of {} the backend fake: in PyTorch "
      "collectives over several ranks of it do nothing, here they are carried out",
      place_text(current_rank().position), text_of_list(dims, ", "), layout.text()));
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
  if (!in.represents_several()) return at(in.setup().rank);
  return rank_value(std::move(at), in.setup().rank);
}

Value coordinate_along(const Interpreter& in, const MeshValue& mesh, std::size_t dim) {
  const MeshLayout* root = mesh.reported->root();
  return by_rank(in, [root, steps = mesh.reported->steps(dim)](std::int64_t rank) -> Value {
    const auto place = place_along(*root, steps, rank);
    return place ? Value(*place) : Value();
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
    const MeshLayout* const root = group.mesh.reported->root();
    const MeshSteps steps = group.mesh.reported->steps(group.dim);
    list = [root, steps](std::int64_t rank) { return ranks_along(*root, steps, rank); };
    number = [root, steps](std::int64_t rank) { return first_along(*root, steps, rank); };
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
  if (is_outside(group)) return {.outside = true};
  const MeshLayout* layout = interpreter.setup().layout;
  std::string name;
  if (const auto* text = group.get<std::string>()) {
    name = *text;
  } else if (const auto* mesh = group.get<MeshValue>(); mesh && mesh->layout->ndim() == 1) {
    return {.mesh = *mesh, .dim = 0};
  } else {
    fail(Fix{fmt::format("use \"world\" or one of: {}", text_of_list(layout->names(), ", "))},
         "a group must be a process group, the name of a mesh dim or a mesh of one dim, not {}",
         repr(group));
  }
  if (name == "world") return {};
  return {.mesh = interpreter.meshes()[0], .dim = mesh_dim_named(*layout, name, "group")};
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
  const MeshLayout* const own = interpreter.setup().layout;
  const MeshLayout& mesh = *group.mesh.reported;
  const auto known = own->find_dim(group_name(group));
  // The scenario's dim by whichever slice it is asked for; a slice is made where it is used.
  const bool same = group.made == nullptr && known && mesh.is_cut() &&
                    (interpreter.plain() ||
                     (mesh.root() == own->root() && mesh.steps(group.dim) == own->steps(*known)));
  if (same) return device_mesh(own).group(*known);
  return device_mesh(construct_mesh(group.mesh.layout)).group(group.dim);
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
    fail(Fix{"name the ranks: dist.new_group([0, 2])"}, "new_group: a group has one rank or more");
  }
  std::ranges::sort(ranks);
  const auto twice = std::ranges::adjacent_find(ranks);
  if (twice != ranks.end()) {
    fail(Fix{"name each rank once"}, "new_group: rank {} is named twice", *twice);
  }
  const std::int64_t world = in.setup().world_size;
  for (const std::int64_t rank : ranks) {
    if (rank >= 0 && rank < world) continue;
    fail(Fix{fmt::format("name ranks from 0 to {}", world - 1)},
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
    group.mesh.layout = arena.layout({.shape = Dims{1}, .names = names});
  }
  group.made = std::make_shared<const std::vector<std::int64_t>>(std::move(ranks));
  construct_mesh(group.mesh.layout);
  in.keep_group(group);
  return group;
}

const MeshLayout* layout_of(const Interpreter& interpreter, const Value& mesh) {
  if (mesh.is_none()) return interpreter.default_mesh();
  if (const auto* given = mesh.get<MeshValue>()) return given->layout;
  fail(Fix{"pass mesh, or leave it out for the scenario's mesh"}, "'mesh' is {}; it must be a mesh",
       a_kind(mesh));
}

}  // namespace shardlab
