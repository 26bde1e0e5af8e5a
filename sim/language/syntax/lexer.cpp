// A hand-written scanner in one pass. Indentation becomes tokens from a stack of block widths;
// inside of brackets line ends have no meaning. Text that Python would read differently is refused
// and not guessed: tabs in indentation, leading zeros, unknown escapes.
#include "sim/language/syntax/lexer.h"

#include "sim/language/syntax/characters.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/read_real.h"

namespace shardlab {

namespace {

constexpr std::size_t kDeepestBrackets = 200;
constexpr std::size_t kDeepestBlocks = 100;

// Every keyword of Python 3, so that every accepted name is a name there, too.
constexpr std::array<std::string_view, 35> kKeywords = {
    "False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
    "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
    "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
    "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield"};

// Longer ones first: the first that matches is taken.
constexpr std::array<std::string_view, 47> kOperators = {
    "...", "**=", "//=", ">>=", "<<=", "->", ":=", "**", "//", "<<", ">>", "<=",
    ">=",  "==",  "!=",  "+=",  "-=",  "*=", "/=", "%=", "@=", "&=", "|=", "^=",
    "+",   "-",   "*",   "/",   "%",   "@",  "&",  "|",  "^",  "~",  "<",  ">",
    "(",   ")",   "[",   "]",   "{",   "}",  ",",  ":",  ".",  ";",  "="};

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_part(char c) { return is_name_start(c) || is_digit(c); }

char closing_of(char open) { return open == '(' ? ')' : open == '[' ? ']' : '}'; }

// A place in the text, and the numbers and strings that begin there.
class Literals {
 protected:
  Literals(const SourceText& source, SourceSpan range)
      : source_(source), text_(source.text()), at_(range.begin), end_(range.end) {}

  char peek(std::uint32_t ahead = 0) const {
    return at_ + ahead < end_ ? text_[at_ + ahead] : '\0';
  }
  SourceSpan here(std::uint32_t length = 1) const { return {at_, std::min(at_ + length, end_)}; }

  // Digits with single underscores between them; returns them without.
  std::string digits(bool (*wanted)(char)) {
    std::string out;
    while (wanted(peek()) || (peek() == '_' && wanted(peek(1)) && !out.empty())) {
      if (peek() != '_') out += peek();
      ++at_;
    }
    return out;
  }

  Token number() {
    const std::uint32_t start = at_;
    if (peek() == '0' && (peek(1) == 'x' || peek(1) == 'o' || peek(1) == 'b' || peek(1) == 'X' ||
                          peek(1) == 'O' || peek(1) == 'B')) {
      return based_integer(start);
    }
    std::string value = digits(is_digit);
    bool real = false;
    if (peek() == '.') {
      real = true;
      value += '.';
      ++at_;
      value += digits(is_digit);
    }
    if (peek() == 'e' || peek() == 'E') {
      const bool sign = peek(1) == '+' || peek(1) == '-';
      if (is_digit(peek(sign ? 2 : 1))) {
        real = true;
        value += 'e';
        if (sign) value += peek(1);
        at_ += sign ? 2 : 1;
        value += digits(is_digit);
      }
    }
    if (is_name_part(peek())) refuse_number(start);
    if (real) return real_number(start, value);
    if (value.size() > 1 && value[0] == '0' && value.find_first_not_of('0') != std::string::npos) {
      refuse(source_, {start, at_}, "a whole number does not start with 0",
             "leave the zeros out, or write 0o for octal");
    }
    return integer(start, value, 10);
  }

  [[noreturn]] void refuse_number(std::uint32_t start) {
    const bool imaginary = (peek() == 'j' || peek() == 'J') && !is_name_part(peek(1));
    if (imaginary) {
      refuse_not_yet(source_, {start, at_ + 1}, "complex numbers in programs",
                     "keep the real and the imaginary part in two tensors");
    }
    refuse(source_, {start, at_ + 1}, "this is not a number", "put a blank or an operator between");
  }

  Token based_integer(std::uint32_t start) {
    const char letter = static_cast<char>(peek(1) | 0x20);
    at_ += peek(2) == '_' ? 3 : 2;
    const std::string value = digits(
        [](char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); });
    if (value.empty() || is_name_part(peek())) refuse_number(start);
    return integer(start, value, letter == 'x' ? 16 : letter == 'o' ? 8 : 2);
  }

