// shrink.h - the smallest scenario that fails as a given one does: parts are taken out or made
// smaller one after the other, and what still fails in the same way is kept (delta debugging).
#pragma once

#include <string>

#include "sim/edit/trials.h"

namespace shardlab {

struct Shrunk {
  std::string text;  ///< a scenario that expects its failure
  Symptom failure;   ///< of that scenario, with its own lines
  /// The comment behind the line that fails, in the given scenario: in one that was written from a
  /// program in C++ the place there. Empty: none.
  std::string comment;
  std::int64_t runs = 0;
  double seconds = 0;
  bool out_of_time = false;  ///< there was more to try
  std::int64_t lines_before = 0, lines_after = 0;
};

/// The same result for the same scenario wherever there is time enough.
///   fails  Value: the scenario does not fail
Shrunk shrink(const Scenario& scenario, const ShrinkOptions& options);

}  // namespace shardlab
