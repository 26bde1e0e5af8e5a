// escaped_text.h - text for between double quotes. Pure.
#pragma once

#include <string>
#include <string_view>

namespace shardlab {

/// Below a blank, or 127, and not one of `kept`.
bool is_control(char letter, std::string_view kept = "");
/// A backslash before quotes and backslashes. Control characters but those of `kept` are written by
/// their number, in the form `number`, with one unsigned argument: "\\{:03o}".
std::string escaped_text(std::string_view text, std::string_view number,
                         std::string_view kept = "");
/// Text of a damaged file for a terminal: bytes that are no UTF-8, and control characters, become
/// "\x1b".
std::string printed_text(std::string_view text);

}  // namespace shardlab
