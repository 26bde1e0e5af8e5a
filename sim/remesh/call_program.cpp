// Values are found by number.
#include "sim/remesh/call_program.h"

#include <algorithm>

namespace shardlab {

const CallInput* CallProgram::input(std::int32_t value) const {
  const auto found = std::ranges::find(inputs, value, &CallInput::value);
  return found == inputs.end() ? nullptr : &*found;
}

Dims CallProgram::shape_of(std::int32_t value) const {
  const auto found = metas.find(value);
  return found == metas.end() ? Dims{} : found->second.shape;
}

}  // namespace shardlab
