// Names with calls and methods behind them, numbers, texts, None and lists: nothing nests deeper
// than the ranks of a mesh.
#include "tests/support/read_expression.h"

#include <cctype>
#include <charconv>

#include "base/error.h"
#include "base/read_real.h"

namespace shardlab {

namespace {

constexpr int kDeepestList = 16;

class ExpressionReader {
 public:
  ExpressionReader(std::string_view text, Emitter& into) : text_(text), into_(into) {}

  void whole() {
    expression();
    skip();
    if (at_ != text_.size()) refuse("nothing behind the expression");
  }

 private:
  [[noreturn]] void refuse(std::string_view expected) const {
    fail(Fix{"give a text that a graph has, such as Shard(0)"},
         "\"{}\" is not an expression of an object: {} is expected at byte {}", text_, expected,
         at_);
  }

  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  char next() {
    skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (next() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) refuse(fmt::format("'{}'", c));
  }

  static bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
  static bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

  std::string_view word() {
    skip();
    const std::size_t begin = at_;
    while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) ++at_;
    if (begin == at_) refuse("a name");
    return text_.substr(begin, at_ - begin);
  }

  void expression() {
    if (!is_letter(next())) return into_.constant(literal(0));
    const std::size_t begin = at_;
    const std::string_view name = word();
    if (name == "None") return into_.constant({});
    if (name == "True" || name == "False") return into_.constant(name == "True");
    if (name == "group" && take('.')) {
      word();
      into_.load(text_.substr(begin, at_ - begin));
    } else {
      into_.load(name);
      if (take('(')) into_.call(arguments());
    }
    while (take('.')) {
      const std::string_view method = word();
      expect('(');
      into_.method(method, arguments());
    }
  }

  // Behind the opening parenthesis; how many there are.
  std::size_t arguments() {
    std::size_t count = 0;
    if (take(')')) return count;
    do {
      // Constants alone: the callee is a class.
      into_.constant(literal(0));
      ++count;
    } while (take(','));
    expect(')');
    return count;
  }

  Argument literal(int depth) {
    const char c = next();
    if (c == '[') return list(depth);
    if (c == '"') return quoted();
    if (c == '-' || is_digit(c)) return number();
    const std::string_view name = word();
    if (name == "None") return {};
    if (name == "True" || name == "False") return name == "True";
    refuse("a number, a text, None or a list");
  }

  Argument quoted() {
    const std::size_t end = text_.find('"', at_ + 1);
    if (end == std::string_view::npos) refuse("a closing quote");
    const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return std::string(inside);
  }

  Argument number() {
    const char* const end = text_.data() + text_.size();
    std::int64_t whole = 0;
    double real = 0;
    const auto as_whole = std::from_chars(text_.data() + at_, end, whole);
    const auto as_real = read_real(text_.data() + at_, end, real);
    if (as_real.ec != std::errc()) refuse("a number");
    const bool is_whole = as_whole.ec == std::errc() && as_whole.ptr == as_real.ptr;
    at_ = static_cast<std::size_t>(as_real.ptr - text_.data());
    return is_whole ? Argument(whole) : Argument(real);
  }

  // Reads whole numbers as sizes, anything else as a list.
  Argument list(int depth) {
    if (depth == kDeepestList) refuse("fewer lists inside of each other");
    expect('[');
    ArgumentList items;
    while (!take(']')) {
      if (!items.empty()) expect(',');
      items.push_back(literal(depth + 1));
    }
    Dims sizes;
    for (const Argument& item : items) {
      if (!item.is_scalar() || item.scalar().category() != Category::kInteger) return items;
      sizes.push_back(item.to_int());
    }
    return sizes;
  }

  std::string_view text_;
  Emitter& into_;
  std::size_t at_ = 0;
};

}  // namespace

void read_expression(std::string_view text, Emitter& into) { ExpressionReader(text, into).whole(); }

}  // namespace shardlab
