// ANSI colours, one per meaning.
#include "sim/report/paint.h"

#include <fmt/format.h>

namespace shardlab {

std::string paint(std::string_view text, Ink ink, Color color) {
  if (color == Color::kOff || text.empty()) return std::string(text);
  int code = 0;
  switch (ink) {
    case Ink::kTitle:
      code = 1;
      break;
    case Ink::kDim:
      code = 2;
      break;
    case Ink::kGood:
      code = 32;
      break;
    case Ink::kBad:
      code = 31;
      break;
    case Ink::kWarn:
      code = 33;
      break;
    case Ink::kMove:
      code = 36;
      break;
  }
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

}  // namespace shardlab
