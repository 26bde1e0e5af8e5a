// value_cases.h - the recorded value cases of tests/golden/facts/kernels as C++ data.
#pragma once

#include <complex>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tensor/device.h"

namespace shardlab {

/// How the inputs of a case lie in memory.
enum class Layout {
  kRecorded,  ///< as the case gives them
  kTurned,    ///< dims in reverse order with gaps
};

struct RecordedOutput {
  bool defined = true;  ///< false: the op returned None or a number here
  std::optional<Scalar> scalar;
  TensorMeta meta;
  bool comparable = false;                   ///< false: only shape and dtype are facts
  std::vector<std::complex<double>> values;  ///< row-major; bool and integers in the real part
  std::vector<std::int64_t> integers;        ///< of integer dtypes, exactly
};

struct ValueCase {
  std::string id;
  std::string op;       ///< without "aten."
  std::string derived;  ///< the functional op of an in-place or out= case, else empty
  std::string raises;   ///< the exception class, or empty
  std::vector<LocalArg> args;
  std::map<std::string, LocalArg> kwargs;
  std::vector<RecordedOutput> outputs;
  bool outputs_are_mutated = false;  ///< the op returns nothing: outputs are what it wrote
  /// Recorded from the plain formula: what it does not give is not comparable.
  bool emulated = false;

  // Gradient cases.
  std::vector<Tensor> grad_outputs;                   ///< undefined: no gradient flows in
  std::map<std::size_t, RecordedOutput> grad_inputs;  ///< by tensor argument, lists flattened

  bool has_scalar_output() const;
};

/// Calls visit(case) for each line of a gzip file of JSON lines.
void for_each_value_case(const std::string& path, Device& device, Layout layout,
                         const std::function<void(ValueCase&)>& visit);

/// One recorded pair of operands and the dtype in which they meet.
struct PromotionCase {
  enum class Kind { kDims, kZeroDim, kNumber };
  struct Operand {
    Kind kind;
    DType dtype;  ///< of a number: the one it has by itself
  };

  std::string op;
  Operand operands[2];
  DType result;
};
std::vector<PromotionCase> read_promotions(const std::string& path);

}  // namespace shardlab
