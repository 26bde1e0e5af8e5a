// The one unit that includes toml++ (it takes seconds to compile).
#include "sim/scenario/toml_tree.h"

#include <toml++/toml.h>

#include <algorithm>

#include "base/text.h"
#include "sim/language/syntax/lexer.h"
#include "sim/recording/advice.h"

namespace shardlab {

namespace {

std::uint32_t offset_of(const SourceText& file, const toml::source_position& position) {
  return file.offset_of(
      {static_cast<std::int32_t>(position.line), static_cast<std::int32_t>(position.column)});
}

Where where_of(const SourcePtr& file, const toml::source_region& region) {
  const std::uint32_t begin = offset_of(*file, region.begin);
  return {file, {begin, std::max(begin, offset_of(*file, region.end))}};
}

/// Walks the raw text of a string together with its decoded value and notes the places at which
/// both run in step.
class StringPlaces {
 public:
  StringPlaces(std::string_view file, std::uint32_t begin) : file_(file), at_(begin) {
    const char quote = peek();
    basic_ = quote == '"';
    const bool multi_line = peek(1) == quote && peek(2) == quote && quote != '\0';
    at_ += multi_line ? 3 : 1;
    if (!multi_line) return;
    if (peek() == '\r') ++at_;
    if (peek() == '\n') ++at_;
  }

  std::vector<SourceText::Run> runs(std::string_view value) {
    std::vector<SourceText::Run> out = {{0, at_}};
    std::uint32_t step = at_;  // file offset minus value offset of the current run
    for (std::uint32_t i = 0; i < value.size();) {
      skip_what_gives_nothing(value[i]);
      if (at_ - i != step) {
        step = at_ - i;
        out.push_back({i, at_});
      }
      i += one_character();
    }
    return out;
  }

 private:
  char peek(std::uint32_t ahead = 0) const {
    return at_ + ahead < file_.size() ? file_[at_ + ahead] : '\0';
  }

  // A backslash at the end of a line eats the blanks after it; a CR may have been dropped.
  void skip_what_gives_nothing(char wanted) {
    if (peek() == '\r' && wanted != '\r') ++at_;
    while (basic_ && peek() == '\\' &&
           (peek(1) == '\n' || peek(1) == '\r' || peek(1) == ' ' || peek(1) == '\t')) {
      ++at_;
      while (peek() == '\n' || peek() == '\r' || peek() == ' ' || peek() == '\t') ++at_;
    }
  }

  // Passes one character of the file, or one escape; returns the number of bytes of its value.
  std::uint32_t one_character() {
    if (!basic_ || peek() != '\\') return ++at_, 1;
    const int digits = peek(1) == 'u' ? 4 : peek(1) == 'U' ? 8 : 0;
    if (digits == 0) return at_ += 2, 1;
    const auto code = std::stoul(
        std::string(file_.substr(at_ + 2, static_cast<std::size_t>(digits))), nullptr, 16);
    at_ += 2 + static_cast<std::uint32_t>(digits);
    return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  }

  std::string_view file_;
  std::uint32_t at_;
  bool basic_ = true;
};

class Converter {
 public:
  explicit Converter(const SourcePtr& file) : file_(file) {}

  TomlTable table(const toml::table& from) const {
    TomlTable out;
    for (const auto& [key, node] : from) {
      out.push_back({std::string(key.str()), where_of(file_, key.source()), value(node)});
    }
    std::stable_sort(out.begin(), out.end(), [](const TomlEntry& a, const TomlEntry& b) {
      return a.where.span.begin < b.where.span.begin;
    });
    return out;
  }

 private:
  TomlValue value(const toml::node& node) const {
    TomlValue out{where_of(file_, node.source()), false};
    if (const auto* flag = node.as_boolean())
      out.value = flag->get();
    else if (const auto* integer = node.as_integer())
      out.value = integer->get();
    else if (const auto* real = node.as_floating_point())
      out.value = real->get();
    else if (const auto* text = node.as_string())
      out.value = string(out.where.span.begin, text->get());
    else if (const auto* array = node.as_array())
      out.value = items(*array);
    else if (const auto* inner = node.as_table())
      out.value = table(*inner);
    else
      out.where.refuse("a date or a time has no meaning in a scenario",
                       "write it as a string, or leave it out");
    return out;
  }

  std::vector<TomlValue> items(const toml::array& array) const {
    std::vector<TomlValue> out;
    for (const toml::node& node : array) out.push_back(value(node));
    return out;
  }

  SourcePtr string(std::uint32_t begin, const std::string& value) const {
    auto runs = StringPlaces(file_->text(), begin).runs(value);
    return std::make_shared<const SourceText>(file_, value, std::move(runs));
  }

