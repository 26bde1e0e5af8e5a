// symptom.h - how a run fails, in what stays the same when its program gets smaller: not the text
// of a message, which has sizes, names and lines in it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/judge/scenario_run.h"

namespace shardlab {

struct Symptom {
  enum class Kind : std::uint8_t { kNone, kError, kVerdict, kValue, kCall, kExpectation };
  Kind kind = Kind::kNone;
  std::string name;                 ///< "Value" of an error, "deadlock"; what was expected
  std::string cause;                ///< an id, or empty
  std::string detail;               ///< texts without numbers: what was refused, who waits in what
  std::vector<std::int64_t> lines;  ///< of the file: any of them is the one to look at first
  std::string text;                 ///< for people

  /// The same but for lines and text.
  bool is_like(const Symptom& other) const;
};

/// The first failure: of the run, of a value, of a call, of what the file expects. A mistake that
/// the file expects is one, too.
Symptom symptom_of(const ScenarioResult& result);

/// "[cause.factor]", "a deadlock", "an error (Value)": for people.
std::string to_string(const Symptom& failure);

}  // namespace shardlab
