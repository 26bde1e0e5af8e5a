// A part of a mesh is named by that mesh, whichever name the program gave the part: its layout is
// another one on each rank. Flattened dims are those of the scenario's mesh, as in PyTorch.
#include "sim/run/mesh_names.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.h"
#include "mesh/type_string.h"

namespace shardlab {

namespace {

bool same_ranks(const MeshLayout& a, std::size_t a_dim, const MeshLayout& b, std::size_t b_dim) {
  return a.root() == b.root() && a.steps(a_dim) == b.steps(b_dim);
}

// `name["dp", "tp"]`; empty where `layout` has a dim that is none of `whole`.
std::string part_name(const std::string& name, const MeshLayout& whole, const MeshLayout& layout) {
  if (layout.ndim() >= whole.ndim()) return "";
  for (std::size_t dim = 0; dim < layout.ndim(); ++dim) {
    const auto same = whole.find_dim(layout.names()[dim]);
    if (!same || !same_ranks(whole, *same, layout, dim)) return "";
  }
  return fmt::format("{}[\"{}\"]", name, text_of_list(layout.names(), "\", \""));
}

// A part on another rank has the name of this rank's.
bool same_view(const MeshLayout& a, const MeshLayout& b) {
  if (&a == &b) return true;
  if (!a.is_cut() || !b.is_cut() || a.names() != b.names()) return false;
  for (std::size_t dim = 0; dim < a.ndim(); ++dim) {
    if (!same_ranks(a, dim, b, dim)) return false;
  }
  return true;
}

// Empty for a mesh to which the program gave no name.
std::string given_name(const Run& run, const MeshLayout& layout) {
  if (&layout == run.layout) return "mesh";
  std::string name = part_name("mesh", *run.layout, layout);
  for (const auto& [mesh, given] : run.mesh_names) {
    if (name.empty()) name = part_name(given, *mesh, layout);
  }
  for (const auto& [mesh, given] : run.mesh_names) {
    if (name.empty() && same_view(*mesh, layout)) name = given;
  }
  const bool flat = layout.ndim() == 1 && layout.is_cut() && layout.root() == run.layout->root();
  if (name.empty() && flat) name = fmt::format("mesh[\"{}\"]", layout.names()[0]);
  return name;
}

// The dim of the scenario's mesh along which the group's ranks are, in their order.
std::optional<std::size_t> own_dim(const Run& run, const GroupIdentity& group) {
  const std::vector<std::int64_t> ranks = group.ranks();
  const auto at = run.layout->coordinate_of(group.first_rank);
  for (std::size_t dim = 0; at && dim < run.layout->ndim(); ++dim) {
    const bool fits = run.layout->size(dim) == group.size;
    if (fits && run.layout->group_ranks(dim, *at) == ranks) return dim;
  }
  return std::nullopt;
}

GroupIdentity shown_group(const Run& run, GroupIdentity group) {
  if (const auto dim = own_dim(run, group)) {
    group.layout = run.layout;
    group.mesh_dims = {*dim};
    group.name = run.layout->names()[*dim];
    return group;
  }
  // A flattened dim has a name of its own among the dims of the scenario's mesh.
  const MeshLayout& mesh = *group.layout;
  const bool flat = mesh.ndim() == 1 && mesh.is_cut() && mesh.root() == run.layout->root();
  const std::string name = flat ? "" : given_name(run, mesh);
  if (!name.empty()) group.name += " of " + name;
  return group;
}

// Groups of the same ranks become one: the first that is met, or that of the scenario's mesh.
void name_groups(const Run& run, std::vector<TraceEvent>& events) {
  std::vector<std::pair<GroupIdentity, GroupIdentity>> known;
  for (TraceEvent& event : events) {
    const bool call = event.kind == TraceEvent::Kind::kCollective;
    if (!call && event.kind != TraceEvent::Kind::kWait) continue;
    GroupIdentity& group = event.collective.group;
    if (group.layout == nullptr || group.layout == run.layout) continue;
    auto at = std::ranges::find(known, group, &std::pair<GroupIdentity, GroupIdentity>::first);
    if (at == known.end()) {
      const auto same = std::ranges::find_if(known, [&](const auto& other) {
        return other.second.size == group.size && other.first.ranks() == group.ranks();
      });
      known.emplace_back(group, same == known.end() ? shown_group(run, group) : same->second);
      at = std::prev(known.end());
    }
    group = at->second;
  }
}

}  // namespace

std::string mesh_name(const Run& run, const MeshLayout& layout) {
  std::string name = given_name(run, layout);
  if (!name.empty()) return name;
  constexpr std::int64_t kMostListed = 4;
  if (layout.is_iota()) return layout.text();
  std::vector<std::int64_t> ranks;
  for (std::int64_t i = 0; i < std::min(layout.size(), kMostListed); ++i) {
    ranks.push_back(layout.rank_at_index(i));
  }
  return fmt::format("{} of ranks {}{}", layout.text(), text_of_list(ranks, ", "),
                     layout.size() > kMostListed ? ", ..." : "");
}

std::string on_mesh(const Run& run, const DTensorSpec* spec) {
  if (spec == nullptr || spec->layout() == run.layout) return "";
  return " on " + mesh_name(run, *spec->layout());
}

std::string shown_type(const Run& run, const DTensorSpec& spec) {
  return type_string(spec) + on_mesh(run, &spec);
}

std::string place_in_mesh(const Run& run, const MeshLayout& layout) {
  std::vector<std::string> places;
  const auto first = run.layout->coordinate_of(layout.rank_at_index(0));
  for (std::size_t dim = 0; first && dim < run.layout->ndim(); ++dim) {
    bool shared = true;
    for (std::int64_t i = 0; i < layout.size() && shared; ++i) {
      const auto at = run.layout->coordinate_of(layout.rank_at_index(i));
      shared = at && (*at)[dim] == (*first)[dim];
    }
    if (!shared) continue;
    places.push_back(fmt::format("{}={}", run.layout->names()[dim], (*first)[dim]));
  }
  return text_of_list(places, ", ");
}

void name_groups(Run& run) {
  name_groups(run, run.events);
  for (std::vector<TraceEvent>& events : run.events_of_others) name_groups(run, events);
}

}  // namespace shardlab
