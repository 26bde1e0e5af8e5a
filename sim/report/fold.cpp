// A line is taken word by word, with the blanks before each. A figure and its unit are one word.
#include "sim/report/fold.h"

#include <algorithm>

#include "sim/language/syntax/characters.h"

namespace shardlab {

namespace {

constexpr std::size_t kHang = 4;

// Characters that a terminal shows: without colours, "\x1b[32m".
std::size_t width_of(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      i = std::min(text.find('m', i), text.size() - 1);
    } else if (starts_character(text[i])) {
      ++width;
    }
  }
  return width;
}

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }
bool is_letter(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
}

// Behind the word that begins at `word`, and behind the unit that follows a figure: "45.6 us".
std::size_t end_of_word(std::string_view line, std::size_t word) {
  const std::size_t end = std::min(line.find(' ', word), line.size());
  const bool has_unit =
      end + 1 < line.size() && end > word && is_digit(line[end - 1]) && is_letter(line[end + 1]);
  return has_unit ? std::min(line.find(' ', end + 1), line.size()) : end;
}

void append_line(std::string& out, std::string_view line, std::size_t width) {
  const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
  if (width_of(line) <= width || indent + 2 * kHang >= width) {
    out += line;
    return;
  }
  std::size_t at = 0, used = 0;
  while (at < line.size()) {
    const std::size_t word = std::min(line.find_first_not_of(' ', at), line.size());
    const std::size_t end = end_of_word(line, word);
    const std::size_t own = width_of(line.substr(word, end - word));
    if (used > 0 && used + (word - at) + own > width) {
      out += '\n';
      out.append(indent + kHang, ' ');
      used = indent + kHang;
    } else {
      out.append(word - at, ' ');
      used += word - at;
    }
    out += line.substr(word, end - word);
    used += own;
    at = end;
  }
}

}  // namespace

std::string fold_lines(std::string_view text, std::size_t width) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    append_line(out, text.substr(0, end), width);
    if (end < text.size()) out += '\n';
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return out;
}

}  // namespace shardlab
