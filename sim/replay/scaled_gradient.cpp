// B is played once more: the gradient is compared with A's behind each op that writes it.
#include "sim/replay/scaled_gradient.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/replay/collective_edits.h"
#include "sim/replay/comparison.h"
#include "sim/replay/difference_text.h"
#include "sim/replay/writers.h"

namespace shardlab {

namespace {

// A gradient on some ranks, from its backward on: the event that looks at it, then those that
// write it.
struct WrittenGradient {
  std::int32_t number;
  Ranks ranks;
  std::vector<std::size_t> events;
};

WrittenGradient written_gradient(const RecordedProgram& program, std::size_t last,
                                 std::int32_t number) {
  WrittenGradient all{number, ranks_meant(program.events[last].rank, program.ranks), {}};
  Writers writers;
  for (std::size_t i = 0; i <= last; ++i) {
    writers.meet(program, i);
    const RecordedEvent& event = program.events[i];
    if (is_gradient_check(event) && event.out[0].id.id == number) {
      writers.forget(number);
      all.events = {i};
    } else if (!all.events.empty() && writers.last(number) == i) {
      all.events.push_back(i);
    }
  }
  return all;
}

// The parts that ranks have behind each event, if all have as many.
std::vector<ComparedPoint> states_of(const RecordedProgram& program,
                                     const std::vector<WrittenGradient>& gradients) {
  std::vector<ComparedPoint> states(gradients.back().events.size());
  for (const WrittenGradient& one : gradients) {
    if (one.events.size() != states.size()) return {};
    for (std::size_t i = 0; i < states.size(); ++i) {
      states[i].event = one.events[i];
      if (&one != &gradients.back()) states[i].of_others.emplace_back(one.events[i], one.number);
    }
  }
  play_events(program, {}, [&](std::size_t index, const EventValues& values) {
    for (const WrittenGradient& one : gradients) {
      for (std::size_t i = 0; i < one.events.size(); ++i) {
        if (one.events[i] != index) continue;
        ComparedPoint& state = states[i];
        const std::vector<PointPart> parts = parts_of_value(values, one.number, one.ranks);
        state.parts.insert(state.parts.end(), parts.begin(), parts.end());
        state.ranks.insert(state.ranks.end(), one.ranks.begin(), one.ranks.end());
      }
    }
  });
  return states;
}

// Whether A runs the op of a line of B.
bool runs(const RecordedProgram& a, const RecordedProgram& b, const RecordedEvent& line) {
  const std::string place = place_of(b, line);
  return std::ranges::any_of(a.events, [&](const RecordedEvent& event) {
    return event.op == line.op && place_of(a, event) == place;
  });
}

// A's gradient, as its last backward leaves it.
PointsOfA::const_iterator last_gradient(const PointsOfA& points, const std::string& name) {
  auto last = points.end();
  for (std::size_t i = 0;; ++i) {
    const auto found = points.find(fmt::format("gradient {}|{}", name, i));
    if (found == points.end()) return last;
    last = found;
  }
}

std::optional<BlamedValue> line_that_scaled(const BlamedValue& wrong, const PointPart& whole,
                                            const ComparedPrograms& both) {
  const ComparedPoint& end = wrong.point;
  std::vector<WrittenGradient> gradients;
  for (const auto& [event, number] : end.of_others)
    gradients.push_back(written_gradient(both.b, event, number));
  gradients.push_back(written_gradient(both.b, end.event, end.value));
  bool right = false;
  for (const ComparedPoint& state : states_of(both.b, gradients)) {
    if (state.parts.size() != state.ranks.size() || state.parts.empty()) break;
    Explained cause =
        explain(whole, rounding_allowed(whole), state.parts, state.ranks, both.groups);
    if (are_equal(state.parts)) as_share(cause);
    const RecordedEvent& line = both.b.events[state.event];
    if (right && cause.held == ValueHeld::kScaled && !runs(both.a, both.b, line)) {
      BlamedValue value = blamed_line(both.b, state.event, end.value);
      value.point.kind = PointKind::kEnd;
      value.point.name = end.name;
      value.point.ranks = end.ranks;
      value.point.of_others = state.of_others;
      value.what = text_of_cause(cause) + "; before this line it is A's";
      value.cause = cause;
      value.through = wrong.through;
      return value;
    }
    right = cause.held == ValueHeld::kRight;
  }
  return std::nullopt;
}

}  // namespace

void look_for_scale(RecordingBlame& blame, const PointsOfA& points, const ComparedPrograms& both) {
  constexpr std::size_t kMostLooks = 4;  // each plays the program
  std::vector<Explained> met;
  for (const BlamedValue& one : blame.wrong) {
    const auto a = last_gradient(points, one.point.name);
    const bool scaled = one.point.kind == PointKind::kEnd && !one.point.op.empty() &&
                        one.cause.held == ValueHeld::kScaled;
    const bool known = a != points.end() && !a->second.empty() && are_equal(a->second);
    const auto is_like = [&](const Explained& cause) { return same_cause(one.cause, cause); };
    if (!scaled || !known || met.size() == kMostLooks || std::ranges::any_of(met, is_like))
      continue;
    met.push_back(one.cause);
    auto line = line_that_scaled(one, a->second[0], both);
    if (!line) continue;
    blame.wrong.front().follows = true;
    blame.wrong.insert(blame.wrong.begin(), std::move(*line));
    return;
  }
}

}  // namespace shardlab
