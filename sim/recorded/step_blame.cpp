// A value of B is right where each rank holds A's value or a part of it. Between calls it may be a
// term of a sum that a later collective adds up; at the end of the step it may not. A value that is
// neither is wrong, and the first is one whose operands are right.
#include "sim/recorded/step_blame.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/text_of_list.h"
#include "sim/capture/recorded_event.h"
#include "sim/capture/recorded_json.h"
#include "sim/recorded/step_explain.h"
#include "sim/recorded/step_replay.h"
#include "tensor/host.h"

namespace shardlab {

namespace {

constexpr std::size_t kMostElements = std::size_t{1} << 26;  // of A that are kept
constexpr double kAmplifiedDrift = 16;                       // times the error of the operands
constexpr double kSameFactor = 1e-5;  // of the largest element, where a difference is explained
constexpr double kTermRoundings = 64;
constexpr double kMostDriftOfGradients = 1e-2;
constexpr double kTurning = 4096;    // roundings of the largest gradient: a smaller one may turn
constexpr double kNoMeaning = 0.25;  // beyond, nothing can be said

std::string number_text(double value) { return fmt::format("{:.6g}", value); }

// The first element that differs most.
std::string elements_text(const PointPart& part, const PointPart& whole) {
  if (part.elements.size() != whole.elements.size() || part.elements.empty()) {
    return "no part of A's value, nor a term of it";
  }
  std::size_t at = 0, count = 0;
  double most = -1;
  const double largest = largest_of(whole.elements);
  for (std::size_t i = 0; i < part.elements.size(); ++i) {
    const double off = std::fabs(part.elements[i] - whole.elements[i]);
    if (!(off <= rounding_of(part.dtype) * largest)) ++count;
    if (off > most || std::isnan(off)) {
      most = off;
      at = i;
    }
  }
  Dims index(part.shape.size());
  std::size_t rest = at;
  for (std::size_t dim = index.size(); dim-- > 0;) {
    index[dim] = static_cast<std::int64_t>(rest) % part.shape[dim];
    rest /= static_cast<std::size_t>(part.shape[dim]);
  }
  return fmt::format("{} of {} elements differ; at [{}] it is {}, and A has {}", count,
                     part.elements.size(), text_of_list(index, ", "),
                     number_text(part.elements[at]), number_text(whole.elements[at]));
}

using PointsOfA = std::map<std::string, std::vector<PointPart>>;

// Events that make values of others, but for those that say it once more.
bool flows(const std::string& kind) {
  constexpr std::array<std::string_view, 8> kOthers = {
      "module", "call", "backward", "gradients", "check", "function", "rule", "group"};
  return std::ranges::find(kOthers, kind) == kOthers.end();
}

// Facts about a value of B, by its number.
struct Followed {
  double off = 0;
  bool wrong = false;
  // Terms, or a multiple: right where a later call makes the whole of it.
  std::shared_ptr<const BlamedValue> suspect;
  std::string like;  // the key of A's value that it is, but for collectives
  std::vector<std::string> through;
};

bool same_cause(const Explained& a, const Explained& b) {
  return a.held == b.held && std::fabs(a.factor - b.factor) <= 1e-3 * std::fabs(a.factor) &&
         a.groups.name == b.groups.name;
}

bool is_gradient(const StepPoint& point) {
  return point.kind == PointKind::kFlow || point.kind == PointKind::kGradient;
}

class StepComparison {
 public:
  /// All outlive it.
  StepComparison(const PointsOfA& a, const std::vector<RankGroups>& groups, double gradient_noise)
      : a_(a), groups_(groups), gradient_noise_(gradient_noise) {}

  /// The results of an event inherit from its operands.
  void flow(const StepRecording& recording, const Json& event) {
    const auto kind = event.at("k").get<std::string>();
    if (!flows(kind)) return;
    Followed all;
    const auto take = [&](std::size_t number) { inherit(all, known_[number]); };
    for_each_taken(event, take);
    for (const Json& one : list_at(event, "each")) for_each_taken(one, take);
    const bool reduces = is_collective(event) || kind.starts_with("redistribute");
    if (reduces || kind == "from_local" || kind == "to_local") {
      all.through.push_back(moved_by(recording, event));
    }
    if (reduces) all.suspect = nullptr;
    if (!reduces && !copies(event)) all.like.clear();
    for_each_given(event, [&](std::size_t number) { known_[number] = all; });
    if (kind == "alias") {
      known_[integer_of<std::size_t>(event.at("v"))] =
          known_[integer_of<std::size_t>(event.at("of"))];
    }
  }

