// Each function puts its arguments into the order of the ATen schema and makes one recorded call;
// where they are in that order, a script writes the function.
// No function decides anything about shapes, dtypes or placements.
#include "api/tensor_ops.h"

#include "autograd/at_place.h"
#include "autograd/program.h"
#include "base/error.h"
#include "tensor/host.h"

namespace shardlab {

namespace {

// A list of gradients has an undefined entry where no gradient flowed, and so has the gradient of a
// result that has none.
void check_defined(std::string_view name, const Arguments& args) {
  for_each_tensor(args, [&](const DTensor& tensor) {
    if (tensor.defined()) return check_own(name, tensor);
    fail(
        Fix{"make it first; a gradient is kept for leaves only, which x.detach() makes of results"},
        "{}: a tensor is undefined", name);
  });
}

Results call_at(const SourceLine& place, std::string_view name, Arguments args) {
  return at_place(place, [&] {
    check_defined(name, args);
    return program_calls()(name, std::move(args));
  });
}

DTensor only_tensor(Results results) {
  return std::get<DTensor>(std::move(results.at(0).variant()));
}

// An op with one tensor result, and x its first argument.
template <typename... Rest>
DTensor call(std::string_view name, Operand x, Rest&&... rest) {
  return only_tensor(call_at(x.place, name, {x.tensor, Argument(std::forward<Rest>(rest))...}));
}

Argument optional_tensor(const DTensor& tensor) {
  return tensor.defined() ? Argument(tensor) : Argument();
}

Argument optional_int(const std::optional<std::int64_t>& value) {
  return value ? Argument(*value) : Argument();
}

Argument kept(KeepDim keep) { return keep == KeepDim::kYes; }

ArgumentList list_of(const std::vector<DTensor>& tensors) {
  return {tensors.begin(), tensors.end()};
}

template <typename... Rest>
std::vector<DTensor> pieces(std::string_view name, Operand x, Rest&&... rest) {
  const Results results = call_at(x.place, name, {x.tensor, Argument(std::forward<Rest>(rest))...});
  std::vector<DTensor> out;
  for (const Argument& piece : results.at(0).list()) out.push_back(piece.tensor());
  return out;
}

}  // namespace

// The other functions of tensor_ops.h, each one call of the op that takes its parameters, which
// src/api/define_ops.py finds among the schemas.
#include "api/tensor_ops.inc"

DTensor operator-(Scalar a, Operand b) { return call("aten::rsub.Scalar", b, a); }
DTensor operator/(Scalar a, Operand b) { return mul({call("aten::reciprocal", b), b.place}, a); }

DTensor gelu(Operand x, Gelu form) {
  return call("aten::gelu", x, form == Gelu::kTanh ? "tanh" : "none");
}

DTensor var(Operand x, const Dims& dims, const Variance& options) {
  return call("aten::var.correction", x, dims, options.correction, kept(options.keep));
}

DTensor linear(Operand x, const DTensor& weight, const DTensor& bias) {
  return call("aten::linear", x, weight, optional_tensor(bias));
}

DTensor layer_norm(Operand x, const Dims& shape, const Norm& options) {
  return call("aten::layer_norm", x, shape, optional_tensor(options.weight),
              optional_tensor(options.bias), options.eps.value_or(1e-5));
}
DTensor rms_norm(Operand x, const Dims& shape, const Norm& options) {
  if (options.bias.defined()) {
    fail(Fix{"add it to the result: rms_norm(x, shape) + bias"},
         "rms_norm: a bias is given; rms_norm has none");
  }
  return call("aten::rms_norm", x, shape, optional_tensor(options.weight),
              options.eps ? Argument(*options.eps) : Argument());
}
DTensor embedding(Operand indices, const DTensor& weight) {
  return call("aten::embedding", {weight, indices.place}, indices.tensor);
}
DTensor cross_entropy(Operand x, const DTensor& target, const CrossEntropy& options) {
  return call("aten::cross_entropy_loss", x, target, optional_tensor(options.weight),
              static_cast<int>(options.reduction), options.ignore_index, options.label_smoothing);
}

DTensor dropout(Operand x, double p) { return call("aten::dropout", x, p, true); }
DTensor scaled_dot_product_attention(Operand query, const DTensor& key, const DTensor& value,
                                     const Attention& options) {
  return call("aten::scaled_dot_product_attention", query, key, value,
              optional_tensor(options.mask), options.dropout, options.causal,
              options.scale ? Argument(*options.scale) : Argument());
}

DTensor slice(Operand x, std::int64_t dim, const Range& range) {
  return call("aten::slice.Tensor", x, dim, optional_int(range.start), optional_int(range.end),
              range.step);
}
DTensor cat(const std::vector<DTensor>& tensors, std::int64_t dim, SourceLine place) {
  return only_tensor(call_at(place, "aten::cat", {list_of(tensors), dim}));
}
DTensor stack(const std::vector<DTensor>& tensors, std::int64_t dim, SourceLine place) {
  return only_tensor(call_at(place, "aten::stack", {list_of(tensors), dim}));
}

DTensor whole_item(Operand x) {
  return at_place(x.place, [&] {
    if (x.tensor.numel() != 1) {
      fail(Fix{"item() takes one element; index the tensor first"},
           "item: the tensor has {} elements; it must have 1", x.tensor.numel());
    }
    const DTensor whole = full_tensor(x);
    program_calls().perform(ReadEvent{whole});
    return whole;
  });
}

Scalar item(Operand x) {
  const DTensor whole = whole_item(x);
  return whole.local().numel() == 0 ? Scalar(0) : read_scalar(whole.local());
}

}  // namespace shardlab
