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

std::set<std::size_t> last_gradients(const RecordedProgram& program) {
  std::map<std::pair<std::int32_t, std::string>, std::size_t> last;
  for (std::size_t at = 0; at < program.events.size(); ++at) {
    const RecordedEvent& event = program.events[at];
    if (is_gradient_check(event)) last[{event.rank, event.name}] = at;
  }
  std::set<std::size_t> events;
  for (const auto& [name, at] : last) events.insert(at);
  return events;
}

}  // namespace shardlab
