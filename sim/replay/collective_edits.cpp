// Edits of lines that have a collective. Each rank uses the parts of all others that it gathers, so
// that gradients of a part are terms: a sum over ranks that is left out shows in gradients alone.
#include "sim/replay/collective_edits.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "sim/replay/event_flow.h"

namespace shardlab {

namespace {

bool gathers(const RecordedEvent& event) {
  return is_collective(event) && event.pass != RecordedPass::kBackward &&
         (event.op.find("allgather") != std::string::npos ||
          event.op.find("all_gather") != std::string::npos);
}

// The number of the first tensor that a collective gives.
std::int32_t first_given(const RecordedEvent& event) {
  return (event.written.empty() ? event.out : event.written).at(0).id.id;
}

// Functions that gather in forward and have no collective in backward.
class OwnGradients {
 public:
  explicit OwnGradients(const RecordedProgram& b) : b_(b) {
    for (const RecordedEvent& event : b.events) {
      if (is_collective(event) && event.function) reduced_.insert({event.rank, *event.function});
    }
  }

  std::vector<BackwardEdit> edits() {
    std::map<std::int32_t, std::size_t> made;  // the event that gave a value
    for (std::size_t i = 0; i < b_.events.size(); ++i) {
      const RecordedEvent& event = b_.events[i];
      if (gathers(event)) gathers_.push_back(i);
      if (event.kind == RecordedKind::kFunction) meet_function(event);
      if (event.kind == RecordedKind::kRule) meet_rule(event, made);
      if (!makes_values(event)) continue;
      for_each_given(event, [&](const EventValue& one) { made[one.id.id] = i; });
    }
    std::vector<BackwardEdit> all;
    for (auto& [name, edit] : by_name_) {
      if (!edit.edit.places.empty()) all.push_back(std::move(edit));
    }
    return all;
  }

 private:
  // Its calls are before it, and its values are newer than `known`.
  void meet_function(const RecordedEvent& event) {
    if (!event.function || reduced_.contains({event.rank, *event.function})) return;
    for (const std::size_t at : gathers_) {
      const RecordedEvent& gather = b_.events[at];
      const std::int32_t first = first_given(gather);
      const bool inside = first >= 0 && static_cast<std::size_t>(first) >= event.known;
      if (!inside || gather.group < 0) continue;
      BackwardEdit& edit = by_name_[event.name];
      edit.gather = at;
      edit.gathered = first;
      edit.edit.reduced = ranks_of(b_.groups[static_cast<std::size_t>(gather.group)]);
      edit.edit.text = fmt::format(
          "dist.all_reduce(gradient)    # of each that the backward of {} takes", event.name);
      names_[{event.rank, *event.function}] = event.name;
    }
    gathers_.clear();
  }

  void meet_rule(const RecordedEvent& event, const std::map<std::int32_t, std::size_t>& made) {
    const auto name = event.function ? names_.find({event.rank, *event.function}) : names_.end();
    if (name == names_.end()) return;
    for (const std::int32_t gradient : event.takes) {
      const auto maker = made.find(gradient);
      if (maker == made.end()) continue;
      by_name_[name->second].edit.places.emplace_back(maker->second, gradient);
    }
  }

