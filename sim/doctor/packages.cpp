// The table is text, for the shell scripts that set shardlab up read it as well.
#include "sim/doctor/packages.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <span>
#include <sstream>
#include <vector>

#include "base/text.h"
#include "sim/doctor/probe.h"

namespace shardlab {

namespace {

constexpr std::string_view kTable =
#include "sim/doctor/packages.inc"
    ;

using Words = std::vector<std::string>;

Words words_of(const std::string& line) {
  std::istringstream stream(line);
  return {std::istream_iterator<std::string>(stream), {}};
}

// The rows that begin with this word.
std::vector<Words> rows_of(std::string_view first) {
  std::vector<Words> rows;
  std::istringstream lines{std::string(kTable)};
  for (std::string line; std::getline(lines, line);) {
    Words words = words_of(line);
    if (!words.empty() && words[0] == first) rows.push_back(std::move(words));
  }
  return rows;
}

// The value of a key of /etc/os-release, without quotes, as words.
Words release_words(const std::string& release, std::string_view key) {
  std::string value = field_of(release, std::string(key) + "=");
  std::erase(value, '"');
  return words_of(value);
}

}  // namespace

std::string package_manager(const MachineView& view) {
  const auto variable = [&](const char* name) {
    return view.variable ? view.variable(name).value_or("") : "";
  };
  if (!variable("CONDA_PREFIX").empty() && variable("CONDA_DEFAULT_ENV") != "base") return "conda";
  std::error_code ignored;
  if (std::filesystem::exists(view.root + "/System/Library/CoreServices", ignored)) return "brew";
  const std::string release = file_text(view, "/etc/os-release");
  const auto systems = rows_of("system");
  for (const char* key : {"ID", "ID_LIKE"}) {
    for (const std::string& id : release_words(release, key)) {
      for (const Words& row : systems) {
        if (std::find(row.begin() + 2, row.end(), id) != row.end()) return row[1];
      }
    }
  }
  return "";
}

std::string install_line(const MachineView& view, std::string_view use) {
  const std::string manager = package_manager(view);
  const Words head = rows_of("uses").at(0);
  const auto column =
      std::find(head.begin(), head.end(), manager.empty() ? "apt" : manager) - head.begin();
  std::string names;
  for (const Words& row : rows_of(use)) {
    std::string cell = row.at(static_cast<std::size_t>(column));
    std::ranges::replace(cell, '|', ' ');
    if (cell != "-") names += " " + cell;
  }
  if (names.empty()) return "";
  if (manager.empty()) return "install what Debian calls" + names;
  std::string line;
  for (const Words& row : rows_of("command")) {
    if (row[1] == manager) line = text_of_list(std::span(row).subspan(2), " ");
  }
  return line + names;
}

}  // namespace shardlab
