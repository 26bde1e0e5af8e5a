#include "tests/property/ops_samples.h"

namespace shardlab::test {
namespace {

using List = ArgumentList;

SampleInput real(Dims shape) { return {std::move(shape), Fill::kReal}; }
SampleInput unit(Dims shape) { return {std::move(shape), Fill::kUnit}; }
SampleInput truth(Dims shape) { return {std::move(shape), Fill::kBool}; }
SampleInput index(Dims shape, std::int64_t limit) {
  return {std::move(shape), Fill::kIndex, limit};
}

/// One tensor alone.
void add_unary(std::vector<Sample>& samples) {
  for (const char* op :
       {"abs",   "clone", "cos",     "empty_like", "erf",      "exp",        "expm1",    "floor",
        "frac",  "gelu",  "neg",     "ones_like",  "positive", "reciprocal", "relu",     "relu_",
        "round", "sgn",   "sigmoid", "sign",       "silu",     "sin",        "softplus", "square",
        "tanh",  "trunc", "zero_",   "zeros_like", "alias"}) {
    samples.push_back({op, {real({7, 5})}, {"$0"}});
  }
  for (const char* op : {"acos", "asin", "log", "log1p", "rsqrt", "sqrt", "bernoulli"}) {
    samples.push_back({op, {unit({7, 5})}, {"$0"}});
  }
  for (const char* op : {"exp", "zero_", "clone", "neg_", "sum", "mean"}) {
    samples.push_back({op, {real({0, 5})}, {"$0"}});
    samples.push_back({op, {real({1})}, {"$0"}});
    samples.push_back({op, {real({})}, {"$0"}});
  }
  for (const char* op : {"rand_like", "randn_like", "uniform_", "normal_", "bernoulli_.float"}) {
    samples.push_back({op, {real({7, 5})}, {"$0"}});
  }
}

void add_pointwise(std::vector<Sample>& samples) {
  for (const char* op :
       {"add.Tensor", "sub.Tensor", "mul.Tensor", "maximum", "minimum", "eq.Tensor", "lt.Tensor",
        "ge.Tensor", "add_.Tensor", "mul_.Tensor", "sub_.Tensor"}) {
    samples.push_back({op, {real({7, 5}), real({7, 5})}, {"$0", "$1"}});
    samples.push_back({op, {real({7, 5}), real({5})}, {"$0", "$1"}});
    samples.push_back({op, {real({7, 5}), real({})}, {"$0", "$1"}});
  }
  for (const char* op : {"div.Tensor", "pow.Tensor_Tensor", "fmod.Tensor", "remainder.Tensor"}) {
    samples.push_back({op, {unit({7, 5}), unit({7, 1})}, {"$0", "$1"}});
  }
  samples.insert(samples.end(),
                 {{"add.Tensor", {real({7, 1}), real({1, 5})}, {"$0", "$1", 0.5}},
                  {"add.Scalar", {real({7, 5})}, {"$0", 0.5}},
                  {"sub.Scalar", {real({7, 5})}, {"$0", 0.5}},
                  {"rsub.Scalar", {real({7, 5})}, {"$0", 0.5}},
                  {"mul.Scalar", {real({7, 5})}, {"$0", -0.5}},
                  {"mul_.Scalar", {real({7, 5})}, {"$0", -0.5}},
                  {"div.Scalar", {real({7, 5})}, {"$0", 4.0}},
                  {"pow.Tensor_Scalar", {unit({7, 5})}, {"$0", 3}},
                  {"pow.Scalar", {real({7, 5})}, {2.0, "$0"}},
                  {"clamp", {real({7, 5})}, {"$0", -0.5, 0.75}},
                  {"gt.Scalar", {real({7, 5})}, {"$0", 0.0}},
                  {"ne.Scalar", {index({7}, 3)}, {"$0", 1}},
                  {"masked_fill.Scalar", {real({7, 5}), truth({7, 1})}, {"$0", "$1", 2.0}},
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

void add_reductions(std::vector<Sample>& samples) {
  for (const char* op : {"sum", "mean", "max", "min", "any", "all", "argmax"}) {
    samples.push_back({op, {real({7, 5})}, {"$0"}});
  }
  for (const bool keep : {false, true}) {
    for (const char* op : {"sum.dim_IntList", "mean.dim", "amax", "amin"}) {
      samples.push_back({op, {real({7, 5})}, {"$0", Dims{0}, keep}});
      samples.push_back({op, {real({7, 5, 2})}, {"$0", Dims{-1, 0}, keep}});
    }
    samples.push_back({"sum.dim_IntList", {real({7, 5})}, {"$0", Dims{}, keep}});
    samples.push_back({"sum.dim_IntList", {real({0, 5})}, {"$0", Dims{0}, keep}});
    samples.push_back({"var.correction", {real({7, 5})}, {"$0", Dims{0}, 1, keep}});
    samples.push_back({"argmax", {real({7, 5})}, {"$0", 0, keep}});
    samples.push_back({"argmin", {real({7, 5})}, {"$0", 1, keep}});
    samples.push_back({"max.dim", {real({7, 5})}, {"$0", 0, keep}});
    samples.push_back({"prod.dim_int", {unit({7, 5})}, {"$0", 1, keep}});
    samples.push_back({"linalg_vector_norm", {real({7, 5})}, {"$0", 2.0, Dims{0}, keep}});
  }
  samples.insert(
      samples.end(),
      {{"linalg_vector_norm", {real({7, 5})}, {"$0", 2}},
       {"linalg_vector_norm", {real({7, 5})}, {"$0", 1}},
       {"_softmax", {real({7, 5})}, {"$0", 0, false}},
       {"_softmax", {real({7, 5})}, {"$0", 1, false}},
       {"_log_softmax", {real({7, 5})}, {"$0", 0, false}},
       {"_log_softmax", {real({7, 5})}, {"$0", -1, false}},
       {"_softmax", {real({0, 5})}, {"$0", 1, false}},
       {"cumsum", {real({7, 5})}, {"$0", 0}},
       {"topk", {real({7, 5})}, {"$0", 2}},
       {"sort", {real({7, 5})}, {"$0", 0}},
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
       {"nll_loss_forward", {real({7, 5}), index({7}, 5), unit({5})}, {"$0", "$1", "$2", 1, 3}}});
}

void add_products(std::vector<Sample>& samples) {
  samples.insert(samples.end(),
                 {{"mm", {real({7, 5}), real({5, 3})}, {"$0", "$1"}},
                  {"mm", {real({7, 0}), real({0, 3})}, {"$0", "$1"}},
                  {"mm", {real({0, 5}), real({5, 3})}, {"$0", "$1"}},
                  {"bmm", {real({2, 7, 5}), real({2, 5, 3})}, {"$0", "$1"}},
                  {"addmm", {real({3}), real({7, 5}), real({5, 3})}, {"$0", "$1", "$2"}},
                  {"addmm", {real({7, 3}), real({7, 5}), real({5, 3})}, {"$0", "$1", "$2", 0.5, 2}},
                  {"dot", {real({7}), real({7})}, {"$0", "$1"}}});
}

void add_lookups(std::vector<Sample>& samples) {
  samples.insert(
      samples.end(),
      {{"embedding", {real({7, 5}), index({6}, 7)}, {"$0", "$1"}},
       {"embedding", {real({7, 5}), index({2, 3}, 7)}, {"$0", "$1", 2}},
       {"embedding", {real({7, 5}), index({0}, 7)}, {"$0", "$1"}},
       {"gather", {real({7, 5}), index({7, 2}, 5)}, {"$0", 1, "$1"}},
       {"gather", {real({7, 5}), index({3, 5}, 7)}, {"$0", 0, "$1"}},
       {"gather", {real({7}), index({7}, 7)}, {"$0", 0, "$1"}},
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
       {"repeat", {real({7, 5})}, {"$0", Dims{2, 1, 3}}}});
}

void add_views(std::vector<Sample>& samples) {
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
}

}  // namespace

std::span<const Sample> op_samples() {
  static const std::vector<Sample> samples = [] {
    std::vector<Sample> all;
    add_unary(all);
    add_pointwise(all);
    add_reductions(all);
    add_products(all);
    add_lookups(all);
    add_views(all);
    return all;
  }();
  return samples;
}

}  // namespace shardlab::test
