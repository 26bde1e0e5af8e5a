// Only arguments and results that decide a dtype are changed: arguments that name one before a
// call, and afterwards the results that have another one than the reference run would give them.
#include "sim/run/reference_calls.h"

#include <algorithm>

#include "schema/op_row.h"

namespace shardlab {

namespace {

bool takes_tensors(const OpRow& row) {
  return std::ranges::any_of(row.op.arguments,
                             [](const auto& argument) { return argument.type.is_tensor(); });
}

// randn_like(x) follows the dtype of x, which in the reference run is not the program's.
void draw_in_f32(const OpRow& row, Arguments& args) {
  const auto dtype = row.op.find_argument("dtype");
  if (dtype && args[*dtype].is_none()) args[*dtype] = Argument(DType::kF32);
}

// torch.finfo's values for the dtype that the program names, for which the reference run has f64.
void name_step_of_f32(const OpRow& row, Arguments& args) {
  const auto eps = row.op.find_argument("eps");
  check_invariant(eps.has_value(), "a row whose eps is a dtype's step has an eps");
  if (args[*eps].is_none()) args[*eps] = Argument(2 * unit_roundoff(DType::kF32));
}

Arguments in_reference(const OpRow& row, Arguments args) {
  if (!takes_tensors(row)) return args;
  if (row.has(kRandom)) {
    draw_in_f32(row, args);
  } else {
    for (Argument& argument : args) {
      if (argument.is_dtype()) argument = Argument(reference_dtype(argument.dtype()));
    }
  }
  if (row.has(kStepOfDtype)) name_step_of_f32(row, args);
  return args;
}

}  // namespace

DType reference_dtype(DType dtype) {
  if (is_complex(dtype)) return DType::kC128;
  return is_floating(dtype) ? DType::kF64 : dtype;
}

Results ReferenceCalls::perform(const ProgramEvent& event) {
  if (const auto* op = std::get_if<OpEvent>(&event)) {
    const Arguments args = in_reference(*op->row, *op->args);
    Results results = next().perform(OpEvent{op->row, &args, op->generator});
    return op->row->inplace() ? results : widened(std::move(results));
  }
  if (std::holds_alternative<FactoryEvent>(event)) return widened(next().perform(event));
  if (const auto* move = std::get_if<RedistributeEvent>(&event)) {
    RedistributeEvent wide = *move;
    for (std::optional<DType>* dtype : {&wide.dtypes.forward, &wide.dtypes.backward}) {
      if (*dtype) *dtype = reference_dtype(**dtype);
    }
    return next().perform(wide);
  }
  return next().perform(event);
}

Results ReferenceCalls::widened(Results results) {
  for (Argument& result : results) {
    if (!result.is_tensor() || !result.tensor().defined()) continue;
    const DTensor& tensor = result.tensor();
    const DType wanted = reference_dtype(tensor.dtype());
    if (wanted == tensor.dtype()) continue;
    result = next().one("aten::_to_copy", {tensor, wanted});
  }
  return results;
}

}  // namespace shardlab
