// Values that a job has written have no program: which follows from which is known from A's calls.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/replay/blame_recordings.h"
#include "sim/replay/comparison.h"
#include "sim/replay/event_flow.h"

namespace shardlab {

namespace {

std::size_t event_of(const BlamedValue& one) { return one.point.event; }

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
    for_each_given(event, [&](const EventValue& one) { by_number_[one.id.id] = all; });
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

}  // namespace

void put_cause_first(RecordingBlame& blame) {
  std::ranges::stable_sort(blame.wrong, {}, event_of);
  const auto first = std::ranges::find(blame.wrong, false, &BlamedValue::follows);
  if (first != blame.wrong.end()) std::rotate(blame.wrong.begin(), first, first + 1);
}

RecordingBlame blame_values(const RecordedProgram& a, const std::vector<ComparedPoint>& values) {
  double gradient_noise = 0;
  Descent descent(values);
  const auto meet = [&](std::size_t event, const std::vector<ComparedPoint>& made) {
    descent.flow(a.events[event]);
    for (const ComparedPoint& point : made) descent.meet(point);
  };
  const PointsOfA points = points_of(a, {a, false}, gradient_noise, meet);
  std::size_t ranks = 1;
  for (const ComparedPoint& value : values) ranks = std::max(ranks, value.ranks.back() + 1);
  const std::vector<RankGroups> groups = groups_of_grids(ranks);
  RecordingComparison comparison(points, groups, gradient_noise);
  for (const ComparedPoint& value : values) comparison.judge(value, 0);
  RecordingBlame blame = comparison.end();
  std::ranges::stable_sort(blame.wrong, {}, event_of);
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
  put_cause_first(blame);
  return blame;
}

}  // namespace shardlab