  static bool is_collective(const Json& event) {
    return event.at("k") == "coll" || event.at("k") == "each";
  }

  /// A collective on plain tensors may leave terms, or add too many.
  void judge_collective(const StepRecording& recording, std::size_t index,
                        const ProgramPlayer& player) {
    const Json& event = recording.events[index];
    for_each_given(event, [&](std::size_t number) {
      Followed& now = known_[number];
      const auto found = a_.find(now.like);
      if (found == a_.end() || found->second.empty() || event.contains("at")) return;
      StepPoint point{.key = now.like, .op = first_of(event).value("op", "")};
      point.name = module_of(first_of(event));
      point.place = place_of(recording, first_of(event));
      point.event = index + 1;
      point.value = number;
      for (std::size_t rank = 0; rank < player.ranks(); ++rank) point.ranks.push_back(rank);
      const std::vector<PointPart> parts = parts_of_value(player, number, point.ranks);
      if (parts.empty()) return;
      const PointPart& a = found->second.front();
      const double allowed = rounding_of(a.dtype) * largest_of(a.elements) +
                             kTermRoundings * unit_roundoff(a.dtype) * gradient_noise_;
      const Explained cause = explain(a, std::max(allowed, kTiny), parts, point.ranks, groups_);
      if (cause.held != ValueHeld::kTerms && cause.held != ValueHeld::kScaled) return;
      suspect(now, {.point = point, .what = text_of_cause(cause), .cause = cause, .through = {}});
    });
  }

  /// `terms`: the mean magnitude of what an element of it was added up from.
  void judge(StepPoint point, double terms) {
    const auto found = a_.find(point.key);
    if (found == a_.end() || found->second.empty() || point.parts.empty()) return;
    if (!point.name.empty() && !point.key.starts_with("call")) same_names_ = true;
    const std::vector<PointPart>& a = found->second;
    const bool alike = std::ranges::all_of(a, [&](const PointPart& one) {
      return one.elements == a[0].elements && one.shape == a[0].shape;
    });
    if (!alike && a.size() != point.parts.size()) return;
    // A module's result was made by its last call.
    Followed from;
    if (point.op.empty() || point.operands.empty()) {
      from = known_[point.value];
    } else {
      for (const std::size_t number : point.operands) inherit(from, known_[number]);
    }
    if (is_late(point)) from.off = std::max(from.off, drift_);
    Explained all{.held = ValueHeld::kRight, .groups = {}};
    for (std::size_t i = 0; i < (alike ? 1 : a.size()); ++i) {
      const Explained one =
          alike ? explained(point, a[0], point.parts, point.ranks, from.off, terms)
                : explained(point, a[i], {point.parts[i]}, {point.ranks.at(i)}, from.off, terms);
      if (static_cast<int>(one.held) >= static_cast<int>(all.held)) all = one;
    }
    std::string elements;
    if (all.held == ValueHeld::kWrong) elements = elements_text(point.parts[0], a[0]);
    if (draws(point.op)) elements = "it is random, and A and B drew different numbers";
    point.parts.clear();
    settle(std::move(point), std::move(all), elements, from);
  }

  const std::vector<std::shared_ptr<const BlamedValue>>& suspects() const { return suspects_; }

  StepBlame end() {
    for (BlamedValue& value : parameters_) {
      const std::string gradient = value.point.name + ".grad";
      value.follows = value.follows || wrong_gradients_.contains(gradient);
      const auto own = gradients_.find(gradient);
      if (!value.follows && own != gradients_.end()) as_gradient(value, *own->second);
      wrong_.push_back(std::move(value));
    }
    if (!has_consequence_) wrong_.clear();
    return {.same_names = same_names_,
            .compared = compared_,
            .undecided = undecided_,
            .wrong = std::move(wrong_),
            .edits = {}};
  }

 private:
  static constexpr double kTiny = 1e-300;

  static bool draws(const std::string& op) {
    const auto has = [&](const char* part) { return op.find(part) != std::string::npos; };
    return has("dropout") || has("bernoulli") || has("rand") || has("normal_") ||
           has("multinomial");
  }

