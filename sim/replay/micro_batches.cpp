// A key has the count of its value among those of one name: without it the value is that of any
// micro-batch.
#include "sim/replay/micro_batches.h"

#include <algorithm>
#include <regex>
#include <utility>

namespace shardlab {

namespace {

std::string without_counts(const std::string& key) {
  static const std::regex count(R"(\|\d+)");
  return std::regex_replace(key, count, "|");
}

}  // namespace

MicroBatches::MicroBatches(const PointsOfA& a) : a_(a) {
  several_ = std::ranges::any_of(a, [](const auto& point) {
    return point.first.starts_with("gradient ") && point.first.ends_with("|1");
  });
}

const PointPart* MicroBatches::rows(const std::string& key) {
  if (rows_.empty()) {
    for (const auto& [name, parts] : a_) {
      const bool known = parts.size() == 1 && !parts[0].shape.empty() && !parts[0].elements.empty();
      if (!known) continue;
      const PointPart& part = parts[0];
      const auto [found, first] = rows_.try_emplace(without_counts(name), part);
      if (first) continue;
      PointPart& all = found->second;
      const bool fits = std::equal(all.shape.begin() + 1, all.shape.end(), part.shape.begin() + 1,
                                   part.shape.end());
      if (!fits) continue;
      all.shape[0] += part.shape[0];
      all.elements.insert(all.elements.end(), part.elements.begin(), part.elements.end());
    }
  }
  const auto found = rows_.find(without_counts(key));
  return found == rows_.end() ? nullptr : &found->second;
}

std::string MicroBatches::last(const std::string& key) const {
  const std::string name = key.substr(0, key.rfind('|') + 1);
  std::size_t count = 0;
  while (a_.contains(name + std::to_string(count + 1))) ++count;
  return name + std::to_string(count);
}

void MicroBatches::begin(const RecordedProgram& b) {
  if (!several_) return;
  std::map<std::pair<std::int32_t, std::string>, std::size_t> last;
  behind_.resize(b.events.size());
  std::set<std::int32_t> back;  // ranks
  for (std::size_t at = b.events.size(); at-- > 0;) {
    const RecordedEvent& event = b.events[at];
    const bool looks = is_gradient_check(event);
    if (looks && last.try_emplace({event.rank, event.name}, at).second) last_looks_.insert(at);
    if (looks || event.kind == RecordedKind::kBackward) back.insert(event.rank);
    const bool before = event.rank < 0 ? !back.empty() : back.contains(event.rank);
    behind_[at] = !before && !back.contains(-1);
  }
}

// The average over two ranks of gradients that are larger would be a sum of terms.
Explained MicroBatches::explained(const ComparedPoint& point, const PointPart& rows,
                                  const Explain& explain) const {
  Explained one = explain(rows);
  const bool vague = one.held == ValueHeld::kWrong || one.held == ValueHeld::kTerms;
  if (!vague || point.kind != PointKind::kFlow || factor_ == 1) return one;
  PointPart times = rows;
  for (double& element : times.elements) element *= factor_;
  Explained larger = explain(times);
  return larger.held == ValueHeld::kTerms ? larger : one;
}

void MicroBatches::judge(const ComparedPoint& point, const Explain& explain, Explained& all) {
  if (point.kind == PointKind::kGradient || point.kind == PointKind::kEnd) return;
  const bool input = point.kind == PointKind::kInput, result = point.kind == PointKind::kResult;
  cut_otherwise_ = cut_otherwise_ || input;
  const PointPart* const part = input ? nullptr : rows(point.key);
  Explained one{.held = ValueHeld::kUnknown, .groups = {}};
  if (part != nullptr) one = explained(point, *part, explain);
  const bool as_rows = one.held == ValueHeld::kRight || one.held == ValueHeld::kTerms;
  cut_otherwise_ = cut_otherwise_ || (result && as_rows);
  if (!cut_otherwise_) return;
  all = std::move(one);
  // Rows of data may have been made before the step.
  const bool data = unit_roundoff(point.parts[0].dtype) == 0;
  if (all.held == ValueHeld::kWrong && (!result || data)) all.held = ValueHeld::kUnknown;
}

void MicroBatches::see_flow(Explained& all) {
  if (all.held == ValueHeld::kScaled) factor_ = all.factor;
  if (all.held == ValueHeld::kTerms && cut_otherwise_) all.factor = 1;
}

}  // namespace shardlab
