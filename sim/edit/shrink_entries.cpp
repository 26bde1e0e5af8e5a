// Entries of the file besides its program go or become plainer.
#include <algorithm>
#include <array>
#include <string_view>

#include "sim/edit/shrink_passes.h"
#include "sim/language/syntax/lexer.h"
#include "sim/scenario/toml_text.h"

namespace shardlab {

namespace {

// A name of the program gives way to a text.
void replace_name(ProgramLines& lines, const std::string& name, const std::string& text) {
  for (ProgramLine& line : lines) {
    const SourceText source("", line.text);
    const auto end = static_cast<std::uint32_t>(line.text.size());
    const std::vector<Token> tokens = tokenize(source, {0, end}, LexMode::kExpression);
    for (std::size_t i = tokens.size(); i-- > 0;) {
      if (tokens[i].kind != TokenKind::kName || tokens[i].text != name) continue;
      if (i > 0 && tokens[i - 1].text == ".") continue;
      const SourceSpan span = tokens[i].span;
      line.text.replace(span.begin, span.end - span.begin, text);
    }
  }
}

// Each entry of the table, one after the other; a param is written out in the program.
bool drop_each(Trials& trials, std::string_view table) {
  if (table_of(trials.best(), table) == nullptr) return false;
  bool kept = false;
  const TomlTable all = *table_of(trials.best(), table);
  for (const TomlEntry& entry : all) {
    Sketch candidate = trials.best();
    if (table == "params") replace_name(candidate.program, entry.key, toml_text(entry.value));
    TomlTable& left = *table_of(candidate, table);
    remove(left, entry.key);
    if (left.empty()) remove(candidate.file, table);
    kept = trials.keeps(candidate) || kept;
  }
  return kept;
}

// An input of a type alone, else without one of its other keys.
bool plainer_inputs(Trials& trials) {
  if (table_of(trials.best(), "inputs") == nullptr) return false;
  bool kept = false;
  const TomlTable all = *table_of(trials.best(), "inputs");
  for (const TomlEntry& entry : all) {
    const auto* table = std::get_if<TomlTable>(&entry.value.value);
    const TomlEntry* type = table == nullptr ? nullptr : find(*table, "type");
    if (type == nullptr) continue;
    Sketch candidate = trials.best();
    put(*table_of(candidate, "inputs"), {entry.key, {}, type->value});
    if (trials.keeps(candidate)) {
      kept = true;
      continue;
    }
    TomlTable left = *table;
    for (const TomlEntry& key : *table) {
      if (key.key == "type") continue;
      TomlTable fewer = left;
      remove(fewer, key.key);
      candidate = trials.best();
      put(*table_of(candidate, "inputs"), {entry.key, {}, {{}, fewer}});
      if (!trials.keeps(candidate)) continue;
      left = std::move(fewer);
      kept = true;
    }
  }
  return kept;
}

}  // namespace

bool drop_entries(Trials& trials) {
  constexpr std::array<std::string_view, 5> kKept = {"title", "mesh", "inputs", "program",
                                                     "expect"};
  bool kept = false;
  const TomlTable all = trials.best().file;
  for (const TomlEntry& entry : all) {
    if (std::ranges::find(kKept, entry.key) != kKept.end()) continue;
    Sketch candidate = trials.best();
    remove(candidate.file, entry.key);
    kept = trials.keeps(candidate) || kept;
  }
  kept = drop_each(trials, "params") || kept;
  kept = drop_each(trials, "inputs") || kept;
  return plainer_inputs(trials) || kept;
}

}  // namespace shardlab
