// Python's format specs: [[fill]align][sign][#][0][width][grouping][.precision][type]. A number is
// taken apart into sign, prefix, digits and the part after them; filling and grouping come last, so
// that they are the same for all types.
#include "sim/language/values/python_format.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "sim/language/syntax/characters.h"
#include "sim/language/syntax/numbers.h"
#include "sim/language/values/nesting.h"

namespace shardlab {

namespace {

constexpr std::string_view kDigits = "0123456789";

struct Spec {
  std::string fill;  ///< one character; empty: none is given
  char align = 0, sign = '-', grouping = 0, type = 0;
  bool alternate = false, zeros = false;
  int width = 0;
  int precision = -1;  ///< below 0: none is given
};

/// A number before it is filled up: "-", "0x", "1234", ".5e+10".
struct Parts {
  std::string sign, prefix, digits, rest;
};

class Formatter {
 public:
  Formatter(const Value& value, std::string_view spec) : value_(value), whole_(spec), left_(spec) {
    fill_and_align();
    if (at("+- ")) spec_.sign = take();
    spec_.alternate = accept('#');
    spec_.zeros = accept('0');
    spec_.width = number().value_or(0);
    if (at(",_")) spec_.grouping = take();
    if (accept('.')) {
      const auto digits = number();
      if (!digits) refuse("digits are missing behind the point");
      spec_.precision = *digits;
    }
    if (!left_.empty()) spec_.type = take();
    if (!left_.empty()) refuse(fmt::format("'{}' is too much", left_));
  }

  std::string text() const {
    const bool real = value_.is<double>();
    if (!real && !value_.is_integer()) return words();
    const std::string_view kTypes = real ? "eEfFgG%" : "dboxXeEfFgG%";
    if (spec_.type != 0 && kTypes.find(spec_.type) == std::string_view::npos) refuse_type();
    const bool as_real =
        real || std::string_view("eEfFgG%").find(spec_.type) != std::string_view::npos;
    return as_real ? of_real() : of_integer();
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    fail(Fix{value_.is_tensor()
                 ? "read its number first: {x.item():.3f}"
                 : "use a format of Python for such a value: {x:.3f}, {n:4d}, {s:>10}"},
         "the format '{}' does not fit {}: {}", whole_, a_kind(value_), why);
  }
  [[noreturn]] void refuse_type() const {
    refuse(fmt::format("'{}' is no type of it", spec_.type));
  }

  bool at(std::string_view letters) const {
    return !left_.empty() && letters.find(left_.front()) != std::string_view::npos;
  }
  char take() {
    const char letter = left_.front();
    left_.remove_prefix(1);
    return letter;
  }
  bool accept(char letter) { return at({&letter, 1}) && take() != 0; }

  std::optional<int> number() {
    constexpr int kMost = 10'000;
    if (!at(kDigits)) return std::nullopt;
    int value = 0;
    while (at(kDigits)) {
      value = 10 * value + (take() - '0');
      if (value > kMost) refuse(fmt::format("a number is above {}", kMost));
    }
    return value;
  }

  void fill_and_align() {
    constexpr std::string_view kAligns = "<>=^";
    const auto letters = characters_of(left_.substr(0, 8));
    if (letters.size() > 1 && kAligns.find(letters[1]) != std::string_view::npos) {
      spec_.fill = letters[0];
      spec_.align = letters[1][0];
      left_.remove_prefix(letters[0].size() + 1);
    } else if (at(kAligns)) {
      spec_.align = take();
    }
  }

  std::string words() const {
    if (spec_.type != 0 && spec_.type != 's') refuse_type();
    if (spec_.align == '=' || spec_.sign != '-' || spec_.alternate || spec_.grouping != 0) {
      refuse("signs, #, = and grouping are for numbers");
    }
    std::string text = str(value_);
    const auto letters = characters_of(text);
    const auto precision = static_cast<std::size_t>(std::max(spec_.precision, 0));
    if (spec_.precision >= 0 && precision < letters.size()) {
      text.resize(static_cast<std::size_t>(letters[precision].data() - text.data()));
    }
    return filled({"", "", "", text}, '<');
  }

