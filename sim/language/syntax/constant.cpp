// A small evaluator over the same syntax tree as programs, for numbers, texts and truth values
// only. It runs before any rank exists.
#include "sim/language/syntax/constant.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "sim/language/syntax/parser.h"

namespace shardlab {

namespace {

struct Evaluator {
  Literal value(const ast::Expression& expression) const {
    try {
      return std::visit([&](const auto& node) { return visit(expression, node); }, expression.node);
    } catch (const ScenarioError&) {
      throw;
    } catch (const Error& error) {
      refuse(source_, expression.span, error.summary(), fix_of(error));
    }
  }

  Number number(const ast::Expression& expression) const {
    const Literal found = value(expression);
    if (const auto* flag = std::get_if<bool>(&found)) return std::int64_t{*flag ? 1 : 0};
    if (const auto* integer = std::get_if<std::int64_t>(&found)) return *integer;
    if (const auto* real = std::get_if<double>(&found)) return *real;
    refuse(source_, expression.span, fmt::format("expected a number, found '{}'", to_string(found)),
           "write a number, a param or a mesh dim");
  }

  static Literal literal(Number number) {
    return std::visit([](auto value) { return Literal(value); }, number);
  }

  bool truth(const ast::Expression& expression) const {
    const Literal found = value(expression);
    if (const auto* text = std::get_if<std::string>(&found)) return !text->empty();
    return to_double(number(expression)) != 0;
  }

  template <typename Node>
  Literal visit(const ast::Expression& expression, const Node&) const {
    refuse(source_, expression.span, "this cannot be used in a constant expression",
           "use numbers, params and mesh dims with + - * // % ** and min, max, abs, int");
  }

  Literal visit(const ast::Expression& expression, const ast::Constant& node) const {
    if (const auto* flag = std::get_if<bool>(&node.value)) return *flag;
    if (const auto* integer = std::get_if<std::int64_t>(&node.value)) return *integer;
    if (const auto* real = std::get_if<double>(&node.value)) return *real;
    if (const auto* text = std::get_if<std::string>(&node.value)) return *text;
    refuse(source_, expression.span, "expected a number", "write a number, a param or a mesh dim");
  }

  Literal visit(const ast::Expression& expression, const ast::Name& node) const {
    const auto found = std::ranges::find_if(
        environment_, [&](const auto& entry) { return entry.first == node.id; });
    if (found != environment_.end()) return found->second;
    std::vector<std::string> known;
    for (const auto& [name, value] : environment_) known.push_back(name);
    refuse(source_, expression.span, fmt::format("unknown name '{}'", node.id),
           known.empty() ? "define it in [params]" : suggest(node.id, known));
  }

  Literal visit(const ast::Expression&, const ast::Unary& node) const {
    if (node.op == ast::UnaryOp::kNot) return !truth(*node.operand);
    const Number operand = number(*node.operand);
    if (node.op == ast::UnaryOp::kNegative) return literal(negate(operand));
    if (node.op == ast::UnaryOp::kPositive) return literal(operand);
    return literal(arithmetic(ast::BinaryOp::kBitXor, operand, std::int64_t{-1}));
  }

  Literal visit(const ast::Expression&, const ast::Binary& node) const {
    return literal(arithmetic(node.op, number(*node.left), number(*node.right)));
  }

  Literal visit(const ast::Expression&, const ast::Compare& node) const {
    for (std::size_t i = 0; i < node.ops.size(); ++i) {
      if (!compare_pair(node.ops[i], *node.operands[i], *node.operands[i + 1])) return false;
    }
    return true;
  }

  bool compare_pair(ast::CompareOp op, const ast::Expression& left,
                    const ast::Expression& right) const {
    const Literal a = value(left);
    const Literal b = value(right);
    const bool equality = op == ast::CompareOp::kEqual || op == ast::CompareOp::kNotEqual;
    const bool texts =
        std::holds_alternative<std::string>(a) || std::holds_alternative<std::string>(b);
    if (equality && texts) return (a == b) == (op == ast::CompareOp::kEqual);
    if (op == ast::CompareOp::kIn || op == ast::CompareOp::kNotIn) {
      refuse(source_, left.span, "'in' cannot be used in a constant expression",
             "compare with == and join the parts with or");
    }
    return compare(op, number(left), number(right));
  }

  Literal visit(const ast::Expression&, const ast::Logical& node) const {
    const bool stops_at = node.op == ast::BoolOp::kOr;
    for (const auto& operand : node.operands) {
      if (truth(*operand) == stops_at) return value(*operand);
    }
    return value(*node.operands.back());
  }

  Literal visit(const ast::Expression&, const ast::Conditional& node) const {
    return value(truth(*node.condition) ? *node.when_true : *node.when_false);
  }

  Literal visit(const ast::Expression& expression, const ast::Call& node) const {
    const auto* name = node.function->get<ast::Name>();
    const std::string called = name != nullptr ? name->id : "";
    std::vector<Number> values;
    for (const auto& argument : node.arguments) {
      if (!argument.keyword.empty() || argument.starred) {
        refuse(source_, argument.span, "only positional arguments here",
               "leave the name out: min(4, hidden)");
      }
      values.push_back(number(*argument.value));
    }
    const auto less = [](Number a, Number b) { return compare(ast::CompareOp::kLess, a, b); };
    if (!values.empty()) {
      if (called == "min") return literal(*std::ranges::min_element(values, less));
      if (called == "max") return literal(*std::ranges::max_element(values, less));
    }
    if (values.size() == 1) {
      const Number only = values[0];
      if (called == "abs") return literal(magnitude(only));
      if (called == "int") return whole(expression, only);
    }
    refuse(source_, expression.span, "only min, max, abs and int can be called here",
           "use min(...), max(...), or abs and int with one argument");
  }

  Literal whole(const ast::Expression& expression, Number number) const {
    if (number.index() == 0) return std::get<0>(number);
    const double real = std::trunc(std::get<1>(number));
    if (!(std::fabs(real) < 0x1p63)) {
      refuse(source_, expression.span, "this number does not fit into 64 bits",
             "use numbers below 2^63");
    }
    return static_cast<std::int64_t>(real);
  }

  const SourceText& source_;
  const Environment& environment_;
};

}  // namespace

std::string to_string(const Literal& literal) {
  if (const auto* text = std::get_if<std::string>(&literal)) return *text;
  if (const auto* flag = std::get_if<bool>(&literal)) return *flag ? "True" : "False";
  if (const auto* integer = std::get_if<std::int64_t>(&literal)) return to_string(Number(*integer));
  return float_text(std::get<double>(literal));
}

Number evaluate_number(const SourceText& source, SourceSpan range, const Environment& environment) {
  const ast::ExpressionPtr expression = parse_expression(source, range);
  return Evaluator{source, environment}.number(*expression);
}

std::int64_t evaluate_integer(const SourceText& source, SourceSpan range,
                              const Environment& environment) {
  const Number number = evaluate_number(source, range, environment);
  if (number.index() == 0) return std::get<0>(number);
  refuse(source, range, fmt::format("expected an integer, found {}", to_string(number)),
         "use // for a division that gives an integer");
}

}  // namespace shardlab
