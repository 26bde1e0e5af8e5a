// A character at a time; the first character of a value decides how it is parsed.
#include "tests/unit/trace/line_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/error.h"

namespace shardlab {

namespace {

constexpr int kDeepestValue = 16;        // values in values
constexpr std::size_t kMostFields = 64;  // of one object; no line of a graph has so many
constexpr std::string_view kDigits = "0123456789";

GraphObject json_of_sizes(const Dims& sizes) {
  GraphObject list = GraphObject::array();
  for (const std::int64_t size : sizes) list.push_back(size);
  return list;
}

std::string shown(std::string_view text) { return json_text(GraphObject(text)); }

}  // namespace

void LineParser::refuse_at(std::size_t at, std::string_view what) const {
  const std::string field = field_.empty() ? "" : "'" + field_ + "': ";
  const std::size_t end = std::min(text_.find_first_of(" ,()[]{}", at + 1), at + 24);
  const std::string_view found = at < text_.size() ? text_.substr(at, end - at) : "";
  fail(Fix{kCaptureAgain}, "line {} of the graph, column {}: {}{} {}", number_, at + 1, field,
       found.empty() ? "the line ends," : shown(found) + ":", what);
}

char LineParser::peek() {
  while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  return at_ < text_.size() ? text_[at_] : '\0';
}

std::size_t LineParser::here() {
  peek();
  return at_;
}

bool LineParser::accept(char c) {
  if (peek() != c || at_ == text_.size()) return false;
  ++at_;
  return true;
}

void LineParser::expect(char c) {
  if (!accept(c)) refuse(fmt::format("'{}' is missing", c));
}

std::string LineParser::word() { return letters_and("0123456789.:"); }

std::string LineParser::identifier() { return letters_and(kDigits); }

std::string LineParser::word_or_text() {
  if (peek() == '"') return quoted().get<std::string>();
  std::string found = word();
  if (found.empty()) refuse("a word, or a text in quotes, is missing");
  return found;
}

bool LineParser::accept_word(std::string_view wanted) {
  const std::size_t before = at_;
  if (identifier() == wanted) return true;
  at_ = before;
  return false;
}

std::int64_t LineParser::natural() {
  const std::size_t start = here();
  at_ = std::min(text_.find_first_not_of(kDigits, at_), text_.size());
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text_.data() + start, text_.data() + at_, value);
  if (error != std::errc() || end != text_.data() + at_) refuse_at(start, "is not a number");
  return value;
}

std::string LineParser::letters_and(std::string_view others) {
  const auto is_letter_here = [&] {
    const char c = text_[at_];
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  peek();
  const std::size_t start = at_;
  if (at_ == text_.size() || !is_letter_here()) return "";
  while (at_ < text_.size() &&
         (is_letter_here() || others.find(text_[at_]) != std::string_view::npos)) {
    ++at_;
  }
  return std::string(text_.substr(start, at_ - start));
}

GraphObject LineParser::quoted() {
  const std::size_t start = here();
  std::size_t end = start + 1;
  while (end < text_.size() && text_[end] != '"') end += text_[end] == '\\' ? 2 : 1;
  if (end >= text_.size()) refuse_at(start, "its quotes do not end");
  at_ = end + 1;
  GraphObject text = GraphObject::parse(text_.substr(start, at_ - start), nullptr, false);
  if (!text.is_string()) refuse_at(start, "is not a text");
  return text;
}

GraphObject LineParser::number() {
  const std::size_t start = here();
  at_ = std::min(text_.find_first_of(" ,()[]{}=", at_), text_.size());
  const std::string_view found = text_.substr(start, at_ - start);
  if (found == "-inf") return {{"f", "-inf"}};
  GraphObject number = GraphObject::parse(found, nullptr, false);
  if (!number.is_number()) refuse_at(start, "is not a value");
  return number;
}

void LineParser::put(GraphObject& object, const std::string& key, GraphObject value) const {
  if (object.contains(key)) refuse(fmt::format("'{}' is given twice", key));
  if (object.size() == kMostFields) refuse(fmt::format("more than {} fields", kMostFields));
  object[key] = std::move(value);
}

GraphObject LineParser::items(WordIs word_is, int depth) {
  GraphObject items = GraphObject::array();
  expect('[');
  if (accept(']')) return items;
  do items.push_back(value(word_is, depth + 1));
  while (accept(','));
  expect(']');
  return items;
}

GraphObject LineParser::fields(WordIs word_is, int depth) {
  GraphObject object = GraphObject::object();
  expect('{');
  if (accept('}')) return object;
  do {
    const std::string key = identifier();
    if (key.empty()) refuse("the name of a field is missing");
    expect(':');
    put(object, key, value(word_is, depth + 1));
  } while (accept(','));
  expect('}');
  return object;
}

GraphObject LineParser::complex(int depth) {
  expect('(');
  GraphObject parts = GraphObject::array();
  do parts.push_back(value(WordIs::kText, depth + 1));
  while (accept(','));
  expect(')');
  return {{"c", std::move(parts)}};
}

GraphObject LineParser::of_word(WordIs word_is, int depth) {
  const std::size_t start = here();
  const std::string found = word();
  const bool opens = at_ < text_.size() && text_[at_] == '[';
  if (opens && found == "list") return {{"list", items(word_is, depth)}};
  if (opens) {
    at_ = start;
    return type();
  }
  if (found == "None") return nullptr;
  if (found == "True" || found == "False") return found == "True";
  if (found == "nan" || found == "inf") return {{"f", found}};
  if (found == "complex") return complex(depth);
  if (word_is == WordIs::kText) return found;
  if (found[0] != 'n') return {{"dtype", found}};
  at_ = start + 1;
  return {{"n", natural()}};
}

GraphObject LineParser::value(WordIs word_is, int depth) {
  if (depth > kDeepestValue) refuse("values in values in values");
  switch (const char c = peek()) {
    case '\0':
    case ',':
    case ')':
    case ']':
    case '}':
      refuse("a value is missing");
    case '%':
      ++at_;
      return {{"v", natural()}};
    case '"':
      return quoted();
    case '[':
      return items(word_is, depth);
    case '{':
      return fields(word_is, depth);
    default:
      if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_') {
        return of_word(word_is, depth);
      }
      return number();
  }
}

