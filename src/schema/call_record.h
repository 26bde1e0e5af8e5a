// call_record.h - an op call in the form that observers receive.
#pragma once

#include "schema/calls.h"

namespace shardlab {

struct OpRow;

/// Handles are those of the program: an observer that wants a value later takes a snapshot of it.
struct CallRecord {
  const OpRow* row = nullptr;
  const Arguments* args = nullptr;   ///< schema order
  const Results* results = nullptr;  ///< null when the call begins
  RandomState random;                ///< the source of a random op's draws
};

}  // namespace shardlab
