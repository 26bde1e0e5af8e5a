#include "tests/fuzz/mutate.h"

#include <algorithm>
#include <array>

namespace shardlab::fuzz {

namespace {

constexpr std::array<std::string_view, 20> kNumbers = {"0",
                                                       "1",
                                                       "-1",
                                                       "2",
                                                       "3",
                                                       "7",
                                                       "255",
                                                       "65536",
                                                       "1000000",
                                                       "1000000000",
                                                       "1e9",
                                                       "1e308",
                                                       "0.5",
                                                       "2147483647",
                                                       "4294967296",
                                                       "nan",
                                                       "inf",
                                                       "1000000000000000000",
                                                       "9223372036854775807",
                                                       "-9223372036854775808"};

struct Part {
  std::size_t begin, size;
};

Part part_of(const std::string& text, Random& random) {
  if (text.empty()) return {0, 0};
  const std::size_t begin = random.below(text.size());
  const std::size_t most = std::min<std::size_t>(text.size() - begin, 40);
  return {begin, 1 + random.below(most)};
}

// A whole line, with its end.
Part line_of(const std::string& text, Random& random) {
  const std::size_t inside = random.below(text.size());
  const std::size_t before = inside == 0 ? std::string::npos : text.rfind('\n', inside - 1);
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  const std::size_t end = std::min(text.find('\n', begin), text.size());
  return {begin, std::min(end + 1, text.size()) - begin};
}

void replace_number(std::string& text, Random& random) {
  const std::size_t from = random.below(text.size());
  const std::size_t begin = text.find_first_of("0123456789", from);
  if (begin == std::string::npos) return;
  const std::size_t end = std::min(text.find_first_not_of("0123456789", begin), text.size());
  text.replace(begin, end - begin, kNumbers[random.below(kNumbers.size())]);
}

void swap_parts(std::string& text, Random& random) {
  Part one = part_of(text, random), other = part_of(text, random);
  if (one.begin > other.begin) std::swap(one, other);
  if (one.begin + one.size > other.begin) return;
  const std::string moved = text.substr(one.begin, one.size);
  text.replace(one.begin, one.size, text.substr(other.begin, other.size));
  text.replace(other.begin - one.size + other.size, other.size, moved);
}

void change(std::string& text, const Material& material, Random& random) {
  const std::size_t at = random.below(text.size() + 1);
  const std::string& other = material.corpus[random.below(material.corpus.size())];
  const Part part = part_of(text, random);
  switch (random.below(10 + material.more_numbers)) {
    case 0:
      if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << random.below(8)));
      return;
    case 1:
    case 2:
      text.insert(at, material.tokens[random.below(material.tokens.size())]);
      return;
    case 3:
      text.erase(part.begin, part.size);
      return;
    case 4:
      text.insert(at, text.substr(part.begin, part.size));
      return;
    case 5:
      if (!text.empty()) replace_number(text, random);
      return;
    case 6:
      swap_parts(text, random);
      return;
    case 7:
      if (!other.empty()) {
        const Part theirs = part_of(other, random);
        text.insert(at, other.substr(theirs.begin, theirs.size));
      }
      return;
    case 8:
      if (!text.empty()) {
        const Part line = line_of(text, random);
        if (random.below(2) == 0) {
          text.erase(line.begin, line.size);
        } else {
          text.insert(line.begin, text.substr(line.begin, line.size));
        }
      }
      return;
    case 9:
      text.replace(part.begin, part.size, material.tokens[random.below(material.tokens.size())]);
      return;
    default:
      if (!text.empty()) replace_number(text, random);
  }
}

}  // namespace

std::uint64_t Random::next() {
  state_ += 0x9E3779B97F4A7C15ull;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

std::string mutated(const Material& material, Random& random) {
  std::string text = material.corpus[random.below(material.corpus.size())];
  // Mostly one: many changes are mostly refused at the first.
  const std::size_t changes = random.below(2) == 0 ? 1 : 1 + random.below(6);
  for (std::size_t i = 0; i < changes; ++i) change(text, material, random);
  if (text.size() > material.longest) text.resize(material.longest);
  return text;
}

}  // namespace shardlab::fuzz
