// The scanner's tokens say where statements end and blocks begin, so that brackets, strings and
// comments need no second look.
#include "sim/edit/program_lines.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "sim/files/text_lines.h"

namespace shardlab {

namespace {

constexpr std::array<std::string_view, 11> kHeaders = {
    "if", "elif", "else", "for", "while", "def", "with", "class", "try", "except", "finally"};

struct Splitter {
  ProgramLines lines() {
    tokens_ = tokens_of(source_);
    for (at_ = 0; at_ < tokens_.size(); ++at_) take(tokens_[at_]);
    return std::move(lines_);
  }

  void take(const Token& token) {
    using enum TokenKind;
    if (token.kind == kIndent || token.kind == kDedent) {
      indent_ += token.kind == kIndent ? 1 : -1;
      return;
    }
    if (token.kind == kNewline || token.kind == kEnd) {
      finish();
      inline_block_ = false;
      return;
    }
    if (token.text == ";" && token.kind == TokenKind::kOperator) return finish();
    append(token);
    if (token.kind != TokenKind::kOperator) return;
    if (token.text == "(" || token.text == "[" || token.text == "{") ++depth_;
    if (token.text == ")" || token.text == "]" || token.text == "}") --depth_;
    const bool body_follows = tokens_[at_ + 1].kind != TokenKind::kNewline;
    if (token.text == ":" && depth_ == 0 && is_header_ && body_follows) {
      finish();
      inline_block_ = true;
    }
  }

  void append(const Token& token) {
    if (text_.empty()) {
      is_header_ = token.kind == TokenKind::kKeyword &&
                   std::ranges::find(kHeaders, token.text) != kHeaders.end();
    } else {
      const std::string_view between = source_.text({last_, token.span.begin});
      const bool broken = between.find('\n') != std::string_view::npos;
      const bool opens = std::string_view("([{").find(text_.back()) != std::string_view::npos;
      const bool closes = token.text == ")" || token.text == "]" || token.text == "}";
      if (!broken) {
        text_ += between;
      } else if (!opens && !closes) {
        text_ += ' ';
      }
    }
    text_ += source_.text(token.span);
    last_ = token.span.end;
  }

  void finish() {
    if (text_.empty()) return;
    const int number = static_cast<int>(lines_.size());
    lines_.push_back({indent_ + (inline_block_ ? 1 : 0), text_, {number}});
    text_.clear();
    is_header_ = false;
  }

  const SourceText& source_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  ProgramLines lines_;
  std::string text_;
  std::uint32_t last_ = 0;  ///< end of the token before
  int indent_ = 0, depth_ = 0;
  bool is_header_ = false;
  bool inline_block_ = false;  ///< the body of a header, behind its colon
};

bool continues(const ProgramLine& line) {
  constexpr std::array kWords = {"elif ", "elif(", "else:", "except:", "except ", "finally:"};
  return std::ranges::any_of(kWords, [&](const char* word) { return line.text.starts_with(word); });
}

bool opens_block(const ProgramLine& line) { return line.text.ends_with(':'); }

}  // namespace

ProgramLines lines_of(const SourceText& program) { return Splitter{program}.lines(); }

std::string text_of(const ProgramLines& lines) {
  std::string out;
  for (const ProgramLine& line : lines) {
    out +=
        std::string(kIndentation * static_cast<std::size_t>(line.indent), ' ') + line.text + "\n";
  }
  return out;
}

void replace_tokens(ProgramLines& lines, const std::function<bool(const Token&)>& is,
                    const std::string& text) {
  for (ProgramLine& line : lines) {
    const std::vector<Token> tokens = tokens_of(SourceText("", line.text), LexMode::kExpression);
    for (std::size_t i = tokens.size(); i-- > 0;) {
      const bool attribute = i > 0 && tokens[i - 1].text == ".";
      if (attribute || !is(tokens[i])) continue;
      const SourceSpan span = tokens[i].span;
      line.text.replace(span.begin, span.end - span.begin, text);
    }
  }
}

std::size_t block_end(const ProgramLines& lines, std::size_t header) {
  std::size_t end = header + 1;
  while (end < lines.size() && lines[end].indent > lines[header].indent) ++end;
  return end;
}

std::size_t statement_end(const ProgramLines& lines, std::size_t begin) {
  if (lines[begin].text.starts_with('@') && begin + 1 < lines.size()) {
    return statement_end(lines, begin + 1);
  }
  std::size_t end = block_end(lines, begin);
  const auto more = [&] {
    return end < lines.size() && lines[end].indent == lines[begin].indent && continues(lines[end]);
  };
  while (!continues(lines[begin]) && more()) end = block_end(lines, end);
  return end;
}

ProgramLines without(const ProgramLines& lines, std::size_t begin, std::size_t end) {
  ProgramLines out(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(begin));
  std::size_t at = begin;
  while (at < end && at < lines.size()) at = statement_end(lines, at);
  out.insert(out.end(), lines.begin() + static_cast<std::ptrdiff_t>(at), lines.end());
  // From the end, since a header that is dropped may leave another one empty.
  for (std::size_t i = out.size(); i-- > 0;) {
    if (!opens_block(out[i]) || block_end(out, i) > i + 1) continue;
    const auto place = out.begin() + static_cast<std::ptrdiff_t>(i);
    if (statement_end(out, i) == i + 1) {
      out.erase(place);
    } else {
      out.insert(place + 1, {out[i].indent + 1, "pass", {}});
    }
  }
  return out;
}

// Lines are numbered by the file that the program is in.

std::vector<ChangedLines> changed_lines(const SourceText& program, const std::string& edited) {
  const std::vector<std::string> before = lines_in(program.text()), after = lines_in(edited);
  // The most lines that both have from here on, in their order.
  const std::size_t width = after.size() + 1;
  std::vector<std::size_t> common((before.size() + 1) * width);
  for (std::size_t i = before.size(); i-- > 0;) {
    for (std::size_t j = after.size(); j-- > 0;) {
      const std::size_t below = (i + 1) * width + j;
      common[i * width + j] = before[i] == after[j]
                                  ? common[below + 1] + 1
                                  : std::max(common[below], common[i * width + j + 1]);
    }
  }
  std::vector<ChangedLines> changes;
  bool open = false;
  for (std::size_t i = 0, j = 0; i < before.size() || j < after.size();) {
    const bool both = i < before.size() && j < after.size();
    if (both && before[i] == after[j]) {
      open = false;
      ++i, ++j;
      continue;
    }
    if (!open) changes.push_back({program.place(0).line + static_cast<std::int64_t>(i), {}, {}});
    open = true;
    const bool goes =
        j == after.size() || (both && common[(i + 1) * width + j] >= common[i * width + j + 1]);
    if (goes) {
      changes.back().before.push_back(before[i++]);
    } else {
      changes.back().after.push_back(after[j++]);
    }
  }
  return changes;
}

std::string changes_text(const std::vector<ChangedLines>& changes, Color color) {
  std::string out;
  for (const auto& [line, before, after] : changes) {
    for (const std::string& one : before) out += paint("  - " + one, Ink::kBad, color) + "\n";
    for (const std::string& one : after) out += paint("  + " + one, Ink::kGood, color) + "\n";
  }
  return out;
}

}  // namespace shardlab
