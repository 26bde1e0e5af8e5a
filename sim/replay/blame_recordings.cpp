// The values of both programs are compared while they are played. An edit is one that was tried:
// the program is played with it, and then nothing may differ.
#include "sim/replay/blame_recordings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "sim/replay/collective_edits.h"
#include "sim/replay/comparison.h"
#include "sim/replay/difference_text.h"
#include "sim/replay/event_flow.h"
#include "sim/replay/points_of_ranks.h"
#include "sim/replay/recorded_types.h"
#include "sim/replay/scaled_gradient.h"
#include "sim/replay/taken_values.h"
#include "tensor/host.h"

namespace shardlab {

namespace {

// The mean magnitude of what was added up for an element: a sum that cancels keeps its rounding.
double terms_of(const ComparedPoint& point, const EventValues& values) {
  if (point.parts.empty() || point.operands.empty()) return 0;
  double least = -1;
  for (const std::int32_t number : point.operands) {
    const DTensor& value = values.on(number, point.ranks.at(0));
    if (!value.defined() || unit_roundoff(value.dtype()) == 0 || is_complex(value.dtype()))
      continue;
    double size = 0;
    const std::vector<double> elements = read_doubles(value.local());
    for (const double one : elements) size += std::fabs(one);
    const std::size_t count = std::min(elements.size(), point.parts[0].elements.size());
    if (count == 0 || !std::isfinite(size)) continue;
    size /= static_cast<double>(count);
    least = least < 0 ? size : std::min(least, size);
  }
  return std::max(least, 0.0);
}

std::vector<PlayedEdit> played_edits(const RecordingEdit& edit) {
  std::vector<PlayedEdit> all;
  for (const auto& [event, value] : edit.places) {
    PlayedEdit& one = all.emplace_back(PlayedEdit{.event = event, .value = value});
    if (edit.reduced) {
      for (const Ranks& ranks : edit.reduced->groups) {
        one.groups.emplace_back(ranks.begin(), ranks.end());
      }
    }
    if (edit.added) std::tie(one.less, one.times) = *edit.added;
    one.factor = edit.factor;
    one.op = edit.op;
    one.instead = edit.instead;
  }
  return all;
}

RecordingBlame compare(const PointsOfA& a, double gradient_noise, const RecordedProgram& b,
                       const std::vector<RankGroups>& groups, PointNames names,
                       PointsOfRanks together, const RecordingEdit* edit) {
  RecordingComparison comparison(a, groups, gradient_noise);
  comparison.begin(b);
  std::vector<PlayedEdit> edits;
  if (edit != nullptr) edits = played_edits(*edit);
  std::size_t played = 0;
  play_events(b, edits, [&](std::size_t index, const EventValues& values) {
    ++played;
    comparison.flow(b, index);
    if (is_collective(b.events[index])) comparison.judge_collective(b, index, values);
    for (ComparedPoint& point : names.at(index, values)) {
      const double terms = terms_of(point, values);
      if (!together.whole(point)) continue;
      comparison.name_writer(b, point);
      comparison.judge(std::move(point), terms);
    }
  });
  RecordingBlame blame = comparison.end();
  blame.played = played;
  if (edit == nullptr) blame.other_calls = together.makes_other_calls();
  return blame;
}

// Terms whose sum is a multiple of A's value.
bool is_scaled_sum(const Explained& cause) {
  return cause.held == ValueHeld::kWrong && cause.factor != 1;
}

enum class Edited { kGradients, kFirst, kAlike, kPlace, kLine };

// The lines that make the value right.
std::string edit_text(const ComparedPoint& point, const Explained& cause, std::size_t places) {
  const bool end = point.kind == PointKind::kEnd;
  const std::string name = is_stepped(point)           ? "parameter"
                           : is_gradient(point) || end ? "gradient"
                                                       : "y";
  std::string text;
  if (cause.held == ValueHeld::kTerms) {
    std::vector<std::string> groups;
    for (const Ranks& ranks : cause.groups.groups)
      groups.push_back(fmt::format("[{}]", text_of_list(ranks, ", ")));
    const std::string group =
        cause.groups.of_mesh    ? fmt::format(", group=mesh.get_group(\"{}\")", cause.groups.name)
        : cause.groups.of_value ? fmt::format(", group=dist.new_group({})", groups[0])
        : groups.size() > 1     ? fmt::format(", group=dist.new_subgroups_by_enumeration([{}])[0]",
                                              text_of_list(groups, ", "))
                                : "";
    text = fmt::format("dist.all_reduce({}{}{})", name,
                       cause.largest       ? ", op=dist.ReduceOp.MAX"
                       : cause.factor == 1 ? ""
                                           : ", op=dist.ReduceOp.AVG",
                       group);
  } else {
    text = fmt::format("{0} = {0} * {1}", name, number_text(1 / cause.factor));
  }
  text += "    # of the result of " + (point.op.empty() ? point.name : point.op);
  if (!point.place.empty()) text += ", " + point.place;
  if (places == 1) return text;
  return text + fmt::format(", and of {} other{}", places - 1, places == 2 ? "" : "s");
}

// On each rank, behind its event.
void add_places(const ComparedPoint& point, RecordingEdit& edit) {
  edit.places.insert(edit.places.end(), point.of_others.begin(), point.of_others.end());
  edit.places.emplace_back(point.event, point.value);
}

// The same for the first value, for all that are wrong in the same way, for all of its line, or for
// gradients as backward leaves them.
std::optional<RecordingEdit> edit_of(const RecordingBlame& blame, const RecordedProgram& b,
                                     Edited what) {
  const Explained& cause = blame.wrong.front().cause;
  const bool scaled = cause.held == ValueHeld::kScaled || is_scaled_sum(cause);
  if (cause.held != ValueHeld::kTerms && !scaled) return std::nullopt;
  RecordingEdit edit;
  const ComparedPoint* first = nullptr;
  std::size_t points = 0;
  const bool gradients = what == Edited::kGradients;
  for (const BlamedValue& one : gradients ? blame.terms : blame.wrong) {
    if (!gradients && what != Edited::kAlike && first != nullptr) break;
    // Terms may follow from a value on the way that is computed in another way.
    if ((one.follows && !gradients) || !same_cause(one.cause, cause)) continue;
    if (first == nullptr) first = &one.point;
    add_places(one.point, edit);
    ++points;
  }
  if (first == nullptr || (scaled && is_stepped(*first))) return std::nullopt;
  if (what == Edited::kPlace || what == Edited::kLine) {
    if (b.events[first->event].place < 0) return std::nullopt;
    EditPlaces all;
    for (const auto& [event, value] : edit.places) {
      const EditPlaces line = results_of_line(b, event, value, what == Edited::kLine);
      all.insert(all.end(), line.begin(), line.end());
    }
    points = all.size() / edit.places.size();
    edit.places = std::move(all);
  }
  if (points == 1 && what != Edited::kFirst && !gradients) return std::nullopt;
  edit.factor = cause.held == ValueHeld::kTerms ? cause.factor : 1 / cause.factor;
  if (cause.held == ValueHeld::kTerms) edit.reduced = cause.groups;
  if (cause.largest) edit.op = ReduceOp::kMax;
  edit.text = edit_text(*first, cause, points);
  return edit;
}

// A backward of the program, its first value and the loss.
struct Backward {
  std::size_t event = 0, seed = 0, made = 0;  // indices; seed, made: 0 where there is none
  std::int32_t loss = -1, first = -1;         // numbers
};

std::vector<Backward> backwards_of(const RecordedProgram& program) {
  std::vector<Backward> all;
  std::map<std::int32_t, std::size_t> made;
  for (std::size_t i = 0; i < program.events.size(); ++i) {
    const RecordedEvent& event = program.events[i];
    const bool op = event.kind == RecordedKind::kOp || event.kind == RecordedKind::kCollect;
    for (const EventValue& out : event.out) {
      if (op && out.id.id >= 0) made[out.id.id] = i;
    }
    const bool seeds = op && event.out.size() == 1 && bare_op(event.op) == "ones_like";
    const auto last = std::find_if(all.rbegin(), all.rend(), [&](const Backward& one) {
      return program.events[one.event].rank == event.rank;
    });
    if (seeds && last != all.rend() && last->seed == 0) {
      last->seed = i;
      last->first = event.out[0].id.id;
    }
    if (event.kind != RecordedKind::kBackward || event.takes.empty()) continue;
    const auto maker = made.find(event.takes[0]);
    all.push_back({.event = i,
                   .seed = 0,
                   .made = maker == made.end() ? 0 : maker->second,
                   .loss = event.takes[0],
                   .first = -1});
  }
  return all;
}

bool is_of_loss(const Backward& one) { return one.seed != 0 && one.made != 0; }

// A factor of the loss shows in every gradient alone: the losses before it may be A's.
std::optional<RecordingEdit> scaled_loss(const RecordedProgram& b, const std::vector<Backward>& all,
                                         double factor, bool forward) {
  RecordingEdit edit{.places = {}, .factor = 1 / factor, .text = ""};
  std::string place;
  for (const Backward& one : all) {
    if (!is_of_loss(one)) continue;  // a stage's, of a gradient that it was sent
    if (forward) edit.places.emplace_back(one.made, one.loss);
    edit.places.emplace_back(one.seed, one.first);
    place = place_of(b, b.events[one.made]);
  }
  if (edit.places.empty()) return std::nullopt;
  edit.text = fmt::format("loss = loss * {}    # {}", number_text(1 / factor), place);
  return edit;
}

const Backward& last_of_loss(const std::vector<Backward>& all) {
  return *std::find_if(all.rbegin(), all.rend(), is_of_loss);
}

BlamedValue blamed_loss(const RecordedProgram& b, const Backward& last, double factor) {
  BlamedValue value = blamed_line(b, last.made, last.loss);
  value.what = fmt::format("every gradient of it is {} times A's", number_text(factor));
  value.cause = {.held = ValueHeld::kScaled, .factor = factor, .groups = {}};
  return value;
}

// Libraries that add up gradients at the end of a backward have a way to leave it out.
std::string way_of_library(const RecordedProgram& b) {
  const auto has = [&](const char* name) {
    return std::ranges::any_of(b.events, [&](const RecordedEvent& event) {
      return event.kind == RecordedKind::kModule && event.name.starts_with(name);
    });
  };
  if (has("DistributedDataParallel")) {
    return "; DistributedDataParallel adds them up in a backward() outside of no_sync(), if its "
           "forward is outside, too: the last of an accumulation has to be";
  }
  if (has("FSDP")) {
    return "; FSDP adds them up unless set_requires_gradient_sync(False): the last backward() of "
           "an accumulation has to do it";
  }
  return "";
}

// Gradients that nothing adds up are a fault of the lines behind backward().
void name_gradients(RecordingBlame& blame, const RecordedProgram& b,
                    const std::vector<Backward>& all) {
  BlamedValue value = blame.terms.front();
  if (!all.empty()) {
    value.point.op = "backward()";
    value.point.place = place_of(b, b.events[all.back().event]);
  }
  value.what += ", and no collective adds them up" + way_of_library(b);
  for (std::size_t i = all.empty() ? 0 : all.front().event; i < b.events.size(); ++i) {
    const RecordedEvent& event = b.events[i];
    if (!reduction_of(event) || event.place < 0) continue;
    bool reduces = false;
    const auto look = [&](std::int32_t number) { reduces |= blame.reduced.contains(number); };
    for_each_operand(event, look);
    for_each_given(event, [&](const EventValue& one) { look(one.id.id); });
    if (!reduces) continue;
    value.what += fmt::format("; others are added up by {}, {}", event.op, place_of(b, event));
    break;
  }
  value.follows = false;
  blame.wrong.insert(blame.wrong.begin(), std::move(value));
}

constexpr std::size_t kMostSteps = 24;

// The same mistake in each layer: behind an edit of the first, the next one is the first.
template <typename After>
void edit_one_by_one(RecordingBlame& blame, const RecordedProgram& b, const After& after) {
  const auto first = edit_of(blame, b, Edited::kFirst);
  if (!first) return;
  RecordingEdit edit = *first;
  const Explained cause = blame.wrong.front().cause;
  const ComparedPoint point = blame.wrong.front().point;
  for (std::size_t steps = 2; steps <= kMostSteps && blame.edits.empty(); ++steps) {
    const RecordingBlame left = after(edit);
    if (!left.found()) break;
    const ComparedPoint& next = left.wrong.front().point;
    const std::pair place(next.event, next.value);
    const bool again = std::ranges::find(edit.places, place) != edit.places.end();
    if (again || !same_cause(left.wrong.front().cause, cause)) return;
    add_places(next, edit);
    edit.text = edit_text(point, cause, steps);
  }
}

// Results that an addend on each rank may have made wrong: the first, or those that are made of
// terms. Each look plays both programs.
std::vector<BlamedValue> added_too_often(const RecordingBlame& blame) {
  constexpr std::size_t kMostLooks = 4;
  const BlamedValue& first = blame.wrong.front();
  if (first.cause.held == ValueHeld::kWrong) return {first};
  std::vector<BlamedValue> all;
  for (const BlamedValue& one : blame.wrong) {
    const bool result = one.point.kind == PointKind::kResult && !one.point.op.empty();
    const bool may = result && one.cause.held == ValueHeld::kWrong && all.size() < kMostLooks;
    if (may) all.push_back(one);
  }
  return all;
}

// Less of an addend of them, at this line, or at each line like it.
void try_less(const RecordingBlame& blame, const ComparedPrograms& both, const std::string& key,
              const auto& try_edit) {
  for (const BlamedValue& value : added_too_often(blame)) {
    if (!blame.edits.empty()) break;
    const bool is_first = value.point.value == blame.wrong.front().point.value;
    auto edit = less_of(value, is_first ? key : value.point.key, both);
    try_edit(edit);
    if (edit) edit->places = results_of_line(both.b, value.point.event, value.point.value, true);
    try_edit(edit);
  }
}

// A term is added up before a call takes it as the whole.
std::optional<RecordingEdit> sum_before_taken(const RecordingBlame& blame,
                                              const ComparedPrograms& both) {
  auto edit = sum_of_taken(blame.wrong.front(), both);
  if (!edit) return edit;
  const auto& [event, number] = edit->places.back();
  edit->text = edit_text(blamed_line(both.b, event, number).point, blame.wrong.front().cause, 1);
  return edit;
}

// Factors of values, in their order, without those of elements: none where the first gradient is
// A's, which would have the factor of the loss.
std::vector<double> factors_of_loss(const RecordingBlame& blame) {
  constexpr std::size_t kMostFactors = 3;
  std::vector<double> all;
  if (blame.first_factor == 1) return all;
  const auto add = [&](double own) {
    const auto is_own = [&](double factor) { return is_same_factor(factor, own); };
    if (!is_own(1) && all.size() < kMostFactors && std::ranges::none_of(all, is_own))
      all.push_back(own);
  };
  for (const BlamedValue& one : blame.wrong) {
    const bool sum = is_scaled_sum(one.cause);
    // The program may average the terms.
    if (sum) add(one.cause.factor / static_cast<double>(one.point.ranks.size()));
    if (sum || one.cause.held == ValueHeld::kScaled) add(one.cause.factor);
  }
  return all;
}

// Whether a collective's line with another op, or without it, makes all right.
template <typename After>
bool reduce_otherwise(RecordingBlame& blame, const RecordedProgram& b, const After& after) {
  for (const RecordingEdit& edit : other_reductions(b, blame.wrong.front().point.event)) {
    after(edit);
    if (blame.edits.empty()) continue;
    const auto& [event, number] = edit.places.front();
    BlamedValue value = blamed_line(b, event, number);
    const ReduceOp given = *reduction_of(b.events[event]);
    value.what = fmt::format("it reduces by {}, and by {} it is A's value", to_string(given),
                             to_string(*edit.op));
    // The largest and the mean are one where every rank has the same.
    RecordingEdit mean = edit;
    mean.op = ReduceOp::kAvg;
    if (given == ReduceOp::kSum && !after(mean).found()) {
      value.what = "every rank has A's value before it, and it adds them up";
      blame.edits = {std::move(mean)};
      blame.edits[0].text = fmt::format("without {}, {}", value.point.op, value.point.place);
    }
    blame.wrong.insert(blame.wrong.begin(), std::move(value));
    return true;
  }
  if (blame.wrong.front().of_right) after(without_collective(b, blame.wrong.front().point));
  return !blame.edits.empty();
}

// Whether the collectives of a line that the wrong value comes through make all right over another
// set of groups.
template <typename After>
void reduce_over_others(RecordingBlame& blame, const RecordedProgram& b,
                        const std::vector<RankGroups>& groups, const After& after) {
  constexpr std::size_t kMostTries = 12;
  std::vector<RecordingEdit> edits = other_groups(b, blame.wrong.front(), groups);
  if (edits.size() > kMostTries) edits.resize(kMostTries);
  for (const RecordingEdit& edit : edits) {
    after(edit);
    if (blame.edits.empty()) continue;
    BlamedValue value = blamed_line(b, edit.places[0].first, edit.places[0].second);
    value.what = "it reduces over other ranks than those that have A's terms";
    blame.wrong.insert(blame.wrong.begin(), std::move(value));
    return;
  }
}

// Ranks gather a value, and backward takes no other rank's gradients.
template <typename After>
void add_in_backward(RecordingBlame& blame, const RecordedProgram& b, const After& after) {
  for (const BackwardEdit& one : added_in_backward(b)) {
    after(one.edit);
    if (blame.edits.empty()) continue;
    BlamedValue value = blamed_line(b, one.gather, one.gathered);
    value.what =
        "its gradient is that of the rank's own part: those of the other ranks are left out";
    blame.wrong.insert(blame.wrong.begin(), std::move(value));
    return;
  }
}

// A factor of the loss, if one makes all right.
template <typename After>
void blame_loss(RecordingBlame& blame, const RecordedProgram& b,
                const std::vector<Backward>& backwards, const After& after) {
  for (const double factor : factors_of_loss(blame)) {
    for (const bool forward : {true, false}) {
      if (!blame.edits.empty()) break;
      const auto edit = scaled_loss(b, backwards, factor, forward);
      if (!edit) continue;
      after(*edit);
      if (!blame.edits.empty() && !blame.right_loss)
        blame.wrong.insert(blame.wrong.begin(), blamed_loss(b, last_of_loss(backwards), factor));
    }
  }
}

// Less of a parameter leaves its own gradient, and the term that it is added to.
bool is_left_by(const RecordingEdit& edit, const RecordingBlame& left) {
  return !edit.parameter.empty() && std::ranges::all_of(left.wrong, [&](const BlamedValue& one) {
    const std::string& name = one.end.empty() ? one.point.name : one.end;
    return name == edit.parameter || name == edit.parameter + ".grad" ||
           (!one.taken.place.empty() && one.taken.place == edit.added_at);
  });
}

std::size_t count_lines(const std::optional<RecordingEdit>& edit, const RecordedProgram& b) {
  std::set<std::int32_t> lines;
  for (const auto& [event, value] : edit ? edit->places : EditPlaces{})
    lines.insert(b.events[event].place);
  return lines.size();
}

RecordingBlame blame_named(const RecordedProgram& a, const RecordedProgram& b, bool by_line) {
  double gradient_noise = 0;
  const bool by_rank = a.ranks == b.ranks;
  const std::vector<RankGroups> groups = groups_of(b);
  const PointNames of_a(a, by_rank, {}, by_line), names(b, by_rank, StageNames(a, b), by_line);
  const PointsOfA points = points_of(a, of_a, gradient_noise);
  const PointsOfRanks together(points, b, names);
  RecordingBlame blame = compare(points, gradient_noise, b, groups, names, together, nullptr);
  put_cause_first(blame);
  blame.types = judge_types(b, a.ranks == 1 ? &a : nullptr).wrong;
  if (blame.wrong.empty()) return blame;
  const std::string key = blame.wrong.front().point.key;
  const std::vector<Backward> backwards = backwards_of(b);
  const ComparedPrograms both{a, b, of_a, names, groups};
  look_for_scale(blame, points, both);
  look_into(blame, both);
  const auto after = [&](const RecordingEdit& edit) {
    ++blame.tried;
    RecordingBlame left = compare(points, gradient_noise, b, groups, names, together, &edit);
    put_cause_first(left);
    const bool waits = left.played < blame.played;
    if (left.found() || (waits && edit.instead)) return left;
    std::string& text = blame.edits.emplace_back(edit).text;
    if (waits) text += "; ranks wait in it here: put it behind all backwards";
    return left;
  };
  if (reduce_otherwise(blame, b, after)) return blame;
  const ComparedPoint first = blame.wrong.front().point;
  const bool late = is_gradient(first) || first.kind == PointKind::kEnd;
  const bool back = late || b.events[first.event].pass == RecordedPass::kBackward;
  std::set<EditPlaces> tried;
  const auto try_edit = [&](const std::optional<RecordingEdit>& edit) {
    if (!edit || !blame.edits.empty() || !tried.insert(edit->places).second) return;
    const RecordingBlame left = after(*edit);
    if (is_left_by(*edit, left) && blame.edits.empty()) blame.edits.push_back(*edit);
  };
  using enum Edited;
  if (late) try_edit(edit_of(blame, b, kGradients));
  if (!blame.edits.empty()) name_gradients(blame, b, backwards);
  if (back && blame.edits.empty()) add_in_backward(blame, b, after);
  const bool terms = blame.wrong.front().cause.held == ValueHeld::kTerms;
  if (!terms && blame.edits.empty()) reduce_over_others(blame, b, groups, after);
  // A factor that all gradients have, and no line of the program gave them, is the loss's.
  const BlamedValue& now = blame.wrong.front();
  const bool no_line = late && !blame.right_loss && now.point.place.empty();
  const auto alike = edit_of(blame, b, kAlike);
  const bool of_loss = no_line || count_lines(alike, b) > 1 || is_scaled_sum(now.cause);
  if (of_loss) blame_loss(blame, b, backwards, after);
  try_edit(edit_of(blame, b, kFirst));
  try_edit(alike);
  if (!of_loss) blame_loss(blame, b, backwards, after);
  for (const Edited what : {kPlace, kLine}) try_edit(edit_of(blame, b, what));
  try_less(blame, both, key, try_edit);
  if (blame.edits.empty()) try_edit(sum_before_taken(blame, both));
  if (terms && blame.edits.empty()) reduce_over_others(blame, b, groups, after);
  if (blame.edits.empty()) edit_one_by_one(blame, b, after);
  const auto stop = back && blame.edits.empty() ? gradient_stop(points, b, names) : std::nullopt;
  if (stop) blame.wrong.insert(blame.wrong.begin(), *stop);
  return blame;
}

// How much is known of the first wrong value.
int knowledge_of(const RecordingBlame& blame) {
  if (!blame.edits.empty()) return 2;
  return !blame.wrong.empty() && blame.wrong.front().cause.held != ValueHeld::kWrong ? 1 : 0;
}

}  // namespace

RecordingBlame blame_recordings(const RecordedProgram& a, const RecordedProgram& b) {
  RecordingBlame blame = blame_named(a, b, false);
  const bool unknown = !blame.wrong.empty() && blame.edits.empty() && blame.other_calls;
  // Messages are those of stages, which call parts of what A calls at a line.
  const bool stages = std::ranges::any_of(b.events, is_recorded_message);
  if (!unknown || stages || a.ranks == b.ranks) return blame;
  RecordingBlame other = blame_named(a, b, true);
  return knowledge_of(other) > knowledge_of(blame) ? other : blame;
}

}  // namespace shardlab
