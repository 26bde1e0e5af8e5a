// replay_report.h - the outcome of a replay: counts, and each result that differs.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sim/recording/recorded_program.h"

namespace shardlab {

/// One result that is not the recorded one, or an op that failed here alone.
struct ReplayDifference {
  std::size_t line = 0;  ///< of the file, from 1
  std::string place;     ///< "layers.0.attention.wo  models.py:22"
  std::string op;
  std::string field;  ///< "out[0]", "mut[1]", "error"
  std::string expected, got;
  std::string known = {};  ///< "X-70: ..." where PyTorch itself is wrong
};
/// One at an event.
inline ReplayDifference difference_at(const RecordedProgram& program, const RecordedEvent& event,
                                      std::string field, std::string expected, std::string got) {
  return {event.line,       place_of(program, event), op_text(event),
          std::move(field), std::move(expected),      std::move(got)};
}

/// The outcome of a replay. Results are counted, not ops: an op may write to many tensors.
struct ReplayReport {
  std::int64_t ops = 0;        ///< ops that ran
  std::int64_t agree = 0;      ///< results within the rounding of their dtype
  std::int64_t undecided = 0;  ///< results that are rounding alone: sums of terms that cancel
  std::int64_t unknown = 0;    ///< results that are random, or have no fingerprint in the file
  std::int64_t skipped = 0;    ///< ops with operands from ops that did not run
  std::int64_t better = 0;     ///< calls of DTensors that PyTorch refuses and that run here
  std::int64_t unjudged = 0;   ///< ops that do not exist here: their results are the file's
  std::int64_t typed = 0;      ///< claims and moves of spmd_types that were judged
  std::vector<std::string> missing;  ///< their names, each once
  std::vector<ReplayDifference> differences;
  /// Calls that moved operands, or placed a result, by a rule that is not ours: releases have
  /// different ones. Their values are compared nevertheless.
  std::vector<ReplayDifference> rules;

  /// Results that PyTorch itself computes wrongly: a known row, and ours is that of f64.
  std::vector<ReplayDifference> reference;

  bool rules_are_ours = true;  ///< recorded by the release whose rules we follow
  bool failed = false;         ///< the program itself failed, so that the file is a part of it

  bool ok() const { return !failed && differences.empty() && (rules.empty() || !rules_are_ours); }
};

}  // namespace shardlab
