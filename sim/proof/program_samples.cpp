// Samples of ops that are programs over other ops, or derived from others.
#include "sim/proof/op_samples.h"

namespace shardlab {
namespace {

using List = ArgumentList;

SampleInput reals(Dims shape) { return {std::move(shape), Fill::kReal}; }
SampleInput units(Dims shape) { return {std::move(shape), Fill::kUnit}; }
SampleInput truths(Dims shape) { return {std::move(shape), Fill::kBool}; }
SampleInput indices(Dims shape, std::int64_t limit) {
  return {std::move(shape), Fill::kIndex, limit};
}

/// What a form of another op gives.
void add_forms(std::vector<OpSample>& samples) {
  for (const char* op : {"alias_copy", "t_copy", "zero", "squeeze_copy", "uniform", "exponential_",
                         "exponential", "log_normal_", "cauchy_", "threshold_", "prims::signbit",
                         "lift", "pin_memory", "to_dense"}) {
    OpSample sample{op, {reals({7, 5})}, {"$0"}};
    if (sample.op == std::string_view("threshold_")) sample.args = {"$0", 0.5, -1.0};
    samples.push_back(sample);
  }
  samples.insert(samples.end(), {{"fill.Scalar", {reals({7, 5})}, {"$0", 2.0}},
                                 {"fill.Tensor", {reals({7, 5}), reals({})}, {"$0", "$1"}},
                                 {"copy", {reals({7, 5}), reals({5})}, {"$0", "$1"}},
                                 {"geometric_", {reals({7, 5})}, {"$0", 0.5}},
                                 {"permute_copy", {reals({7, 5, 2})}, {"$0", Dims{2, 0, 1}}},
                                 {"transpose_copy.int", {reals({7, 5})}, {"$0", 0, 1}},
                                 {"unsqueeze_copy", {reals({7, 5})}, {"$0", 1}},
                                 {"squeeze_copy.dim", {reals({7, 1, 5})}, {"$0", 1}},
                                 {"squeeze_copy.dims", {reals({7, 1, 5})}, {"$0", Dims{1}}},
                                 {"narrow_copy", {reals({7, 5})}, {"$0", 0, 2, 3}},
                                 {"select_copy.int", {reals({7, 5})}, {"$0", 1, 2}},
                                 {"slice_copy.Tensor", {reals({7, 5})}, {"$0", 0, 1, 6, 2}},
                                 {"split_copy.Tensor", {reals({7, 5})}, {"$0", 3, 1}},
                                 {"split_with_sizes_copy", {reals({7, 5})}, {"$0", Dims{3, 4}, 0}},
                                 {"unbind_copy.int", {reals({7, 2})}, {"$0", 1}},
                                 {"unfold_copy", {reals({7, 5})}, {"$0", 1, 3, 2}},
                                 {"round.decimals", {reals({7, 5})}, {"$0", 1}},
                                 {"multinomial", {units({7, 5})}, {"$0", 3, false}},
                                 {"to.device", {reals({7, 5})}, {"$0", "cpu", DType::kF64}},
                                 {"to.dtype_layout", {reals({7, 5})}, {"$0", DType::kF64}},
                                 {"to.other", {indices({7, 5}, 9), reals({7})}, {"$0", "$1"}}});
}

/// Values moved about.
void add_moves(std::vector<OpSample>& samples) {
  samples.insert(
      samples.end(),
      {{"as_strided_scatter",
        {reals({7, 5}), reals({5, 7})},
        {"$0", "$1", Dims{5, 7}, Dims{1, 5}, 0}},
       {"diag", {reals({5})}, {"$0", 1}},
       {"diag", {reals({7, 5})}, {"$0", -1}},
       {"special_ndtr", {reals({7, 5})}, {"$0"}},
       {"pixel_shuffle", {reals({2, 12, 3, 5})}, {"$0", 2}},
       {"pixel_unshuffle", {reals({3, 4, 6})}, {"$0", 2}},
       {"channel_shuffle", {reals({2, 6, 3, 5})}, {"$0", 3}},
       {"rot90", {reals({7, 5})}, {"$0", 1, Dims{0, 1}}},
       {"rot90", {reals({7, 5})}, {"$0", 3, Dims{0, 1}}},
       {"broadcast_tensors", {reals({7, 1}), reals({5})}, {List{"$0", "$1"}}},
       {"meshgrid", {reals({7}), reals({5})}, {List{"$0", "$1"}}},
       {"meshgrid.indexing", {reals({7}), reals({5})}, {List{"$0", "$1"}, "xy"}},
       {"block_diag", {reals({3, 2}), reals({5})}, {List{"$0", "$1"}}},
       {"pad_sequence", {reals({3, 5}), reals({7, 5})}, {List{"$0", "$1"}, true, 0.5}},
       {"_chunk_cat", {reals({7, 3}), reals({5, 3})}, {List{"$0", "$1"}, 0, 2}},
       {"repeat_interleave.self_int", {reals({7, 5})}, {"$0", 2, 1}},
       {"resize_as", {reals({7, 5}), reals({3, 4})}, {"$0", "$1"}},
       {"split.sizes", {reals({7, 5})}, {"$0", Dims{3, 4}, 0}},
       {"tensor_split.sections", {reals({7, 5})}, {"$0", 3, 0}},
       {"tensor_split.indices", {reals({7, 5})}, {"$0", Dims{2, 4}, 1}},
       {"unsafe_chunk", {reals({7, 5})}, {"$0", 3, 0}},
       {"unsafe_split.Tensor", {reals({7, 5})}, {"$0", 3, 0}},
       {"unsafe_split_with_sizes", {reals({7, 5})}, {"$0", Dims{3, 4}, 0}},
       {"_reshape_alias", {reals({6, 5})}, {"$0", Dims{5, 6}, Dims{6, 1}}},
       {"unfold", {reals({7, 5})}, {"$0", 0, 3, 2}},
       {"unfold_backward", {reals({3, 5, 3})}, {"$0", Dims{7, 5}, 0, 3, 2}},
       {"im2col", {reals({2, 2, 5, 4})}, {"$0", Dims{2, 3}, Dims{1, 1}, Dims{1, 0}, Dims{2, 1}}},
       {"col2im",
        {reals({2, 12, 6})},
        {"$0", Dims{5, 4}, Dims{2, 3}, Dims{1, 1}, Dims{1, 0}, Dims{2, 1}}},
       {"reflection_pad1d", {reals({3, 7})}, {"$0", Dims{2, 3}}},
       {"reflection_pad2d", {reals({3, 4, 5})}, {"$0", Dims{1, 2, 3, 0}}},
       {"reflection_pad3d", {reals({2, 3, 2, 4})}, {"$0", Dims{1, 1, 1, 0, 2, 1}}},
       {"reflection_pad1d_backward", {reals({3, 12}), reals({3, 7})}, {"$0", "$1", Dims{2, 3}}},
       {"reflection_pad2d_backward",
        {reals({3, 7, 8}), reals({3, 4, 5})},
        {"$0", "$1", Dims{1, 2, 3, 0}}},
       {"reflection_pad3d_backward",
        {reals({2, 6, 3, 6}), reals({2, 3, 2, 4})},
        {"$0", "$1", Dims{1, 1, 1, 0, 2, 1}}},
       {"replication_pad1d", {reals({3, 7})}, {"$0", Dims{2, -1}}},
       {"replication_pad2d", {reals({3, 4, 5})}, {"$0", Dims{1, 2, 3, 0}}},
       {"replication_pad3d", {reals({2, 3, 2, 4})}, {"$0", Dims{1, 1, 1, 0, 2, 1}}}});
}

/// Look-ups and comparisons.
void add_index_programs(std::vector<OpSample>& samples) {
  samples.insert(
      samples.end(),
      {{"take", {reals({7, 5}), indices({4}, 35)}, {"$0", "$1"}},
       {"index_copy", {reals({7, 5}), indices({1}, 7), reals({1, 5})}, {"$0", 0, "$1", "$2"}},
       {"index_fill.int_Scalar", {reals({7, 5}), indices({3}, 5)}, {"$0", 1, "$1", 2.0}},
       {"index_fill.int_Tensor",
        {reals({7, 5}), indices({3}, 5), reals({})},
        {"$0", 1, "$1", "$2"}},
       {"index_reduce",
        {reals({7, 5}), indices({3}, 7), reals({3, 5})},
        {"$0", 0, "$1", "$2", "amax"}},
       {"scatter_reduce.two",
        {reals({7, 5}), indices({7, 3}, 5), reals({7, 3})},
        {"$0", 1, "$1", "$2", "mean"}},
       {"scatter.reduce",
        {reals({7, 5}), indices({7, 3}, 5), reals({7, 3})},
        {"$0", 1, "$1", "$2", "add"}},
       {"scatter.value_reduce",
        {reals({7, 5}), indices({7, 3}, 5)},
        {"$0", 1, "$1", 2.0, "multiply"}},
       {"isin.Tensor_Tensor", {indices({7, 5}, 9), indices({3}, 9)}, {"$0", "$1"}},
       {"isin.Tensor_Scalar", {indices({7, 5}, 3)}, {"$0", 2}},
       {"isin.Scalar_Tensor", {indices({7}, 9)}, {4, "$0"}},
       {"one_hot", {indices({7}, 5)}, {"$0", 5}},
       {"where.Scalar", {truths({7, 5})}, {"$0", 1.0, 2.0}},
       {"where.ScalarOther", {truths({7, 5}), reals({5})}, {"$0", "$1", 2.0}},
       {"where.ScalarSelf", {truths({7, 5}), reals({7, 1})}, {"$0", 2.0, "$1"}},
       {"_unsafe_index.Tensor", {reals({7, 5}), indices({4}, 7)}, {"$0", List{"$1"}}},
       {"_unsafe_index_put",
        {reals({7, 5}), indices({1}, 7), reals({5})},
        {"$0", List{"$1"}, "$2"}},
       {"_unsafe_masked_index",
        {reals({7, 5}), truths({4, 5}), indices({4}, 9)},
        {"$0", "$1", List{"$2"}, 0.5}},
       {"_unsafe_masked_index_put_accumulate",
        {reals({7, 5}), truths({4, 5}), indices({4}, 9), reals({4, 5})},
        {"$0", "$1", List{"$2"}, "$3"}}});
}

/// Activations and their way back.
void add_slopes(std::vector<OpSample>& samples) {
  for (const char* op : {"hardsigmoid_backward", "hardswish_backward", "mish_backward"}) {
    samples.push_back({op, {reals({7, 5}), reals({7, 5})}, {"$0", "$1"}});
  }
  samples.insert(
      samples.end(),
      {{"_prelu_kernel", {reals({7, 5}), reals({1, 5})}, {"$0", "$1"}},
       {"_prelu_kernel_backward",
        {reals({7, 5}), reals({7, 5}), reals({1, 5})},
        {"$0", "$1", "$2"}},
       {"prelu", {reals({7, 5}), reals({5})}, {"$0", "$1"}},
       {"elu_backward", {reals({7, 5}), reals({7, 5})}, {"$0", 1.5, 0.5, 2.0, false, "$1"}},
       {"glu", {reals({7, 6})}, {"$0", 1}},
       {"glu_backward", {reals({7, 3}), reals({7, 6})}, {"$0", "$1", 1}},
       {"hardtanh_backward", {reals({7, 5}), reals({7, 5})}, {"$0", "$1", -1.0, 0.5}},
       {"log_sigmoid_forward", {reals({7, 5})}, {"$0"}},
       {"log_sigmoid_backward", {reals({7, 5}), reals({7, 5}), units({7, 5})}, {"$0", "$1", "$2"}},
       {"rrelu_with_noise", {reals({7, 5}), reals({7, 5})}, {"$0", "$1", 0.125, 0.25, false}},
       {"rrelu_with_noise_functional",
        {reals({7, 5}), reals({7, 5})},
        {"$0", "$1", 0.125, 0.25, false}},
       {"rrelu_with_noise_backward",
        {reals({7, 5}), reals({7, 5}), reals({7, 5})},
        {"$0", "$1", "$2", 0.125, 0.25, true, false}},
       {"alpha_dropout", {reals({7, 5})}, {"$0", 0.5, true}},
       {"_fused_dropout", {reals({7, 5})}, {"$0", 0.5}},
       {"_fused_rms_norm", {reals({7, 5}), reals({5})}, {"$0", Dims{5}, "$1", 1e-5}},
       {"_fused_rms_norm_backward",
        {reals({7, 5}), reals({7, 5}), units({7, 1}), reals({5})},
        {"$0", "$1", Dims{5}, "$2", "$3", List{true, true}}}});
}

/// Losses and distances.
void add_measures(std::vector<OpSample>& samples) {
  const Argument none;
  for (const int reduction : {0, 1, 2}) {
    samples.insert(
        samples.end(),
        {{"soft_margin_loss", {reals({7, 5}), reals({7, 5})}, {"$0", "$1", reduction}},
         {"hinge_embedding_loss", {reals({7, 5}), reals({7, 5})}, {"$0", "$1", 1.0, reduction}},
         {"margin_ranking_loss",
          {reals({7}), reals({7}), reals({7})},
          {"$0", "$1", "$2", 0.5, reduction}},
         {"multi_margin_loss",
          {reals({7, 5}), indices({7}, 5), units({5})},
          {"$0", "$1", 1, 1.0, "$2", reduction}},
         {"multilabel_margin_loss_forward",
          {reals({7, 5}), indices({7, 5}, 5)},
          {"$0", "$1", reduction}},
         {"nll_loss", {reals({7, 5}), indices({7}, 5)}, {"$0", "$1", none, reduction}}});
  }
  samples.insert(
      samples.end(),
      {{"soft_margin_loss_backward",
        {reals({}), reals({7, 5}), reals({7, 5})},
        {"$0", "$1", "$2", 1}},
       {"dist", {reals({7, 5}), reals({5})}, {"$0", "$1", 2}},
       {"pairwise_distance", {reals({7, 5}), reals({7, 5})}, {"$0", "$1"}},
       {"pdist", {reals({4, 5})}, {"$0"}},
       {"_euclidean_dist", {reals({4, 3}), reals({7, 3})}, {"$0", "$1"}},
       {"renorm", {reals({7, 5})}, {"$0", 2, 0, 1.0}},
       {"_weight_norm_interface", {reals({7, 5}), reals({7, 1})}, {"$0", "$1", 0}},
       {"addmv", {reals({7}), reals({7, 5}), reals({5})}, {"$0", "$1", "$2", 0.5, 2.0}},
       {"addr", {reals({7, 5}), reals({7}), reals({5})}, {"$0", "$1", "$2", 0.5, 2.0}},
       {"addbmm", {reals({7, 2}), reals({3, 7, 5}), reals({3, 5, 2})}, {"$0", "$1", "$2"}},
       {"addmm.dtype",
        {reals({7, 2}), reals({7, 5}), reals({5, 2})},
        {"$0", "$1", "$2", DType::kF64}},
       {"baddbmm.dtype",
        {reals({3, 7, 2}), reals({3, 7, 5}), reals({3, 5, 2})},
        {"$0", "$1", "$2", DType::kF64}},
       {"_addmm_activation", {reals({7, 2}), reals({7, 5}), reals({5, 2})}, {"$0", "$1", "$2"}},
       {"affine_grid_generator", {reals({2, 2, 3})}, {"$0", Dims{2, 1, 3, 5}, false}},
       {"linspace.Tensor_Tensor", {reals({}), reals({})}, {"$0", "$1", 7, DType::kF64}},
       {"linspace.Scalar_Tensor", {reals({})}, {0.5, "$0", 7, DType::kF64}},
       {"linspace.Tensor_Scalar", {reals({})}, {"$0", 0.5, 7, DType::kF64}},
       {"logspace.Tensor_Tensor", {reals({}), reals({})}, {"$0", "$1", 7, 2.0, DType::kF64}},
       {"logspace.Scalar_Tensor", {reals({})}, {0.5, "$0", 7, 2.0, DType::kF64}},
       {"logspace.Tensor_Scalar", {reals({})}, {"$0", 0.5, 7, 2.0, DType::kF64}}});
}

/// Older names of reductions and convolutions.
void add_other_names(std::vector<OpSample>& samples) {
  const Argument none;
  samples.insert(
      samples.end(),
      {{"std_mean", {reals({7, 5})}, {"$0", true}},
       {"std_mean.dim", {reals({7, 5})}, {"$0", Dims{0}, true}},
       {"prims::sum", {reals({7, 5})}, {"$0", Dims{0}}},
       {"prims::prod", {units({7, 5})}, {"$0", Dims{0}}},
       {"prims::amax", {reals({7, 5})}, {"$0", Dims{1}}},
       {"prims::amin", {reals({7, 5})}, {"$0", Dims{1}}},
       {"prims::var", {reals({7, 5})}, {"$0", Dims{0}, 1.0}},
       {"prims::div", {reals({7, 5}), units({7, 5})}, {"$0", "$1"}},
       {"prims::convert_element_type", {reals({7, 5})}, {"$0", DType::kF64}},
       {"conv2d.padding",
        {reals({1, 2, 5, 7}), reals({2, 2, 3, 2})},
        {"$0", "$1", none, Dims{1, 1}, "same"}},
       {"conv1d.padding",
        {reals({2, 2, 7}), reals({3, 2, 2})},
        {"$0", "$1", none, Dims{1}, "same"}},
       {"conv3d.padding", {reals({1, 1, 3, 4, 5}), reals({1, 1, 2, 2, 2})}, {"$0", "$1"}},
       {"_convolution.deprecated",
        {reals({2, 2, 9}), reals({2, 2, 3})},
        {"$0", "$1", none, Dims{2}, Dims{2}, Dims{2}, false, Dims{0}, 1, false, false, false}}});
}

/// Upsampling by factors, and to sizes: names, how many dims, whether corners may be aligned.
void add_scaling(std::vector<OpSample>& samples) {
  struct Family {
    const char* op;
    std::size_t dims;
    bool aligns;
  };
  for (const Family& family : {Family{"upsample_nearest1d.vec", 1, false},
                               {"upsample_nearest2d.vec", 2, false},
                               {"upsample_nearest3d.vec", 3, false},
                               {"_upsample_nearest_exact1d.vec", 1, false},
                               {"_upsample_nearest_exact2d.vec", 2, false},
                               {"_upsample_nearest_exact3d.vec", 3, false},
                               {"upsample_linear1d.vec", 1, true},
                               {"upsample_bilinear2d.vec", 2, true},
                               {"upsample_trilinear3d.vec", 3, true},
                               {"upsample_bicubic2d.vec", 2, true},
                               {"_upsample_bilinear2d_aa.vec", 2, true},
                               {"_upsample_bicubic2d_aa.vec", 2, true},
                               {"_upsample_lanczos2d_aa.vec", 2, true}}) {
    Dims shape{2, 3};
    for (std::size_t d = 0; d < family.dims; ++d) shape.push_back(4 - static_cast<std::int64_t>(d));
    Arguments args{"$0", Argument()};
    if (family.aligns) args.push_back(false);
    args.push_back(List(family.dims, Argument(1.5)));
    samples.push_back({family.op, {reals(shape)}, args});
  }
}

}  // namespace

std::vector<OpSample> program_samples() {
  std::vector<OpSample> all;
  add_forms(all);
  add_moves(all);
  add_index_programs(all);
  add_slopes(all);
  add_measures(all);
  add_other_names(all);
  add_scaling(all);
  return all;
}

}  // namespace shardlab
