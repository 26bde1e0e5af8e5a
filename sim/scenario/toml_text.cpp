// Tables inside of a table are written between braces, so that an entry is a line wherever its
// strings are.
#include "sim/scenario/toml_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/text.h"

namespace shardlab {

namespace {

bool is_bare(std::string_view key) {
  constexpr std::string_view kBare =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  return !key.empty() && key.find_first_not_of(kBare) == std::string_view::npos;
}

constexpr std::string_view kNumber = "\\u{:04x}";
constexpr std::string_view kBlanks = "\n\t";  // they stay in a string of several lines

// Whether it can be written between three of the quotes: it may neither have nor end with them.
bool fits_between(std::string_view text, char quote) {
  return text.find(std::string(3, quote)) == std::string_view::npos && !text.ends_with(quote) &&
         std::ranges::none_of(text, [](char c) { return is_control(c, kBlanks); });
}

struct Printer {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const {
    const std::string text = fmt::format("{}", value);
    const bool whole = std::isfinite(value) && text.find_first_of(".e") == std::string::npos;
    return whole ? text + ".0" : text;
  }
  std::string operator()(const SourcePtr& value) const {
    const std::string& text = value->text();
    if (text.find('\n') == std::string::npos) return toml_quoted(text);
    const bool plain = text.find('\\') == std::string::npos && fits_between(text, '"');
    if (plain) return "\"\"\"\n" + text + "\"\"\"";
    if (fits_between(text, '\'')) return "'''\n" + text + "'''";
    return "\"\"\"\n" + escaped_text(text, kNumber, kBlanks) + "\"\"\"";
  }
  std::string operator()(const std::vector<TomlValue>& items) const {
    std::string out;
    for (const TomlValue& item : items) out += (out.empty() ? "" : ", ") + toml_text(item);
    return "[" + out + "]";
  }
  std::string operator()(const TomlTable& table) const {
    std::string out;
    for (const TomlEntry& entry : table) out += (out.empty() ? " " : ", ") + toml_line(entry);
    return "{" + out + (table.empty() ? "}" : " }");
  }
};

}  // namespace

std::string toml_quoted(std::string_view text) { return '"' + escaped_text(text, kNumber) + '"'; }

std::string toml_text(const TomlValue& value) { return std::visit(Printer{}, value.value); }

std::string toml_line(const TomlEntry& entry) {
  const std::string key = is_bare(entry.key) ? entry.key : toml_quoted(entry.key);
  return key + " = " + toml_text(entry.value);
}

TomlValue toml_string(std::string_view text) {
  return {{}, std::make_shared<const SourceText>("", std::string(text))};
}

}  // namespace shardlab
