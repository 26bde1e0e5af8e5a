// line_edits.h - changes inside of a program's lines: parts of expressions that give way to smaller
// ones. Pure: text in, text out. Private to the files that edit.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/edit/program_lines.h"
#include "sim/language/syntax/ast.h"

namespace shardlab {

/// Bytes [begin, end) of a text give way to others.
struct TextEdit {
  SourceSpan span;
  std::string text;
};

/// The name and the value of `name = value`.
std::optional<std::pair<std::string, const ast::Expression*>> plain_assignment(
    const ast::Statement& statement);
/// The part of the text that the expression is, with the brackets that belong to it but not to its
/// span: "(a + b) * c".
SourceSpan whole_span(std::string_view text, const ast::Expression& expression);
/// An edit that puts one expression in the place of a part of the text, in brackets where it needs
/// them there, and without those around the place where it does not.
TextEdit put_expression(std::string_view text, SourceSpan place, std::string expression);

/// The text of a program, to write edits with.
struct ProgramText {
  explicit ProgramText(std::string_view text) : text(text) {}
  /// With the brackets that belong to it.
  std::string of(const ast::Expression& expression) const;
  /// An operand of the op that follows it.
  std::string operand(const ast::Expression& expression) const;
  TextEdit put(const ast::Expression& place, std::string expression) const;
  /// f(a, keyword=b) with one argument more, less or otherwise: an empty value leaves it out.
  std::string with_argument(const ast::Call& call, const std::string& keyword,
                            const std::string& value) const;

  const std::string_view text;
};

/// Smaller parts for each statement, the largest saving first. Places are those of
/// text_of(lines).
///   fails  ScenarioError: no program
std::vector<TextEdit> smaller_parts(const ProgramLines& lines);
/// Names that one statement gives a value, with what reads them in the place of the value; those
/// whose line would be longer than kLongestLine are left out.
std::vector<ProgramLines> folded(const ProgramLines& lines);
/// The edit, which is inside of one line, done.
ProgramLines edited(const ProgramLines& lines, const TextEdit& edit);

}  // namespace shardlab
