// Names of operators.
#include "sim/language/syntax/ast.h"

#include <algorithm>
#include <array>

namespace shardlab::ast {

std::string_view to_string(UnaryOp op) {
  static constexpr std::array<std::string_view, 4> kText = {"-", "+", "~", "not"};
  return kText[static_cast<std::size_t>(op)];
}

std::string_view to_string(BinaryOp op) {
  static constexpr std::array<std::string_view, 13> kText = {"+", "-", "*", "/", "//", "%", "**",
                                                             "@", "&", "|", "^", "<<", ">>"};
  return kText[static_cast<std::size_t>(op)];
}

std::string_view to_string(CompareOp op) {
  static constexpr std::array<std::string_view, 10> kText = {"==", "!=", "<",      "<=", ">",
                                                             ">=", "is", "is not", "in", "not in"};
  return kText[static_cast<std::size_t>(op)];
}

std::string_view to_string(BoolOp op) { return op == BoolOp::kAnd ? "and" : "or"; }

bool Function::binds(std::string_view id) const {
  return (first_letters & first_letter(id)) != 0 &&
         std::binary_search(locals.begin(), locals.end(), id);
}

}  // namespace shardlab::ast
