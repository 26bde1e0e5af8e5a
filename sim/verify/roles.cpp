// Definitions are nodes that nothing follows from, so that a value is a sink where all that is made
// of it are further names.
#include "sim/verify/roles.h"

#include <algorithm>

#include "sim/language/run/call_names.h"

namespace shardlab {

namespace {

using Kind = DefUse::Kind;
using Ids = DefUse::Ids;
using Role = ValueFacts::Role;

bool holds(const Ids& ids, DefUse::Id id) { return std::ranges::binary_search(ids, id); }

// The nodes of a value at its last write: what was made of the memory before is made of another
// value.
Ids last_of(const DefUse& flow, const ValueReport& report) {
  const Ids held = nodes_of(flow, report);
  Ids last = held;
  if (report.name.ends_with(".grad")) return last;  // of leaves of several branches
  for (const DefUse::Id write : held) {
    if (flow.nodes()[write].kind != Kind::kWritten) continue;
    const Ids before = flow.made_of({write});
    std::erase_if(last, [&](DefUse::Id id) {
      const FlowNode& node = flow.nodes()[id];
      const bool replaced =
          holds(before, id) || (shares_memory(node.op) && meet(node.from, before));
      return replaced && !holds(flow.made_of({id}), write);
    });
  }
  return last;
}

class Roles {
 public:
  Roles(const RoleInputs& inputs, std::vector<ValueReport>& reports)
      : inputs_(inputs), flow_(*inputs.flow), reports_(reports) {
    for (DefUse::Id id = 0; id < flow_.nodes().size(); ++id) {
      if (inputs.cut_elements.contains(flow_.line_of(id))) cut_.push_back(id);
    }
    for (const ValueReport& report : reports) {
      nodes_.push_back(last_of(flow_, report));
      const bool right = report.facts.given && report.facts.fits == ValueFacts::Fits::kReplicas;
      if (right) given_.insert(given_.end(), nodes_.back().begin(), nodes_.back().end());
    }
    std::ranges::sort(given_);
  }

  void find() {
    for (std::size_t i = 0; i < reports_.size(); ++i) {
      ValueFacts& facts = reports_[i].facts;
      facts.role = role_of(reports_[i], nodes_[i]);
      facts.starts_backward = follows_at_once(nodes_[i], Kind::kBackward);
      facts.by_rank = by_rank(nodes_[i]);
      facts.other_program = other_program(reports_[i], nodes_[i]);
    }
    std::vector<std::size_t> ends;
    for (std::size_t i = 0; i < reports_.size(); ++i) {
      if (ends_a_loop(i)) ends.push_back(i);
    }
    for (const std::size_t i : ends) reports_[i].facts.role = Role::kSink;
    for (std::size_t i = 0; i < reports_.size(); ++i) {
      reports_[i].facts.parameter = is_parameter(i);
    }
  }

 private:
  // A node of this kind takes the value itself, or the number that is read from it; `each_pass`: in
  // the loops in which it is made. A line behind a loop takes what the last pass has made.
  bool follows_at_once(const Ids& of, Kind kind, bool each_pass = false) const {
    const auto is = [&](DefUse::Id next) {
      return flow_.nodes()[next].kind == kind &&
             (!each_pass || std::ranges::all_of(of, [&](DefUse::Id id) {
               return is_inside(next, flow_.nodes()[id].loop);
             }));
    };
    return std::ranges::any_of(of, [&](DefUse::Id id) {
      if (flow_.nodes()[id].kind == Kind::kDecides) return false;  // it is no part of the value
      return std::ranges::any_of(flow_.makes_directly(id), [&](DefUse::Id next) {
        return is(next) || (takes_all(next, id) && flow_.nodes()[next].kind == Kind::kRead &&
                            std::ranges::any_of(flow_.makes_directly(next), is));
      });
    });
  }

  // Not what was computed of it in the same memory, as an element of it.
  bool takes_all(DefUse::Id next, DefUse::Id id) const {
    return std::ranges::none_of(flow_.makes_directly(id), [&](DefUse::Id part) {
      return flow_.nodes()[part].kind == Kind::kComputed && holds(flow_.nodes()[next].from, part);
    });
  }

  bool is_inside(DefUse::Id id, std::uint32_t loop) const {
    std::uint32_t around = flow_.nodes()[id].loop;
    while (around != loop && around != 0) around = flow_.nodes()[around - 1].loop;
    return around == loop;
  }

