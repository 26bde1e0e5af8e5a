// program_lines.h - the text of a program as a list of lines that can be taken out one by one, a
// statement a line; and an edit of a text as lines before and after, for people and for programs
// that make it (pure).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/language/syntax/lexer.h"
#include "sim/language/syntax/source.h"
#include "sim/report/paint.h"

namespace shardlab {

/// A statement, or the header of a block; the block are the lines below it that are indented more.
struct ProgramLine {
  int indent = 0;         ///< in blocks
  std::string text;       ///< without indentation and end; several lines where a string has them
  std::vector<int> from;  ///< the lines of the first text that it has parts of, from 0
};
using ProgramLines = std::vector<ProgramLine>;

// Limits of text that is written out, in characters: the longest line, and a step of indentation.
inline constexpr std::size_t kLongestLine = 110;
inline constexpr std::size_t kIndentation = 4;

/// Statements that share a line have one each, those that are broken are joined. Comments go.
///   fails  ScenarioError: as the parser, of what is no token
ProgramLines lines_of(const SourceText& program);
std::string text_of(const ProgramLines& lines);
/// Tokens of the lines give way to a text; no names of attributes do.
void replace_tokens(ProgramLines& lines, const std::function<bool(const Token&)>& is,
                    const std::string& text);

/// The end of the block below a header; of any other line, the next one.
std::size_t block_end(const ProgramLines& lines, std::size_t header);
/// The end of a statement that begins here, with its block, its `elif` and `else`, and the def that
/// a decorator is for.
std::size_t statement_end(const ProgramLines& lines, std::size_t begin);
/// Without the statements that begin in [begin, end); headers whose block is then empty go, too.
ProgramLines without(const ProgramLines& lines, std::size_t begin, std::size_t end);

/// Lines of the program before and after, all of them different; either may be none.
struct ChangedLines {
  std::int64_t line = 0;  ///< of the file: the first, before the edit
  std::vector<std::string> before, after;
};

/// In order, with the fewest lines. Time and memory as the product of both numbers of lines.
std::vector<ChangedLines> changed_lines(const SourceText& program, const std::string& edited);

/// Those that go and those that come, each behind its sign.
std::string changes_text(const std::vector<ChangedLines>& changes, Color color);

}  // namespace shardlab
