// The values of both programs are compared while they are played. An edit is one that was tried:
// the program is played with it, and then nothing may differ.
#include "sim/replay/blame_recordings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "sim/replay/comparison.h"
#include "tensor/host.h"

namespace shardlab {

namespace {

constexpr std::size_t kMostElements = std::size_t{1} << 26;  // of A that are kept
constexpr double kSameFactor = 1e-5;  // of the largest element, where a difference is explained

// The points of A that a value is computed from, by number, for points with these keys.
class Descent {
 public:
  explicit Descent(const std::vector<ComparedPoint>& points) {
    for (const ComparedPoint& point : points) ids_.emplace(point.key, ids_.size());
  }

  void flow(const RecordedEvent& event) {
    if (!makes_values(event)) return;
    Bits all;
    for_each_operand(event, [&](std::int32_t number) { add(all, by_number_[number]); });
    for (const auto* values : {&event.out, &event.written}) {
      for (const EventValue& one : *values) by_number_[one.id.id] = all;
    }
  }

  void meet(const ComparedPoint& point) {
    const auto id = ids_.find(point.key);
    if (id == ids_.end()) return;
    Bits& own = by_number_[point.value];
    before_[point.key] = own;
    if (own.size() <= id->second) own.resize(id->second + 1);
    own[id->second] = true;
  }

  /// Whether the value `later` is computed from the value `first`, in A.
  bool follows(const std::string& later, const std::string& first) const {
    const auto id = ids_.find(first);
    const auto own = before_.find(later);
    return id != ids_.end() && own != before_.end() && id->second < own->second.size() &&
           own->second[id->second];
  }

 private:
  using Bits = std::vector<bool>;

  static void add(Bits& all, const Bits& more) {
    if (all.size() < more.size()) all.resize(more.size());
    for (std::size_t i = 0; i < more.size(); ++i) {
      if (more[i]) all[i] = true;
    }
  }

  std::map<std::string, std::size_t> ids_;
  std::map<std::int32_t, Bits> by_number_;
  std::map<std::string, Bits> before_;
};

// "module layers.0.wo|0[0]" of the gradient "layers.0.wo.weight.grad".
std::string module_of_gradient(const std::string& name) {
  const std::string parameter = name.substr(0, name.rfind(".grad"));
  const std::size_t dot = parameter.rfind('.');
  return fmt::format("module {}|0[0]", dot == std::string::npos ? "" : parameter.substr(0, dot));
}

// Gradients flow from the results of modules to those that these are computed from.
void find_followers(RecordingBlame& blame, const Descent& descent) {
  const auto late = [](const ComparedPoint& point) {
    return point.kind == PointKind::kGradient || point.kind == PointKind::kEnd;
  };
  for (std::size_t i = 0; i < blame.wrong.size(); ++i) {
    const ComparedPoint& later = blame.wrong[i].point;
    const std::string here = module_of_gradient(later.name);
    for (std::size_t j = 0; j < i && !blame.wrong[i].follows; ++j) {
      const ComparedPoint& first = blame.wrong[j].point;
      const std::string there = module_of_gradient(first.name);
      const bool back =
          late(first) && late(later) && (here == there || descent.follows(there, here));
      blame.wrong[i].follows = back || descent.follows(later.key, first.key);
    }
  }
}

PointsOfA points_of(const RecordedProgram& program, bool by_rank, double& gradient_noise,
                    Descent* descent = nullptr) {
  PointsOfA points;
  PointNames names(program, by_rank);
  std::size_t kept = 0;
  play_events(program, {}, [&](std::size_t index, const EventValues& values) {
    if (descent != nullptr) descent->flow(program.events[index]);
    for (ComparedPoint& point : names.at(index, values)) {
      if (descent != nullptr) descent->meet(point);
      for (PointPart& part : point.parts) {
        if (point.kind == PointKind::kGradient) {
          gradient_noise = std::max(gradient_noise, largest_of(part.elements));
        }
        kept += part.elements.size();
        if (kept > kMostElements) part.elements = {};
      }
      points.insert_or_assign(point.key, std::move(point.parts));
    }
  });
  return points;
}

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
  }
  return all;
}

