// reference_calls.h - a program in higher precision: its values are compared with the program's.
#pragma once

#include "autograd/program.h"

namespace shardlab {

/// kReference: every floating dtype is f64, every complex one c128. Random draws are made in the
/// dtype the program names, then cast.
enum class Precision : std::uint8_t { kDeclared, kReference };

/// The dtype that replaces `dtype` in a reference run.
DType reference_dtype(DType dtype);

/// Calls of a reference run, whose inputs have reference_dtype() already. Tensors that the program
/// makes without an operand (a factory, a draw) are made in its dtype, and cast.
class ReferenceCalls final : public ForwardingProgram {
 public:
  using ForwardingProgram::ForwardingProgram;

  Results perform(const ProgramEvent& event) override;
  DType dtype_of(DType written) const override { return reference_dtype(written); }

 private:
  Results widened(Results results);
};

}  // namespace shardlab
