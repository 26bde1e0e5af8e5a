// A program shows the groups that it uses. The one that it should have used may be in no
// collective: a row or a column of a grid of all ranks.
#include "sim/replay/rank_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/text.h"

namespace shardlab {

std::string ranks_text(const Ranks& ranks) {
  const bool row = ranks.size() > 2 && ranks.back() - ranks.front() + 1 == ranks.size();
  if (row) return fmt::format("ranks {}-{}", ranks.front(), ranks.back());
  return (ranks.size() == 1 ? "rank " : "ranks ") + text_of_list(ranks, ", ");
}

RankGroups groups_along(const Dims& shape, const std::vector<std::string>& names,
                        std::size_t dims) {
  RankGroups all;
  std::map<std::size_t, Ranks> by_rest;
  const auto count = static_cast<std::size_t>(product(shape));
  for (std::size_t rank = 0; rank < count; ++rank) {
    std::size_t rest = 0, left = rank, step = 1;
    for (std::size_t i = shape.size(); i-- > 0;) {
      const auto size = static_cast<std::size_t>(shape[i]);
      if ((dims >> i & 1) == 0) rest += left % size * step;
      step *= size;
      left /= size;
    }
    by_rest[rest].push_back(rank);
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if ((dims >> i & 1) != 0) all.name += (all.name.empty() ? "" : ", ") + names[i];
  }
  for (auto& [rest, ranks] : by_rest) all.groups.push_back(std::move(ranks));
  all.of_mesh = all.groups.size() > 1;
  if (!all.of_mesh) all.name = ranks_text(all.groups[0]);
  return all;
}

std::vector<RankGroups> groups_of_grids(std::size_t ranks) {
  std::vector<RankGroups> all;
  const auto count = static_cast<std::int64_t>(ranks);
  if (count < 2) return all;
  all.push_back(groups_along({count}, {""}, 1));
  all[0].name = ranks_text(all[0].groups[0]);
  for (std::int64_t inner = 2; inner < count; ++inner) {
    if (count % inner != 0) continue;
    for (const std::size_t dim : {1, 2}) {
      all.push_back(groups_along({count / inner, inner}, {"", ""}, dim));
      all.back().name = "groups such as " + ranks_text(all.back().groups[0]);
      all.back().of_mesh = false;
    }
  }
  return all;
}

RankGroups ranks_of(const RecordedGroup& group) {
  std::set<Ranks> different;
  for (const auto& ranks : group) different.insert(Ranks(ranks.begin(), ranks.end()));
  RankGroups all{.groups = {different.begin(), different.end()}};
  all.name = ranks_text(all.groups[0]);
  return all;
}

std::vector<RankGroups> groups_of(const RecordedProgram& program) {
  std::vector<RankGroups> all;
  const GraphMesh& mesh = program.meshes[0];
  const std::size_t dims = std::min<std::size_t>(mesh.shape.size(), 4);
  for (std::size_t chosen = 1; program.ranks > 1 && chosen < std::size_t{1} << dims; ++chosen) {
    all.push_back(groups_along(mesh.shape, mesh.names, chosen));
  }
  // Dims of which types speak have names, too.
  std::map<std::string, std::map<std::size_t, Ranks>> typed;
  for (const RecordedEvent& event : program.events) {
    for (const RecordedType& type : event.types) {
      const auto [known, fresh] = typed.try_emplace(type.dim);
      for (std::size_t rank = 0; fresh && rank < program.ranks; ++rank) {
        known->second[place_along({type}, rank).second].push_back(rank);
      }
    }
  }
  for (auto& [name, by_first] : typed) {
    RankGroups one{.name = name, .groups = {}, .of_mesh = true};
    for (auto& [first, ranks] : by_first) one.groups.push_back(std::move(ranks));
    if (one.groups[0].size() > 1) all.push_back(std::move(one));
  }
  for (const RecordedGroup& group : program.groups) {
    RankGroups one = ranks_of(group);
    if (one.groups[0].size() > 1) all.push_back(std::move(one));
  }
  // A group that a program should have used, and has not, is in no collective.
  for (RankGroups& one : groups_of_grids(dims == 1 ? program.ranks : 0)) {
    const bool known = std::ranges::find(all, one.groups, &RankGroups::groups) != all.end();
    if (!known) all.push_back(std::move(one));
  }
  return all;
}

}  // namespace shardlab
