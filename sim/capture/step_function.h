// step_function.h - an autograd.Function of a recorded step as one statement of its program. The
// calls of its forward are the program's; the ops that its backward made are its gradient rule.
#pragma once

#include <functional>
#include <vector>

#include "sim/capture/step_recording.h"
#include "sim/capture/step_statement.h"

namespace shardlab {

/// An application of a function, in parts.
struct FunctionParts {
  const Json* event = nullptr;  ///< the application
  const Json* rule = nullptr;   ///< its backward
  std::vector<StepStatement> forward, backward;
  std::function<bool(std::size_t v)> is_known;  ///< a value that the program has before it
  std::size_t* fresh = nullptr;                 ///< the next number that no value has
};

/// Its operands are those of the application, then the other values that its calls take: they have
/// no gradient.
///   fails  Unsupported: calls that write to operands, a backward that takes a value of another one
StepStatement function_statement(const StepRecording& recording, FunctionParts parts);

}  // namespace shardlab
