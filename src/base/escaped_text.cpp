// Languages differ in how they write a character by its number, and in nothing else.
#include "base/escaped_text.h"

#include <fmt/format.h>

namespace shardlab {

bool is_control(char letter, std::string_view kept) {
  constexpr char kDelete = 0x7F;
  const bool low = static_cast<unsigned char>(letter) < ' ';
  return (low && kept.find(letter) == std::string_view::npos) || letter == kDelete;
}

std::string escaped_text(std::string_view text, std::string_view number, std::string_view kept) {
  std::string out;
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') {
      out += {'\\', letter};
    } else if (is_control(letter, kept)) {
      out += fmt::format(fmt::runtime(number), static_cast<unsigned>(letter));
    } else {
      out += letter;
    }
  }
  return out;
}

}  // namespace shardlab
