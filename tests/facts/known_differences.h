// known_differences.h - answers that deliberately differ from a recorded one: the rows of
// tests/golden/known_differences.toml.
//
//   [[difference]]
//   cause = "X-43"                      # X id of behaviour.md, or a README heading
//   family = "layout/device_mesh"       # CheckFamily::name
//   files = ["device_mesh"]             # whose lines count; default: the last part of family
//   when = { mesh = { ascending = false } }   # every predicate holds on the case's fields
//   ours = { "local_rank" = "$coordinate" }   # field -> the answer we give, compared
//   count = 8                           # lines of these files below tests/golden, exact
//   proof = "X-43 the array's order rules: groups keep it"   # name of the test that proves it
//
// Predicates: a plain value (equality), or a table of { present, one_of, contains, without,
// starts_with, same_as, at_least, at_most, more_than, ascending, unique }; same_as and more_than
// may name another field of the case, "$args.1". Fields are dotted paths; in `ours` a "*" matches
// one component. `ours` may refer to the case: "$field" from its root, "^field" next to the field
// itself. An answer `{ where = { path = value } }` says parts of a field's answer instead of the
// whole; paths start at the field; `{ present = false }` is the only predicate there. Of a decision
// that had candidates `{ cheapest_without = ["P(max)"] }` is the field of the cheapest one that has
// no such placement, and `{ candidates_without = ["P(max)"] }` the number of those that have none.
// "2:P(max)" is one of operand 2 alone; of a list, the candidates of elements that are given so are
// meant. `contains` looks into nested lists and tables, and for any of several texts; `without`
// says that there is none of them. An answer is never one of several: if it depends on the case,
// there are several rows.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/files/json.h"

namespace shardlab {

/// All rows of one file. Immutable once read.
class KnownDifferences {
 public:
  /// Fails with Value, naming file and line, for malformed rows.
  static KnownDifferences read(const std::string& path);
  /// The file for this program: tests/golden/known_differences.toml, searched in the folders above
  /// `fact_file`, above the current folder and above the program. Empty when there is none.
  static std::optional<std::string> find_file(const std::string& fact_file);

  /// The rows of that file; none if there is no file.
  ///   fails  as read()
  static KnownDifferences nearest(const std::string& fact_file);

  KnownDifferences();
  KnownDifferences(KnownDifferences&&) noexcept;
  KnownDifferences& operator=(KnownDifferences&&) noexcept;
  ~KnownDifferences();

  struct Row;
  std::size_t size() const;
  const Row& row(std::size_t index) const;
  /// Index of the row that explains this difference of a case, or empty.
  std::optional<std::size_t> explain(std::string_view family, const Json& fact,
                                     std::string_view field, const Json& got) const;
  /// True when `fact_file` is one of the project's own facts (below the folder of the rows' file):
  /// only for those the counts are exact.
  bool counts_apply(const std::string& fact_file) const;

 private:
  std::string folder_;
  std::vector<Row> rows_;
};

}  // namespace shardlab
