// The gradient column of all rows. It stands apart because its entries are programs shared by
// families; variants (in-place, out=) use their base row's.
#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "ops/gradients.h"
#include "ops/register.h"

namespace shardlab::grad {

namespace {

struct Entry {
  std::string_view op;
  GradientFn gradient;
  /// What is kept for it (schema/gradient_reads.h), as in the reference: also what the program here
  /// could do without, since writing to it is refused there.
  std::string_view reads = "";
};

constexpr Entry kColumn[] = {
    // sorted by name
    {"aten::_log_softmax", log_softmax, "result"},
    {"aten::_softmax", softmax, "result"},
    {"aten::_to_copy", pass},
    {"aten::_unsafe_view", reshape, "~result"},
    {"aten::abs", abs, "self"},
    {"aten::add.Scalar", pass},
    {"aten::add.Tensor", add},
    {"aten::addcdiv", addcdiv, "tensor1:tensor2 tensor2:tensor1|tensor2"},
    {"aten::addcmul", addcmul, "tensor1:tensor2 tensor2:tensor1"},
    {"aten::addmm", addmm, "mat1:mat2 mat2:mat1"},
    {"aten::alias", pass},
    {"aten::amax", amax_amin, "self result"},
    {"aten::amin", amax_amin, "self result"},
    {"aten::atan", atan, "self"},
    {"aten::baddbmm", baddbmm, "batch1:batch2 batch2:batch1"},
    {"aten::bernoulli_.float", fill},
    {"aten::bmm", bmm, "self:mat2 mat2:self"},
    {"aten::cat", cat},
    {"aten::ceil", fill},
    {"aten::clamp", clamp, "self"},
    {"aten::clamp_max", clamp_max, "self"},
    {"aten::clamp_min", clamp_min, "self"},
    {"aten::clone", pass},
    {"aten::convolution", convolution, "input weight"},
    {"aten::copy_", copy},
    {"aten::cos", cos, "self"},
    {"aten::cumsum", cumsum},
    {"aten::div.Scalar", unscale, "other"},
    {"aten::div.Tensor", div, "self:other other"},
    {"aten::dot", dot, "self:tensor tensor:self"},
    {"aten::embedding", embedding, "indices"},
    {"aten::erf", erf, "self"},
    {"aten::exp", exp, "result"},
    {"aten::exp2", exp2, "result"},
    {"aten::expand", expand},
    {"aten::expm1", expm1, "result"},
    {"aten::fill_.Scalar", fill},
    {"aten::flip", flip},
    {"aten::floor", fill},
    {"aten::fmod.Scalar", pass},
    {"aten::frac", pass},
    {"aten::gather", gather, "self index"},
    {"aten::gelu", gelu, "self"},
    {"aten::index.Tensor", index, "indices"},
    {"aten::index_put", index_put, "indices"},
    {"aten::index_select", index_select, "index"},
    {"aten::leaky_relu", leaky_relu, "self"},
    {"aten::lerp.Scalar", lerp_scalar, "weight"},
    {"aten::lerp.Tensor", lerp_tensor, "self:weight end:weight weight:self|end"},
    {"aten::log", log, "self"},
    {"aten::log10", log10, "self"},
    {"aten::log1p", log1p, "self"},
    {"aten::log2", log2, "self"},
    {"aten::masked_fill.Scalar", masked_fill, "mask"},
    {"aten::max", amax_amin, "self result"},
    {"aten::max.dim", extremum_along, "result1"},
    {"aten::maximum", maximum, "self other"},
    {"aten::mean", mean_all},
    {"aten::mean.dim", mean_dims},
    {"aten::min", amax_amin, "self result"},
    {"aten::min.dim", extremum_along, "result1"},
    {"aten::minimum", minimum, "self other"},
    {"aten::mm", mm, "self:mat2 mat2:self"},
    {"aten::mul.Scalar", scale, "other"},
    {"aten::mul.Tensor", mul, "self:other other:self"},
    {"aten::mv", mv, "self:vec vec:self"},
    {"aten::native_dropout", native_dropout, "result1"},
    {"aten::native_layer_norm", layer_norm, "input weight bias result1 result2 !result1 !result2"},
    {"aten::neg", neg},
    {"aten::nll_loss_forward", nll_loss, "self target weight result1 !weight !result1"},
    {"aten::normal_", fill},
    {"aten::permute", permute},
    {"aten::positive", pass},
    {"aten::pow.Scalar", scalar_pow, "exponent result"},
    {"aten::pow.Tensor_Scalar", pow_scalar, "self"},
    {"aten::pow.Tensor_Tensor", pow_tensors, "self exponent result:exponent"},
    {"aten::reciprocal", reciprocal, "result"},
    {"aten::relu", relu, "result"},
    {"aten::remainder.Scalar", pass},
    {"aten::reshape", reshape, "~result"},
    {"aten::roll", roll},
    {"aten::round", fill},
    {"aten::rsqrt", rsqrt, "result"},
    {"aten::rsub.Scalar", rsub_scalar},
    {"aten::scatter.src", scatter, "index"},
    {"aten::scatter.value", scatter, "index"},
    {"aten::scatter_add", scatter_add, "index:src"},
    {"aten::select.int", select},
    {"aten::sigmoid", sigmoid, "result"},
    {"aten::sign", fill},
    {"aten::silu", silu, "self"},
    {"aten::sin", sin, "self"},
    {"aten::slice.Tensor", slice},
    {"aten::softplus", softplus, "self"},
    {"aten::sort", sort, "result1"},
    {"aten::sort.stable", sort_stable, "result1"},
    {"aten::split.Tensor", split, "~result"},
    {"aten::split_with_sizes", split, "~result"},
    {"aten::sqrt", sqrt, "result"},
    {"aten::square", square, "self"},
    {"aten::squeeze", squeeze},
    {"aten::squeeze.dim", squeeze},
    {"aten::squeeze.dims", squeeze},
    {"aten::squeeze_", squeeze},
    {"aten::squeeze_.dim", squeeze},
    {"aten::squeeze_.dims", squeeze},
    {"aten::stack", stack},
    {"aten::std.correction", deviation, "self result"},
    {"aten::sub.Scalar", pass},
    {"aten::sub.Tensor", sub},
    {"aten::sum", sum_all},
    {"aten::sum.dim_IntList", sum_dims},
    {"aten::t", t},
    {"aten::t_", t},
    {"aten::tan", tan, "result"},
    {"aten::tanh", tanh, "result"},
    {"aten::topk", topk, "result1"},
    {"aten::transpose.int", transpose},
    {"aten::tril", tril},
    {"aten::triu", triu},
    {"aten::trunc", fill},
    {"aten::unbind.int", unbind, "~result"},
    {"aten::uniform_", fill},
    {"aten::unsqueeze", unsqueeze},
    {"aten::var.correction", var, "self"},
    {"aten::view", reshape, "~result"},
    {"aten::where.self", where, "condition"},
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
  row.gradient_takes_results = parse_gradient_reads(row.op, entry->reads).any_result();
}

// Ops that share a gradient program read the same arguments.
const GradientReads& reads_of(const OpRow& row) {
  static const auto kReads = [] {
    std::unordered_map<GradientFn, GradientReads> reads;
    for (const Entry& entry : kColumn) {
      reads.emplace(entry.gradient, parse_gradient_reads(all_ops().at(entry.op).op, entry.reads));
    }
    return reads;
  }();
  static const GradientReads kEverything{.everything = true};
  const auto found = kReads.find(row.gradient);
  return found == kReads.end() ? kEverything : found->second;
}

bool has_gradient(std::string_view op) { return entry_of(op) != nullptr; }

std::vector<std::string_view> ops_with_gradients() {
  std::vector<std::string_view> names;
  for (const Entry& entry : kColumn) names.push_back(entry.op);
  return names;
}

}  // namespace shardlab::grad
