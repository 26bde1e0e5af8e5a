// blame.h - the first thing in a run that rounding does not explain: where it is made, what follows
// from it, and the edits that undo it, each proven by a run.
#pragma once

#include <string>
#include <vector>

#include "sim/edit/program_lines.h"
#include "sim/edit/symptom.h"

namespace shardlab {

struct ProvenEdit {
  std::string what;         ///< "a reduction over tp"
  std::string_view undoes;  ///< the id of a cause
  std::vector<ChangedLines> changes;
};

/// A value that is wrong, too.
struct LaterValue {
  std::string name;
  std::int64_t line = 0;
  bool follows = false;  ///< from the first, by the text of the program
};

struct BlameOptions {
  ScenarioOptions run;
  double most_time = 3;      ///< for edits that are tried, in runs of the whole scenario
  double least_seconds = 5;  ///< time there is in any case
  int most_mistakes = 3;     ///< one behind the other
};

struct Blame {
  Symptom failure;  ///< kNone: nothing is wrong
  std::string file, line_text;
  std::string producer;  ///< "all_reduce", or empty
  std::string what;      ///< what is wrong: the value, the call
  std::string held_by;   ///< the ranks that hold what is wrong, or empty
  std::vector<LaterValue> later;
  /// With each of them nothing differs; or with the one that there is less than before, and `next`
  /// is the first thing that is still wrong.
  std::vector<ProvenEdit> edits;
  std::vector<Blame> next;
  std::int64_t tried = 0;  ///< edits
  std::int64_t line() const { return failure.lines.empty() ? 0 : failure.lines.front(); }
};

Blame blame(const Scenario& scenario, const BlameOptions& options);

}  // namespace shardlab
