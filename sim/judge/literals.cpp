// Sizes of groups are known from the run, by the line of the collective; what is reduced there, and
// which factors are before or behind it, from the text.
#include "sim/judge/literals.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace shardlab {

namespace {

using Flow = FlowNode::Kind;

// A line has the sizes of the groups of its collectives, with their names.
using Groups = std::multimap<int, std::pair<std::int64_t, std::string>>;

Groups groups_of(const std::vector<TraceEvent>& events) {
  Groups groups;
  for (const TraceEvent& event : events) {
    if (event.kind != TraceEvent::Kind::kCollective || event.depth > 0) continue;
    const GroupIdentity& group = event.collective.group;
    groups.emplace(event.position.line, std::pair(group.size, group.name));
  }
  return groups;
}

const std::string* group_at(const Groups& groups, int line, std::int64_t size) {
  const auto [first, last] = groups.equal_range(line);
  for (auto group = first; group != last; ++group) {
    if (group->second.first == size) return &group->second.second;
  }
  return nullptr;
}

}  // namespace

std::string SizeInText::text(int line) const {
  const std::string instead =
      group == "world" ? "world_size" : fmt::format("mesh.size(\"{}\")", group);
  return fmt::format(
      "{} in line {} is the size of {}: write {}, or say in [reference] what is meant", number,
      line, group, instead);
}

std::vector<SizeInText> literals_of(const DefUse& flow, const std::vector<TraceEvent>& events) {
  const Groups groups = groups_of(events);
  std::vector<SizeInText> found;
  for (DefUse::Id id = 0; id < flow.nodes().size(); ++id) {
    const FlowNode& node = flow.nodes()[id];
    SizeInText literal{.node = id, .number = 0, .group = "", .place = node.literal};
    if (node.entry && node.length > 1) {
      literal.number = node.length;
      literal.list = true;
      const std::string* group = group_at(groups, flow.line_of(id), node.length);
      if (group == nullptr) continue;
      literal.group = *group;
      found.push_back(literal);
      continue;
    }
    if (node.factor < 2) continue;
    literal.number = static_cast<std::int64_t>(node.factor);
    DefUse::Ids near = flow.made_of({id});
    const DefUse::Ids after = flow.makes({id});
    near.insert(near.end(), after.begin(), after.end());
    for (const DefUse::Id other : near) {
      const FlowNode& reduced = flow.nodes()[other];
      if (reduced.kind != Flow::kReduced) continue;
      const std::string* group = group_at(groups, flow.line_of(other), literal.number);
      if (group == nullptr) continue;
      if (literal.group.empty()) literal.group = *group;
      const bool otherwise_named = flow.counts.contains(literal.number);
      literal.divides_sum =
          literal.divides_sum || (node.divides && reduced.op == "sum" && !otherwise_named);
    }
    if (!literal.group.empty()) found.push_back(literal);
  }
  return found;
}

std::string text_of_one(std::string text, const std::vector<SizeInText>& literals) {
  for (const SizeInText& literal : literals) {
    const SourceSpan place = literal.place;
    if (place.end <= place.begin || place.end > text.size()) continue;
    // Places behind it stay.
    text.replace(place.begin, place.end - place.begin,
                 std::string(place.end - place.begin - 1, ' ') + "1");
  }
  return text;
}

}  // namespace shardlab
