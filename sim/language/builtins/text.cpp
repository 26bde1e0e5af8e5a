// Methods of strings that look at characters, and Python's functions of single ones. Letters are
// those of ASCII: a text with others is refused where Python would change or judge them.
#include <algorithm>

#include "base/fix.h"
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

const std::string& own_text(const Value* self, std::string_view method) {
  if (const auto* text = self->get<std::string>()) return *text;
  fail(Fix{"use it on a string"}, "{} has no '{}'", a_kind(*self), method);
}

const std::string& ascii_text(const Value* self, std::string_view method) {
  const std::string& text = own_text(self, method);
  const auto beyond = [](char c) { return static_cast<unsigned char>(c) >= 0x80; };
  if (std::ranges::none_of(text, beyond)) return text;
  fail(ErrorKind::kUnsupported, Fix{"use letters a to z and A to Z"},
       "{}: {} has letters beyond ASCII", method, repr(text));
}

void no_arguments(std::string_view method, CallValues call) {
  const Parameters given(method, {}, std::move(call));
}

// The text with each character changed; `before` is the one before it, or a blank.
Value changed(const Value* self, std::string_view method, CallValues call,
              char (*change)(char before, char c)) {
  std::string text = ascii_text(self, method);
  no_arguments(method, std::move(call));
  char before = ' ';
  for (char& c : text) c = change(std::exchange(before, c), c);
  return text;
}

Value run_upper(Interpreter&, const Value* self, CallValues call) {
  return changed(self, "upper", std::move(call), [](char, char c) { return upper(c); });
}
Value run_lower(Interpreter&, const Value* self, CallValues call) {
  return changed(self, "lower", std::move(call), [](char, char c) { return lower(c); });
}
Value run_swapcase(Interpreter&, const Value* self, CallValues call) {
  return changed(self, "swapcase", std::move(call),
                 [](char, char c) { return is_upper(c) ? lower(c) : upper(c); });
}
Value run_title(Interpreter&, const Value* self, CallValues call) {
  return changed(self, "title", std::move(call),
                 [](char before, char c) { return is_letter(before) ? lower(c) : upper(c); });
}
Value run_capitalize(Interpreter& in, const Value* self, CallValues call) {
  Value text = run_lower(in, self, std::move(call));
  std::string changed = text.as<std::string>();
  if (!changed.empty()) changed[0] = upper(changed[0]);
  return changed;
}

// True for a text that is not empty and all of whose characters are of the kind.
Value all_are(const Value* self, std::string_view method, CallValues call, bool (*of_kind)(char)) {
  const std::string& text = ascii_text(self, method);
  no_arguments(method, std::move(call));
  return !text.empty() && std::ranges::all_of(text, of_kind);
}

// isupper() and islower(): there is a letter, and none is of the other case.
Value all_cased(const Value* self, std::string_view method, CallValues call, bool (*other)(char)) {
  const std::string& text = ascii_text(self, method);
  no_arguments(method, std::move(call));
  return std::ranges::any_of(text, is_letter) && std::ranges::none_of(text, other);
}

Value run_isalpha(Interpreter&, const Value* self, CallValues call) {
  return all_are(self, "isalpha", std::move(call), is_letter);
}
Value run_isdigit(Interpreter&, const Value* self, CallValues call) {
  return all_are(self, "isdigit", std::move(call), is_figure);
}
Value run_isalnum(Interpreter&, const Value* self, CallValues call) {
  return all_are(self, "isalnum", std::move(call),
                 [](char c) { return is_letter(c) || is_figure(c); });
}
Value run_isspace(Interpreter&, const Value* self, CallValues call) {
  return all_are(self, "isspace", std::move(call),
                 [](char c) { return (c >= 9 && c <= 13) || (c >= 28 && c <= 32); });
}
Value run_isupper(Interpreter&, const Value* self, CallValues call) {
  return all_cased(self, "isupper", std::move(call), is_lower);
}
Value run_islower(Interpreter&, const Value* self, CallValues call) {
  return all_cased(self, "islower", std::move(call), is_upper);
}

