// Ops whose elements read their neighbours: sizes that windows, strides and pads do not divide.
#include "sim/proof/sample_inputs.h"

namespace shardlab {

using namespace samples;

void add_upsampling(std::vector<OpSample>& samples) {
  struct Family {
    const char* forward;
    const char* backward;
    std::size_t dims;
    bool aligns;
  };
  for (const Family& family : {
           Family{"upsample_nearest1d", "upsample_nearest1d_backward", 1, false},
           {"upsample_nearest2d", "upsample_nearest2d_backward", 2, false},
           {"upsample_nearest3d", "upsample_nearest3d_backward", 3, false},
           {"_upsample_nearest_exact1d", "_upsample_nearest_exact1d_backward", 1, false},
           {"_upsample_nearest_exact2d", "_upsample_nearest_exact2d_backward", 2, false},
           {"_upsample_nearest_exact3d", "_upsample_nearest_exact3d_backward", 3, false},
           {"upsample_linear1d", "upsample_linear1d_backward", 1, true},
           {"upsample_bilinear2d", "upsample_bilinear2d_backward", 2, true},
           {"upsample_trilinear3d", "upsample_trilinear3d_backward", 3, true},
           {"upsample_bicubic2d", "upsample_bicubic2d_backward", 2, true},
           {"_upsample_bilinear2d_aa", "_upsample_bilinear2d_aa_backward", 2, true},
           {"_upsample_bicubic2d_aa", "_upsample_bicubic2d_aa_backward", 2, true},
           {"_upsample_lanczos2d_aa", "_upsample_lanczos2d_aa_backward", 2, true},
       }) {
    const std::int64_t from[] = {4, 3, 2}, to[] = {3, 5, 3};
    Dims small{2, 3}, large{2, 3}, sizes;
    for (std::size_t i = 0; i < family.dims; ++i) {
      small.push_back(from[i]);
      large.push_back(to[i]);
      sizes.push_back(to[i]);
    }
    Arguments there{"$0", sizes}, back{"$0", sizes, small};
    if (family.aligns) there.push_back(false);
    if (family.aligns) back.push_back(false);
    samples.push_back({family.forward, {real(small)}, there});
    samples.push_back({family.backward, {real(large)}, back});
  }
}

void add_pooling(std::vector<OpSample>& samples) {
  const SampleInput plane = real({2, 3, 7, 5}), room = real({2, 2, 4, 3, 5});
  const Dims two{2, 2}, three{2, 2, 2}, none{0, 0}, one{1, 1}, no_room{0, 0, 0}, ones{1, 1, 1};
  samples.insert(
      samples.end(),
      {{"avg_pool2d", {plane}, {"$0", Dims{3, 2}, Dims{2, 1}, Dims{1, 0}}},
       {"avg_pool3d", {room}, {"$0", three}},
       {"adaptive_avg_pool1d", {real({3, 7})}, {"$0", Dims{2}}},
       {"adaptive_max_pool1d", {real({3, 7})}, {"$0", Dims{2}}},
       {"_adaptive_avg_pool2d_backward", {real({2, 3, 3, 2}), plane}, {"$0", "$1"}},
       {"_adaptive_avg_pool3d_backward", {real({2, 2, 3, 2, 2}), room}, {"$0", "$1"}},
       {"avg_pool2d_backward",
        {real({2, 3, 3, 2}), plane},
        {"$0", "$1", two, two, none, false, true, Argument()}},
       {"avg_pool3d_backward",
        {real({2, 2, 2, 1, 2}), room},
        {"$0", "$1", three, three, no_room, false, true, Argument()}},
       {"_adaptive_avg_pool2d", {plane}, {"$0", Dims{3, 2}}},
       {"_adaptive_avg_pool3d", {room}, {"$0", Dims{3, 2, 2}}},
       {"adaptive_max_pool2d", {plane}, {"$0", Dims{3, 2}}},
       {"adaptive_max_pool3d", {room}, {"$0", Dims{3, 2, 2}}},
       {"adaptive_max_pool2d_backward",
        {real({2, 3, 3, 2}), plane, index({2, 3, 3, 2}, 35)},
        {"$0", "$1", "$2"}},
       {"adaptive_max_pool3d_backward",
        {real({2, 2, 3, 2, 2}), room, index({2, 2, 3, 2, 2}, 60)},
        {"$0", "$1", "$2"}},
       {"max_pool1d_with_indices", {real({3, 7})}, {"$0", Dims{3}, Dims{2}}},
       {"max_pool2d_with_indices", {plane}, {"$0", Dims{3, 2}, Dims{2, 1}}},
       {"max_pool3d_with_indices", {room}, {"$0", three}},
       {"max_pool2d_with_indices_backward",
        {real({2, 3, 3, 2}), plane, index({2, 3, 3, 2}, 35)},
        {"$0", "$1", two, two, none, one, false, "$2"}},
       {"max_pool3d_with_indices_backward",
        {real({2, 2, 2, 1, 2}), room, index({2, 2, 2, 1, 2}, 60)},
        {"$0", "$1", three, three, no_room, ones, false, "$2"}},
       {"max_unpool2d", {real({2, 3, 1, 1}), index({2, 3, 1, 1}, 6)}, {"$0", "$1", Dims{2, 3}}}});
}

void add_convolutions(std::vector<OpSample>& samples) {
  const Argument none;
  samples.insert(
      samples.end(),
      {{"conv1d", {real({2, 2, 7}), real({3, 2, 3})}, {"$0", "$1", none, Dims{1}, Dims{1}}},
       {"conv1d",
        {real({1, 1, 5}), real({2, 1, 5}), real({2})},
        {"$0", "$1", "$2", Dims{1}, Dims{3}}},
       {"conv2d",
        {real({1, 2, 5, 7}), real({2, 2, 3, 3}), real({2})},
        {"$0", "$1", "$2", Dims{1, 2}, Dims{1, 1}}},
       {"conv2d",
        {real({3, 2, 4, 4}), real({2, 1, 2, 2})},
        {"$0", "$1", none, Dims{2}, Dims{0}, Dims{1}, 2}},
       {"conv3d", {real({1, 1, 3, 4, 5}), real({1, 1, 2, 2, 2})}, {"$0", "$1"}},
       {"convolution",
        {real({2, 2, 9}), real({2, 2, 3})},
        {"$0", "$1", none, Dims{2}, Dims{2}, Dims{2}, false, Dims{0}, 1}},
       {"convolution",
        {real({2, 2, 4}), real({2, 3, 3})},
        {"$0", "$1", none, Dims{2}, Dims{1}, Dims{1}, true, Dims{1}, 1}},
       {"convolution_backward",
        {real({2, 3, 7}), real({2, 2, 7}), real({3, 2, 3})},
        {"$0", "$1", "$2", Dims{3}, Dims{1}, Dims{1}, Dims{1}, false, Dims{0}, 1,
         List{true, true, true}}},
       {"convolution_backward",
        {real({1, 4, 3, 4}), real({1, 2, 2, 3}), real({2, 2, 2, 2})},
        {"$0", "$1", "$2", Dims{4}, Dims{2, 1}, Dims{1, 0}, Dims{1, 1}, true, Dims{1, 0}, 2,
         List{true, true, true}}}});
}

}  // namespace shardlab
