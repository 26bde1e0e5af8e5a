// Prints a tree as fully parenthesised Python: the text that tests compare, and messages quote.
#include "base/text.h"
#include "sim/language/syntax/numbers.h"

namespace shardlab::ast {

namespace {

std::string string_literal(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\\' || c == '\'')
      out += '\\', out += c;
    else if (c == '\n')
      out += "\\n";
    else if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\x{:02x}", c);
    else
      out += c;
  }
  return out + "'";
}

struct Printer {
  std::string list(const std::vector<ExpressionPtr>& items) const {
    std::string out;
    for (const auto& item : items) out += (out.empty() ? "" : ", ") + print(*item);
    return out;
  }
  static std::string optional(const ExpressionPtr& part) { return part ? print(*part) : ""; }

  std::string operator()(const Constant& constant) const {
    return std::visit(*this, constant.value);
  }
  std::string operator()(None) const { return "None"; }
  std::string operator()(Ellipsis) const { return "..."; }
  std::string operator()(bool value) const { return value ? "True" : "False"; }
  std::string operator()(std::int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const {
    return value > 1e308 * 10 ? "1e999" : float_text(value);
  }
  std::string operator()(const std::string& value) const { return string_literal(value); }

  std::string operator()(const Name& name) const { return name.id; }
  std::string operator()(const Attribute& node) const {
    const bool number = node.object->is<Constant>();
    const std::string object = print(*node.object);
    return (number ? "(" + object + ")" : object) + "." + node.name;
  }
  std::string operator()(const Call& call) const {
    std::string out;
    for (const CallArgument& argument : call.arguments) {
      if (!out.empty()) out += ", ";
      const bool all = argument.keyword == kDoubleStar;
      if (!argument.keyword.empty()) out += argument.keyword + (all ? "" : "=");
      out += (argument.starred ? "*" : "") + print(*argument.value);
    }
    return fmt::format("{}({})", print(*call.function), out);
  }
  std::string operator()(const Unary& node) const {
    const bool word = node.op == UnaryOp::kNot;
    return fmt::format("({}{}{})", to_string(node.op), word ? " " : "", print(*node.operand));
  }
  std::string operator()(const Binary& node) const {
    return fmt::format("({} {} {})", print(*node.left), to_string(node.op), print(*node.right));
  }
  std::string operator()(const Compare& node) const {
    std::string out = "(" + print(*node.operands[0]);
    for (std::size_t i = 0; i < node.ops.size(); ++i) {
      out += fmt::format(" {} {}", to_string(node.ops[i]), print(*node.operands[i + 1]));
    }
    return out + ")";
  }
  std::string operator()(const Logical& node) const {
    std::string out = "(" + print(*node.operands[0]);
    for (std::size_t i = 1; i < node.operands.size(); ++i) {
      out += fmt::format(" {} {}", to_string(node.op), print(*node.operands[i]));
    }
    return out + ")";
  }
  std::string operator()(const Conditional& node) const {
    return fmt::format("({} if {} else {})", print(*node.when_true), print(*node.condition),
                       print(*node.when_false));
  }
  std::string operator()(const Subscript& node) const {
    std::string index;
    if (const auto* tuple = node.index->get<Tuple>(); tuple && !tuple->items.empty()) {
      index = list(tuple->items) + (tuple->items.size() == 1 ? "," : "");
    } else {
      index = print(*node.index);
    }
    return fmt::format("{}[{}]", print(*node.object), index);
  }
  std::string operator()(const Slice& node) const {
    std::string out = optional(node.start) + ":" + optional(node.stop);
    if (node.step) out += ":" + print(*node.step);
    return out;
  }
  std::string operator()(const List& node) const { return "[" + list(node.items) + "]"; }
  std::string operator()(const Tuple& node) const {
    return "(" + list(node.items) + (node.items.size() == 1 ? ",)" : ")");
  }
  std::string operator()(const Dict& node) const {
    std::string out = "{";
    for (std::size_t i = 0; i < node.keys.size(); ++i) {
      const std::string key = node.keys[i] ? print(*node.keys[i]) + ": " : kDoubleStar;
      out += fmt::format("{}{}{}", i > 0 ? ", " : "", key, print(*node.values[i]));
    }
    return out + "}";
  }
  std::string operator()(const Set& node) const { return "{" + list(node.items) + "}"; }
  std::string operator()(const Comprehension& node) const {
    const bool braces = node.key || node.set;
    std::string out = node.key ? "{" + print(*node.key) + ": " : braces ? "{" : "[";
    out += print(*node.element);
    for (const auto& loop : node.loops) {
      out += fmt::format(" for {} in {}", print(*loop.target), print(*loop.iterable));
      for (const auto& condition : loop.conditions) out += " if " + print(*condition);
    }
    return out + (braces ? "}" : "]");
  }
  std::string operator()(const Starred& node) const { return "*" + print(*node.value); }
  std::string operator()(const Walrus& node) const {
    return fmt::format("({} := {})", node.name, print(*node.value));
  }
  std::string operator()(const FormatString& node) const {
    return "f\"\"\"" + inner(node) + "\"\"\"";
  }

  static std::string inner(const FormatString& node) {
    std::string out;
    for (const auto& part : node.parts) {
      const std::string text = string_literal(part.text + part.echo);
      for (const char c : std::string_view(text).substr(1, text.size() - 2)) {
        if (c == '"') out += '\\';
        out.append(c == '{' || c == '}' ? 2 : 1, c);
      }
      if (!part.expression) continue;
      const std::string value = print(*part.expression);
      out += (value.starts_with('{') ? "{ " : "{") + value +
             (part.conversion != 0 ? std::string{'!', part.conversion} : "");
      if (part.format) out += ":" + inner(std::get<FormatString>(part.format->node));
      out += "}";
    }
    return out;
  }
};

struct StatementPrinter {
  std::string indent;