  static const Json& first_of(const Json& event) {
    return event.contains("each") ? event.at("each").at(0) : event;
  }

  static std::string moved_by(const StepRecording& recording, const Json& event) {
    const std::string place = place_of(recording, first_of(event));
    const std::string op = first_of(event).value("op", event.at("k").get<std::string>());
    return place.empty() ? op : op + " " + place;
  }

  static bool copies(const Json& event) {
    static const std::set<std::string> kCopies = {"aten.clone.default", "aten.detach.default",
                                                  "aten.alias.default", "aten._to_copy.default",
                                                  "aten.copy_.default"};
    return kCopies.contains(event.value("op", ""));
  }

  template <typename Visit>
  static void for_each_given(const Json& event, const Visit& visit) {
    for (const char* key : {"out", "mut"}) {
      if (event.contains(key)) for_each_number(event.at(key), visit);
    }
    for (const Json& one : list_at(event, "each")) for_each_given(one, visit);
  }

  static void inherit(Followed& all, const Followed& one) {
    all.off = std::max(all.off, one.off);
    all.wrong = all.wrong || one.wrong;
    if (all.suspect == nullptr) all.suspect = one.suspect;
    if (all.like.empty()) all.like = one.like;
    for (const std::string& text : one.through) {
      if (std::ranges::find(all.through, text) == all.through.end()) all.through.push_back(text);
    }
  }

  Explained explained(const StepPoint& point, const PointPart& a,
                      const std::vector<PointPart>& parts, const Ranks& ranks, double off,
                      double terms) {
    const bool late = is_late(point);
    const double largest = largest_of(a.elements);
    const DType dtype = coarser(a.dtype, parts[0].dtype);
    coarsest_ = coarser(coarsest_, dtype);
    const bool integral = is_integral(dtype);
    const double rounding = rounding_of(late ? coarsest_ : dtype);
    double allowed = integral ? 0 : std::max(rounding, kAmplifiedDrift * off) * largest;
    if (!integral) allowed += kTermRoundings * unit_roundoff(dtype) * terms;
    if (late) allowed += kTermRoundings * unit_roundoff(coarsest_) * gradient_noise_;
    Explained found = explain(a, std::max(allowed, kTiny), parts, ranks, groups_);
    if (found.held == ValueHeld::kWrong && may_turn(point, a, parts)) {
      ++undecided_;
      found.held = ValueHeld::kUnknown;
    }
    const bool vague = !a.elements.empty() && allowed > kNoMeaning * largest;
    if (found.held == ValueHeld::kRight && vague && found.off > rounding) ++undecided_;
    const bool rounded_off = integral && off > 0;
    if (found.held != ValueHeld::kRight && (vague || rounded_off)) found.held = ValueHeld::kUnknown;
    return found;
  }

  // Optimizers that divide by the size of a gradient make a step of full length for an element that
  // is rounding alone: whether no other element is off.
  bool may_turn(const StepPoint& point, const PointPart& a,
                const std::vector<PointPart>& parts) const {
    const auto slope = a_.find("gradient " + point.name + ".grad|0");
    if (point.kind != PointKind::kEnd || slope == a_.end() || slope->second.size() != 1)
      return false;
    const std::vector<double>& slopes = slope->second[0].elements;
    const double noise = kTurning * unit_roundoff(coarsest_) * gradient_noise_;
    const double allowed = rounding_of(a.dtype) * largest_of(a.elements);
    return std::ranges::all_of(parts, [&](const PointPart& part) {
      if (part.elements.size() != slopes.size() || a.elements.size() != slopes.size()) return false;
      for (std::size_t i = 0; i < slopes.size(); ++i) {
        const bool off = !(std::fabs(part.elements[i] - a.elements[i]) <= allowed);
        if (off && (slopes[i] == 0 || std::fabs(slopes[i]) > noise)) return false;
      }
      return true;
    });
  }

  // The first of a chain is the one to look at.
  static void suspect(Followed& now, BlamedValue value) {
    if (now.suspect != nullptr && same_cause(now.suspect->cause, value.cause)) return;
    now.suspect = std::make_shared<const BlamedValue>(std::move(value));
  }

