// f-strings: the body between the quotes is cut into text and {fields}; fields are parsed in place,
// so that errors inside them point to the right column.
#include "sim/language/syntax/parser_state.h"

namespace shardlab {

namespace {

struct FieldExpression {
  std::size_t end;  // of its text: '}', ':', '!' or a '=' before one of these, or the body's end
  std::size_t bad;  // a backslash or a comment outside of strings, or npos
};

FieldExpression field_expression(std::string_view body, std::size_t from) {
  FieldExpression field{body.size(), std::string_view::npos};
  int open = 0;
  for (std::size_t i = from; i < body.size(); ++i) {
    const char c = body[i];
    const char after = i + 1 < body.size() ? body[i + 1] : '\0';
    if (c == '\'' || c == '"') {
      const std::size_t end = end_of_string(body, i);
      if (end == std::string_view::npos) break;
      i = end - 1;
    } else if (c == '\\' || c == '#') {
      field.bad = std::min(field.bad, i);
    } else if (c == '(' || c == '[' || c == '{') {
      ++open;
    } else if (open > 0) {
      open -= c == ')' || c == ']' || c == '}' ? 1 : 0;
    } else if ((c == '!' || c == '=' || c == '<' || c == '>') && after == '=') {
      ++i;
    } else if (c == '}' || c == ':' || c == '!' || c == '=') {
      field.end = i;
      break;
    }
  }
  return field;
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
  const auto [end, bad] = field_expression(body, begin);
  if (end >= body.size()) {
    refuse(source_, span_of(begin - 1, begin), "'{' is never closed", "add '}'");
  }
  const std::string_view inner = body.substr(begin, end - begin);
  if (bad < end) {
    refuse(source_, span_of(bad, bad + 1), "a backslash or a comment inside { } of an f-string",
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
    const std::size_t from = ++i;
    ast::FormatString format;
    append_parts(token, i, true, format);
    if (i > from) part.format = make(span_of(from, i), std::move(format));
  }
  if (i >= body.size() || body[i] != '}') {
    refuse(source_, span_of(begin - 1, begin), "this field is never closed", "add '}'");
  }
  ++i;
  if (!part.echo.empty() && part.conversion == 0 && !part.format) part.conversion = 'r';
  return part;
}

void Parser::append_format(const Token& token, ast::FormatString& out) {
  std::size_t i = 0;
  append_parts(token, i, false, out);
}

void Parser::append_parts(const Token& token, std::size_t& i, bool in_field,
                          ast::FormatString& out) {
  const std::string_view body = token.text;
  std::string text;
  while (i < body.size()) {
    const char c = body[i];
    if (c == '}' && in_field) break;
    const bool doubled = !in_field && i + 1 < body.size() && body[i + 1] == c;
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
