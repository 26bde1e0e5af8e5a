// advice.h - advice to a user where a recording cannot be read, and layouts that it may have.
#pragma once

#include <string>
#include <string_view>

namespace shardlab {

/// Advice where a recording is damaged, or contradicts itself.
inline std::string record_again() { return "record the step again: shardlab record train.py"; }
/// Advice, before its path, where a Python file is given in place of a recording.
inline constexpr std::string_view kRecordFirst = "record a PyTorch program first: shardlab record ";

/// A layout that a parameter, or what a module returns, may have, alike in all repeated layers.
struct OtherPlacing {
  std::string text;   ///< of --place: "layers.*.wo:out=[_, _@tp, _]"
  std::string where;  ///< the first call that it is about, "train.py:12"
};

}  // namespace shardlab
