// Each function puts its arguments into the order of the ATen schema and makes one recorded call.
// No function decides anything about shapes, dtypes or placements.
#include "api/tensor_ops.h"

#include "autograd/at_place.h"
#include "autograd/program.h"
#include "base/fix.h"
#include "tensor/host.h"

namespace shardlab {

namespace {

// A list of gradients has none where nothing flowed, and who reads the gradient of a result finds
// none either.
void check_defined(std::string_view name, const Arguments& args) {
  for_each_tensor(args, [&](const DTensor& tensor) {
    if (tensor.defined()) return;
    fail(
        ErrorKind::kValue,
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

DTensor add(Operand a, const DTensor& b) { return call("aten::add.Tensor", a, b); }
DTensor add(Operand a, Scalar b) { return call("aten::add.Scalar", a, b); }
DTensor sub(Operand a, const DTensor& b) { return call("aten::sub.Tensor", a, b); }
DTensor sub(Operand a, Scalar b) { return call("aten::sub.Scalar", a, b); }
DTensor mul(Operand a, const DTensor& b) { return call("aten::mul.Tensor", a, b); }
DTensor mul(Operand a, Scalar b) { return call("aten::mul.Scalar", a, b); }
DTensor div(Operand a, const DTensor& b) { return call("aten::div.Tensor", a, b); }
DTensor div(Operand a, Scalar b) { return call("aten::div.Scalar", a, b); }
DTensor pow(Operand base, const DTensor& exponent) {
  return call("aten::pow.Tensor_Tensor", base, exponent);
}
DTensor pow(Operand base, Scalar exponent) {
  return call("aten::pow.Tensor_Scalar", base, exponent);
}
DTensor neg(Operand x) { return call("aten::neg", x); }

DTensor operator-(Scalar a, Operand b) { return call("aten::rsub.Scalar", b, a); }
DTensor operator/(Scalar a, Operand b) { return mul({call("aten::reciprocal", b), b.place}, a); }

DTensor eq(Operand a, const DTensor& b) { return call("aten::eq.Tensor", a, b); }
DTensor eq(Operand a, Scalar b) { return call("aten::eq.Scalar", a, b); }
DTensor ne(Operand a, const DTensor& b) { return call("aten::ne.Tensor", a, b); }
DTensor ne(Operand a, Scalar b) { return call("aten::ne.Scalar", a, b); }
DTensor lt(Operand a, const DTensor& b) { return call("aten::lt.Tensor", a, b); }
DTensor lt(Operand a, Scalar b) { return call("aten::lt.Scalar", a, b); }
DTensor le(Operand a, const DTensor& b) { return call("aten::le.Tensor", a, b); }
DTensor le(Operand a, Scalar b) { return call("aten::le.Scalar", a, b); }
DTensor gt(Operand a, const DTensor& b) { return call("aten::gt.Tensor", a, b); }
DTensor gt(Operand a, Scalar b) { return call("aten::gt.Scalar", a, b); }
DTensor ge(Operand a, const DTensor& b) { return call("aten::ge.Tensor", a, b); }
DTensor ge(Operand a, Scalar b) { return call("aten::ge.Scalar", a, b); }
DTensor where(Operand condition, const DTensor& a, const DTensor& b) {
  return call("aten::where.self", condition, a, b);
}

DTensor exp(Operand x) { return call("aten::exp", x); }
DTensor log(Operand x) { return call("aten::log", x); }
DTensor sqrt(Operand x) { return call("aten::sqrt", x); }
DTensor rsqrt(Operand x) { return call("aten::rsqrt", x); }
DTensor tanh(Operand x) { return call("aten::tanh", x); }
DTensor sigmoid(Operand x) { return call("aten::sigmoid", x); }
DTensor relu(Operand x) { return call("aten::relu", x); }
DTensor gelu(Operand x, Gelu form) {
  return call("aten::gelu", x, form == Gelu::kTanh ? "tanh" : "none");
}
DTensor silu(Operand x) { return call("aten::silu", x); }

DTensor sum(Operand x) { return call("aten::sum", x); }
DTensor sum(Operand x, const Dims& dims, KeepDim keep) {
  return call("aten::sum.dim_IntList", x, dims, kept(keep));
}
DTensor mean(Operand x) { return call("aten::mean", x); }
DTensor mean(Operand x, const Dims& dims, KeepDim keep) {
  return call("aten::mean.dim", x, dims, kept(keep));
}
DTensor amax(Operand x, const Dims& dims, KeepDim keep) {
  return call("aten::amax", x, dims, kept(keep));
}
DTensor amin(Operand x, const Dims& dims, KeepDim keep) {
  return call("aten::amin", x, dims, kept(keep));
}
DTensor var(Operand x, const Dims& dims, const Variance& options) {
  return call("aten::var.correction", x, dims, options.correction, kept(options.keep));
}

DTensor matmul(Operand a, const DTensor& b) { return call("aten::matmul", a, b); }
DTensor mm(Operand a, const DTensor& b) { return call("aten::mm", a, b); }
DTensor linear(Operand x, const DTensor& weight, const DTensor& bias) {
  return call("aten::linear", x, weight, optional_tensor(bias));
}

DTensor softmax(Operand x, std::int64_t dim) { return call("aten::softmax.int", x, dim); }
DTensor log_softmax(Operand x, std::int64_t dim) { return call("aten::log_softmax.int", x, dim); }
DTensor layer_norm(Operand x, const Dims& shape, const Norm& options) {
  return call("aten::layer_norm", x, shape, optional_tensor(options.weight),
              optional_tensor(options.bias), options.eps.value_or(1e-5));
}
DTensor rms_norm(Operand x, const Dims& shape, const Norm& options) {
  if (options.bias.defined()) {
    fail(ErrorKind::kValue, Fix{"add it to the result: rms_norm(x, shape) + bias"},
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

DTensor view(Operand x, const Dims& shape) { return call("aten::view", x, shape); }
DTensor reshape(Operand x, const Dims& shape) { return call("aten::reshape", x, shape); }
DTensor transpose(Operand x, std::int64_t dim0, std::int64_t dim1) {
  return call("aten::transpose.int", x, dim0, dim1);
}
DTensor permute(Operand x, const Dims& dims) { return call("aten::permute", x, dims); }
DTensor squeeze(Operand x) { return call("aten::squeeze", x); }
DTensor squeeze(Operand x, std::int64_t dim) { return call("aten::squeeze.dim", x, dim); }
DTensor unsqueeze(Operand x, std::int64_t dim) { return call("aten::unsqueeze", x, dim); }
DTensor expand(Operand x, const Dims& shape) { return call("aten::expand", x, shape); }

DTensor slice(Operand x, std::int64_t dim, const Range& range) {
  return call("aten::slice.Tensor", x, dim, optional_int(range.start), optional_int(range.end),
              range.step);
}
DTensor select(Operand x, std::int64_t dim, std::int64_t index) {
  return call("aten::select.int", x, dim, index);
}
std::vector<DTensor> split(Operand x, std::int64_t size, std::int64_t dim) {
  return pieces("aten::split.Tensor", x, size, dim);
}
std::vector<DTensor> split_with_sizes(Operand x, const Dims& sizes, std::int64_t dim) {
  return pieces("aten::split_with_sizes", x, sizes, dim);
}
DTensor cat(const std::vector<DTensor>& tensors, std::int64_t dim, SourceLine place) {
  return only_tensor(call_at(place, "aten::cat", {list_of(tensors), dim}));
}
DTensor stack(const std::vector<DTensor>& tensors, std::int64_t dim, SourceLine place) {
  return only_tensor(call_at(place, "aten::stack", {list_of(tensors), dim}));
}
DTensor gather(Operand x, std::int64_t dim, const DTensor& index) {
  return call("aten::gather", x, dim, index);
}
DTensor clone(Operand x) { return call("aten::clone", x); }
DTensor to(Operand x, DType dtype) { return call("aten::to.dtype", x, dtype); }

DTensor whole_item(Operand x) {
  return at_place(x.place, [&] {
    if (x.tensor.numel() != 1) {
      throw Error(ErrorKind::kValue, fmt::format("item: a tensor of {} elements", x.tensor.numel()))
          .with("fix", "item() takes one element; index the tensor first");
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

DTensor add_(Operand x, const DTensor& y) { return call("aten::add_.Tensor", x, y); }
DTensor add_(Operand x, Scalar y) { return call("aten::add_.Scalar", x, y); }
DTensor sub_(Operand x, const DTensor& y) { return call("aten::sub_.Tensor", x, y); }
DTensor sub_(Operand x, Scalar y) { return call("aten::sub_.Scalar", x, y); }
DTensor mul_(Operand x, const DTensor& y) { return call("aten::mul_.Tensor", x, y); }
DTensor mul_(Operand x, Scalar y) { return call("aten::mul_.Scalar", x, y); }
DTensor div_(Operand x, const DTensor& y) { return call("aten::div_.Tensor", x, y); }
DTensor div_(Operand x, Scalar y) { return call("aten::div_.Scalar", x, y); }
DTensor copy_(Operand x, const DTensor& source) { return call("aten::copy_", x, source); }
DTensor fill_(Operand x, Scalar value) { return call("aten::fill_.Scalar", x, value); }
DTensor zero_(Operand x) { return call("aten::zero_", x); }

}  // namespace shardlab
