// Languages differ in how they write a character by its number, and in nothing else.
#include "base/escaped_text.h"

#include <fmt/format.h>

#include <algorithm>

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

namespace {

// The bytes of the character at the front; 0: it is none, or controls a terminal.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return is_control(text[0]) ? 0 : 1;
  const std::size_t bytes = byte(0) >= 0xF0 ? 4 : byte(0) >= 0xE0 ? 3 : 2;
  if (byte(0) < 0xC2 || byte(0) > 0xF4 || text.size() < bytes) return 0;
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const bool control = byte(0) == 0xC2 && byte(1) < 0xA0;
  return control ? 0 : bytes;
}

}  // namespace

std::string printed_text(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t bytes = character_bytes(text);
    out += bytes > 0 ? std::string(text.substr(0, bytes))
                     : fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return out;
}

}  // namespace shardlab
