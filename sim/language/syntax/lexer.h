// lexer.h - program text to tokens: a subset of Python 3's, with its indentation rules.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/language/syntax/source.h"

namespace shardlab {

/// kNewline ends a statement; kIndent and kDedent begin and end a block.
enum class TokenKind : std::uint8_t {
  kName,
  kKeyword,
  kInt,
  kFloat,
  kString,
  kFString,
  kOperator,
  kNewline,
  kIndent,
  kDedent,
  kEnd,
};

/// One token with its place; `integer` and `real` are the values of numbers.
struct Token {
  TokenKind kind = TokenKind::kEnd;
  SourceSpan span;
  std::string text;  ///< name, keyword, operator; a string's value; an f-string's raw body
  std::int64_t integer = 0;
  double real = 0;
  std::uint32_t body = 0;  ///< f-string: offset of its body in the source
};

/// The tokens of a text: a program has lines and indentation, an expression has neither.
enum class LexMode : std::uint8_t { kProgram, kExpression };

/// Tokens of source[range], the last one is kEnd. Brackets are checked to match and to nest at
/// most 200 deep, blocks at most 100 (Python's own limits).
///   fails  ScenarioError: unknown character, unfinished string, number out of range, tab or
///          inconsistent indentation, bracket that does not match
std::vector<Token> tokenize(const SourceText& source, SourceSpan range, LexMode mode);
/// Those of a whole text.
std::vector<Token> tokens_of(const SourceText& source, LexMode mode = LexMode::kProgram);

/// One past the string whose first quote is at text[at], f-strings in the fields of f-strings and
/// so on included; npos if it is never closed, or 50 strings are inside of each other.
std::size_t end_of_string(std::string_view text, std::size_t at, int depth = 0);
/// The same of a field of an f-string with this quote, which ends its format; text[at] is the first
/// character after its '{': the index of the '}' that closes it.
std::size_t end_of_field(std::string_view text, std::size_t at, std::string_view quote,
                         int depth = 0);

/// Decodes the escapes of a string body that starts at source offset `offset`.
///   fails  ScenarioError: an escape that does not exist
std::string decode_escapes(const SourceText& source, std::string_view body, std::uint32_t offset);

/// The words for a token in a message: "'x'", "a number", "the end of the line".
std::string describe(const Token& token);

}  // namespace shardlab
