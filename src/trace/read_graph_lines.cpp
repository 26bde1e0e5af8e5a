// Each line becomes the object that JSON has for it, and that object is read by the one reader of
// graphs. Here only the notation is known: what a field may hold is not asked.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>

#include "base/fix.h"
#include "mesh/dtensor.h"
#include "trace/graph_lines.h"
#include "trace/graph_objects.h"
#include "trace/line_types.h"

namespace shardlab {

namespace {

constexpr int kDeepestValue = 16;        // values in values
constexpr std::size_t kMostFields = 64;  // of one object; no line of a graph has so many
constexpr std::string_view kDigits = "0123456789";

// A word is a dtype among arguments, and a text in fields.
enum class WordIs : std::uint8_t { kDType, kText };

// What stands in the brackets of a call.
struct LineCall {
  GraphObject arguments = GraphObject::array();
  GraphObject fields = GraphObject::object();
};

// One line, taken apart from left to right.
class LineParser {
 public:
  LineParser(std::string_view text, std::size_t number, LineTypes* types)
      : text_(text), number_(number), types_(types) {}

  [[noreturn]] void refuse(std::string_view what) const { refuse_at(at_, what); }

  /// The next character that is not a space; 0 at the end.
  char peek() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  /// Where that stands.
  std::size_t here() {
    peek();
    return at_;
  }
  bool accept(char c) {
    if (peek() != c || c == '\0') return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) refuse(fmt::format("'{}' is missing", c));
  }
  /// "inputs.x", "aten::mul.Tensor"; empty where none stands here.
  std::string word() { return letters_and("0123456789.:"); }
  /// "requires_grad", likewise.
  std::string identifier() { return letters_and(kDigits); }
  std::string word_or_text() {
    if (peek() == '"') return quoted().get<std::string>();
    std::string found = word();
    if (found.empty()) refuse("a word, or a text in quotes, is missing");
    return found;
  }
  bool accept_word(std::string_view wanted) {
    const std::size_t before = at_;
    if (identifier() == wanted) return true;
    at_ = before;
    return false;
  }
  std::int64_t natural() {
    const std::size_t start = here();
    at_ = std::min(text_.find_first_not_of(kDigits, at_), text_.size());
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data() + start, text_.data() + at_, value);
    if (error != std::errc() || end != text_.data() + at_) refuse_at(start, "is no number");
    return value;
  }

  GraphObject value(WordIs word_is, int depth = 0);
  /// "f32[8@dp, 64] mesh=1": an object of shape, dtype and the rest.
  GraphObject type();
  GraphObject plain_type();
  /// Up to ")", behind "(".
  LineCall rest_of_call();
  /// "line 20:23" or, for a guard, "line 18"; nothing where there is none. Then the line ends.
  GraphObject place();
  void end() {
    if (peek() != '\0') refuse("does not belong to the line");
  }

 private:
  [[noreturn]] void refuse_at(std::size_t at, std::string_view what) const {
    const std::string field = field_.empty() ? "" : "'" + field_ + "': ";
    const std::size_t end = std::min(text_.find_first_of(" ,()[]{}", at + 1), at + 24);
    const std::string_view found = at < text_.size() ? text_.substr(at, end - at) : "";
    throw Error(ErrorKind::kValue,
                fmt::format("line {} of the graph, column {}: {}{} {}", number_, at + 1, field,
                            found.empty() ? "the line ends," : shown(found) + ":", what))
        .with("fix", kCaptureAgain);
  }

  static std::string shown(std::string_view text) { return json_text(GraphObject(text)); }

  std::string letters_and(std::string_view others);
  GraphObject quoted();
  GraphObject number();
  GraphObject items(WordIs word_is, int depth);
  GraphObject fields(WordIs word_is, int depth);
  GraphObject of_word(WordIs word_is, int depth);
  GraphObject complex(int depth);
  void put(GraphObject& object, const std::string& key, GraphObject value) const;
  std::string_view type_extent();
  ParsedType parsed(std::string_view text, std::size_t at, std::int64_t mesh, bool plain) const;

  std::string_view text_;
  std::size_t number_;
  LineTypes* types_;
  std::size_t at_ = 0;
  std::string field_;  ///< of a call, whose value is read
};

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
  if (!text.is_string()) refuse_at(start, "is no text");
  return text;
}

