// Equal expressions are read once: a program has few, and names them at every tensor.
#include "sim/recording/exported_sizes.h"

#include "base/error.h"
#include "sim/language/syntax/numbers.h"
#include "sim/language/syntax/parser.h"

namespace shardlab {

ExportedSizes::ExportedSizes(const JsonNode& ranges, const ExportOptions& options) {
  for (const JsonNode& range : ranges) {
    const std::string name(range.key());
    Symbol& symbol = symbols_[name];
    const auto bound = [&](const char* key) -> std::optional<std::int64_t> {
      const JsonNode* value = range.find(key);
      if (value == nullptr || !value->is_integer()) return std::nullopt;
      return value->integer();
    };
    symbol.least = bound("min_val");
    symbol.most = bound("max_val");
    const auto asked = options.sizes.find(name);
    if (asked != options.sizes.end()) symbol.size = asked->second;
  }
}

void ExportedSizes::note(const JsonNode& size, const std::string& input, std::size_t dim) {
  if (!size.contains("as_expr")) return;
  const JsonNode& expression = size.at("as_expr");
  const std::string name = symbol_in_text(std::string(expression.at("expr_str").text()));
  if (name.empty()) return;
  Symbol& symbol = symbols_[name];
  symbol.of.push_back(fmt::format("dim {} of {}", dim, input));
  const JsonNode* hint = expression.find("hint");
  const bool known = hint != nullptr && hint->contains("as_int");
  if (known && !symbol.size) symbol.size = hint->at("as_int").integer();
}

std::string ExportedSizes::misfit() const {
  for (const auto& [name, symbol] : symbols_) {
    const std::int64_t size = symbol.size.value_or(symbol.least.value_or(0));
    const bool fits =
        size >= symbol.least.value_or(0) && size >= 0 && (!symbol.most || size <= *symbol.most);
    if (!symbol.size || fits) continue;
    std::string range;
    if (symbol.least) range = fmt::format(" {}", *symbol.least);
    range += " or more";
    if (symbol.most) range += fmt::format(", at most {}", *symbol.most);
    return fmt::format("the size {} is {}, and the program takes{}", name, size, range);
  }
  return "";
}

std::int64_t ExportedSizes::of_text(std::string_view given) {
  const std::string text(given);
  const auto known = texts_.find(text);
  if (known != texts_.end()) return known->second;
  const std::int64_t value = size_in_text(text, [&](const std::string& name) {
    const auto symbol = symbols_.find(name);
    if (symbol != symbols_.end() && symbol->second.size) return *symbol->second.size;
    const bool given = symbol != symbols_.end() && !name.starts_with("u");
    fail(ErrorKind::kUnsupported,
         Fix{given ? fmt::format("--set {}=8", name) : "take numbers of data out of the program"},
         "{} {}", name, given ? "is a size without a value" : "is a number that data has");
  });
  texts_.emplace(text, value);
  return value;
}

std::int64_t ExportedSizes::of(const JsonNode& size) {
  if (size.is_number()) return size.integer();
  if (const JsonNode* number = size.find("as_int")) return number->integer();
  return of_text(size.at("as_expr").at("expr_str").text());
}

std::vector<ExportedSize> ExportedSizes::known() const {
  std::vector<ExportedSize> all;
  for (const auto& [name, symbol] : symbols_) all.push_back({name, symbol.size, symbol.of});
  return all;
}

// Both spellings are expressions of the language: names are symbols, functions of sizes a table.

namespace {

using ast::BinaryOp;
using ast::Expression;

std::string called_name(const ast::Call& call) {
  const auto* name = call.function->get<ast::Name>();
  return name == nullptr ? "" : name->id;
}

// "s52" of s52, and of Symbol('s52', positive=True); empty: it is no symbol.
std::string symbol_of(const Expression& expression) {
  if (const auto* name = expression.get<ast::Name>()) return name->id;
  const auto* call = expression.get<ast::Call>();
  if (call == nullptr || call->arguments.empty() || called_name(*call) != "Symbol") return "";
  const auto* text = call->arguments[0].value->constant<std::string>();
  return text == nullptr ? "" : *text;
}

struct SizeReader {
  [[noreturn]] void malformed() const {
    fail(Fix{"export the program again"}, "'{}' is no size", text_.substr(0, 200));
  }

