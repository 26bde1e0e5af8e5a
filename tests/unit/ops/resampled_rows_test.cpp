// Convolutions and resampling with numbers of torch 2.15: groups, transposed ones, grids with every
// border and mode, corners aligned or not; on uneven and empty pieces. Windows that fit nothing say
// so.
#include <doctest/doctest.h>

#include "tests/unit/ops/torch_rows.h"

namespace shardlab {
namespace {

using test::kInf;
using test::kNan;

const test::TorchRow kConvolutions[] = {
    {"y = F.conv1d(x, w, b, padding='same')",
     "x f64[1, 5]; w f64[2, 1, 3]; b f64[2]",
     "f64[2, 5]",
     {-1.6745606, 4.9421387, 7.9211426, -2.5695801, 0.0629883, -0.6101074, 3.1794434, -2.9216309,
      -4.0275879, 2.2807617},
     {-17.84375, 18.796875, -19.984375, 21.171875, -6.796875, -1.28125, 6.84375, -6.5, -1.921875,
      -8.5625, 8.21875, 3, -8}},
    {"y = F.conv1d(x, w, padding='valid', stride=2)",
     "x f64[5, 1, 4]; w f64[1, 1, 2]",
     "f64[5, 1, 2]",
     {2.0463867, -2.7231445, 3.1816406, -3.4702148, 3.5073242, -3.309082, 2.8994141, -2.2861328,
      1.550293, -0.675293},
     {1.5625,  1.03125, -3.125,  -2.0625,  4.6875,   3.09375,   -6.25, -4.125,
      7.8125,  5.15625, -9.375,  -6.1875,  10.9375,  7.21875,   -12.5, -8.25,
      14.0625, 9.28125, -15.625, -10.3125, 89.65625, -12.109375},
     "S(0) R: nothing"},
    {"y = F.conv1d(x, w, padding='same', dilation=2)",
     "x f64[1, 1, 5]; w f64[1, 1, 2]",
     "f64[1, 1, 5]",
     {2.0463867, -0.5317383, 1.1831055, 0.2094727, -2.9052734},
     {-3.125, 5.71875, -8.3125, 10.90625, -4.125, -1.28125, -6.5}},
    // The bias is added before the sum is rounded, except that transposed f16 adds it after.
    {"one = (x.detach() * 0 + 1).to(torch.bfloat16)\n"
     "two = torch.cat([one * 256, one], 1)\n"
     "b = two.new_ones(1)\n"
     "near = F.conv1d(two, two.new_ones(1, 2, 1), b)\n"
     "spread = F.conv_transpose1d(two, two.new_ones(2, 1, 1), b)\n"
     "y = near - 256, spread - 256",
     "x f64[5, 1, 3]",
     "bf16[5, 1, 3], bf16[5, 1, 3]",
     {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}},
    {"one = (x.detach() * 0 + 1).to(torch.float16)\n"
     "two = torch.cat([one * 2048, one], 1)\n"
     "b = two.new_ones(1)\n"
     "near = F.conv1d(two, two.new_ones(1, 2, 1), b)\n"
     "spread = F.conv_transpose1d(two, two.new_ones(2, 1, 1), b)\n"
     "y = near - 2048, spread - 2048",
     "x f64[5, 1, 3]",
     "f16[5, 1, 3], f16[5, 1, 3]",
     {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
    {"y = F.conv1d(x, w, b, groups=2)",
     "x f64[1, 2, 3]; w f64[2, 1, 2]; b f64[2]",
     "f64[1, 2, 2]",
     {3.9995117, 4.5219727, 2.142334, -3.3991699},
     {1.5625, -2.09375, -2.0625, -5.484375, 5.625, 2.25, -3.96875, 3.015625, -9.515625, -3.421875,
      -1, -1}},
    {"y = F.conv2d(x, w, None, (1, 2), (0, 1), (2, 1))",
     "x f64[1, 1, 3, 3]; w f64[2, 1, 2, 2]",
     "f64[1, 2, 1, 2]",
     {0.7910156, 3.8586426, -0.6591797, 7.1376953},
     {1.171875, -11, -2.25, 0, 0, 0, 0.84375, 11.59375, -0.75, -3.96875, 1.03125, 2.46875, -4.84375,
      -7.9375, 2.0625, 4.9375, -11.09375}},
    {"y = F.conv2d(x, w)",
     "x f64[1, 3, 3]; w f64[1, 1, 2, 2]",
     "f64[1, 2, 2]",
     {4.8918457, -0.1271973, 1.375, 4.4714355},
     {1.5625, -2.09375, -2.0625, 2.859375, -0.0625, -3, -5.484375, 5.625, 2.25, -13.484375,
      -0.40625, -3.109375, -12.78125}},
    {"y = F.conv3d(x, w, b)",
     "x f64[1, 1, 2, 2, 2]; w f64[1, 1, 1, 2, 2]; b f64[1]",
     "f64[1, 1, 2, 1, 1]",
     {5.9880371, 8.3999023},
     {1.5625, 1.03125, -1.828125, -0.5625, -3.125, -2.0625, 3.65625, 1.125, -1.96875, -1.203125,
      2.296875, 0.609375, -1}},
    {"y = F.conv_transpose1d(x, w, b, stride=2, output_padding=1)",
     "x f64[1, 1, 3]; w f64[1, 2, 2]; b f64[2]",
     "f64[1, 2, 7]",
     {1.953125, 1.953125, 5.0537109, 3.9995117, 1.1474609, 1.4213867, 1.953125, -0.703125,
      -0.703125, -4.3308105, -1.8193359, 0.239502, -0.4130859, -0.703125},
     {9.0625, 12.65625, 16.25, 3.375, -4.84375, -13.65625, 15.125, 4, -11}},
    {"y = F.conv_transpose1d(x, w, padding=1, dilation=2)",
     "x f64[2, 4]; w f64[2, 1, 2]",
     "f64[1, 4]",
     {0.1870117, 1.2114258, 0.5012207, 0.2592773},
     {-2.0625, 4.65625, -7.25, 4.6875, 1.125, -3.515625, 5.90625, -5.484375, -2.5625, 8.015625,
      0.703125, 8.4375}},
    {"y = F.conv_transpose2d(x, w, stride=(2, 1), padding=(1, 0), output_padding=(1, 0), groups=2)",
     "x f64[1, 2, 2, 2]; w f64[2, 1, 2, 2]",
     "f64[1, 2, 3, 3]",
     {0, -3.6276855, -1.1162109, -0.8056641, -3.4370117, -1.9174805, 0.942627, 3.689209, 1.0458984,
      -1.9533691, -2.7011719, 0.7470703, -2.7685547, -2.4960938, -0.0578613, 2.7905273, 1.7902832,
      -0.5786133},
     {-0.703125, 1.96875, -9.390625, 11.1875, 25, -27.453125, 64.65625, -69.03125, -7.234375,
      8.578125, 7.296875, -6.65625, -1, 1.171875, 9.203125, -9.984375}},
    {"y = F.conv_transpose3d(x, w)",
     "x f64[1, 1, 1, 2, 2]; w f64[1, 1, 1, 2, 1]",
     "f64[1, 1, 1, 3, 2]",
     {0, 3.1005859, -0.8056641, -0.8588867, -0.5317383, -1.9174805},
     {4.65625, -7.25, 9.84375, -12.4375, 1.921875, 0.640625}},
    {"y = F.conv1d(x, w)", "x f64[0, 1, 4]; w f64[2, 1, 2]", "f64[0, 2, 3]", {}, {0, 0, 0, 0}},
    {"y = F.conv1d(x, w)",
     "x bf16[1, 2, 4]; w bf16[1, 2, 2]",
     "bf16[1, 1, 3]",
     {-0.6484, 0.4453, 0.543},
     {1.562, -2.094, 2.625, 3.094, -1.828, 3.094, -4.375, -1.688, -5.5, -2.562, -6.438, 0.703125}},
};

TEST_CASE("convolutions: paddings by name, groups, transposed with what is added at the end") {
  test::check_rows(kConvolutions);
}

const test::TorchRow kResampled[] = {
    {"y = F.interpolate(x, size=5)",
     "x f64[1, 2, 3]",
     "f64[1, 2, 5]",
     {0, 0, 1.984375, 1.984375, -0.515625, -1.859375, -1.859375, 0.984375, 0.984375, 1.59375},
     {-1, -1, 5, 1, 1, -10}},
    {"y = F.interpolate(x, scale_factor=2)",
     "x f64[1, 1, 2, 2]",
     "f64[1, 1, 4, 4]",
     {0, 0, 1.984375, 1.984375, 0, 0, 1.984375, 1.984375, -0.515625, -0.515625, -1.859375,
      -1.859375, -0.515625, -0.515625, -1.859375, -1.859375},
     {-2, -2, -2, -2}},
    {"y = F.interpolate(x, size=2, mode='nearest-exact')",
     "x f64[5, 1, 3]",
     "f64[5, 1, 2]",
     {0, -0.515625, -1.859375, 1.59375, -1.40625, 1.71875, 0.796875, -0.296875, 2, -1.9375},
     {1, 0, -2, 3, 0, -4, 5, 0, -6, 7, 0, -8, 9, 0, -10},
     "S(0): nothing"},
    {"y = F.interpolate(x, size=4, mode='linear')",
     "x f64[1, 1, 3]",
     "f64[1, 1, 4]",
     {0, 1.2402344, 1.046875, -0.515625},
     {0.25, 0.625, -2.875}},
    {"y = F.interpolate(torch.where(i > 0, x, float('inf'))[None], scale_factor=2.0, "
     "mode='linear')",
     "x f64[5, 2]; i i64[5, 2]<4",
     "f64[1, 5, 4]",
     {0,    0.4960938, 1.4882812, 1.984375,  kNan,      kInf,    kInf,
      kInf, 0.984375,  1.1367188, 1.4414062, 1.59375,   kNan,    kInf,
      kInf, kInf,      1.71875,   1.4882812, 1.0273438, 0.796875},
     {0.25, -2.25, 0, 0, 4.25, -6.25, 0, 0, 8.25, -10.25}},
    {"y = F.interpolate(x, size=5, mode='linear', align_corners=True)",
     "x f64[1, 1, 3]",
     "f64[1, 1, 5]",
     {0, 0.9921875, 1.984375, 0.734375, -0.515625},
     {0, 0, 3}},
    {"y = F.interpolate(x, scale_factor=1.5, mode='linear', recompute_scale_factor=True)",
     "x f64[1, 1, 3]",
     "f64[1, 1, 4]",
     {0, 1.2402344, 1.046875, -0.515625},
     {0.25, 0.625, -2.875}},
    {"y = F.interpolate(x, size=(3, 2), mode='bilinear')",
     "x f64[1, 1, 2, 3]",
     "f64[1, 1, 3, 2]",
     {0.4960938, 0.109375, -0.3261719, 0.7753906, -1.1484375, 1.4414062},
     {1.875, -0.375, -3, 4.875, -0.375, -6}},
    {"y = F.interpolate(x, size=(2, 2), mode='bilinear', antialias=True)",
     "x f64[1, 1, 4, 3]",
     "f64[1, 1, 2, 2]",
     {-0.2126116, 0.8532366, -0.7837612, 0.0686384},
     {0.2678571, -0.1607143, -0.5357143, 0.5357143, -0.2142857, -0.8928571, 0.8928571, -0.2142857,
      -1.25, 0.8035714, -0.1607143, -1.0714286}},
    {"y = F.interpolate(x, size=(3, 3), mode='bicubic', align_corners=True)",
     "x f64[1, 1, 2, 2]",
     "f64[1, 1, 3, 3]",
     {0, 0.9921875, 1.984375, -0.2578125, -0.0976562, 0.0625, -0.515625, -1.1875, -1.859375},
     {-0.75, 0.25, 2.25, 3.25}},
    {"y = F.interpolate(x, scale_factor=(0.5, 1), mode='bicubic')",
     "x f64[1, 1, 4, 2]",
     "f64[1, 1, 2, 2]",
     {-0.3984375, -0.2612305, -0.0703125, 0.503418},
     {0.5, -1, 0.3125, -0.8125, 1.6875, -2.1875, 1.5, -2}},
    {"y = F.interpolate(x, size=(1, 2, 3), mode='trilinear')",
     "x f64[1, 1, 2, 2, 2]",
     "f64[1, 1, 1, 2, 3]",
     {0.4921875, 1.140625, 1.7890625, -0.9609375, -1.2539062, -1.546875},
     {0, 1, -0.75, -1.75, 0, 1, -0.75, -1.75}},
    {"y = F.interpolate(x, size=2, mode='area')",
     "x f64[1, 1, 5]",
     "f64[1, 1, 2]",
     {0.4895833, -0.4635417},
     {0.3333333, 0.3333333, -0.3333333, -0.6666667, -0.6666667}},
    {"y = F.interpolate(x, scale_factor=0.5, mode='area')",
     "x f64[1, 1, 4, 4]",
     "f64[1, 1, 2, 2]",
     {1.140625, -1.2539062, 1.0742188, -0.859375},
     {0.25, 0.25, -0.5, -0.5, 0.25, 0.25, -0.5, -0.5, 0.75, 0.75, -1, -1, 0.75, 0.75, -1, -1}},
    {"y = F.upsample(x, size=4)",
     "x f64[1, 1, 2]",
     "f64[1, 1, 4]",
     {0, 0, 1.984375, 1.984375},
     {-1, -1}},
    {"y = F.upsample_bilinear(x, scale_factor=2)",
     "x f64[1, 1, 2, 2]",
     "f64[1, 1, 4, 4]",
     {0, 0.6614583, 1.3229167, 1.984375, -0.171875, 0.1197917, 0.4114583, 0.703125, -0.34375,
      -0.421875, -0.5, -0.578125, -0.515625, -0.9635417, -1.4114583, -1.859375},
     {4.8888889, -8.8888889, 13.777778, -17.777778}},
    {"y = F.upsample_nearest(x, size=(1, 3))",
     "x f64[1, 1, 2, 2]",
     "f64[1, 1, 1, 3]",
     {0, 0, 1.984375},
     {-1, 3, 0, 0}},
    {"y = F.grid_sample(x, g)",
     "x f64[1, 1, 3, 3]; g f64[1, 2, 2, 2]",
     "f64[1, 1, 2, 2]",
     {0, 0, 0, 0},
     {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
    {"y = F.grid_sample(x, g, padding_mode='border', align_corners=True)",
     "x f64[1, 2, 2, 2]; g f64[1, 1, 2, 2]",
     "f64[1, 2, 1, 2]",
     {-1.859375, -0.112793, -1.234375, 0.4614258},
     {-1.5625, 0, -0.4375, 1, -3.125, 0, -0.875, 3, 0, 0, 0, 5.296875}},
    {"y = F.grid_sample(x, g, padding_mode='reflection')",
     "x f64[1, 1, 3, 2]; g f64[1, 2, 2, 2]",
     "f64[1, 1, 2, 2]",
     {1.5556641, 0.3999252, -1.0510674, 0.5533714},
     {-1.1337891, -0.5537109, 0.4851074, 0.8039551, -1.2888184, -0.3127441, -0.609375, 0, 2.9287109,
      4.822998, 3.6192627, 11.419189, 0.1181641, -14.67627}},
    {"y = F.grid_sample(x, g, padding_mode='reflection', align_corners=True)",
     "x f64[1, 1, 3, 3]; g f64[1, 1, 3, 2]",
     "f64[1, 1, 1, 3]",
     {0.0949097, 1.1411896, 0.9028473},
     {-0.1933594, -0.9316406, 0, -0.1503906, 2.0629883, 0.1030273, 0, 0.6811523, 0.4282227,
      -2.8798828, 1.1933594, 4.7207031, 2.2954102, -2.1577148, -6.4365234}},
    {"y = F.grid_sample(x, g, mode='nearest')",
     "x f64[1, 1, 3, 3]; g f64[1, 1, 3, 2]",
     "f64[1, 1, 1, 3]",
     {0, 0, 0},
     {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
    {"y = F.grid_sample(x, g, mode='bicubic')",
     "x f64[1, 1, 3, 3]; g f64[1, 1, 2, 2]",
     "f64[1, 1, 1, 2]",
     {-0.086532, 0.0094492},
     {0.0702849, 0, 0, 0.0110285, 0, 0.0093504, -0.0011432, 0, -0.0590162, 0.0179807, 0.325621,
      -0.1817146, -0.2046241}},
    {"y = F.grid_sample(x, g, mode='bicubic', padding_mode='reflection', align_corners=True)",
     "x f64[1, 1, 4, 3]; g f64[1, 1, 2, 2]",
     "f64[1, 1, 1, 2]",
     {-1.3685, 1.2208395},
     {-0.1282521, -0.7082616, 0.0679437, -0.2423826, -1.34037, 0.1276907, 0.0363926, 0.2084248,
      -0.0163705, -0.1033209, 0.5904051, 0.5081007, -2.5558779, 0.3790263, 5.9817484, 5.6021916}},
    {"y = F.grid_sample(x, g, mode='bicubic', padding_mode='border')",
     "x f64[1, 1, 2, 3]; g f64[1, 1, 2, 2]",
     "f64[1, 1, 1, 2]",
     {1.7784201, 0.0766039},
     {-2.0823975, 0, -0.0875473, 0.0823975, 0, 1.0875473, 0, -0.4403114, 0, 2.1244812}},
    {"y = F.grid_sample(x, g)",
     "x f64[1, 1, 2, 2, 2]; g f64[1, 1, 1, 2, 3]",
     "f64[1, 1, 1, 1, 2]",
     {0, 0},
     {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
    {"y = F.grid_sample(x, g, mode='nearest', padding_mode='border')",
     "x f64[1, 1, 2, 2, 2]; g f64[1, 1, 1, 2, 3]",
     "f64[1, 1, 1, 1, 2]",
     {-1.859375, -1.40625},
     {0, 0, 0, 1, 0, 0, -2, 0, 0, 0, 0, 0, 0, 0}},
    {"y = F.grid_sample(x, g, padding_mode='reflection', align_corners=True)",
     "x f64[1, 1, 2, 2, 3]; g f64[1, 1, 1, 2, 3]",
     "f64[1, 1, 1, 1, 2]",
     {0.2364984, -0.3942089},
     {-0.2596893, -0.1968307, 0.0040054, -0.2764435, 0.1094284, 0.2523422, -0.2852325, -0.2182083,
      0.0028305, -0.3036346, -0.0068893, 0.1783218, -1.0100327, 0.1570587, 1.2182312, -0.9332886,
      -0.2156982, 0.9504395}},
    {"y = F.affine_grid(t, [1, 1, 2, 3])",
     "t f64[1, 2, 3]",
     "f64[1, 2, 3, 2]",
     {-1.5078125, 2.3411458, -1.5078125, 1.1015625, -1.5078125, -0.1380208, 0.4765625, 3.3255208,
      0.4765625, 2.0859375, 0.4765625, 0.8463542},
     {5.3333333, 9, 36, -5.3333333, -9, -42}},
    {"y = F.affine_grid(t, (1, 1, 2, 1, 2), align_corners=True)",
     "t f64[1, 3, 4]",
     "f64[1, 2, 1, 2, 3]",
     {-1.34375, -0.8125, -0.09375, -1.34375, 1.15625, 3.34375, -2.375, -3.625, -3.9375, -2.375,
      -1.65625, -0.5},
     {-22, 0, 0, -6, 26, 0, 0, 6, -30, 0, 0, -6}},
};

TEST_CASE("resampling to sizes and by factors, corners aligned or not") {
  test::check_rows(kResampled);
}

const test::RefusedRow kWrongWindows[] = {
    {"y = F.max_pool1d(x, 6)", "x f64[1, 5]",
     "aten::max_pool2d_with_indices: a window of 6 does not fit into 5 places | give a window that "
     "fits the input and its padding"},
    {"y = F.max_pool1d(x, 2, padding=2)", "x f64[1, 5]",
     "aten::max_pool2d_with_indices: windows have size 2, stride 2 and padding 2; size and stride "
     "must be above 0, padding at most half the size | give "
     "strides above 0 and a padding of at most half the window"},
    {"y = F.max_pool1d(x, 2)", "x f64[5]",
     "aten::max_pool2d_with_indices: the input has 2 dims, must have 4 | give [samples, channels, "
     "..sizes]"},
    {"y = F.max_pool2d(x, (2, 2, 2))", "x f64[1, 4, 4]",
     "aten::max_pool2d_with_indices: kernel_size has 3 numbers; it must have 2, or one | give one "
     "number for all of them, or one for each"},
    {"y = F.max_pool2d(x, 2, stride=0)", "x f64[1, 4, 4]",
     "aten::max_pool2d_with_indices: windows have size 2, stride 0 and padding 0; size and stride "
     "must be above 0, padding at most half the size | give "
     "strides above 0 and a padding of at most half the window"},
    {"y = F.max_pool2d(x, 2)", "x f64[4, 4]",
     "aten::max_pool2d_with_indices: the input has 2 dims, must have 4 | give [samples, channels, "
     "..sizes]"},
    {"y = F.max_pool2d(x, 2)", "x f64[1, 0, 4]",
     "aten::max_pool2d_with_indices: the input has shape [1, 0, 4], and none of the last 2 sizes "
     "may be 0 | give at least one element along each dim that is pooled"},
    {"y = F.avg_pool2d(x, 2, divisor_override=0)", "x f64[1, 4, 4]",
     "aten::avg_pool2d: divisor_override is 0; it must be another number | leave divisor_override "
     "out, or give another "
     "number"},
    {"y = F.avg_pool1d(x, 2, padding=2)", "x f64[1, 4]",
     "aten::avg_pool1d: windows have size 2, stride 2 and padding 2; size and stride must be above "
     "0, padding at most half the size | give strides "
     "above 0 and a padding of at most half the window"},
    {"y = F.adaptive_avg_pool2d(x, (1, 2, 3))", "x f64[1, 4, 4]",
     "an adaptive pool of 2 dims: output_size is [1, 2, 3], the tensor has 3 dims; they must be "
     "one size per pooled dim, and more dims than these | give 2 sizes, "
     "and a tensor with channels in front of them"},
    {"y = F.adaptive_avg_pool1d(x, -1)", "x f64[1, 4]",
     "aten::adaptive_avg_pool1d: output_size is [-1]; no size may be negative | give sizes of at "
     "least 0"},
    {"y = F.adaptive_max_pool1d(x, 2)", "x f64[4]",
     "an adaptive pool of 1 dims: output_size is 2, the tensor has 1 dims; they must be one size "
     "per pooled dim, and more dims than these | give 1 sizes, and a "
     "tensor with channels in front of them"},
    {"y = F.max_unpool1d(x, i, 2)", "x f64[1, 2]; i i64[1, 3]<4",
     "aten::max_unpool2d: the values have 3 dims, output_size 2 sizes; the indices need the "
     "values' shape | give the indices that came with the values, and output_size"},
    {"y = F.max_unpool1d(x, i, 2)", "x f64[1, 2]; i i64[1, 2]<9",
     "index 6 is out of range; it must be in [0, 4) | give a larger tensor, or other indices"},
    {"y = F.max_unpool1d(x, i, 2, output_size=[9])", "x f64[1, 2]; i i64[1, 2]<4",
     "max_unpool: output_size is [9]; each size must be less than a "
     "stride away from the default | give sizes less than a stride away from [4]"},
    {"y = F.max_unpool2d(x, x, 2)", "x f64[1, 1, 2]",
     "the dtype of an index must be i64 or i32, not f64 | cast it: index.to(torch.int64)"},
    {"y = F.pad(x, (1,))", "x f64[5]",
     "constant_pad_nd: there are 1 counts for a tensor of 1 dims | give two counts per dim, the "
     "last dim first: pad(x, [1, 1])"},
    {"y = F.pad(x, (1, 1, 1, 1))", "x f64[5]",
     "constant_pad_nd: there are 4 counts for a tensor of 1 dims | give two counts per dim, the "
     "last dim first: pad(x, [1, 1])"},
    {"y = F.pad(x, (4, 0), mode='reflect')", "x f64[1, 4]",
     "reflection_pad: dim 1 of size 4 cannot be padded by 4 and 0 | pad each side by at most 3"},
    {"y = F.pad(x, (1, 1), mode='reflect')", "x f64[4]",
     "pad: there is no mode 'reflect' for 1 dims of a tensor of 1 | use 'constant'; or 'reflect', "
     "'replicate' or 'circular' for the last dims behind channels"},
    {"y = F.pad(x, (5, 0), mode='circular')", "x f64[1, 4]",
     "circular pad: dim 1 of size 4 cannot be padded by 5 and 0 | pad each side by at most the "
     "size, and leave an element"},
    {"y = F.pad(x, (1, 1), mode='mirror')", "x f64[1, 4]",
     "pad: there is no mode 'mirror' for 1 dims of a tensor of 2 | use 'constant'; or 'reflect', "
     "'replicate' or 'circular' for the last dims behind channels"},
    {"y = F.pad(x, (1, 1), mode='reflect', value=1.0)", "x f64[1, 4]",
     "pad: mode 'reflect' takes no value | leave value out"},
    {"y = F.pad(x, (-5, 0))", "x f64[1, 4]",
     "constant_pad_nd: 5 elements are cut off dim 1 of size 4 | cut off no more than there is"},
    {"y = F.unfold(x, 4)", "x f64[1, 3, 3]",
     "im2col: a window has 4 places, 1 apart; it must fit into 3 pixels with 0 on each side | give "
     "windows "
     "that fit the padded picture"},
    {"y = F.unfold(x, 2)", "x f64[3, 3]",
     "im2col takes a tensor of 3 or 4 dims, not 2 | give a batch, or one of its elements"},
    {"y = F.fold(x, (3, 3), 2)", "x f64[3, 4]",
     "col2im: columns of shape [1, 3, 4] do not make pictures of 3 by 3 | give columns of shape "
     "[batch, channels * 4, 4]"},
    {"y = F.fold(x, (3, 3), 2)", "x f64[4, 5]",
     "col2im: columns of shape [1, 4, 5] do not make pictures of 3 by 3 | give columns of shape "
     "[batch, channels * 4, 4]"},
    {"y = F.local_response_norm(x, 2)", "x f64[3, 2]",
     "local_response_norm takes a tensor of at least 3 dims, not 2 | give a tensor [batch, "
     "channels, ..]"},
    {"y = F.conv1d(x, w)", "x f64[1, 2, 5]; w f64[1, 1, 3]",
     "aten::convolution: the input has 2 channels, the weight is for 1 with groups=1 | give a "
     "weight of shape [out, 2 / groups, ...]"},
    {"y = F.conv1d(x, w)", "x f64[1, 1, 2]; w f64[1, 1, 3]",
     "aten::convolution: a window reaches over 3 elements; the padded input has only 2 | use a "
     "smaller kernel or dilation, or more padding"},
    {"y = F.conv1d(x, w, padding='full')", "x f64[1, 1, 5]; w f64[1, 1, 3]",
     "padding is \"full\" with the stride [1]; it must be \"valid\", or \"same\" with a stride of "
     "1 | write \"valid\", or \"same\" with a stride of 1"},
    {"y = F.conv1d(x, w, padding='same', stride=2)", "x f64[1, 1, 5]; w f64[1, 1, 3]",
     "padding is \"same\" with the stride [2]; it must be \"valid\", or \"same\" with a stride of "
     "1 | write \"valid\", or \"same\" with a stride of 1"},
    {"y = F.conv1d(x, w, stride=0)", "x f64[1, 1, 5]; w f64[1, 1, 3]",
     "aten::convolution: stride is 0; it must be from 1 to 2147483647 | leave stride out: its "
     "default is 1"},
    {"y = F.conv1d(x, w, groups=2)", "x f64[1, 3, 5]; w f64[2, 1, 3]",
     "aten::convolution: the input has 3 channels, the weight is for 2 with groups=2 | give a "
     "weight of shape [out, 3 / groups, ...]"},
    {"y = F.conv1d(x, w, b)", "x f64[1, 1, 5]; w f64[2, 1, 3]; b f64[3]",
     "aten::convolution: the bias has shape [3]; it must have one number per output channel | give "
     "a bias of shape [2]"},
    {"y = F.conv2d(x, w)", "x f64[3, 3]; w f64[1, 1, 2, 2]",
     "aten::convolution: the input has 2 dims, the weight 4; both must have 3 to 5 | give both a "
     "batch or channel dim and 1 to 3 spatial dims: [N, C, L]"},
    {"y = F.conv1d(x, w, padding=-1)", "x f64[1, 1, 5]; w f64[1, 1, 3]",
     "aten::convolution: padding is -1; it must be from 0 to 2147483647 | leave padding out: its "
     "default is 0"},
    {"y = F.conv_transpose1d(x, w, output_padding=1)", "x f64[1, 1, 3]; w f64[1, 2, 2]",
     "aten::convolution: output_padding is 1, must be less than the stride 1 or the dilation 1 | "
     "use less output_padding, or a larger stride"},
    {"y = F.conv_transpose1d(x, w)", "x f64[1, 2, 3]; w f64[1, 2, 2]",
     "aten::convolution: the input has 2 channels, the weight is for 1 with groups=1 | give a "
     "weight of shape [2, out / groups, ...]"},
    {"y = F.interpolate(x)", "x f64[1, 1, 3]",
     "interpolate: neither size nor scale_factor is given; exactly one must be | give size or "
     "scale_factor"},
    {"y = F.interpolate(x, size=2, scale_factor=2)", "x f64[1, 1, 3]",
     "interpolate: both size and scale_factor are given; exactly one must be | give size or "
     "scale_factor"},
    {"y = F.interpolate(x, size=(2, 2))", "x f64[1, 1, 3]",
     "interpolate: size is [2, 2]; it must be one number, or one for each of 1 dims | give one "
     "number, or one for each dim behind the "
     "channels"},
    {"y = F.interpolate(x, size=2, mode='bilinear')", "x f64[1, 1, 3]",
     "interpolate: there is no mode 'bilinear' for a tensor of 3 dims | use a mode for so many "
     "dims: 'nearest', 'linear', 'bilinear'"},
    {"y = F.interpolate(x, size=2, mode='cubic')", "x f64[1, 1, 3]",
     "interpolate: there is no mode 'cubic' | use one of nearest, nearest-exact, area, linear, "
     "bilinear, "
     "trilinear, bicubic, lanczos"},
    {"y = F.interpolate(x, size=2, align_corners=True)", "x f64[1, 1, 3]",
     "interpolate: mode 'nearest' takes no align_corners | leave align_corners out"},
    {"y = F.interpolate(x, size=2, mode='linear', antialias=True)", "x f64[1, 1, 3]",
     "interpolate: there is no mode 'linear' with antialias for a tensor of 3 dims | use a mode "
     "for so many dims: 'nearest', 'linear', 'bilinear'"},
    {"y = F.interpolate(x, size=2)", "x f64[1, 3]",
     "interpolate: there is no mode 'nearest' for a tensor of 2 dims | use a mode for so many "
     "dims: 'nearest', 'linear', 'bilinear'"},
    {"y = F.interpolate(x, size=0)", "x f64[1, 1, 3]",
     "aten::upsample_nearest1d: output_size is [0]; it must be one size, at least 1, for each of 1 "
     "dims | give 1 sizes of "
     "at least 1"},
    {"y = F.grid_sample(x, g, mode='linear')", "x f64[1, 1, 3, 3]; g f64[1, 1, 2, 2]",
     "grid_sample: there is no mode 'linear' | use one of bilinear, nearest, bicubic"},
    {"y = F.grid_sample(x, g, padding_mode='wrap')", "x f64[1, 1, 3, 3]; g f64[1, 1, 2, 2]",
     "grid_sample: there is no padding_mode 'wrap' | use one of zeros, border, reflection"},
    {"y = F.grid_sample(x, g)", "x f64[1, 1, 3, 3]; g f64[1, 1, 2, 3]",
     "aten::grid_sampler_2d: a grid [1, 1, 2, 3] of f64 does not point into an input [1, 1, 3, 3] "
     "of f64 | give an input of 4 dims and a grid [samples, .., 2] of one dtype of floats"},
    {"y = F.grid_sample(x, g)", "x f64[1, 1, 3, 3]; g f64[2, 1, 2, 2]",
     "aten::grid_sampler_2d: a grid [2, 1, 2, 2] of f64 does not point into an input [1, 1, 3, 3] "
     "of f64 | give an input of 4 dims and a grid [samples, .., 2] of one dtype of floats"},
    {"y = F.grid_sample(x, g)", "x f64[1, 1, 0, 3]; g f64[1, 1, 2, 2]",
     "aten::grid_sampler_2d: a grid [1, 1, 2, 2] of f64 does not point into an input [1, 1, 0, 3] "
     "of f64 | give an input of 4 dims and a grid [samples, .., 2] of one dtype of floats"},
    {"y = F.affine_grid(t, [1, 1, 2])", "t f64[1, 2, 3]",
     "affine_grid_generator: theta of shape [1, 2, 3] does not fit a picture of shape [1, 1, 2] | "
     "give sizes [batch, channels, height, width] and theta of shape [batch, 2, 3]"},
    {"y = F.affine_grid(t, [1, 1, 2, 2])", "t f64[1, 3, 3]",
     "affine_grid_generator: theta of shape [1, 3, 3] does not fit a picture of shape [1, 1, 2, 2] "
     "| give sizes [batch, channels, height, width] and theta of shape [batch, 2, 3]"},
    {"y = aten.max_unpool2d(x, i, [4, 4])", "x f64[2, 2]; i i64[2, 2]<4",
     "aten::max_unpool2d: the input has 2 dims, must have 4 | give [samples, channels, ..sizes]"},
    {"y = aten.max_unpool3d(x, i, [2, 2, 2], [0, 1, 1], [0, 0, 0])",
     "x f64[1, 2, 2, 2]; i i64[1, 2, 2, 2]<8",
     "aten::max_unpool3d: the strides are [0, 1, 1]; they must be above 0 | give the strides of "
     "the pool, above 0"},
    {"y = aten.adaptive_max_pool2d(x, [])", "x f64[1, 2, 2]",
     "a pool of 2 dims is given 0 numbers, []; it must be given one, or one per dim | give one "
     "number, or 2"},
    {"y = aten.upsample_nearest1d_backward(g, [6], [1, 2, 3])", "g f64[1, 1, 6]",
     "aten::upsample_nearest1d_backward: the gradient has shape [1, 1, 6]; its last sizes must be "
     "those of the result, [1, 2, 6] | give the gradient of the result that these arguments give"},
    {"y = aten.reflection_pad1d_backward(g, x, [1, 1])", "g f64[1, 5]; x f32[1, 3]",
     "reflection_pad_backward: self is f32, grad_output is f64; both must have one dtype | cast "
     "one "
     "of them: self.to(grad_output.dtype)"},
};

TEST_CASE("windows that do not fit say what does") { test::check_refusals(kWrongWindows); }

}  // namespace
}  // namespace shardlab
