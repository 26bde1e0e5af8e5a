// A call over lists of independent tensors is one decision per element k, made on the op with its
// lists replaced by their k-th elements.
#include "propagate/elements.h"

#include "base/fix.h"

namespace shardlab {

bool independent_lists(const OpSchema& schema) {
  if (!schema.row->has(kIndependentLists)) return false;
  for (const Argument& argument : schema.args) {
    if (argument.is_list()) return true;
  }
  return false;
}

std::vector<ElementOfList> list_elements(const OpSchema& schema) {
  const std::vector<SchemaArgument>& declared = schema.row->op.arguments;
  std::vector<ElementOfList> elements;
  bool sized = false;
  for (std::size_t i = 0; i < schema.args.size(); ++i) {
    if (!declared[i].type.is_tensor() || !schema.args[i].is_list()) continue;
    const std::size_t count = schema.args[i].list().size();
    if (count == 0 && sized) continue;
    if (sized && count != elements.size()) {
      fail(ErrorKind::kValue, Fix{"give lists of one length"},
           "{}: list {} has {} tensors, the first list has {}", schema.row->name(),
           declared[i].name, count, elements.size());
    }
    elements.resize(count, {schema, {}});
    sized = true;
  }
  std::size_t first = 0;
  for (std::size_t i = 0; i < schema.args.size(); ++i) {
    const Argument& argument = schema.args[i];
    if (argument.is_list() && declared[i].type.is_tensor()) {
      const ArgumentList& list = argument.list();
      for (std::size_t k = 0; k < list.size(); ++k) {
        elements[k].schema.args[i] = list[k];
        elements[k].positions.push_back(first + k);
      }
      first += list.size();
    } else if (argument.is_spec()) {
      for (ElementOfList& element : elements) element.positions.push_back(first);
      ++first;
    }
  }
  return elements;
}

Element make_element(const OpSchema& schema, std::vector<OutputMeta> outputs) {
  Element element{schema, std::move(outputs), schema.tensor_specs(), 0, 0};
  element.positional = element.tensors.size();
  for (const DTensorSpec* spec : schema.keyword_tensor_specs()) element.tensors.push_back(spec);
  for (std::size_t i = 0; i < schema.args.size(); ++i) {
    if (!schema.row->op.arguments[i].is_out) continue;
    if (schema.args[i].is_spec()) ++element.outs;
    if (schema.args[i].is_list()) element.outs += schema.args[i].list().size();
  }
  return element;
}

}  // namespace shardlab