// The place of a part, counted in characters, or -1.
Value found_at(const Value* self, std::string_view method, CallValues call, bool last) {
  const std::string_view text = own_text(self, method);
  const std::string part = Parameters(method, {"part"}, std::move(call)).text("part");
  const std::size_t at = last ? text.rfind(part) : text.find(part);
  if (at == text.npos) return -1;
  return static_cast<std::int64_t>(characters_of(text.substr(0, at)).size());
}
Value run_find(Interpreter&, const Value* self, CallValues call) {
  return found_at(self, "find", std::move(call), false);
}
Value run_rfind(Interpreter&, const Value* self, CallValues call) {
  return found_at(self, "rfind", std::move(call), true);
}

// A line for str.center(): of an odd rest the left gets more where the width is odd.
Value filled(const Value* self, std::string_view method, CallValues call, bool left, bool right) {
  const std::string& text = own_text(self, method);
  const Parameters given(method, {"width", "fill="}, std::move(call));
  const std::string fill = given.text_or("fill", " ");
  if (characters_of(fill).size() != 1) given.refuse("fill", "one character", "\"*\"");
  const std::int64_t width = given.integer("width");
  const std::int64_t rest = width - static_cast<std::int64_t>(characters_of(text).size());
  if (rest <= 0) return text;
  check_text_size(static_cast<std::size_t>(rest) * fill.size() + text.size());
  const std::int64_t before = !left ? 0 : !right ? rest : rest / 2 + (rest & width & 1);
  std::string out;
  for (std::int64_t i = 0; i < before; ++i) out += fill;
  out += text;
  for (std::int64_t i = before; i < rest; ++i) out += fill;
  return out;
}
Value run_ljust(Interpreter&, const Value* self, CallValues call) {
  return filled(self, "ljust", std::move(call), false, true);
}
Value run_rjust(Interpreter&, const Value* self, CallValues call) {
  return filled(self, "rjust", std::move(call), true, false);
}
Value run_center(Interpreter&, const Value* self, CallValues call) {
  return filled(self, "center", std::move(call), true, true);
}
Value run_zfill(Interpreter&, const Value* self, CallValues call) {
  const std::string& text = own_text(self, "zfill");
  const bool sign = text.starts_with('+') || text.starts_with('-');
  const std::int64_t width = Parameters("zfill", {"width"}, std::move(call)).integer("width");
  const Value digits(text.substr(sign ? 1 : 0));
  const Value out = filled(&digits, "zfill", {{width - (sign ? 1 : 0), "0"}, {}}, true, false);
  return text.substr(0, sign ? 1 : 0) + out.as<std::string>();
}

// (before, separator, after), of the first or the last one.
Value parted(const Value* self, std::string_view method, CallValues call, bool last) {
  const std::string& text = own_text(self, method);
  const Parameters given(method, {"separator"}, std::move(call));
  const std::string part = given.text("separator");
  if (part.empty()) given.refuse("separator", "a text that is not empty", "\",\"");
  const std::size_t at = last ? text.rfind(part) : text.find(part);
  const std::string none;
  if (at == text.npos)
    return last ? make_tuple({none, none, text}) : make_tuple({text, none, none});
  return make_tuple({text.substr(0, at), part, text.substr(at + part.size())});
}
Value run_partition(Interpreter&, const Value* self, CallValues call) {
  return parted(self, "partition", std::move(call), false);
}
Value run_rpartition(Interpreter&, const Value* self, CallValues call) {
  return parted(self, "rpartition", std::move(call), true);
}

Value run_rsplit(Interpreter&, const Value* self, CallValues call) {
  std::string_view text = own_text(self, "rsplit");
  const Parameters given("rsplit", {"separator=", "maxsplit="}, std::move(call));
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

Value run_splitlines(Interpreter&, const Value* self, CallValues call) {
  std::string_view text = ascii_text(self, "splitlines");
  no_arguments("splitlines", std::move(call));
  Values lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of("\n\r\f\v\x1c\x1d\x1e"), text.size());
    lines.emplace_back(std::string(text.substr(0, end)));
    text = text.substr(std::min(text.size(), end + (text.substr(end).starts_with("\r\n") ? 2 : 1)));
  }
  return make_list(std::move(lines));
}

