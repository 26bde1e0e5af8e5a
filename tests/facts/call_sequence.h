// call_sequence.h - a recorded sample of the reference's operator suite as a program: calls one
// after another, on inputs and on results of earlier calls (tests/golden/facts/kernels/README.md,
// "OpInfo sequences").
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "schema/calls.h"
#include "schema/torch_spelling.h"
#include "tests/facts/value_case.h"

namespace shardlab {

struct OpRow;

/// One call. Tensors of the sequence are texts in its arguments: "$3" is value 3.
struct SequenceCall {
  std::string op;              ///< "aten.add.Tensor"
  const OpRow* row = nullptr;  ///< null: not registered
  Arguments args;
  std::vector<std::pair<std::string, Argument>> kwargs;
  std::vector<RecordedOutput> out;  ///< its results, lists flattened: shapes and dtypes, numbers
  std::size_t first = 0;            ///< number of its first result
  std::vector<std::size_t> takes;   ///< numbers of the values that it takes
};

/// The final elements of a value.
struct SequenceOutput {
  std::size_t value = 0;  ///< its number
  RecordedOutput expected;
};

/// A sequence as read. Values are numbered: inputs, constants, then the results of all calls.
struct CallSequence {
  std::string id;
  std::string opinfo;   ///< with the variant, if there is one: "norm/fro"
  bool random = false;  ///< a random op is among the calls
  std::vector<RecordedTensor> inputs;
  std::vector<RecordedTensor> constants;
  std::vector<SequenceCall> calls;
  std::vector<SequenceOutput> outputs;
  std::size_t values = 0;  ///< the number of them

  std::size_t given() const { return inputs.size() + constants.size(); }
};

///   fails  nlohmann's exceptions, Value: a line of another form
CallSequence read_sequence(const Json& line);

/// On the running rank: a plain tensor of floats in f64, others as they are.
DTensor in_reference_precision(const DTensor& given);

/// The call on the running rank, with the values' handles for their numbers.
///   fails  Value: arguments that no overload takes
ResolvedCall bound_call(const SequenceCall& call, const Arguments& values);
/// Runs it through the calls of the running rank. Gives its results as the recording counts them:
/// lists flattened, one None where the op gives nothing.
///   fails  as the call does; Value: another number of results than recorded
Arguments run_bound(const SequenceCall& call, const ResolvedCall& bound);

}  // namespace shardlab
