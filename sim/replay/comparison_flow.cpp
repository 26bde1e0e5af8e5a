// A result inherits from the operands of its line. A collective ends what is known of terms.
#include <algorithm>

#include "sim/replay/comparison.h"
#include "sim/replay/event_flow.h"
#include "sim/replay/library_nodes.h"

namespace shardlab {

namespace {

// An optimizer may use a gradient as memory of its own where it has the parameter: the gradients of
// other ranks are used no more.
void leave_out_unused(const RecordedProgram& program, const Writers& writers,
                      ComparedPoint& point) {
  const bool by_rank = point.of_others.size() + 1 == point.ranks.size();
  if (!by_rank || point.parts.size() != point.ranks.size()) return;
  std::set<std::size_t> unused;  // ranks
  const auto look = [&](std::size_t event, std::int32_t value) {
    const auto writer = writers.last(value);
    const bool used = writer && program.events[*writer].pass == RecordedPass::kOptimizer;
    if (!used) unused.insert(static_cast<std::size_t>(program.events[event].rank));
  };
  for (const auto& [event, value] : point.of_others) look(event, value);
  look(point.event, point.value);
  if (unused.size() == point.ranks.size()) return;
  leave_out(point, [&](std::size_t i) { return unused.contains(point.ranks[i]); });
}

// A number, as a norm or a loss, is no gradient.
bool has_elements(const RecordedEvent& event) {
  bool several = false;
  for_each_given(event,
                 [&](const EventValue& one) { several = several || product(one.type.shape) > 1; });
  return several;
}

// A rank that steps other parameters alone has this one as it was.
bool add_unstepped(const PointsOfA& a, const std::map<std::string, ComparedPoint>& begins,
                   const std::set<std::int32_t>& stepped, ComparedPoint& point) {
  const auto own = begins.find(point.name);
  const auto whole = a.find("input " + point.name + "|0");
  if (own == begins.end() || whole == a.end()) return false;
  const std::size_t known = point.ranks.size();
  for (std::size_t i = 0; i < own->second.parts.size(); ++i) {
    const std::size_t rank = own->second.ranks[i];
    const std::vector<double>& begin = own->second.parts[i].elements;
    const bool steps = stepped.contains(static_cast<std::int32_t>(rank));
    const bool here = std::ranges::find(point.ranks, rank) != point.ranks.end();
    if (!steps || here || begin.empty() || begin != whole->second[0].elements) continue;
    const auto at = std::ranges::upper_bound(point.ranks, rank) - point.ranks.begin();
    point.ranks.insert(point.ranks.begin() + at, rank);
    point.parts.insert(point.parts.begin() + at, own->second.parts[i]);
  }
  return point.ranks.size() > known;
}

}  // namespace

void RecordingComparison::flow(const RecordedProgram& program, std::size_t at) {
  const RecordedEvent& event = program.events[at];
  writers_.meet(program, at);
  const bool first = at == 0 || event.rank < 0 || program.events[at - 1].line != event.line;
  for (const std::int32_t root : event.takes) {
    if (event.kind == RecordedKind::kBackward) known_[root].taken = true;
  }
  if (makes_values(event) && event.place >= 0) {
    for_each_given(event, [&](const EventValue& one) { made_[one.id.id] = at; });
  }
  if (!makes_values(event) || !first) return;
  const std::size_t end = end_of_line(program, at);
  Followed all;
  for (std::size_t i = at; i < end; ++i) {
    const RecordedEvent& one = program.events[i];
    for_each_operand(one, [&](std::int32_t number) {
      const bool seed = bare_op(one.op) == "ones_like" && losses_.contains(number);
      all.flows_back = all.flows_back || seed;
      if (!reads(program, one, number)) return;
      known_[number].taken = true;
      inherit(all, known_[number]);
    });
    all.own = all.own || own_numbers_.contains(i);
    if (is_recorded_message(one)) follow_message(program, one, all);
    if (!is_collective(one)) continue;
    for (const EventValue& written : one.written) reduced_.insert(written.id.id);
    if (!one.written.empty() || !bare_op(one.op).starts_with("all_reduce")) continue;
    for_each_operand(one, [&](std::int32_t number) { reduced_.insert(number); });
  }
  using enum RecordedKind;
  const bool reduces =
      is_collective(event) || event.kind == kRedistribute || event.kind == kRedistributeBack;
  if (reduces || event.kind == kFromLocal || event.kind == kToLocal) {
    all.through.push_back(moved_by(program, event));
  }
  const bool back = event.pass == RecordedPass::kBackward;
  all.of_rows = !back && (all.of_rows || !micro_batches_.is_behind_backward(at));
  const bool terms = all.suspect != nullptr && all.suspect->cause.held == ValueHeld::kTerms;
  all.added = all.added || (reduces && terms && has_elements(event));
  if (reduces) all.suspect = nullptr;
  if (reduces) all.own = false;
  const bool keeps = reduces || copies(event) || event.kind == kAlias || event.kind == kOfRanks;
  if (!keeps) all.like.clear();
  for (std::size_t i = at; i < end; ++i) {
    for_each_given(program.events[i], [&](const EventValue& one) { known_[one.id.id] = all; });
  }
}

void inherit(Followed& all, const Followed& one) {
  all.off = std::max(all.off, one.off);
  all.own = all.own || one.own;
  all.added = all.added || one.added;
  all.of_rows = all.of_rows || one.of_rows;
  all.of_gradient = all.of_gradient || one.of_gradient;
  all.flows_back = all.flows_back || one.flows_back;
  if (all.wrong < 0 || (one.wrong >= 0 && one.wrong < all.wrong)) all.wrong = one.wrong;
  if (all.suspect == nullptr) all.suspect = one.suspect;
  if (all.like.empty()) all.like = one.like;
  for (const std::string& text : one.through) {
    if (std::ranges::find(all.through, text) == all.through.end()) all.through.push_back(text);
  }
}

// The receiver's value is the sender's.
void RecordingComparison::follow_message(const RecordedProgram& program, const RecordedEvent& event,
                                         Followed& all) {
  std::deque<Followed>& way = messages_[route_of(program, event)];
  if (is_recorded_send(event)) {
    way.push_back(all);
  } else if (!way.empty()) {
    inherit(all, way.front());
    way.pop_front();
  }
}

// A gradient as it is in the end is what was written last.
void RecordingComparison::name_writer(const RecordedProgram& program, ComparedPoint& point) {
  if (point.kind == PointKind::kGradient) return writers_.forget(point.value);
  const bool no_place = is_loss(point) || program.events[point.event].place < 0;
  const auto maker = made_.find(point.value);
  if (point.kind == PointKind::kResult && no_place && maker != made_.end()) {
    const RecordedEvent& event = program.events[maker->second];
    point.place = place_of(program, event);
    if (is_loss(point)) {
      point.event = maker->second;
      point.op = event.op;
    }
  }
  if (point.kind != PointKind::kEnd) return;
  const bool parameter = is_stepped(point);
  if (!parameter) leave_out_unused(program, writers_, point);
  const auto writer = writers_.last(point.value);
  const bool unstepped = parameter && add_unstepped(a_, begins_, stepped_, point);
  if (!writer || (parameter && !unstepped)) return;
  point.place = place_of(program, program.events[*writer]);
  if (parameter) return;
  point.op = program.events[*writer].op;
  point.event = *writer;
}

}  // namespace shardlab