  // More is made of it than names, writes that nobody sees, and labels without a name.
  bool is_used(const Ids& of) const {
    const Ids all = flow_.makes(of);
    return std::ranges::any_of(all, [&](DefUse::Id id) {
      const FlowNode& node = flow_.nodes()[id];
      if (node.kind == Kind::kDefined) {
        return !std::ranges::all_of(node.from, [&](DefUse::Id from) {
          return holds(of, from) || flow_.nodes()[from].kind == Kind::kDecides;
        });
      }
      constexpr Kind kUses[] = {Kind::kShown, Kind::kAsserted, Kind::kBackward,
                                Kind::kSent,  Kind::kDecides,  Kind::kRead};
      return std::ranges::count(kUses, node.kind) > 0 && !holds(of, id);
    });
  }

  Role role_of(const ValueReport& report, const Ids& of) const {
    const std::string& name = report.name;
    // Terms that a later line adds up are what [reference] says.
    const bool terms = report.facts.fits == ValueFacts::Fits::kTerms;
    const bool given = report.facts.given && !(terms && is_used(of));
    if (report.spec != nullptr || report.claim || given) return Role::kClaim;
    if (follows_given(of)) return Role::kOnTheWay;
    // A number that decides or counts is judged by what it leads to, as is what is made of sizes.
    if (report.number) return is_used(of) && report.at_end ? Role::kOnTheWay : Role::kClaim;
    if (report.last && inputs_.expected.contains(name)) return Role::kClaim;
    if (report.read || follows_at_once(of, Kind::kShown, !report.last)) return Role::kClaim;
    return is_used(of) || !has_data(flow_.made_of(of)) ? Role::kOnTheWay : Role::kSink;
  }

  // It is computed of nothing but names that [reference] has, and that are right.
  bool follows_given(const Ids& of) const {
    const Ids near = flow_.made_of_until(of, [&](DefUse::Id id) { return holds(given_, id); });
    return meet(near, given_) && std::ranges::all_of(near, [&](DefUse::Id id) {
             const Kind kind = flow_.nodes()[id].kind;
             return holds(given_, id) || kind == Kind::kComputed || kind == Kind::kDefined ||
                    kind == Kind::kRead;
           });
  }

  // Each pass makes it of itself, and no claim or sink is made of it.
  bool ends_a_loop(std::size_t i) const {
    const ValueReport& report = reports_[i];
    if (report.facts.role != Role::kOnTheWay || !report.last || report.number) return false;
    const Ids made = flow_.makes(nodes_[i]);
    const bool again =
        std::ranges::any_of(nodes_[i], [&](DefUse::Id id) { return is_made_again(id); });
    for (std::size_t k = 0; again && k < reports_.size(); ++k) {
      if (reports_[k].facts.role != Role::kOnTheWay && meet(nodes_[k], made)) return false;
    }
    return again;
  }

  // Without it a value is made of sizes and numbers of the text, and has no outcome of its own;
  // unless ranks have added it up.
  bool has_data(const Ids& all) const {
    return std::ranges::any_of(all, [&](DefUse::Id id) {
      const FlowNode& node = flow_.nodes()[id];
      return node.kind == Kind::kInput || node.kind == Kind::kRank || node.kind == Kind::kReduced ||
             node.kind == Kind::kGathered || node.kind == Kind::kFromOne || draws(node.op);
    });
  }

  // Without the numbers of ranks by which whole values are cut into pieces.
  bool by_rank(const Ids& of) const {
    Ids open = of;
    std::vector<bool> seen(flow_.nodes().size());
    while (!open.empty()) {
      const DefUse::Id id = open.back();
      open.pop_back();
      if (seen[id]) continue;
      seen[id] = true;
      const FlowNode& node = flow_.nodes()[id];
      if (node.kind == Kind::kRank && !inputs_.kept.contains(node.name)) return true;
      const bool piece = std::ranges::any_of(
          inputs_.pieces, [&](const SourceSpan& span) { return span.begin == node.begin; });
      for (const DefUse::Id from : node.from) {
        if (!piece || !flow_.any(flow_.made_of({from}), Kind::kRank)) open.push_back(from);
      }
    }
    return false;
  }

