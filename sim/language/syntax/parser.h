// parser.h - program text to a syntax tree. Accepted text parses in Python 3, to the same tree.
#pragma once

#include "sim/language/syntax/ast.h"

namespace shardlab {

/// Parses a whole program.
///   fails  ScenarioError: syntax, or Python that is outside the subset (the message names it)
ast::Program parse_program(SourcePtr source);

/// Parses one expression; nothing may follow it.
///   fails  as parse_program
ast::ExpressionPtr parse_expression(const SourceText& source);
/// The same for a part of a text.
ast::ExpressionPtr parse_expression(const SourceText& source, SourceSpan range);

}  // namespace shardlab
