// Attention with numbers of torch 2.15: masks, causes, scales, heads that are shared, empty and
// unequal lengths; on uneven and empty pieces of each dim. Refusals say which sizes would fit.
#include <doctest/doctest.h>

#include "tests/unit/ops/torch_rows.h"

namespace shardlab {
namespace {

const test::TorchRow kAttention[] = {
    {"y = F.scaled_dot_product_attention(q, k, v, scale=-1.5)",
     "q f64[2, 1, 3, 2]; k f64[2, 1, 3, 2]; v f64[2, 1, 3, 2]",
     "f64[2, 1, 3, 2]",
     {-1.2879905, 0.76851699, 1.9110978, -0.768545, -1.762308, 1.1536761, 0.5736914, -1.7889253,
      -0.95950666, 1.8341689, 0.60924739, -1.9681879},
     {-6.0628195,  -1.0453764,  -0.15939977, 0.17049166,  -0.17954617,  -0.035745818,
      -8.542612,   5.3496659,   -0.46521197, -0.95941208, -0.043726019, 0.025720014,
      -0.10282472, -0.49463091, 0.035903947, 3.2188626,   0.066920776,  -2.7242317,
      1.6044911,   0.61289798,  3.3926043,   2.9735178,   -4.9970953,   -3.5864158,
      2.7635545,   -3.6895931,  5.8507699,   -7.7039875,  0.38567568,   -0.6064194,
      7.9435534,   -8.8269996,  17.682043,   -19.636638,  1.3744037,    -1.5363627},
     "",
     8},
    {"y = F.scaled_dot_product_attention(q, k, v)",
     "q f64[2, 3, 2]; k f64[2, 2, 2]; v f64[2, 2, 3]",
     "f64[2, 3, 3]",
     {1.8761961, -0.4934559, -1.7429988, 1.1837431, 1.3938179, -1.5393362, 1.9408324, -0.6696215,
      -1.7620095, -1.9441851, -0.0411726, 1.9616443, -1.0872856, 1.7928931, 0.6236784, -1.9642538,
      -0.0841265, 1.9929796},
     {0.927924,   0.436167,   -1.0095272, -0.4745243, 0.7590034,  0.3567666, 2.1554402,
      -0.2300272, -1.0235039, 0.1092277,  0.6063735,  -0.0647118, 0.3738784, 1.453449,
      -0.3738784, -1.453449,  -1.5065573, -0.9248995, 1.5065573,  0.9248995, 7.657475,
      -9.5110096, 11.364544,  -3.657475,  4.5110096,  -5.3645441, 12.509697, -13.466781,
      14.423866,  -25.509697, 27.466781,  -29.423866}},
    {"y = F.scaled_dot_product_attention(q, k, v, is_causal=True)",
     "q f64[1, 3, 2]; k f64[1, 3, 2]; v f64[1, 3, 2]",
     "f64[1, 3, 2]",
     {1.953125, -0.703125, -1.637324, 1.0920995, 1.7671914, -0.932418},
     {0, 0, 1.4849659, 0.6980024, 0.9622343, -0.0733868, -0.4394914, -1.1602733, -0.0007823,
      0.4474492, 0.4402737, 0.7128242, 4.544149, -6.2667792, 2.9504038, -3.9266842, 1.5054472,
      -1.8065366}},
    {"y = F.scaled_dot_product_attention(q, k, v, is_causal=True)",
     "q f64[2, 1, 2, 2]; k f64[2, 1, 3, 2]; v f64[2, 1, 3, 2]",
     "f64[2, 1, 2, 2]",
     {1.953125, -0.703125, -1.637324, 1.0920995, -1.078125, 1.8125, -0.9625588, 1.5535461},
     {0,          0,          1.4849659, 0.6980024,  0,         0,          7.322756,  -2.6682107,
      -0.2258243, -0.8143361, 0.2258243, 0.8143361,  0,         0,          2.6682107, 2.3420961,
      -2.6682107, -2.3420961, 0,         0,          1.1035033, -2.1380044, 2.8964967, -3.8619956,
      0,          0,          11.520614, -13.452131, 0.4793857, -0.5478694, 0,         0},
     "",
     8},
    {"y = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.5)",
     "q f64[4, 1]; k f64[2, 1]; v f64[2, 1]",
     "f64[4, 1]",
     {1.953125, 0.967142, 0.53419, 0.3035302},
     {0, -0.329371, 0.5267009, -0.6642293, 0.5832953, -0.5832953, -0.376079, -1.623921}},
    {"y = F.scaled_dot_product_attention(q, k, v, attn_mask=m)",
     "q f64[5, 3, 2]; k f64[5, 2, 2]; v f64[5, 2, 1]; m f64[3, 2]",
     "f64[5, 3, 1]",
     {1.935381, -0.6941874, 1.946242, 0.2485258, -1.476076, 1.0694945, 1.4678126, -1.5305207,
      1.4678118, 1.7143994, -1.0174808, 1.7652927, 0.6087484, -1.9673908, 0.6045099},
     {0.0422577,  0.0198631,  -0.0427124, -0.0200768, 0.0493782,  0.02321,    6.9963222,
      -0.7466431, -3.6458233, 0.38908,    1.4118336,  -0.15067,   0.0162353,  -0.0106544,
      -0.014436,  0.0094736,  0.0208906,  -0.0137094, 1.4240352,  -2.4082949, -0.9813359,
      1.6596122,  0.8373042,  -1.4160291, 0.0009898,  -0.0227646, -0.0023115, 0.0531648,
      0.0088524,  -0.2036043, 0.020831,   0.0713644,  -0.020831,  -0.0713644, -4.7603363,
      -3.0255782, 4.7603363,  3.0255782,  0.0278072,  -0.0109738, -0.0278072, 0.0109738,
      -1.6984094, 2.6493734,  1.6984094,  -2.6493734, -0.0529148, -0.1211436, 0.0529148,
      0.1211436,  3.9788167,  -1.9788167, 3.083705,   -8.083705,  15.993053,  -7.9930533,
      10.233875,  -21.233875, 27.961153,  -13.961153, 3.4829468,  -3.4829468, -2.0000364,
      2.0000364,  1.1641887,  -1.1641887}},
    {"y = F.scaled_dot_product_attention(q, k, v, attn_mask=m)",
     "q f64[2, 3, 2]; k f64[2, 3, 2]; v f64[2, 3, 1]; m bool[2, 3, 3]",
     "f64[2, 3, 1]",
     {-1.4486028, 1.953125, -1.7288942, 1.15625, 1.3208755, 1.15625},
     {-0.597182,  -0.095844, 0,         0,   -0.2856168, -0.0458397, 0,          0,
      1.7396572,  -1.14165,  0,         0,   0,          0,          0.0740488,  0.431996,
      -0.0740488, -0.431996, 0,         0,   0.8542959,  0.3960827,  -0.8542959, -0.3960827,
      -2,         0.4020843, 3.5979157, -10, 4.7535425,  0.2464575}},
    {"y = F.scaled_dot_product_attention(q, k, v, attn_mask=m & False)",
     "q f64[2, 2]; k f64[2, 2]; v f64[2, 2]; m bool[2, 2]",
     "f64[2, 2]",
     {0, 0, 0, 0},
     {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
    {"y = F.scaled_dot_product_attention(q, k, v, scale=2.0, enable_gqa=True)",
     "q f64[1, 4, 2, 1]; k f64[1, 2, 2, 1]; v f64[1, 2, 2, 1]",
     "f64[1, 4, 2, 1]",
     {0.625, 1.6654977, 0.2700267, -0.3796199, 0.9328956, 1.1054317, -1.6847943, -1.6425924},
     {0.7055664, -0.5450244, 1.965492, -1.2074479, 2.6107403, -0.7583789, 1.3925978, -2.3865035,
      0.2825577, -0.2825577, -1.8558267, 1.8558267, -0.6715052, -1.3284948, -0.5789318, -1.4210682},
     "",
     11},
    {"y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)",
     "q f64[1, 2, 2, 2]; k f64[1, 1, 2, 2]; v f64[1, 1, 2, 2]",
     "f64[1, 2, 2, 2]",
     {1.953125, -0.703125, -1.637324, 1.0920995, 1.953125, -0.703125, -1.7341239, 1.1404994},
     {0, 0, 1.4849659, 0.6980024, 0, 0, 0.8237377, 0.3871947, -0.5674667, -1.1142222, 0.5674667,
      1.1142222, 6.1627995, -8.2057715, 9.8372005, -11.794228},
     "",
     11},
    {"y = F.scaled_dot_product_attention(q, k, v, attn_mask=m[:, None])",
     "q f64[2, 2, 2, 1]; k f64[2, 2, 3, 1]; v f64[2, 2, 3, 1]; m f64[2, 1, 3]",
     "f64[2, 2, 2, 1]",
     {1.0209186, 1.8948523, 0.6899835, 0.9229298, 0.5683253, 0.9427097, -1.5291517, -1.5664258},
     {2.0982171,  -0.067808, -0.6291983, 0.5168365,  6.4849003,  -0.2800011, -1.5780491, 1.6647134,
      -0.2262282, 0.2212017, 0.0050266,  0.9986793,  -0.0145651, -0.9841142, -1.3460502, -0.5279356,
      1.8739858,  0.1911666, -0.2021652, 0.0109986,  -1.2203145, 0.0034198,  0.2168947,  -1.2172456,
      0.039443,   0.1778027, 1.2059074,  -0.1415378, -2.0643696, -0.9279525, -0.0690306, -0.0030169,
      0.8549696,  0.0628026, -0.9177722, -1.669684,  0.4834202,  1.1862638},
     "",
     4},
    {"y = F.scaled_dot_product_attention(q, k, v)",
     "q f64[5, 1, 2, 2]; k f64[5, 1, 2, 2]; v f64[5, 1, 2, 2]",
     "f64[5, 1, 2, 2]",
     {1.5941233, -0.5236242, -1.637324,  1.0920995,  1.2315961, -1.2198945, -1.0078781,
      1.720274,  0.5747169,  -1.7731244, -0.084095,  1.9455029, -0.3851878, -1.7926486,
      0.8947189, 1.6254551,  -1.2393569, -1.2473109, 1.6389323, 0.8664327},
     {1.5552529,  0.7310405,  1.4849659,  0.6980024,  7.7416339,  -0.8261823, 3.3421038,
      -0.3566672, 5.3367609,  -3.5022493, 1.8554911,  -1.217666,  1.3072943,  -2.2108654,
      0.4762874,  -0.805486,  -0.0395864, 0.9104866,  -0.0170762, 0.3927525,  -0.2258243,
      0.095881,   0.2258243,  -0.095881,  0.7388679,  2.0775512,  -0.7388679, -2.0775512,
      1.6018674,  1.0576807,  -1.6018674, -1.0576807, 0.7961326,  0.0265228,  -0.7961326,
      -0.0265228, -0.2622885, 0.1162213,  0.2622885,  -0.1162213, 1.006965,   -1.9449279,
      2.993035,   -4.0550721, 4.7274929,  -5.6619588, 7.2725071,  -8.3380412, 8.7074236,
      -9.6718636, 11.292576,  -12.328136, 12.771131,  -13.75219,  15.228869,  -16.24781,
      16.705618,  -17.687009, 19.294382,  -20.312991},
     "S(0) S(0) S(0): nothing",
     8},
    {"y = F.scaled_dot_product_attention(q, k, v)",
     "q f64[2, 0, 2]; k f64[2, 3, 2]; v f64[2, 3, 2]",
     "f64[2, 0, 2]",
     {},
     {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
     "",
     4},
    {"y = F.scaled_dot_product_attention(q, k, v)",
     "q bf16[2, 3, 2]; k bf16[2, 3, 2]; v bf16[2, 3, 2]",
     "bf16[2, 3, 2]",
     {1.57, -0.7109, -1.336, 0.8359, 1.766, -0.9336, -0.7617, 1.656, 0.543, -1.703, -0.7383, 1.859},
     {1.414,  0.4257812, 5.875,    1.312,      0.9648438,  -0.0727539, 5.656,  -1.742,     7.719,
      -4.312, 1.234,     0.859375, -0.3945312, -0.6210938, 0.5859375,  1.789,  -0.1972656, -1.188,
      4.156,  2.078,     1.281,    -0.1245117, -5.406,     -1.93,      4.25,   -5.719,     2.75,
      -3.703, 1.984,     -2.562,   12.44,      -13.88,     8.812,      -9.812, 5.75,       -6.344}},
    {"y = F.scaled_dot_product_attention(q, k, v)",
     "q f32[1, 1, 3, 2]; k f32[1, 1, 3, 2]; v f32[1, 1, 3, 2]",
     "f32[1, 1, 3, 2]",
     {1.570928, -0.7100456, -1.333204, 0.8352438, 1.767191, -0.9324179},
     {1.415327, 0.428444, 5.892833, 1.315625, 0.9622352, -0.0733863, -0.3953685, -0.6205914,
      0.5930959, 1.808592, -0.1977269, -1.188001, 4.270326, -5.72589, 2.745482, -3.705907, 1.984192,
      -2.568203},
     "",
     8},
    {"y = aten._scaled_dot_product_attention_math.default(q, k, v, None, 0.0, True)",
     "q f64[2, 2]; k f64[2, 2]; v f64[2, 2]",
     "f64[2, 2], f64[2, 2]",
     {1.953125, -0.703125, -1.637324, 1.0920995, 1, 0, 0.0345011, 0.9654989},
     {0, 0, 2.6829216, 1.2610968, -0.4080019, -1.4712796, 0.4080019, 1.4712796, 1.1035033,
      -2.1380044, 2.8964967, -3.8619956}},
    {"y = aten._scaled_dot_product_flash_attention_for_cpu.default(q, k, v, 0.0, True, "
     "attn_mask=None, scale=0.5)[0:2]",
     "q f64[1, 2, 3, 2]; k f64[1, 2, 3, 2]; v f64[1, 2, 3, 2]",
     "f64[1, 2, 3, 2], f64[1, 2, 3]",
     {1.953125, -0.703125, -1.4435697, 0.9952224, 1.6632381, -0.9286604, -1.078125, 1.8125,
      0.508582, -1.7428991, -0.6772911, 1.8137784, 1.0231934, 1.0848475, 2.0672574, 1.105957,
      1.2993803, 2.3383641},
     {},
     "",
     11},
};

TEST_CASE("scaled_dot_product_attention: masks, causes, scales and shared heads") {
  test::check_rows(kAttention);
}

const test::TorchRow kLinearLoss[] = {
    {"y = F.linear_cross_entropy(x, w, i)",
     "x f64[5, 2]; w f64[3, 2]; i i64[5]<3",
     "f64[]",
     {1.7316225},
     {0.6636209, 0.2837836, -0.7208519, -0.1139026, -0.0634773, 0.1496264, 0.0025147, 0.0006521,
      -0.0426836, 0.1025798, 0.3278734, 0.6574606, -0.0962643, -0.7337654, -0.2316091, 0.0763048}},
    {"y = F.linear_cross_entropy(x, w, i, linear_bias=b, reduction='sum', ignore_index=1)",
     "x f64[5, 2]; w f64[3, 2]; i i64[5]<3; b f64[3]",
     "f64[]",
     {5.8694099},
     {0, 0, -2.8420631, -0.3456043, -0.3726309, 0.9013296, 0, 0, -0.3197245, 0.7743155, 2.1991513,
      1.8904937, -0.37992, -1.3705516, -1.8192312, -0.5199421, 1.8076765, 0.7374617, -2.5451382}},
    {"y = F.linear_cross_entropy(x, w, i, weight=b.detach().abs(), reduction='none', "
     "label_smoothing=0.25)",
     "x f64[5, 2]; w f64[3, 2]; i i64[5]<3; b f64[3]",
     "f64[5]",
     {5.3680324, 1.2911602, 1.4282822, 0.6705996, 1.4985183},
     {5.2514158, 2.2657339, 2.5556538, 0.5510124, 1.3921333, 1.2683312, 1.3411057, 0.5074972,
      2.5957119, 1.4905797, 2.2779439, 4.4990549, -0.9358978, -2.6675473, -1.3420461, -1.8315076, 0,
      0, 0}},
    {"y = F.linear_cross_entropy(x, w, t.softmax(-1))",
     "x f64[4, 2]; w f64[3, 2]; t f64[4, 3]",
     "f64[]",
     {3.2012188},
     {0.0339958,  -0.0126922, -0.3265044, -0.1579291, 0.6249331,  0.2893163, -0.8419832,
      -0.1391639, 0.2345193,  0.4443939,  -0.543298,  -0.7612575, 0.3087788, 0.3168636,
      -0.0562342, 0.0467722,  0.009462,   0.276216,   -0.2836878, 0.0074718, -0.0470505,
      0.2366843,  -0.1896338, 0.0053375,  -0.1468657, 0.1415282}},
};

TEST_CASE("linear_cross_entropy is linear and cross_entropy in one") {
  test::check_rows(kLinearLoss);
}

const test::RefusedRow kWrongAttention[] = {
    {"y = F.scaled_dot_product_attention(q, k, k)", "q f64[2, 2]; k f64[2, 3]",
     "aten::mm: f64[2, 2] and f64[3, 2] cannot be multiplied | give sizes that fit, such as [m, k] "
     "and [k, n]; y.mT exchanges the last two dims"},
    {"y = F.scaled_dot_product_attention(q, k, v)", "q f64[2, 2]; k f64[2, 2]; v f64[3, 2]",
     "aten::mm: f64[2, 2] and f64[3, 2] cannot be multiplied | give sizes that fit, such as [m, k] "
     "and [k, n]; y.mT exchanges the last two dims"},
    {"y = F.scaled_dot_product_attention(q, q, q)", "q f64[2]",
     "scaled_dot_product_attention: an operand has 1 dims | give queries, keys and values [.., "
     "length, width]"},
    {"y = F.scaled_dot_product_attention(q, q, q, attn_mask=m, is_causal=True)",
     "q f64[2, 2]; m bool[2, 2]",
     "scaled_dot_product_attention: attn_mask is given and is_causal is True | leave one of them "
     "out"},
    {"y = F.scaled_dot_product_attention(q, q, q, attn_mask=m)", "q f64[2, 2]; m i64[2, 2]<2",
     "scaled_dot_product_attention: a mask of i64 | give a mask of bool, or numbers that are "
     "added"},
    {"y = F.scaled_dot_product_attention(q, q, q, attn_mask=m)", "q f64[2, 2]; m bool[3, 2]",
     "aten::add.Tensor: sizes 2 and 3 of dim 0 do not broadcast | give equal sizes, or 1 where a "
     "tensor repeats"},
    {"y = F.scaled_dot_product_attention(q, k, k)", "q f64[1, 4, 2, 2]; k f64[1, 2, 2, 2]",
     "matmul: batch sizes 4 and 2 do not broadcast | make them equal, or one of them 1"},
    {"y = F.scaled_dot_product_attention(q, k, k, enable_gqa=True)",
     "q f64[1, 4, 2, 2]; k f64[1, 3, 2, 2]",
     "scaled_dot_product_attention: 3 heads of keys or values for 4 heads of queries | the number "
     "of heads of the queries must be a multiple of the others'"},
    {"y = F.scaled_dot_product_attention(q, k, k)", "q f64[2, 2]; k f32[2, 2]",
     "scaled_dot_product_attention: queries are f64, keys f32 and values f32 | cast them to one "
     "dtype"},
    {"y = F.multi_head_attention_forward(q, q, q, 4, 2, w, None, None, None, False, 0.0, o, None)",
     "q f64[2, 1, 2]; w f64[6, 2]; o f64[2, 2]",
     "multi_head_attention_forward: a width of 2 where 4 is expected, in 2 heads | give the "
     "query's width, and as many heads as divide it"},
    {"y = F.multi_head_attention_forward(q, q, q, 2, 3, w, None, None, None, False, 0.0, o, None)",
     "q f64[2, 1, 2]; w f64[6, 2]; o f64[2, 2]",
     "multi_head_attention_forward: a width of 2 where 2 is expected, in 3 heads | give the "
     "query's width, and as many heads as divide it"},
    {"y = F.multi_head_attention_forward(q, k, v, 2, 1, w, None, None, None, False, 0.0, o, None)",
     "q f64[2, 1, 2]; k f64[3, 1, 2]; v f64[2, 1, 2]; w f64[6, 2]; o f64[2, 2]",
     "multi_head_attention_forward: key and value differ in their shapes | give one value for each "
     "key"},
    {"y = F.multi_head_attention_forward(q, q, q, 2, 1, None, None, None, None, False, 0.0, o, "
     "None, use_separate_proj_weight=True)",
     "q f64[2, 1, 2]; o f64[2, 2]",
     "multi_head_attention_forward: a weight of the projections is missing | give in_proj_weight, "
     "or the three others and use_separate_proj_weight=True"},
    {"y = F.multi_head_attention_forward(q, q, q, 2, 1, w, None, s, None, False, 0.0, o, None)",
     "q f64[2, 1, 2]; w f64[6, 2]; o f64[2, 2]; s f64[1, 1, 2]",
     "multi_head_attention_forward: bias_k without bias_v, or next to static ones | give both "
     "biases, or none"},
    {"y = F.multi_head_attention_forward(q, q, q, 2, 1, w, None, None, None, False, 0.0, o, None, "
     "attn_mask=m)",
     "q f64[2, 1, 2]; w f64[6, 2]; o f64[2, 2]; m f64[3, 2]",
     "multi_head_attention_forward: attn_mask has the shape [1, 3, 2] | give [queries, keys], or "
     "[batch * heads, queries, keys]"},
    {"y = F.multi_head_attention_forward(q, q, q, 2, 1, w, None, None, None, False, 0.0, o, None, "
     "attn_mask=m)",
     "q f64[2, 1, 2]; w f64[6, 2]; o f64[2, 2]; m i64[2, 2]<2",
     "multi_head_attention_forward: a mask of i64 | give a mask of bool, or numbers that are "
     "added"},
    {"y = F.multi_head_attention_forward(q, q, q, 2, 1, w, None, None, None, False, 0.0, o, None, "
     "key_padding_mask=m)",
     "q f64[2, 1, 2]; w f64[6, 2]; o f64[2, 2]; m bool[1, 3]",
     "multi_head_attention_forward: key_padding_mask has the shape [1, 3] | give one number for "
     "each key: [batch, keys]"},
    {"y = F.multi_head_attention_forward(q, q, q, 2, 1, w, None, None, None, False, 0.0, o, None, "
     "is_causal=True)",
     "q f64[2, 1, 2]; w f64[6, 2]; o f64[2, 2]",
     "multi_head_attention_forward: is_causal without attn_mask | give the mask, too; is_causal is "
     "a hint"},
    {"y = F.multi_head_attention_forward(q, q, q, 2, 1, w, None, None, None, False, 0.0, o, None)",
     "q f64[2]; w f64[6, 2]; o f64[2, 2]",
     "multi_head_attention_forward: query, key and value have other counts of dims | give [length, "
     "batch, width] each, or [length, width]"},
    {"y = F.multi_head_attention_forward(q, k, k, 2, 1, w, None, None, None, False, 0.0, o, None, "
     "static_k=s)",
     "q f64[2, 1, 2]; k f64[3, 1, 2]; w f64[6, 2]; o f64[2, 2]; s f64[2, 3, 2]",
     "aten::bmm: f64[1, 2, 2] and f64[2, 2, 3] cannot be multiplied | give sizes that fit, such as "
     "[m, k] and [k, n]; y.mT exchanges the last two dims"},
    {"y = F.linear_cross_entropy(x, w, i)", "x f64[5, 2]; w f64[3, 3]; i i64[5]<3",
     "linear_cross_entropy: the input has shape [5, 2], the weight [3, 3]; they must be [samples, "
     "features] and [classes, features] | give [samples, features] "
     "and [classes, features]"},
    {"y = F.linear_cross_entropy(x, w, i, reduction='median')",
     "x f64[5, 2]; w f64[3, 2]; i i64[5]<3",
     "linear_cross_entropy: reduction is 'median'; it must be 'mean', 'sum' or 'none' | use "
     "'mean', 'sum' or 'none'"},
    {"y = F.linear_cross_entropy(x, w, i, ignore_index=1)", "x f64[5, 2]; w f64[3, 2]; i f64[5, 3]",
     "linear_cross_entropy: ignore_index is given; with a target of probabilities it must be "
     "left out | leave ignore_index "
     "out: the target holds probabilities"},
    {"y = aten._scaled_dot_product_flash_attention_for_cpu_backward(x, x, x, x, x, x, 0.0, False)",
     "x f64[2, 2]",
     "aten::_scaled_dot_product_flash_attention_for_cpu_backward takes tensors of floats of 4 dims "
     "and one dtype, not 2 dims of f64 | reshape them to [batch, heads, length, width]; "
     "x.unsqueeze(0) adds a dim"},
};

TEST_CASE("attention of what does not fit says what would") {
  test::check_refusals(kWrongAttention);
}

}  // namespace
}  // namespace shardlab
