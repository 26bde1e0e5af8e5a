// The text is cut to what std::from_chars would take before strtod reads it, so that both agree on
// where a number ends. strtod_l would name its locale; the program never sets one, and for a user's
// program that does, the decimal point of its locale is put in.
#include "base/read_real.h"

#include <cctype>
#include <cerrno>
#include <clocale>
#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>

namespace shardlab {

namespace {

bool digit_at(const char* at, const char* last) {
  return at != last && std::isdigit(static_cast<unsigned char>(*at)) != 0;
}

const char* after_digits(const char* at, const char* last) {
  while (digit_at(at, last)) ++at;
  return at;
}

// "inf", "infinity", "nan", "nan(...)" in any case; `first` where there is none.
const char* after_word(const char* first, const char* last) {
  const auto begins = [&](std::string_view word) {
    if (static_cast<std::size_t>(last - first) < word.size()) return false;
    for (std::size_t i = 0; i < word.size(); ++i) {
      if (std::tolower(static_cast<unsigned char>(first[i])) != word[i]) return false;
    }
    return true;
  };
  for (const std::string_view word : {"infinity", "inf"}) {
    if (begins(word)) return first + word.size();
  }
  if (!begins("nan")) return first;
  const char* at = first + 3;
  if (at == last || *at != '(') return at;
  const char* inside = at + 1;
  while (inside != last && (std::isalnum(static_cast<unsigned char>(*inside)) || *inside == '_')) {
    ++inside;
  }
  return inside != last && *inside == ')' ? inside + 1 : at;
}

// Digits with a point among or next to them, and an exponent; `first` where there is no digit.
const char* after_decimal(const char* first, const char* last) {
  const char* at = after_digits(first, last);
  const bool before = at != first;
  if (at != last && *at == '.') {
    const char* end = after_digits(at + 1, last);
    if (!before && end == at + 1) return first;
    at = end;
  } else if (!before) {
    return first;
  }
  if (at == last || (*at != 'e' && *at != 'E')) return at;
  const char* exponent = at + 1;
  if (exponent != last && (*exponent == '+' || *exponent == '-')) ++exponent;
  return digit_at(exponent, last) ? after_digits(exponent, last) : at;
}

}  // namespace

std::from_chars_result read_real_by_strtod(const char* first, const char* last, double& value) {
  const char* number = first != last && *first == '-' ? first + 1 : first;
  const char* end = after_decimal(number, last);
  if (end == number) end = after_word(number, last);
  if (end == number) return {first, std::errc::invalid_argument};
  std::string text(first, end);
  if (const std::size_t point = text.find('.'); point != std::string::npos) {
    text.replace(point, 1, std::localeconv()->decimal_point);
  }
  const int errno_before = errno;
  errno = 0;
  const double read = std::strtod(text.c_str(), nullptr);
  // A number below the smallest normal one sets errno, too, though it is read as well as it can be.
  const bool beyond = errno == ERANGE && (std::isinf(read) || read == 0);
  errno = errno_before;
  if (beyond) return {end, std::errc::result_out_of_range};
  value = read;
  return {end, std::errc()};
}

#if defined(__cpp_lib_to_chars) || (defined(_LIBCPP_VERSION) && _LIBCPP_VERSION >= 200000)

std::from_chars_result read_real(const char* first, const char* last, double& value) {
  return std::from_chars(first, last, value);
}

#else

std::from_chars_result read_real(const char* first, const char* last, double& value) {
  return read_real_by_strtod(first, last, value);
}

#endif

}  // namespace shardlab
