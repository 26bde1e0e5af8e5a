// step_program.h - the calls of a recorded training step, up to its last backward, as statements:
// the program of a re-mesh. Calls with unused results are left out.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/capture/step_recording.h"
#include "sim/capture/step_statement.h"

namespace shardlab {

/// An input of the program.
struct StepInput {
  std::size_t value = 0;  ///< its number
  std::string name;       ///< in the program: "layers_0_wq_weight"
  std::string recorded;   ///< in the recording: "layers.0.wq.weight"; "v12" if it has no name
  std::string tensor;     ///< the same, but "v12" if an earlier one has the name
  TensorMeta meta;
  bool parameter = false;      ///< it requires a gradient
  bool graded = false;         ///< the program gives it one
  bool batch = false;          ///< its dim 0 is the batch's
  const Json* user = nullptr;  ///< of data without a name: the call that takes it first
};

struct StepProgram {
  const StepRecording* recording = nullptr;
  std::vector<StepInput> inputs;  ///< in the order of their first use
  std::vector<StepStatement> statements;
  /// Below autograd and without gradients: clipping, and the optimizer's ops.
  std::vector<StepStatement> updates;
  std::map<std::size_t, std::string> names;  ///< of all values, by number
  std::vector<std::string> notes;            ///< facts that are baked in, or not part of it
  /// Lengths of pieces that were cut by numbers of the data: they differ for other data.
  std::vector<std::string> sizes_of_data;

  std::shared_ptr<std::deque<Json>> renumbered;  ///< events that are not the recording's own
  std::map<std::size_t, TensorMeta> metas;       ///< of inputs and results, by number

  const StepInput* input(std::size_t value) const;
  /// The shape of an input or a result; empty for other numbers.
  Dims shape_of(std::size_t value) const;
};

/// `recording` outlives the program. An optimizer that cannot be included is left out, and a note
/// says why.
///   fails  Unsupported: a step that is no program of calls (an autograd.Function that writes to
///          its operand, a view that no call made), with its place. Value: no calls, no backward
StepProgram program_of(const StepRecording& recording);

}  // namespace shardlab