  Token integer(std::uint32_t start, const std::string& value, int base) {
    Token token{.kind = TokenKind::kInt, .span = {start, at_}};
    const char* last = value.data() + value.size();
    const auto [stop, fault] = std::from_chars(value.data(), last, token.integer, base);
    if (fault == std::errc::result_out_of_range) {
      refuse(source_, token.span, "this number does not fit into 64 bits",
             "use numbers below 2^63, or a float: 1e20");
    }
    if (stop != last) {
      refuse(source_, token.span, "this base does not have that digit",
             "0x takes 0-9 and a-f, 0o takes 0-7, 0b takes 0 and 1");
    }
    return token;
  }

  Token real_number(std::uint32_t start, const std::string& value) {
    Token token{.kind = TokenKind::kFloat, .span = {start, at_}};
    const char* last = value.data() + value.size();
    const auto [stop, fault] = read_real(value.data(), last, token.real);
    if (fault == std::errc::result_out_of_range)
      token.real = out_of_range(value);
    else if (stop != last) {
      refuse(source_, token.span, "this is not a number", "write it as 1.5 or 1e-3");
    }
    return token;
  }

  // Python takes 1e999 as infinity, 1e-999 as zero.
  static double out_of_range(const std::string& value) {
    return value.find("e-") == std::string::npos ? HUGE_VAL : 0.0;
  }

  // Letters before the quote of a string (0 to 2), or -1 when no string starts here.
  int string_prefix() const {
    for (std::uint32_t length = 0; length <= 2; ++length) {
      const char c = peek(length);
      if (c == '"' || c == '\'') return static_cast<int>(length);
      if (!is_name_start(c)) return -1;
    }
    return -1;
  }

  Token string(int prefix_length) {
    const std::uint32_t start = at_;
    bool raw = false, format = false;
    for (int i = 0; i < prefix_length; ++i) {
      const char letter = static_cast<char>(peek() | 0x20);
      const bool fresh = (letter == 'r' && !raw) || (letter == 'f' && !format);
      if (!fresh) {
        refuse(source_, here(),
               fmt::format("strings with the prefix '{}' are not supported",
                           text_.substr(start, prefix_length)),
               "use no prefix, r or f");
      }
      raw = raw || letter == 'r';
      format = format || letter == 'f';
      ++at_;
    }
    const std::uint32_t quotes = peek(1) == peek() && peek(2) == peek() ? 3 : 1;
    const std::string_view quote = text_.substr(at_, quotes);
    at_ += quotes;
    const std::uint32_t body = at_;
    const std::string_view content = string_body(start, quote, format);
    Token token{.kind = format ? TokenKind::kFString : TokenKind::kString, .span = {start, at_}};
    token.body = body;
    if (format && raw) {
      refuse(source_, token.span, "strings with the prefix 'rf' are not supported",
             "use f, and write \\\\ for a backslash");
    }
    token.text = raw || format ? std::string(content) : decode_escapes(source_, content, body);
    return token;
  }

  // Strings in the fields of an f-string may have its quotes, as since Python 3.12. A '{' that no
  // '}' closes is like any other character, and so are those after it.
  std::string_view string_body(std::uint32_t start, std::string_view quote, bool fields) {
    const std::uint32_t body = at_;
    while (at_ < end_) {
      if (fields && text_[at_] == '{') {
        const std::size_t close =
            peek(1) == '{' ? at_ + 1 : end_of_field(text_.substr(0, end_), at_ + 1, quote);
        const std::string_view field = text_.substr(at_, close - at_);
        fields = close != std::string_view::npos &&
                 (quote.size() == 3 || field.find('\n') == std::string_view::npos);
        if (fields) at_ = static_cast<std::uint32_t>(close);
        at_ += 1;
        continue;
      }
      if (text_.substr(at_, end_ - at_).starts_with(quote)) {
        const std::string_view content = text_.substr(body, at_ - body);
        at_ += static_cast<std::uint32_t>(quote.size());
        return content;
      }
      if (quote.size() == 1 && text_[at_] == '\n') break;
      at_ += text_[at_] == '\\' ? 2 : 1;
    }
    refuse(source_, {start, start + 1}, "this string is never closed",
           fmt::format("add {}", quote));
  }

  const SourceText& source_;
  std::string_view text_;
  std::uint32_t at_;
  std::uint32_t end_;
};

class Lexer : Literals {
 public:
  Lexer(const SourceText& source, SourceSpan range, LexMode mode)
      : Literals(source, range), mode_(mode) {}

