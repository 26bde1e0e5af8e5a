// toml_text.h - a tree of TOML as a text that reads back to the same tree.
#pragma once

#include <string>
#include <string_view>

#include "sim/scenario/toml_tree.h"

namespace shardlab {

/// A string in quotes, in one line. Characters that need an escape are written by their number, so
/// that programs read it, too.
std::string toml_quoted(std::string_view text);
/// A value in one line; a string of several lines takes as many, between three quotes.
std::string toml_text(const TomlValue& value);
/// "key = value" in a line; the key in quotes where it needs them.
std::string toml_line(const TomlEntry& entry);
/// A string that belongs to no file, and an entry with it.
TomlValue toml_string(std::string_view text);

}  // namespace shardlab
