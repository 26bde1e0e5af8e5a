// The gradient column of all rows. It stands apart because its entries are programs shared by
// families; variants (in-place, out=) use their base row's.
#include <algorithm>
#include <iterator>

#include "ops/gradients.h"

namespace shardlab::grad {

namespace {

enum Needs : std::uint8_t { kTakesArguments, kTakesResults };

struct Entry {
  std::string_view op;
  GradientFn gradient;
  Needs needs = kTakesArguments;  ///< kTakesResults: looks at GradContext::outputs
};

constexpr Entry kColumn[] = {
    // sorted by name
    {"aten::_log_softmax", log_softmax, kTakesResults},
    {"aten::_softmax", softmax, kTakesResults},
    {"aten::_to_copy", pass},
    {"aten::_unsafe_view", reshape, kTakesResults},
    {"aten::abs", abs},
    {"aten::add.Scalar", pass},
    {"aten::add.Tensor", add},
    {"aten::addcmul", addcmul},
    {"aten::addmm", addmm},
    {"aten::alias", pass},
    {"aten::amax", amax_amin, kTakesResults},
    {"aten::amin", amax_amin, kTakesResults},
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
    {"aten::div.Tensor", div, kTakesResults},
    {"aten::dot", dot},
    {"aten::embedding", embedding},
    {"aten::erf", erf},
    {"aten::exp", exp, kTakesResults},
    {"aten::exp2", exp2, kTakesResults},
    {"aten::expand", expand},
    {"aten::expm1", expm1, kTakesResults},
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
    {"aten::max", amax_amin, kTakesResults},
    {"aten::max.dim", extremum_along, kTakesResults},
    {"aten::maximum", maximum},
    {"aten::mean", mean_all},
    {"aten::mean.dim", mean_dims},
    {"aten::min", amax_amin, kTakesResults},
    {"aten::min.dim", extremum_along, kTakesResults},
    {"aten::minimum", minimum},
    {"aten::mm", mm},
    {"aten::mse_loss", mse_loss},
    {"aten::mul.Scalar", scale},
    {"aten::mul.Tensor", mul},
    {"aten::mv", mv},
    {"aten::native_dropout", native_dropout, kTakesResults},
    {"aten::native_layer_norm", layer_norm, kTakesResults},
    {"aten::neg", neg},
    {"aten::nll_loss_forward", nll_loss, kTakesResults},
    {"aten::normal_", fill},
    {"aten::permute", permute},
    {"aten::positive", pass},
    {"aten::pow.Scalar", scalar_pow, kTakesResults},
    {"aten::pow.Tensor_Scalar", pow_scalar},
    {"aten::pow.Tensor_Tensor", pow_tensors, kTakesResults},
    {"aten::reciprocal", reciprocal, kTakesResults},
    {"aten::relu", relu, kTakesResults},
    {"aten::reshape", reshape, kTakesResults},
    {"aten::roll", roll},
    {"aten::round", fill},
    {"aten::rsqrt", rsqrt, kTakesResults},
    {"aten::rsub.Scalar", rsub_scalar},
    {"aten::scatter_add", scatter_add},
    {"aten::select.int", select},
    {"aten::sigmoid", sigmoid, kTakesResults},
    {"aten::sign", fill},
    {"aten::silu", silu},
    {"aten::sin", sin},
    {"aten::slice.Tensor", slice},
    {"aten::softplus", softplus},
    {"aten::sort", sort, kTakesResults},
    {"aten::sort.stable", sort_stable, kTakesResults},
    {"aten::split.Tensor", split, kTakesResults},
    {"aten::split_with_sizes", split, kTakesResults},
    {"aten::sqrt", sqrt, kTakesResults},
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
    {"aten::tan", tan, kTakesResults},
    {"aten::tanh", tanh, kTakesResults},
    {"aten::topk", topk, kTakesResults},
    {"aten::transpose.int", transpose},
    {"aten::tril", tril},
    {"aten::triu", triu},
    {"aten::trunc", fill},
    {"aten::unbind.int", unbind, kTakesResults},
    {"aten::uniform_", fill},
    {"aten::unsqueeze", unsqueeze},
    {"aten::var.correction", var},
    {"aten::view", reshape, kTakesResults},
    {"aten::where.self", where},
    {"aten::zero_", fill},
};

const Entry* entry_of(std::string_view op) {
  const auto* found = std::ranges::lower_bound(kColumn, op, {}, &Entry::op);
  return found != std::end(kColumn) && found->op == op ? found : nullptr;
}

}  // namespace

void set_gradient(OpRow& row) {
  const Entry* entry = entry_of(row.op.name());
  if (entry == nullptr) return;
  row.gradient = entry->gradient;
  row.gradient_takes_results = entry->needs == kTakesResults;
}

bool has_gradient(std::string_view op) { return entry_of(op) != nullptr; }

std::vector<std::string_view> ops_with_gradients() {
  std::vector<std::string_view> names;
  for (const Entry& entry : kColumn) names.push_back(entry.op);
  return names;
}

}  // namespace shardlab::grad
