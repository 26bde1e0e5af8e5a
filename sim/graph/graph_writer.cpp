// Blocks are kept back until they end, since statements in one may decide the lines before it.
#include "sim/graph/graph_writer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "mesh/local_shape.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"
#include "sim/scenario/toml_text.h"
#include "trace/graph_text.h"

namespace shardlab {

namespace {

// Three quotes would end the program.
std::string quoted(const std::string& value) {
  constexpr std::string_view kEnd = "'''", kSame = "\\u0027\\u0027\\u0027";
  std::string text = toml_quoted(value);
  for (std::size_t at = 0; (at = text.find(kEnd, at)) != std::string::npos;) {
    text.replace(at, kEnd.size(), kSame);
  }
  return text;
}

}  // namespace

std::string literal(double value) {
  if (std::isnan(value)) return "float(\"nan\")";
  if (std::isinf(value)) return value > 0 ? "float(\"inf\")" : "float(\"-inf\")";
  return Scalar(value).text();
}

GraphWriter::GraphWriter(const ProgramGraph& graph, const OpRegistry& registry)
    : graph_(graph), registry_(registry), meshes_(graph_.meshes, 0, arena_) {
  for (const GraphNode& node : graph_.nodes) {
    if (node.kind == NodeKind::kInput) names_[node.results.at(0).value.id] = node.name;
  }
  prefix_ = prefix("v");
}

std::string GraphWriter::prefix(std::string_view letter) const {
  std::string prefix(letter);
  const auto taken = [&](const auto& named) {
    return named.second.starts_with(prefix) &&
           named.second.find_first_not_of("0123456789", prefix.size()) == std::string::npos;
  };
  while (std::ranges::any_of(names_, taken)) prefix += "_";
  return prefix;
}

void GraphWriter::refuse(const std::string& what) const {
  fail(ErrorKind::kUnsupported, Fix{"shardlab trace FILE --out g.graph keeps all of it"},
       "node {} has no statement: {}, {}", at_, kind_name(graph_.nodes[at_].kind), what);
}

std::string indented_code(std::string_view code, std::string_view indent) {
  std::string text;
  while (!code.empty()) {
    const std::size_t end = code.find('\n') + 1;
    text.append(indent).append(code.substr(0, end));
    code.remove_prefix(end);
  }
  return text;
}

std::string GraphWriter::statements(std::size_t begin, std::size_t end) {
  code_.clear();
  write_all(begin, end);
  return code_;
}

std::string GraphWriter::body(std::size_t begin, std::size_t end) {
  std::string code = std::exchange(code_, {}), block = std::exchange(block_, {});
  const Around around = std::exchange(around_, {});
  const std::size_t at = at_;
  in_body_ = true;
  write_all(begin, end);
  in_body_ = false;
  at_ = at;
  around_ = around;
  block_ = std::move(block);
  std::swap(code, code_);
  return code;
}

void GraphWriter::write_all(std::size_t begin, std::size_t end) {
  for (at_ = begin; at_ < end; ++at_) {
    const GraphNode& node = graph_.nodes[at_];
    if (node.kind == NodeKind::kHookCall) {
      at_ = behind_hook(at_) - 1;
    } else if (node.kind != NodeKind::kInput) {
      write(node);
    }
  }
  enter({});
}

std::size_t GraphWriter::behind_hook(std::size_t call) const {
  std::size_t next = call + 1;
  while (next < graph_.nodes.size() && (graph_.nodes[next].kind != NodeKind::kHookGives ||
                                        graph_.nodes[next].hook != graph_.nodes[call].hook)) {
    ++next;
  }
  return std::min(next + 1, graph_.nodes.size());
}

std::string GraphWriter::name(ValueRef value) const {
  if (value.id < 0) return "_";
  const auto known = names_.find(value.id);
  return known != names_.end() ? known->second : fmt::format("{}{}", prefix_, value.id);
}

std::string GraphWriter::generator(GeneratorRef generator) const {
  return fmt::format("{}{}", prefix("g"), generator.index);
}

std::string GraphWriter::argument(const GraphArgument& argument) {
  struct Visitor {
    GraphWriter& writer;
    std::string operator()(std::monostate) const { return "None"; }
    std::string operator()(const Scalar& value) const { return writer.scalar(value); }
    std::string operator()(ValueRef value) const { return writer.name(value); }
    std::string operator()(const Dims& value) const {
      return fmt::format("[{}]", text_of_list(value, ", "));
    }
    std::string operator()(DType value) const { return std::string(to_string(value)); }
    std::string operator()(const std::string& value) const { return quoted(value); }
    std::string operator()(GeneratorRef value) const { return writer.generator(value); }
    std::string operator()(NumberRef) const { writer.refuse("it follows from sizes"); }
    std::string operator()(const std::vector<GraphArgument>& items) const {
      return list(writer.arguments(items));
    }
  };
  return std::visit(Visitor{*this}, argument.value);
}

std::string GraphWriter::scalar(const Scalar& value) const {
  if (value.category() == Category::kComplex) refuse("it has a complex number");
  return value.category() == Category::kFloat ? literal(value.to_double()) : value.text();
}

std::string GraphWriter::list(const std::vector<std::string>& items) {
  return fmt::format("[{}]", text_of_list(items, ", "));
}

std::vector<std::string> GraphWriter::arguments(const std::vector<GraphArgument>& arguments) {
  std::vector<std::string> texts;
  for (const GraphArgument& one : arguments) texts.push_back(argument(one));
  return texts;
}

const ValueType& GraphWriter::type_of(const GraphArgument& argument) const {
  const auto* value = std::get_if<ValueRef>(&argument.value);
  for (const GraphNode& node : graph_.nodes) {
    for (const GraphResult& result : node.results) {
      if (value != nullptr && result.value == *value) return result.type;
    }
  }
  refuse("no node before it gives what it takes");
}

const OpRow& GraphWriter::row_of(const GraphNode& node) const {
  const OpRow* row = registry_.find(node.name);
  if (row == nullptr) refuse("the op is not known");
  return *row;
}

const GraphMesh& GraphWriter::mesh_of(std::int32_t number) const {
  return graph_.meshes.at(static_cast<std::size_t>(number));
}

bool GraphWriter::reported_by_pieces(const GraphNode& node) {
  const ValueType& local = type_of(node.args.at(0));
  return global_meta(*meshes_.layout(node.target->mesh), node.target->placements,
                     {local.shape, local.stride, local.dtype})
             .shape == node.target->shape;
}

std::string GraphWriter::layout(const ValueType& type) const {
  const std::string text = type_text(graph_, type);
  return text.substr(text.find('['));
}

std::string GraphWriter::opening(const Around& around) {
  std::vector<std::string> contexts;
  if (around.no_grad) contexts.emplace_back("no_grad()");
  if (around.records) contexts.emplace_back("enable_grad()");
  if (around.replicates) contexts.emplace_back("implicit_replication()");
  return fmt::format("with {}:\n", text_of_list(contexts, ", "));
}

void GraphWriter::enter(const Around& around) {
  if (around == around_) return;
  if (around_ != Around{}) code_ += opening(around_) + block_;
  block_.clear();
  around_ = around;
}

void GraphWriter::statement(const GraphNode& node, const std::string& text) {
  enter(around_of(node));
  const bool in_block = around_ != Around{};
  (in_block ? block_ : code_) += (in_block ? "    " : "") + text + comment(node) + "\n";
}

void GraphWriter::statement(const std::string& text) {
  enter({});
  code_ += text + "\n";
}

}  // namespace shardlab