RecordingBlame compare(const PointsOfA& a, double gradient_noise, const RecordedProgram& b,
                       const std::vector<RankGroups>& groups, bool by_rank,
                       const RecordingEdit* edit) {
  Comparison comparison(a, groups, gradient_noise);
  PointNames names(b, by_rank);
  std::vector<PlayedEdit> edits;
  if (edit != nullptr) edits = played_edits(*edit);
  play_events(b, edits, [&](std::size_t index, const EventValues& values) {
    comparison.flow(b, index);
    if (is_collective(b.events[index])) comparison.judge_collective(b, index, values);
    for (ComparedPoint& point : names.at(index, values)) {
      const double terms = terms_of(point, values);
      comparison.judge(std::move(point), terms);
    }
  });
  return comparison.end();
}

enum class Edited { kFirst, kAlike, kGradients };

// The lines that make the value right.
std::string edit_text(const ComparedPoint& point, const Explained& cause, std::size_t places) {
  const std::string name = is_gradient(point) || point.kind == PointKind::kEnd ? "gradient" : "y";
  std::string text;
  if (cause.held == ValueHeld::kTerms) {
    const std::string group = cause.groups.of_mesh
                                  ? fmt::format(", group=mesh.get_group(\"{}\")", cause.groups.name)
                                  : "";
    text = fmt::format("dist.all_reduce({}{}{})", name,
                       cause.factor == 1 ? "" : ", op=dist.ReduceOp.AVG", group);
  } else {
    text = fmt::format("{0} = {0} * {1}", name, number_text(1 / cause.factor));
  }
  text += "    # of the result of " + (point.op.empty() ? point.name : point.op);
  if (!point.place.empty()) text += ", " + point.place;
  return places == 1 ? text : text + fmt::format(", and of {} others", places - 1);
}

// The same for the first value, for all that are wrong in the same way, or for gradients as
// backward leaves them.
std::optional<RecordingEdit> edit_of(const RecordingBlame& blame, Edited what) {
  const Explained& cause = blame.wrong.front().cause;
  if (cause.held != ValueHeld::kTerms && cause.held != ValueHeld::kScaled) return std::nullopt;
  RecordingEdit edit;
  const ComparedPoint* first = nullptr;
  for (const BlamedValue& one : what == Edited::kGradients ? blame.terms : blame.wrong) {
    if (what == Edited::kFirst && first != nullptr) break;
    if (one.follows || !same_cause(one.cause, cause)) continue;
    if (first == nullptr) first = &one.point;
    edit.places.emplace_back(one.point.event, one.point.value);
  }
  if (first == nullptr || (what == Edited::kAlike && edit.places.size() == 1)) return std::nullopt;
  edit.factor = cause.held == ValueHeld::kTerms ? cause.factor : 1 / cause.factor;
  if (cause.held == ValueHeld::kTerms) edit.reduced = cause.groups;
  edit.text = edit_text(*first, cause, edit.places.size());
  return edit;
}

// How often `added` is in `found` beyond `whole`; 0: that is not the difference.
double times_added(const std::vector<double>& found, const std::vector<double>& whole,
                   const std::vector<double>& added) {
  if (added.size() < 2 || found.size() != whole.size() || whole.size() % added.size() != 0)
    return 0;
  double product = 0, square = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const double one = added[i % added.size()];
    product += (found[i] - whole[i]) * one;
    square += one * one;
  }
  const double times = std::round(square > 0 ? product / square : 0);
  const double allowed = kSameFactor * (largest_of(found) + largest_of(whole));
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const double left = found[i] - whole[i] - times * added[i % added.size()];
    if (!(std::fabs(left) <= allowed)) return 0;
  }
  return times;
}

