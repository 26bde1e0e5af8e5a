// Each function puts its arguments into the order of the ATen schema and makes one recorded call.
// No function decides anything about shapes, dtypes or placements.
#include "api/tensor_ops.h"

#include <algorithm>

#include "api/op_functions.h"
#include "autograd/at_place.h"
#include "autograd/program.h"
#include "base/fix.h"
#include "tensor/host.h"

namespace shardlab {

namespace {

// A list of gradients has an undefined entry where no gradient flowed, and so has the gradient of a
// result that has none.
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

// Functions that are one call of an op, whose arguments they take in its order: name, op,
// parameters, and these as arguments.
// clang-format off
#define SHARDLAB_ONE_CALL(X)                                                                     \
  X(add, "aten::add.Tensor", (Operand a, const DTensor& b), a, b)                                \
  X(add, "aten::add.Scalar", (Operand a, Scalar b), a, b)                                        \
  X(sub, "aten::sub.Tensor", (Operand a, const DTensor& b), a, b)                                \
  X(sub, "aten::sub.Scalar", (Operand a, Scalar b), a, b)                                        \
  X(mul, "aten::mul.Tensor", (Operand a, const DTensor& b), a, b)                                \
  X(mul, "aten::mul.Scalar", (Operand a, Scalar b), a, b)                                        \
  X(div, "aten::div.Tensor", (Operand a, const DTensor& b), a, b)                                \
  X(div, "aten::div.Scalar", (Operand a, Scalar b), a, b)                                        \
  X(pow, "aten::pow.Tensor_Tensor", (Operand base, const DTensor& exponent), base, exponent)     \
  X(pow, "aten::pow.Tensor_Scalar", (Operand base, Scalar exponent), base, exponent)             \
  X(neg, "aten::neg", (Operand x), x)                                                            \
  X(eq, "aten::eq.Tensor", (Operand a, const DTensor& b), a, b)                                  \
  X(eq, "aten::eq.Scalar", (Operand a, Scalar b), a, b)                                          \
  X(ne, "aten::ne.Tensor", (Operand a, const DTensor& b), a, b)                                  \
  X(ne, "aten::ne.Scalar", (Operand a, Scalar b), a, b)                                          \
  X(lt, "aten::lt.Tensor", (Operand a, const DTensor& b), a, b)                                  \
  X(lt, "aten::lt.Scalar", (Operand a, Scalar b), a, b)                                          \
  X(le, "aten::le.Tensor", (Operand a, const DTensor& b), a, b)                                  \
  X(le, "aten::le.Scalar", (Operand a, Scalar b), a, b)                                          \
  X(gt, "aten::gt.Tensor", (Operand a, const DTensor& b), a, b)                                  \
  X(gt, "aten::gt.Scalar", (Operand a, Scalar b), a, b)                                          \
  X(ge, "aten::ge.Tensor", (Operand a, const DTensor& b), a, b)                                  \
  X(ge, "aten::ge.Scalar", (Operand a, Scalar b), a, b)                                          \
  X(where, "aten::where.self", (Operand condition, const DTensor& a, const DTensor& b),          \
    condition, a, b)                                                                             \
  X(exp, "aten::exp", (Operand x), x)                                                            \
  X(log, "aten::log", (Operand x), x)                                                            \
  X(sqrt, "aten::sqrt", (Operand x), x)                                                          \
  X(rsqrt, "aten::rsqrt", (Operand x), x)                                                        \
  X(tanh, "aten::tanh", (Operand x), x)                                                          \
  X(sigmoid, "aten::sigmoid", (Operand x), x)                                                    \
  X(relu, "aten::relu", (Operand x), x)                                                          \
  X(silu, "aten::silu", (Operand x), x)                                                          \
  X(sum, "aten::sum", (Operand x), x)                                                            \
  X(mean, "aten::mean", (Operand x), x)                                                          \
  X(matmul, "aten::matmul", (Operand a, const DTensor& b), a, b)                                 \
  X(mm, "aten::mm", (Operand a, const DTensor& b), a, b)                                         \
  X(softmax, "aten::softmax.int", (Operand x, std::int64_t dim), x, dim)                         \
  X(log_softmax, "aten::log_softmax.int", (Operand x, std::int64_t dim), x, dim)                 \
  X(view, "aten::view", (Operand x, const Dims& shape), x, shape)                                \
  X(reshape, "aten::reshape", (Operand x, const Dims& shape), x, shape)                          \
  X(transpose, "aten::transpose.int", (Operand x, std::int64_t dim0, std::int64_t dim1),         \
    x, dim0, dim1)                                                                               \
  X(permute, "aten::permute", (Operand x, const Dims& dims), x, dims)                            \
  X(squeeze, "aten::squeeze", (Operand x), x)                                                    \
  X(squeeze, "aten::squeeze.dim", (Operand x, std::int64_t dim), x, dim)                         \
  X(unsqueeze, "aten::unsqueeze", (Operand x, std::int64_t dim), x, dim)                         \
  X(expand, "aten::expand", (Operand x, const Dims& shape), x, shape)                            \
  X(select, "aten::select.int", (Operand x, std::int64_t dim, std::int64_t index), x, dim, index)\
  X(gather, "aten::gather", (Operand x, std::int64_t dim, const DTensor& index), x, dim, index)  \
  X(clone, "aten::clone", (Operand x), x)                                                        \
  X(to, "aten::to.dtype", (Operand x, DType dtype), x, dtype)
// clang-format on

#define SHARDLAB_DEFINE(name, op, parameters, ...) \
  DTensor name parameters { return call(op, __VA_ARGS__); }
SHARDLAB_ONE_CALL(SHARDLAB_DEFINE)
#undef SHARDLAB_DEFINE

namespace {

constexpr std::size_t count_of(std::string_view arguments) {
  return static_cast<std::size_t>(std::ranges::count(arguments, ',')) + 1;
}

constexpr OpFunction kOpFunctions[] = {
#define SHARDLAB_ROW(name, op, parameters, ...) {op, #name, count_of(#__VA_ARGS__)},
    SHARDLAB_ONE_CALL(SHARDLAB_ROW)
#undef SHARDLAB_ROW
    // These take the further arguments of the op in another form, or not at all.
    {"aten::amax", "amax", 2},
    {"aten::amin", "amin", 2},
    {"aten::cat", "cat", 2},
    {"aten::gelu", "gelu", 1},
    {"aten::linear", "linear", 3},
    {"aten::mean.dim", "mean", 2},
    {"aten::stack", "stack", 2},
    {"aten::sum.dim_IntList", "sum", 2},
};

}  // namespace

std::span<const OpFunction> op_functions() { return kOpFunctions; }

DTensor operator-(Scalar a, Operand b) { return call("aten::rsub.Scalar", b, a); }
DTensor operator/(Scalar a, Operand b) { return mul({call("aten::reciprocal", b), b.place}, a); }

DTensor gelu(Operand x, Gelu form) {
  return call("aten::gelu", x, form == Gelu::kTanh ? "tanh" : "none");
}

DTensor sum(Operand x, const Dims& dims, KeepDim keep) {
  return call("aten::sum.dim_IntList", x, dims, kept(keep));
}
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

DTensor linear(Operand x, const DTensor& weight, const DTensor& bias) {
  return call("aten::linear", x, weight, optional_tensor(bias));
}

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

DTensor slice(Operand x, std::int64_t dim, const Range& range) {
  return call("aten::slice.Tensor", x, dim, optional_int(range.start), optional_int(range.end),
              range.step);
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

DTensor whole_item(Operand x) {
  return at_place(x.place, [&] {
    if (x.tensor.numel() != 1) {
      throw Error(ErrorKind::kValue,
                  fmt::format("item: the tensor has {} elements; it must have 1", x.tensor.numel()))
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
