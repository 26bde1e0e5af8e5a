// Both programs are played once more, up to the call: its operands are compared one by one.
#include "sim/replay/taken_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "sim/replay/comparison.h"
#include "sim/replay/difference_text.h"
#include "sim/replay/event_flow.h"
#include "tensor/host.h"

namespace shardlab {

namespace {

struct TakenValue {
  std::int32_t number = -1;
  std::size_t made = 0;  // index of the event of a line that made it; 0: none did
  std::string key;       // of the call that gave it; empty: none
  std::vector<PointPart> parts;
};

// Values that the call with this key takes, and what it gives, last.
std::vector<TakenValue> taken_at(const RecordedProgram& program, const std::string& key) {
  std::vector<TakenValue> all;
  std::map<std::int32_t, std::size_t> made;
  std::map<std::int32_t, std::string> keys;
  PointNames names(program, false, {}, is_key_by_line(key));
  play_events(program, {}, [&](std::size_t index, const EventValues& values) {
    const RecordedEvent& event = program.events[index];
    for (const ComparedPoint& point : names.at(index, values)) {
      if (point.key.starts_with("call ")) keys[point.value] = point.key;
      const bool more = !all.empty() && event.rank >= 0;  // another rank's event of its own
      const bool fits = all.empty() || (more && all.size() == point.operands.size() + 1);
      if (point.key != key || !fits) continue;
      all.resize(point.operands.size() + 1);
      const auto add = [&](TakenValue& taken, std::int32_t number, std::size_t maker,
                           const std::vector<PointPart>& parts) {
        taken.number = number;
        taken.made = maker;
        taken.key = keys.contains(number) ? keys.at(number) : "";
        taken.parts.insert(taken.parts.end(), parts.begin(), parts.end());
      };
      for (std::size_t i = 0; i < point.operands.size(); ++i) {
        const auto maker = made.find(point.operands[i]);
        add(all[i], point.operands[i], maker == made.end() ? 0 : maker->second,
            parts_of_value(values, point.operands[i], point.ranks));
      }
      add(all.back(), point.value, index, point.parts);
    }
    if (!makes_values(event) || event.place < 0) return;
    for_each_given(event, [&](const EventValue& one) { made[one.id.id] = index; });
  });
  return all;
}

// The whole, which all ranks of A have; null: each has its own.
const PointPart* shared_whole(const TakenValue& taken) {
  return taken.parts.empty() || !are_equal(taken.parts) ? nullptr : taken.parts.data();
}

double allowed_of(const PointPart& whole) {
  constexpr double kRoundings = 4;  // those of several calls
  return kRoundings * rounding_allowed(whole);
}

Explained explained_of(const PointPart& whole, const TakenValue& taken, const Ranks& ranks,
                       const std::vector<RankGroups>& groups) {
  if (whole.elements.empty() || taken.parts.empty()) {
    return {.held = ValueHeld::kUnknown, .groups = {}};
  }
  return explain(whole, std::max(allowed_of(whole), 1e-300), taken.parts, ranks, groups);
}

// Parts without so much of `added`, along their last dims; empty: it does not fit.
std::vector<PointPart> without(const std::vector<PointPart>& parts,
                               const std::vector<double>& added, double times) {
  std::vector<PointPart> left = parts;
  for (PointPart& part : left) {
    if (added.size() < 2 || part.elements.size() % added.size() != 0) return {};
    for (std::size_t i = 0; i < part.elements.size(); ++i) {
      part.elements[i] -= times * added[i % added.size()];
    }
  }
  return left;
}

struct Addend {
  std::string name;
  std::vector<double> elements;
  bool parameter = false;
  std::int32_t number = -1;
};

// Operands of calls of the line, and parameters of one dim.
std::vector<Addend> addends_of(const RecordedProgram& b, const BlamedValue& first) {
  std::vector<Addend> all;
  const std::size_t rank = first.point.ranks.at(0);
  play_events(b, {}, [&](std::size_t index, const EventValues& values) {
    if (index > first.point.event) return;
    const RecordedEvent& event = b.events[index];
    const bool parameter = event.kind == RecordedKind::kInput && event.requires_grad &&
                           event.out[0].type.shape.size() == 1;
    const auto add = [&](const std::string& name, std::int32_t number) {
      const DTensor& value = values.on(number, rank);
      if (!value.defined() || value.distributed() || is_complex(value.dtype())) return;
      all.push_back({name, read_doubles(value.local()), parameter, number});
    };
    if (parameter) add(event.name, event.out[0].id.id);
    const bool calls = makes_values(event) || event.kind == RecordedKind::kCall;
    if (!calls || place_of(b, event) != first.point.place) return;
    for_each_operand(event, rank, [&](std::int32_t number) {
      add(fmt::format("the operand of {}", event.op), number);
    });
  });
  return all;
}

// "model.py:14", if a call takes the value.
std::string place_of_taker(const RecordedProgram& b, std::int32_t number) {
  for (const RecordedEvent& event : b.events) {
    bool takes = false;
    if (!makes_values(event) || event.place < 0) continue;
    for_each_operand(event, [&](std::int32_t one) { takes = takes || one == number; });
    if (takes) return place_of(b, event);
  }
  return "";
}

// Pieces that are each a part, but not together the whole, as those of the other operands are.
bool leaves_out(const PointPart& whole, const TakenValue& taken) {
  return missing_element(whole, allowed_of(whole), taken.parts).has_value();
}

// Some operand is cut over ranks.
bool takes_pieces(const std::vector<TakenValue>& whole, const std::vector<TakenValue>& own) {
  for (std::size_t i = 0; i + 1 < own.size(); ++i) {
    const PointPart* all = shared_whole(whole[i]);
    const auto is_cut = [&](const PointPart& part) { return part.shape != all->shape; };
    if (all != nullptr && std::ranges::any_of(own[i].parts, is_cut)) return true;
  }
  return false;
}

// The one operand of the first wrong call that is not A's, in its place; false: there is none.
bool look_once(RecordingBlame& blame, const RecordedProgram& a, const RecordedProgram& b,
               const std::vector<RankGroups>& groups) {
  const BlamedValue first = blame.wrong.front();
  const bool named = first.point.key.starts_with("call ") || first.point.kind == PointKind::kFlow;
  const bool call = named && !first.point.op.empty();
  if (!call || first.cause.held != ValueHeld::kWrong) return false;
  const std::vector<TakenValue> whole = taken_at(a, first.point.key);
  const std::vector<TakenValue> own = taken_at(b, first.point.key);
  if (whole.size() != own.size()) return false;
  // All gradients are a multiple where each rank's loss is the average of its own rows.
  const bool flows = first.point.kind == PointKind::kFlow;
  const Explained of_loss{
      .held = ValueHeld::kScaled, .factor = blame.first_factor.value_or(1), .groups = {}};
  const TakenValue* found = nullptr;
  Explained cause;
  bool left_out = false;
  std::size_t wrong = 0;
  for (std::size_t i = 0; i + 1 < own.size(); ++i) {
    const PointPart* all = shared_whole(whole[i]);
    // A value that the call writes in place is known as it is behind the call alone.
    if (all == nullptr || own[i].made == 0 || own[i].number == first.point.value) continue;
    if (is_integral(all->dtype) && takes_pieces(whole, own)) continue;  // they count in a piece
    Explained one = explained_of(*all, own[i], first.point.ranks, groups);
    if (flows && same_cause(one, of_loss)) continue;
    const bool leaves = one.held == ValueHeld::kRight && leaves_out(*all, own[i]);
    if ((one.held == ValueHeld::kRight && !leaves) || one.held == ValueHeld::kUnknown) continue;
    if (++wrong > 1) return false;
    if (leaves) one.held = ValueHeld::kWrong;
    found = &own[i];
    cause = one;
    left_out = leaves;
  }
  if (found == nullptr) return false;
  BlamedValue value = first;
  const RecordedEvent& maker = b.events[found->made];
  value.point.key = found->key;
  value.point.event = found->made;
  value.point.line = maker.line;
  value.point.value = found->number;
  value.point.op = op_text(maker);
  value.point.place = place_of(b, maker);
  value.point.name = module_of(b, maker);
  value.cause = cause;
  value.what = left_out ? "ranks hold the same piece of it, and none another one"
               : cause.held == ValueHeld::kWrong ? "it is not what A's call takes"
                                                 : text_of_cause(cause);
  value.what += fmt::format("; {} ({}) takes it as the whole", first.point.op, first.point.place);
  blame.wrong.front().follows = true;
  blame.wrong.insert(blame.wrong.begin(), std::move(value));
  return true;
}

}  // namespace

void look_into(RecordingBlame& blame, const RecordedProgram& a, const RecordedProgram& b,
               const std::vector<RankGroups>& groups) {
  constexpr int kMostLooks = 4;
  for (int i = 0; i < kMostLooks && look_once(blame, a, b, groups); ++i) {
  }
}

std::optional<RecordingEdit> less_of(const BlamedValue& first, const std::string& key,
                                     const RecordedProgram& a, const RecordedProgram& b,
                                     const std::vector<RankGroups>& groups) {
  if (first.cause.held != ValueHeld::kWrong) return std::nullopt;
  const std::vector<TakenValue> whole = taken_at(a, key);
  const std::vector<TakenValue> own = taken_at(b, key);
  if (whole.size() != own.size()) return std::nullopt;
  std::set<double> counts = {1};
  for (const RankGroups& one : groups) {
    const auto size = static_cast<double>(one.groups[0].size());
    counts.insert({size - 1, size - static_cast<double>(a.ranks)});
  }
  const std::vector<Addend> addends = addends_of(b, first);
  for (std::size_t i = 0; i < own.size(); ++i) {
    const PointPart* all = shared_whole(whole[i]);
    if (own[i].number != first.point.value || all == nullptr) continue;
    for (const Addend& one : addends) {
      for (const double times : counts) {
        TakenValue left = own[i];
        left.parts = without(left.parts, one.elements, times);
        const Explained now = explained_of(*all, left, first.point.ranks, groups);
        if (now.held != ValueHeld::kRight) continue;
        RecordingEdit edit{.places = {{first.point.event, first.point.value}}, .text = ""};
        edit.added = std::pair(one.elements, times);
        if (one.parameter) edit.parameter = one.name;
        edit.added_at = place_of_taker(b, one.number);
        edit.text = fmt::format(
            "y = y - {} * b    # {}; b: {} with {} elements. Each rank adds it{}{}; behind the sum "
            "it is added once",
            number_text(times), first.point.place, one.name, one.elements.size(),
            edit.added_at.empty() ? "" : " at ", edit.added_at);
        return edit;
      }
    }
  }
  return std::nullopt;
}

}  // namespace shardlab
