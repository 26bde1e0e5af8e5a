// Writes in place, through views and to given tensors, with numbers of torch 2.15, and the
// gradients around them; on uneven and empty pieces. Refused views and writes say why.
#include <doctest/doctest.h>

#include "tests/unit/ops/torch_rows.h"

namespace shardlab {
namespace {

const test::TorchRow kWrites[] = {
    {"y = x * 1\n"
     "y[1:3] += w",
     "x f64[5, 2]; w f64[2]",
     "f64[5, 2]",
     {0, 1.984375, 1.046875, -0.828125, 2.546875, 2.625, -1.40625, -1.234375, 1.71875, 0.796875},
     {1, -2, 3, -4, 5, -6, 7, -8, 9, -10, 8, -10},
     "",
     3},
    {"y = x * 1\n"
     "y[:, 0] = w",
     "x f64[5, 2]; w f64[5]",
     "f64[5, 2]",
     {1.5625, 1.984375, 1.03125, -1.859375, -1.828125, 1.59375, -0.5625, -1.234375, 1.96875,
      0.796875},
     {0, -2, 0, -4, 0, -6, 0, -8, 0, -10, 1, 3, 5, 7, 9}},
    {"y = x * 1\n"
     "y[2] = 0.5",
     "x f64[5, 2]",
     "f64[5, 2]",
     {0, 1.984375, -0.515625, -1.859375, 0.5, 0.5, -1.40625, -1.234375, 1.71875, 0.796875},
     {1, -2, 3, -4, 0, 0, 7, -8, 9, -10},
     "",
     2},
    {"y = x * 1\n"
     "y[m] = 0.25",
     "x f64[5, 2]; m bool[5, 2]",
     "f64[5, 2]",
     {0.25, 0.25, -0.515625, 0.25, 0.25, 0.25, 0.25, 0.25, 1.71875, 0.25},
     {0, 0, 3, 0, 0, 0, 0, 0, 9, 0},
     "",
     4},
    {"y = x * 1\n"
     "y[i] = w",
     "x f64[5, 2]; i i64[2]<4; w f64[2, 2]",
     "f64[5, 2]",
     {0, 1.984375, -0.515625, -1.859375, -1.765625, 1.15625, -1.40625, -1.234375, 1.71875,
      0.796875},
     {1, -2, 3, -4, 0, 0, 7, -8, 9, -10, 5, -6, 5, -6},
     "",
     8},
    {"y = x * 1\n"
     "y.t().mul_(w)",
     "x f64[5, 2]; w f64[5]",
     "f64[5, 2]",
     {0, 3.1005859, -0.5317383, -1.9174805, -1.7995606, -2.9135742, 0.7910156, 0.6943359, 3.3837891,
      1.5688477},
     {1.5625, -3.125, 3.09375, -4.125, -9.140625, 10.96875, -3.9375, 4.5, 17.71875, -19.6875,
      -3.96875, 5.890625, -4.640625, 0.03125, 7.5}},
    {"y = x * 1\n"
     "y.masked_fill_(m, 2.0)",
     "x f64[5]; m bool[5]",
     "f64[5]",
     {2, 2, -0.515625, 2, 2},
     {0, 0, 3, 0, 0},
     "",
     2},
    {"y = x * 1\n"
     "y.add_(w, alpha=2).relu_()",
     "x f64[5]; w f64[5]",
     "f64[5]",
     {3.125, 4.046875, 0, 0, 4.921875},
     {1, -2, 0, 0, 5, 2, -4, 0, 0, 10},
     "",
     2},
    {"y = x * 1\n"
     "y.renorm_(2, 0, 1.5)",
     "x f64[5, 2]",
     "f64[5, 2]",
     {0, 1.4999999, -0.4008393, -1.4454507, 0.7882393, 1.2761969, -1.1273117, -0.9895292, 1.3608507,
      0.6309399},
     {0.7559055, -0.0000001, 2.9663491, -0.8226011, 5.0461854, -3.1167617, 5.6215691, -6.4043192,
      4.2822025, -9.2361226}},
    {"y = x.abs() + 0.5\n"
     "y.polygamma_(1)",
     "x f64[5, 2]",
     "f64[5, 2]",
     {4.934802, 0.494076, 1.608147, 0.5259434, 0.9479264, 0.6091037, 0.6851192, 0.7729802,
      0.5669821, 1.13801},
     {0, 0.4794825, 6.916824, -1.084338, -4.256225, 2.168605, 3.182353, -4.596833, -2.827233,
      12.06}},
    {"y = x * 1\n"
     "y.copy_(w)",
     "x f64[5, 2]; w f64[2]",
     "f64[5, 2]",
     {1.5625, 1.03125, 1.5625, 1.03125, 1.5625, 1.03125, 1.5625, 1.03125, 1.5625, 1.03125},
     {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 25, -30},
     "",
     3},
    {"y = x * 1\n"
     "y.zero_().add_(w)",
     "x f64[5]; w f64[5]",
     "f64[5]",
     {1.5625, 1.03125, -1.828125, -0.5625, 1.96875},
     {0, 0, 0, 0, 0, 1, -2, 3, -4, 5}},
    {"y = x * 1\n"
     "y.clamp_(-0.5, 0.5).neg_()",
     "x f64[5]",
     "f64[5]",
     {0, -0.5, 0.5, 0.5, -0.5},
     {-1, 0, 0, 0, 0},
     "",
     2},
    {"y = x * 1\n"
     "y.index_add_(0, i, w)",
     "x f64[5, 2]; i i64[3]<5; w f64[3, 2]",
     "f64[5, 2]",
     {0, 1.984375, -2.28125, -0.703125, 4.40625, -0.640625, -1.40625, -1.234375, 1.71875, 0.796875},
     {1, -2, 3, -4, 5, -6, 7, -8, 9, -10, 5, -6, 3, -4, 5, -6},
     "",
     8},
    {"y = x * 1\n"
     "y.scatter_(0, i, w)",
     "x f64[5]; i i64[1]<5; w f64[1]",
     "f64[5]",
     {0, 1.984375, 1.953125, -1.859375, 0.984375},
     {1, -2, 0, -4, 5, 3},
     "",
     6},
    {"y = x * 1\n"
     "y.scatter_add_(0, i, w)",
     "x f64[5]; i i64[4]<3; w f64[4]",
     "f64[5]",
     {-2.46875, 1.984375, 2.59375, -1.859375, 0.984375},
     {1, -2, 3, -4, 5, 3, 1, 1, 3},
     "",
     6},
    {"y = x * 1\n"
     "y.unsqueeze_(0).squeeze_(0)",
     "x f64[5]",
     "f64[5]",
     {0, 1.984375, -0.515625, -1.859375, 0.984375},
     {1, -2, 3, -4, 5}},
    {"y = x * 1\n"
     "y.transpose_(0, 1)",
     "x f64[5, 2]",
     "f64[2, 5]",
     {0, -0.515625, 0.984375, -1.40625, 1.71875, 1.984375, -1.859375, 1.59375, -1.234375, 0.796875},
     {1, -6, -2, 7, 3, -8, -4, 9, 5, -10}},
    {"y = x * 1\n"
     "y.addmm_(w, v, beta=0.5)",
     "x f64[5, 2]; w f64[5, 3]; v f64[3, 2]",
     "f64[5, 2]",
     {-1.4541016, 3.8852539, -4.7636719, 1.6704102, -1.4572754, -0.1369629, 2.331543, -3.918457,
      5.1020508, -1.1616211},
     {0.5,       -1,         1.5,      -2,        2.5,        -3,       3.5,       -4,
      4.5,       -5,         3.359375, -4.078125, 4.53125,    8.671875, -9.921875, 10.53125,
      13.984375, -15.765625, 16.53125, 19.296875, -21.609375, 22.53125, 24.609375, -27.453125,
      28.53125,  -5.078125,  5.71875,  -17.28125, 17.125,     9.609375, -10.21875},
     "",
     3},
    {"y = x * 1\n"
     "y.lerp_(w, 0.5).pow_(2)",
     "x f64[5]; w f64[5]",
     "f64[5]",
     {0.6103516, 2.2734985, 1.373291, 1.4663696, 2.1802368},
     {0.78125, -3.015625, -3.515625, 4.84375, 7.3828125, 0.78125, -3.015625, -3.515625, 4.84375,
      7.3828125},
     "",
     2},
    {"y = x * 1\n"
     "y.tril_()",
     "x f64[5, 3]",
     "f64[5, 3]",
     {0, 0, 0, -1.859375, 0.984375, 0, -1.40625, -1.234375, 1.71875, 0.796875, -1.921875, -0.296875,
      2, -0.21875, -1.9375},
     {1, 0, 0, -4, 5, 0, 7, -8, 9, -10, 11, -12, 13, -14, 15},
     "",
     6},
    {"y = x * 1\n"
     "y.cumsum_(0)",
     "x f64[5]",
     "f64[5]",
     {0, 1.984375, 1.46875, -0.390625, 0.59375},
     {3, 2, 4, 1, 5},
     "",
     3},
    {"y = x * 1\n"
     "z = y[1:4]\n"
     "z *= 2\n"
     "y = y + z.sum()",
     "x f64[5]",
     "f64[5]",
     {-0.78125, 3.1875, -1.8125, -4.5, 0.203125},
     {1, 2, 12, -2, 5}},
    {"y = x.detach() * 0\n"
     "torch.add(x.detach(), w.detach(), out=y)",
     "x f64[5]; w f64[5]",
     "f64[5]",
     {1.5625, 3.015625, -2.34375, -2.421875, 2.953125}},
    {"y = torch.zeros_like(x.sum(0))\n"
     "torch.sum(x.detach(), 0, out=y)",
     "x f64[5, 2]",
     "f64[2]",
     {0.78125, 1.28125}},
    {"o = torch.zeros_like(x)\n"
     "torch.gt(x, 0.5, out=o)\n"
     "y = x * o",
     "x f64[5, 3]",
     "f64[5, 3]",
     {0, 1.984375, 0, 0, 0.984375, 1.59375, 0, 0, 1.71875, 0.796875, 0, 0, 2, 0, 0},
     {0, -2, 0, 0, 5, -6, 0, 0, 9, -10, 0, 0, 13, 0, 0}},
    {"o = torch.zeros_like(x, dtype=torch.bool)\n"
     "aten.logical_not.out(x, out=o)\n"
     "y = x.masked_fill(o, 2.0)",
     "x f64[5, 3]",
     "f64[5, 3]",
     {2, 1.984375, -0.515625, -1.859375, 0.984375, 1.59375, -1.40625, -1.234375, 1.71875, 0.796875,
      -1.921875, -0.296875, 2, -0.21875, -1.9375},
     {0, -2, 3, -4, 5, -6, 7, -8, 9, -10, 11, -12, 13, -14, 15}},
};

TEST_CASE("writes in place, through views and to tensors that are given") {
  test::check_rows(kWrites);
}

const test::RefusedRow kWrongViews[] = {
    {"y = x.reshape(3, 4)", "x f64[5, 2]",
     "the sizes [3, 4] do not hold 10 elements | give sizes whose product is 10, or -1 for one of "
     "them"},
    {"y = x.reshape(-1, -1)", "x f64[5, 2]",
     "dims 0 and 1 are both -1; only one size can be inferred | write one of the two sizes"},
    {"y = x.reshape(-1, 0)", "x f64[0, 2]",
     "the sizes [-1, 0] do not hold 0 elements | give sizes whose product is 0, or -1 for one of "
     "them"},
    {"y = x.t().view(-1)", "x f64[5, 2]",
     "the strides [1, 2] do not allow a view of shape [10] | use reshape, which copies where it "
     "must"},
    {"y = x.view(-1, 3)", "x f64[5, 2]",
     "the sizes [-1, 3] do not hold 10 elements | give sizes whose product is 10, or -1 for one of "
     "them"},
    {"y = x.flatten(1, 0)", "x f64[5, 2]",
     "flatten: start_dim 1 comes after end_dim 0 | name the first and the last of the dims that "
     "become one"},
    {"y = x.unflatten(0, (2, 2))", "x f64[5, 2]",
     "the sizes [2, 2] do not hold 5 elements | give sizes whose product is 5, or -1 for one of "
     "them"},
    {"y = x.unflatten(0, ())", "x f64[5, 2]",
     "the sizes [] do not hold 5 elements | give sizes whose product is 5, or -1 for one of them"},
    {"y = x.expand(5, 3)", "x f64[5, 2]",
     "dim 1 of size 2 cannot be expanded to 3; only a size of 1 can | use repeat, or give -1 to "
     "keep the size"},
    {"y = x.expand(2)", "x f64[5, 2]",
     "a tensor of 2 dims cannot be expanded to 1 dims | name all its dims; new ones stand in "
     "front"},
    {"y = x.expand(-1, 5)", "x f64[5]",
     "dim 0 of size 1 cannot be expanded to -1; only a size of 1 can | use repeat, or give -1 to "
     "keep the size"},
    {"y = x.squeeze(2)", "x f64[5, 2]",
     "dim 2 is out of range: it must lie in [-2, 1] | use 0 to 1, or count from the last dim: -1 "
     "to -2"},
    {"y = x.unsqueeze(3)", "x f64[5]",
     "dim 3 is out of range: it must lie in [-2, 1] | use 0 to 1, or count from the last dim: -1 "
     "to -2"},
    {"y = x.permute(0, 0)", "x f64[5, 2]",
     "permute names dim 0 twice; it must name each once | x.permute(1, 0) reverses all"},
    {"y = x.permute(0)", "x f64[5, 2]",
     "permute names 1 dims, the tensor has 2; it must name each once | reverse all of them: "
     "x.permute(1, 0)"},
    {"y = x.transpose(0, 2)", "x f64[5, 2]",
     "dim 2 is out of range: it must lie in [-2, 1] | use 0 to 1, or count from the last dim: -1 "
     "to -2"},
    {"y = x.t()", "x f64[5, 2, 2]",
     "t takes a tensor of at most 2 dims, not 3 | use transpose(0, 1), or mT for the last two "
     "dims"},
    {"y = x.as_strided((2,), (1, 1))", "x f64[5]",
     "as_strided: there are 1 sizes and 2 strides; there must be as many, none negative | write "
     "one stride per size, as x.shape and x.stride() do"},
    {"y = x.as_strided((2,), (-1,), 3)", "x f64[5]",
     "as_strided: there are 1 sizes and 1 strides; there must be as many, none negative | write "
     "one stride per size, as x.shape and x.stride() do"},
    {"y = torch.select(x, 0, 5)", "x f64[5]",
     "index 5 is out of range for dim 0 of size 5 | use an index from -5 to 4"},
    {"y = x[5]", "x f64[5]",
     "index 5 is out of range for dim 0 of size 5 | use an index from -5 to 4"},
    {"y = x[0, 0]", "x f64[5]",
     "the index is for 2 dims, and the tensor has 1 | give at most one index per dim; a mask is "
     "for as many as it has"},
    {"y = x[::-1]", "x f64[5]",
     "the step of a tensor's slice is negative | use flip(x, [dim]), then slice with a positive "
     "step"},
    {"y = x.view_as(w)", "x f64[5, 2]; w f64[9]",
     "the sizes [9] do not hold 10 elements | give sizes whose product is 10, or -1 for one of "
     "them"},
    {"y = x.view(torch.complex128)", "x f64[5]",
     "a view as c128 needs a last dim of stride 1 whose bytes divide by 16 | make it contiguous "
     "first, or cast with to(dtype)"},
    {"y = torch.diag(x)", "x f64[2, 2, 2]",
     "diag takes a vector or a matrix, not a tensor of 3 dims | use diag_embed, or diagonal, for "
     "batches"},
    {"y = x * 1\n"
     "y[1:3] = w",
     "x f64[5]; w f64[3]",
     "aten::copy_: sizes 2 and 3 of dim 0 do not broadcast | give equal sizes, or 1 where a tensor "
     "repeats"},
    {"y = x * 1\n"
     "y.add_(w)",
     "x f64[5]; w f64[2, 5]",
     "aten::add_.Tensor: the result has shape [2, 5]; the tensor that it is written to, [5], must "
     "have the same | use the op that returns a new tensor: x + y, not x += y"},
    {"y = i + 0\n"
     "y.add_(0.5)",
     "i i64[5]<3",
     "aten::add_.Scalar: a result of dtype f32 cannot be written to a i64 tensor | write into a "
     "tensor of dtype f32, or use the op that returns a new one"},
    {"y = i + 0\n"
     "y.div_(2)",
     "i i64[5]<3",
     "aten::div_.Scalar: a result of dtype f32 cannot be written to a i64 tensor | write into a "
     "tensor of dtype f32, or use the op that returns a new one"},
    {"y = x * 1\n"
     "y.copy_(w)",
     "x f64[5]; w f64[4]",
     "aten::copy_: sizes 5 and 4 of dim 0 do not broadcast | give equal sizes, or 1 where a tensor "
     "repeats"},
    {"y = x * 1\n"
     "y.masked_fill_(m, w)",
     "x f64[5]; m bool[5]; w f64[2]",
     "aten::masked_fill.Tensor: the value has 1 dims, must have none | where(mask, value, x) takes "
     "an element of value for each of x"},
    {"y = x.expand(2, 5)\n"
     "y.add_(1)",
     "x f64[5]",
     "aten::add_.Scalar: writes an expanded tensor, several elements of which are one in memory | "
     "clone() it before"},
    {"y = i + 0\n"
     "torch.add(x, x, out=y)",
     "i i64[5]<3; x f64[5]",
     "aten::add.out: a result of dtype f64 cannot be written to a i64 tensor | write into a tensor "
     "of dtype f64, or use the op that returns a new one"},
    {"y = torch.arange(0, 3, 0)", "",
     "arange never reaches 3 from 0 in steps of 0 | give a step that leads from start to end: "
     "arange(5, 0, -1)"},
    {"y = torch.arange(3, 0, 1)", "",
     "arange never reaches 0 from 3 in steps of 1 | give a step that leads from start to end: "
     "arange(5, 0, -1)"},
    {"y = torch.linspace(0, 1, -1)", "",
     "the size of a tensor dim is -1; it must be 0 or more | write the size itself; only reshape "
     "and view infer a size from -1"},
    {"y = torch.eye(-1)", "",
     "the size of a tensor dim is -1; it must be 0 or more | write the size itself; only reshape "
     "and view infer a size from -1"},
    {"y = torch.full((-2,), 1)", "",
     "the size of a tensor dim is -2; it must be 0 or more | write the size itself; only reshape "
     "and view infer a size from -1"},
    {"y = torch.logspace(0, 1, -2)", "",
     "the size of a tensor dim is -2; it must be 0 or more | write the size itself; only reshape "
     "and view infer a size from -1"},
    {"y = torch.tril_indices(-1, 2)", "",
     "the size of a tensor dim is -1; it must be 0 or more | write the size itself; only reshape "
     "and view infer a size from -1"},
    {"y = torch.hamming_window(-1)", "",
     "the length of a window is -1; it must not be negative | give how many numbers there are"},
    {"y = F.batch_norm(x, None, None, training=True)", "x f64[1, 5]",
     "batch_norm: an input of shape [1, 5] has one value for each mean | give more samples or "
     "places, or running statistics and training=False"},
    {"y = F.group_norm(x, 4)", "x f64[1, 4, 1]",
     "group_norm: an input of shape [1, 4, 1] has one value for each mean | give more samples or "
     "places, or running statistics and training=False"},
    {"y = F.instance_norm(x)", "x f64[2, 3, 1]",
     "instance_norm: an input of shape [2, 3, 1] has one value for each mean | give more samples "
     "or places, or running statistics and training=False"},
    {"y = (x > 0) - (x > 1)", "x f64[5]",
     "aten::sub.Tensor: an operand is bool; truth values are not subtracted | logical_xor(a, b) "
     "says where masks differ, logical_not(x) inverts one"},
    {"y = -(x > 0)", "x f64[5]",
     "aten::neg: the operand is bool; truth values have no negative | logical_not(x) inverts a "
     "mask"},
    {"y = torch.hann_window(-1)", "",
     "the size of a tensor dim is -1; it must be 0 or more | write the size itself; only reshape "
     "and view infer a size from -1"},
    {"y = torch.normal(x, -1.0)", "x f64[5]",
     "normal: std is -1.0; it must not be negative | give a std of at least 0"},
    {"y = torch.zeros(2).normal_(0.0, -1.0)", "",
     "normal: std is -1; it must be at least 0 | choose a number that the law has"},
    {"y = torch.zeros(0).normal_(0.0, float('nan'))", "",
     "normal: std is nan; it must be at least 0 | choose a number that the law has"},
    {"y = torch.normal(0.0, -1.0, (2,))", "",
     "normal: std is -1; it must be at least 0 | choose a number that the law has"},
    {"y = torch.zeros(2).uniform_(1.0, 0.0)", "",
     "uniform: from is 1 and to is 0; from must not be above to | give the lower bound first"},
    {"y = torch.zeros(2).bernoulli_(1.5)", "",
     "bernoulli: p is 1.5; it must be from 0 to 1 | choose a number that the law has"},
    {"y = torch.bernoulli(x)", "x f64[5]",
     "bernoulli: p is 1.984375; it must be from 0 to 1 | choose a number that the law has"},
    {"y = x.detach().sum(0).double()\n"
     "torch.amax(x.detach(), 0, out=y)",
     "x f32[3, 2]",
     "aten::amax.out: a result of dtype f32 cannot be written to a f64 tensor | write into a "
     "tensor of dtype f32, or use the op that returns a new one"},
    {"y = x.detach().sum(0)\n"
     "z = y.half()\n"
     "aten.aminmax.out(x.detach(), dim=0, min=y, max=z)",
     "x f32[3, 2]",
     "aten::aminmax.out: a result of dtype f32 cannot be written to a f16 tensor | write into a "
     "tensor of dtype f32, or use the op that returns a new one"},
    {"y = aten._chunk_cat.default([x, w], 0, 2)", "x f64[3, 2]; w f64[0, 2]",
     "_chunk_cat: a tensor has shape [0, 2]; it must have elements | leave out the tensors that "
     "have no elements"},
    {"y = torch.multinomial(x, 2)", "x f64[5]",
     "multinomial: a weight is -0.515625; it must be a number that is not negative | choose a "
     "number that the law has"},
    {"y = torch.multinomial(x.abs(), 6)", "x f64[5]",
     "multinomial: 6 draws without replacement, from 4 categories that have a weight | draw with "
     "replacement, or fewer times"},
    {"y = torch.randperm(-1)", "",
     "randperm: n is -1; it must not be negative | give how many numbers there are"},
    {"y = torch.randint(3, 3, (2,))", "",
     "randint: low is 3 and high is 3; low must be less than high | randint(0, 10, [4]) draws from "
     "0 to 9"},
    {"y = F.dropout(x, 1.5)", "x f64[5]",
     "dropout: p is 1.5, must be in [0, 1] | p is the share of the elements that become 0"},
};

TEST_CASE("views, writes and new tensors that cannot be say why") {
  test::check_refusals(kWrongViews);
}

}  // namespace
}  // namespace shardlab