  void settle(StepPoint point, Explained all, const std::string& elements, const Followed& from) {
    Followed& now = known_[point.value];
    if (all.held == ValueHeld::kUnknown) return;
    const std::shared_ptr<const BlamedValue> before =
        now.suspect != nullptr ? now.suspect : from.suspect;
    now = {.off = from.off, .wrong = false, .suspect = before, .like = point.key, .through = {}};
    if (all.held == ValueHeld::kRight) {
      ++compared_;
      now.off = all.off;
      now.suspect = nullptr;
      drift_ = std::max(drift_, std::min(all.off, kMostDriftOfGradients));
      return;
    }
    BlamedValue value{.point = point,
                      .what = all.held == ValueHeld::kWrong ? elements : text_of_cause(all),
                      .cause = all,
                      .through = from.through,
                      .follows = from.wrong};
    const bool may_be_added = all.held == ValueHeld::kTerms && point.kind != PointKind::kInput &&
                              point.kind != PointKind::kEnd;
    const bool may_be_divided = all.held == ValueHeld::kScaled && point.kind == PointKind::kFlow;
    if (may_be_added || may_be_divided) {
      suspect(now, std::move(value));
      if (point.kind == PointKind::kResult) suspects_.push_back(now.suspect);
      if (point.kind == PointKind::kGradient) gradients_[point.name] = now.suspect;
      return;
    }
    ++compared_;
    now.wrong = true;
    now.suspect = nullptr;
    // Gradients are added up in any order: without a consequence, another one on the way is no
    // fault.
    has_consequence_ = has_consequence_ || point.kind != PointKind::kFlow;
    if (point.kind == PointKind::kEnd && !point.name.ends_with(".grad")) {
      parameters_.push_back(std::move(value));
      return;
    }
    if (is_late(point)) {
      of_gradient(point, before, value);
    } else if (!value.follows && from.suspect != nullptr) {
      value = *from.suspect;
      value.what +=
          fmt::format("; {} takes it as the whole",
                      point.place.empty() ? point.name : point.op + " (" + point.place + ")");
    }
    const bool again = std::ranges::any_of(wrong_, [&](const BlamedValue& one) {
      return one.point.event == value.point.event && one.point.value == value.point.value;
    });
    if (again) {
      value.follows = true;
      value.point = std::move(point);
    }
    wrong_.push_back(std::move(value));
  }

  void of_gradient(const StepPoint& point, const std::shared_ptr<const BlamedValue>& before,
                   BlamedValue& value) {
    const std::string name = point.kind == PointKind::kFlow ? "" : point.name;
    value.follows = value.follows || (!name.empty() && !wrong_gradients_.insert(name).second);
    if (value.follows) return;
    const auto own = gradients_.find(name);
    if (before != nullptr &&
        (same_cause(before->cause, value.cause) || point.kind == PointKind::kFlow)) {
      value = *before;
    } else if (point.kind == PointKind::kEnd && own != gradients_.end()) {
      as_gradient(value, *own->second);
    }
  }

  // The gradient was terms when backward had made it.
  static void as_gradient(BlamedValue& value, const BlamedValue& gradient) {
    value = gradient;
    value.what += ", and still is after the step";
  }

  static bool is_late(const StepPoint& point) {
    return is_gradient(point) || point.kind == PointKind::kEnd;
  }

  static std::string text_of_cause(const Explained& all) {
    if (all.held == ValueHeld::kScaled) return number_text(all.factor) + " times A's value";
    return fmt::format("a term on each rank: their {} over {} is A's value",
                       all.factor == 1 ? "sum" : "average", all.groups.name);
  }

  const PointsOfA& a_;
  const std::vector<RankGroups>& groups_;
  double gradient_noise_;
  std::map<std::size_t, Followed> known_;
  std::map<std::string, std::shared_ptr<const BlamedValue>> gradients_;  // terms, by name
  std::set<std::string> wrong_gradients_;
  std::vector<BlamedValue> wrong_;
  std::vector<std::shared_ptr<const BlamedValue>> suspects_;  // results of modules and calls
  std::vector<BlamedValue> parameters_;                       // after the step
  bool same_names_ = false, has_consequence_ = false;
  DType coarsest_ = DType::kF64;
  double drift_ = 0;
  std::int64_t compared_ = 0, undecided_ = 0;
};

// The points of A that a value is computed from, by number, for points with these keys.
class Descent {
 public:
  explicit Descent(const std::vector<StepPoint>& points) {
    for (const StepPoint& point : points) ids_.emplace(point.key, ids_.size());
  }

