// Lines are numbered by the file that the program is in.
#include "sim/edit/changed_lines.h"

#include <algorithm>

#include "sim/files/text_lines.h"

namespace shardlab {

std::vector<ChangedLines> changed_lines(const SourceText& program, const std::string& edited) {
  const std::vector<std::string> before = lines_in(program.text()), after = lines_in(edited);
  // The most lines that both have from here on, in their order.
  const std::size_t width = after.size() + 1;
  std::vector<std::size_t> common((before.size() + 1) * width);
  for (std::size_t i = before.size(); i-- > 0;) {
    for (std::size_t j = after.size(); j-- > 0;) {
      const std::size_t below = (i + 1) * width + j;
      common[i * width + j] = before[i] == after[j]
                                  ? common[below + 1] + 1
                                  : std::max(common[below], common[i * width + j + 1]);
    }
  }
  std::vector<ChangedLines> changes;
  bool open = false;
  for (std::size_t i = 0, j = 0; i < before.size() || j < after.size();) {
    const bool both = i < before.size() && j < after.size();
    if (both && before[i] == after[j]) {
      open = false;
      ++i, ++j;
      continue;
    }
    if (!open) changes.push_back({program.place(0).line + static_cast<std::int64_t>(i), {}, {}});
    open = true;
    const bool goes =
        j == after.size() || (both && common[(i + 1) * width + j] >= common[i * width + j + 1]);
    if (goes) {
      changes.back().before.push_back(before[i++]);
    } else {
      changes.back().after.push_back(after[j++]);
    }
  }
  return changes;
}

std::string changes_text(const std::vector<ChangedLines>& changes, Color color) {
  std::string out;
  for (const auto& [line, before, after] : changes) {
    for (const std::string& one : before) out += paint("  - " + one, Ink::kBad, color) + "\n";
    for (const std::string& one : after) out += paint("  + " + one, Ink::kGood, color) + "\n";
  }
  return out;
}

}  // namespace shardlab
