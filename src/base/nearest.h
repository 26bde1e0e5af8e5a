// nearest.h - the known name that an unknown one was probably meant to be.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace shardlab {

/// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other.
int edit_distance(std::string_view a, std::string_view b);

/// The known name at the smallest edit distance, if it is close: at most a third of the longer
/// word, and at least one edit is always allowed. Of equally close names it is the first.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> known);

/// A line for the "fix" part: "did you mean 'hidden'?", or the known names when none is close
/// ("known: a, b, c"; the first twelve), or nothing when there are none.
std::string suggest(std::string_view word, std::span<const std::string> known);

}  // namespace shardlab
