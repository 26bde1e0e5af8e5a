#include "tests/property/ops_call.h"

namespace shardlab::test {
namespace {

Argument filled_argument(const Argument& argument, const std::vector<DTensor>& inputs) {
  if (argument.is_list()) {
    ArgumentList list;
    for (const Argument& element : argument.list())
      list.push_back(filled_argument(element, inputs));
    return list;
  }
  if (!argument.is_string() || argument.string().front() != '$') return argument;
  return inputs.at(static_cast<std::size_t>(argument.string()[1] - '0'));
}

}  // namespace

Arguments filled_in(const Arguments& args, const std::vector<DTensor>& inputs) {
  Arguments filled;
  for (const Argument& argument : args) filled.push_back(filled_argument(argument, inputs));
  return filled;
}

std::vector<DTensor> tensors_of(const Results& results) {
  std::vector<DTensor> tensors;
  for (const Argument& result : results) {
    if (result.is_tensor()) tensors.push_back(result.tensor());
    if (!result.is_list()) continue;
    for (const Argument& element : result.list()) tensors.push_back(element.tensor());
  }
  return tensors;
}

bool has_gradient(const OpRow& row) {
  if (row.gradient || (row.base != nullptr && row.base->gradient)) return true;
  return row.parts() != nullptr && std::holds_alternative<NoRule>(row.rule);
}

}  // namespace shardlab::test