  std::string of_integer() const {
    if (spec_.precision >= 0) refuse("an int has no precision");
    const std::int64_t value = std::get<0>(number_of(value_));
    const std::uint64_t size =
        value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
    Parts parts{sign_of(value < 0), "", "", ""};
    const bool decimal = spec_.type == 0 || spec_.type == 'd';
    if (spec_.alternate && !decimal) parts.prefix = {'0', spec_.type};
    const std::string pattern = fmt::format("{{:{}}}", decimal ? 'd' : spec_.type);
    parts.digits = fmt::format(fmt::runtime(pattern), size);
    if (spec_.grouping == ',' && !decimal) refuse("',' groups decimal digits");
    return filled(std::move(parts), '>', decimal ? 3 : 4);
  }

  std::string of_real() const {
    const double value = to_double(number_of(value_));
    std::string text = real_text(std::fabs(value));
    Parts parts{sign_of(std::signbit(value) && !std::isnan(value)), "", "", ""};
    const std::size_t end = std::min(text.find_first_not_of(kDigits), text.size());
    parts.digits = text.substr(0, end);
    parts.rest = text.substr(end);
    return filled(std::move(parts), '>', 3);
  }

  /// The text of a number that is not below 0.
  std::string real_text(double value) const {
    const bool upper = spec_.type == 'E' || spec_.type == 'F' || spec_.type == 'G';
    const std::string percent = spec_.type == '%' ? "%" : "";
    if (std::isnan(value)) return (upper ? "NAN" : "nan") + percent;
    if (spec_.type == '%') value *= 100;
    if (std::isinf(value)) return (upper ? "INF" : "inf") + percent;
    if (spec_.type == 0) return spec_.precision < 0 ? float_text(value) : shortest(value);
    const char type = spec_.type == '%' ? 'f' : spec_.type;
    const std::string pattern = fmt::format("{{:{}.{}{}}}", spec_.alternate ? "#" : "",
                                            spec_.precision < 0 ? 6 : spec_.precision, type);
    return fmt::format(fmt::runtime(pattern), value) + percent;
  }

  /// Without a type Python writes at least one digit after the point, and an exponent if the
  /// precision leaves no room for it.
  std::string shortest(double value) const {
    const int digits = std::max(1, spec_.precision);
    std::string plain = fmt::format("{:.{}g}", value, digits);
    if (plain.find_first_of(".e") != std::string::npos) return plain;
    if (static_cast<int>(plain.size()) < digits) return plain + ".0";
    const std::size_t last = plain.find_last_not_of('0');
    return fmt::format("{:.{}e}", value, last == std::string::npos ? 0 : last);
  }

  std::string sign_of(bool negative) const {
    if (negative) return "-";
    return spec_.sign == '-' ? "" : std::string(1, spec_.sign);
  }

  std::string grouped(const std::string& digits, std::size_t group) const {
    if (spec_.grouping == 0) return digits;
    std::string out;
    for (std::size_t i = 0; i < digits.size(); ++i) {
      if (i > 0 && (digits.size() - i) % group == 0) out += spec_.grouping;
      out += digits[i];
    }
    return out;
  }

  std::string filled(Parts parts, char align, std::size_t group = 3) const {
    const auto width = static_cast<std::size_t>(spec_.width);
    const bool numeric = align == '>';
    if (spec_.align != 0) align = spec_.align;
    const bool zeros = spec_.zeros && spec_.fill.empty();
    if (zeros && spec_.align == 0 && numeric) align = '=';
    const std::string fill = !spec_.fill.empty() ? spec_.fill : zeros ? "0" : " ";
    const std::string front = parts.sign + parts.prefix;
    std::string body = grouped(parts.digits, group) + parts.rest;
    if (align == '=' && fill == "0" && spec_.grouping != 0 && !parts.digits.empty()) {
      while (front.size() + body.size() < width) {
        parts.digits.insert(0, 1, '0');
        body = grouped(parts.digits, group) + parts.rest;
      }
    }
    const std::size_t size = characters_of(front + body).size();
    const std::size_t missing = width > size ? width - size : 0;
    const std::size_t before = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
    const auto times = [&fill](std::size_t count) {
      std::string out;
      for (std::size_t i = 0; i < count; ++i) out += fill;
      return out;
    };
    if (align == '=') return front + times(missing) + body;
    return times(before) + front + body + times(missing - before);
  }