  // One device runs another program before it: it sends no messages between stages that ranks take
  // by their number, it has no element of its own out of what is cut, its lists have one entry.
  bool other_program(const ValueReport& report, const Ids& of) const {
    const Ids all = flow_.made_of(of);
    if (meet(cut_, all) || report.row_per_rank) return true;
    const bool collected = flow_.any(all, Kind::kReduced) || flow_.any(all, Kind::kGathered);
    if (collected && !flow_.any(all, Kind::kInput)) return true;  // a count of ranks, own data
    const Ids near = flow_.made_of_until(of, {Kind::kReduced, Kind::kGathered});
    if (is_largest_count(report, all, near)) return true;
    const bool missing = report.facts.fits == ValueFacts::Fits::kNoValue;
    const bool message = flow_.any(all, Kind::kReceived);
    if (missing) {
      return message || flow_.any(all, Kind::kFromOne) || flow_.any(all, Kind::kWorld) ||
             by_rank(of);
    }
    const auto by_stage = [&](DefUse::Id id) {
      return flow_.nodes()[id].kind == Kind::kDecides &&
             flow_.any(flow_.made_of({id}), Kind::kRank);
    };
    if (!inputs_.kept.empty()) return false;
    if (message && std::ranges::any_of(all, by_stage)) return true;
    if (std::ranges::any_of(all, [&](DefUse::Id id) { return is_of_ring(id); })) return true;
    const Ids as_received = flow_.made_of_until(
        of, {Kind::kReceived, Kind::kReduced, Kind::kGathered, Kind::kComputed});
    if (flow_.any(as_received, Kind::kReceived)) return true;
    return std::ranges::any_of(near, [&](DefUse::Id id) {
      return flow_.nodes()[id].kind == Kind::kFromOne && flow_.nodes()[id].entry;
    });
  }

  // A message that is made of the one before, as often as the text says and not as there are ranks.
  bool is_of_ring(DefUse::Id id) const {
    const FlowNode& node = flow_.nodes()[id];
    return node.kind == Kind::kReceived && !node.by_world && is_made_again(id);
  }

  bool is_made_again(DefUse::Id id) const {
    return std::ranges::any_of(flow_.makes_directly(id),
                               [&](DefUse::Id next) { return holds(flow_.makes({next}), id); });
  }

  // The largest of the ranks' own counts, as a capacity is: one device has one count. All counts
  // are meant if it is told as it was reduced.
  bool is_largest_count(const ValueReport& report, const Ids& all, const Ids& near) const {
    if (report.in_floats || report.facts.agrees()) return false;
    const auto is = [&](const Ids& ids, const auto& kind) {
      return std::ranges::any_of(ids, [&](DefUse::Id id) { return kind(flow_.nodes()[id]); });
    };
    const bool told = report.facts.role == Role::kClaim &&
                      !is(near, [](const FlowNode& node) { return node.kind == Kind::kComputed; });
    return !told && is(all, [](const FlowNode& node) {
      return node.op == "bincount" || node.op == "count_nonzero";
    }) && is(near, [](const FlowNode& node) {
      return node.kind == Kind::kReduced && (node.op == "max" || node.op == "min");
    });
  }

  // A step: it is made of a leaf and its gradient, or is a sum, as w - lr * gradient is, or w after
  // a write, of any value of its type that all ranks hold alike and of what follows from that.
  bool is_parameter(std::size_t i) const {
    const ValueReport& report = reports_[i];
    if (report.claim) return false;
    if (report.name.ends_with(".grad") && has_terms_by_claim(report)) return true;
    if (report.facts.role == Role::kOnTheWay || !report.in_floats || report.number) return false;
    if (report.spec != nullptr) return false;
    const Ids near = flow_.made_of_until(nodes_[i], {Kind::kBackward});
    const Ids sums = flow_.made_of_until(nodes_[i], [&](DefUse::Id id) { return !keeps(id); });
    const auto begins_step = [&](const Ids& before) {
      const Ids after = flow_.makes(before);
      const auto follows = [&](DefUse::Id from) { return holds(after, from); };
      const auto is_scaled = [&](DefUse::Id from) {
        const auto changes = [&](DefUse::Id id) { return !keeps(id) && !scales(id); };
        return meet(before, flow_.made_of_until({from}, changes));
      };
      return std::ranges::any_of(sums, [&](DefUse::Id id) {
        const Ids& from = flow_.nodes()[id].from;
        return adds(id) && std::ranges::count_if(from, follows) > 1 &&
               std::ranges::any_of(from, is_scaled);
      });
    };
    const auto input = [&](DefUse::Id id) {
      const FlowNode& node = flow_.nodes()[id];
      const auto found = inputs_.types.find(node.name);
      return node.kind == Kind::kInput && found != inputs_.types.end() &&
             found->second == report.type && begins_step({id});
    };
    if (std::ranges::any_of(near, input)) return true;
    for (std::size_t k = 0; k < reports_.size(); ++k) {
      const ValueReport& other = reports_[k];
      if (k == i || other.type != report.type) continue;
      const bool alike = other.facts.fits == ValueFacts::Fits::kReplicas;
      if (alike && meet(nodes_[k], near) && begins_step(nodes_[k])) return true;
      if (!other.name.ends_with(".grad")) continue;
      const Ids leaf = flow_.held_by(other.name.substr(0, other.name.size() - 5));
      if (meet(leaf, near) && meet(nodes_[k], near)) return true;
    }
    return false;
  }

