#include "sim/proof/op_samples.h"

#include <deque>
#include <limits>
#include <string>

#include "sim/proof/sample_inputs.h"

namespace shardlab {
namespace {

using namespace samples;

/// One tensor alone.
void add_unary(std::vector<OpSample>& samples) {
  for (const char* op :
       {"abs",      "clone",  "cos",  "empty_like", "erf",       "exp",        "expm1",
        "floor",    "frac",   "gelu", "neg",        "ones_like", "positive",   "relu",
        "relu_",    "round",  "sgn",  "sigmoid",    "sign",      "silu",       "sin",
        "softplus", "square", "tanh", "trunc",      "zero_",     "zeros_like", "alias"}) {
    samples.push_back({op, {real({7, 5})}, {"$0"}});
  }
  for (const char* op :
       {"acos", "asin", "log", "reciprocal", "log1p", "rsqrt", "sqrt", "bernoulli"}) {
    samples.push_back({op, {unit({7, 5})}, {"$0"}});
  }
  for (const char* op : {"angle", "celu", "conj_physical", "deg2rad", "elu", "hardshrink",
                         "hardsigmoid", "hardswish", "hardtanh", "mish", "nan_to_num", "rad2deg",
                         "relu6", "selu", "sinc", "softshrink", "isposinf", "isneginf", "elu_"}) {
    samples.push_back({op, {real({7, 5})}, {"$0"}});
  }
  for (const char* op : {"atanh", "logit", "special_entr"}) {
    samples.push_back({op, {unit({7, 5})}, {"$0"}});
  }
  for (const char* op : {"i0", "special_airy_ai", "special_bessel_j0", "special_bessel_j1",
                         "special_erfcx", "special_i0e", "special_i1", "special_i1e",
                         "special_log_ndtr", "special_modified_bessel_i0",
                         "special_modified_bessel_i1", "special_spherical_bessel_j0"}) {
    samples.push_back({op, {real({7, 5})}, {"$0"}});
  }
  for (const char* op :
       {"digamma", "erfinv", "lgamma", "special_bessel_y0", "special_bessel_y1",
        "special_modified_bessel_k0", "special_modified_bessel_k1", "special_ndtri",
        "special_scaled_modified_bessel_k0", "special_scaled_modified_bessel_k1"}) {
    samples.push_back({op, {unit({7, 5})}, {"$0"}});
  }
  samples.push_back({"frexp.Tensor", {real({7, 5})}, {"$0"}});
  samples.push_back({"mvlgamma", {unit({7, 5})}, {"$0", 1}});
  samples.push_back({"polygamma", {unit({7, 5})}, {2, "$0"}});
  samples.push_back({"detach", {real({7, 5})}, {"$0"}});
  for (const char* op : {"exp", "zero_", "clone", "neg_", "sum", "mean"}) {
    samples.push_back({op, {real({0, 5})}, {"$0"}});
    samples.push_back({op, {real({1})}, {"$0"}});
    samples.push_back({op, {real({})}, {"$0"}});
  }
  for (const char* op : {"rand_like", "randn_like", "uniform_", "normal_", "bernoulli_.float"}) {
    samples.push_back({op, {real({7, 5})}, {"$0"}});
  }
}

void add_pointwise(std::vector<OpSample>& samples) {
  for (const char* op :
       {"add.Tensor", "sub.Tensor", "mul.Tensor", "maximum", "minimum", "eq.Tensor", "lt.Tensor",
        "ge.Tensor", "add_.Tensor", "mul_.Tensor", "sub_.Tensor"}) {
    samples.push_back({op, {real({7, 5}), real({7, 5})}, {"$0", "$1"}});
    samples.push_back({op, {real({7, 5}), real({5})}, {"$0", "$1"}});
    samples.push_back({op, {real({7, 5}), real({})}, {"$0", "$1"}});
  }
  for (const char* op : {"copysign.Tensor", "fmax", "fmin", "heaviside", "hypot", "ldexp.Tensor",
                         "logaddexp", "logaddexp2"}) {
    samples.push_back({op, {real({7, 5}), real({5})}, {"$0", "$1"}});
  }
  samples.push_back({"threshold", {real({7, 5})}, {"$0", 0.5, -1.0}});
  samples.push_back({"threshold", {real({7, 5})}, {"$0", -0.5, 1.0}});
  samples.push_back({"copysign.Scalar", {real({7, 5})}, {"$0", -1.0}});
  samples.push_back({"float_power.Scalar", {real({7, 5})}, {2.0, "$0"}});
  samples.push_back({"float_power.Tensor_Scalar", {unit({7, 5})}, {"$0", 3}});
  samples.push_back({"xlogy.Scalar_Other", {real({7, 5})}, {"$0", 2.0}});
  samples.push_back({"xlogy.Scalar_Self", {unit({7, 5})}, {2.0, "$0"}});
  for (const char* op : {"float_power.Tensor_Tensor", "xlogy.Tensor"}) {
    samples.push_back({op, {unit({7, 5}), unit({7, 1})}, {"$0", "$1"}});
  }
  for (const char* op : {"div.Tensor", "pow.Tensor_Tensor", "fmod.Tensor", "remainder.Tensor"}) {
    samples.push_back({op, {unit({7, 5}), unit({7, 1})}, {"$0", "$1"}});
  }
  samples.insert(
      samples.end(),
      {{"add.Tensor", {real({7, 1}), real({1, 5})}, {"$0", "$1", 0.5}},
       {"add.Scalar", {real({7, 5})}, {"$0", 0.5}},
       {"sub.Scalar", {real({7, 5})}, {"$0", 0.5}},
       {"rsub.Scalar", {real({7, 5})}, {"$0", 0.5}},
       {"rsub.Tensor", {real({7, 1}), real({1, 5})}, {"$0", "$1", 0.5}},
       {"mul.Scalar", {real({7, 5})}, {"$0", -0.5}},
       {"mul_.Scalar", {real({7, 5})}, {"$0", -0.5}},
       {"div.Scalar", {real({7, 5})}, {"$0", 4.0}},
       {"pow.Tensor_Scalar", {unit({7, 5})}, {"$0", 3}},
       {"pow.Scalar", {real({7, 5})}, {2.0, "$0"}},
       {"clamp", {real({7, 5})}, {"$0", -0.5, 0.75}},
       {"gt.Scalar", {real({7, 5})}, {"$0", 0.0}},
       {"ne.Scalar", {index({7}, 3)}, {"$0", 1}},
       {"masked_fill.Scalar", {real({7, 5}), truth({7, 1})}, {"$0", "$1", 2.0}},
       {"masked_fill.Tensor", {real({7, 5}), truth({7, 1}), real({})}, {"$0", "$1", "$2"}},
       {"masked_fill_.Scalar", {real({7, 5}), truth({7, 5})}, {"$0", "$1", 2.0}},
       {"where.self", {truth({7, 5}), real({5}), real({7, 5})}, {"$0", "$1", "$2"}},
       {"lerp.Scalar", {real({7, 5}), real({7, 5})}, {"$0", "$1", 0.25}},
       {"addcmul", {real({7, 5}), real({7, 5}), real({5})}, {"$0", "$1", "$2", 0.5}},
       {"logical_and", {truth({7, 5}), truth({5})}, {"$0", "$1"}},
       {"logical_not", {truth({7, 5})}, {"$0"}},
       {"add.Tensor", {index({7}, 9), index({7}, 9)}, {"$0", "$1"}},
       {"bitwise_xor.Tensor", {index({7}, 9), index({7}, 9)}, {"$0", "$1"}},
       {"copy_", {real({7, 5}), real({5})}, {"$0", "$1"}},
       {"fill_.Scalar", {real({7, 5})}, {"$0", 3.0}},
       {"full_like", {real({7, 5})}, {"$0", 3.0}},
       {"_to_copy", {real({7, 5})}, {"$0", DType::kF64}},
       {"_to_copy", {index({7, 5}, 9)}, {"$0", DType::kF32}},
       {"new_zeros", {real({7, 5})}, {"$0", Dims{7, 5}}},
       {"new_ones", {real({7, 5})}, {"$0", Dims{3}}},
       {"native_dropout", {real({7, 5})}, {"$0", 0.5, true}},
       {"tril", {real({7, 5})}, {"$0", 1}}});
}

void add_reductions(std::vector<OpSample>& samples) {
  for (const char* op : {"sum", "mean", "max", "min", "any", "all", "argmax"}) {
    samples.push_back({op, {real({7, 5})}, {"$0"}});
  }
  for (const char* op : {"var", "std", "var_mean"}) {
    samples.push_back({op, {real({7, 5})}, {"$0", true}});
    samples.push_back({op, {real({7, 5})}, {"$0", false}});
  }
  for (const bool keep : {false, true}) {
    for (const char* op : {"sum.dim_IntList", "mean.dim", "amax", "amin", "logsumexp"}) {
      samples.push_back({op, {real({7, 5})}, {"$0", Dims{0}, keep}});
      samples.push_back({op, {real({7, 5, 2})}, {"$0", Dims{-1, 0}, keep}});
    }
    samples.push_back({"sum.dim_IntList", {real({7, 5})}, {"$0", Dims{}, keep}});
    samples.push_back({"sum.dim_IntList", {real({0, 5})}, {"$0", Dims{0}, keep}});
    samples.push_back({"var.correction", {real({7, 5})}, {"$0", Dims{0}, 1, keep}});
    for (const char* op : {"var.dim", "std.dim", "var_mean.dim"}) {
      samples.push_back({op, {real({7, 5})}, {"$0", Dims{0}, !keep, keep}});
    }
    samples.push_back({"argmax", {real({7, 5})}, {"$0", 0, keep}});
    samples.push_back({"argmin", {real({7, 5})}, {"$0", 1, keep}});
    samples.push_back({"max.dim", {real({7, 5})}, {"$0", 0, keep}});
    samples.push_back({"prod.dim_int", {unit({7, 5})}, {"$0", 1, keep}});
    samples.push_back({"linalg_vector_norm", {real({7, 5})}, {"$0", 2.0, Dims{0}, keep}});
  }
  samples.insert(
      samples.end(),
      {{"linalg_vector_norm", {real({7, 5})}, {"$0", 2}},
       {"linalg_vector_norm", {real({7, 5})}, {"$0", 1, Dims{1}}},
       {"linalg_vector_norm", {real({7, 5})}, {"$0", std::numeric_limits<double>::infinity()}},
       {"_softmax", {real({7, 5})}, {"$0", 0, false}},
       {"_softmax", {real({7, 5})}, {"$0", 1, false}},
       {"_log_softmax", {real({7, 5})}, {"$0", 0, false}},
       {"_log_softmax", {real({7, 5})}, {"$0", -1, false}},
       {"_softmax", {real({0, 5})}, {"$0", 1, false}},
       {"cumsum", {real({7, 5})}, {"$0", 0}},
       {"topk", {real({7, 5})}, {"$0", 2}},
       {"sort", {real({7, 5})}, {"$0", 0}},
       {"sort.stable", {real({7, 5})}, {"$0", true, 0}},
       {"round.decimals", {real({7, 5})}, {"$0", 1}},
       {"native_layer_norm",
        {real({7, 5}), real({5}), real({5})},
        {"$0", Dims{5}, "$1", "$2", 1e-5}},
       {"native_layer_norm",
        {real({0, 5}), real({5}), real({5})},
        {"$0", Dims{5}, "$1", "$2", 1e-5}},
       {"native_layer_norm", {real({7, 5})}, {"$0", Dims{7, 5}, Argument(), Argument(), 1e-5}},
       {"nll_loss_forward", {real({7, 5}), index({7}, 5)}, {"$0", "$1", Argument(), 1, -100}},
       {"nll_loss_forward", {real({7, 5}), index({7}, 5)}, {"$0", "$1", Argument(), 1, 3}},
       {"nll_loss_forward", {real({7, 5}), index({7}, 5)}, {"$0", "$1", Argument(), 2, 3}},
       {"nll_loss_forward", {real({7, 5}), index({7}, 5)}, {"$0", "$1", Argument(), 0, 3}},
       {"nll_loss_forward", {real({7, 5}), index({7}, 5), unit({5})}, {"$0", "$1", "$2", 1, 3}},
       {"nll_loss2d_forward",
        {real({3, 5, 2, 7}), index({3, 2, 7}, 5)},
        {"$0", "$1", Argument(), 2, 3}},
       {"nll_loss2d_forward",
        {real({7, 5, 2}), index({7, 2}, 5), unit({5})},
        {"$0", "$1", "$2", 0, 3}}});
}

void add_products(std::vector<OpSample>& samples) {
  samples.insert(samples.end(),
                 {{"mm", {real({7, 5}), real({5, 3})}, {"$0", "$1"}},
                  {"mm", {real({7, 0}), real({0, 3})}, {"$0", "$1"}},
                  {"mm", {real({0, 5}), real({5, 3})}, {"$0", "$1"}},
                  {"bmm", {real({2, 7, 5}), real({2, 5, 3})}, {"$0", "$1"}},
                  {"addmm", {real({3}), real({7, 5}), real({5, 3})}, {"$0", "$1", "$2"}},
                  {"addmm", {real({7, 3}), real({7, 5}), real({5, 3})}, {"$0", "$1", "$2", 0.5, 2}},
                  {"dot", {real({7}), real({7})}, {"$0", "$1"}}});
}

void add_lookups(std::vector<OpSample>& samples) {
  samples.insert(
      samples.end(),
      {{"embedding", {real({7, 5}), index({6}, 7)}, {"$0", "$1"}},
       {"embedding", {real({7, 5}), index({2, 3}, 7)}, {"$0", "$1", 2}},
       {"embedding", {real({7, 5}), index({0}, 7)}, {"$0", "$1"}},
       {"gather", {real({7, 5}), index({7, 2}, 5)}, {"$0", 1, "$1"}},
       {"gather", {real({7, 5}), index({3, 5}, 7)}, {"$0", 0, "$1"}},
       {"gather", {real({7, 5}), index({4, 2}, 5)}, {"$0", 1, "$1"}},
       {"gather", {real({7}), index({7}, 7)}, {"$0", 0, "$1"}},
       {"index.Tensor", {real({7, 5}), index({4}, 7)}, {"$0", ArgumentList{"$1"}}},
       {"index.Tensor",
        {real({7, 3, 5}), index({2, 1}, 7), index({4}, 5)},
        {"$0", ArgumentList{"$1", Argument(), "$2"}}},
       {"index_put",
        {real({7, 5}), index({4}, 5), real({7, 4})},
        {"$0", ArgumentList{Argument(), "$1"}, "$2", true}},
       {"index_add", {real({7, 5}), index({4}, 5), real({7, 4})}, {"$0", 1, "$1", "$2"}},
       {"index_add", {real({7}), index({3}, 7), real({3})}, {"$0", 0, "$1", "$2", 2}},
       {"constant_pad_nd", {real({7, 5})}, {"$0", Dims{1, 2}}},
       {"constant_pad_nd", {real({7, 5})}, {"$0", Dims{-1, 0, 2, 1}, 0.5}},
       {"diag_embed", {real({7, 5})}, {"$0", 1}},
       {"diagonal", {real({7, 5})}, {"$0", -1}},
       {"diagonal", {real({2, 7, 5})}, {"$0", 1, 0, 2}},
       {"diagonal_backward", {real({5})}, {"$0", Dims{7, 5}, 0, 0, 1}},
       {"diagonal_copy", {real({7, 5})}, {"$0", -1}},
       {"diagonal_scatter", {real({7, 5}), real({5})}, {"$0", "$1"}},
       {"select_scatter", {real({7, 5}), real({5})}, {"$0", "$1", 0, 3}},
       {"slice_scatter", {real({7, 5}), real({7, 2})}, {"$0", "$1", 1, 1, 5, 2}},
       {"index_select", {real({7, 5}), index({4}, 7)}, {"$0", 0, "$1"}},
       {"scatter_add", {real({7, 5}), index({7, 2}, 5), real({7, 2})}, {"$0", 1, "$1", "$2"}},
       {"cat", {real({7, 5}), real({2, 5}), real({0, 5})}, {List{"$0", "$1", "$2"}, 0}},
       {"cat", {real({7, 5}), real({7, 1})}, {List{"$0", "$1"}, 1}},
       {"stack", {real({7, 5}), real({7, 5})}, {List{"$0", "$1"}, 1}},
       {"stack", {real({}), real({})}, {List{"$0", "$1"}, 0}},
       {"split.Tensor", {real({7, 5})}, {"$0", 3, 0}},
       {"split.Tensor", {real({7, 5})}, {"$0", 2, 1}},
       {"split_with_sizes", {real({7, 5})}, {"$0", Dims{0, 3, 4}, 0}},
       {"unbind.int", {real({7, 3})}, {"$0", 1}},
       {"slice.Tensor", {real({7, 5})}, {"$0", 0, 1, 6, 2}},
       {"slice.Tensor", {real({7, 5})}, {"$0", 1, -3}},
       {"slice.Tensor", {real({7, 5})}, {"$0", 0, 5, 5}},
       {"select.int", {real({7, 5})}, {"$0", 0, -2}},
       {"select.int", {real({7})}, {"$0", 0, 6}},
       {"flip", {real({7, 5})}, {"$0", Dims{0}}},
       {"as_strided", {real({7, 5})}, {"$0", Dims{5, 7}, Dims{1, 5}}},
       {"roll", {real({7, 5})}, {"$0", Dims{3}, Dims{}}},
       {"roll", {real({7, 5})}, {"$0", Dims{-2, 9}, Dims{1, 0}}},
       {"repeat", {real({7, 5})}, {"$0", Dims{2, 1, 3}}}});
}

void add_views(std::vector<OpSample>& samples) {
  samples.insert(samples.end(), {{"view", {real({6, 5})}, {"$0", Dims{2, 3, 5}}},
                                 {"view", {real({7, 5})}, {"$0", Dims{35}}},
                                 {"reshape", {real({6, 5})}, {"$0", Dims{3, 10}}},
                                 {"reshape", {real({7, 5})}, {"$0", Dims{-1}}},
                                 {"reshape", {real({0, 5})}, {"$0", Dims{0}}},
                                 {"_unsafe_view", {real({6, 5})}, {"$0", Dims{6, 5, 1}}},
                                 {"transpose.int", {real({7, 5, 2})}, {"$0", 0, 2}},
                                 {"permute", {real({7, 5, 2})}, {"$0", Dims{2, 0, 1}}},
                                 {"t", {real({7, 5})}, {"$0"}},
                                 {"squeeze", {real({7, 1, 5})}, {"$0"}},
                                 {"squeeze.dim", {real({7, 1, 5})}, {"$0", 1}},
                                 {"squeeze.dim", {real({7, 5})}, {"$0", 1}},
                                 {"squeeze.dims", {real({1, 7, 1})}, {"$0", Dims{0, 2}}},
                                 {"unsqueeze", {real({7, 5})}, {"$0", -2}},
                                 {"expand", {real({7, 1})}, {"$0", Dims{2, -1, 5}}},
                                 {"expand", {real({})}, {"$0", Dims{7, 5}}},
                                 {"expand", {real({1})}, {"$0", Dims{0, 1}}}});
  samples.push_back({"view.dtype", {real({7, 5})}, {"$0", DType::kF32}});
  samples.push_back({"view.dtype", {real({3, 10})}, {"$0", DType::kU8}});
  samples.push_back({"view.dtype", {real({4, 6})}, {"$0", DType::kF64}});
}

/// Losses of two tensors, element by element.
void add_pointwise_losses(std::vector<OpSample>& samples) {
  samples.insert(
      samples.end(),
      {{"binary_cross_entropy", {unit({7, 5}), unit({7, 5})}, {"$0", "$1"}},
       {"binary_cross_entropy", {unit({7, 5}), unit({7, 5}), unit({5})}, {"$0", "$1", "$2", 2}},
       {"binary_cross_entropy_with_logits", {real({7, 5}), unit({7, 5})}, {"$0", "$1"}},
       {"binary_cross_entropy_with_logits",
        {real({7, 5}), unit({7, 5}), unit({5}), unit({5})},
        {"$0", "$1", "$2", "$3"}},
       {"binary_cross_entropy_backward",
        {real({}), unit({7, 5}), unit({7, 5})},
        {"$0", "$1", "$2", Argument(), 1}},
       {"huber_loss_backward", {real({}), real({7, 5}), real({7, 5})}, {"$0", "$1", "$2", 1, 0.3}},
       {"smooth_l1_loss_backward",
        {real({}), real({7, 5}), real({7, 5})},
        {"$0", "$1", "$2", 1, 0.3}},
       {"nll_loss2d_backward",
        {real({}), real({3, 5, 2, 7}), index({3, 2, 7}, 5), unit({})},
        {"$0", "$1", "$2", Argument(), 2, 3, "$3"}},
       {"huber_loss", {real({7, 5}), real({7, 5})}, {"$0", "$1", 1, 0.5}},
       {"smooth_l1_loss", {real({7, 5}), real({7, 5})}, {"$0", "$1", 0, 0.5}},
       {"trace", {real({7, 5})}, {"$0"}}});
}

/// Composite ops.
void add_composites(std::vector<OpSample>& samples) {
  samples.insert(
      samples.end(),
      {{"linear", {real({2, 7, 5}), real({3, 5}), real({3})}, {"$0", "$1", "$2"}},
       {"linear", {real({7, 5}), real({3, 5})}, {"$0", "$1"}},
       {"matmul", {real({2, 7, 5}), real({5, 3})}, {"$0", "$1"}},
       {"matmul", {real({2, 1, 7, 5}), real({3, 5, 2})}, {"$0", "$1"}},
       {"matmul", {real({7, 5}), real({5})}, {"$0", "$1"}},
       {"matmul", {real({5}), real({5, 3})}, {"$0", "$1"}},
       {"mse_loss", {real({7, 5}), real({7, 5})}, {"$0", "$1"}},
       {"mse_loss", {unit({7, 5}), unit({7, 5})}, {"$0", "$1", 2}},
       {"mse_loss", {real({7, 5}), real({7, 5})}, {"$0", "$1", 0}},
       {"mse_loss_backward", {real({}), real({7, 5}), real({7, 5})}, {"$0", "$1", "$2", 1}},
       {"cross_entropy_loss", {real({7, 5}), index({7}, 5)}, {"$0", "$1"}},
       {"cross_entropy_loss", {real({7, 5}), index({7}, 5)}, {"$0", "$1", Argument(), 2, 1}},
       {"nll_loss_nd", {real({7, 5}), index({7}, 5)}, {"$0", "$1"}},
       {"softmax.int", {real({7, 5})}, {"$0", 0}},
       {"log_softmax.int", {real({7, 5})}, {"$0", 1}},
       {"layer_norm", {real({7, 5}), real({5}), real({5})}, {"$0", Dims{5}, "$1", "$2"}},
       {"rms_norm", {real({7, 5}), real({5})}, {"$0", Dims{5}, "$1", 1e-5}},
       {"dropout", {real({7, 5})}, {"$0", 0.5, true}},
       {"_scaled_dot_product_flash_attention_for_cpu",
        {real({2, 3, 7, 4}), real({2, 3, 5, 4}), real({2, 3, 5, 4})},
        {"$0", "$1", "$2"}},
       {"_scaled_dot_product_flash_attention_for_cpu_backward",
        {real({2, 3, 7, 4}), real({2, 3, 7, 4}), real({2, 3, 5, 4}), real({2, 3, 5, 4}),
         real({2, 3, 7, 4}), real({2, 3, 7})},
        {"$0", "$1", "$2", "$3", "$4", "$5", 0.0, true}},
       {"_scaled_dot_product_flash_attention_for_cpu_backward",
        {real({2, 4, 3, 4}), real({2, 4, 3, 4}), real({2, 2, 5, 4}), real({2, 2, 5, 4}),
         real({2, 4, 3, 4}), real({2, 4, 3}), real({2, 1, 3, 5})},
        {"$0", "$1", "$2", "$3", "$4", "$5", 0.0, false, "$6"}},
       {"scaled_dot_product_attention",
        {real({2, 3, 7, 4}), real({2, 3, 5, 4}), real({2, 3, 5, 4})},
        {"$0", "$1", "$2"}},
       {"scaled_dot_product_attention",
        {real({1, 3, 7, 4}), real({1, 3, 7, 4}), real({1, 3, 7, 4})},
        {"$0", "$1", "$2", Argument(), 0.0, true}},
       {"chunk", {real({7, 5})}, {"$0", 3, 0}},
       {"expand_as", {real({7, 1}), real({7, 5})}, {"$0", "$1"}},
       {"flatten.using_ints", {real({7, 5, 2})}, {"$0", 1}},
       {"unflatten.int", {real({6, 5})}, {"$0", 0, Dims{2, 3}}},
       {"view_as", {real({6, 5}), real({5, 6})}, {"$0", "$1"}},
       {"reshape_as", {real({6, 5}), real({5, 6})}, {"$0", "$1"}},
       {"mT", {real({7, 5, 2})}, {"$0"}},
       {"numpy_T", {real({7, 5, 2})}, {"$0"}},
       {"movedim.int", {real({7, 5, 2})}, {"$0", 0, -1}},
       {"movedim.intlist", {real({7, 5, 2})}, {"$0", Dims{0, 1}, Dims{1, 2}}},
       {"narrow", {real({7, 5})}, {"$0", 0, 2, 4}},
       {"to.dtype", {real({7, 5})}, {"$0", DType::kF64}},
       {"type_as", {index({7, 5}, 9), real({7, 5})}, {"$0", "$1"}},
       {"contiguous", {real({7, 5})}, {"$0"}}});
}

/// Special functions of two operands.
void add_special_functions(std::vector<OpSample>& samples) {
  for (const char* op :
       {"special_chebyshev_polynomial_t", "special_chebyshev_polynomial_u",
        "special_chebyshev_polynomial_v", "special_chebyshev_polynomial_w",
        "special_hermite_polynomial_h", "special_hermite_polynomial_he",
        "special_laguerre_polynomial_l", "special_legendre_polynomial_p",
        "special_shifted_chebyshev_polynomial_t", "special_shifted_chebyshev_polynomial_u",
        "special_shifted_chebyshev_polynomial_v", "special_shifted_chebyshev_polynomial_w"}) {
    samples.push_back({op, {real({7, 5}), index({7, 1}, 9)}, {"$0", "$1"}});
  }
  for (const char* op : {"igamma", "igammac"}) {
    samples.push_back({op, {index({5}, 4), unit({7, 5})}, {"$0", "$1"}});
  }
  samples.push_back({"special_zeta.self_scalar", {unit({7, 5})}, {2.5, "$0"}});
  samples.push_back({"special_xlog1py", {real({7, 5}), unit({7, 1})}, {"$0", "$1"}});
  samples.push_back({"nextafter", {real({7, 5}), real({7, 1})}, {"$0", "$1"}});
  samples.push_back({"acosh", {index({7, 5}, 9)}, {"$0"}});
  samples.push_back({"logit_backward", {real({7, 5}), unit({7, 5})}, {"$0", "$1"}});
  samples.push_back({"native_dropout_backward", {real({7, 5}), truth({7, 5})}, {"$0", "$1", 2.0}});
  samples.push_back({"bucketize.Scalar", {unit({7})}, {0.5, "$0"}});
  samples.push_back({"norm.ScalarOpt_dtype", {real({7, 5})}, {"$0", 2, DType::kF64}});
  samples.push_back(
      {"norm.ScalarOpt_dim_dtype", {real({7, 5})}, {"$0", 2, Dims{0}, false, DType::kF64}});
  samples.push_back({"lcm", {index({7, 5}, 9), index({7, 1}, 9)}, {"$0", "$1"}});
  samples.push_back({"gcd", {index({7, 5}, 9), index({7, 1}, 9)}, {"$0", "$1"}});
  samples.push_back({"true_divide.Tensor", {real({7, 5}), unit({5})}, {"$0", "$1"}});
}

/// Statistics of a dim by order and by counting.
void add_statistics(std::vector<OpSample>& samples) {
  for (const bool keep : {false, true}) {
    samples.push_back({"median.dim", {real({7, 5})}, {"$0", 0, keep}});
    samples.push_back({"nanmedian.dim", {real({7, 5})}, {"$0", 1, keep}});
    samples.push_back({"mode", {index({7, 5}, 3)}, {"$0", 1, keep}});
    samples.push_back({"kthvalue", {real({7, 5})}, {"$0", 3, 0, keep}});
    samples.push_back({"nansum", {real({7, 5})}, {"$0", Dims{0}, keep}});
    samples.push_back({"all.dims", {truth({7, 5})}, {"$0", Dims{0}, keep}});
    samples.push_back({"linalg__powsum", {real({7, 5})}, {"$0", 3, Dims{0}, keep}});
    samples.push_back({"norm.ScalarOpt_dim", {real({7, 5})}, {"$0", 2, Dims{0}, keep}});
  }
  samples.insert(samples.end(), {{"cumprod", {real({7, 5})}, {"$0", 0}},
                                 {"cummax", {real({7, 5})}, {"$0", 0}},
                                 {"cummin", {real({7, 5})}, {"$0", 1}},
                                 {"logcumsumexp", {real({7, 5})}, {"$0", 0}},
                                 {"_safe_softmax", {real({7, 5})}, {"$0", 1}},
                                 {"median", {real({7, 5})}, {"$0"}},
                                 {"nanmedian", {real({7, 5})}, {"$0"}},
                                 {"norm.Scalar", {real({7, 5})}, {"$0", 3}},
                                 {"histc", {real({7, 5})}, {"$0", 4, -1, 2}},
                                 {"bucketize.Tensor", {real({7, 5}), real({1})}, {"$0", "$1"}},
                                 {"aminmax", {real({7, 5})}, {"$0", 0}},
                                 {"count_nonzero", {index({7, 5}, 3)}, {"$0"}},
                                 {"count_nonzero.dim_IntList", {index({7, 5}, 3)}, {"$0", Dims{0}}},
                                 {"std_mean.correction", {real({7, 5})}, {"$0", Dims{0}, 1}}});
}

/// Matrices in batches.
void add_linear_algebra(std::vector<OpSample>& samples) {
  samples.insert(samples.end(),
                 {{"_linalg_det", {real({3, 4, 4})}, {"$0"}},
                  {"_linalg_slogdet", {real({3, 4, 4})}, {"$0"}},
                  {"linalg_inv_ex", {real({3, 2, 2})}, {"$0"}},
                  {"_linalg_solve_ex", {real({3, 4, 4}), real({3, 4, 2})}, {"$0", "$1"}},
                  {"linalg_solve_triangular",
                   {unit({3, 4, 4}), real({3, 4, 2})},
                   {"$0", "$1", true, true, true}},
                  {"linalg_lu_factor_ex", {real({3, 4, 5})}, {"$0"}},
                  {"linalg_lu", {real({3, 5, 4})}, {"$0"}},
                  {"linalg_qr", {real({2, 5, 4})}, {"$0"}},
                  {"cholesky_inverse", {unit({3, 4, 4})}, {"$0"}},
                  {"cholesky_solve", {real({3, 1, 2}), unit({3, 1, 1})}, {"$0", "$1"}},
                  {"triangular_solve", {real({3, 4, 2}), unit({3, 4, 4})}, {"$0", "$1"}},
                  {"lu_unpack", {real({3, 4, 5}), pivots({3, 4}, 4)}, {"$0", "$1", true, false}},
                  {"linalg_lu_solve",
                   {real({3, 4, 4}), pivots({3, 4}, 4), real({3, 4, 2})},
                   {"$0", "$1", "$2"}},
                  {"linalg_matrix_exp", {real({3, 4, 4})}, {"$0"}}});
}

/// Lists whose elements are ops of their own.
void add_foreach(std::vector<OpSample>& samples) {
  for (const std::string op : {"add", "sub", "mul", "div"}) {
    static std::deque<std::string> names;
    const auto name = [&](const char* overload) {
      return names.emplace_back("_foreach_" + op + "." + overload).c_str();
    };
    samples.push_back({name("List"),
                       {real({7, 5}), real({3}), unit({7, 5}), unit({3})},
                       {List{"$0", "$1"}, List{"$2", "$3"}}});
    samples.push_back({name("Scalar"), {real({7, 5}), real({3})}, {List{"$0", "$1"}, 0.5}});
    samples.push_back(
        {name("ScalarList"), {real({7, 5}), real({3})}, {List{"$0", "$1"}, List{0.5, 2.0}}});
    if (op == "sub") continue;  // ATen has no such overload
    // The gradient of a common divisor is a long sum: few elements, for the sake of bf16.
    samples.push_back({name("Tensor"), {unit({3}), unit({2}), unit({})}, {List{"$0", "$1"}, "$2"}});
  }
}

/// Foreach ops with other arguments.
void add_derived_foreach(std::vector<OpSample>& samples) {
  const std::vector<SampleInput> two{real({7, 5}), real({3})};
  const std::vector<SampleInput> six{real({7, 5}), real({3}),    real({7, 5}),
                                     real({3}),    unit({7, 5}), unit({3})};
  const List first{"$0", "$1"}, second{"$2", "$3"}, third{"$4", "$5"};
  for (const char* op : {"_foreach_abs", "_foreach_neg", "_foreach_sigmoid_", "_foreach_max"}) {
    samples.push_back({op, two, {first}});
  }
  samples.insert(samples.end(),
                 {{"_foreach_addcmul.Scalar", six, {first, second, third, 0.5}},
                  {"_foreach_addcdiv_.ScalarList", six, {first, second, third, List{0.5, 2.0}}},
                  {"_foreach_lerp.Scalar", {six.begin(), six.end() - 2}, {first, second, 0.25}},
                  {"_foreach_maximum.ScalarList", two, {first, List{0.5, -0.5}}},
                  {"_foreach_norm.Scalar", two, {first, 2}},
                  {"_foreach_pow.Scalar", two, {first, 2}},
                  {"_foreach_pow.ScalarAndTensor", two, {2.0, first}}});
}

/// Gradients as ops.
void add_backwards(std::vector<OpSample>& samples) {
  for (const char* op : {"gelu_backward", "sigmoid_backward", "silu_backward", "tanh_backward"}) {
    samples.push_back({op, {real({7, 5}), unit({7, 5})}, {"$0", "$1"}});
  }
  samples.insert(
      samples.end(),
      {{"_softmax_backward_data", {real({7, 5}), unit({7, 5})}, {"$0", "$1", 1, DType::kF32}},
       {"_log_softmax_backward_data", {real({7, 5}), real({7, 5})}, {"$0", "$1", 0, DType::kF32}},
       {"threshold_backward", {real({7, 5}), real({7, 5})}, {"$0", "$1", 0.5}},
       {"leaky_relu_backward", {real({7, 5}), real({7, 5})}, {"$0", "$1", 0.5, false}},
       {"softplus_backward", {real({7, 5}), real({7, 5})}, {"$0", "$1", 1.0, 20.0}},
       {"embedding_dense_backward", {real({6, 5}), index({6}, 7)}, {"$0", "$1", 7, 2, false}},
       {"embedding_dense_backward", {real({6, 5}), index({6}, 3)}, {"$0", "$1", 7, -1, true}},
       {"nll_loss_backward",
        {real({}), real({7, 5}), index({7}, 5), unit({})},
        {"$0", "$1", "$2", Argument(), 1, 3, "$3"}},
       {"native_layer_norm_backward",
        {real({7, 5}), real({7, 5}), real({7, 1}), unit({7, 1}), real({5}), real({5})},
        {"$0", "$1", Dims{5}, "$2", "$3", "$4", "$5", List{true, true, true}}},
       {"select_backward", {real({5})}, {"$0", Dims{7, 5}, 0, -1}},
       {"slice_backward", {real({3, 5})}, {"$0", Dims{7, 5}, 0, 1, 6, 2}}});
}

/// The rest of the pointwise ops.
void add_shifts_and_numbers_first(std::vector<OpSample>& samples) {
  for (const char* op : {"bitwise_left_shift.Tensor_Scalar", "bitwise_right_shift.Tensor_Scalar"}) {
    samples.push_back({op, {index({7}, 9)}, {"$0", 2}});
  }
  for (const char* op :
       {"bitwise_and.Scalar_Tensor", "bitwise_or.Scalar_Tensor", "bitwise_xor.Scalar_Tensor",
        "bitwise_left_shift.Scalar_Tensor", "bitwise_right_shift.Scalar_Tensor"}) {
    samples.push_back({op, {index({7}, 9)}, {5, "$0"}});
  }
  samples.push_back({"remainder.Scalar_Tensor", {real({7, 5})}, {0.75, "$0"}});
}

void add_more_pointwise(std::vector<OpSample>& samples) {
  for (const char* op : {"atan", "ceil", "cosh", "erfc", "exp2", "isfinite", "isinf", "isnan",
                         "leaky_relu", "signbit", "asinh", "sinh"}) {
    samples.push_back({op, {real({7, 5})}, {"$0"}});
  }
  // tan has a pole among the real ones.
  for (const char* op : {"log10", "log2", "tan"}) samples.push_back({op, {unit({7, 5})}, {"$0"}});
  for (const char* op :
       {"atan2", "gt.Tensor", "le.Tensor", "ne.Tensor", "clamp_max.Tensor", "clamp_min.Tensor"}) {
    samples.push_back({op, {real({7, 5}), real({7, 1})}, {"$0", "$1"}});
  }
  for (const char* op : {"eq.Scalar", "ge.Scalar", "le.Scalar", "lt.Scalar", "clamp_max",
                         "clamp_min", "fmod.Scalar", "remainder.Scalar"}) {
    samples.push_back({op, {real({7, 5})}, {"$0", 0.75}});
  }
  for (const char* op : {"bitwise_and.Scalar", "bitwise_or.Scalar", "bitwise_xor.Scalar"}) {
    samples.push_back({op, {index({7}, 9)}, {"$0", 5}});
  }
  for (const char* op : {"bitwise_and.Tensor", "bitwise_or.Tensor", "bitwise_left_shift.Tensor",
                         "bitwise_right_shift.Tensor"}) {
    samples.push_back({op, {index({7}, 9), index({7}, 9)}, {"$0", "$1"}});
  }
  add_shifts_and_numbers_first(samples);
  for (const char* op : {"logical_or", "logical_xor"}) {
    samples.push_back({op, {truth({7, 5}), truth({7, 1})}, {"$0", "$1"}});
  }
  samples.insert(
      samples.end(),
      {{"bitwise_not", {index({7}, 9)}, {"$0"}},
       {"addcdiv", {real({7, 5}), real({7, 5}), unit({5})}, {"$0", "$1", "$2", 0.125}},
       {"clamp.Tensor", {real({7, 5}), real({5}), unit({7, 1})}, {"$0", "$1", "$2"}},
       {"lerp.Tensor", {real({7, 5}), real({7, 5}), unit({5})}, {"$0", "$1", "$2"}},
       {"div.Scalar_mode", {real({7, 5})}, {"$0", 0.75, "floor"}},
       {"div.Tensor_mode", {real({7, 5}), unit({5})}, {"$0", "$1", "trunc"}},
       {"floor_divide", {real({7, 5}), unit({5})}, {"$0", "$1"}},
       {"floor_divide.Scalar", {real({7, 5})}, {"$0", 0.75}},
       {"new_empty", {real({7, 5})}, {"$0", Dims{7, 5}}},
       {"new_empty_strided", {real({7, 5})}, {"$0", Dims{7, 5}, Dims{1, 7}}},
       {"new_full", {real({7, 5})}, {"$0", Dims{7, 5}, 2.0}},
       {"normal_functional", {real({7, 5})}, {"$0"}},
       {"randint_like", {real({7, 5})}, {"$0", 9}},
       {"randint_like.low_dtype", {real({7, 5})}, {"$0", 3, 9}},
       {"triu", {real({7, 5})}, {"$0"}},
       {"scatter.src", {real({7, 5}), index({7, 1}, 5), real({7, 1})}, {"$0", 1, "$1", "$2"}},
       {"scatter.value", {real({7, 5}), index({1, 5}, 7)}, {"$0", 0, "$1", 2.0}},
       {"baddbmm", {real({2, 7, 3}), real({2, 7, 5}), real({2, 5, 3})}, {"$0", "$1", "$2"}},
       {"mv", {real({7, 5}), real({5})}, {"$0", "$1"}},
       {"all.dim", {truth({7, 5})}, {"$0", 0}},
       {"any.dim", {truth({7, 5})}, {"$0", 1, true}},
       {"any.dims", {truth({7, 5})}, {"$0", Dims{0}}},
       {"min.dim", {real({7, 5})}, {"$0", 1}},
       {"prod", {unit({7, 5})}, {"$0"}},
       {"std.correction", {real({7, 5})}, {"$0", Dims{1}}},
       {"var_mean.correction", {real({7, 5})}, {"$0", Dims{0}}},
       {"expand_copy", {real({7, 1})}, {"$0", Dims{7, 5}}},
       {"view_copy", {real({6, 5})}, {"$0", Dims{5, 6}}},
       {"prims::view_of", {real({7, 5})}, {"$0"}},
       {"view_as_complex", {real({7, 2})}, {"$0"}}});
}

}  // namespace

std::span<const OpSample> op_samples() {
  static const std::vector<OpSample> samples = [] {
    std::vector<OpSample> all;
    add_unary(all);
    add_pointwise(all);
    add_reductions(all);
    add_products(all);
    add_lookups(all);
    add_views(all);
    add_composites(all);
    add_pointwise_losses(all);
    add_backwards(all);
    add_special_functions(all);
    add_statistics(all);
    add_upsampling(all);
    add_pooling(all);
    add_linear_algebra(all);
    add_convolutions(all);
    add_foreach(all);
    add_derived_foreach(all);
    add_more_pointwise(all);
    for (OpSample& sample : program_samples()) all.push_back(std::move(sample));
    add_layer_samples(all);
    add_function_samples(all);
    return all;
  }();
  return samples;
}

}  // namespace shardlab