  const RecordedProgram& b_;
  std::set<std::pair<std::int32_t, std::size_t>> reduced_;             // rank and function
  std::map<std::pair<std::int32_t, std::size_t>, std::string> names_;  // their classes
  std::vector<std::size_t> gathers_;                                   // since the last function
  std::map<std::string, BackwardEdit> by_name_;
};

// How many gradients flow back through each call, by its key.
using FlowCounts = std::map<std::string, std::size_t>;

void count_flow(std::string_view key, FlowCounts& counts) {
  constexpr std::string_view kBackward = "backward ";
  if (!key.starts_with(kBackward)) return;
  key.remove_prefix(kBackward.size());
  std::size_t end = key.find('|');  // behind module, op and count
  for (int i = 0; i < 2 && end != std::string_view::npos; ++i) end = key.find('|', end + 1);
  ++counts[std::string(key.substr(0, end))];
}

}  // namespace

std::optional<ReduceOp> reduction_of(const RecordedEvent& event) {
  std::optional<ReduceOp> op;
  for (const GraphArgument& argument : event.args) {
    const auto* text = std::get_if<std::string>(&argument.value);
    if (text != nullptr && is_collective(event) && !op) op = parse_reduce_op(*text);
  }
  return op;
}

BlamedValue blamed_line(const RecordedProgram& b, std::size_t event, std::int32_t number) {
  BlamedValue value;
  value.point.kind = PointKind::kResult;
  value.point.event = event;
  value.point.line = b.events[event].line;
  value.point.value = number;
  value.point.op = b.events[event].op;
  value.point.place = place_of(b, b.events[event]);
  const std::int32_t only = is_collective(b.events[event]) ? -1 : b.events[event].rank;
  value.point.ranks = ranks_meant(only, b.ranks);
  return value;
}

std::vector<RecordingEdit> other_reductions(const RecordedProgram& b, std::size_t wrong) {
  std::map<std::pair<std::int32_t, ReduceOp>, RecordingEdit> by_line;
  for (std::size_t i = 0; i < b.events.size(); ++i) {
    const RecordedEvent& event = b.events[i];
    const auto op = reduction_of(event);
    const bool sums = op == ReduceOp::kSum;
    if (!op || (sums && event.place != b.events[wrong].place)) continue;
    RecordingEdit& edit = by_line[{event.place, *op}];
    edit.places.emplace_back(i, first_given(event));
    edit.op = sums ? ReduceOp::kMax : ReduceOp::kSum;
    if (edit.places.size() > 1) continue;
    edit.text = fmt::format("op=dist.ReduceOp.{}    # in place of {}, in {}, {}",
                            sums ? "MAX" : "SUM", to_string(*op), event.op, place_of(b, event));
  }
  std::vector<RecordingEdit> all;
  for (const auto& [line, edit] : by_line) {
    all.push_back(edit);
    // A line that the backward of a function calls, too: recorded backwards have no lines.
    const auto back = by_line.find({-1, line.second});
    if (line.first < 0 || back == by_line.end()) continue;
    all.push_back(edit);
    const EditPlaces& places = back->second.places;
    all.back().places.insert(all.back().places.end(), places.begin(), places.end());
    all.back().text += ", and in backward";
  }
  return all;
}

std::vector<RecordingEdit> other_groups(const RecordedProgram& b, const BlamedValue& wrong,
                                        const std::vector<RankGroups>& groups) {
  using Line = std::pair<std::int32_t, std::string>;
  std::map<Line, EditPlaces> lines;
  std::vector<Line> order;  // from the nearest on
  for (std::size_t i = 0; i < b.events.size(); ++i) {
    const RecordedEvent& event = b.events[i];
    const bool reduces = reduction_of(event) && event.group >= 0;
    const bool own = wrong.point.op == event.op && b.events[wrong.point.event].place == event.place;
    const bool before = reduces && std::ranges::count(wrong.through, moved_by(b, event)) > 0;
    if (!reduces || (!own && !before)) continue;
    const Line line{event.place, event.op};
    lines[line].emplace_back(i, first_given(event));
    std::erase(order, line);
    order.insert(order.begin(), line);
  }
  std::vector<RecordingEdit> all;
  for (const Line& line : order) {
    const EditPlaces& places = lines.at(line);
    const RecordedEvent& event = b.events[places[0].first];
    const Ranks own = ranks_of(b.groups[static_cast<std::size_t>(event.group)]).groups[0];
    for (const RankGroups& other : groups) {
      const auto with_first = std::ranges::find_if(
          other.groups, [&](const Ranks& ranks) { return std::ranges::count(ranks, own[0]) > 0; });
      if (with_first == other.groups.end() || *with_first == own) continue;
      RecordingEdit& edit = all.emplace_back();
      edit.places = places;
      edit.reduced = other;
      edit.instead = true;
      edit.text =
          fmt::format("group=[{}]    # in place of [{}], in {}", text_of_list(*with_first, ", "),
                      text_of_list(own, ", "), moved_by(b, event));
    }
  }
  return all;
}

RecordingEdit without_collective(const RecordedProgram& b, const ComparedPoint& wrong) {
  RecordingEdit edit{.places = results_of_line(b, wrong.event, wrong.value, true),
                     .instead = true,
                     .text = fmt::format("without {}, {}", wrong.op, wrong.place)};
  edit.reduced.emplace();
  for (std::size_t rank = 0; rank < b.ranks; ++rank) edit.reduced->groups.push_back({rank});
  return edit;
}

std::vector<BackwardEdit> added_in_backward(const RecordedProgram& b) {
  return OwnGradients(b).edits();
}

std::optional<BlamedValue> gradient_stop(const PointsOfA& a, const RecordedProgram& b,
                                         PointNames names) {
  FlowCounts of_a, of_b;
  for (const auto& [key, parts] : a) count_flow(key, of_a);
  std::vector<std::string> calls(b.events.size());  // keys
  for (std::size_t i = 0; i < b.events.size(); ++i) {
    for (const ComparedPoint& point : names.named(i)) {
      count_flow(point.key, of_b);
      const std::size_t end = point.key.rfind('[');
      if (point.key.starts_with("call ")) calls[i] = point.key.substr(5, end - 5);
    }
  }
  std::map<std::int32_t, std::pair<std::size_t, std::int32_t>> from;  // the gather and its result
  std::map<std::int32_t, std::int32_t> copied;                        // of copies
  const auto own = [&](std::int32_t number) {
    const auto found = copied.find(number);
    return found == copied.end() ? number : found->second;
  };
  std::map<std::size_t, std::set<std::int32_t>> taken;  // by gathers
  for (std::size_t i = 0; i < b.events.size(); ++i) {
    const RecordedEvent& event = b.events[i];
    if (event.pass == RecordedPass::kBackward) continue;
    if (gathers(event)) {
      for (const EventValue& one : event.written) from[one.id.id] = {i, one.id.id};
      for_each_operand(event, [&](std::int32_t number) { taken[i].insert(own(number)); });
      continue;
    }
    std::optional<std::pair<std::size_t, std::int32_t>> origin;
    std::vector<std::int32_t> others;
    for_each_operand(event, [&](std::int32_t number) {
      const auto found = from.find(number);
      if (found == from.end()) others.push_back(own(number));
      if (found != from.end() && !origin) origin = found->second;
    });
    const std::int32_t first = others.empty() ? -1 : others[0];
    if (!origin && copies(event) && event.out.size() == 1) copied[event.out[0].id.id] = first;
    if (!origin) continue;
    // Its own part, which has a gradient, next to those of other ranks, which have none.
    const bool own_part = std::ranges::any_of(
        others, [&](std::int32_t number) { return taken[origin->first].contains(number); });
    const auto flow = of_b.find(calls[i]);
    if (flow != of_b.end() && (own_part || flow->second < of_a[calls[i]])) {
      BlamedValue value = blamed_line(b, origin->first, origin->second);
      value.what = "no gradient comes back through it: other ranks have used what it gathers";
      return value;
    }
    if (!makes_values(event)) continue;
    for_each_given(event, [&](const EventValue& one) { from.try_emplace(one.id.id, *origin); });
  }
  return std::nullopt;
}

}  // namespace shardlab
