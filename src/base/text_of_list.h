// text_of_list.h - lists as text, each entry as fmt writes it. A function of ours for each kind of
// list: fmt::join writes out its whole formatter anew in every file that calls it, half a second
// each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardlab {

/// The entries with `separator` between them: "8, 16" for {8, 16}; "" for none.
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

}  // namespace shardlab
