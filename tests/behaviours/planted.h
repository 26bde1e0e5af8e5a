// planted.h - whether a fault of faults.toml is planted; patched copies of the library ask it.
#pragma once

#include <string_view>

namespace shardlab {

/// Whether the environment variable SHARDLAB_FAULT holds this name.
bool planted(std::string_view fault);

}  // namespace shardlab
