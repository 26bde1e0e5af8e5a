// shard_pattern.h - placements for tensors by name: {"layers.*.w1", "[_, _@tp]"}. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/inline_vector.h"

namespace shardlab {

/// Whether the whole name fits; "*" in the pattern is any run of characters.
bool name_fits(std::string_view pattern, std::string_view name);

/// A type whose sizes are those of the shape where it has "_": "[8, 4@tp]". Mesh dims may have the
/// letter in their names. `tensor`: for messages.
///   fails  Value: more dims than the shape
std::string with_sizes(std::string_view type, const Dims& shape, std::string_view tensor);

}  // namespace shardlab
