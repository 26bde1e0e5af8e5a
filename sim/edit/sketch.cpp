// A setting takes the place of what it sets. A table that fits in a line is one, so that the file
// begins with all that is no program.
#include "sim/edit/sketch.h"

#include <algorithm>

#include "sim/scenario/scenario_file.h"
#include "sim/scenario/toml_text.h"

namespace shardlab {

namespace {

TomlValue value_of(const Literal& literal) {
  return std::visit(
      [](const auto& value) -> TomlValue {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>) {
          return toml_string(value);
        } else {
          return {{}, value};
        }
      },
      literal);
}

// "topology.tp.us": the tables on the way are made where they are missing.
void set(TomlTable& table, std::string_view path, TomlValue value) {
  const std::size_t dot = path.find('.');
  const std::string key(path.substr(0, dot));
  if (dot == std::string_view::npos) return put(table, {key, {}, std::move(value)});
  if (find(table, key) == nullptr) table.push_back({key, {}, {{}, TomlTable{}}});
  set(std::get<TomlTable>(find(table, key)->value.value), path.substr(dot + 1), std::move(value));
}

void keep_expectations(TomlTable& file) {
  TomlEntry* expect = find(file, "expect");
  if (expect == nullptr) return;
  auto& table = std::get<TomlTable>(expect->value.value);
  for (const char* key : {"cause", "line", "error", "verdict"}) remove(table, key);
  if (table.empty()) remove(file, "expect");
}

// `header`: "[mesh]".
std::string text_of_table(std::string header, const TomlTable& table) {
  std::string out = std::move(header) + "\n";
  for (const TomlEntry& entry : table) out += toml_line(entry) + "\n";
  return out;
}

// Statements of [reference] that fit in a line share it.
void join_reference(TomlTable& file) {
  TomlEntry* reference = find(file, "reference");
  if (reference == nullptr) return;
  TomlEntry* code = find(std::get<TomlTable>(reference->value.value), "code");
  if (code == nullptr) return;
  std::string joined;
  for (const ProgramLine& line : lines_of(*std::get<SourcePtr>(code->value.value))) {
    if (line.indent > 0 || line.text.find('\n') != std::string::npos) return;
    joined += (joined.empty() ? "" : "; ") + line.text;
  }
  const TomlEntry entry{"code", {}, toml_string(joined)};
  if (toml_line(entry).size() <= kLongestLine) *code = entry;
}

bool is_table(const TomlEntry& entry) {
  return std::holds_alternative<TomlTable>(entry.value.value);
}

bool is_list_of_tables(const TomlEntry& entry) {
  const auto* items = std::get_if<std::vector<TomlValue>>(&entry.value.value);
  return items != nullptr && !items->empty() &&
         std::holds_alternative<TomlTable>(items->front().value);
}

}  // namespace

TomlTable* table_of(Sketch& sketch, std::string_view name) {
  TomlEntry* entry = find(sketch.file, name);
  return entry == nullptr ? nullptr : std::get_if<TomlTable>(&entry->value.value);
}

const TomlTable* table_of(const Sketch& sketch, std::string_view name) {
  const TomlEntry* entry = find(sketch.file, name);
  return entry == nullptr ? nullptr : std::get_if<TomlTable>(&entry->value.value);
}

void put(TomlTable& table, TomlEntry entry) {
  if (TomlEntry* found = find(table, entry.key)) {
    *found = std::move(entry);
  } else {
    table.push_back(std::move(entry));
  }
}

void remove(TomlTable& table, std::string_view key) {
  std::erase_if(table, [&](const TomlEntry& entry) { return entry.key == key; });
}

TomlValue* type_of(TomlEntry& input) {
  if (std::holds_alternative<SourcePtr>(input.value.value)) return &input.value;
  auto* table = std::get_if<TomlTable>(&input.value.value);
  if (table == nullptr) return nullptr;
  TomlEntry* type = find(*table, "type");
  return type == nullptr ? nullptr : &type->value;
}

Sketch sketch_of(const Scenario& scenario) {
  Sketch sketch{read_toml(scenario.file), lines_of(*scenario.program->source)};
  for (const char* key : {"matrix", "about", "program"}) remove(sketch.file, key);
  for (const std::string& setting : scenario.settings) {
    const Setting parsed = parse_setting(setting);
    set(sketch.file, parsed.key, value_of(parsed.value));
  }
  keep_expectations(sketch.file);
  join_reference(sketch.file);
  const auto after = std::ranges::find_if(sketch.file, [](const TomlEntry& entry) {
    return entry.key == "reference" || entry.key == "expect";
  });
  sketch.file.insert(after, {"program", {}, {{}, TomlTable{}}});
  if (TomlTable* inputs = table_of(sketch, "inputs")) {
    for (const ScenarioInput& input : scenario.inputs) {
      TomlValue* type = type_of(*find(*inputs, input.name));
      if (type != nullptr) *type = toml_string(input.type.text->text());
    }
  }
  return sketch;
}

WrittenSketch written(const Sketch& sketch) {
  WrittenSketch out;
  const auto comes_first = [](const TomlEntry& entry) {
    const bool apart = entry.key == "inputs" || entry.key == "program" || entry.key == "reference";
    return !apart && toml_line(entry).size() <= kLongestLine && !is_list_of_tables(entry);
  };
  for (const TomlEntry& entry : sketch.file) {
    const bool list = is_list_of_tables(entry);
    if (comes_first(entry) || !(is_table(entry) || list)) out.text += toml_line(entry) + "\n";
  }
  for (const TomlEntry& entry : sketch.file) {
    if (is_list_of_tables(entry)) {
      for (const TomlValue& item : std::get<std::vector<TomlValue>>(entry.value.value)) {
        out.text += text_of_table("[[" + entry.key + "]]", std::get<TomlTable>(item.value));
      }
    } else if (entry.key == "program") {
      const TomlTable code{{"code", {}, toml_string(text_of(sketch.program))}};
      out.first_line = std::ranges::count(out.text, '\n') + 3;
      out.text += text_of_table("[program]", code);
    } else if (is_table(entry) && !comes_first(entry)) {
      out.text += text_of_table("[" + entry.key + "]", std::get<TomlTable>(entry.value.value));
    }
  }
  return out;
}

}  // namespace shardlab
