// Names flow from the end of the program to its beginning, and around until no line is new.
#include "sim/edit/needed_lines.h"

#include <algorithm>

namespace shardlab {

namespace {

bool shares(const std::set<std::string>& some, const std::set<std::string>& others) {
  return std::ranges::any_of(some, [&](const std::string& one) { return others.contains(one); });
}

bool ends_early(const ProgramLine& line) {
  return line.text == "break" || line.text == "continue" || line.text.starts_with("return");
}

}  // namespace

NamesOfLine::NamesOfLine(const ProgramLine& line) {
  int depth = 0;
  bool assigns = false;
  for (const Token& token : tokens_of(SourceText("", line.text), LexMode::kExpression)) {
    if (token.kind == TokenKind::kName) {
      all.insert(token.text);
      if (!assigns) given.insert(token.text);
    }
    if (token.kind != TokenKind::kOperator) continue;
    if (token.text == "(" || token.text == "[" || token.text == "{") ++depth;
    if (token.text == ")" || token.text == "]" || token.text == "}") --depth;
    const bool compares =
        token.text == "==" || token.text == "<=" || token.text == ">=" || token.text == "!=";
    assigns = assigns || (depth == 0 && token.text.ends_with('=') && !compares);
  }
}

std::vector<bool> needed_lines(const ProgramLines& lines, const std::set<int>& wanted) {
  const std::vector<NamesOfLine> names(lines.begin(), lines.end());
  std::vector<bool> needed(lines.size());
  std::set<std::string> read;
  const auto need = [&](std::size_t i) {
    needed[i] = true;
    read.insert(names[i].all.begin(), names[i].all.end());
  };
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto& from = lines[i].from;
    if (std::ranges::any_of(from, [&](int one) { return wanted.contains(one); })) need(i);
  }
  for (bool more = true; more;) {
    more = false;
    for (std::size_t i = lines.size(); i-- > 0;) {
      if (needed[i]) continue;
      const std::size_t end = block_end(lines, i);
      const bool around = std::find(needed.begin() + static_cast<std::ptrdiff_t>(i),
                                    needed.begin() + static_cast<std::ptrdiff_t>(end),
                                    true) != needed.begin() + static_cast<std::ptrdiff_t>(end);
      if (!around && !shares(names[i].given, read) && !ends_early(lines[i])) continue;
      need(i);
      more = true;
    }
  }
  return needed;
}

}  // namespace shardlab
