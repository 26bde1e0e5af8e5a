// planted.h - places where tests of the tests plant a fault (tests/behaviours/faults.toml). Here
// the answer is a constant, so that nothing of it is left in the code; the program that plants
// faults is built with another header of this name (tests/behaviours/planted).
#pragma once

#include <string_view>

namespace shardlab {

constexpr bool planted(std::string_view) { return false; }

}  // namespace shardlab
