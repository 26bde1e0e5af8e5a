// f-strings: the body between the quotes is cut into text and {fields}; fields are parsed in place,
// so that errors inside them point to the right column.
#include "sim/language/syntax/parser_state.h"

namespace shardlab {

namespace {

// The end of a field's expression: '}', ':', '!' or a '=' before one of these, outside of
// brackets and strings; or the end of the text.
std::size_t end_of_field_expression(std::string_view body, std::size_t from) {
  int open = 0;
  char quote = '\0';
  for (std::size_t i = from; i < body.size(); ++i) {
    const char c = body[i];
    const char after = i + 1 < body.size() ? body[i + 1] : '\0';
    if (quote != '\0') {
      if (c == quote) quote = '\0';
      continue;
    }
    if (c == '\'' || c == '"')
      quote = c;
    else if (c == '(' || c == '[' || c == '{')
      ++open;
    else if (open > 0 && (c == ')' || c == ']' || c == '}'))
      --open;
    else if (open > 0)
      continue;
    else if (c == '}' || c == ':')
      return i;
    else if ((c == '!' || c == '=' || c == '<' || c == '>') && after == '=')
      ++i;
    else if (c == '!')
      return i;
    else if (c == '=')
      return i;
  }
  return body.size();
}

}  // namespace

ast::FormatString::Part Parser::format_field(const Token& token, std::size_t& i) {
  const std::string_view body = token.text;
  const auto span_of = [&](std::size_t begin, std::size_t end) {
    const auto base = token.body;
    return SourceSpan{base + static_cast<std::uint32_t>(begin),
                      base + static_cast<std::uint32_t>(end)};
  };
  const std::size_t begin = i;
  const std::size_t end = end_of_field_expression(body, begin);
  if (end >= body.size()) {
    refuse(source_, span_of(begin - 1, begin), "'{' is never closed", "add '}'");
  }
  const std::string_view inner = body.substr(begin, end - begin);
  if (const auto bad = inner.find_first_of("\\#"); bad != std::string_view::npos) {
    refuse(source_, span_of(begin + bad, begin + bad + 1),
           "a backslash or a comment inside { } of an f-string",
           "compute the value in a statement before");
  }
  ast::FormatString::Part part;
  Parser parser(source_, tokenize(source_, span_of(begin, end), LexMode::kExpression),
                nesting_ + 1);
  part.expression = parser.whole_expression();
  i = end;
  if (body[i] == '=') {
    part.echo = std::string(inner) + "=";
    for (++i; i < body.size() && body[i] == ' '; ++i) part.echo += ' ';
  }
  if (i < body.size() && body[i] == '!') {
    const char letter = i + 1 < body.size() ? body[i + 1] : '\0';
    if (letter != 'r' && letter != 's') {
      refuse(source_, span_of(i, i + 1), "this conversion does not exist", "write !r, !s or none");
    }
    part.conversion = letter;
    i += 2;
  }
  if (i < body.size() && body[i] == ':') {
    const std::size_t close = body.find_first_of("{}", i);
    if (close != std::string_view::npos && body[close] == '{') {
      refuse_not_yet(source_, span_of(close, close + 1), "{ } inside a format",
                     "write the width or the precision as a number");
    }
    if (close != std::string_view::npos) {
      part.format = std::string(body.substr(i + 1, close - i - 1));
      i = close;
    }
  }
  if (i >= body.size() || body[i] != '}') {
    refuse(source_, span_of(begin - 1, begin), "this field is never closed", "add '}'");
  }
  ++i;
  if (!part.echo.empty() && part.conversion == 0 && part.format.empty()) part.conversion = 'r';
  return part;
}

void Parser::append_format(const Token& token, ast::FormatString& out) {
  const std::string_view body = token.text;
  std::string text;
  std::size_t i = 0;
  while (i < body.size()) {
    const char c = body[i];
    const bool doubled = i + 1 < body.size() && body[i + 1] == c;
    if (c == '{' && !doubled) {
      ++i;
      ast::FormatString::Part part = format_field(token, i);
      part.text = std::exchange(text, "");
      out.parts.push_back(std::move(part));
    } else if (c == '{' || c == '}') {
      const std::uint32_t at = token.body + static_cast<std::uint32_t>(i);
      if (!doubled) refuse(source_, {at, at + 1}, "'}' opens nothing", "write }} for a brace");
      text += c;
      i += 2;
    } else {
      const std::size_t stop = std::min(body.find_first_of("{}", i), body.size());
      text += decode_escapes(source_, body.substr(i, stop - i),
                             token.body + static_cast<std::uint32_t>(i));
      i = stop;
    }
  }
  if (!text.empty()) out.parts.push_back({.text = std::move(text)});
}

}  // namespace shardlab
