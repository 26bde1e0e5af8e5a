// ANSI colours, one per meaning.
#include "sim/report/paint.h"

#include <fmt/format.h>

namespace shardlab {

std::string paint(std::string_view text, Ink ink, Color color) {
  if (color == Color::kOff || text.empty()) return std::string(text);
  static constexpr int kCodes[] = {1, 2, 32, 31, 33, 36};  // by Ink
  return fmt::format("\x1b[{}m{}\x1b[0m", kCodes[static_cast<std::size_t>(ink)], text);
}

}  // namespace shardlab