  void flow(const Json& event) {
    Bits all;
    const auto take = [&](std::size_t number) { add(all, by_number_[number]); };
    const auto kind = event.at("k").get<std::string>();
    if (!flows(kind)) return;
    for_each_taken(event, take);
    for (const char* key : {"out", "mut"}) {
      if (!event.contains(key)) continue;
      for_each_number(event.at(key), [&](std::size_t v) { by_number_[v] = all; });
    }
    if (kind == "alias") {
      by_number_[integer_of<std::size_t>(event.at("v"))] =
          by_number_[integer_of<std::size_t>(event.at("of"))];
    }
  }

  void meet(const StepPoint& point) {
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
  std::map<std::size_t, Bits> by_number_;
  std::map<std::string, Bits> before_;
};

// "module layers.0.wo|0[0]" of the gradient "layers.0.wo.weight.grad".
std::string module_of_gradient(const std::string& name) {
  const std::string parameter = name.substr(0, name.rfind(".grad"));
  const std::size_t dot = parameter.rfind('.');
  return fmt::format("module {}|0[0]", dot == std::string::npos ? "" : parameter.substr(0, dot));
}

// Gradients flow from the results of modules to those that these are computed from.
void find_followers(StepBlame& blame, const Descent& descent) {
  const auto late = [](const StepPoint& point) {
    return point.kind == PointKind::kGradient || point.kind == PointKind::kEnd;
  };
  for (std::size_t i = 0; i < blame.wrong.size(); ++i) {
    const StepPoint& later = blame.wrong[i].point;
    const std::string here = module_of_gradient(later.name);
    for (std::size_t j = 0; j < i && !blame.wrong[i].follows; ++j) {
      const StepPoint& first = blame.wrong[j].point;
      const std::string there = module_of_gradient(first.name);
      const bool back =
          late(first) && late(later) && (here == there || descent.follows(there, here));
      blame.wrong[i].follows = back || descent.follows(later.key, first.key);
    }
  }
}

PointsOfA points_of(const StepRecording& recording, bool by_rank, double& gradient_noise,
                    Descent* descent = nullptr) {
  PointsOfA points;
  StepNames names(recording, by_rank);
  std::size_t kept = 0;
  replay_step(recording, [&](std::size_t index, ProgramPlayer& player) {
    if (descent != nullptr) descent->flow(recording.events[index]);
    for (StepPoint& point : names.at(index, player)) {
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

void apply_to(const StepEdit& edit, std::size_t number, ProgramPlayer& player) {
  std::vector<std::vector<double>> parts;
  for (std::size_t rank = 0; rank < player.ranks(); ++rank) {
    const DTensor& value = player.value(number, rank);
    if (!value.defined()) return;
    parts.push_back(read_doubles(value.local()));
  }
  if (edit.reduced) {
    for (const Ranks& group : edit.reduced->groups) {
      std::vector<double> sum(parts.at(group[0]).size());
      for (const std::size_t rank : group) {
        if (parts.at(rank).size() != sum.size()) return;
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += parts[rank][i];
      }
      for (const std::size_t rank : group) parts[rank] = sum;
    }
  }
  for (std::size_t rank = 0; rank < player.ranks(); ++rank) {
    if (edit.added) {
      const std::vector<double>& added = edit.added->first;
      for (std::size_t i = 0; i < parts[rank].size(); ++i) {
        parts[rank][i] -= edit.added->second * added.at(i % added.size());
      }
    }
    for (double& element : parts[rank]) element *= edit.factor;
    write_doubles(player.value(number, rank).local(), parts[rank]);
  }
}

void apply(const StepEdit& edit, std::size_t event, ProgramPlayer& player) {
  for (const auto& [after, number] : edit.places) {
    if (after == event) apply_to(edit, number, player);
  }
}

// The mean magnitude of what was added up for an element: a sum that cancels keeps its rounding.
double terms_of(const StepPoint& point, const ProgramPlayer& player) {
  if (point.parts.empty() || point.operands.empty()) return 0;
  double least = -1;
  for (const std::size_t number : point.operands) {
    const DTensor& value = player.value(number, point.ranks.at(0));
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

StepBlame compare(const PointsOfA& a, double gradient_noise, const StepRecording& b,
                  const std::vector<RankGroups>& groups, bool by_rank, const StepEdit* edit) {
  StepComparison comparison(a, groups, gradient_noise);
  StepNames names(b, by_rank);
  replay_step(b, [&](std::size_t index, ProgramPlayer& player) {
    if (edit != nullptr) apply(*edit, index + 1, player);
    comparison.flow(b, b.events[index]);
    if (StepComparison::is_collective(b.events[index])) {
      comparison.judge_collective(b, index, player);
    }
    for (StepPoint& point : names.at(index, player)) {
      const double terms = terms_of(point, player);
      comparison.judge(std::move(point), terms);
    }
  });
  return comparison.end();
}

// The lines that make the value right.
std::string edit_text(const StepPoint& point, const Explained& cause, std::size_t places) {
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

// The same for the first value, or for all that are wrong in the same way.
std::optional<StepEdit> edit_of(const StepBlame& blame, bool all_alike) {
  const BlamedValue& first = blame.wrong.front();
  const Explained& cause = first.cause;
  if (cause.held != ValueHeld::kTerms && cause.held != ValueHeld::kScaled) return std::nullopt;
  StepEdit edit;
  for (const BlamedValue& one : blame.wrong) {
    const bool alike = !one.follows && same_cause(one.cause, cause);
    if (&one == &first || (all_alike && alike)) {
      edit.places.emplace_back(one.point.event, one.point.value);
    }
  }
  if (all_alike && edit.places.size() == 1) return std::nullopt;
  edit.factor = cause.held == ValueHeld::kTerms ? cause.factor : 1 / cause.factor;
  if (cause.held == ValueHeld::kTerms) edit.reduced = cause.groups;
  edit.text = edit_text(first.point, cause, edit.places.size());
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
std::optional<StepEdit> less_of(const BlamedValue& first, const PointsOfA& a,
                                const StepRecording& b) {
  const auto known = a.find(first.point.key);
  if (first.cause.held != ValueHeld::kWrong || known == a.end() || known->second.empty()) {
    return std::nullopt;
  }
  struct Taken {
    std::string op;
    std::vector<double> elements;
  };
  std::vector<Taken> near;
  std::optional<StepEdit> edit;
  replay_step(b, [&](std::size_t index, ProgramPlayer& player) {
    if (index >= first.point.event) return;
    const Json& event = b.events[index];
    const Json& own = event.contains("each") ? event.at("each").at(0) : event;
    if (place_of(b, own) == first.point.place) {
      for_each_taken(own, [&](std::size_t number) {
        const DTensor& value = player.value(number, first.point.ranks.at(0));
        if (!value.defined() || value.distributed() || is_complex(value.dtype())) return;
        near.push_back({own.value("op", ""), read_doubles(value.local())});
      });
    }
    if (index + 1 != first.point.event) return;
    const std::vector<PointPart> parts =
        parts_of_value(player, first.point.value, first.point.ranks);
    for (const Taken& taken : near) {
      if (parts.empty() || edit) return;
      const double times =
          times_added(parts[0].elements, known->second[0].elements, taken.elements);
      if (times == 0) continue;
      edit = StepEdit{.places = {{first.point.event, first.point.value}}, .text = ""};
      edit->added = std::pair(taken.elements, times);
      edit->text = fmt::format(
          "y = y - {} * b    # {}; b: the operand of {} with {} elements. Each rank adds it; "
          "behind the sum it is added once",
          number_text(times), first.point.place, taken.op, taken.elements.size());
    }
  });
  return edit;
}

std::string named(const StepPoint& point) {
  if (!point.place.empty()) return point.place;
  return point.name.empty() ? "the model" : point.name;
}

std::string later_of(const StepBlame& blame, bool follows) {
  constexpr std::size_t kMostNames = 6;
  std::vector<std::string> names;
  std::size_t more = 0;
  for (std::size_t i = 0; i < blame.wrong.size(); ++i) {
    const BlamedValue& one = blame.wrong[i];
    const bool first = &one == &blame.wrong[0];
    if (first || one.follows != follows) continue;
    const std::string name = one.point.name.empty() ? named(one.point) : one.point.name;
    if (std::ranges::find(names, name) != names.end()) continue;
    names.size() < kMostNames ? names.push_back(name) : void(++more);
  }
  std::string text = text_of_list(names, ", ");
  if (more > 0) text += fmt::format(" and {} more", more);
  return text;
}

// The first that follows from nothing is the one to look at.
void order(StepBlame& blame) {
  std::ranges::stable_sort(blame.wrong, {}, [](const BlamedValue& one) { return one.point.event; });
  const auto first = std::ranges::find(blame.wrong, false, &BlamedValue::follows);
  if (first != blame.wrong.end()) std::rotate(blame.wrong.begin(), first, first + 1);
}

}  // namespace

StepBlame blame_steps(const StepRecording& a, const StepRecording& b) {
  double gradient_noise = 0;
  const bool by_rank = a.ranks == b.ranks;
  const PointsOfA points = points_of(a, by_rank, gradient_noise);
  const std::vector<RankGroups> groups = groups_of(b);
  StepBlame blame = compare(points, gradient_noise, b, groups, by_rank, nullptr);
  order(blame);
  for (const bool all_alike : {false, true}) {
    if (!blame.found() || !blame.edits.empty()) break;
    auto edit = edit_of(blame, all_alike);
    if (!edit && !all_alike) edit = less_of(blame.wrong.front(), points, b);
    if (!edit) continue;
    ++blame.tried;
    if (compare(points, gradient_noise, b, groups, by_rank, &*edit).found()) continue;
    blame.edits.push_back(*edit);
  }
  return blame;
}

StepBlame blame_values(const StepRecording& a, const std::vector<StepPoint>& values) {
  double gradient_noise = 0;
  Descent descent(values);
  const PointsOfA points = points_of(a, false, gradient_noise, &descent);
  std::size_t ranks = 1;
  for (const StepPoint& value : values) ranks = std::max(ranks, value.ranks.back() + 1);
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
  StepComparison comparison(points, groups, gradient_noise);
  for (const StepPoint& value : values) comparison.judge(value, 0);
  StepBlame blame = comparison.end();
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

std::string step_blame_text(const StepBlame& blame, const std::string& a, const std::string& b) {
  std::string text = fmt::format("A: {}, B: {}\n", a, b);
  if (!blame.found()) {
    return text + fmt::format("ok: {} values of B are A's, up to rounding\n", blame.compared);
  }
  const BlamedValue& first = blame.wrong.front();
  const StepPoint& point = first.point;
  text += fmt::format("{}: the first of {} values that are not A's, of {}\n", named(point),
                      blame.wrong.size(), blame.compared);
  const auto row = [&](const char* name, const std::string& what) {
    if (!what.empty()) text += fmt::format("  {:<9}{}\n", name, what);
  };
  row("value", point.kind == PointKind::kFlow     ? "a gradient on its way back"
               : point.kind == PointKind::kResult ? ""
                                                  : point.name);
  row("call", point.op);
  row("placed", point.held_as);
  row("wrong", first.what);
  row("ranks", ranks_text(point.ranks));
  row("through", text_of_list(first.through, ", "));
  row("follows", later_of(blame, true));
  row("apart", later_of(blame, false));
  for (const StepEdit& edit : blame.edits) {
    text += fmt::format("\nwith this edit nothing differs:\n  + {}\n", edit.text);
  }
  if (blame.edits.empty() && blame.tried > 0) {
    text += fmt::format("\nnone of {} edits that were tried undoes it\n", blame.tried);
  }
  return text;
}

Json step_blame_json(const StepBlame& blame) {
  Json out = {{"ok", !blame.found()},
              {"compared", blame.compared},
              {"tried", blame.tried},
              {"wrong", Json::array()},
              {"edits", Json::array()}};
  for (const BlamedValue& one : blame.wrong) {
    out["wrong"].push_back({{"name", one.point.name},
                            {"place", one.point.place},
                            {"op", one.point.op},
                            {"event", one.point.event},
                            {"ranks", one.point.ranks},
                            {"what", one.what},
                            {"through", one.through},
                            {"follows", one.follows}});
  }
  for (const StepEdit& edit : blame.edits) out["edits"].push_back(edit.text);
  return out;
}

}  // namespace shardlab
