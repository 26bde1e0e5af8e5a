// Process groups as values. A rank only ever holds groups that it is in, so that none of these
// communicates.
#include <algorithm>
#include <memory>
#include <unordered_map>

#include "base/fix.h"
#include "base/nearest.h"
#include "sim/language/run/interpreter.h"
#include "sim/language/run/mesh_value.h"
#include "sim/language/values/global_names.h"
#include "sim/language/values/rank_value.h"

namespace shardlab {

namespace {

GroupValue group_value(const Parameters& given) {
  const Value& group = given["group"];
  if (group.is_none()) return {};
  if (const auto* value = group.get<GroupValue>()) return *value;
  given.refuse("group", "a process group", "mesh.get_group(\"tp\")");
}

std::int64_t size_of(const Interpreter& in, const GroupValue& group) {
  return group.is_world() ? in.setup().world_size : group.mesh.reported->size(group.dim);
}

Value rank_in(const Interpreter& in, const GroupValue& group) {
  if (group.is_world()) return by_rank(in, [](std::int64_t rank) { return Value(rank); });
  return coordinate_along(in, group.mesh, group.dim);
}

std::string tag_of(const GroupValue& group) { return "ptd:" + group_name(group); }

Value list_of(const std::vector<std::int64_t>& ranks) {
  return make_list(Values(ranks.begin(), ranks.end()));
}

const GroupValue& group_of(const Value* self) { return self->as<GroupValue>(); }

Value run_rank(Interpreter& in, const Value* self, CallValues call) {
  const Parameters given("rank", {}, std::move(call));
  return rank_in(in, group_of(self));
}

Value run_size(Interpreter& in, const Value* self, CallValues call) {
  const Parameters given("size", {}, std::move(call));
  return size_of(in, group_of(self));
}

Value run_group_name(Interpreter&, const Value* self, CallValues) {
  return group_name(group_of(self));
}

Value run_backend_name(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("_get_backend_name", {}, std::move(call));
  return in.answer([&] { return Value(in.setup().backend); }, in.setup().backend);
}

// The world, the dims of the scenario's mesh, and those that were flattened.
std::vector<GroupValue> known_groups(const Interpreter& in) {
  std::vector<GroupValue> groups(1);
  const MeshValue whole{in.setup().layout, in.setup().reported, nullptr};
  if (whole.reported->coordinate_of(in.setup().rank)) {
    for (std::size_t dim = 0; dim < whole.reported->ndim(); ++dim) groups.push_back({whole, dim});
    for (const auto& [name, mesh] : in.flattened_meshes()) groups.push_back({mesh, 0});
  }
  return groups;
}

Value run_size_by_name(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("_get_group_size_by_name", {"group_name"}, std::move(call));
  const std::string name = given.text("group_name");
  std::vector<std::string> names;
  for (const GroupValue& group : known_groups(in)) {
    if (group_name(group) == name) return size_of(in, group);
    names.push_back(group_name(group));
  }
  throw Error(ErrorKind::kValue,
              fmt::format("_get_group_size_by_name: no process group is called '{}'", name))
      .with("mesh", in.setup().reported->text())
      .with("fix", suggest(name, names));
}

Value run_tag(Interpreter&, const Value*, CallValues call) {
  return tag_of(group_value(Parameters("_get_group_tag", {"group"}, std::move(call))));
}

Value run_not_in_group(Interpreter&, const Value*, CallValues call) {
  const Parameters given("_rank_not_in_group", {"group"}, std::move(call));
  if (equal(given["group"], kNonGroupMember)) return true;
  group_value(given);
  return false;
}

Value run_ranks(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("get_process_group_ranks", {"group="}, std::move(call));
  const GroupValue group = group_value(given);
  const GroupsByRank groups = groups_by_rank(in, group);
  if (group.is_world()) return list_of(groups.ranks(in.setup().rank));
  // A list for each group: one for each rank would cost the square of a large group.
  const auto known = std::make_shared<std::unordered_map<std::int64_t, Value>>();
  return by_rank(in, [groups, known](std::int64_t rank) {
    const auto [place, is_new] = known->try_emplace(groups.number(rank));
    if (is_new) place->second = list_of(groups.ranks(rank));
    return place->second;
  });
}

Value run_name_by_ranks(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("_resolve_group_name_by_ranks_and_tag", {"ranks", "tag"}, std::move(call));
  const std::string tag = given.text("tag");
  const Dims sizes = given.sizes("ranks");
  std::vector<std::int64_t> wanted(sizes.begin(), sizes.end());
  std::ranges::sort(wanted);
  for (const GroupValue& group : known_groups(in)) {
    if (!tag.empty() && tag != tag_of(group)) continue;
    std::vector<std::int64_t> ranks = groups_by_rank(in, group).ranks(in.setup().rank);
    std::ranges::sort(ranks);
    if (ranks == wanted) return group_name(group);
  }
  throw Error(ErrorKind::kValue,
              fmt::format("no process group of this rank has the ranks {}{}", repr(given["ranks"]),
                          tag.empty() ? "" : fmt::format(" and the tag '{}'", tag)))
      .with("mesh", in.setup().reported->text())
      .with("fix", "get_process_group_ranks(mesh.get_group(\"tp\")) says the ranks of one");
}

Value run_get_rank(Interpreter& in, const Value*, CallValues call) {
  return rank_in(in, group_value(Parameters("get_rank", {"group="}, std::move(call))));
}

Value run_get_world_size(Interpreter& in, const Value*, CallValues call) {
  return size_of(in, group_value(Parameters("get_world_size", {"group="}, std::move(call))));
}

}  // namespace

BuiltinTable group_builtins() {
  static const Builtin kTable[] = {
      {"_get_group_size_by_name", run_size_by_name},
      {"_get_group_tag", run_tag},
      {"_rank_not_in_group", run_not_in_group},
      {"_resolve_group_name_by_ranks_and_tag", run_name_by_ranks},
      {"get_process_group_ranks", run_ranks},
      {"get_rank", run_get_rank},
      {"get_world_size", run_get_world_size},
  };
  return kTable;
}

BuiltinTable group_methods() {
  static const Builtin kTable[] = {
      {"_get_backend_name", run_backend_name},
      {"group_name", run_group_name, Member::kValue},
      {"rank", run_rank},
      {"size", run_size},
  };
  return kTable;
}

}  // namespace shardlab
