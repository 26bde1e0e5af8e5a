// step_replay.h - a training step recorded in PyTorch, run here op by op: every result compared
// with the recorded one (sim/record_torch/README.md).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/capture/step_recording.h"
#include "sim/world/devices.h"

namespace shardlab {

class ProgramPlayer;

/// One result that is not the recorded one, or an op that failed here alone.
struct StepDifference {
  std::size_t event = 0;  ///< line of the file, from 1
  std::string place;      ///< "layers.0.attention.wo  models.py:22"
  std::string op;
  std::string field;  ///< "out[0]", "mut[1]", "error"
  std::string expected, got;
  std::string known = {};  ///< "X-70: ..." where PyTorch itself is wrong
};
/// Three lines: verdict, place and field, the recorded value, ours.
std::string text(const StepDifference& difference, std::string_view verdict);

/// The outcome of a replay. Results are counted, not ops: an op may write to many tensors.
struct StepReplay {
  std::int64_t ops = 0;        ///< ops that ran
  std::int64_t agree = 0;      ///< results within the rounding of their dtype
  std::int64_t undecided = 0;  ///< results that are rounding alone: sums of terms that cancel
  std::int64_t unknown = 0;    ///< results that are random, or have no fingerprint in the file
  std::int64_t skipped = 0;    ///< ops with operands from ops that did not run
  std::int64_t better = 0;     ///< calls of DTensors that PyTorch refuses and that run here
  std::vector<std::string> missing;  ///< ops that do not exist here, each once
  std::vector<StepDifference> differences;
  /// Calls that moved operands, or placed a result, by a rule that is not ours: releases have
  /// different ones. Their values are compared nevertheless.
  std::vector<StepDifference> rules;

  /// Results that PyTorch itself computes wrongly: a known row, and ours is that of f64.
  std::vector<StepDifference> reference;

  bool rules_are_ours = true;  ///< recorded by the release whose rules we follow

  bool ok() const {
    return differences.empty() && missing.empty() && (rules.empty() || !rules_are_ours);
  }
};

/// Called after each event with its index and the values, which it may change.
using AfterEvent = std::function<void(std::size_t, ProgramPlayer&)>;

/// Runs all ops, backward and optimizer too, on as many simulated ranks as were recorded.
/// `most_bytes`: of the memory of all ranks.
///   fails  Value: elements that the file should have and does not. Runtime, is_out_of_memory():
///          the event is named
StepReplay replay_step(const StepRecording& recording, const AfterEvent& after = {},
                       std::int64_t most_bytes = machine_bytes());

/// For people: differences, then one line.
std::string replay_text(const StepRecording& recording, const StepReplay& replay);
Json replay_json(const StepRecording& recording, const StepReplay& replay);

}  // namespace shardlab