// A bias among the terms of a sum counts once a rank: what a call of the same line takes is looked
// for in the difference.
std::optional<RecordingEdit> less_of(const BlamedValue& first, const PointsOfA& a,
                                     const RecordedProgram& b) {
  const auto known = a.find(first.point.key);
  if (first.cause.held != ValueHeld::kWrong || known == a.end() || known->second.empty()) {
    return std::nullopt;
  }
  struct Taken {
    std::string op;
    std::vector<double> elements;
  };
  std::vector<Taken> near;
  std::optional<RecordingEdit> edit;
  play_events(b, {}, [&](std::size_t index, const EventValues& values) {
    if (index > first.point.event) return;
    const RecordedEvent& event = b.events[index];
    const bool calls = makes_values(event) || event.kind == RecordedKind::kCall;
    if (calls && place_of(b, event) == first.point.place) {
      for_each_operand(event, first.point.ranks.at(0), [&](std::int32_t number) {
        const DTensor& value = values.on(number, first.point.ranks.at(0));
        if (!value.defined() || value.distributed() || is_complex(value.dtype())) return;
        near.push_back({event.op, read_doubles(value.local())});
      });
    }
    if (index != first.point.event) return;
    const std::vector<PointPart> parts =
        parts_of_value(values, first.point.value, first.point.ranks);
    for (const Taken& taken : near) {
      if (parts.empty() || edit) return;
      const double times =
          times_added(parts[0].elements, known->second[0].elements, taken.elements);
      if (times == 0) continue;
      edit = RecordingEdit{.places = {{first.point.event, first.point.value}}, .text = ""};
      edit->added = std::pair(taken.elements, times);
      edit->text = fmt::format(
          "y = y - {} * b    # {}; b: the operand of {} with {} elements. Each rank adds it; "
          "behind the sum it is added once",
          number_text(times), first.point.place, taken.op, taken.elements.size());
    }
  });
  return edit;
}
// The first that follows from nothing is the one to look at.
void order(RecordingBlame& blame) {
  std::ranges::stable_sort(blame.wrong, {}, [](const BlamedValue& one) { return one.point.event; });
  const auto first = std::ranges::find(blame.wrong, false, &BlamedValue::follows);
  if (first != blame.wrong.end()) std::rotate(blame.wrong.begin(), first, first + 1);
}

}  // namespace

RecordingBlame blame_recordings(const RecordedProgram& a, const RecordedProgram& b) {
  double gradient_noise = 0;
  const bool by_rank = a.ranks == b.ranks;
  const PointsOfA points = points_of(a, by_rank, gradient_noise);
  const std::vector<RankGroups> groups = groups_of(b);
  RecordingBlame blame = compare(points, gradient_noise, b, groups, by_rank, nullptr);
  order(blame);
  for (const Edited what : {Edited::kFirst, Edited::kAlike, Edited::kGradients}) {
    if (!blame.found() || !blame.edits.empty()) break;
    auto edit = edit_of(blame, what);
    if (!edit && what == Edited::kFirst) edit = less_of(blame.wrong.front(), points, b);
    if (!edit) continue;
    ++blame.tried;
    if (compare(points, gradient_noise, b, groups, by_rank, &*edit).found()) continue;
    blame.edits.push_back(*edit);
  }
  return blame;
}

RecordingBlame blame_values(const RecordedProgram& a, const std::vector<ComparedPoint>& values) {
  double gradient_noise = 0;
  Descent descent(values);
  const PointsOfA points = points_of(a, false, gradient_noise, &descent);
  std::size_t ranks = 1;
  for (const ComparedPoint& value : values) ranks = std::max(ranks, value.ranks.back() + 1);
  std::vector<RankGroups> groups;
  if (ranks > 1) {
    groups.push_back(groups_along({static_cast<std::int64_t>(ranks)}, {""}, 1));
    groups[0].name = ranks_text(groups[0].groups[0]);
    for (std::int64_t inner = 2; inner < static_cast<std::int64_t>(ranks); ++inner) {
      if (static_cast<std::int64_t>(ranks) % inner != 0) continue;
      const Dims shape = {static_cast<std::int64_t>(ranks) / inner, inner};
      for (const std::size_t dim : {1, 2}) {
        groups.push_back(groups_along(shape, {"", ""}, dim));
        groups.back().name = "groups such as " + ranks_text(groups.back().groups[0]);
      }
    }
  }
  Comparison comparison(points, groups, gradient_noise);
  for (const ComparedPoint& value : values) comparison.judge(value, 0);
  RecordingBlame blame = comparison.end();
  std::ranges::stable_sort(blame.wrong, {}, [](const BlamedValue& one) { return one.point.event; });
  find_followers(blame, descent);
  for (BlamedValue& value : blame.wrong) {
    if (value.follows || is_gradient(value.point)) continue;
    const auto& suspects = comparison.suspects();
    const auto last = std::find_if(suspects.rbegin(), suspects.rend(), [&](const auto& one) {
      return descent.follows(value.point.key, one->point.key);
    });
    if (last == suspects.rend()) continue;
    const std::string taker = value.point.name;
    value = **last;
    value.what += fmt::format("; {} takes it as the whole", taker);
  }
  order(blame);
  return blame;
}

}  // namespace shardlab
