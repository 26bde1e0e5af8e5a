// Each line becomes the object that JSON has for it, and that object is read by the one reader of
// graphs. Only the notation is checked here, not the content of fields.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>

#include "tests/unit/trace/graph_lines.h"
#include "tests/unit/trace/line_parser.h"
#include "tests/unit/trace/line_types.h"
#include "trace/graph_objects.h"

namespace shardlab {

namespace {

// The lines of a text, each node with the lines below it.
class LinesReader {
 public:
  explicit LinesReader(std::string_view text) : text_(text) {}

  std::optional<GraphLine> next() {
    if (!take_line()) return std::nullopt;
    if (types_ == nullptr) know_meshes();
    GraphLine line{.object = {}, .number = number_};
    LineParser parser(line_, number_, types_.get());
    if (line_.starts_with(' ')) parser.refuse("is below no node");
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

  // The meshes of the program, which has been read and found to be right since.
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

  // Fields keep their names; those of an input's recipe are among them.
  static void put_fields(const LineParser& parser, LineCall call, GraphObject& object,
                         std::initializer_list<std::string_view> elsewhere) {
    constexpr std::array<std::string_view, 6> kRecipe = {"init",   "arguments", "scale",
                                                         "values", "written",   "open"};
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

  // Moves, collectives, and the failure of the node.
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
