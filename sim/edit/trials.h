// trials.h - changed scenarios, each run to see whether it still fails in the same way.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>

#include "sim/edit/sketch.h"
#include "sim/edit/stopwatch.h"
#include "sim/edit/symptom.h"

namespace shardlab {

struct ShrinkOptions {
  ScenarioOptions run;
  /// In runs of the whole scenario; beyond this time no other candidate is tried.
  double most_time = 10;
  double least_seconds = 5;  ///< time there is in any case
  /// Told after each candidate that is kept: how many runs were made, how many lines are left.
  std::function<void(std::int64_t, std::size_t)> progress;
};

class Trials {
 public:
  /// Runs the scenario as it is written out. All arguments outlive it.
  ///   fails  Value: it does not fail, or its cause is not known
  Trials(const Scenario& scenario, const ShrinkOptions& options);

  /// The smallest one so far that fails as the first.
  const Sketch& best() const { return best_; }
  /// The entries that a table of it has now; none where it has no such table.
  TomlTable entries(std::string_view table) const;
  /// Runs the candidate, which becomes the best one where it fails alike. False of one that was
  /// tried before, and of all others when there is no more time.
  bool keeps(const Sketch& candidate);
  bool keeps(ProgramLines program);

  const Symptom& failure() const { return failure_; }
  /// Lines that it fails at, as ProgramLine::from counts them.
  const std::set<int>& failing() const { return failing_; }
  /// The scenario says what its program means, in [reference] or by an assertion: an operand in the
  /// place of a call means something else.
  bool meaning_is_given() const;
  std::int64_t runs() const { return runs_; }
  /// Candidates that became the best one.
  std::int64_t kept() const { return kept_; }
  double seconds() const { return watch_.seconds(); }
  bool out_of_time() const { return out_of_time_; }
  /// One run; nothing is remembered of it.
  ScenarioResult run(const Sketch& sketch) const;

 private:
  Symptom failure_of_run(const WrittenSketch& text) const;
  bool at_same_lines(const WrittenSketch& text, const Sketch& sketch, const Symptom& found) const;

  const Scenario& scenario_;
  const ShrinkOptions& options_;
  Sketch best_;
  Symptom failure_;        ///< of the first
  std::set<int> failing_;  ///< its lines, as ProgramLine::from counts them
  std::set<std::string> tried_;
  std::int64_t runs_ = 0, kept_ = 0;
  bool out_of_time_ = false;
  Stopwatch watch_;
  double most_seconds_ = 0;
};

/// Runs what was written of a changed scenario, whose loops may have lost their ends; `from` is the
/// one that it was.
///   fails  ScenarioError: it cannot run as it is written now
ScenarioResult run_changed(const std::string& text, const Scenario& from, ScenarioOptions options);

/// Whether, in a world of one, which ranks do not part, each value of the changed scenario is what
/// the program as it was gives. Nothing where one of them fails there; true where [reference] says
/// what is meant.
std::optional<bool> computes_the_same(const Scenario& changed, const Scenario& before,
                                      const ScenarioOptions& options);

/// The lines of the first program that a line of the written one has parts of; empty: it is outside
/// of the program.
std::vector<int> lines_behind(const ProgramLines& program, std::int64_t first_line,
                              std::int64_t line);

}  // namespace shardlab
