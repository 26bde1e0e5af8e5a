// Purposes are listed in the order of the enumeration.
#include "sim/report/memory_text.h"

#include "base/bytes_text.h"
#include "sim/files/json_value.h"

namespace shardlab {

std::vector<std::string> peak_cells(const PeakReport& peak) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < kHeldForCount; ++i) {
    if (peak.held[i] == 0) continue;
    parts.push_back(fmt::format("{} {}", to_string(static_cast<HeldFor>(i)),
                                bytes_text(static_cast<double>(peak.held[i]))));
  }
  const std::string place =
      peak.line == 0 ? "before the first line"
                     : fmt::format("at line {}{}", peak.line,
                                   peak.pass == Pass::kBackward ? ", in its backward" : "");
  if (parts.empty()) return {place};
  parts.front() = place + ": " + parts.front();
  return parts;
}

Json held_json(const HeldBytes& held) {
  Json json = Json::object();
  for (std::size_t i = 0; i < kHeldForCount; ++i) json[key_of(static_cast<HeldFor>(i))] = held[i];
  return json;
}

Json peak_json(const PeakReport& peak) {
  Json json = {{"bytes", peak.bytes},
               {"line", peak.line == 0 ? Json() : Json(peak.line)},
               {"pass", peak.pass == Pass::kBackward ? "backward" : "forward"}};
  json.update(held_json(peak.held));
  return json;
}

}  // namespace shardlab
