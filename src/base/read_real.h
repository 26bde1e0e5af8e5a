// read_real.h - decimal text as a double, as std::from_chars reads it, also where the standard
// library has that for integers only (libc++ before 20: macOS).
#pragma once

#include <charconv>

namespace shardlab {

/// std::from_chars(first, last, value): value keeps what it was unless the text is a number in
/// range.
std::from_chars_result read_real(const char* first, const char* last, double& value);

/// The fallback of read_real() without std::from_chars: by strtod, which also takes blanks, a plus,
/// hexadecimal numbers and the decimal point of a country; none of these reaches it.
std::from_chars_result read_real_by_strtod(const char* first, const char* last, double& value);

}  // namespace shardlab