  std::vector<Token> run() {
    check_line_ends();
    bool line_start = mode_ == LexMode::kProgram;
    while (true) {
      if (line_start && open_.empty() && !skip_to_statement()) break;
      line_start = false;
      skip_blanks();
      if (at_ >= end_) break;
      if (text_[at_] == '\n') {
        end_line();
        line_start = mode_ == LexMode::kProgram;
      } else {
        token();
      }
    }
    finish();
    return std::move(tokens_);
  }

 private:
  // Python ends a line at a lone carriage return, editors and messages do not.
  void check_line_ends() {
    for (std::uint32_t i = at_; i < end_; ++i) {
      if (text_[i] != '\r' || (i + 1 < end_ && text_[i + 1] == '\n')) continue;
      refuse(source_, {i, i + 1}, "a carriage return without a newline",
             "end each line with a newline");
    }
  }

  void push(TokenKind kind, SourceSpan span, std::string text = "") {
    tokens_.push_back({.kind = kind, .span = span, .text = std::move(text)});
  }

  // Blank lines and comments have no indentation; the first statement after them does.
  bool skip_to_statement() {
    while (at_ < end_) {
      const std::uint32_t start = at_;
      while (peek() == ' ') ++at_;
      if (peek() == '\t') refuse(source_, here(), "a tab in the indentation", "indent with spaces");
      if (peek() == '\r' && peek(1) == '\n') ++at_;
      if (peek() == '#') skip_comment();
      if (at_ >= end_) return false;
      if (peek() == '\n') {
        ++at_;
        continue;
      }
      indent(at_ - start);
      return true;
    }
    return false;
  }

  void indent(std::uint32_t width) {
    if (width > blocks_.back()) {
      if (blocks_.size() > kDeepestBlocks) {
        refuse(source_, here(), fmt::format("blocks are nested deeper than {}", kDeepestBlocks),
               "move inner blocks into a function");
      }
      blocks_.push_back(width);
      push(TokenKind::kIndent, here());
    }
    while (width < blocks_.back()) {
      blocks_.pop_back();
      push(TokenKind::kDedent, here());
    }
    if (width != blocks_.back()) {
      refuse(source_, here(), "this indentation matches no outer block",
             "align it with the block it belongs to");
    }
  }

  void skip_comment() {
    while (at_ < end_ && text_[at_] != '\n') ++at_;
  }

  void skip_blanks() {
    while (at_ < end_) {
      const char c = text_[at_];
      const bool joined = c == '\n' && (!open_.empty() || mode_ == LexMode::kExpression);
      const bool continued = c == '\\' && peek(1) == '\n';
      if (continued && at_ + 2 >= end_) {
        refuse(source_, here(), "nothing follows a backslash that continues the line",
               "leave the backslash out");
      }
      if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || joined)
        ++at_;
      else if (continued)
        at_ += 2;
      else if (c == '#') {
        skip_comment();
      } else
        return;
    }
  }

  void end_line() {
    push(TokenKind::kNewline, here());
    ++at_;
  }

  void finish() {
    if (!open_.empty()) {
      const std::uint32_t bracket = open_.back();
      refuse(source_, {bracket, bracket + 1}, fmt::format("'{}' is never closed", text_[bracket]),
             fmt::format("add '{}'", closing_of(text_[bracket])));
    }
    if (mode_ == LexMode::kProgram) {
      if (!tokens_.empty() && tokens_.back().kind != TokenKind::kNewline) {
        push(TokenKind::kNewline, {end_, end_});
      }
      for (; blocks_.size() > 1; blocks_.pop_back()) push(TokenKind::kDedent, {end_, end_});
    }
    push(TokenKind::kEnd, {end_, end_});
  }

  void token() {
    const char c = peek();
    if (is_digit(c) || (c == '.' && is_digit(peek(1)))) return tokens_.push_back(number());
    if (const int quote = string_prefix(); quote >= 0) return tokens_.push_back(string(quote));
    if (is_name_start(c)) return name();
    op();
  }

