// An op is named as PyTorch prints it: its library, its name, its overload.
#include "sim/capture/step_statement.h"

namespace shardlab {

std::string bare_op(const std::string& op) {
  const std::size_t begin = op.find('.');
  if (begin == std::string::npos) return op;
  return op.substr(begin + 1, op.find('.', begin + 1) - begin - 1);
}

bool is_in_place(const std::string& op) { return bare_op(op).ends_with('_'); }

bool StepStatement::writes() const {
  return kind == StatementKind::kDrawn || (is_in_place(op) && kind == StatementKind::kCall);
}

}  // namespace shardlab
