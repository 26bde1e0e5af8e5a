// Each theme by itself: lists, amounts, escapes, ranges of ranks, names.
#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <iterator>
#include <type_traits>

namespace shardlab {

// One loop for every kind of list; numbers are written by fmt, words appended as they are.

namespace {

std::string joined(const auto& values, std::string_view separator) {
  std::string text;
  bool first = true;
  for (const auto& value : values) {
    if (!first) text += separator;
    first = false;
    if constexpr (std::integral<std::remove_cvref_t<decltype(value)>>) {
      text += fmt::format_int(value).str();
    } else {
      text += value;
    }
  }
  return text;
}

}  // namespace

std::string text_of_list(std::span<const std::int64_t> values, std::string_view separator) {
  return joined(values, separator);
}
std::string text_of_list(std::span<const int> values, std::string_view separator) {
  return joined(values, separator);
}
std::string text_of_list(std::span<const std::size_t> values, std::string_view separator) {
  return joined(values, separator);
}
std::string text_of_list(std::span<const std::string> values, std::string_view separator) {
  return joined(values, separator);
}
std::string text_of_list(std::span<const std::string_view> values, std::string_view separator) {
  return joined(values, separator);
}
std::string text_of_list(const std::set<std::string>& values, std::string_view separator) {
  return joined(values, separator);
}

std::vector<std::string_view> parts_of_text(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(separator, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + separator.size();
  }
  return parts;
}

std::vector<std::string> rows_of_table(std::string_view text) {
  std::vector<std::string> rows;
  bool goes_on = false;
  for (std::string_view line : parts_of_text(text, "\n")) {
    if (line.empty() || line.starts_with('#')) continue;
    if (!goes_on) rows.emplace_back();
    goes_on = line.ends_with('\\');
    if (goes_on) line.remove_suffix(1);
    rows.back() += line.substr(line.find_first_not_of(' '));
  }
  return rows;
}

// In the largest unit of which there is at least one; beyond EiB the number grows.
std::string bytes_text(double bytes) {
  static constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  const int digits = bytes >= 999.5 ? 4 : 3;  // "1000 KiB", not "1e+03 KiB"
  return unit == 0 ? fmt::format("{:.0f} B", bytes)
                   : fmt::format("{:.{}g} {}", bytes, digits, kUnits[unit]);
}

std::string counted(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

// Languages differ in how they write a character by its number, and in nothing else.

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

// Runs of three or more consecutive ranks are folded ("0-3,5"); two are shorter as they are.

namespace {

RankRanges ranges_of(std::span<const std::int64_t> ranks) {
  RankRanges ranges;
  for (const std::int64_t rank : ranks) add_range(ranges, rank, rank);
  return ranges;
}

std::string text_of(const RankRanges& ranges) {
  std::string text;
  for (const auto& [first, last] : ranges) {
    if (!text.empty()) text += ',';
    text += first == last ? fmt::format("{}", first)
                          : fmt::format("{}{}{}", first, last - first < 2 ? ',' : '-', last);
  }
  return text;
}

}  // namespace

void add_range(RankRanges& ranges, std::int64_t first, std::int64_t last) {
  const bool goes_on = !ranges.empty() && ranges.back().second + 1 == first;
  if (!goes_on) ranges.emplace_back(first, last);
  ranges.back().second = last;
}

std::string rank_ranges(std::span<const std::int64_t> ranks) { return text_of(ranges_of(ranks)); }

std::string shortened_ranges(std::span<const std::int64_t> ranks, std::size_t longest) {
  return shortened_text(ranges_of(ranks), longest);
}

std::string shortened_text(const RankRanges& ranges, std::size_t longest) {
  const std::string text = text_of(ranges);
  if (text.size() <= longest) return text;
  return text.substr(0, text.rfind(',', longest)) + ",...";
}

// Edit distance with swaps of neighbouring letters (optimal string alignment), in O(a b) time and
// three rows. A name is suggested if at most a third of its letters, but at least one, would have
// to change, and not all of them.

int edit_distance(std::string_view a, std::string_view b) {
  const std::size_t width = b.size() + 1;
  std::vector<int> before_last(width), last(width), row(width);
  for (std::size_t j = 0; j < width; ++j) last[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j < width; ++j) {
      const int replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replace});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::optional<std::string> nearest(std::string_view word, std::span<const std::string> known) {
  constexpr std::size_t kLongest = 64;  // keeps hostile names cheap
  if (word.empty() || word.size() > kLongest) return std::nullopt;
  const std::string* best = nullptr;
  int best_distance = 0;
  for (const std::string& candidate : known) {
    if (candidate.size() > kLongest) continue;
    const int distance = edit_distance(word, candidate);
    const int allowed = std::max(1, static_cast<int>(std::max(word.size(), candidate.size()) / 3));
    const bool all_replaced = distance >= static_cast<int>(word.size());
    if (distance > allowed || all_replaced) continue;
    if (best == nullptr || distance < best_distance) {
      best = &candidate;
      best_distance = distance;
    }
  }
  return best ? std::optional(*best) : std::nullopt;
}

std::string suggest(std::string_view word, std::span<const std::string> known) {
  constexpr std::size_t kShown = 12;
  if (known.empty()) return "";
  if (const auto name = nearest(word, known)) return fmt::format("did you mean '{}'?", *name);
  const auto first = known.first(std::min(known.size(), kShown));
  return fmt::format("known: {}{}", text_of_list(first, ", "),
                     known.size() > kShown ? ", ..." : "");
}

// A part of a name is a number where a list of modules holds it.

std::string name_pattern(std::string_view name) {
  std::vector<std::string_view> parts = parts_of_text(name, ".");
  for (std::string_view& part : parts) {
    if (!part.empty() && part.find_first_not_of("0123456789") == part.npos) part = "*";
  }
  return text_of_list(parts, ".");
}

}  // namespace shardlab
