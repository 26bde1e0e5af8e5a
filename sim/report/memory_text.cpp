// Purposes are listed in the order of the enumeration.
#include "sim/report/memory_text.h"

#include <algorithm>
#include <array>

#include "base/text.h"
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

// Purposes are stacked in the order of the enumeration. A cell of the picture shows the purpose at
// its middle.

namespace {

constexpr std::size_t kColumns = 64;
constexpr std::int64_t kRows = 12;
constexpr std::array<const char*, kHeldForCount> kInks = {"█", "▓", "▒", "░", "≡", "·"};

const char* ink_at(const MemoryPoint& point, double height) {
  double below = 0;
  for (std::size_t i = 0; i < kHeldForCount; ++i) {
    below += static_cast<double>(point.held[i]);
    if (height < below) return kInks[i];
  }
  return " ";
}

std::string passes_row(const std::vector<MemoryPoint>& columns) {
  std::string row;
  for (const MemoryPoint& point : columns) row += point.pass == Pass::kForward ? "f" : "b";
  return row;
}

}  // namespace

std::vector<MemoryPoint> fullest(const std::vector<MemoryPoint>& points, std::size_t count) {
  count = std::min(points.size(), count);
  std::vector<MemoryPoint> columns;
  for (std::size_t column = 0; column < count; ++column) {
    const auto first = points.begin() + static_cast<std::ptrdiff_t>(column * points.size() / count);
    const auto last =
        points.begin() + static_cast<std::ptrdiff_t>((column + 1) * points.size() / count);
    columns.push_back(*std::ranges::max_element(first, last, {}, &MemoryPoint::bytes));
  }
  return columns;
}

std::string memory_curve(const std::vector<MemoryPoint>& points) {
  if (points.empty()) return {};
  const std::vector<MemoryPoint> columns = fullest(points, kColumns);
  const auto& peak = *std::ranges::max_element(columns, {}, &MemoryPoint::bytes);
  const auto top = static_cast<double>(peak.bytes);
  std::string text;
  for (std::int64_t row = kRows; row-- > 0;) {
    const double height = top * (static_cast<double>(row) + 0.5) / static_cast<double>(kRows);
    const bool labelled = row == kRows - 1 || row == kRows / 2 - 1;
    const double level = row == kRows - 1 ? top : top / 2;
    text += fmt::format("  {:>9} │", labelled ? bytes_text(level) : "");
    for (const MemoryPoint& point : columns) text += ink_at(point, height);
    text += "\n";
  }
  std::string axis;
  for (std::size_t i = 0; i < columns.size(); ++i) axis += "─";
  text += fmt::format("  {:>9} └{}\n  {:>9}  {}\n", "0 B", axis, "pass", passes_row(columns));
  text += fmt::format("  each column: the most of {} points; f forward, b backward\n",
                      (points.size() + columns.size() - 1) / columns.size());
  text += " ";
  for (std::size_t i = 0; i < kHeldForCount; ++i) {
    const bool seen =
        std::ranges::any_of(points, [&](const auto& each) { return each.held[i] > 0; });
    if (seen) text += fmt::format(" {} {} ", kInks[i], to_string(static_cast<HeldFor>(i)));
  }
  text.resize(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

Json timeline_json(const std::vector<MemoryPoint>& points) {
  return json_list(points, [](const MemoryPoint& point) {
    return peak_json(
        {.bytes = point.bytes, .held = point.held, .line = point.line, .pass = point.pass});
  });
}

}  // namespace shardlab
