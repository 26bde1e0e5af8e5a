// A result is weighted into a sum with given factors, so that each of its elements has a gradient
// of its own.
#include "tests/unit/models/definition.h"

#include <doctest/doctest.h>

#include "sim/world/spmd.h"

namespace shardlab::test {

namespace {

// Derivatives are taken by the leaves' elements, one after the other.
Arrays with_slopes(const std::vector<Given>& given) {
  std::size_t count = 0, next = 0;
  for (const Given& one : given) count += one.leaf ? one.values.values.size() : 0;
  Arrays arrays;
  for (const Given& one : given) {
    DualArray& array = arrays.emplace_back(one.values.shape);
    for (std::size_t i = 0; i < one.values.values.size(); ++i) {
      Dual& element = array.elements[i];
      element.value = one.values.values[i];
      if (!one.leaf) continue;
      element.slope.resize(count);
      element.slope[next++] = 1;
    }
  }
  return arrays;
}

std::string name_of(std::size_t number) { return "x" + std::to_string(number); }

Model model_of(const Definition& definition) {
  Model model;
  const DualArray out = definition.loops(with_slopes(definition.given));
  const Plain factors = numbers(out.shape, 77);
  Dual loss;
  for (std::int64_t i = 0; i < out.count(); ++i) loss += factors.at(i) * out[i];
  model.worked.loss = loss.value;
  std::size_t next = 0;
  for (std::size_t i = 0; i < definition.given.size(); ++i) {
    const Given& one = definition.given[i];
    (one.leaf ? model.leaves : model.integers)[name_of(i)] = one.values;
    if (!one.leaf) continue;
    Plain& gradient = model.worked.gradients[name_of(i)] = zeros_of(one.values.shape);
    for (double& value : gradient.values) value = loss.slope.at(next++);
  }
  model.program = [definition, factors, shape = out.shape](const Placed& at, Places& places) {
    Tensors x;
    for (std::size_t i = 0; i < definition.given.size(); ++i) x.push_back(at.at(name_of(i)));
    const DTensor y = definition.call ? definition.call(x)
                                      : first_of(definition.op, Arguments(x.begin(), x.end()));
    CHECK(y.shape() == shape);
    const DTensor by = places.place(factors);
    return sum(places.moved(y) * by);
  };
  return model;
}

}  // namespace

Given floats(const Dims& shape, std::int64_t start, double from, double to) {
  Given out{numbers(shape, start)};
  for (double& value : out.values.values) value = from + (value + 1) / 2 * (to - from);
  return out;
}

Given integers(const Dims& shape, const std::vector<double>& values) {
  return {{shape, values}, false};
}

void check_definitions(const std::vector<Definition>& definitions) {
  for (const Definition& definition : definitions) {
    CAPTURE(definition.op);
    check_model(model_of(definition));
  }
}

DTensor first_of(const std::string& op, const Arguments& args) {
  return recording_calls()(op, args).at(0).tensor();
}

ArgumentList ints(const std::vector<std::int64_t>& numbers) {
  ArgumentList list;
  for (const std::int64_t number : numbers) list.push_back(Argument(number));
  return list;
}

ArgumentList tensors(const std::vector<DTensor>& list) {
  ArgumentList out;
  for (const DTensor& one : list) out.push_back(Argument(one));
  return out;
}

}  // namespace shardlab::test
