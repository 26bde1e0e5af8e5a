// text.h - texts for messages and reports: lists, amounts, ranks, escapes, names that were meant.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardlab {

/// The entries, as fmt writes them, with `separator` between them: "8, 16" for {8, 16}; "" for
/// none. A function of ours for each kind of list: fmt::join writes out its whole formatter anew in
/// every file that calls it, half a second each.
std::string text_of_list(std::span<const std::int64_t> values, std::string_view separator);
std::string text_of_list(std::span<const int> values, std::string_view separator);
std::string text_of_list(std::span<const std::size_t> values, std::string_view separator);
std::string text_of_list(std::span<const std::string> values, std::string_view separator);
std::string text_of_list(std::span<const std::string_view> values, std::string_view separator);
std::string text_of_list(const std::set<std::string>& values, std::string_view separator);

/// The parts of a text between separators, empty ones, too; one part of an empty text. They point
/// into the text.
std::vector<std::string_view> parts_of_text(std::string_view text, std::string_view separator);

/// The rows of a table that is text: its lines, without empty ones and those that begin with "#". A
/// line that ends with a backslash goes on in the next, behind the blanks there.
std::vector<std::string> rows_of_table(std::string_view text);

/// "1.5 KiB", "640 B": at least three digits, four where the next unit is near.
std::string bytes_text(double bytes);
/// "1 rank", "8 ranks".
std::string counted(std::int64_t count, std::string_view noun);

/// Below a blank, or 127, and not one of `kept`.
bool is_control(char letter, std::string_view kept = "");
/// A backslash before quotes and backslashes. Control characters but those of `kept` are written by
/// their number, in the form `number`, with one unsigned argument: "\\{:03o}".
std::string escaped_text(std::string_view text, std::string_view number,
                         std::string_view kept = "");
/// Text of a damaged file for a terminal: bytes that are no UTF-8, and control characters, become
/// "\x1b".
std::string printed_text(std::string_view text);

/// "0-3,7,8": three and more consecutive ranks fold; the order is kept. Ranks may be in any order;
/// ranks that repeat are repeated.
std::string rank_ranges(std::span<const std::int64_t> ranks);
/// The same, cut after a whole range where it is longer than `longest` characters: "0,2,4,...".
std::string shortened_ranges(std::span<const std::int64_t> ranks, std::size_t longest);

/// First and last rank of each range.
using RankRanges = std::vector<std::pair<std::int64_t, std::int64_t>>;
/// Adds a range at the end, which may go on with the one before.
void add_range(RankRanges& ranges, std::int64_t first, std::int64_t last);
/// Their text, as that of shortened_ranges().
std::string shortened_text(const RankRanges& ranges, std::size_t longest);

/// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other.
int edit_distance(std::string_view a, std::string_view b);

/// The known name at the smallest edit distance, if it is close: at most a third of the longer
/// word, and at least one edit is always allowed. Of equally close names it is the first.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> known);

/// A line for the "fix" part: "did you mean 'hidden'?", or the known names when none is close
/// ("known: a, b, c"; the first twelve), or nothing when there are none.
std::string suggest(std::string_view word, std::span<const std::string> known);

/// The name with "*" for each part between dots that is a number: "layers.3.wq" -> "layers.*.wq".
std::string name_pattern(std::string_view name);

}  // namespace shardlab
