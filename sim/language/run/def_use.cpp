// The graph is made once (flow_walk.h); all questions are walks along its edges.
#include "sim/language/run/def_use.h"

#include <algorithm>

#include "sim/language/run/call_names.h"
#include "sim/language/run/flow_walk.h"
#include "sim/language/syntax/ast_walk.h"

namespace shardlab {

namespace {

void sort_unique(DefUse::Ids& ids) {
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

// "x" of "x", "x[0]" and "x['a'][1]".
std::string_view without_items(std::string_view recorded) {
  return recorded.starts_with('(') ? recorded : recorded.substr(0, recorded.find('['));
}

constexpr std::string_view kGrad = ".grad";

bool mentions_mesh(const ast::Expression& expression) {
  return ast::any_part(expression, [](const ast::Expression& part) {
    const auto* name = part.get<ast::Name>();
    return name != nullptr && name->id == "mesh";
  });
}

}  // namespace

static void look_at(const ast::Expression& part, ProgramTraits& traits) {
  if (const auto* name = part.get<ast::Name>()) {
    traits.reads_world = traits.reads_world || names_world(name->id);
    traits.reads_rank = traits.reads_rank || names_rank(name->id);
    traits.asserts_close = traits.asserts_close || name->id == "assert_close";
    traits.leaves = traits.leaves || leaves_the_mesh(name->id);
  }
  const auto* member = part.get<ast::Attribute>();
  if (member == nullptr) return;
  const bool collective = own_collective(part) != OwnCollective::kNone;
  traits.leaves = traits.leaves || leaves_the_mesh(member->name) || collective;
  traits.reads_rank = traits.reads_rank || is_rank_member(member->name);
  traits.reads_world =
      traits.reads_world || mentions_mesh(*member->object) || names_world(member->name);
}

ProgramTraits traits_of(const ast::Program& program) {
  ProgramTraits traits;
  ast::any_part(program.body, [&](const ast::Expression& part) {
    look_at(part, traits);
    return false;
  });
  return traits;
}

DefUse::DefUse(const ast::Program& program) {
  FlowWalk(program, *this).run();
  from_all_.resize(nodes_.size());
  into_all_.resize(nodes_.size());
  for (Id id = 0; id < nodes_.size(); ++id) {
    from_all_[id] = nodes_[id].from;
    for (const Id other : nodes_[id].from) into_all_[other].push_back(id);
    // No line makes an input.
    const bool in_text = nodes_[id].kind != Kind::kInput;
    lines_.push_back(in_text ? program.source->place(nodes_[id].begin).line : 0);
  }
  for (FlowNode& node : nodes_) {
    std::uint32_t loop = node.kind == Kind::kReceived ? node.loop : 0;
    for (; loop != 0; loop = nodes_[loop - 1].loop) {
      node.by_world = node.by_world || any(made_of({loop - 1}), Kind::kWorld);
    }
  }
}

DefUse::Ids DefUse::reached(const Ids& some, const Edges& edges, const Ends& ends) {
  std::vector<bool> seen(edges.size());
  Ids all;
  const auto add = [&](Id id) {
    if (seen[id]) return;
    seen[id] = true;
    all.push_back(id);
  };
  for (const Id id : some) add(id);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (ends && ends(all[i])) continue;
    for (const Id next : edges[all[i]]) add(next);
  }
  std::ranges::sort(all);
  return all;
}

DefUse::Ids DefUse::made_of_until(const Ids& some, const std::set<Kind>& ends) const {
  return made_of_until(some, [&](Id id) { return ends.contains(nodes_[id].kind); });
}

DefUse::Ids DefUse::makes(const Ids& some) const {
  Ids values;
  for (const Id id : some) {
    const Kind kind = nodes_[id].kind;
    if (kind == Kind::kDecides || kind == Kind::kRank || kind == Kind::kWorld) continue;
    values.push_back(id);
  }
  return makes_until(values, Ends());
}

DefUse::Ids DefUse::shown_at(std::uint32_t begin) const {
  const auto found = shown_.find(begin);
  return found == shown_.end() ? Ids() : found->second;
}

bool DefUse::any(const Ids& some, Kind kind) const {
  return std::ranges::any_of(some, [&](Id id) { return nodes_[id].kind == kind; });
}

DefUse::Ids DefUse::on_line(int line) const {
  Ids ids;
  for (Id id = 0; id < nodes_.size(); ++id) {
    if (lines_[id] == line) ids.push_back(id);
  }
  return ids;
}

DefUse::Ids DefUse::held_by(std::string_view recorded, std::uint32_t begin) const {
  if (recorded.ends_with(kGrad)) return held_by(recorded);
  const auto found = held_.find(std::pair(std::string(without_items(recorded)), begin));
  if (found != held_.end()) return found->second;
  const auto read = reads_.find(begin);
  return read != reads_.end() ? read->second : Ids();
}

DefUse::Ids DefUse::held_by(std::string_view recorded) const {
  Ids ids;
  if (recorded.ends_with(kGrad)) {
    recorded.remove_suffix(kGrad.size());
    const auto found = gradients_.find(without_items(recorded));
    return found != gradients_.end() ? found->second : Ids();
  }
  const std::string_view name = without_items(recorded);
  for (const auto& [key, held] : held_) {
    if (key.first == name) ids.insert(ids.end(), held.begin(), held.end());
  }
  sort_unique(ids);
  return ids;
}

bool DefUse::follows_rank(std::uint32_t begin) const {
  const auto read = reads_.find(begin);
  const Ids all = read != reads_.end() ? made_of(read->second) : Ids();
  return any(all, Kind::kRank) || any(all, Kind::kReceived);
}

bool DefUse::follows_rank(std::string_view recorded) const {
  const Ids all = made_of(held_by(recorded));
  return any(all, Kind::kRank) || any(all, Kind::kReceived);
}

}  // namespace shardlab
