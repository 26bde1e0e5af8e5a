// toml_reader.h - typed access to a TomlTable; each function names key and place when it refuses.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/language/syntax/constant.h"
#include "sim/scenario/scenario.h"
#include "sim/scenario/toml_tree.h"

namespace shardlab {

/// One table of a file, with the name that messages use ("[mesh]", "input 'w'").
struct TomlSection {
  SourcePtr file;
  std::string name;
  const TomlTable* table;

  /// Refuses keys that are not `known`, with the nearest known one.
  void check_keys(const std::vector<std::string>& known) const;
  const TomlEntry* find(std::string_view key) const { return shardlab::find(*table, key); }
  Where where(const TomlEntry& entry) const { return {file, entry.span}; }
  Where where(const TomlValue& value) const { return {file, value.span}; }
};

/// "expected a string for 'title', found an integer".
[[noreturn]] void refuse_kind(const SourcePtr& file, const TomlValue& value, std::string_view key,
                              std::string_view wanted);

// Each fails with ScenarioError when the value is of another kind.
SourcePtr read_text(const SourcePtr& file, const TomlEntry& entry);
bool read_bool(const SourcePtr& file, const TomlEntry& entry);
std::int64_t read_integer(const SourcePtr& file, const TomlEntry& entry);
/// An integer or a float.
Number read_number(const SourcePtr& file, const TomlEntry& entry);
const TomlTable& read_table(const SourcePtr& file, const TomlEntry& entry);
const std::vector<TomlValue>& read_array(const SourcePtr& file, const TomlEntry& entry);
/// A number, string or boolean.
Literal read_literal(const SourcePtr& file, const TomlValue& value, std::string_view key);
/// One of `names`; returns its index.
std::size_t read_choice(const SourcePtr& file, const TomlEntry& entry,
                        const std::vector<std::string>& names);

/// Refuses text that is not a name in programs: letters, digits and '_', and no keyword of Python.
void check_identifier(const Where& where, std::string_view name, std::string_view what);

}  // namespace shardlab
