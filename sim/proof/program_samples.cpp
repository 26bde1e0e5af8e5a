// Samples of ops that are programs over other ops, or derived from others.
#include "sim/proof/sample_inputs.h"

namespace shardlab {
namespace {

using namespace samples;

/// Samples that are forms of another op.
void add_forms(std::vector<OpSample>& samples) {
  for (const char* op : {"alias_copy", "t_copy", "zero", "squeeze_copy", "uniform", "exponential_",
                         "exponential", "log_normal_", "cauchy_", "threshold_", "prims::signbit",
                         "lift", "pin_memory", "to_dense"}) {
    OpSample sample{op, {real({7, 5})}, {"$0"}};
    if (sample.op == std::string_view("threshold_")) sample.args = {"$0", 0.5, -1.0};
    samples.push_back(sample);
  }
  samples.insert(samples.end(), {{"fill.Scalar", {real({7, 5})}, {"$0", 2.0}},
                                 {"fill.Tensor", {real({7, 5}), real({})}, {"$0", "$1"}},
                                 {"copy", {real({7, 5}), real({5})}, {"$0", "$1"}},
                                 {"geometric_", {real({7, 5})}, {"$0", 0.5}},
                                 {"permute_copy", {real({7, 5, 2})}, {"$0", Dims{2, 0, 1}}},
                                 {"transpose_copy.int", {real({7, 5})}, {"$0", 0, 1}},
                                 {"unsqueeze_copy", {real({7, 5})}, {"$0", 1}},
                                 {"squeeze_copy.dim", {real({7, 1, 5})}, {"$0", 1}},
                                 {"squeeze_copy.dims", {real({7, 1, 5})}, {"$0", Dims{1}}},
                                 {"narrow_copy", {real({7, 5})}, {"$0", 0, 2, 3}},
                                 {"select_copy.int", {real({7, 5})}, {"$0", 1, 2}},
                                 {"slice_copy.Tensor", {real({7, 5})}, {"$0", 0, 1, 6, 2}},
                                 {"split_copy.Tensor", {real({7, 5})}, {"$0", 3, 1}},
                                 {"split_with_sizes_copy", {real({7, 5})}, {"$0", Dims{3, 4}, 0}},
                                 {"unbind_copy.int", {real({7, 2})}, {"$0", 1}},
                                 {"unfold_copy", {real({7, 5})}, {"$0", 1, 3, 2}},
                                 {"argsort", {real({7, 5})}, {"$0", 0, true}},
                                 {"argsort.stable", {real({7, 5})}, {"$0", true, -1, true}},
                                 {"ger", {real({7}), real({5})}, {"$0", "$1"}},
                                 {"outer", {real({5}), real({7})}, {"$0", "$1"}},
                                 {"ravel", {real({7, 5})}, {"$0"}},
                                 {"round.decimals", {real({7, 5})}, {"$0", 1}},
                                 {"multinomial", {unit({7, 5})}, {"$0", 3, false}},
                                 {"to.device", {real({7, 5})}, {"$0", "cpu", DType::kF64}},
                                 {"to.dtype_layout", {real({7, 5})}, {"$0", DType::kF64}},
                                 {"to.other", {index({7, 5}, 9), real({7})}, {"$0", "$1"}}});
}

/// Values moved about.
void add_moves(std::vector<OpSample>& samples) {
  samples.insert(
      samples.end(),
      {{"as_strided_scatter",
        {real({7, 5}), real({5, 7})},
        {"$0", "$1", Dims{5, 7}, Dims{1, 5}, 0}},
       {"diag", {real({5})}, {"$0", 1}},
       {"diag", {real({7, 5})}, {"$0", -1}},
       {"special_ndtr", {real({7, 5})}, {"$0"}},
       {"pixel_shuffle", {real({2, 12, 3, 5})}, {"$0", 2}},
       {"pixel_unshuffle", {real({3, 4, 6})}, {"$0", 2}},
       {"channel_shuffle", {real({2, 6, 3, 5})}, {"$0", 3}},
       {"hash_tensor", {real({7, 5})}, {"$0"}},
       {"hash_tensor", {index({7, 5, 2}, 99)}, {"$0", Dims{1}, true}},
       {"rot90", {real({7, 5})}, {"$0", 1, Dims{0, 1}}},
       {"rot90", {real({7, 5})}, {"$0", 3, Dims{0, 1}}},
       {"broadcast_tensors", {real({7, 1}), real({5})}, {List{"$0", "$1"}}},
       {"meshgrid", {real({7}), real({5})}, {List{"$0", "$1"}}},
       {"meshgrid.indexing", {real({7}), real({5})}, {List{"$0", "$1"}, "xy"}},
       {"block_diag", {real({3, 2}), real({5})}, {List{"$0", "$1"}}},
       {"pad_sequence", {real({3, 5}), real({7, 5})}, {List{"$0", "$1"}, true, 0.5}},
       {"_chunk_cat", {real({7, 3}), real({5, 3})}, {List{"$0", "$1"}, 0, 2}},
       {"repeat_interleave.self_int", {real({7, 5})}, {"$0", 2, 1}},
       {"resize_as", {real({7, 5}), real({3, 4})}, {"$0", "$1"}},
       {"split.sizes", {real({7, 5})}, {"$0", Dims{3, 4}, 0}},
       {"tensor_split.sections", {real({7, 5})}, {"$0", 3, 0}},
       {"tensor_split.indices", {real({7, 5})}, {"$0", Dims{2, 4}, 1}},
       {"unsafe_chunk", {real({7, 5})}, {"$0", 3, 0}},
       {"unsafe_split.Tensor", {real({7, 5})}, {"$0", 3, 0}},
       {"unsafe_split_with_sizes", {real({7, 5})}, {"$0", Dims{3, 4}, 0}},
       {"_reshape_alias", {real({6, 5})}, {"$0", Dims{5, 6}, Dims{6, 1}}},
       {"unfold", {real({7, 5})}, {"$0", 0, 3, 2}},
       {"unfold_backward", {real({3, 5, 3})}, {"$0", Dims{7, 5}, 0, 3, 2}},
       {"im2col", {real({2, 2, 5, 4})}, {"$0", Dims{2, 3}, Dims{1, 1}, Dims{1, 0}, Dims{2, 1}}},
       {"col2im",
        {real({2, 12, 6})},
        {"$0", Dims{5, 4}, Dims{2, 3}, Dims{1, 1}, Dims{1, 0}, Dims{2, 1}}},
       {"reflection_pad1d", {real({3, 7})}, {"$0", Dims{2, 3}}},
       {"reflection_pad2d", {real({3, 4, 5})}, {"$0", Dims{1, 2, 3, 0}}},
       {"reflection_pad3d", {real({2, 3, 2, 4})}, {"$0", Dims{1, 1, 1, 0, 2, 1}}},
       {"reflection_pad1d_backward", {real({3, 12}), real({3, 7})}, {"$0", "$1", Dims{2, 3}}},
       {"reflection_pad2d_backward",
        {real({3, 7, 8}), real({3, 4, 5})},
        {"$0", "$1", Dims{1, 2, 3, 0}}},
       {"reflection_pad3d_backward",
        {real({2, 6, 3, 6}), real({2, 3, 2, 4})},
        {"$0", "$1", Dims{1, 1, 1, 0, 2, 1}}},
       {"replication_pad1d", {real({3, 7})}, {"$0", Dims{2, -1}}},
       {"replication_pad2d", {real({3, 4, 5})}, {"$0", Dims{1, 2, 3, 0}}},
       {"replication_pad3d", {real({2, 3, 2, 4})}, {"$0", Dims{1, 1, 1, 0, 2, 1}}},
       {"replication_pad1d_backward", {real({3, 8}), real({3, 7})}, {"$0", "$1", Dims{2, -1}}},
       {"replication_pad2d_backward",
        {real({3, 7, 8}), real({3, 4, 5})},
        {"$0", "$1", Dims{1, 2, 3, 0}}},
       {"replication_pad3d_backward",
        {real({2, 6, 3, 6}), real({2, 3, 2, 4})},
        {"$0", "$1", Dims{1, 1, 1, 0, 2, 1}}}});
}

/// Look-ups and comparisons.
void add_index_programs(std::vector<OpSample>& samples) {
  samples.insert(
      samples.end(),
      {{"take", {real({7, 5}), index({4}, 35)}, {"$0", "$1"}},
       {"put", {real({7, 5}), index({4}, 35), real({4})}, {"$0", "$1", "$2", true}},
       {"_embedding_bag", {real({7, 3}), index({5}, 7), index({1}, 1)}, {"$0", "$1", "$2"}},
       {"_embedding_bag",
        {real({7, 3}), index({5}, 7), index({1}, 1)},
        {"$0", "$1", "$2", false, 1}},
       {"_embedding_bag_forward_only",
        {real({7, 3}), index({5}, 7), index({1}, 1)},
        {"$0", "$1", "$2"}},
       {"_embedding_bag_backward",
        {real({1, 3}), index({5}, 7), index({1}, 1), index({5}, 1), index({1}, 1), index({1}, 1),
         unit({5})},
        {"$0", "$1", "$2", "$3", "$4", "$5", 7, true, 0, false, "$6"}},
       {"_embedding_bag_per_sample_weights_backward",
        {real({1, 3}), real({7, 3}), index({5}, 7), index({1}, 1), index({5}, 1)},
        {"$0", "$1", "$2", "$3", "$4", 0}},
       {"index_copy", {real({7, 5}), index({1}, 7), real({1, 5})}, {"$0", 0, "$1", "$2"}},
       {"index_fill.int_Scalar", {real({7, 5}), index({3}, 5)}, {"$0", 1, "$1", 2.0}},
       {"index_fill.int_Tensor", {real({7, 5}), index({3}, 5), real({})}, {"$0", 1, "$1", "$2"}},
       {"index_reduce", {real({7, 5}), index({3}, 7), real({3, 5})}, {"$0", 0, "$1", "$2", "amax"}},
       {"scatter_reduce.two",
        {real({7, 5}), index({7, 3}, 5), real({7, 3})},
        {"$0", 1, "$1", "$2", "mean"}},
       {"scatter.reduce",
        {real({7, 5}), index({7, 3}, 5), real({7, 3})},
        {"$0", 1, "$1", "$2", "add"}},
       {"scatter.value_reduce", {real({7, 5}), index({7, 3}, 5)}, {"$0", 1, "$1", 2.0, "multiply"}},
       {"isin.Tensor_Tensor", {index({7, 5}, 9), index({3}, 9)}, {"$0", "$1"}},
       {"isin.Tensor_Scalar", {index({7, 5}, 3)}, {"$0", 2}},
       {"isin.Scalar_Tensor", {index({7}, 9)}, {4, "$0"}},
       {"one_hot", {index({7}, 5)}, {"$0", 5}},
       {"where.Scalar", {truth({7, 5})}, {"$0", 1.0, 2.0}},
       {"where.ScalarOther", {truth({7, 5}), real({5})}, {"$0", "$1", 2.0}},
       {"where.ScalarSelf", {truth({7, 5}), real({7, 1})}, {"$0", 2.0, "$1"}},
       {"_unsafe_index.Tensor", {real({7, 5}), index({4}, 7)}, {"$0", List{"$1"}}},
       {"_unsafe_index_put", {real({7, 5}), index({1}, 7), real({5})}, {"$0", List{"$1"}, "$2"}},
       {"_unsafe_masked_index",
        {real({7, 5}), truth({4, 5}), index({4}, 9)},
        {"$0", "$1", List{"$2"}, 0.5}},
       {"_unsafe_masked_index_put_accumulate",
        {real({7, 5}), truth({4, 5}), index({4}, 9), real({4, 5})},
        {"$0", "$1", List{"$2"}, "$3"}}});
}

/// Activations and their gradients.
void add_slopes(std::vector<OpSample>& samples) {
  for (const char* op : {"hardsigmoid_backward", "hardswish_backward", "mish_backward"}) {
    samples.push_back({op, {real({7, 5}), real({7, 5})}, {"$0", "$1"}});
  }
  for (const char* op : {"hardshrink_backward", "softshrink_backward"}) {
    samples.push_back({op, {real({7, 5}), real({7, 5})}, {"$0", "$1", 0.5}});
  }
  samples.insert(
      samples.end(),
      {{"_prelu_kernel", {real({7, 5}), real({1, 5})}, {"$0", "$1"}},
       {"_prelu_kernel_backward", {real({7, 5}), real({7, 5}), real({1, 5})}, {"$0", "$1", "$2"}},
       {"prelu", {real({7, 5}), real({5})}, {"$0", "$1"}},
       {"elu_backward", {real({7, 5}), real({7, 5})}, {"$0", 1.5, 0.5, 2.0, false, "$1"}},
       {"glu", {real({7, 6})}, {"$0", 1}},
       {"glu_backward", {real({7, 3}), real({7, 6})}, {"$0", "$1", 1}},
       {"hardtanh_backward", {real({7, 5}), real({7, 5})}, {"$0", "$1", -1.0, 0.5}},
       {"log_sigmoid_forward", {real({7, 5})}, {"$0"}},
       {"log_sigmoid_backward", {real({7, 5}), real({7, 5}), unit({7, 5})}, {"$0", "$1", "$2"}},
       {"rrelu_with_noise", {real({7, 5}), real({7, 5})}, {"$0", "$1", 0.125, 0.25, false}},
       {"rrelu_with_noise_functional",
        {real({7, 5}), real({7, 5})},
        {"$0", "$1", 0.125, 0.25, false}},
       {"rrelu_with_noise_backward",
        {real({7, 5}), real({7, 5}), real({7, 5})},
        {"$0", "$1", "$2", 0.125, 0.25, true, false}},
       {"alpha_dropout", {real({7, 5})}, {"$0", 0.5, true}},
       {"_fused_dropout", {real({7, 5})}, {"$0", 0.5}},
       {"_fused_rms_norm", {real({7, 5}), real({5})}, {"$0", Dims{5}, "$1", 1e-5}},
       {"_fused_rms_norm_backward",
        {real({7, 5}), real({7, 5}), unit({7, 1}), real({5})},
        {"$0", "$1", Dims{5}, "$2", "$3", List{true, true}}}});
}

/// Losses and distances.
void add_measures(std::vector<OpSample>& samples) {
  const Argument none;
  for (const int reduction : {0, 1, 2}) {
    samples.insert(
        samples.end(),
        {{"soft_margin_loss", {real({7, 5}), real({7, 5})}, {"$0", "$1", reduction}},
         {"hinge_embedding_loss", {real({7, 5}), real({7, 5})}, {"$0", "$1", 1.0, reduction}},
         {"kl_div", {real({7, 5}), unit({7, 5})}, {"$0", "$1", reduction}},
         {"margin_ranking_loss",
          {real({7}), real({7}), real({7})},
          {"$0", "$1", "$2", 0.5, reduction}},
         {"multi_margin_loss",
          {real({7, 5}), index({7}, 5), unit({5})},
          {"$0", "$1", 1, 1.0, "$2", reduction}},
         {"multilabel_margin_loss_forward",
          {real({7, 5}), index({7, 5}, 5)},
          {"$0", "$1", reduction}},
         {"nll_loss", {real({7, 5}), index({7}, 5)}, {"$0", "$1", none, reduction}}});
  }
  samples.insert(
      samples.end(),
      {{"soft_margin_loss_backward", {real({}), real({7, 5}), real({7, 5})}, {"$0", "$1", "$2", 1}},
       {"dist", {real({7, 5}), real({5})}, {"$0", "$1", 2}},
       {"pairwise_distance", {real({7, 5}), real({7, 5})}, {"$0", "$1"}},
       {"pdist", {real({4, 5})}, {"$0"}},
       {"_euclidean_dist", {real({4, 3}), real({7, 3})}, {"$0", "$1"}},
       {"cdist", {real({4, 3}), real({7, 3})}, {"$0", "$1"}},
       {"_trilinear",
        {real({4, 3}), real({5, 3, 2}), real({4, 2})},
        {"$0", "$1", "$2", Dims{1, 3}, Dims{0}, Dims{1, 2}, Dims{2, 3}}},
       {"isclose", {real({7, 5}), real({5})}, {"$0", "$1"}},
       {"linalg_polar", {real({4, 3})}, {"$0"}},
       {"histogram.bins_tensor", {real({7, 5}), real({2})}, {"$0", "$1"}},
       {"_histogramdd_from_bin_tensors",
        {real({7, 2}), real({2}), real({2})},
        {"$0", List{"$1", "$2"}}},
       {"searchsorted.Tensor", {real({7, 3}), real({7, 5})}, {"$0", "$1"}},
       {"searchsorted.Scalar", {real({1})}, {"$0", 0.5}},
       {"renorm", {real({7, 5})}, {"$0", 2, 0, 1.0}},
       {"_weight_norm_interface", {real({7, 5}), real({7, 1})}, {"$0", "$1", 0}},
       {"_weight_norm_interface_backward",
        {real({7, 5}), real({7, 5}), real({7, 1}), real({7, 1})},
        {"$0", "$1", "$2", "$3", 0}},
       {"addmv", {real({7}), real({7, 5}), real({5})}, {"$0", "$1", "$2", 0.5, 2.0}},
       {"addr", {real({7, 5}), real({7}), real({5})}, {"$0", "$1", "$2", 0.5, 2.0}},
       {"addbmm", {real({7, 2}), real({3, 7, 5}), real({3, 5, 2})}, {"$0", "$1", "$2"}},
       {"addmm.dtype", {real({7, 2}), real({7, 5}), real({5, 2})}, {"$0", "$1", "$2", DType::kF64}},
       {"baddbmm.dtype",
        {real({3, 7, 2}), real({3, 7, 5}), real({3, 5, 2})},
        {"$0", "$1", "$2", DType::kF64}},
       {"_addmm_activation", {real({7, 2}), real({7, 5}), real({5, 2})}, {"$0", "$1", "$2"}},
       {"affine_grid_generator", {real({2, 2, 3})}, {"$0", Dims{2, 1, 3, 5}, false}},
       {"linspace.Tensor_Tensor", {real({}), real({})}, {"$0", "$1", 7, DType::kF64}},
       {"linspace.Scalar_Tensor", {real({})}, {0.5, "$0", 7, DType::kF64}},
       {"linspace.Tensor_Scalar", {real({})}, {"$0", 0.5, 7, DType::kF64}},
       {"logspace.Tensor_Tensor", {real({}), real({})}, {"$0", "$1", 7, 2.0, DType::kF64}},
       {"logspace.Scalar_Tensor", {real({})}, {0.5, "$0", 7, 2.0, DType::kF64}},
       {"logspace.Tensor_Scalar", {real({})}, {"$0", 0.5, 7, 2.0, DType::kF64}}});
}

/// Gradients of losses and distances.
void add_measures_backward(std::vector<OpSample>& samples) {
  samples.insert(
      samples.end(),
      {{"multi_margin_loss_backward",
        {real({}), real({7, 5}), index({7}, 5), unit({5})},
        {"$0", "$1", "$2", 1, 1.0, "$3", 1}},
       {"multi_margin_loss_backward",
        {real({7}), real({7, 5}), index({7}, 5)},
        {"$0", "$1", "$2", 2, 1.0, Argument(), 0}},
       {"multilabel_margin_loss_backward",
        {real({}), real({7, 5}), index({7, 5}, 5), unit({7, 5})},
        {"$0", "$1", "$2", 1, "$3"}},
       {"_cdist_backward",
        {real({4, 7}), real({4, 3}), real({7, 3}), unit({4, 7})},
        {"$0", "$1", "$2", 2.0, "$3"}},
       {"_pdist_backward", {real({6}), unit({4, 5}), unit({6})}, {"$0", "$1", 2.0, "$2"}}});
}

/// Older names of reductions and convolutions.
void add_other_names(std::vector<OpSample>& samples) {
  const Argument none;
  samples.insert(
      samples.end(),
      {{"std_mean", {real({7, 5})}, {"$0", true}},
       {"std_mean.dim", {real({7, 5})}, {"$0", Dims{0}, true}},
       {"prims::sum", {real({7, 5})}, {"$0", Dims{0}}},
       {"prims::prod", {unit({7, 5})}, {"$0", Dims{0}}},
       {"prims::amax", {real({7, 5})}, {"$0", Dims{1}}},
       {"prims::amin", {real({7, 5})}, {"$0", Dims{1}}},
       {"prims::var", {real({7, 5})}, {"$0", Dims{0}, 1.0}},
       {"prims::div", {real({7, 5}), unit({7, 5})}, {"$0", "$1"}},
       {"prims::convert_element_type", {real({7, 5})}, {"$0", DType::kF64}},
       {"conv2d.padding",
        {real({1, 2, 5, 7}), real({2, 2, 3, 2})},
        {"$0", "$1", none, Dims{1, 1}, "same"}},
       {"conv1d.padding", {real({2, 2, 7}), real({3, 2, 2})}, {"$0", "$1", none, Dims{1}, "same"}},
       {"conv3d.padding", {real({1, 1, 3, 4, 5}), real({1, 1, 2, 2, 2})}, {"$0", "$1"}},
       {"_convolution.deprecated",
        {real({2, 2, 9}), real({2, 2, 3})},
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
    samples.push_back({family.op, {real(shape)}, args});
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
  add_measures_backward(all);
  add_other_names(all);
  add_scaling(all);
  return all;
}

}  // namespace shardlab
