// toml_tree.h - a TOML file as a plain tree in file order, every key and value with its place. A
// tree of our own, because messages point into the file and values keep its order. Values;
// immutable once read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sim/language/syntax/constant.h"
#include "sim/language/syntax/source.h"
#include "sim/scenario/scenario.h"

namespace shardlab {

struct TomlEntry;
using TomlTable = std::vector<TomlEntry>;  ///< in the order of the file

/// A value of any kind, with its place.
struct TomlValue {
  Where where;
  /// A string is a text of its own, whose places are those of the file.
  std::variant<bool, std::int64_t, double, SourcePtr, std::vector<TomlValue>, TomlTable> value;
};

/// A key with its value.
struct TomlEntry {
  std::string key;
  Where where;  ///< of the key
  TomlValue value;
};

/// "a boolean", "an integer", "a float", "a string", "an array", "a table".
std::string_view kind_name(const TomlValue& value);

/// Null when there is no such key.
const TomlEntry* find(const TomlTable& table, std::string_view key);
TomlEntry* find(TomlTable& table, std::string_view key);

/// Reads a whole file.
///   fails  ScenarioError: text that TOML does not allow, with the place; dates and times
TomlTable read_toml(const SourcePtr& file);

/// One table of a file, with the name that messages use ("[mesh]", "input 'w'").
struct TomlSection {
  Where where;  ///< of its key; of the whole file, its begin
  std::string name;
  const TomlTable* table;

  /// Refuses keys that are not `known`, with the nearest known one.
  void check_keys(const std::vector<std::string>& known) const;
  const TomlEntry* find(std::string_view key) const { return shardlab::find(*table, key); }
  /// The table of a key, under the name "[key]"; none when there is no such key.
  std::optional<TomlSection> section(std::string_view key) const;
};

TomlSection section_of(const TomlEntry& entry, std::string name);

/// "expected a string for 'title', found an integer".
[[noreturn]] void refuse_kind(const TomlValue& value, std::string_view key,
                              std::string_view wanted);

// Each fails with ScenarioError when the value is of another kind.
SourcePtr read_text(const TomlEntry& entry);
bool read_bool(const TomlEntry& entry);
std::int64_t read_integer(const TomlEntry& entry);
/// An integer or a float.
Number read_number(const TomlEntry& entry);
const TomlTable& read_table(const TomlEntry& entry);
const std::vector<TomlValue>& read_array(const TomlEntry& entry);
/// A number, string or boolean.
Literal read_literal(const TomlValue& value, std::string_view key);
/// One of `names`; returns its index.
std::size_t read_choice(const TomlEntry& entry, const std::vector<std::string>& names);

/// Refuses text that is not a name in programs: letters, digits and '_', and no keyword of Python.
void check_identifier(const Where& where, std::string_view name, std::string_view what);

}  // namespace shardlab
