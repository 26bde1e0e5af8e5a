// needs_values.h - the part of an error by which a device or a backend of shapes alone names what
// it lacks. Constants.
#pragma once

#include <string_view>

namespace shardlab {

inline constexpr std::string_view kNeeds = "needs";
inline constexpr const char* kNeedsValues = "values, which shapes alone do not have";

}  // namespace shardlab