  std::int64_t value(const Expression& expression) const {
    const std::string symbol = symbol_of(expression);
    if (!symbol.empty()) return size_of_(symbol);
    if (const auto* number = expression.constant<std::int64_t>()) return *number;
    if (const auto* unary = expression.get<ast::Unary>()) {
      if (unary->op == ast::UnaryOp::kNegative) return minus(0, value(*unary->operand));
    }
    if (const auto* binary = expression.get<ast::Binary>()) {
      return applied(binary->op, value(*binary->left), value(*binary->right));
    }
    if (const auto* call = expression.get<ast::Call>()) return called(*call);
    malformed();
  }

  std::int64_t applied(BinaryOp op, std::int64_t a, std::int64_t b) const {
    try {
      const Number number = arithmetic(op, a, b);
      if (const auto* whole = std::get_if<std::int64_t>(&number)) return *whole;
    } catch (const Error&) {  // too large, or a division by 0
    }
    malformed();
  }
  template <BinaryOp kOp>
  std::int64_t by(std::int64_t a, std::int64_t b) const {
    return applied(kOp, a, b);
  }
  std::int64_t minus(std::int64_t a, std::int64_t b) const { return applied(BinaryOp::kSub, a, b); }
  std::int64_t up(std::int64_t a, std::int64_t b) const {
    return minus(0, applied(BinaryOp::kFloorDiv, minus(0, a), b));
  }
  std::int64_t larger(std::int64_t a, std::int64_t b) const { return std::max(a, b); }
  std::int64_t smaller(std::int64_t a, std::int64_t b) const { return std::min(a, b); }

  std::int64_t called(const ast::Call& call) const {
    struct Row {
      std::string_view name;
      std::int64_t (SizeReader::*step)(std::int64_t, std::int64_t) const;
      std::size_t least, most;  // operands; more than two are folded
    };
    constexpr std::size_t kAny = ~std::size_t{0};
    static constexpr Row kRows[] = {
        {"Integer", &SizeReader::larger, 1, 1},
        {"Add", &SizeReader::by<BinaryOp::kAdd>, 1, kAny},
        {"Mul", &SizeReader::by<BinaryOp::kMul>, 1, kAny},
        {"Max", &SizeReader::larger, 1, kAny},
        {"Min", &SizeReader::smaller, 1, kAny},
        {"Pow", &SizeReader::by<BinaryOp::kPow>, 2, 2},
        {"PowByNatural", &SizeReader::by<BinaryOp::kPow>, 2, 2},
        {"FloorDiv", &SizeReader::by<BinaryOp::kFloorDiv>, 2, 2},
        {"CleanDiv", &SizeReader::by<BinaryOp::kFloorDiv>, 2, 2},
        {"CeilDiv", &SizeReader::up, 2, 2},
        {"Mod", &SizeReader::by<BinaryOp::kMod>, 2, 2},
        {"PythonMod", &SizeReader::by<BinaryOp::kMod>, 2, 2},
    };
    const std::string name = called_name(call);
    if (name == "Symbol") malformed();
    const auto* row = std::ranges::find(kRows, name, &Row::name);
    if (row == std::end(kRows)) {
      fail(ErrorKind::kUnsupported, Fix{"give the program sizes without it"},
           "a size is a {} of others, which is not read", name);
    }
    if (call.arguments.size() < row->least || call.arguments.size() > row->most) malformed();
    std::int64_t result = value(*call.arguments[0].value);
    for (std::size_t i = 1; i < call.arguments.size(); ++i) {
      result = (this->*row->step)(result, value(*call.arguments[i].value));
    }
    return result;
  }

  std::string_view text_;
  const std::function<std::int64_t(const std::string&)>& size_of_;
};

// The expression of a size; null if it is none.
ast::ExpressionPtr parsed_size(std::string_view text) {
  try {
    return parse_expression(SourceText("", std::string(text)));
  } catch (const Error&) {
    return nullptr;
  }
}

}  // namespace

std::int64_t size_in_text(std::string_view text,
                          const std::function<std::int64_t(const std::string&)>& size_of) {
  const SizeReader reader{text, size_of};
  const ast::ExpressionPtr expression = parsed_size(text);
  if (expression == nullptr) reader.malformed();
  return reader.value(*expression);
}

std::string symbol_in_text(std::string_view text) {
  const ast::ExpressionPtr expression = parsed_size(text);
  return expression == nullptr ? "" : symbol_of(*expression);
}

}  // namespace shardlab
