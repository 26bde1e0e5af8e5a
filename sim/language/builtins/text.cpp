// Methods of strings that look at characters, and Python's functions of single ones. Letters are
// those of ASCII: a text with others is refused where Python would change or judge them.
#include <algorithm>

#include "base/error.h"
#include "sim/language/run/interpreter.h"
#include "sim/language/syntax/characters.h"
#include "sim/language/values/nesting.h"

namespace shardlab {

namespace {

constexpr std::string_view kSpaces = " \t\n\r\f\v";

bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_letter(char c) { return is_lower(c) || is_upper(c); }
bool is_figure(char c) { return c >= '0' && c <= '9'; }
char upper(char c) { return is_lower(c) ? static_cast<char>(c ^ 0x20) : c; }
char lower(char c) { return is_upper(c) ? static_cast<char>(c ^ 0x20) : c; }

const std::string& own_text(const Value* self) { return self->as<std::string>(); }

const std::string& ascii_text(const Value* self, const Parameters& given) {
  const std::string& text = own_text(self);
  const auto beyond = [](char c) { return static_cast<unsigned char>(c) >= 0x80; };
  if (std::ranges::none_of(text, beyond)) return text;
  fail(ErrorKind::kUnsupported, Fix{"use letters a to z and A to Z"},
       "{}: {} has letters beyond ASCII", given.function(), repr(text));
}

// The text with each character changed; `before` is the one before it, or a blank.
template <char (*change)(char before, char c)>
Value run_changed(Interpreter&, const Value* self, const Parameters& given) {
  std::string text = ascii_text(self, given);
  char before = ' ';
  for (char& c : text) c = change(std::exchange(before, c), c);
  return text;
}
char in_capitals(char, char c) { return upper(c); }
char in_small_letters(char, char c) { return lower(c); }
char in_other_case(char, char c) { return is_upper(c) ? lower(c) : upper(c); }
char in_title(char before, char c) { return is_letter(before) ? lower(c) : upper(c); }

Value run_capitalize(Interpreter& in, const Value* self, const Parameters& given) {
  Value text = run_changed<in_small_letters>(in, self, given);
  std::string changed = text.as<std::string>();
  if (!changed.empty()) changed[0] = upper(changed[0]);
  return changed;
}

// True for a text that is not empty and all of whose characters are of the kind.
template <bool (*of_kind)(char)>
Value run_all_are(Interpreter&, const Value* self, const Parameters& given) {
  const std::string& text = ascii_text(self, given);
  return !text.empty() && std::ranges::all_of(text, of_kind);
}
bool is_letter_or_figure(char c) { return is_letter(c) || is_figure(c); }
bool is_space(char c) { return (c >= 9 && c <= 13) || (c >= 28 && c <= 32); }

// isupper() and islower(): there is a letter, and none is of the other case.
template <bool (*other)(char)>
Value run_all_cased(Interpreter&, const Value* self, const Parameters& given) {
  const std::string& text = ascii_text(self, given);
  return std::ranges::any_of(text, is_letter) && std::ranges::none_of(text, other);
}

enum class Side : std::uint8_t { kLeft, kRight, kBoth };

// The place of a part, counted in characters, or -1.
template <Side kSide>
Value run_find(Interpreter&, const Value* self, const Parameters& given) {
  const std::string_view text = own_text(self);
  const std::string part = given.text("part");
  const std::size_t at = kSide == Side::kRight ? text.rfind(part) : text.find(part);
  if (at == text.npos) return -1;
  return static_cast<std::int64_t>(characters_of(text.substr(0, at)).size());
}

// A line for str.center(): of an odd rest the left gets more where the width is odd.
std::string filled(const std::string& text, std::int64_t width, const std::string& fill,
                   Side side) {
  const std::int64_t rest = width - static_cast<std::int64_t>(characters_of(text).size());
  if (rest <= 0) return text;
  check_text_size(static_cast<std::size_t>(rest) * fill.size() + text.size());
  const std::int64_t before = side == Side::kRight  ? 0
                              : side == Side::kLeft ? rest
                                                    : rest / 2 + (rest & width & 1);
  std::string out;
  for (std::int64_t i = 0; i < before; ++i) out += fill;
  out += text;
  for (std::int64_t i = before; i < rest; ++i) out += fill;
  return out;
}
template <Side kSide>
Value run_filled(Interpreter&, const Value* self, const Parameters& given) {
  const std::string fill = given.text_or("fill", " ");
  if (characters_of(fill).size() != 1) given.refuse("fill", "one character", "\"*\"");
  return filled(own_text(self), given.integer("width"), fill, kSide);
}
Value run_zfill(Interpreter&, const Value* self, const Parameters& given) {
  const std::string& text = own_text(self);
  const std::size_t sign = text.starts_with('+') || text.starts_with('-') ? 1 : 0;
  const std::int64_t width = given.integer("width") - static_cast<std::int64_t>(sign);
  return text.substr(0, sign) + filled(text.substr(sign), width, "0", Side::kLeft);
}

// (before, separator, after), of the first or the last one.
template <Side kSide>
Value run_partition(Interpreter&, const Value* self, const Parameters& given) {
  constexpr bool kLast = kSide == Side::kRight;
  const std::string &text = own_text(self), part = given.text("separator");
  if (part.empty()) given.refuse("separator", "a text that is not empty", "\",\"");
  const std::size_t at = kLast ? text.rfind(part) : text.find(part);
  const std::string none;
  if (at == text.npos)
    return kLast ? make_tuple({none, none, text}) : make_tuple({text, none, none});
  return make_tuple({text.substr(0, at), part, text.substr(at + part.size())});
}

Value run_rsplit(Interpreter&, const Value* self, const Parameters& given) {
  std::string_view text = own_text(self);
  std::int64_t left = given.integer_or("maxsplit", -1);
  Values parts;
  if (!given.has("separator")) {
    const auto cut = [&] { text = text.substr(0, text.find_last_not_of(kSpaces) + 1); };
    for (cut(); !text.empty(); cut()) {
      const std::size_t at = left-- == 0 ? text.npos : text.find_last_of(kSpaces);
      parts.emplace_back(std::string(text.substr(at == text.npos ? 0 : at + 1)));
      text = text.substr(0, at == text.npos ? 0 : at);
    }
  } else {
    const std::string separator = given.text("separator");
    if (separator.empty()) given.refuse("separator", "a text that is not empty", "\",\"");
    for (std::size_t at; left-- != 0 && (at = text.rfind(separator)) != text.npos;) {
      parts.emplace_back(std::string(text.substr(at + separator.size())));
      text = text.substr(0, at);
    }
    parts.emplace_back(std::string(text));
  }
  std::ranges::reverse(parts);
  return make_list(std::move(parts));
}

Value run_splitlines(Interpreter&, const Value* self, const Parameters& given) {
  std::string_view text = ascii_text(self, given);
  Values lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of("\n\r\f\v\x1c\x1d\x1e"), text.size());
    lines.emplace_back(std::string(text.substr(0, end)));
    text = text.substr(std::min(text.size(), end + (text.substr(end).starts_with("\r\n") ? 2 : 1)));
  }
  return make_list(std::move(lines));
}

