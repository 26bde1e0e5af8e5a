// value_case.h - recorded values, arguments and calls (tests/golden/facts/kernels/README.md) as
// ours.
#pragma once

#include <complex>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "schema/calls.h"
#include "sim/files/json_value.h"
#include "tensor/device.h"

namespace shardlab {

/// The layout of a case's inputs in memory.
enum class Layout {
  kRecorded,  ///< as the case gives them
  kTurned,    ///< The layout of a case's inputs in memory.
};

/// A result, or a gradient.
struct RecordedOutput {
  bool defined = true;  ///< false: the op returned None or a number here
  std::optional<Scalar> scalar;
  TensorMeta meta;
  bool comparable = false;                   ///< false: only shape and dtype are facts
  std::vector<std::complex<double>> values;  ///< row-major; bool and integers in the real part
  std::vector<std::int64_t> integers;        ///< of integer dtypes, exactly
};

/// One call of one op.
struct ValueCase {
  std::string id;
  std::string op;       ///< without "aten."
  std::string derived;  ///< the functional op of an in-place or out= case, else empty
  std::string raises;   ///< the exception class, or empty
  Arguments args;
  std::vector<std::pair<std::string, Argument>> kwargs;
  std::vector<RecordedOutput> outputs;
  bool outputs_are_mutated = false;  ///< the op returns nothing: outputs are the written tensors
  /// Recorded from the plain formula: results that it lacks are not comparable.
  bool emulated = false;

  // Gradient cases.
  std::vector<Tensor> grad_outputs;                   ///< undefined: no gradient flows in
  std::map<std::size_t, RecordedOutput> grad_inputs;  ///< by tensor argument, lists flattened
};

/// True where the line names c32 or bc32, which are names only.
bool has_half_complex(const Json& line);

/// A tensor as recorded: its storage, and its strides and offset in it.
struct RecordedTensor {
  TensorMeta meta;
  std::vector<std::byte> storage;
  std::int64_t offset = 0;  ///< in elements
};
/// The tensor under "t".
///   fails  Value: strides of another number of dims
RecordedTensor read_recorded_tensor(const Json& tensor);
/// In memory as recorded or turned.
///   fails  Internal: elements outside of the storage
Tensor tensor_of(const RecordedTensor& recorded, Device& device, Layout layout = Layout::kRecorded);
/// The value of an object of an argument that only the caller knows, as {"in": 0} or a tensor;
/// empty: the reader knows it.
using ArgumentOf = std::function<std::optional<Argument>(const Json& object)>;
/// An argument, or an element of one.
Argument recorded_argument(const Json& json, const ArgumentOf& known);
/// A result: a tensor, a number or None.
RecordedOutput recorded_output(const Json& json);
/// The case with its tensors on `device`.
///   fails  nlohmann's exceptions, Value: a line of another form
ValueCase read_value_case(const Json& line, Device& device, Layout layout = Layout::kRecorded);

/// Calls visit(argument) for each, lists flattened.
template <typename Visit>
void for_each_flat(const Arguments& arguments, Visit visit) {
  for (const Argument& argument : arguments) {
    if (!argument.is_list()) {
      visit(argument);
    } else {
      for (const Argument& element : argument.list()) visit(element);
    }
  }
}

}  // namespace shardlab
