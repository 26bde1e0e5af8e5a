// A call over lists of independent tensors is one decision per element k, made on the op on one
// tensor that computes each element, or else on the op with its lists replaced by their k-th
// elements.
#include "propagate/elements.h"

#include <algorithm>

#include "base/error.h"
#include "ops/core/meta.h"
#include "schema/list_element.h"
#include "schema/op_row.h"

namespace shardlab {

MetaList argument_metas(const OpSchema& schema) {
  MetaList metas;
  const auto add = [&](const Argument& value) {
    metas.push_back(value.is_spec() ? &value.spec()->meta() : nullptr);
  };
  for (std::size_t i = 0; i < schema.args.size(); ++i) {
    const SchemaType& type = schema.row->op.arguments[i].type;
    if (!type.is_tensor()) continue;
    if (!type.is_list) {
      add(schema.args[i]);
    } else if (schema.args[i].is_list()) {
      for (const Argument& element : schema.args[i].list()) add(element);
    }
  }
  return metas;
}

OutputMetas infer_outputs(const OpSchema& schema) {
  return infer_metas(*schema.row, schema.args, argument_metas(schema));
}

bool independent_lists(const OpSchema& schema) {
  if (!schema.row->has(kIndependentLists)) return false;
  for (const Argument& argument : schema.args) {
    if (argument.is_list()) return true;
  }
  return false;
}

namespace {

// Makes calls of the op on one tensor.
std::vector<ElementOfList> single_calls(const OpSchema& schema) {
  const OpRow& row = *schema.row;
  std::vector<ElementOfList> elements(element_count(row, schema.args));
  for (std::size_t k = 0; k < elements.size(); ++k) {
    elements[k].schema = {element_row(row), element_arguments(row, schema.args, k), schema.layout};
    elements[k].outputs = infer_outputs(elements[k].schema);
  }
  return elements;
}

// Makes calls of the op itself, with lists replaced by their elements.
std::vector<ElementOfList> calls_without_lists(const OpSchema& schema, const OutputMetas& outputs) {
  const std::vector<SchemaArgument>& declared = schema.row->op.arguments;
  std::vector<ElementOfList> elements;
  bool sized = false;
  for (std::size_t i = 0; i < schema.args.size(); ++i) {
    if (!declared[i].type.is_tensor() || !schema.args[i].is_list()) continue;
    const ArgumentList& list = schema.args[i].list();
    if (list.empty() && sized) continue;
    if (sized && list.size() != elements.size()) {
      fail(ErrorKind::kValue, Fix{"give lists of one length"},
           "{}: list {} has {} tensors, the first list has {}", schema.row->name(),
           declared[i].name, list.size(), elements.size());
    }
    elements.resize(list.size(), {schema, {}, {}});
    sized = true;
    for (std::size_t k = 0; k < list.size(); ++k) elements[k].schema.args[i] = list[k];
  }
  for (std::size_t k = 0; k < std::min(elements.size(), outputs.size()); ++k) {
    elements[k].outputs.push_back(outputs[k]);
  }
  return elements;
}

}  // namespace

std::vector<ElementOfList> list_elements(const OpSchema& schema, const OutputMetas& outputs) {
  std::vector<ElementOfList> elements =
      decided_as_element(*schema.row) ? single_calls(schema) : calls_without_lists(schema, outputs);
  std::size_t first = 0;
  for (std::size_t i = 0; i < schema.args.size(); ++i) {
    const Argument& argument = schema.args[i];
    if (argument.is_list() && schema.row->op.arguments[i].type.is_tensor()) {
      const std::size_t count = argument.list().size();
      for (std::size_t k = 0; k < count; ++k) elements[k].positions.push_back(first + k);
      first += count;
    } else if (argument.is_spec()) {
      for (ElementOfList& element : elements) element.positions.push_back(first);
      ++first;
    }
  }
  return elements;
}

Element make_element(const OpSchema& schema, OutputMetas outputs) {
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
