// A line is made of the object that JSON has, field by field: no field can be left out by mistake.
// Only the parts that people read most have a form of their own: results and their types, calls,
// arguments, places.
#include "trace/graph_lines.h"

#include <algorithm>
#include <array>

#include "base/text_of_list.h"
#include "trace/graph_objects.h"
#include "trace/line_types.h"

namespace shardlab {

namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// Texts that are read as a word: "inputs.x", "aten::mul.Tensor". Some words are values.
bool is_plain_word(const std::string& text) {
  constexpr std::array<std::string_view, 7> kValues = {"None", "True", "False",  "nan",
                                                       "inf",  "list", "complex"};
  if (text.empty() || !is_letter(text[0])) return false;
  const bool letters = std::ranges::all_of(
      text, [](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '.' || c == ':'; });
  return letters && std::ranges::find(kValues, text) == kValues.end();
}

std::string word_or_text(const std::string& text) {
  return is_plain_word(text) ? text : json_text(text);
}

std::string argument_line_text(const GraphObject& value);

// Reads `{"v": 3}`: one key gives the kind of the value.
std::string marked_text(const std::string& key, const GraphObject& value) {
  if (key == "v") return "%" + json_text(value);
  if (key == "n") return "n" + json_text(value);
  if (key == "list") return "list" + argument_line_text(value);
  if (key == "f" || key == "dtype") return value.get<std::string>();
  if (key == "c") {
    return fmt::format("complex({}, {})", argument_line_text(value[0]),
                       argument_line_text(value[1]));
  }
  return fmt::format("{{{}: {}}}", key, argument_line_text(value));
}

// In arguments a word is a dtype, and a text is in quotes.
std::string argument_line_text(const GraphObject& value) {
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_object()) return marked_text(value.begin().key(), value.begin().value());
  if (!value.is_array()) return json_text(value);
  std::vector<std::string> items;
  for (const GraphObject& item : value) items.push_back(argument_line_text(item));
  return fmt::format("[{}]", text_of_list(items, ", "));
}

// In fields a word is a text. The texts of a list are in quotes where one of them has to be.
std::string field_line_text(const GraphObject& value) {
  if (value.is_string()) return word_or_text(value.get<std::string>());
  std::vector<std::string> items;
  if (value.is_array()) {
    const bool plain = std::ranges::all_of(value, [](const GraphObject& item) {
      return !item.is_string() || is_plain_word(item.get<std::string>());
    });
    for (const GraphObject& item : value) {
      items.push_back(plain || !item.is_string() ? field_line_text(item) : json_text(item));
    }
    return fmt::format("[{}]", text_of_list(items, ", "));
  }
  const bool number = value.contains("f") || value.contains("c");
  if (!value.is_object() || number) return argument_line_text(value);
  for (const auto& [key, item] : value.items()) {
    items.push_back(fmt::format("{}: {}", key, field_line_text(item)));
  }
  return fmt::format("{{{}}}", text_of_list(items, ", "));
}

// "key=value" of all fields but those that are elsewhere on the line.
std::vector<std::string> fields_but(const GraphObject& object,
                                    std::initializer_list<std::string_view> elsewhere) {
  std::vector<std::string> parts;
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(elsewhere, key) != elsewhere.end()) continue;
    parts.push_back(fmt::format("{}={}", key, field_line_text(value)));
  }
  return parts;
}

class LinePrinter {
 public:
  explicit LinePrinter(const ProgramGraph& graph) : graph_(graph), types_(graph.meshes) {}

  std::string print() {
    const GraphObject object = object_of(graph_);
    std::string text =
        fmt::format("program {}({})\n", json_text(object["program"]),
                    text_of_list(fields_but(object, {"k", "form", "program"}), ", "));
    for (const Guard& guard : graph_.guards) text += guard_line(guard);
    for (const GraphNode& node : graph_.nodes) text += node_lines(node);
    return text;
  }

 private:
  static std::string guard_line(const Guard& guard) {
    std::string text = fmt::format("guard {} {} = {}", to_string(guard.kind),
                                   word_or_text(guard.source), json_text(guard.expected));
    if (guard.line > 0) text += fmt::format("    line {}", guard.line);
    return text + "\n";
  }

  std::string node_lines(const GraphNode& node) {
    const GraphObject object = object_of(node);
    std::string text = results(node) + head(node);
    text += fmt::format("({})", text_of_list(parts_of(node, object), ", "));
    if (node.line > 0) text += fmt::format("    line {}:{}", node.line, node.column);
    text += "\n";
    if (object.contains("redist")) {
      for (const GraphObject& move : object["redist"]) text += below("moves", fields_but(move, {}));
    }
    if (object.contains("comm")) {
      for (std::size_t i = 0; i < node.collectives.size(); ++i) {
        text += collective_line(node.collectives[i], object["comm"][i]);
      }
    }
    if (object.contains("error")) text += below("fails", fields_but(object["error"], {}));
    return text;
  }

  std::string results(const GraphNode& node) {
    std::vector<std::string> results;
    if (node.number >= 0) results.push_back(fmt::format("n{}", node.number));
    for (const GraphResult& result : node.results) {
      results.push_back(result.value.id < 0
                            ? "_"
                            : fmt::format("%{}: {}", result.value.id, types_.text(result.type)));
    }
    return results.empty() ? "" : fmt::format("{} = ", text_of_list(results, ", "));
  }

  static std::string head(const GraphNode& node) {
    const bool called = node.kind == NodeKind::kOp && is_plain_word(node.name) &&
                        node.name.find("::") != std::string::npos;
    if (called) return node.name;
    const std::string kind(kind_name(node.kind));
    return node.name.empty() ? kind : kind + " " + word_or_text(node.name);
  }

  std::vector<std::string> parts_of(const GraphNode& node, const GraphObject& object) {
    std::vector<std::string> parts;
    if (object.contains("args")) {
      for (const GraphObject& one : object["args"]) parts.push_back(argument_line_text(one));
    }
    if (node.target) parts.push_back("to=" + types_.text(*node.target));
    if (object.contains("recipe")) {
      for (std::string& part : fields_but(object["recipe"], {})) parts.push_back(std::move(part));
    }
    GraphObject rest = object;
    for (const char* elsewhere :
         {"k", "name", "args", "to", "recipe", "number", "out", "at", "redist", "comm", "error"}) {
      rest.erase(elsewhere);
    }
    // JSON has these for each collective; here they are left out where they are the default.
    if (node.op == ReduceOp::kSum) rest.erase("reduce");
    if (node.dim == 0) rest.erase("dim");
    if (node.split_dim == 0) rest.erase("split_dim");
    for (std::string& part : fields_but(rest, {})) parts.push_back(std::move(part));
    return parts;
  }

  static std::string collective_line(const GraphCollective& collective, const GraphObject& object) {
    std::vector<std::string> parts = fields_but(object, {"c", "dtype", "shape"});
    const TensorMeta input{collective.shape, {}, collective.dtype};
    parts.insert(parts.begin(), type_string(input));
    return below(to_string(collective.kind), parts);
  }

  static std::string below(std::string_view name, const std::vector<std::string>& parts) {
    return fmt::format("    {}({})\n", name, text_of_list(parts, ", "));
  }

  const ProgramGraph& graph_;
  LineTypes types_;
};

}  // namespace

std::string graph_lines(const ProgramGraph& graph) { return LinePrinter(graph).print(); }

}  // namespace shardlab
