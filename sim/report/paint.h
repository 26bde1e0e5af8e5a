// paint.h - colour for terminals; nothing when colour is off.
#pragma once

#include <string>
#include <string_view>

#include "sim/report/show.h"

namespace shardlab {

/// The meaning of a text, rather than its colour: titles, unimportant text, good and bad outcomes,
/// warnings, data that moves.
enum class Ink : std::uint8_t { kTitle, kDim, kGood, kBad, kWarn, kMove };

/// `text` in the ink's ANSI sequence, or as it is.
std::string paint(std::string_view text, Ink ink, Color color);

}  // namespace shardlab
