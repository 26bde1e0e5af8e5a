// call_program.h - the statements of a re-mesh, with the inputs and names of their values.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "sim/remesh/statement.h"

namespace shardlab {

/// An input of the program.
struct CallInput {
  std::int32_t value = -1;  ///< its number
  std::string name;         ///< in the program: "layers_0_wq_weight"
  std::string recorded;     ///< in the recording: "layers.0.wq.weight"; "v12" if it has no name
  std::string tensor;       ///< the same, but "v12" if an earlier one has the name
  TensorMeta meta;
  const ValueType* type = nullptr;      ///< as recorded
  bool parameter = false;               ///< it requires a gradient
  bool graded = false;                  ///< the program gives it one
  bool batch = false;                   ///< its dim 0 is the batch's
  bool buffer = false;                  ///< it has a name, and is neither parameter nor batch
  const RecordedEvent* user = nullptr;  ///< of data without a name: the call that takes it first
};

struct CallProgram {
  const RecordedProgram* recording = nullptr;
  std::vector<CallInput> inputs;  ///< in the order of their first use
  std::vector<Statement> statements;
  /// Below autograd and without gradients: clipping, and the optimizer's ops.
  std::vector<Statement> updates;
  std::map<std::int32_t, std::string> names;  ///< of all values, by number
  std::vector<std::string> notes;             ///< facts that are baked in, or not part of it
  /// Lengths of pieces that were cut by numbers of the data: they differ for other data.
  std::vector<std::string> sizes_of_data;
  std::map<std::int32_t, TensorMeta> metas;  ///< of inputs and results, by number
  std::set<std::int32_t> pieces;  ///< values that the recording has only pieces of, by number
  std::int32_t values = 0;        ///< numbers are below this

  const CallInput* input(std::int32_t value) const;
  /// The shape of an input or a result; empty for other numbers.
  Dims shape_of(std::int32_t value) const;
};

}  // namespace shardlab
