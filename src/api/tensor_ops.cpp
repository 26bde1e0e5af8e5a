// Each function puts its arguments into the order of the ATen schema and makes one recorded call.
// No function decides anything about shapes, dtypes or placements.
#include "api/tensor_ops.h"

#include "autograd/program.h"
#include "base/fix.h"

namespace shardlab {

namespace {

DTensor call(std::string_view name, Arguments args) {
  return program_calls().one(name, std::move(args));
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

std::vector<DTensor> pieces(std::string_view name, Arguments args) {
  const Results results = program_calls()(name, std::move(args));
  std::vector<DTensor> out;
  for (const Argument& piece : results.at(0).list()) out.push_back(piece.tensor());
  return out;
}

}  // namespace

DTensor add(const DTensor& a, const DTensor& b) { return call("aten::add.Tensor", {a, b}); }
DTensor add(const DTensor& a, Scalar b) { return call("aten::add.Scalar", {a, b}); }
DTensor sub(const DTensor& a, const DTensor& b) { return call("aten::sub.Tensor", {a, b}); }
DTensor sub(const DTensor& a, Scalar b) { return call("aten::sub.Scalar", {a, b}); }
DTensor mul(const DTensor& a, const DTensor& b) { return call("aten::mul.Tensor", {a, b}); }
DTensor mul(const DTensor& a, Scalar b) { return call("aten::mul.Scalar", {a, b}); }
DTensor div(const DTensor& a, const DTensor& b) { return call("aten::div.Tensor", {a, b}); }
DTensor div(const DTensor& a, Scalar b) { return call("aten::div.Scalar", {a, b}); }
DTensor pow(const DTensor& base, const DTensor& exponent) {
  return call("aten::pow.Tensor_Tensor", {base, exponent});
}
DTensor pow(const DTensor& base, Scalar exponent) {
  return call("aten::pow.Tensor_Scalar", {base, exponent});
}
DTensor neg(const DTensor& x) { return call("aten::neg", {x}); }

DTensor operator-(Scalar a, const DTensor& b) { return call("aten::rsub.Scalar", {b, a}); }
DTensor operator/(Scalar a, const DTensor& b) { return mul(call("aten::reciprocal", {b}), a); }

DTensor eq(const DTensor& a, const DTensor& b) { return call("aten::eq.Tensor", {a, b}); }
DTensor eq(const DTensor& a, Scalar b) { return call("aten::eq.Scalar", {a, b}); }
DTensor ne(const DTensor& a, const DTensor& b) { return call("aten::ne.Tensor", {a, b}); }
DTensor ne(const DTensor& a, Scalar b) { return call("aten::ne.Scalar", {a, b}); }
DTensor lt(const DTensor& a, const DTensor& b) { return call("aten::lt.Tensor", {a, b}); }
DTensor lt(const DTensor& a, Scalar b) { return call("aten::lt.Scalar", {a, b}); }
DTensor le(const DTensor& a, const DTensor& b) { return call("aten::le.Tensor", {a, b}); }
DTensor le(const DTensor& a, Scalar b) { return call("aten::le.Scalar", {a, b}); }
DTensor gt(const DTensor& a, const DTensor& b) { return call("aten::gt.Tensor", {a, b}); }
DTensor gt(const DTensor& a, Scalar b) { return call("aten::gt.Scalar", {a, b}); }
DTensor ge(const DTensor& a, const DTensor& b) { return call("aten::ge.Tensor", {a, b}); }
DTensor ge(const DTensor& a, Scalar b) { return call("aten::ge.Scalar", {a, b}); }
DTensor where(const DTensor& condition, const DTensor& a, const DTensor& b) {
  return call("aten::where.self", {condition, a, b});
}

DTensor exp(const DTensor& x) { return call("aten::exp", {x}); }
DTensor log(const DTensor& x) { return call("aten::log", {x}); }
DTensor sqrt(const DTensor& x) { return call("aten::sqrt", {x}); }
DTensor rsqrt(const DTensor& x) { return call("aten::rsqrt", {x}); }
DTensor tanh(const DTensor& x) { return call("aten::tanh", {x}); }
DTensor sigmoid(const DTensor& x) { return call("aten::sigmoid", {x}); }
DTensor relu(const DTensor& x) { return call("aten::relu", {x}); }
DTensor gelu(const DTensor& x, Gelu form) {
  return call("aten::gelu", {x, form == Gelu::kTanh ? "tanh" : "none"});
}
DTensor silu(const DTensor& x) { return call("aten::silu", {x}); }

DTensor sum(const DTensor& x) { return call("aten::sum", {x}); }
DTensor sum(const DTensor& x, const Dims& dims, KeepDim keep) {
  return call("aten::sum.dim_IntList", {x, dims, kept(keep)});
}
DTensor mean(const DTensor& x) { return call("aten::mean", {x}); }
DTensor mean(const DTensor& x, const Dims& dims, KeepDim keep) {
  return call("aten::mean.dim", {x, dims, kept(keep)});
}
DTensor amax(const DTensor& x, const Dims& dims, KeepDim keep) {
  return call("aten::amax", {x, dims, kept(keep)});
}
DTensor amin(const DTensor& x, const Dims& dims, KeepDim keep) {
  return call("aten::amin", {x, dims, kept(keep)});
}
DTensor var(const DTensor& x, const Dims& dims, const Variance& options) {
  return call("aten::var.correction", {x, dims, options.correction, kept(options.keep)});
}

DTensor matmul(const DTensor& a, const DTensor& b) { return call("aten::matmul", {a, b}); }
DTensor mm(const DTensor& a, const DTensor& b) { return call("aten::mm", {a, b}); }
DTensor linear(const DTensor& x, const DTensor& weight, const DTensor& bias) {
  return call("aten::linear", {x, weight, optional_tensor(bias)});
}

DTensor softmax(const DTensor& x, std::int64_t dim) { return call("aten::softmax.int", {x, dim}); }
DTensor log_softmax(const DTensor& x, std::int64_t dim) {
  return call("aten::log_softmax.int", {x, dim});
}
DTensor layer_norm(const DTensor& x, const Dims& shape, const Norm& options) {
  return call("aten::layer_norm", {x, shape, optional_tensor(options.weight),
                                   optional_tensor(options.bias), options.eps.value_or(1e-5)});
}
DTensor rms_norm(const DTensor& x, const Dims& shape, const Norm& options) {
  if (options.bias.defined()) {
    fail(ErrorKind::kValue, Fix{"add it to the result: rms_norm(x, shape) + bias"},
         "rms_norm: a bias is given; rms_norm has none");
  }
  return call("aten::rms_norm", {x, shape, optional_tensor(options.weight),
                                 options.eps ? Argument(*options.eps) : Argument()});
}
DTensor embedding(const DTensor& indices, const DTensor& weight) {
  return call("aten::embedding", {weight, indices});
}
DTensor cross_entropy(const DTensor& x, const DTensor& target, const CrossEntropy& options) {
  return call("aten::cross_entropy_loss",
              {x, target, optional_tensor(options.weight), static_cast<int>(options.reduction),
               options.ignore_index, options.label_smoothing});
}

DTensor view(const DTensor& x, const Dims& shape) { return call("aten::view", {x, shape}); }
DTensor reshape(const DTensor& x, const Dims& shape) { return call("aten::reshape", {x, shape}); }
DTensor transpose(const DTensor& x, std::int64_t dim0, std::int64_t dim1) {
  return call("aten::transpose.int", {x, dim0, dim1});
}
DTensor permute(const DTensor& x, const Dims& dims) { return call("aten::permute", {x, dims}); }
DTensor squeeze(const DTensor& x) { return call("aten::squeeze", {x}); }
DTensor squeeze(const DTensor& x, std::int64_t dim) { return call("aten::squeeze.dim", {x, dim}); }
DTensor unsqueeze(const DTensor& x, std::int64_t dim) { return call("aten::unsqueeze", {x, dim}); }
DTensor expand(const DTensor& x, const Dims& shape) { return call("aten::expand", {x, shape}); }

DTensor slice(const DTensor& x, std::int64_t dim, const Range& range) {
  return call("aten::slice.Tensor",
              {x, dim, optional_int(range.start), optional_int(range.end), range.step});
}
DTensor select(const DTensor& x, std::int64_t dim, std::int64_t index) {
  return call("aten::select.int", {x, dim, index});
}
std::vector<DTensor> split(const DTensor& x, std::int64_t size, std::int64_t dim) {
  return pieces("aten::split.Tensor", {x, size, dim});
}
std::vector<DTensor> split_with_sizes(const DTensor& x, const Dims& sizes, std::int64_t dim) {
  return pieces("aten::split_with_sizes", {x, sizes, dim});
}
DTensor cat(const std::vector<DTensor>& tensors, std::int64_t dim) {
  return call("aten::cat", {list_of(tensors), dim});
}
DTensor stack(const std::vector<DTensor>& tensors, std::int64_t dim) {
  return call("aten::stack", {list_of(tensors), dim});
}
DTensor gather(const DTensor& x, std::int64_t dim, const DTensor& index) {
  return call("aten::gather", {x, dim, index});
}
DTensor clone(const DTensor& x) { return call("aten::clone", {x}); }
DTensor to(const DTensor& x, DType dtype) { return call("aten::to.dtype", {x, dtype}); }

}  // namespace shardlab
