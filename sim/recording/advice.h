// advice.h - advice to a user where a recording cannot be read.
#pragma once

#include <string>
#include <string_view>

namespace shardlab {

/// Advice where a recording is damaged, or contradicts itself.
inline std::string record_again() { return "record the step again: shardlab record train.py"; }
/// Advice, before its path, where a Python file is given in place of a recording.
inline constexpr std::string_view kRecordFirst = "record a PyTorch program first: shardlab record ";

}  // namespace shardlab
