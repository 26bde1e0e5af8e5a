// Samples of normalisation, transforms, factorisations, sampling by a grid, attention of GPUs and
// recurrent layers.
#include "sim/proof/sample_inputs.h"

namespace shardlab {
namespace {

using namespace samples;

void add_channel_norms(std::vector<OpSample>& samples) {
  const SampleInput x = real({3, 5, 2}), w = unit({5}), b = real({5});
  const Argument none;
  samples.insert(
      samples.end(),
      {{"native_batch_norm", {x, w, b}, {"$0", "$1", "$2", none, none, true, 0.1, 1e-5}},
       {"native_batch_norm",
        {x, w, b, real({5}), unit({5})},
        {"$0", "$1", "$2", "$3", "$4", true, 0.25, 1e-5}},
       {"_native_batch_norm_legit_functional",
        {x, w, b, real({5}), unit({5})},
        {"$0", "$1", "$2", "$3", "$4", true, 0.25, 1e-5}},
       {"_native_batch_norm_legit.no_stats", {x, w, b}, {"$0", "$1", "$2", true, 0.1, 1e-5}},
       {"_native_batch_norm_legit_no_training",
        {x, w, b, real({5}), unit({5})},
        {"$0", "$1", "$2", "$3", "$4", 0.1, 1e-5}},
       {"_batch_norm_with_update_functional",
        {x, w, b, real({5}), unit({5})},
        {"$0", "$1", "$2", "$3", "$4", 0.25, 1e-5}},
       {"_batch_norm_no_update",
        {x, w, b, real({5}), unit({5})},
        {"$0", "$1", "$2", "$3", "$4", 0.1, 1e-5}},
       {"native_batch_norm_backward",
        {x, x, w, real({5}), unit({5}), real({5}), unit({5})},
        {"$0", "$1", "$2", "$3", "$4", "$5", "$6", true, 1e-5, List{true, true, true}}},
       {"batch_norm_backward",
        {x, x, w, real({5}), unit({5}), real({5}), unit({5}), real({0})},
        {"$0", "$1", "$2", "$3", "$4", "$5", "$6", false, 1e-5, List{true, true, true}, "$7"}},
       {"cudnn_batch_norm_backward",
        {x, x, w, real({5}), unit({5}), real({0})},
        {"$0", "$1", "$2", none, none, "$3", "$4", 1e-5, "$5"}},
       {"miopen_batch_norm_backward",
        {x, x, w, real({5}), unit({5})},
        {"$0", "$1", "$2", none, none, "$3", "$4", 1e-5}},
       {"batch_norm", {x, w, b}, {"$0", "$1", "$2", none, none, true, 0.1, 1e-5, false}},
       {"instance_norm", {x, w, b}, {"$0", "$1", "$2", none, none, true, 0.1, 1e-5, false}},
       {"native_group_norm",
        {real({3, 4, 5}), unit({4}), real({4})},
        {"$0", "$1", "$2", 3, 4, 5, 2, 1e-5}},
       {"native_group_norm_backward",
        {real({3, 4, 5}), real({3, 4, 5}), real({3, 2}), unit({3, 2}), unit({4})},
        {"$0", "$1", "$2", "$3", "$4", 3, 4, 5, 2, List{true, true, true}}},
       {"group_norm", {real({3, 4, 5}), unit({4}), real({4})}, {"$0", 2, "$1", "$2", 1e-5}}});
}

/// Norms that write their running statistics.
void add_written_norms(std::vector<OpSample>& samples) {
  const std::vector<SampleInput> inputs{real({3, 5, 2}), unit({5}), real({5}), real({5}),
                                        unit({5})};
  samples.push_back(
      {"_batch_norm_with_update", inputs, {"$0", "$1", "$2", "$3", "$4", 0.25, 1e-5}});
  for (const char* op : {"_native_batch_norm_legit", "cudnn_batch_norm", "miopen_batch_norm"}) {
    samples.push_back({op, inputs, {"$0", "$1", "$2", "$3", "$4", true, 0.25, 1e-5}});
  }
}

void add_transforms(std::vector<OpSample>& samples) {
  for (const char* op : {"fft_hfft", "fft_irfft"}) {
    samples.push_back({op, {real({7, 5})}, {"$0"}});
    samples.push_back({op, {real({7, 5})}, {"$0", 6, 0, "ortho"}});
  }
  for (const char* op : {"fft_fft", "fft_ifft", "fft_rfft", "fft_ihfft"}) {
    samples.push_back({op, {real({7, 5})}, {"$0", Argument(), 1}});
  }
  for (const char* op :
       {"fft_fft2", "fft_hfft2", "fft_ifft2", "fft_ihfft2", "fft_irfft2", "fft_rfft2"}) {
    samples.push_back({op, {real({3, 4, 5})}, {"$0"}});
  }
  for (const char* op :
       {"fft_fftn", "fft_hfftn", "fft_ifftn", "fft_ihfftn", "fft_irfftn", "fft_rfftn"}) {
    samples.push_back({op, {real({3, 4, 5})}, {"$0", Argument(), Dims{0, 2}, "forward"}});
  }
  samples.insert(samples.end(),
                 {{"_fft_r2c", {real({7, 5})}, {"$0", Dims{1}, 0, true}},
                  {"fft_fftshift", {real({7, 5})}, {"$0", Dims{0}}},
                  {"fft_ifftshift", {real({7, 5})}, {"$0"}},
                  {"complex", {real({7, 5}), real({7, 1})}, {"$0", "$1"}},
                  {"polar", {unit({7, 5}), real({5})}, {"$0", "$1"}},
                  {"conj", {real({7, 5})}, {"$0"}},
                  {"real", {real({7, 5})}, {"$0"}},
                  {"resolve_conj", {real({7, 5})}, {"$0"}},
                  {"resolve_neg", {real({7, 5})}, {"$0"}},
                  {"stft", {real({3, 9})}, {"$0", 4, 2, Argument(), Argument(), false, true, true}},
                  {"stft.center",
                   {real({3, 9}), unit({3})},
                   {"$0", 4, 3, 3, "$1", true, "reflect", true, true, true}},
                  {"vdot", {real({7}), real({7})}, {"$0", "$1"}}});
}

void add_factorizations(std::vector<OpSample>& samples) {
  const SampleInput tall = real({3, 5, 4}), wide = real({3, 4, 5}), square = real({3, 4, 4});
  samples.insert(samples.end(),
                 {{"geqrf", {tall}, {"$0"}},
                  {"linalg_cross", {real({7, 3}), real({7, 3})}, {"$0", "$1"}},
                  {"linalg_cross", {real({3, 5}), real({3, 1})}, {"$0", "$1", 0}},
                  {"linalg_householder_product", {tall, unit({3, 4})}, {"$0", "$1"}},
                  {"linalg_ldl_factor_ex", {square}, {"$0"}},
                  {"linalg_lu", {wide}, {"$0"}},
                  {"linalg_pinv", {real({3, 1, 2})}, {"$0", 1e-3}},
                  {"linalg_pinv.atol_rtol_float", {real({3, 2, 1})}, {"$0", 1e-3, Argument()}},
                  {"linalg_pinv.atol_rtol_tensor", {real({3, 1, 3})}, {"$0"}},
                  {"linalg_pinv.rcond_tensor", {real({3, 1, 3}), unit({})}, {"$0", "$1"}},
                  {"ormqr", {tall, unit({3, 4}), real({3, 5, 2})}, {"$0", "$1", "$2"}},
                  {"linalg_qr", {wide}, {"$0"}}});
}

void add_grids_and_pools(std::vector<OpSample>& samples) {
  const SampleInput plane = real({3, 2, 4, 5}), room = real({3, 2, 3, 2, 4});
  samples.insert(
      samples.end(),
      {{"grid_sampler_2d", {plane, unit({3, 2, 3, 2})}, {"$0", "$1", 0, 0, false}},
       {"grid_sampler_2d", {plane, unit({3, 2, 3, 2})}, {"$0", "$1", 2, 1, true}},
       {"grid_sampler_3d", {room, unit({3, 1, 2, 2, 3})}, {"$0", "$1", 0, 2, false}},
       {"grid_sampler_2d_backward",
        {real({3, 2, 2, 3}), plane, unit({3, 2, 3, 2})},
        {"$0", "$1", "$2", 0, 0, false, List{true, true}}},
       {"grid_sampler", {plane, unit({3, 2, 3, 2})}, {"$0", "$1", 0, 1, false}},
       {"grid_sampler_3d_backward",
        {real({3, 2, 1, 2, 2}), room, unit({3, 1, 2, 2, 3})},
        {"$0", "$1", "$2", 0, 1, true, List{true, true}}},
       {"max_unpool3d",
        {real({2, 3, 1, 1, 1}), index({2, 3, 1, 1, 1}, 24)},
        {"$0", "$1", Dims{2, 3, 4}, Dims{2, 2, 2}, Dims{0, 0, 0}}},
       {"max_pool1d", {real({3, 2, 7})}, {"$0", Dims{3}, Dims{2}, Dims{1}}},
       {"max_pool2d", {plane}, {"$0", Dims{3, 2}}},
       {"max_pool3d", {room}, {"$0", Dims{2, 2, 2}, Dims{1, 1, 1}}},
       {"avg_pool1d", {real({3, 2, 7})}, {"$0", Dims{3}, Dims{2}, Dims{1}}},
       {"fractional_max_pool2d", {plane, unit({3, 2, 2})}, {"$0", Dims{2, 2}, Dims{2, 3}, "$1"}},
       {"fractional_max_pool2d_backward",
        {real({3, 2, 2, 3}), plane, index({3, 2, 2, 3}, 12)},
        {"$0", "$1", Dims{2, 2}, Dims{2, 3}, "$2"}},
       {"fractional_max_pool3d_backward",
        {real({3, 2, 2, 1, 2}), room, index({3, 2, 2, 1, 2}, 12)},
        {"$0", "$1", Dims{1, 2, 2}, Dims{2, 1, 2}, "$2"}},
       {"fractional_max_pool3d",
        {room, unit({3, 2, 3})},
        {"$0", Dims{1, 2, 2}, Dims{2, 1, 2}, "$1"}}});
}

void add_products_and_attention(std::vector<OpSample>& samples) {
  const SampleInput q = real({2, 3, 5, 4}), k = real({2, 3, 6, 4}), bias = real({2, 3, 5, 6});
  const SampleInput many = real({1, 8, 3, 2}), few = real({1, 4, 2, 2});
  const Argument none;
  samples.insert(
      samples.end(),
      {{"_scaled_dot_product_flash_attention", {q, k, k}, {"$0", "$1", "$2"}},
       {"_scaled_dot_product_flash_attention", {many, few, few}, {"$0", "$1", "$2"}},
       {"_scaled_dot_product_efficient_attention", {q, k, k, bias}, {"$0", "$1", "$2", "$3", true}},
       {"_scaled_dot_product_cudnn_attention", {q, k, k}, {"$0", "$1", "$2", none, true}},
       {"_scaled_dot_product_flash_attention_backward",
        {q, q, k, k, q, real({2, 3, 5})},
        {"$0", "$1", "$2", "$3", "$4", "$5", none, none, 5, 6, 0.0, false, none, none}},
       {"_scaled_dot_product_efficient_attention_backward",
        {q, q, k, k, bias, q, real({2, 3, 5})},
        {"$0", "$1", "$2", "$3", "$4", "$5", "$6", none, none, 0.0, List{true, true, true, true}}},
       {"_scaled_dot_product_cudnn_attention_backward",
        {q, q, k, k, q, real({2, 3, 5, 1})},
        {"$0", "$1", "$2", "$3", "$4", "$5", none, none, none, none, none, 5, 6, 0.0, true}},
       {"_grouped_mm", {real({2, 3, 8}), real({2, 8, 4})}, {"$0", "$1"}}});
}

void add_recurrent(std::vector<OpSample>& samples) {
  const SampleInput x = real({1, 2, 2}), h = real({2, 2, 3});
  for (const auto& [op, gates] :
       {std::pair("rnn_tanh.input", 1), {"rnn_relu.input", 1}, {"gru.input", 3}}) {
    const std::int64_t rows = 3 * gates;
    const SampleInput in = real({rows, 2}), kept = real({rows, 3}), bias = real({rows});
    samples.push_back({op,
                       {x, h, in, kept, bias, bias, in, kept, bias, bias},
                       {"$0", "$1", List{"$2", "$3", "$4", "$5", "$6", "$7", "$8", "$9"}, true, 1,
                        0.0, true, true, false}});
  }
  const SampleInput in = real({12, 2}), kept = real({12, 3}), one = real({1, 2, 3});
  samples.push_back(
      {"lstm.input",
       {x, one, one, in, kept},
       {"$0", List{"$1", "$2"}, List{"$3", "$4"}, false, 1, 0.0, true, false, false}});
}

}  // namespace

void add_layer_samples(std::vector<OpSample>& samples) {
  add_channel_norms(samples);
  add_written_norms(samples);
  add_transforms(samples);
  add_factorizations(samples);
  add_grids_and_pools(samples);
  add_products_and_attention(samples);
  add_recurrent(samples);
}

}  // namespace shardlab
