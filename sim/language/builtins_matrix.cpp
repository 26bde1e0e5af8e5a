// Products of tensors of any number of dims, in terms of mm, bmm and addmm, as torch does.
#include <algorithm>

#include "sim/language/composites.h"

namespace shardlab {

namespace {

DTensor reshaped(Interpreter& in, const DTensor& tensor, const Dims& shape) {
  if (tensor.shape() == shape) return tensor;
  return in.tensor_op("reshape", {tensor, make_tuple(shape)});
}

Dims without_last(const Dims& shape, std::size_t count) {
  return Dims(shape.begin(), shape.end() - static_cast<std::ptrdiff_t>(count));
}

Dims broadcast(const Dims& left, const Dims& right) {
  Dims out(std::max(left.size(), right.size()), 1);
  const auto lay = [&](const Dims& shape) {
    const std::size_t skip = out.size() - shape.size();
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (out[skip + i] == 1) out[skip + i] = shape[i];
      const bool fits = shape[i] == 1 || shape[i] == out[skip + i];
      if (!fits)
        fail(ErrorKind::kValue, "matmul: batch dims of {} and {}", out[skip + i], shape[i]);
    }
  };
  lay(left);
  lay(right);
  return out;
}

// [batch..., rows, columns] as one batch of matrices.
DTensor as_batch(Interpreter& in, const DTensor& tensor, Dims batch) {
  const std::int64_t rows = tensor.shape()[tensor.ndim() - 2];
  const std::int64_t columns = tensor.shape()[tensor.ndim() - 1];
  const std::int64_t count = product(batch);
  batch.push_back(rows);
  batch.push_back(columns);
  DTensor out = tensor;
  if (out.shape() != batch) out = in.tensor_op("expand", {out, make_tuple(batch)});
  return reshaped(in, out, {count, rows, columns});
}

DTensor batched(Interpreter& in, const DTensor& left, const DTensor& right) {
  if (left.ndim() == 3 && right.ndim() == 3 && left.shape()[0] == right.shape()[0]) {
    return in.tensor_op("bmm", {left, right});
  }
  Dims batch = broadcast(without_last(left.shape(), 2), without_last(right.shape(), 2));
  const DTensor out = in.tensor_op("bmm", {as_batch(in, left, batch), as_batch(in, right, batch)});
  batch.push_back(out.shape()[1]);
  batch.push_back(out.shape()[2]);
  return reshaped(in, out, batch);
}

// The dims of `left` but the last are rows of one matrix.
DTensor by_matrix(Interpreter& in, const DTensor& left, const DTensor& right, const Value& bias) {
  Dims shape = without_last(left.shape(), 1);
  const std::int64_t rows = product(shape);
  const DTensor flat = reshaped(in, left, {rows, left.shape().back()});
  const DTensor out = bias.is_none() ? in.tensor_op("mm", {flat, right})
                                     : in.tensor_op("addmm", {bias, flat, right});
  shape.push_back(out.shape()[1]);
  return reshaped(in, out, shape);
}

Value run_matmul(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("matmul", {"input", "other"}, std::move(call));
  return matrix_product(in, given.tensor("input"), given.tensor("other"));
}

Value run_linear(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("linear", {"input", "weight", "bias="}, std::move(call));
  const DTensor input = given.tensor("input");
  const DTensor weight = given.tensor("weight");
  if (in.has_op("linear")) return in.call_op("linear", {{input, weight, given["bias"]}, {}});
  if (input.ndim() < 2 || weight.ndim() != 2) {
    const DTensor out = matrix_product(in, input, in.tensor_op("t", {weight}));
    return given.has("bias") ? in.call_op("add", {{out, given["bias"]}, {}}) : Value(out);
  }
  return by_matrix(in, input, in.tensor_op("t", {weight}), given["bias"]);
}

}  // namespace

DTensor matrix_product(Interpreter& in, const DTensor& left, const DTensor& right) {
  if (in.has_op("matmul")) return in.tensor_op("matmul", {left, right});
  if (left.ndim() == 0 || right.ndim() == 0) {
    fail(ErrorKind::kValue, "matmul: both need at least one dim: {} and {}", type_string(left),
         type_string(right));
  }
  if (left.ndim() == 1) {
    const DTensor out = matrix_product(in, in.tensor_op("unsqueeze", {left, 0}), right);
    return in.tensor_op("squeeze", {out, right.ndim() == 1 ? 0 : -2});
  }
  if (right.ndim() == 1) {
    const DTensor out = matrix_product(in, left, in.tensor_op("unsqueeze", {right, 1}));
    return in.tensor_op("squeeze", {out, -1});
  }
  if (right.ndim() == 2) return by_matrix(in, left, right, {});
  return batched(in, left, right);
}

BuiltinTable matrix_builtins() {
  static const Builtin kTable[] = {{"linear", run_linear}, {"matmul", run_matmul}};
  return kTable;
}

}  // namespace shardlab