Value run_removeprefix(Interpreter&, const Value* self, const Parameters& given) {
  const std::string &text = own_text(self), part = given.text("prefix");
  return text.starts_with(part) ? text.substr(part.size()) : text;
}
Value run_removesuffix(Interpreter&, const Value* self, const Parameters& given) {
  const std::string &text = own_text(self), part = given.text("suffix");
  return text.ends_with(part) ? text.substr(0, text.size() - part.size()) : text;
}

Value run_ord(Interpreter&, const Value*, const Parameters& given) {
  const std::string text = given.text("character");
  if (characters_of(text).size() != 1) given.refuse("character", "one character", "\"a\"");
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  std::int64_t code = text.size() == 1 ? byte(0) : byte(0) & (0x7F >> text.size());
  for (std::size_t i = 1; i < text.size(); ++i) code = code << 6 | (byte(i) & 0x3F);
  return code;
}

Value run_chr(Interpreter&, const Value*, const Parameters& given) {
  const std::int64_t code = given.integer("code");
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  if (code < 0 || code > 0x10FFFF || surrogate)
    given.refuse("code", "the number of a character", "97");
  std::string text;
  append_utf8(text, static_cast<std::uint32_t>(code));
  return text;
}

// "-0x1f": hex(), oct() and bin().
template <char kLetter, int kBits>
Value run_in_base(Interpreter&, const Value*, const Parameters& given) {
  const std::int64_t number = given.integer("number");
  std::uint64_t rest = static_cast<std::uint64_t>(number);
  if (number < 0) rest = 0 - rest;
  std::string digits;
  do {
    digits += "0123456789abcdef"[rest & ((1U << kBits) - 1)];
    rest >>= kBits;
  } while (rest != 0);
  std::ranges::reverse(digits);
  return fmt::format("{}0{}{}", number < 0 ? "-" : "", kLetter, digits);
}

}  // namespace

BuiltinTable text_builtins() {
  static const Builtin kTable[] = {
      {"bin", "(number)", run_in_base<'b', 1>}, {"chr", "(code)", run_chr},
      {"hex", "(number)", run_in_base<'x', 4>}, {"oct", "(number)", run_in_base<'o', 3>},
      {"ord", "(character)", run_ord},
  };
  return kTable;
}

BuiltinTable text_methods() {
  static const Builtin kTable[] = {
      {"capitalize", "a string: ()", run_capitalize},
      {"center", "a string: (width, fill=)", run_filled<Side::kBoth>},
      {"find", "a string: (part)", run_find<Side::kLeft>},
      {"isalnum", "a string: ()", run_all_are<is_letter_or_figure>},
      {"isalpha", "a string: ()", run_all_are<is_letter>},
      {"isdigit", "a string: ()", run_all_are<is_figure>},
      {"islower", "a string: ()", run_all_cased<is_upper>},
      {"isspace", "a string: ()", run_all_are<is_space>},
      {"isupper", "a string: ()", run_all_cased<is_lower>},
      {"ljust", "a string: (width, fill=)", run_filled<Side::kRight>},
      {"lower", "a string: ()", run_changed<in_small_letters>},
      {"partition", "a string: (separator)", run_partition<Side::kLeft>},
      {"removeprefix", "a string: (prefix)", run_removeprefix},
      {"removesuffix", "a string: (suffix)", run_removesuffix},
      {"rfind", "a string: (part)", run_find<Side::kRight>},
      {"rjust", "a string: (width, fill=)", run_filled<Side::kLeft>},
      {"rpartition", "a string: (separator)", run_partition<Side::kRight>},
      {"rsplit", "a string: (separator=, maxsplit=)", run_rsplit},
      {"splitlines", "a string: ()", run_splitlines},
      {"swapcase", "a string: ()", run_changed<in_other_case>},
      {"title", "a string: ()", run_changed<in_title>},
      {"upper", "a string: ()", run_changed<in_capitals>},
      {"zfill", "a string: (width)", run_zfill},
  };
  return kTable;
}

}  // namespace shardlab
