// planted.h - the header of that name in src/base, for the program that plants faults.
#pragma once

#include <string_view>

namespace shardlab {

/// True for the fault that SHARDLAB_FAULT names.
bool planted(std::string_view fault);

}  // namespace shardlab
