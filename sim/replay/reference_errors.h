// reference_errors.h - ops that PyTorch itself computes wrongly, by their X rows of
// tests/behaviour.md: what a replay looks up before it calls a difference ours.
#pragma once

#include <string_view>
#include <vector>

#include "mesh/dtensor.h"
#include "sim/recording/recorded_program.h"

namespace shardlab {

struct ReferenceError {
  std::string_view op;    ///< without namespace and overload
  std::string_view id;    ///< "X-70"
  std::string_view what;  ///< is wrong there
  double most;            ///< of the result's size: what it is off by
  /// Whether a call is of the wrong form; `operands` as it takes them, of one rank.
  bool (*has_form)(const RecordedEvent& event, const std::vector<DTensor>& operands);
};

/// The row of a recorded call; null: PyTorch is right there, for all that is known.
const ReferenceError* reference_error(const RecordedEvent& event,
                                      const std::vector<DTensor>& operands);

}  // namespace shardlab
