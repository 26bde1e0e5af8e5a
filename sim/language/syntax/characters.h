// characters.h - a text of UTF-8 as its characters (code points), which a program indexes, counts
// and walks over.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardlab {

/// True for the first byte of a character.
inline bool starts_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0u) != 0x80u;
}

/// In order, each a part of `text`, which outlives them.
inline std::vector<std::string_view> characters_of(std::string_view text) {
  std::vector<std::string_view> characters;
  while (!text.empty()) {
    std::size_t size = 1;
    while (size < text.size() && !starts_character(text[size])) ++size;
    characters.push_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return characters;
}

/// Appends the character of this code point.
void append_utf8(std::string& out, std::uint32_t code);

}  // namespace shardlab
