// The gradient column of all rows. It stands apart because its entries are programs shared by
// families; variants (in-place, out=) use their base row's.
#include <algorithm>
#include <iterator>

#include "ops/gradients.h"

namespace shardlab::grad {

namespace {

struct Entry {
  std::string_view op;
  GradientFn gradient;
};

constexpr Entry kColumn[] = {  // sorted by name
    {"aten::_log_softmax", log_softmax},
    {"aten::_softmax", softmax},
    {"aten::_to_copy", pass},
    {"aten::_unsafe_view", reshape},
    {"aten::abs", abs},
    {"aten::add.Scalar", pass},
    {"aten::add.Tensor", add},
    {"aten::addcmul", addcmul},
    {"aten::addmm", addmm},
    {"aten::alias", pass},
    {"aten::amax", amax_amin},
    {"aten::amin", amax_amin},
    {"aten::atan", atan},
    {"aten::bernoulli_.float", fill},
    {"aten::bmm", bmm},
    {"aten::cat", cat},
    {"aten::ceil", fill},
    {"aten::clamp", clamp},
    {"aten::clamp_max", clamp_max},
    {"aten::clamp_min", clamp_min},
    {"aten::clone", pass},
    {"aten::convolution", convolution},
    {"aten::copy_", copy},
    {"aten::cos", cos},
    {"aten::div.Scalar", unscale},
    {"aten::div.Tensor", div},
    {"aten::dot", dot},
    {"aten::embedding", embedding},
    {"aten::erf", erf},
    {"aten::exp", exp},
    {"aten::exp2", exp2},
    {"aten::expand", expand},
    {"aten::expm1", expm1},
    {"aten::fill_.Scalar", fill},
    {"aten::flip", flip},
    {"aten::floor", fill},
    {"aten::frac", pass},
    {"aten::gather", gather},
    {"aten::gelu", gelu},
    {"aten::leaky_relu", leaky_relu},
    {"aten::log", log},
    {"aten::log10", log10},
    {"aten::log1p", log1p},
    {"aten::log2", log2},
    {"aten::masked_fill.Scalar", masked_fill},
    {"aten::max", amax_amin},
    {"aten::max.dim", extremum_along},
    {"aten::maximum", maximum},
    {"aten::mean", mean_all},
    {"aten::mean.dim", mean_dims},
    {"aten::min", amax_amin},
    {"aten::min.dim", extremum_along},
    {"aten::minimum", minimum},
    {"aten::mm", mm},
    {"aten::mse_loss", mse_loss},
    {"aten::mul.Scalar", scale},
    {"aten::mul.Tensor", mul},
    {"aten::mv", mv},
    {"aten::native_dropout", native_dropout},
    {"aten::native_layer_norm", layer_norm},
    {"aten::neg", neg},
    {"aten::nll_loss_forward", nll_loss},
    {"aten::normal_", fill},
    {"aten::permute", permute},
    {"aten::positive", pass},
    {"aten::pow.Scalar", scalar_pow},
    {"aten::pow.Tensor_Scalar", pow_scalar},
    {"aten::pow.Tensor_Tensor", pow_tensors},
    {"aten::reciprocal", reciprocal},
    {"aten::relu", relu},
    {"aten::reshape", reshape},
    {"aten::roll", roll},
    {"aten::round", fill},
    {"aten::rsqrt", rsqrt},
    {"aten::rsub.Scalar", rsub_scalar},
    {"aten::scatter_add", scatter_add},
    {"aten::select.int", select},
    {"aten::sigmoid", sigmoid},
    {"aten::sign", fill},
    {"aten::silu", silu},
    {"aten::sin", sin},
    {"aten::slice.Tensor", slice},
    {"aten::softplus", softplus},
    {"aten::sort", sort},
    {"aten::split.Tensor", split},
    {"aten::split_with_sizes", split},
    {"aten::sqrt", sqrt},
    {"aten::square", square},
    {"aten::squeeze", squeeze},
    {"aten::squeeze.dim", squeeze},
    {"aten::squeeze.dims", squeeze},
    {"aten::stack", stack},
    {"aten::sub.Scalar", pass},
    {"aten::sub.Tensor", sub},
    {"aten::sum", sum_all},
    {"aten::sum.dim_IntList", sum_dims},
    {"aten::t", t},
    {"aten::tan", tan},
    {"aten::tanh", tanh},
    {"aten::topk", topk},
    {"aten::transpose.int", transpose},
    {"aten::tril", tril},
    {"aten::triu", triu},
    {"aten::trunc", fill},
    {"aten::unbind.int", unbind},
    {"aten::uniform_", fill},
    {"aten::unsqueeze", unsqueeze},
    {"aten::var.correction", var},
    {"aten::view", reshape},
    {"aten::where.self", where},
    {"aten::zero_", fill},
};

}  // namespace

GradientFn gradient_of(std::string_view op) {
  const auto found = std::lower_bound(std::begin(kColumn), std::end(kColumn), op,
                                      [](const Entry& entry, std::string_view name) {
                                        return entry.op < name;
                                      });
  return found != std::end(kColumn) && found->op == op ? found->gradient : nullptr;
}

std::vector<std::string_view> ops_with_gradients() {
  std::vector<std::string_view> names;
  for (const Entry& entry : kColumn) names.push_back(entry.op);
  return names;
}

}  // namespace shardlab::grad
