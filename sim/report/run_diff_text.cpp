// A difference has the number of its event. The earliest over all themes is reported last and in
// full, because the others may follow from it.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "sim/files/json_value.h"
#include "sim/report/paint.h"
#include "sim/report/run_diff.h"

namespace shardlab {

namespace {

constexpr std::size_t kMostShown = 5;  // of one theme

std::string indented(const std::string& text, std::string_view indent) {
  std::string out(indent);
  for (const char c : text) {
    out += c;
    if (c == '\n') out += indent;
  }
  return out + "\n";
}

std::string run_text(const RunDiff& run, Color color) {
  std::string out = paint(run.title, Ink::kTitle, color) + "\n";
  for (const std::string& line : run.setup) out += fmt::format("  set          {}\n", line);
  for (const DiffSection& section : run.sections) {
    const bool same = section.differences.empty();
    out += fmt::format("  {:<12} {}\n", section.name,
                       same ? section.text : paint(section.text, Ink::kBad, color));
    std::size_t shown = 0;
    for (const Difference& difference : section.differences) {
      if (&difference == run.first()) continue;
      if (shown++ == kMostShown) break;
      out += fmt::format("    {}\n", difference.about);
      out += indented(difference.text, "      ");
    }
    if (shown > kMostShown) {
      out += fmt::format("    ... {} in all\n", section.differences.size());
    }
  }
  if (const Difference* first = run.first()) {
    out += fmt::format("  {} {}\n", paint("first difference:", Ink::kBad, color), first->about);
    out += indented(first->text, "    ");
  }
  return out;
}

// Themes of which some run compares nothing.
std::vector<std::string> not_compared(const std::vector<RunDiff>& runs) {
  std::vector<std::string> names;
  for (const RunDiff& run : runs) {
    for (const DiffSection& section : run.sections) {
      const bool known = std::ranges::find(names, section.name) != names.end();
      if (!section.compared && !known) names.push_back(section.name);
    }
  }
  return names;
}

}  // namespace

bool RunDiff::equal() const { return first() == nullptr; }

const Difference* RunDiff::first() const {
  const Difference* earliest = nullptr;
  for (const DiffSection& section : sections) {
    for (const Difference& difference : section.differences) {
      if (earliest == nullptr || difference.event < earliest->event) earliest = &difference;
    }
  }
  return earliest;
}

std::string diff_text(const std::vector<RunDiff>& runs, const std::string& a, const std::string& b,
                      Color color) {
  std::string out = fmt::format("A  {}\nB  {}\n", a, b);
  std::size_t different = 0;
  for (const RunDiff& run : runs) {
    out += "\n" + run_text(run, color);
    if (!run.equal()) ++different;
  }
  const std::string all = counted(std::ssize(runs), "run");
  if (different > 0) return out + fmt::format("\n{} of {} differ\n", different, all);
  const std::string open = text_of_list(not_compared(runs), ", ");
  out += fmt::format("\nequal{}: {}", open.empty() ? "" : " in what is compared", all);
  return out + (open.empty() ? "\n" : fmt::format("; not compared: {}\n", open));
}

std::string diff_json(const std::vector<RunDiff>& runs) {
  Json json = {{"equal", true}, {"runs", Json::array()}};
  const auto entry = [](const Difference& difference) {
    return Json{
        {"about", difference.about}, {"text", difference.text}, {"event", difference.event}};
  };
  for (const RunDiff& run : runs) {
    Json slot = {{"title", run.title}, {"set", run.setup}, {"equal", run.equal()}};
    for (const DiffSection& section : run.sections) {
      Json& theme = slot["themes"][section.name];
      theme = {
          {"text", section.text}, {"compared", section.compared}, {"differences", Json::array()}};
      for (const Difference& difference : section.differences) {
        theme["differences"].push_back(entry(difference));
      }
    }
    if (const Difference* first = run.first()) slot["first"] = entry(*first);
    if (!run.equal()) json["equal"] = false;
    json["runs"].push_back(std::move(slot));
  }
  return json.dump();
}

}  // namespace shardlab
