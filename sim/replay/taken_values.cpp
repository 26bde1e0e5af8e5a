// Both programs are played once more, up to the call: its operands are compared one by one.
#include "sim/replay/taken_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "sim/replay/collective_edits.h"
#include "sim/replay/comparison.h"
#include "sim/replay/difference_text.h"
#include "sim/replay/event_flow.h"
#include "tensor/host.h"

namespace shardlab {

namespace {

// A call: its event, or, of ranks that have events of their own, that of each.
using CallEvents = std::vector<std::size_t>;

struct TakenValue {
  std::int32_t number = -1;  // of the last event
  EditPlaces made;           // the event of a line that made it, of each event; fewer: none did
  std::vector<PointPart> parts;
};

struct TakenValues {
  std::vector<TakenValue> operands, results;
  std::vector<std::size_t> ranks;
};

// Events that made values at a line: none of what backward or an optimizer wrote last.
void note_made(const RecordedProgram& program, std::size_t at,
               std::map<std::int32_t, std::size_t>& made) {
  const RecordedEvent& event = program.events[at];
  if (!makes_values(event)) return;
  for_each_given(event, [&](const EventValue& one) {
    if (event.place >= 0) made[one.id.id] = at;
    if (event.place < 0) made.erase(one.id.id);
  });
}

// Events of the call with this key, or those that wrote the value with it, before `names` is asked.
CallEvents events_of(const RecordedProgram& program, PointNames names, const std::string& key) {
  std::map<std::int32_t, std::size_t> made;
  CallEvents all;
  for (std::size_t i = 0; i < program.events.size(); ++i) {
    const RecordedEvent& event = program.events[i];
    for (const ComparedPoint& point : names.named(i)) {
      const bool more = all.empty() || event.rank >= 0;  // another rank's event of its own
      if (point.key != key || !more) continue;
      const auto writer = made.find(point.value);
      if (point.kind != PointKind::kEnd) all.push_back(i);
      if (point.kind == PointKind::kEnd && writer != made.end()) all.push_back(writer->second);
    }
    note_made(program, i, made);
  }
  return all;
}

// With those of all other ranks, if each has as many of the op at the line.
CallEvents on_all_ranks(const RecordedProgram& program, const CallEvents& some) {
  if (some.empty() || program.events[some[0]].rank < 0) return some;
  const RecordedEvent& own = program.events[some[0]];
  std::vector<CallEvents> by_rank(program.ranks);
  for (std::size_t i = 0; i < program.events.size(); ++i) {
    const RecordedEvent& event = program.events[i];
    const bool alike =
        event.rank >= 0 && event.op == own.op && event.place == own.place && event.pass == own.pass;
    if (alike && module_of(program, event) == module_of(program, own))
      by_rank[static_cast<std::size_t>(event.rank)].push_back(i);
  }
  const CallEvents& first = by_rank[static_cast<std::size_t>(own.rank)];
  const auto at = static_cast<std::size_t>(std::ranges::find(first, some[0]) - first.begin());
  CallEvents all;
  for (const CallEvents& events : by_rank) {
    if (events.size() != first.size() || at == first.size()) return some;
    all.push_back(events[at]);
  }
  return all;
}

// Values that a call takes, and those it gives. One that a collective writes in place is taken
// before it: behind the last event that names it.
class TakenAt {
 public:
  TakenAt(const RecordedProgram& program, const CallEvents& call) : program_(program) {
    std::map<std::int32_t, std::size_t> made;
    for (std::size_t i = 0; i < program.events.size(); ++i) {
      if (std::ranges::count(call, i) > 0) plan(i, made);
      for (const std::size_t rank : ranks_meant(program.events[i].rank, program.ranks))
        for_each_named(program.events[i], rank, [&](std::int32_t one) { named_[one] = i; });
      note_made(program, i, made);
    }
  }

  TakenValues values() && {
    play_events(program_, {}, [&](std::size_t index, const EventValues& values) {
      const auto [begin, end] = looks_.equal_range(index);
      for (auto look = begin; look != end; ++look) {
        const auto& [taken, at, number, ranks] = look->second;
        const std::vector<PointPart> parts = parts_of_value(values, number, ranks);
        std::vector<PointPart>& all = (values_.*taken)[at].parts;
        all.insert(all.end(), parts.begin(), parts.end());
      }
    });
    return std::move(values_);
  }

 private:
  struct Look {
    std::vector<TakenValue> TakenValues::*taken;
    std::size_t at;
    std::int32_t number;
    std::vector<std::size_t> ranks;
  };