GraphObject LineParser::number() {
  const std::size_t start = here();
  at_ = std::min(text_.find_first_of(" ,()[]{}=", at_), text_.size());
  const std::string_view found = text_.substr(start, at_ - start);
  if (found == "-inf") return {{"f", "-inf"}};
  GraphObject number = GraphObject::parse(found, nullptr, false);
  if (!number.is_number()) refuse_at(start, "is no value");
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
  if (identifier().empty() || end == std::string_view::npos) refuse_at(start, "is no type");
  at_ = end + 1;
  if (at_ < text_.size() && text_[at_] == '{') {
    end = text_.find('}', at_);
    if (end == std::string_view::npos) refuse_at(start, "is no type");
    at_ = end + 1;
  }
  return text_.substr(start, at_ - start);
}

ParsedType LineParser::parsed(std::string_view text, std::size_t at, std::int64_t mesh,
                              bool plain) const {
  if (types_ == nullptr) refuse_at(at, "no type stands here");
  try {
    return plain ? types_->parsed_plain(text) : types_->parsed(text, mesh);
  } catch (const TypeStringError& error) {
    refuse_at(at + error.span().offset, error.summary());
  } catch (const Error& error) {
    refuse_at(at, error.summary());
  }
}

GraphObject json_of_sizes(const Dims& sizes) {
  GraphObject list = GraphObject::array();
  for (const std::int64_t size : sizes) list.push_back(size);
  return list;
}

