// Calls in words.
#include <fmt/core.h>
#include <fmt/format.h>

#include "sim/verify/step_verdict.h"

namespace shardlab {

std::string to_string(const StepPlace& place) {
  std::string text = place.op;
  if (!place.operands.empty()) text += " of " + place.operands;
  if (place.position.file == nullptr) {
    return place.pass == Pass::kBackward ? text + ", in backward" : text;
  }
  text += fmt::format(", {}{}:{}", place.pass == Pass::kBackward ? "backward of " : "",
                      place.position.file, place.position.line);
  return text;
}

std::string WrongStep::text() const {
  std::string text = what;
  if (wrong_elements > 1) text += fmt::format("; {} elements are wrong", wrong_elements);
  if (!held_by.empty()) text += "; held by " + held_by;
  return text;
}

}  // namespace shardlab