  void plan(std::size_t index, const std::map<std::int32_t, std::size_t>& made) {
    const RecordedEvent& event = program_.events[index];
    const std::vector<std::size_t> ranks = ranks_meant(event.rank, program_.ranks);
    values_.ranks.insert(values_.ranks.end(), ranks.begin(), ranks.end());
    std::set<std::int32_t> given;
    std::size_t result = 0, operand = 0;
    const auto add = [&](auto taken, std::size_t at, std::int32_t number, std::size_t look) {
      std::vector<TakenValue>& all = values_.*taken;
      if (at >= all.size()) all.resize(at + 1);
      all[at].number = number;
      const auto maker = made.find(number);
      if (maker != made.end()) all[at].made.emplace_back(maker->second, number);
      looks_.insert({look, {taken, at, number, ranks}});
    };
    for_each_given(event, [&](const EventValue& one) {
      given.insert(one.id.id);
      add(&TakenValues::results, result++, one.id.id, index);
    });
    for_each_operand(event, ranks[0], [&](std::int32_t one) {
      const bool before = is_collective(event) && given.contains(one);
      add(&TakenValues::operands, operand++, one, before ? named_[one] : index);
    });
  }

  const RecordedProgram& program_;
  std::multimap<std::size_t, Look> looks_;     // by events
  std::map<std::int32_t, std::size_t> named_;  // by number: the last event so far
  TakenValues values_;
};

TakenValues taken_at(const RecordedProgram& program, const CallEvents& call) {
  return TakenAt(program, call).values();
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
bool takes_pieces(const TakenValues& whole, const TakenValues& own) {
  for (std::size_t i = 0; i < own.operands.size(); ++i) {
    const PointPart* all = shared_whole(whole.operands[i]);
    const auto is_cut = [&](const PointPart& part) { return part.shape != all->shape; };
    if (all != nullptr && std::ranges::any_of(own.operands[i].parts, is_cut)) return true;
  }
  return false;
}

// An operand that is not A's.
struct OtherOperand {
  std::size_t at = 0;
  Explained cause;
  bool left_out = false;
};

// Operands of a call that are not A's; `of_loss` is no cause.
std::vector<OtherOperand> other_operands(const RecordedProgram& b, const CallEvents& call,
                                         const TakenValues& whole, const TakenValues& own,
                                         const std::optional<Explained>& of_loss,
                                         const std::vector<RankGroups>& groups) {
  std::vector<OtherOperand> all;
  for (std::size_t i = 0; i < own.operands.size(); ++i) {
    const TakenValue& taken = own.operands[i];
    const PointPart* shared = shared_whole(whole.operands[i]);
    // A value that a call writes in place is known behind the call alone.
    const bool written = !is_collective(b.events[call[0]]) &&
                         std::ranges::count(own.results, taken.number, &TakenValue::number) > 0;
    if (shared == nullptr || taken.made.size() != call.size() || written) continue;
    if (!reads(b, b.events[call.back()], taken.number)) continue;
    // They may count in a piece; where all ranks have one of them, they do not.
    const bool same = taken.parts.size() > 1 && are_equal(taken.parts);
    if (is_integral(shared->dtype) && !same && takes_pieces(whole, own)) continue;
    Explained cause = explained_of(*shared, taken, own.ranks, groups);
    if (of_loss && same_cause(cause, *of_loss)) continue;
    if (reduction_of(b.events[call[0]]) && cause.held == ValueHeld::kTerms) continue;
    const bool leaves = cause.held == ValueHeld::kRight && leaves_out(*shared, taken);
    if ((cause.held == ValueHeld::kRight && !leaves) || cause.held == ValueHeld::kUnknown) continue;
    if (leaves) cause.held = ValueHeld::kUnknown;
    all.push_back({i, std::move(cause), leaves});
  }
  return all;
}

CallEvents makers_of(const TakenValue& taken) {
  CallEvents all;
  for (const auto& [event, number] : taken.made) {
    if (std::ranges::count(all, event) == 0) all.push_back(event);
  }
  return all;
}

// Goes from a call that made a wrong value to what it took, as long as one operand is not A's.
class Walk {
 public:
  Walk(RecordingBlame& blame, const ComparedPrograms& both)
      : blame_(blame), a_(both.a), b_(both.b), groups_(both.groups) {
    const ComparedPoint& first = blame.wrong.front().point;
    of_a_ = events_of(a_, both.of_a, first.key);
    of_b_ = events_of(b_, both.of_b, first.key);
    numbers_ = first.kind == PointKind::kEnd;
  }

  // The one operand that is not A's, in its place; false: there is none.
  bool look() {
    if (of_a_.empty() || of_b_.empty() || b_.events[of_b_[0]].op != a_.events[of_a_[0]].op)
      return false;
    of_b_ = on_all_ranks(b_, of_b_);
    const TakenValues whole = taken_at(a_, of_a_), own = taken_at(b_, of_b_);
    if (whole.operands.size() != own.operands.size()) return false;
    // All gradients are a multiple where each rank's loss is the average of its own rows.
    const BlamedValue& first = blame_.wrong.front();
    std::optional<Explained> of_loss;
    if (first.point.kind == PointKind::kFlow)
      of_loss = {
          .held = ValueHeld::kScaled, .factor = blame_.first_factor.value_or(1), .groups = {}};
    const std::vector<OtherOperand> others =
        other_operands(b_, of_b_, whole, own, of_loss, groups_);
    const bool one = others.size() == 1 ||
                     (!others.empty() && std::ranges::all_of(others, &OtherOperand::left_out));
    if (!one) return false;
    const TakenValue& taken = own.operands[others[0].at];
    if (numbers_ && taken.parts[0].elements.size() != 1) return false;
    put_first(taken, own.ranks, others[0]);
    see_collective(*shared_whole(whole.operands[others[0].at]), taken, own.ranks);
    of_a_ = makers_of(whole.operands[others[0].at]);
    of_b_ = makers_of(taken);
    return others[0].cause.held == ValueHeld::kWrong ||
           (numbers_ && others[0].cause.held == ValueHeld::kScaled);
  }

 private:
  void put_first(const TakenValue& taken, const std::vector<std::size_t>& ranks,
                 const OtherOperand& other) {
    const RecordedEvent& taker = b_.events[of_b_.back()];
    const auto& [made, number] = taken.made.back();
    const RecordedEvent& maker = b_.events[made];
    BlamedValue value = blamed_line(b_, made, number);
    value.point.name = module_of(b_, maker);
    value.point.op = op_text(maker);
    value.point.ranks = ranks;
    std::ranges::sort(value.point.ranks);
    if (of_b_.size() > 1) value.point.of_others.assign(taken.made.begin(), taken.made.end() - 1);
    value.cause = other.cause;
    value.what = other.left_out ? "ranks hold the same piece of it, and none another one"
                 : other.cause.held == ValueHeld::kWrong ? "it is not what A's call takes"
                                                         : text_of_cause(other.cause);
    value.what += fmt::format("; {} ({}) takes it as the whole", taker.op, place_of(b_, taker));
    value.through = blame_.wrong.front().through;
    blame_.wrong.front().follows = true;
    blame_.wrong.insert(blame_.wrong.begin(), std::move(value));
  }

  void see_collective(const PointPart& whole, const TakenValue& taken,
                      const std::vector<std::size_t>& ranks) {
    BlamedValue& value = blame_.wrong.front();
    if (value.cause.held != ValueHeld::kWrong || !reduction_of(b_.events[value.point.event]))
      return;
    const TakenValues before = taken_at(b_, makers_of(taken));
    value.of_right =
        !before.operands.empty() &&
        explained_of(whole, before.operands[0], ranks, groups_).held == ValueHeld::kRight;
    if (value.of_right) value.what = "ranks have A's value before it, and it reduces them";
  }

  RecordingBlame& blame_;
  const RecordedProgram &a_, &b_;
  const std::vector<RankGroups>& groups_;
  CallEvents of_a_, of_b_;
  bool numbers_ = false;  // a number alone may be followed
};

}  // namespace

void look_into(RecordingBlame& blame, const ComparedPrograms& both) {
  const BlamedValue& first = blame.wrong.front();
  const bool end = first.point.kind == PointKind::kEnd && first.point.name.ends_with(".grad");
  const bool named = first.point.key.starts_with("call ") || first.point.kind == PointKind::kFlow;
  const bool scaled = end && first.cause.held == ValueHeld::kScaled;
  if ((!named && !end) || first.point.op.empty()) return;
  if (first.cause.held != ValueHeld::kWrong && !scaled) return;
  constexpr int kMostLooks = 8;
  Walk walk(blame, both);
  for (int i = 0; i < kMostLooks && walk.look(); ++i) {
  }
}

std::optional<RecordingEdit> sum_of_taken(const BlamedValue& first, const ComparedPrograms& both) {
  if (first.cause.held != ValueHeld::kTerms || first.taken.key.empty()) return std::nullopt;
  const auto& [a, b, of_a, of_b, groups] = both;
  const CallEvents at_b = on_all_ranks(b, events_of(b, of_b, first.taken.key));
  const TakenValues whole = taken_at(a, events_of(a, of_a, first.taken.key));
  const TakenValues own = taken_at(b, at_b);
  if (whole.operands.size() != own.operands.size() || at_b.empty()) return std::nullopt;
  const std::vector<OtherOperand> others = other_operands(b, at_b, whole, own, {}, groups);
  if (others.size() != 1 || !same_cause(others[0].cause, first.cause)) return std::nullopt;
  RecordingEdit edit{.places = own.operands[others[0].at].made, .text = ""};
  edit.factor = others[0].cause.factor;
  edit.reduced = others[0].cause.groups;
  return edit;
}

std::optional<RecordingEdit> less_of(const BlamedValue& first, const std::string& key,
                                     const ComparedPrograms& both) {
  if (first.cause.held != ValueHeld::kWrong) return std::nullopt;
  const auto& [a, b, of_a, of_b, groups] = both;
  const TakenValues at_a = taken_at(a, events_of(a, of_a, key));
  const TakenValues at_b = taken_at(b, events_of(b, of_b, key));
  const bool alike =
      at_a.operands.size() == at_b.operands.size() && at_a.results.size() == at_b.results.size();
  if (!alike) return std::nullopt;
  std::vector<TakenValue> whole = at_a.operands, own = at_b.operands;
  whole.insert(whole.end(), at_a.results.begin(), at_a.results.end());
  own.insert(own.end(), at_b.results.begin(), at_b.results.end());
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
        const Explained now = explained_of(*all, left, at_b.ranks, groups);
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