  void name() {
    const std::uint32_t start = at_;
    while (is_name_part(peek())) ++at_;
    if (static_cast<unsigned char>(peek()) >= 0x80) {
      refuse_lookalike();
      refuse(source_, here(), "a name has a character that is not an ASCII letter, a digit or '_'",
             "write the name with a-z, A-Z, 0-9 and _");
    }
    std::string word(text_.substr(start, at_ - start));
    const bool keyword = std::ranges::find(kKeywords, word) != kKeywords.end();
    push(keyword ? TokenKind::kKeyword : TokenKind::kName, {start, at_}, std::move(word));
  }

  void op() {
    const std::string_view rest = text_.substr(at_, end_ - at_);
    // The first character decides nearly always, and costs no call.
    const auto found = std::ranges::find_if(
        kOperators, [&](std::string_view op) { return op[0] == rest[0] && rest.starts_with(op); });
    if (found == kOperators.end()) refuse_character();
    const char first = (*found)[0];
    if (first == '(' || first == '[' || first == '{') open();
    if (first == ')' || first == ']' || first == '}') close(first);
    push(TokenKind::kOperator, here(static_cast<std::uint32_t>(found->size())),
         std::string(*found));
    at_ += static_cast<std::uint32_t>(found->size());
  }

  // Characters of editors and web pages that look like others.
  void refuse_lookalike() const {
    struct Row {
      std::string_view bytes;
      const char *name, *fix;
    };
    constexpr const char *kSpace = "write a space", *kQuote = "write ' or \"";
    constexpr Row kRows[] = {
        {"\u00a0", "a no-break space", kSpace}, {"\u202f", "a narrow no-break space", kSpace},
        {"\u3000", "a wide space", kSpace},     {"\u2018", "a curly quote", kQuote},
        {"\u2019", "a curly quote", kQuote},    {"\u201c", "a curly quote", kQuote},
        {"\u201d", "a curly quote", kQuote},    {"\u2212", "a typographic minus", "write -"},
        {"\u2013", "a dash", "write -"},        {"\ufeff", "a byte order mark", "remove it"},
    };
    for (const Row& row : kRows) {
      if (text_.substr(at_, end_ - at_).starts_with(row.bytes))
        refuse(source_, here(), row.name, row.fix);
    }
  }

  [[noreturn]] void refuse_character() {
    refuse_lookalike();
    const char c = peek();
    const bool printable = c > ' ' && c < 0x7F;
    refuse(source_, here(),
           printable ? fmt::format("'{}' means nothing here", c)
                     : std::string("this character means nothing outside of strings"),
           "remove it, or write it inside a string");
  }

  void open() {
    if (open_.size() >= kDeepestBrackets) {
      refuse(source_, here(), fmt::format("brackets are nested deeper than {}", kDeepestBrackets),
             "compute the inner parts in statements of their own");
    }
    open_.push_back(at_);
  }

  void close(char bracket) {
    if (open_.empty()) {
      refuse(source_, here(), fmt::format("'{}' closes nothing", bracket),
             "remove it, or open it before");
    }
    const char wanted = closing_of(text_[open_.back()]);
    if (wanted != bracket) {
      refuse(source_, here(),
             fmt::format("'{}' does not close '{}' of line {}", bracket, text_[open_.back()],
                         source_.place(open_.back()).line),
             fmt::format("write '{}'", wanted));
    }
    open_.pop_back();
  }

  LexMode mode_;
  std::vector<Token> tokens_;
  std::vector<std::uint32_t> open_;          // offsets of the brackets that are open
  std::vector<std::uint32_t> blocks_ = {0};  // widths of the blocks that are open
};

int hex_digits(char letter) {
  return letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
}

}  // namespace

std::vector<Token> tokenize(const SourceText& source, SourceSpan range, LexMode mode) {
  return Lexer(source, range, mode).run();
}

std::vector<Token> tokens_of(const SourceText& source, LexMode mode) {
  return tokenize(source, {0, static_cast<std::uint32_t>(source.text().size())}, mode);
}

void append_utf8(std::string& out, std::uint32_t code) {
  const auto byte = [&](std::uint32_t value) { out += static_cast<char>(value); };
  const auto tail = [&](int shift) { byte(0x80u | ((code >> shift) & 0x3Fu)); };
  if (code < 0x80) return byte(code);
  if (code < 0x800) return byte(0xC0u | (code >> 6)), tail(0);
  if (code < 0x10000) return byte(0xE0u | (code >> 12)), tail(6), tail(0);
  byte(0xF0u | (code >> 18)), tail(12), tail(6), tail(0);
}

