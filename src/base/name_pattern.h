// name_pattern.h - names of repeated layers as one.
#pragma once

#include <string>
#include <string_view>

namespace shardlab {

/// The name with "*" for each part between dots that is a number: "layers.3.wq" -> "layers.*.wq".
std::string name_pattern(std::string_view name);

}  // namespace shardlab