  std::string nested(const Block& block) const {
    std::string out;
    for (const Statement& statement : block) {
      out += std::visit(StatementPrinter{indent + "    "}, statement.node);
    }
    return out;
  }
  std::string otherwise(const Block& block) const {
    return block.empty() ? "" : line("else:") + nested(block);
  }
  std::string line(const std::string& text) const { return indent + text + "\n"; }

  std::string operator()(const ExpressionStatement& node) const { return line(print(*node.value)); }
  std::string operator()(const Assign& node) const {
    std::string targets;
    for (const auto& target : node.targets) targets += print(*target) + " = ";
    return line(targets + print(*node.value));
  }
  std::string operator()(const AugmentedAssign& node) const {
    return line(
        fmt::format("{} {}= {}", print(*node.target), to_string(node.op), print(*node.value)));
  }
  std::string operator()(const If& node) const {
    std::string out;
    for (const auto& branch : node.branches) {
      const char* word = out.empty() ? "if " : "elif ";
      out += line(branch.condition ? word + print(*branch.condition) + ":" : "else:");
      out += nested(branch.body);
    }
    return out;
  }
  std::string operator()(const For& node) const {
    return line(fmt::format("for {} in {}:", print(*node.target), print(*node.iterable))) +
           nested(node.body) + otherwise(node.otherwise);
  }
  std::string operator()(const While& node) const {
    return line("while " + print(*node.condition) + ":") + nested(node.body) +
           otherwise(node.otherwise);
  }
  std::string operator()(const Def& node) const {
    using Kind = Parameter::Kind;
    std::string parameters;
    bool named = false;
    for (const Parameter& parameter : node.function->parameters) {
      parameters += parameters.empty() ? "" : ", ";
      if (parameter.kind == Kind::kNamed && !std::exchange(named, true)) parameters += "*, ";
      if (parameter.kind == Kind::kRest) named = true;
      parameters += parameter.kind == Kind::kRest       ? "*"
                    : parameter.kind == Kind::kKeywords ? kDoubleStar
                                                        : "";
      parameters += parameter.name;
      if (parameter.default_value) parameters += "=" + print(*parameter.default_value);
    }
    return (node.is_static ? line("@staticmethod") : "") +
           (node.once_differentiable ? line("@once_differentiable") : "") +
           line(fmt::format("def {}({}):", node.function->name, parameters)) +
           nested(node.function->body);
  }
  std::string operator()(const Class& node) const {
    return line(fmt::format("class {}(torch.autograd.Function):", node.name)) + nested(node.body);
  }
  std::string operator()(const With& node) const {
    std::string items;
    for (const With::Item& item : node.items) {
      items += (items.empty() ? "" : ", ") + print(*item.context);
      if (item.target) items += " as " + print(*item.target);
    }
    return line("with " + items + ":") + nested(node.body);
  }
  std::string operator()(const Return& node) const {
    return line(node.value ? "return " + print(*node.value) : "return");
  }
  std::string operator()(const Assert& node) const {
    return line("assert " + print(*node.condition) +
                (node.message ? ", " + print(*node.message) : ""));
  }
  std::string operator()(const Try& node) const {
    std::string out = line("try:") + nested(node.body);
    for (const Try::Handler& handler : node.handlers) {
      std::string head = "except";
      const std::string kinds = text_of_list(handler.kinds, ", ");
      if (!kinds.empty()) head += handler.kinds.size() == 1 ? " " + kinds : " (" + kinds + ")";
      if (!handler.name.empty()) head += " as " + handler.name;
      out += line(head + ":") + nested(handler.body);
    }
    return out + otherwise(node.otherwise) +
           (node.last.empty() ? "" : line("finally:") + nested(node.last));
  }
  std::string operator()(const Delete& node) const {
    return line("del " + Printer().list(node.items));
  }
  std::string operator()(const OuterNames& node) const {
    return line((node.global ? "global " : "nonlocal ") + text_of_list(node.names, ", "));
  }
  std::string operator()(const Pass&) const { return line("pass"); }
  std::string operator()(const Break&) const { return line("break"); }
  std::string operator()(const Continue&) const { return line("continue"); }
};

}  // namespace

std::string print(const Expression& expression) { return std::visit(Printer{}, expression.node); }

std::string print(const Block& block) {
  std::string out;
  for (const Statement& statement : block) out += std::visit(StatementPrinter{""}, statement.node);
  return out;
}

}  // namespace shardlab::ast
