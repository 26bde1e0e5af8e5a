// known_row.h - one row of known_differences.toml, as read.
#pragma once

#include "sim/files/json_value.h"
#include "tests/facts/known_differences.h"

namespace shardlab {

/// The row's fields as in the file (known_differences.h).
struct KnownDifferences::Row {
  std::string cause;
  std::string family;
  Json when;  ///< object: path -> value or table of predicates
  Json ours;  ///< object: field pattern -> answer
  std::int64_t count = 0;
  std::vector<std::string> files;  ///< stems; the count is exact once all of them were read
  std::string proof;
  std::int64_t line = 0;  ///< in the file, for messages
};

/// The value at a dotted path, or null. A number is a place in a list. Keys may hold dots
/// themselves: the longest key wins.
const Json* find_field(const Json& object, std::string_view path);
bool has_item(const Json& list, const Json& wanted);
/// Fails with Value for an unknown predicate.
void check_predicates(const Json& when);
/// True when every predicate of `when` holds on the case.
bool holds(const Json& when, const Json& fact);

}  // namespace shardlab
