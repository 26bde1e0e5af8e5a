// The table is text (absent_names.txt, which says its form). A test runs each line of it.
#include "sim/language/values/absent_names.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace shardlab {

namespace {

constexpr const char* kText =
#include "sim/language/absent_names.inc"
    ;

std::vector<AbsentNames> read_rows() {
  std::vector<AbsentNames> rows;
  for (const std::string& row : rows_of_table(kText)) {
    const std::size_t colon = row.find(": "), note = row.find("  # ");
    rows.push_back({row.substr(0, colon), row.substr(colon + 2, note - colon - 2),
                    note == std::string::npos ? "" : row.substr(note + 4)});
  }
  return rows;
}

// Whether `name` is one of the words.
bool has_word(std::string_view words, std::string_view name) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    if (words.substr(0, end) == name) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

}  // namespace

const std::vector<AbsentNames>& absent_names() {
  static const std::vector<AbsentNames> rows = read_rows();
  return rows;
}

std::string advice_on(std::string_view name) {
  const auto row = std::ranges::find_if(absent_names(), [&](const AbsentNames& candidate) {
    return has_word(candidate.names, name);
  });
  if (name.empty() || row == absent_names().end()) return "";
  return fmt::format("programs do not have it: write {}{}{}", row->instead,
                     row->note.empty() ? "" : "; ", row->note);
}

}  // namespace shardlab