// "f32[8@(dp,tp), 64]{sum:pp}"; a type has no brackets of these kinds inside.
std::string_view LineParser::type_extent() {
  const std::size_t start = here();
  std::size_t end = text_.find(']', at_);
  if (identifier().empty() || end == std::string_view::npos) refuse_at(start, "is not a type");
  at_ = end + 1;
  if (at_ < text_.size() && text_[at_] == '{') {
    end = text_.find('}', at_);
    if (end == std::string_view::npos) refuse_at(start, "is not a type");
    at_ = end + 1;
  }
  return text_.substr(start, at_ - start);
}

ParsedType LineParser::parsed(std::string_view text, std::size_t at, std::int64_t mesh,
                              bool plain) const {
  if (types_ == nullptr) refuse_at(at, "there is no type here");
  try {
    return plain ? types_->parsed_plain(text) : types_->parsed(text, mesh);
  } catch (const TypeStringError& error) {
    refuse_at(at + error.span().offset, error.summary());
  } catch (const Error& error) {
    refuse_at(at, error.summary());
  }
}

// The parts that a type string lacks: "local", "mesh=1", "stride=[1, 8]", ...
GraphObject LineParser::behind_type() {
  constexpr std::array<std::string_view, 4> kBehind = {"mesh", "stride", "placements", "order"};
  GraphObject behind = GraphObject::object();
  if (accept_word("local")) behind["local"] = true;
  for (std::size_t before = at_;; before = at_) {
    const std::string key = identifier();
    if (std::ranges::find(kBehind, key) == kBehind.end() || !accept('=')) {
      at_ = before;
      return behind;
    }
    put(behind, key, value(WordIs::kText, kDeepestValue - 1));
  }
}

GraphObject LineParser::type() {
  const std::size_t start = here();
  const std::string_view text = type_extent();
  const GraphObject behind = behind_type();
  const bool plain = behind.contains("local") || behind.contains("placements");
  std::int64_t mesh = 0;
  if (behind.contains("mesh")) {
    if (!behind["mesh"].is_number_integer()) refuse_at(start, "'mesh' must be an integer");
    mesh = behind["mesh"].get<std::int64_t>();
  }
  const ParsedType type = parsed(text, start, mesh, plain);
  GraphObject object = {{"shape", json_of_sizes(type.shape)},
                        {"dtype", to_string(type.dtype.value_or(DType::kF32))}};
  if (!plain) {
    object["placements"] = GraphObject::array();
    for (const Placement& placement : type.placements) {
      object["placements"].push_back(to_string(placement));
    }
    object["order"] = GraphObject::array();
    for (const std::int32_t place : type.order) object["order"].push_back(place);
  }
  for (const auto& [key, given] : behind.items()) {
    if (object.contains(key)) refuse_at(start, fmt::format("'{}' is given twice", key));
    object[key] = given;
  }
  return object;
}

GraphObject LineParser::plain_type() {
  const std::size_t start = here();
  const ParsedType type = parsed(type_extent(), start, 0, true);
  return {{"dtype", to_string(type.dtype.value_or(DType::kF32))},
          {"shape", json_of_sizes(type.shape)}};
}

LineCall LineParser::rest_of_call() {
  LineCall call;
  if (accept(')')) return call;
  do {
    const std::size_t before = at_;
    const std::string key = identifier();
    if (!key.empty() && accept('=')) {
      field_ = key;
      put(call.fields, key, value(WordIs::kText));
    } else {
      at_ = before;
      field_ = "args";
      call.arguments.push_back(value(WordIs::kDType));
    }
    field_.clear();
  } while (accept(','));
  expect(')');
  return call;
}

GraphObject LineParser::place() {
  GraphObject place = GraphObject::array();
  if (accept_word("line")) {
    place.push_back(natural());
    if (accept(':')) place.push_back(natural());
  }
  end();
  return place;
}

void LineParser::end() {
  if (here() != text_.size()) refuse("does not belong to the line");
}

}  // namespace shardlab