  const Value& value_;
  std::string_view whole_, left_;
  Spec spec_;
};

// The value of "0", of "name", or of "", which takes the next one.
const Value& field_value(std::string_view name, const CallValues& call, std::size_t& next) {
  std::size_t place = name.empty() ? next++ : 0;
  bool numbered = true;
  for (const char digit : name) {
    numbered = numbered && digit >= '0' && digit <= '9' && place < 1000;
    if (numbered) place = place * 10 + static_cast<std::size_t>(digit - '0');
  }
  if (numbered && place < call.positional.size()) return call.positional[place];
  for (const auto& [keyword, value] : call.keywords) {
    if (!numbered && keyword == name) return value;
  }
  fail(Fix{"give format() a value for each field, or use an f-string"},
       "format: no argument is given for the field '{{{}}}'", name);
}

}  // namespace

std::string formatted(std::string_view text, const CallValues& call) {
  std::string out;
  std::size_t next = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    if (letter != '{' && letter != '}') {
      out += letter;
      continue;
    }
    if (i + 1 < text.size() && text[i + 1] == letter) {
      out += text[++i];
      continue;
    }
    const std::size_t end = text.find('}', i);
    if (letter == '}' || end == text.npos) {
      fail(Fix{"double a brace that is text: {{ or }}"},
           "format: a brace at character {} has no partner", i);
    }
    std::string_view field = text.substr(i + 1, end - i - 1);
    const std::size_t colon = std::min(field.find(':'), field.size());
    const std::string_view spec = field.substr(std::min(colon + 1, field.size()));
    field = field.substr(0, colon);
    const std::size_t mark = std::min(field.find('!'), field.size());
    const std::string_view conversion = field.substr(mark);
    const Value& value = field_value(field.substr(0, mark), call, next);
    out += conversion == "!r"   ? python_format(repr(value), spec)
           : conversion == "!s" ? python_format(str(value), spec)
                                : python_format(value, spec);
    check_text_size(out.size());
    i = end;
  }
  return out;
}

std::string percent_formatted(std::string_view text, const Value& values) {
  const Values given = values.is<TupleValue>() ? items_of(values) : Values{values};
  std::string out;
  std::size_t next = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const std::size_t end =
        std::min(text.find_first_not_of("0123456789.-+ #", i + 1), text.size() - 1);
    const char kind = text[end];
    std::string spec(text.substr(i + 1, end - i - 1));
    i = end;
    if (kind == '%') {
      out += '%';
      continue;
    }
    if (std::string_view("dixXofFeEgGsr").find(kind) == std::string_view::npos) {
      fail(Fix{"use an f-string: f\"{x:.2f}\""}, "%: the conversion '%{}{}' is not taken", spec,
           kind);
    }
    if (next >= given.size()) {
      fail(Fix{"give a tuple with a value for each: \"%d %d\" % (a, b)"},
           "%: the text takes more than the {} values that are given", given.size());
    }
    const Value& value = given[next++];
    const bool is_text = kind == 's' || kind == 'r';
    // '%5s' is aligned to the right, as numbers are; '-' to the left.
    if (spec.starts_with('-')) {
      spec[0] = '<';
    } else if (is_text && !spec.empty() && spec[0] != '.') {
      spec.insert(0, ">");
    }
    const bool whole = kind == 'd' || kind == 'i';
    Value shown = kind == 'r' ? Value(repr(value)) : is_text ? Value(str(value)) : value;
    if (whole && shown.is<double>()) shown = static_cast<std::int64_t>(shown.as<double>());
    out += python_format(shown, is_text ? spec : spec + (whole ? 'd' : kind));
    check_text_size(out.size());
  }
  if (next < given.size() && values.is<TupleValue>()) {
    fail(Fix{"give a value for each '%' of the text"},
         "%: {} values are given, and the text takes {}", given.size(), next);
  }
  return out;
}

std::string python_format(const Value& value, std::string_view spec) {
  return spec.empty() ? str(value) : Formatter(value, spec).text();
}

}  // namespace shardlab
