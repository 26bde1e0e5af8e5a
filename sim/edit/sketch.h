// sketch.h - a scenario in parts that can be changed one by one: its TOML as a tree, its program as
// lines. Written out, it is a file again.
#pragma once

#include <string>

#include "sim/edit/program_lines.h"
#include "sim/scenario/scenario.h"
#include "sim/scenario/toml_tree.h"

namespace shardlab {

struct Sketch {
  /// All but the code; [program] is an empty table at its place.
  TomlTable file;
  ProgramLines program;
};

/// The scenario as one that needs no setting, no matrix and no file with its program, and expects
/// nothing that says how it is wrong. Sizes of inputs are numbers.
Sketch sketch_of(const Scenario& scenario);

struct WrittenSketch {
  std::string text;
  std::int64_t first_line = 0;  ///< of the program, in the text
};
WrittenSketch written(const Sketch& sketch);

/// Null where there is no such table.
TomlTable* table_of(Sketch& sketch, std::string_view name);
const TomlTable* table_of(const Sketch& sketch, std::string_view name);
/// Puts the entry at its place, or at the end.
void put(TomlTable& table, TomlEntry entry);
void remove(TomlTable& table, std::string_view key);

/// The type of an entry of [inputs], which is one or has one; null: it has none.
TomlValue* type_of(TomlEntry& input);

}  // namespace shardlab
