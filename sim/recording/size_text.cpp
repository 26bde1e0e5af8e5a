// One grammar for both spellings: sums of products of powers of calls, names and numbers.
#include "sim/recording/size_text.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <vector>

#include "base/error.h"
#include "base/fix.h"

namespace shardlab {

namespace {

constexpr int kDeepest = 64;

using SizeOf = std::function<std::int64_t(const std::string&)>;

class SizeParser {
 public:
  SizeParser(std::string_view text, const SizeOf& size_of) : text_(text), size_of_(size_of) {}

  std::int64_t whole() {
    const std::int64_t value = sum();
    skip();
    if (at_ < text_.size()) malformed();
    return value;
  }

 private:
  [[noreturn]] void malformed() const {
    fail(ErrorKind::kValue, Fix{"export the program again"}, "'{}' is no size",
         text_.substr(0, 200));
  }

  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  bool take(std::string_view word) {
    skip();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  using Step = bool (*)(std::int64_t, std::int64_t, std::int64_t*);
  static bool plus(std::int64_t a, std::int64_t b, std::int64_t* to) {
    return __builtin_add_overflow(a, b, to);
  }
  static bool minus(std::int64_t a, std::int64_t b, std::int64_t* to) {
    return __builtin_sub_overflow(a, b, to);
  }
  static bool times(std::int64_t a, std::int64_t b, std::int64_t* to) {
    return __builtin_mul_overflow(a, b, to);
  }
  static bool over(std::int64_t a, std::int64_t b, std::int64_t* to) {
    if (b == 0 || b == -1) return b == 0 || minus(0, a, to);
    *to = a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
    return false;
  }
  static bool rest(std::int64_t a, std::int64_t b, std::int64_t* to) {
    std::int64_t quotient = 0;
    return over(a, b, &quotient) || times(quotient, b, &quotient) || minus(a, quotient, to);
  }
  static bool up(std::int64_t a, std::int64_t b, std::int64_t* to) {
    return minus(0, a, &a) || over(a, b, to) || minus(0, *to, to);
  }
  static bool larger(std::int64_t a, std::int64_t b, std::int64_t* to) {
    *to = std::max(a, b);
    return false;
  }
  static bool smaller(std::int64_t a, std::int64_t b, std::int64_t* to) {
    *to = std::min(a, b);
    return false;
  }
  static bool power(std::int64_t a, std::int64_t b, std::int64_t* to) {
    bool fault = b < 0 || b > 64;
    *to = 1;
    for (std::int64_t i = 0; i < b && !fault; ++i) fault = times(*to, a, to);
    return fault;
  }

  std::int64_t apply(Step step, std::int64_t a, std::int64_t b) const {
    std::int64_t value = 0;
    if (step(a, b, &value)) malformed();
    return value;
  }

  std::int64_t sum() {
    if (++depth_ > kDeepest) malformed();
    std::int64_t value = product();
    while (true) {
      if (take("+")) {
        value = apply(plus, value, product());
      } else if (take("-")) {
        value = apply(minus, value, product());
      } else {
        --depth_;
        return value;
      }
    }
  }

  std::int64_t product() {
    std::int64_t value = raised();
    while (true) {
      if (take("//")) {
        value = apply(over, value, raised());
      } else if (take("*")) {
        value = apply(times, value, raised());
      } else if (take("%")) {
        value = apply(rest, value, raised());
      } else {
        return value;
      }
    }
  }

  std::int64_t raised() {
    const std::int64_t base = atom();
    return take("**") ? apply(power, base, atom()) : base;
  }

  std::int64_t atom() {
    skip();
    const char next = at_ < text_.size() ? text_[at_] : '\0';
    if (next == '(') {
      ++at_;
      const std::int64_t value = sum();
      if (!take(")")) malformed();
      return value;
    }
    if (next == '-' || std::isdigit(static_cast<unsigned char>(next)) != 0) return integer();
    const std::string name = word();
    if (!take("(")) return size_of_(name);
    return call(name);
  }

  std::int64_t integer() {
    std::int64_t value = 0;
    const auto [end, error] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) malformed();
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }

  std::string word() {
    const std::size_t begin = at_;
    const auto belongs = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
    };
    while (at_ < text_.size() && belongs(text_[at_])) ++at_;
    if (begin == at_) malformed();
    return std::string(text_.substr(begin, at_ - begin));
  }

  // Behind the opening parenthesis.
  std::int64_t call(const std::string& name) {
    if (name == "Symbol") return symbol();
    if (name == "Integer") {
      skip();
      const std::int64_t value = integer();
      if (!take(")")) malformed();
      return value;
    }
    struct Row {
      std::string_view name;
      Step step;
      std::size_t least;  // operands; more are folded where it is 1
    };
    constexpr Row kRows[] = {
        {"Add", plus, 1},      {"Mul", times, 1},          {"Max", larger, 1},
        {"Min", smaller, 1},   {"Pow", power, 2},          {"FloorDiv", over, 2},
        {"CleanDiv", over, 2}, {"Mod", rest, 2},           {"PythonMod", rest, 2},
        {"CeilDiv", up, 2},    {"PowByNatural", power, 2},
    };
    const auto* row = std::ranges::find(kRows, name, &Row::name);
    if (row == std::end(kRows)) {
      fail(ErrorKind::kUnsupported, Fix{"give the program sizes without it"},
           "a size is a {} of others, which is not read", name);
    }
    std::vector<std::int64_t> values;
    while (!take(")")) {
      if (!values.empty() && !take(",")) malformed();
      values.push_back(sum());
    }
    if (values.size() < row->least || (row->least == 2 && values.size() > 2)) malformed();
    std::int64_t value = values[0];
    for (std::size_t i = 1; i < values.size(); ++i) value = apply(row->step, value, values[i]);
    return value;
  }

  // Symbol('s52', positive=True, integer=True)
  std::int64_t symbol() {
    if (!take("'")) malformed();
    const std::string name = word();
    const std::size_t end = text_.find(')', at_);
    if (!take("'") || end == std::string_view::npos) malformed();
    at_ = end + 1;
    return size_of_(name);
  }

  std::string_view text_;
  const SizeOf& size_of_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::int64_t size_in_text(std::string_view text, const SizeOf& size_of) {
  return SizeParser(text, size_of).whole();
}

std::string symbol_in_text(std::string_view text) {
  constexpr std::string_view kBegin = "Symbol('";
  if (text.starts_with(kBegin)) {
    const std::size_t end = text.find('\'', kBegin.size());
    if (end == std::string_view::npos || text.find(')') != text.size() - 1) return "";
    return std::string(text.substr(kBegin.size(), end - kBegin.size()));
  }
  const bool plain = !text.empty() && std::isalpha(static_cast<unsigned char>(text[0])) != 0 &&
                     std::ranges::all_of(text, [](char c) {
                       return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
                     });
  return plain ? std::string(text) : "";
}

}  // namespace shardlab
