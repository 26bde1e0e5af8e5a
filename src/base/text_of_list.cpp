// One loop for every kind of list; numbers are written by fmt, words appended as they are.
#include "base/text_of_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <type_traits>

namespace shardlab {
namespace {

std::string joined(const auto& values, std::string_view separator) {
  std::string text;
  bool first = true;
  for (const auto& value : values) {
    if (!first) text += separator;
    first = false;
    if constexpr (std::integral<std::remove_cvref_t<decltype(value)>>) {
      text += fmt::format_int(value).str();
    } else {
      text += value;
    }
  }
  return text;
}

}  // namespace

std::string text_of_list(std::span<const std::int64_t> values, std::string_view separator) {
  return joined(values, separator);
}
std::string text_of_list(std::span<const int> values, std::string_view separator) {
  return joined(values, separator);
}
std::string text_of_list(std::span<const std::size_t> values, std::string_view separator) {
  return joined(values, separator);
}
std::string text_of_list(std::span<const std::string> values, std::string_view separator) {
  return joined(values, separator);
}
std::string text_of_list(std::span<const std::string_view> values, std::string_view separator) {
  return joined(values, separator);
}
std::string text_of_list(const std::set<std::string>& values, std::string_view separator) {
  return joined(values, separator);
}

std::vector<std::string_view> parts_of_text(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(separator, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + separator.size();
  }
  return parts;
}

std::vector<std::string> rows_of_table(std::string_view text) {
  std::vector<std::string> rows;
  bool goes_on = false;
  for (std::string_view line : parts_of_text(text, "\n")) {
    if (line.empty() || line.starts_with('#')) continue;
    if (!goes_on) rows.emplace_back();
    goes_on = line.ends_with('\\');
    if (goes_on) line.remove_suffix(1);
    rows.back() += line.substr(line.find_first_not_of(' '));
  }
  return rows;
}

}  // namespace shardlab
