// toml_tree.h - a TOML file as a plain tree in file order, every key and value with its place. A
// tree of our own, because messages point into the file and values keep its order. Values;
// immutable once read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sim/language/syntax/source.h"

namespace shardlab {

struct TomlEntry;
using TomlTable = std::vector<TomlEntry>;  ///< in the order of the file

/// A value of any kind, with its place.
struct TomlValue {
  SourceSpan span;  ///< in the file
  /// A string is a text of its own, whose places are those of the file.
  std::variant<bool, std::int64_t, double, SourcePtr, std::vector<TomlValue>, TomlTable> value;
};

/// A key with its value.
struct TomlEntry {
  std::string key;
  SourceSpan span;  ///< of the key
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

}  // namespace shardlab
