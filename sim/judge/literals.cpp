// Sizes of groups are known from the run, by the line of the collective; what is reduced there, and
// which factors are before or behind it, from the text.
#include "sim/judge/literals.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/language/run/call_names.h"

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

// A factor does not pass through these: a temperature before a softmax, a mark before a comparison
// average nothing over ranks.
bool ends_factors(const FlowNode& node) {
  constexpr std::string_view kEnds[] = {
      "comparison", "exp",     "log",         "log2",    "log10",  "log1p",         "softmax",
      "tanh",       "sigmoid", "log_softmax", "expm1",   "cos",    "cross_entropy", "logsumexp",
      "gelu",       "silu",    "softplus",    "sin",     "argmax", "argmin",        "argsort",
      "sqrt",       "rsqrt",   "pow",         "floor",   "round",  "normalize",     "layer_norm",
      "erf",        "sign",    "logsigmoid",  "rms_norm"};
  return node.kind == Flow::kDecides || is_one_of(kEnds, node.op);
}

// Reductions before a factor, or behind it.
DefUse::Ids reductions_near(const DefUse& flow, DefUse::Id factor) {
  const auto ends = [&](DefUse::Id id) { return ends_factors(flow.nodes()[id]); };
  DefUse::Ids near = flow.made_of_until(flow.nodes()[factor].from, ends);
  const DefUse::Ids behind = flow.makes_until(flow.makes_directly(factor), ends);
  near.insert(near.end(), behind.begin(), behind.end());
  std::erase_if(near, [&](DefUse::Id id) { return flow.nodes()[id].kind != Flow::kReduced; });
  return near;
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
    SizeInText literal{.node = id, .number = 0, .place = node.literal};
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
    for (const DefUse::Id other : reductions_near(flow, id)) {
      const FlowNode& reduced = flow.nodes()[other];
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
