// Runs the same rows and kernels as the ranks. So it cannot find a wrong kernel: recorded facts do.
#include "sim/verify/step_eval.h"

#include <cmath>

#include "autograd/autograd.h"
#include "dispatch/local_call.h"
#include "dispatch/plain_calls.h"
#include "propagate/propagator.h"
#include "schema/argument.h"
#include "schema/op_row.h"
#include "sim/verify/step_value.h"

namespace shardlab {

JudgeScope::JudgeScope(Device& device, Propagator& propagator) {
  context_.device = &device;
  context_.propagator = &propagator;
  context_.plans = &propagator.plans();
  context_.mode = 0;
  previous_ = set_current_rank(&context_);
}

JudgeScope::~JudgeScope() { set_current_rank(previous_); }

namespace {

Scalar absolute(const Scalar& value) {
  if (value.category() == Category::kInteger) return Scalar(std::abs(value.to_int()));
  if (value.category() == Category::kFloat) return Scalar(std::fabs(value.to_double()));
  return value;
}

// Arguments that are not tensors.
Argument plain_argument(const Argument& given, const SchemaArgument& declared, const StepPart& part,
                        EvaluateIn in) {
  if (declared.type.kind == TypeKind::kGenerator && !given.is_none()) {
    return std::make_shared<RandomState>(part.random);
  }
  if (in == EvaluateIn::kOwn) return given;
  if (given.is_dtype()) return wide_dtype(given.dtype());
  const bool factor = declared.type.kind == TypeKind::kScalar && given.is_scalar();
  return factor && in == EvaluateIn::kAbsolute ? Argument(absolute(given.scalar())) : given;
}

// A handle whose storage is its own: the op may write to it.
Argument operand(const Tensor& value) {
  return value.defined() ? Argument(DTensor(value.snapshot())) : Argument();
}

std::vector<Tensor> tensors_of(Results& results) {
  std::vector<Tensor> tensors;
  for (Argument& result : results) {
    if (result.is_list()) {
      for (const Argument& element : result.list()) {
        tensors.push_back(element.is_tensor() ? element.tensor().local() : Tensor());
      }
    } else if (result.is_tensor() && result.tensor().defined()) {
      tensors.push_back(result.tensor().local());
    } else if (result.is_none() || result.is_tensor()) {
      tensors.emplace_back();
    }
  }
  return tensors;
}

}  // namespace

std::vector<Tensor> evaluate(const StepPart& part, const std::vector<Tensor>& operands,
                             EvaluateIn in) {
  const OpRow& row = *part.row;
  Arguments args = part.args;
  std::size_t next = 0;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!row.op.arguments[i].type.is_tensor()) {
      args[i] = plain_argument(part.args[i], row.op.arguments[i], part, in);
    } else if (args[i].is_list()) {
      for (Argument& element : std::get<ArgumentList>(args[i].variant())) {
        element = operand(operands[next++]);
      }
    } else {
      args[i] = operand(operands[next++]);
    }
  }
  current_rank().random = part.random;
  Results results = plain_calls().call(row, args);
  if (!row.inplace() && !row.out_variant()) return tensors_of(results);
  std::vector<Tensor> written;
  for_each_tensor_slot(row.op, args, [&](std::size_t i, const Argument& argument) {
    if (row.op.arguments[i].alias.write && argument.is_tensor()) {
      written.push_back(argument.tensor().local());
    }
  });
  return written;
}

}  // namespace shardlab
