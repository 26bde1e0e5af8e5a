// recorded_form.h - the check that the lines of a recording have the documented form
// (tests/golden/facts/programs/README.md): fields, their kinds, and numbers that later code depends
// on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/files/json.h"

namespace shardlab {

/// The form of one recording: the contents of its first line, against which the others are checked.
/// Immutable.
class RecordedForm {
 public:
  /// Checks the first line.
  ///   fails  Value: a field that is missing, of another kind, or beyond what a mesh or a file has;
  ///          the field is named. Unsupported: more ranks than fit in one process
  explicit RecordedForm(const Json& program);

  /// Checks any other line, before it is read. The meaning of a call's arguments is left to its op.
  ///   fails  Value: as above, and numbers of values and mesh dims that the recording does not have
  void check(const Json& event) const;

  std::int64_t ranks() const { return ranks_; }

 private:
  void check_value(const Json& value, const std::string& at) const;
  void check_call(const Json& event) const;
  void check_operands(const Json& argument, const std::string& at, int depth) const;
  void check_number(const Json& number, const std::string& at) const;
  void check_placements(const Json& list, const std::string& at, std::size_t dims) const;
  void check_moves(const Json& event) const;
  std::size_t dims_of_mesh(const Json& value, const std::string& at) const;

  std::vector<std::string> names_;
  std::int64_t ranks_ = 1;
  std::size_t values_ = 0;
};

}  // namespace shardlab