Value run_removeprefix(Interpreter&, const Value* self, CallValues call) {
  const std::string& text = own_text(self, "removeprefix");
  const std::string part = Parameters("removeprefix", {"prefix"}, std::move(call)).text("prefix");
  return text.starts_with(part) ? text.substr(part.size()) : text;
}
Value run_removesuffix(Interpreter&, const Value* self, CallValues call) {
  const std::string& text = own_text(self, "removesuffix");
  const std::string part = Parameters("removesuffix", {"suffix"}, std::move(call)).text("suffix");
  return text.ends_with(part) ? text.substr(0, text.size() - part.size()) : text;
}

Value run_ord(Interpreter&, const Value*, CallValues call) {
  const Parameters given("ord", {"character"}, std::move(call));
  const std::string text = given.text("character");
  if (characters_of(text).size() != 1) given.refuse("character", "one character", "\"a\"");
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  std::int64_t code = text.size() == 1 ? byte(0) : byte(0) & (0x7F >> text.size());
  for (std::size_t i = 1; i < text.size(); ++i) code = code << 6 | (byte(i) & 0x3F);
  return code;
}

Value run_chr(Interpreter&, const Value*, CallValues call) {
  const Parameters given("chr", {"code"}, std::move(call));
  const std::int64_t code = given.integer("code");
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  if (code < 0 || code > 0x10FFFF || surrogate)
    given.refuse("code", "the number of a character", "97");
  std::string text;
  append_utf8(text, static_cast<std::uint32_t>(code));
  return text;
}

// "-0x1f": hex(), oct() and bin().
Value in_base(std::string_view function, std::string_view prefix, int bits, CallValues call) {
  const std::int64_t number = Parameters(function, {"number"}, std::move(call)).integer("number");
  std::uint64_t rest = static_cast<std::uint64_t>(number);
  if (number < 0) rest = 0 - rest;
  std::string digits;
  do {
    digits += "0123456789abcdef"[rest & ((1U << bits) - 1)];
    rest >>= bits;
  } while (rest != 0);
  std::ranges::reverse(digits);
  return (number < 0 ? "-" : "") + std::string(prefix) + digits;
}
Value run_hex(Interpreter&, const Value*, CallValues call) {
  return in_base("hex", "0x", 4, std::move(call));
}
Value run_oct(Interpreter&, const Value*, CallValues call) {
  return in_base("oct", "0o", 3, std::move(call));
}
Value run_bin(Interpreter&, const Value*, CallValues call) {
  return in_base("bin", "0b", 1, std::move(call));
}

}  // namespace

BuiltinTable text_builtins() {
  static const Builtin kTable[] = {
      {"bin", run_bin}, {"chr", run_chr}, {"hex", run_hex}, {"oct", run_oct}, {"ord", run_ord},
  };
  return kTable;
}

BuiltinTable text_methods() {
  static const Builtin kTable[] = {
      {"capitalize", run_capitalize},
      {"center", run_center},
      {"find", run_find},
      {"isalnum", run_isalnum},
      {"isalpha", run_isalpha},
      {"isdigit", run_isdigit},
      {"islower", run_islower},
      {"isspace", run_isspace},
      {"isupper", run_isupper},
      {"ljust", run_ljust},
      {"lower", run_lower},
      {"partition", run_partition},
      {"removeprefix", run_removeprefix},
      {"removesuffix", run_removesuffix},
      {"rfind", run_rfind},
      {"rjust", run_rjust},
      {"rpartition", run_rpartition},
      {"rsplit", run_rsplit},
      {"splitlines", run_splitlines},
      {"swapcase", run_swapcase},
      {"title", run_title},
      {"upper", run_upper},
      {"zfill", run_zfill},
  };
  return kTable;
}

}  // namespace shardlab