GraphObject LineParser::type() {
  constexpr std::array<std::string_view, 4> kBehind = {"mesh", "stride", "placements", "order"};
  const std::size_t start = here();
  const std::string_view text = type_extent();
  GraphObject behind = GraphObject::object();
  if (accept_word("local")) behind["local"] = true;
  for (std::size_t before = at_;; before = at_) {
    const std::string key = identifier();
    if (std::ranges::find(kBehind, key) == kBehind.end() || !accept('=')) {
      at_ = before;
      break;
    }
    put(behind, key, value(WordIs::kText, kDeepestValue - 1));
  }
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

// The lines of a text, and what each node has below it.
class LinesReader {
 public:
  explicit LinesReader(std::string_view text) : text_(text) {}

  std::optional<GraphLine> next() {
    if (!take_line()) return std::nullopt;
    if (types_ == nullptr) know_meshes();
    GraphLine line{.object = {}, .number = number_};
    LineParser parser(line_, number_, types_.get());
    if (line_.starts_with(' ')) parser.refuse("stands below no node");
    if (parser.accept_word("program")) {
      line.object = program(parser);
    } else if (types_ == nullptr) {
      parser.refuse("a graph begins with its program");
    } else if (parser.accept_word("guard")) {
      line.object = guard(parser);
    } else {
      line.object = node(parser);
      while (next_is_below()) put_below(line.object);
    }
    return line;
  }

 private:
  static bool is_blank(std::string_view line) {
    return line.find_first_not_of(" \r") == std::string_view::npos;
  }
  std::string_view line_at(std::size_t at) const {
    std::string_view line = text_.substr(at, std::min(text_.find('\n', at), text_.size()) - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  }
  // The next line that is not blank becomes line_.
  bool take_line() {
    while (at_ < text_.size()) {
      line_ = line_at(at_);
      at_ = std::min(text_.find('\n', at_), text_.size()) + 1;
      ++number_;
      if (!is_blank(line_)) return true;
    }
    return false;
  }
  bool next_is_below() const {
    if (at_ >= text_.size()) return false;
    const std::string_view line = line_at(at_);
    return line.starts_with(' ') && !is_blank(line);
  }

  GraphObject program(LineParser& parser) {
    GraphObject object = {{"k", "program"}, {"form", "capture"}};
    object["program"] = parser.word_or_text();
    parser.expect('(');
    put_fields(parser, parser.rest_of_call(), object, {"k", "form", "program"});
    parser.end();
    types_ = nullptr;
    header_ = object;
    return object;
  }

  // Those of the program, which has been read and found to be right since.
  void know_meshes() {
    if (!header_.contains("meshes")) return;
    std::vector<GraphMesh> meshes;
    for (const GraphObject& mesh : header_["meshes"]) {
      GraphMesh known;
      if (mesh.contains("names")) known.names = mesh["names"].get<std::vector<std::string>>();
      if (mesh.contains("shape")) {
        for (const GraphObject& size : mesh["shape"]) known.shape.push_back(size);
      }
      meshes.push_back(std::move(known));
    }
    types_ = std::make_unique<LineTypes>(std::move(meshes));
  }

  static GraphObject guard(LineParser& parser) {
    GraphObject object = {{"k", "guard"}};
    object["guard"] = parser.word();
    object["source"] = parser.word_or_text();
    parser.expect('=');
    object["expected"] = parser.word_or_text();
    const GraphObject place = parser.place();
    if (!place.empty()) object["line"] = place[0];
    return object;
  }

  static GraphObject node(LineParser& parser) {
    GraphObject object = GraphObject::object();
    results(parser, object);
    head(parser, object);
    parser.expect('(');
    LineCall call = parser.rest_of_call();
    if (!call.arguments.empty()) object["args"] = std::move(call.arguments);
    call.arguments = GraphObject::array();
    put_fields(parser, std::move(call), object,
               {"k", "name", "args", "recipe", "number", "out", "at", "redist", "comm", "error"});
    GraphObject place = parser.place();
    if (!place.empty()) object["at"] = std::move(place);
    return object;
  }

  // "%3: f32[8], _ = ", "n4 = ", or nothing.
  static void results(LineParser& parser, GraphObject& object) {
    LineParser ahead = parser;
    const std::string first = ahead.identifier();
    const char behind = ahead.peek();
    if (parser.peek() != '%' && (first.empty() || (behind != '=' && behind != ','))) return;
    GraphObject out = GraphObject::array();
    do {
      if (parser.accept('%')) {
        GraphObject result = {{"v", parser.natural()}};
        parser.expect(':');
        result.update(parser.type());
        out.push_back(std::move(result));
      } else if (parser.accept('n')) {
        if (object.contains("number")) parser.refuse("a node is one number");
        object["number"] = parser.natural();
      } else {
        parser.expect('_');
        out.push_back(nullptr);
      }
    } while (parser.accept(','));
    parser.expect('=');
    if (!out.empty()) object["out"] = std::move(out);
  }

  // "aten::mm", "input x".
  static void head(LineParser& parser, GraphObject& object) {
    const std::string first = parser.word();
    if (first.empty()) parser.refuse("the name of a node is missing");
    if (first.find("::") != std::string::npos) {
      object["k"] = "op";
      object["name"] = first;
      return;
    }
    object["k"] = first;
    if (parser.peek() != '(') object["name"] = parser.word_or_text();
  }

  // Fields keep their names; those of an input's recipe stand among them.
  static void put_fields(const LineParser& parser, LineCall call, GraphObject& object,
                         std::initializer_list<std::string_view> elsewhere) {
    constexpr std::array<std::string_view, 4> kRecipe = {"init", "arguments", "scale", "values"};
    if (!call.arguments.empty()) parser.refuse("only nodes have arguments");
    GraphObject recipe = GraphObject::object();
    for (auto& [key, value] : call.fields.items()) {
      if (std::ranges::find(elsewhere, key) != elsewhere.end()) {
        parser.refuse(fmt::format("'{}' is not known", key));
      }
      const bool of_recipe = std::ranges::find(kRecipe, key) != kRecipe.end();
      (of_recipe ? recipe : object)[key] = std::move(value);
    }
    if (!recipe.empty()) object["recipe"] = std::move(recipe);
  }

  // Moves, collectives, and how the node failed.
  void put_below(GraphObject& object) {
    take_line();
    LineParser parser(line_, number_, types_.get());
    const std::string name = parser.identifier();
    GraphObject below = GraphObject::object();
    const bool collective = name != "moves" && name != "fails";
    if (collective) below["c"] = name;
    parser.expect('(');
    if (collective) {
      below.update(parser.plain_type());
      parser.accept(',');
    }
    put_fields(parser, parser.rest_of_call(), below, {"c", "dtype", "shape"});
    parser.end();
    if (name == "fails") {
      if (object.contains("error")) parser.refuse("a node fails once");
      object["error"] = std::move(below);
    } else {
      object[collective ? "comm" : "redist"].push_back(std::move(below));
    }
  }

  std::string_view text_, line_;
  std::size_t at_ = 0, number_ = 0;
  GraphObject header_ = GraphObject::object();
  std::unique_ptr<LineTypes> types_;
};

}  // namespace

std::vector<ProgramGraph> read_graph_lines(std::string_view text) {
  LinesReader reader(text);
  return read_graph_objects([&] { return reader.next(); });
}

}  // namespace shardlab
