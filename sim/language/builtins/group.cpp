// Process groups as values. A rank that new_group() leaves out holds a group that it is outside of;
// it is a member of all other groups, so that nothing here communicates but new_group().
#include <algorithm>
#include <memory>
#include <unordered_map>

#include "base/error.h"
#include "base/text.h"
#include "sim/language/run/dist_calls.h"
#include "sim/language/run/mesh_value.h"

namespace shardlab {

namespace {

GroupValue group_value(const Parameters& given) {
  const Value& group = given["group"];
  if (group.is_none()) return {};
  if (const auto* value = group.get<GroupValue>()) return *value;
  if (is_outside(group)) return {.outside = true};
  given.refuse("group", "a process group", "mesh.get_group(\"tp\")");
}

// Torch's word for a group that the rank is not in.
constexpr std::int64_t kNobody = -1;

std::int64_t size_of(const Interpreter& in, const GroupValue& group) {
  return group.outside ? kNobody : reported_size(in, group);
}

Value rank_in(const Interpreter& in, const GroupValue& group) {
  if (group.outside) return kNobody;
  if (group.made != nullptr) {
    return by_rank(in, [made = group.made](std::int64_t rank) {
      return Value(static_cast<std::int64_t>(std::ranges::find(*made, rank) - made->begin()));
    });
  }
  if (group.is_world()) return by_rank(in, [](std::int64_t rank) { return Value(rank); });
  return coordinate_along(in, group.mesh, group.dim);
}

std::string tag_of(const GroupValue& group) { return "ptd:" + group_name(group); }

Value list_of(const std::vector<std::int64_t>& ranks) {
  return make_list(Values(ranks.begin(), ranks.end()));
}

const GroupValue& group_of(const Value* self) { return self->as<GroupValue>(); }

Value run_group_name(Interpreter&, const Value* self, CallValues) {
  return group_name(group_of(self));
}

Value run_backend_name(Interpreter& in, const Value*, const Parameters&) {
  return in.answer([&] { return Value(in.setup().backend); }, in.setup().backend);
}

// The world, the dims of the scenario's mesh, and those of meshes that the program made.
std::vector<GroupValue> known_groups(const Interpreter& in) {
  std::vector<GroupValue> groups(1);
  for (const MeshValue& mesh : in.meshes()) {
    if (!mesh.reported->coordinate_of(in.setup().rank)) continue;
    for (std::size_t dim = 0; dim < mesh.reported->ndim(); ++dim) groups.push_back({mesh, dim});
  }
  std::ranges::copy_if(in.made_groups(), std::back_inserter(groups),
                       [](const GroupValue& group) { return !group.outside; });
  return groups;
}

Value run_size_by_name(Interpreter& in, const Value*, const Parameters& given) {
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

void check_inside(const Interpreter& in, const GroupValue& group, std::string_view function) {
  if (!group.outside) return;
  fail(Fix{"ask on the ranks of the group only"}, "{}: rank {} is not in {}", function,
       in.setup().rank, group_text(in, group));
}

Value run_ranks(Interpreter& in, const Value*, const Parameters& given) {
  const GroupValue group = group_value(given);
  check_inside(in, group, "get_process_group_ranks");
  const GroupsByRank groups = groups_by_rank(in, group);
  if (group.is_world()) return list_of(groups.ranks(in.setup().rank));
  // One value for each group.
  const auto known = std::make_shared<std::unordered_map<std::int64_t, Value>>();
  return by_rank(in, [groups, known](std::int64_t rank) {
    const auto [place, is_new] = known->try_emplace(groups.number(rank));
    if (is_new) place->second = list_of(groups.ranks(rank));
    return place->second;
  });
}

Value run_name_by_ranks(Interpreter& in, const Value*, const Parameters& given) {
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

// Between a rank's place in a group and its number in the world; the answer may vary by rank.
template <bool kGlobal>
Value run_translated(Interpreter& in, const Value*, CallValues call) {
  constexpr std::string_view kName = kGlobal ? "get_global_rank" : "get_group_rank";
  constexpr std::string_view kWhat = kGlobal ? "group_rank" : "global_rank";
  const Parameters given({kName, {"group", kWhat}}, std::move(call));
  const GroupValue group = group_value(given);
  check_inside(in, group, kName);
  const std::int64_t asked = given.integer(kWhat);
  const GroupsByRank groups = groups_by_rank(in, group);
  const auto answer = [groups, asked](std::int64_t rank) -> Value {
    const std::vector<std::int64_t>& ranks = groups.ranks(rank);
    const auto size = static_cast<std::int64_t>(ranks.size());
    if (kGlobal)
      return asked >= 0 && asked < size ? ranks[static_cast<std::size_t>(asked)] : kNobody;
    const auto place = std::ranges::find(ranks, asked) - ranks.begin();
    return place < size ? place : kNobody;
  };
  const Value own = answer(in.setup().rank);
  if (own.as<std::int64_t>() != kNobody) return by_rank(in, answer);
  fail(Fix{kGlobal ? "name a place in the group, counted from 0" : "name a rank of the group"},
       "{}: {} {} is not in {}", kName, kWhat, asked, group_text(in, group));
}

Value run_new_group(Interpreter& in, const Value*, const Parameters& given) {
  if (given.flag_or("use_local_synchronization", false)) {
    fail(ErrorKind::kUnsupported, Fix{"call it on every rank of the world, and leave that out"},
         "dist.new_group: use_local_synchronization=True is not supported");
  }
  std::vector<std::int64_t> ranks;
  if (!given.has("ranks")) {
    ranks = groups_by_rank(in, GroupValue()).ranks(in.setup().rank);
  } else {
    for (const Value& rank : in.iterate(given["ranks"])) {
      if (!rank.is<std::int64_t>()) given.refuse("ranks", "a list of ints", "[0, 2]");
      ranks.push_back(rank.as<std::int64_t>());
    }
  }
  if (given.flag_or("sort_ranks", true)) std::ranges::sort(ranks);
  return new_group(in, std::move(ranks));
}

// The group of all ranks exists before the program begins, and until it has ended.
Value run_nothing(Interpreter&, const Value*, const Parameters&) { return {}; }
Value run_is_there(Interpreter&, const Value*, const Parameters&) { return true; }

}  // namespace

BuiltinTable dist_group_builtins() {
  static const Builtin kTable[] = {
      {"destroy_process_group", "dist.destroy_process_group(group=)", run_nothing},
      {"get_backend", "dist.get_backend(group=)", run_backend_name},
      {"get_global_rank", run_translated<true>},
      {"get_group_rank", run_translated<false>},
      {"init_process_group",
       "dist.init_process_group(backend=, init_method=, timeout=, world_size=, rank=, store=, "
       "group_name=, pg_options=, device_id=)",
       run_nothing},
      {"is_available", "dist.is_initialized()", run_is_there},
      {"is_initialized", "dist.is_initialized()", run_is_there},
      {"new_group",
       "dist.new_group(ranks=, timeout=, backend=, pg_options=, use_local_synchronization=, "
       "group_desc=, device_id=, sort_ranks=)",
       run_new_group},
      {"pipeline_schedule", run_pipeline_schedule},
  };
  return kTable;
}

BuiltinTable group_builtins() {
  static const Builtin kTable[] = {
      {"_get_group_size_by_name", "(group_name)", run_size_by_name},
      {"_get_group_tag", "(group)",
       [](auto&, auto*, auto& given) -> Value { return tag_of(group_value(given)); }},
      {"_rank_not_in_group", "(group)",
       [](auto&, auto*, auto& given) -> Value { return group_value(given).outside; }},
      {"_resolve_group_name_by_ranks_and_tag", "(ranks, tag)", run_name_by_ranks},
      {"get_process_group_ranks", "(group=)", run_ranks},
      {"get_rank", "(group=)",
       [](auto& in, auto*, auto& given) -> Value { return rank_in(in, group_value(given)); }},
      {"get_world_size", "(group=)",
       [](auto& in, auto*, auto& given) -> Value { return size_of(in, group_value(given)); }},
  };
  return kTable;
}

BuiltinTable group_methods() {
  static const Builtin kTable[] = {
      {"_get_backend_name", "()", run_backend_name},
      {"group_name", run_group_name, Member::kValue},
      {"rank", "()",
       [](auto& in, auto* self, auto&) -> Value { return rank_in(in, group_of(self)); }},
      {"size", "()",
       [](auto& in, auto* self, auto&) -> Value { return size_of(in, group_of(self)); }},
  };
  return kTable;
}

}  // namespace shardlab
