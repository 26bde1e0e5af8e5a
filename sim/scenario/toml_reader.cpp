// Every error of a read names the key, the expected kind and the one found. Unknown keys are
// errors, with the nearest known one.
#include "sim/scenario/toml_reader.h"

#include <algorithm>

#include "base/nearest.h"
#include "sim/language/syntax/lexer.h"

namespace shardlab {

void TomlSection::check_keys(const std::vector<std::string>& known) const {
  for (const TomlEntry& entry : *table) {
    if (std::find(known.begin(), known.end(), entry.key) != known.end()) continue;
    where(entry).refuse(fmt::format("unknown key '{}' in {}", entry.key, name),
                        suggest(entry.key, known));
  }
}

void refuse_kind(const SourcePtr& file, const TomlValue& value, std::string_view key,
                 std::string_view wanted) {
  refuse(*file, value.span,
         fmt::format("expected {} for '{}', found {}", wanted, key, kind_name(value)));
}

namespace {

template <typename T>
const T& read_as(const SourcePtr& file, const TomlEntry& entry, std::string_view wanted) {
  if (const auto* value = std::get_if<T>(&entry.value.value)) return *value;
  refuse_kind(file, entry.value, entry.key, wanted);
}

}  // namespace

SourcePtr read_text(const SourcePtr& file, const TomlEntry& entry) {
  return read_as<SourcePtr>(file, entry, "a string");
}

bool read_bool(const SourcePtr& file, const TomlEntry& entry) {
  return read_as<bool>(file, entry, "true or false");
}

std::int64_t read_integer(const SourcePtr& file, const TomlEntry& entry) {
  return read_as<std::int64_t>(file, entry, "an integer");
}

Number read_number(const SourcePtr& file, const TomlEntry& entry) {
  if (const auto* integer = std::get_if<std::int64_t>(&entry.value.value)) return *integer;
  return read_as<double>(file, entry, "a number");
}

const TomlTable& read_table(const SourcePtr& file, const TomlEntry& entry) {
  return read_as<TomlTable>(file, entry, "a table");
}

const std::vector<TomlValue>& read_array(const SourcePtr& file, const TomlEntry& entry) {
  return read_as<std::vector<TomlValue>>(file, entry, "an array");
}

Literal read_literal(const SourcePtr& file, const TomlValue& value, std::string_view key) {
  if (const auto* flag = std::get_if<bool>(&value.value)) return *flag;
  if (const auto* integer = std::get_if<std::int64_t>(&value.value)) return *integer;
  if (const auto* real = std::get_if<double>(&value.value)) return *real;
  if (const auto* text = std::get_if<SourcePtr>(&value.value)) return (*text)->text();
  refuse_kind(file, value, key, "a number, a string or a boolean");
}

std::size_t read_choice(const SourcePtr& file, const TomlEntry& entry,
                        const std::vector<std::string>& names) {
  const SourcePtr text = read_text(file, entry);
  const auto found = std::find(names.begin(), names.end(), text->text());
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  refuse(*file, entry.value.span,
         fmt::format("'{}' is not a value of '{}'", text->text(), entry.key),
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
