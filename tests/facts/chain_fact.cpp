// Reads a chain fact. Numbers are recorded as the shortest decimals that give the same f32 (or the
// same double), so they are rounded on the way in; an input that the program does not write must
// end with the values that it began with.
#include "tests/facts/chain_fact.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "sim/files/json_value.h"

namespace shardlab {

namespace {

DType dtype_named(const Json& name) {
  const auto dtype = parse_dtype(name.get_ref<const std::string&>());
  if (!dtype) fail(ErrorKind::kValue, "no dtype is called {}", name.dump());
  return *dtype;
}

double real_of(const Json& number, DType dtype) {
  const double value = number_of(number);
  return dtype == DType::kF64 ? value : static_cast<double>(static_cast<float>(value));
}

ChainTensor tensor_of(const Json& recorded) {
  ChainTensor tensor;
  tensor.dtype = dtype_named(recorded.at("dtype"));
  for (const Json& size : recorded.at("shape"))
    tensor.shape.push_back(integer_of<std::int64_t>(size));
  const Json& data = recorded.at("data");
  if (static_cast<std::int64_t>(data.size()) != product(tensor.shape)) {
    fail(ErrorKind::kValue, "{} numbers for a tensor of {} elements", data.size(),
         product(tensor.shape));
  }
  for (const Json& number : data) {
    if (is_integral(tensor.dtype)) {
      tensor.integers.push_back(number.is_boolean() ? std::int64_t{number.get<bool>()}
                                                    : integer_of<std::int64_t>(number));
    } else {
      tensor.reals.push_back(real_of(number, tensor.dtype));
    }
  }
  return tensor;
}

void read_expected(const Json& line, ChainFact& fact) {
  for (const auto& [name, value] : line.at("results").items()) {
    fact.values.push_back({name, tensor_of(value)});
  }
  const Json& after = line.at("after");
  for (const ChainInput& input : fact.inputs) {
    fact.values.push_back(
        {input.name, after.contains(input.name) ? tensor_of(after.at(input.name)) : input.value});
  }
  for (const auto& [name, value] : line.at("grads").items()) {
    ChainExpected gradient{name + ".grad", std::nullopt};
    if (!value.is_null()) gradient.value = tensor_of(value);
    fact.gradients.push_back(std::move(gradient));
  }
}

}  // namespace

ChainFact chain_fact(const Json& line) {
  ChainFact fact;
  fact.id = line.at("id").get<std::string>();
  fact.program = line.at("program").get<std::string>();
  for (const auto& [name, value] : line.at("inputs").items()) {
    fact.inputs.push_back({name, tensor_of(value), value.at("requires_grad").get<bool>()});
  }
  fact.coarsest = dtype_named(line.at("coarsest"));
  fact.tags = line.at("tags").get<std::vector<std::string>>();
  fact.signed_zero = std::ranges::find(fact.tags, "signed-zero") != fact.tags.end();
  if (line.at("error").is_null()) {
    read_expected(line, fact);
  } else {
    fact.error_line = integer_of<std::int32_t>(line.at("error").at("line"));
  }
  return fact;
}

double chain_tolerance(DType coarsest) {
  switch (coarsest) {
    case DType::kF64:
      return 1e-10;
    case DType::kF32:
      return 2e-5;
    case DType::kF16:
      return 0.01;
    case DType::kBF16:
      return 0.06;
    default:
      fail(ErrorKind::kValue, "no tolerance is known for {}", to_string(coarsest));
  }
}

}  // namespace shardlab