  // The value under another name, after a write, or in other memory.
  bool keeps(DefUse::Id id) const {
    const FlowNode& node = flow_.nodes()[id];
    return node.kind == Kind::kDefined || node.kind == Kind::kWritten || node.op == "clone" ||
           shares_memory(node.op);
  }

  bool scales(DefUse::Id id) const {
    const FlowNode& node = flow_.nodes()[id];
    return node.op == "*" || node.op == "/" || node.op.starts_with("mul") ||
           node.op.starts_with("div");
  }

  bool adds(DefUse::Id id) const {
    const FlowNode& node = flow_.nodes()[id];
    return node.kind == Kind::kWritten || node.op == "+" || node.op == "-" ||
           node.op.starts_with("add") || node.op.starts_with("sub") || node.op == "lerp";
  }

  // A gradient of what the program calls R: whoever owns it has to add its terms.
  bool has_terms_by_claim(const ValueReport& gradient) const {
    return std::ranges::any_of(reports_, [&](const ValueReport& other) {
      return other.claim && other.claim->gradient &&
             other.claim->subject + ".grad" == gradient.name &&
             std::ranges::any_of(other.claim->type.types,
                                 [](const SpmdType& type) { return type.is_p(); });
    });
  }

  const RoleInputs& inputs_;
  const DefUse& flow_;
  std::vector<ValueReport>& reports_;
  std::vector<Ids> nodes_;  // by report
  Ids cut_;
  Ids given_;
};

}  // namespace

bool meet(const DefUse::Ids& a, const DefUse::Ids& b) {
  return std::ranges::any_of(a, [&](DefUse::Id id) { return holds(b, id); });
}

DefUse::Ids made_from(const DefUse& flow, const DefUse::Ids& held, std::uint32_t begin) {
  const auto made_here = [&](DefUse::Id id) {
    const FlowNode& node = flow.nodes()[id];
    return node.begin >= begin && node.kind != Kind::kInput;
  };
  Ids own, rest;
  for (const DefUse::Id id : held) {
    if (made_here(id) && flow.nodes()[id].kind != Kind::kDecides) own.push_back(id);
  }
  const Ids before = flow.made_of(own);
  for (const DefUse::Id id : held) {
    if (made_here(id) || !holds(before, id)) rest.push_back(id);
  }
  return rest;
}

DefUse::Ids nodes_of(const DefUse& flow, const ValueReport& report) {
  const std::uint32_t begin = report.where.span.begin;
  if (report.claim && report.claim->gradient) {
    return flow.held_by(report.claim->subject + ".grad");
  }
  Ids held = report.number ? flow.shown_at(begin) : Ids();
  if (held.empty() && !report.name.ends_with(".grad")) {
    held = made_from(flow, flow.held_by(report.name, begin), begin);
  }
  return held.empty() ? flow.held_by(report.name) : held;
}

void find_roles(const RoleInputs& inputs, std::vector<ValueReport>& reports) {
  Roles(inputs, reports).find();
}

void find_outcomes(const DefUse& flow, std::vector<ValueReport>& reports) {
  for (ValueReport& report : reports) report.row = &outcome_of(report.facts);
  std::vector<Ids> nodes;
  for (const ValueReport& report : reports) nodes.push_back(last_of(flow, report));
  for (std::size_t i = 0; i < reports.size(); ++i) {
    ValueFacts& facts = reports[i].facts;
    if (facts.role != Role::kOnTheWay || facts.agrees()) continue;
    const Ids made = flow.makes(nodes[i]);
    facts.leads_right = true;
    for (std::size_t k = 0; k < reports.size(); ++k) {
      const ValueReport& other = reports[k];
      if (other.facts.role == Role::kOnTheWay || !meet(nodes[k], made)) continue;
      const Outcome outcome = other.outcome();
      const bool right = outcome == Outcome::kVerified || outcome == Outcome::kLeftAsTerms;
      facts.leads_right = facts.leads_right && right;
    }
    reports[i].row = &outcome_of(facts);
  }
}

}  // namespace shardlab
