// Tables inside of a table are written between braces, so that an entry is a line wherever its
// strings are.
#include "sim/edit/toml_text.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>

namespace shardlab {

namespace {

bool is_bare(std::string_view key) {
  constexpr std::string_view kBare =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  return !key.empty() && key.find_first_not_of(kBare) == std::string_view::npos;
}

std::string escaped(std::string_view text, bool in_lines) {
  std::string out;
  for (const char letter : text) {
    const bool line_end = letter == '\n' && in_lines;
    if (letter == '"' || letter == '\\') {
      out += '\\';
      out += letter;
    } else if (letter == '\n' && !in_lines) {
      out += "\\n";
    } else if (static_cast<unsigned char>(letter) < ' ' && !line_end) {
      out += fmt::format("\\u{:04x}", static_cast<int>(letter));
    } else {
      out += letter;
    }
  }
  return out;
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
    if (text.find('\n') == std::string::npos) return '"' + escaped(text, false) + '"';
    const bool literal = text.find("'''") == std::string::npos;
    const bool plain =
        text.find('\\') == std::string::npos && text.find("\"\"\"") == std::string::npos;
    if (plain) return "\"\"\"\n" + text + "\"\"\"";
    if (literal) return "'''\n" + text + "'''";
    return "\"\"\"\n" + escaped(text, true) + "\"\"\"";
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

std::string toml_text(const TomlValue& value) { return std::visit(Printer{}, value.value); }

std::string toml_line(const TomlEntry& entry) {
  const std::string key = is_bare(entry.key) ? entry.key : '"' + escaped(entry.key, false) + '"';
  return key + " = " + toml_text(entry.value);
}

TomlValue toml_string(std::string_view text) {
  return {{}, std::make_shared<const SourceText>("", std::string(text))};
}

}  // namespace shardlab
