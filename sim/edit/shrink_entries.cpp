// Entries of the file besides its program go or become plainer.
#include <algorithm>
#include <array>
#include <string_view>

#include "sim/edit/shrink_passes.h"
#include "sim/scenario/toml_text.h"

namespace shardlab {

namespace {

// Each entry of the table, one after the other; a param is written out in the program.
void drop_each(Trials& trials, std::string_view table) {
  for (const TomlEntry& entry : trials.entries(table)) {
    Sketch candidate = trials.best();
    const auto is_param = [&](const Token& token) {
      return token.kind == TokenKind::kName && token.text == entry.key;
    };
    if (table == "params") replace_tokens(candidate.program, is_param, toml_text(entry.value));
    TomlTable& left = *table_of(candidate, table);
    remove(left, entry.key);
    if (left.empty()) remove(candidate.file, table);
    trials.keeps(candidate);
  }
}

// An input of a type alone, else without one of its other keys.
void plainer_inputs(Trials& trials) {
  for (const TomlEntry& entry : trials.entries("inputs")) {
    const auto* table = std::get_if<TomlTable>(&entry.value.value);
    const TomlEntry* type = table == nullptr ? nullptr : find(*table, "type");
    if (type == nullptr) continue;
    Sketch candidate = trials.best();
    put(*table_of(candidate, "inputs"), {entry.key, {}, type->value});
    if (trials.keeps(candidate)) continue;
    TomlTable left = *table;
    for (const TomlEntry& key : *table) {
      if (key.key == "type") continue;
      TomlTable fewer = left;
      remove(fewer, key.key);
      candidate = trials.best();
      put(*table_of(candidate, "inputs"), {entry.key, {}, {{}, fewer}});
      if (trials.keeps(candidate)) left = std::move(fewer);
    }
  }
}

}  // namespace

void drop_entries(Trials& trials) {
  constexpr std::array<std::string_view, 5> kKept = {"title", "mesh", "inputs", "program",
                                                     "expect"};
  const TomlTable all = trials.best().file;
  for (const TomlEntry& entry : all) {
    if (std::ranges::find(kKept, entry.key) != kKept.end()) continue;
    Sketch candidate = trials.best();
    remove(candidate.file, entry.key);
    trials.keeps(candidate);
  }
  drop_each(trials, "params");
  drop_each(trials, "inputs");
  plainer_inputs(trials);
}

}  // namespace shardlab