  const SourcePtr& file_;
};

// The fix for the most common texts that are no TOML: a program, or a word of Python in a value.
std::string fix_of(const SourceText& file, std::uint32_t at) {
  const std::string_view text = file.text();
  if (file.file().ends_with(".py")) {
    return fmt::format("{0}{1}; the code of a scenario comes in by file = \"{1}\" below [program]",
                       kRecordFirst, file.file());
  }
  const std::size_t begin = text.find_last_of(" =[{,\n", at) + 1;
  const std::size_t end = text.find_first_of(" ]},\n", at);
  const std::string_view word = text.substr(begin, end - begin);
  if (word == "True" || word == "False") {
    return fmt::format("write {}: only the code of [program] is Python, all else is TOML",
                       word == "True" ? "true" : "false");
  }
  return "write each key once as KEY = VALUE, texts in quotes, tables in [brackets], all in UTF-8";
}

}  // namespace

std::string_view kind_name(const TomlValue& value) {
  static constexpr std::string_view kNames[] = {"a boolean", "an integer", "a float",
                                                "a string",  "an array",   "a table"};
  return kNames[value.value.index()];
}

TomlEntry* find(TomlTable& table, std::string_view key) {
  const auto found = std::ranges::find(table, key, &TomlEntry::key);
  return found == table.end() ? nullptr : &*found;
}

const TomlEntry* find(const TomlTable& table, std::string_view key) {
  const auto found = std::ranges::find(table, key, &TomlEntry::key);
  return found == table.end() ? nullptr : &*found;
}

TomlTable read_toml(const SourcePtr& file) {
  try {
    return Converter(file).table(toml::parse(std::string_view(file->text())));
  } catch (const toml::parse_error& error) {
    const std::uint32_t at = offset_of(*file, error.source().begin);
    refuse(*file, {at, at}, fmt::format("this is not TOML: {}", error.description()),
           fix_of(*file, at));
  }
}

// Every error of a read names the key, the expected kind and the one found. Unknown keys are
// errors, with the nearest known one.

void TomlSection::check_keys(const std::vector<std::string>& known) const {
  for (const TomlEntry& entry : *table) {
    if (std::find(known.begin(), known.end(), entry.key) != known.end()) continue;
    entry.where.refuse(fmt::format("unknown key '{}' in {}", entry.key, name),
                       suggest(entry.key, known));
  }
}

std::optional<TomlSection> TomlSection::section(std::string_view key) const {
  const TomlEntry* entry = find(key);
  if (entry == nullptr) return std::nullopt;
  return section_of(*entry, fmt::format("[{}]", key));
}

TomlSection section_of(const TomlEntry& entry, std::string name) {
  return {entry.where, std::move(name), &read_table(entry)};
}

void refuse_kind(const TomlValue& value, std::string_view key, std::string_view wanted) {
  value.where.refuse(fmt::format("expected {} for '{}', found {}", wanted, key, kind_name(value)));
}

namespace {

template <typename T>
const T& read_as(const TomlEntry& entry, std::string_view wanted) {
  if (const auto* value = std::get_if<T>(&entry.value.value)) return *value;
  refuse_kind(entry.value, entry.key, wanted);
}

}  // namespace

SourcePtr read_text(const TomlEntry& entry) { return read_as<SourcePtr>(entry, "a string"); }

bool read_bool(const TomlEntry& entry) { return read_as<bool>(entry, "true or false"); }

std::int64_t read_integer(const TomlEntry& entry) {
  return read_as<std::int64_t>(entry, "an integer");
}

Number read_number(const TomlEntry& entry) {
  if (const auto* integer = std::get_if<std::int64_t>(&entry.value.value)) return *integer;
  return read_as<double>(entry, "a number");
}

const TomlTable& read_table(const TomlEntry& entry) { return read_as<TomlTable>(entry, "a table"); }

const std::vector<TomlValue>& read_array(const TomlEntry& entry) {
  return read_as<std::vector<TomlValue>>(entry, "an array");
}

Literal read_literal(const TomlValue& value, std::string_view key) {
  if (const auto* flag = std::get_if<bool>(&value.value)) return *flag;
  if (const auto* integer = std::get_if<std::int64_t>(&value.value)) return *integer;
  if (const auto* real = std::get_if<double>(&value.value)) return *real;
  if (const auto* text = std::get_if<SourcePtr>(&value.value)) return (*text)->text();
  refuse_kind(value, key, "a number, a string or a boolean");
}

std::size_t read_choice(const TomlEntry& entry, const std::vector<std::string>& names) {
  const SourcePtr text = read_text(entry);
  const auto found = std::find(names.begin(), names.end(), text->text());
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  entry.value.where.refuse(fmt::format("'{}' is not a value of '{}'", text->text(), entry.key),
                           suggest(text->text(), names));
}

void check_identifier(const Where& where, std::string_view name, std::string_view what) {
  const SourceText text("", std::string(name));
  try {
    const auto tokens = tokens_of(text, LexMode::kExpression);
    if (tokens.size() == 2 && tokens[0].kind == TokenKind::kName && tokens[0].text == name) return;
  } catch (const ScenarioError&) {
    // Falls through: the place in the file is the one to show.
  }
  where.refuse(fmt::format("'{}' cannot be the name of {}", name, what),
               "use letters, digits and '_', and no keyword of Python");
}

}  // namespace shardlab