std::size_t end_of_field(std::string_view text, std::size_t at, std::string_view quote, int depth) {
  int open = 0;
  for (std::size_t i = at; i < text.size(); ++i) {
    const char c = text[i];
    const char after = i + 1 < text.size() ? text[i + 1] : '\0';
    if (c == '\'' || c == '"') {
      i = end_of_string(text, i, depth + 1);
      if (i == std::string_view::npos) return i;
      --i;
    } else if (c == '(' || c == '[' || c == '{') {
      ++open;
    } else if (open > 0 && (c == ')' || c == ']' || c == '}')) {
      --open;
    } else if (c == '}' && open == 0) {
      return i;
    } else if (open == 0 && (c == ':' || (c == '!' && after != '='))) {
      // The format: text, in which quotes are nothing special, and fields.
      for (++i; i < text.size() && text[i] != '}'; ++i) {
        if (depth > 50 || text.substr(i).starts_with(quote)) return std::string_view::npos;
        if (text[i] != '{') continue;
        i = end_of_field(text, i + 1, quote, depth + 1);
        if (i == std::string_view::npos) return i;
      }
      return i < text.size() ? i : std::string_view::npos;
    }
  }
  return std::string_view::npos;
}

std::size_t end_of_string(std::string_view text, std::size_t at, int depth) {
  if (depth > 50) return std::string_view::npos;
  const bool triple = text.substr(at, 3) == std::string(3, text[at]);
  const std::string_view quote = text.substr(at, triple ? 3 : 1);
  const auto is_f = [&](std::size_t back) { return at >= back && (text[at - back] | 0x20) == 'f'; };
  const bool fields = is_f(1) || (is_f(2) && (text[at - 1] | 0x20) == 'r');
  for (std::size_t i = at + quote.size(); i < text.size(); ++i) {
    const char after = i + 1 < text.size() ? text[i + 1] : '\0';
    if (text.substr(i).starts_with(quote)) return i + quote.size();
    if (!triple && text[i] == '\n') break;
    if (text[i] == '\\' || (fields && text[i] == '{' && after == '{')) {
      ++i;
    } else if (fields && text[i] == '{') {
      i = end_of_field(text, i + 1, quote, depth + 1);
      if (i == std::string_view::npos) return i;
    }
  }
  return std::string_view::npos;
}

std::string decode_escapes(const SourceText& source, std::string_view body, std::uint32_t offset) {
  constexpr std::string_view kLetters = "\\'\"ntrabfv0";
  constexpr std::string_view kMeanings("\\'\"\n\t\r\a\b\f\v\0", 11);
  std::string out;
  for (std::size_t i = 0; i < body.size(); ++i) {
    if (body[i] != '\\') {
      out += body[i];
      continue;
    }
    const std::uint32_t at = offset + static_cast<std::uint32_t>(i);
    const char letter = ++i < body.size() ? body[i] : '\0';
    if (letter == '\n') continue;
    if (const int count = hex_digits(letter); count > 0) {
      std::uint32_t code = 0;
      const std::string_view hex = body.substr(i + 1, static_cast<std::size_t>(count));
      const auto [stop, fault] = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
      const bool surrogate = code >= 0xD800 && code < 0xE000;
      if (fault != std::errc() || stop != hex.data() + count || code > 0x10FFFF || surrogate) {
        refuse(source, {at, at + 2},
               fmt::format("\\{} needs {} hexadecimal digits of a character", letter, count),
               "write the character itself");
      }
      append_utf8(out, code);
      i += static_cast<std::size_t>(count);
      continue;
    }
    const bool octal = letter == '0' && i + 1 < body.size() && is_digit(body[i + 1]);
    const std::size_t known = kLetters.find(letter);
    if (octal || known == std::string_view::npos) {
      refuse(source, {at, at + 2}, "this escape does not exist", "write \\\\ for a backslash");
    }
    out += kMeanings[known];
  }
  return out;
}

std::string describe(const Token& token) {
  using enum TokenKind;
  if (token.kind == kInt || token.kind == kFloat) return "a number";
  if (token.kind == kString || token.kind == kFString) return "a string";
  if (token.kind == kNewline) return "the end of the line";
  if (token.kind == kIndent) return "an indented line";
  if (token.kind == kDedent) return "the end of the block";
  return token.kind == kEnd ? "the end of the text" : fmt::format("'{}'", token.text);
}

}  // namespace shardlab
