// step_blame.h - two recordings that should agree, one of them of a program that was not changed:
// the first value of the other that rounding does not explain, and the edit that undoes it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/recorded/step_explain.h"

namespace shardlab {

/// A change of values, each after an event, by which a replay continues.
struct StepEdit {
  std::vector<std::pair<std::size_t, std::size_t>> places;  ///< event and value, as in StepPoint
  double factor = 1;
  std::optional<RankGroups> reduced;  ///< over these groups, before the factor
  /// Elements along the last dims that count so often too often.
  std::optional<std::pair<std::vector<double>, double>> added = {};
  std::string text;  ///< "dist.all_reduce(y)    # of ..."
};

/// A value of B that is not A's.
struct BlamedValue {
  StepPoint point;   ///< its parts are left out
  std::string what;  ///< "2 times A's value"
  Explained cause;
  std::vector<std::string> through;  ///< moves and collectives between A's values and it
  bool follows = false;              ///< computed from one that is wrong
};

struct StepBlame {
  bool same_names = false;  ///< both have a module or a parameter of one name
  std::int64_t compared = 0, undecided = 0;
  std::vector<BlamedValue> wrong;  ///< in the order of B
  std::vector<StepEdit> edits;     ///< with each of them nothing differs
  std::int64_t tried = 0;
  bool found() const { return !wrong.empty(); }
};

/// B against A: the recording of a program on any ranks against one that is right.
StepBlame blame_steps(const StepRecording& a, const StepRecording& b);
/// Values that a job has written (dump_values), in their order, against A.
StepBlame blame_values(const StepRecording& a, const std::vector<StepPoint>& values);

/// For people; `a` and `b` are names of files.
std::string step_blame_text(const StepBlame& blame, const std::string& a, const std::string& b);
Json step_blame_json(const StepBlame& blame);

}  // namespace shardlab
