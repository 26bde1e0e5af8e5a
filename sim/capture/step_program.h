// step_program.h - the calls of a recorded training step, up to its last backward, as statements:
// the program of a re-mesh. Calls with unused results are left out.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/capture/step_recording.h"

namespace shardlab {

/// An input of the program.
struct StepInput {
  std::size_t value = 0;  ///< its number
  std::string name;       ///< in the program: "layers_0_wq_weight"
  std::string recorded;   ///< in the recording: "layers.0.wq.weight"; "v12" if it has no name
  std::string tensor;     ///< the same, but "v12" if an earlier one has the name
  TensorMeta meta;
  bool parameter = false;  ///< it requires a gradient
  bool graded = false;     ///< the program gives it one
  bool batch = false;      ///< its dim 0 is the batch's
};

enum class StatementKind : std::uint8_t {
  kCall,
  kDropout,    ///< the recorded mask, in place of one that is drawn
  kAttention,  ///< with dropout: by products, since the recorded mask is of the scores
  kChosen,     ///< elements of takes[0] at the recorded indices: PyTorch chose among equal ones
  kDrawn,      ///< takes[1], the recorded numbers, is copied into takes[0]
  kFactory,    ///< a tensor made of numbers alone
  kBackward,   ///< gradients of outs[0]; args[0] is the incoming gradient, if it is not 1
  kGradient,   ///< the gradient of the parameter takes[0], with the parameter's placements
  kEnd,        ///< the parameter takes[0] after the step
};

/// One line of the program.
struct StepStatement {
  StatementKind kind = StatementKind::kCall;
  const Json* event = nullptr;     ///< of the recording, which outlives the program
  std::string op;                  ///< "aten.linear.default"
  std::string renewed;             ///< in place of an op that writes: "aten.add.Tensor"; or empty
  std::vector<std::size_t> takes;  ///< numbers of its operands, in order
  std::vector<std::size_t> outs;   ///< numbers of its results
  std::size_t mask = 0;            ///< kDropout, kAttention, kChosen (indices): its value's number
  double scale = 1;                ///< the same: the factor of kept elements
  bool no_grad = false;
  std::map<std::size_t, DType> casts;  ///< operands that autocast has cast for it
  std::vector<std::size_t> resets;     ///< kBackward: parameters whose gradients begin anew

  /// Its only result is its first operand, as that of a call that writes in place.
  bool returns_first() const { return outs.size() == 1 && !takes.empty() && outs[0] == takes[0]; }
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

  std::map<std::size_t, TensorMeta> metas;  ///< of inputs and results, by number

  const StepInput* input(std::size_t value) const;
  /// The shape of an input or a result; empty for other numbers.
  Dims shape_of(std::size_t value) const;
};

/// `recording` outlives the program. An optimizer that cannot be included is left out, and a note
/// says why.
///   fails  Unsupported: a step that is no program of calls (an autograd.Function, autocast, draws
///          inside of a call), with its place. Value: no calls, no backward
StepProgram program_of(const StepRecording& recording);

/// "aten.linear.default" is "linear".
std::string bare_op(const std::string& op);

}  // namespace shardlab
