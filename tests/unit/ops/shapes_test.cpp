// Shapes and dtypes of results, and refusals of ops: their messages, and the fixes.
#include <doctest/doctest.h>

#include "dispatch/all_ops.h"
#include "mesh/type_string.h"
#include "propagate/propagator.h"
#include "schema/binder.h"
#include "schema/op_registry.h"

namespace shardlab {
namespace {

/// Calls on replicas, of which only metadata is used.
class Described {
 public:
  Described() : layout_(arena_.layout({.shape = {2}, .names = {}, .ranks = {}})) {}

  Argument x(Dims shape, DType dtype = DType::kF32) { return of(contiguous_meta(shape, dtype)); }
  Argument of(const TensorMeta& meta) { return arena_.spec(layout_, Placements(1), meta); }

  /// "f32[2, 3], i64[2]".
  std::string results(const char* name, Arguments args) {
    std::string text;
    for (const DTensorSpec* spec : decide(name, std::move(args)).outputs) {
      text += (text.empty() ? "" : ", ") + (spec == nullptr ? "None" : type_string(*spec));
    }
    return text;
  }
  /// The refusal's statement, " | " and its fix.
  std::string refusal(const char* name, Arguments args) {
    try {
      return "no refusal: " + results(name, std::move(args));
    } catch (const Error& error) {
      const std::string* fix = error.find("fix");
      return error.summary() + " | " + (fix == nullptr ? "no fix" : *fix);
    }
  }

 private:
  OutputSharding decide(const char* name, Arguments args) {
    const OpRow& row = all_ops().at(name);
    return *propagator_.propagate({&row, bind_arguments(row, std::move(args)), layout_});
  }

  Arena arena_;
  Propagator propagator_{all_ops(), PlanOptions{}};
  const MeshLayout* layout_;
};

constexpr DType kInt = DType::kI64;

}  // namespace

TEST_CASE("joining: sizes add up along one dim, dtypes meet, empty vectors join anything") {
  Described c;
  const auto list = [](Arguments tensors) { return ArgumentList(tensors.begin(), tensors.end()); };
  CHECK(c.results("cat", {list({c.x({2, 3}), c.x({0, 3}), c.x({5, 3})}), 0}) == "f32[7, 3]");
  CHECK(c.results("cat", {list({c.x({2, 3}), c.x({0}), c.x({2, 1}, kInt)}), -1}) == "f32[2, 4]");
  CHECK(c.results("stack", {list({c.x({2, 3}), c.x({2, 3})}), -1}) == "f32[2, 3, 2]");
  CHECK(c.refusal("cat", {list({c.x({2, 3}), c.x({2, 4})}), 0}) ==
        "cat takes tensors that differ in dim 0 only, not f32[2, 3] and f32[2, 4] | "
        "join along the dim in which they differ, or narrow them first");
  CHECK(c.refusal("cat", {list({c.x({})}), 0}) ==
        "cat takes tensors of at least one dim, not 0 | use stack, or give it a dim: "
        "x.unsqueeze(0)");
  CHECK(c.refusal("stack", {list({c.x({2}), c.x({3})}), 0}) ==
        "stack takes tensors of one shape, not f32[2] and f32[3] | "
        "use cat, or expand them to one shape");
}

TEST_CASE("negative padding cuts elements off the tensor, not off the other end") {
  Described c;
  CHECK(c.results("constant_pad_nd", {c.x({0, 2}), Dims{0, 0, 1, 1}}) == "f32[2, 2]");
  CHECK(c.results("constant_pad_nd", {c.x({2}), Dims{-1, -1}}) == "f32[0]");
  for (const Dims& pad : {Dims{-3, 5}, Dims{5, -3}, Dims{-2, -1}}) {
    CHECK(
        c.refusal("constant_pad_nd", {c.x({2}), pad}) ==
        "constant_pad_nd: 3 elements are cut off dim 0 of size 2 | cut off no more than there is");
  }
}

TEST_CASE("taking a part: slices clip, selections do not") {
  Described c;
  CHECK(c.results("slice.Tensor", {c.x({7, 2}), 0, 2, 100, 2}) == "f32[3, 2]");
  CHECK(c.results("slice.Tensor", {c.x({7, 2}), 0, -2, Argument(), 1}) == "f32[2, 2]");
  CHECK(c.results("slice.Tensor", {c.x({7, 2}), 0, 5, 3, 1}) == "f32[0, 2]");
  CHECK(c.results("select.int", {c.x({7, 2}), -1, 1}) == "f32[7]");
  CHECK(c.refusal("slice.Tensor", {c.x({7}), 0, 0, 3, 0}) ==
        "slice takes a positive step, not 0 | use flip(x, [dim]), then slice with a positive step");
  CHECK(c.refusal("select.int", {c.x({7}), 0, 7}) ==
        "index 7 is out of range for dim 0 of size 7 | use an index from -7 to 6");
  CHECK(c.refusal("select.int", {c.x({0}), 0, 0}) ==
        "index 0 is out of range for dim 0 of size 0 | choose another dim; this one is empty");
  CHECK(c.refusal("select.int", {c.x({}), 0, 0}) ==
        "aten::select.int takes a tensor of at least one dim | give it a dim: x.unsqueeze(0)");
}

TEST_CASE("cutting: a last piece is shorter, given sizes have to add up") {
  Described c;
  CHECK(c.results("split.Tensor", {c.x({7}), 3, 0}) == "f32[3], f32[3], f32[1]");
  CHECK(c.results("split.Tensor", {c.x({0}), 3, 0}) == "f32[0]");
  CHECK(c.results("split_with_sizes", {c.x({7}), Dims{0, 5, 2}, 0}) == "f32[0], f32[5], f32[2]");
  CHECK(c.refusal("split_with_sizes", {c.x({7}), Dims{5, 3}, 0}) ==
        "the sizes of a split of dim 0 add up to 8, not 7 | "
        "pass one size, split(x, 2), to get a shorter last piece");
  CHECK(c.refusal("split_with_sizes", {c.x({7}), Dims{8, -1}, 0}) ==
        "split: a size is -1; it must be 0 or more | write each size itself; split infers none "
        "from -1");
  CHECK(c.refusal("split.Tensor", {c.x({7}), 0, 0}) ==
        "split takes a positive size, not 0 | pass the elements of one piece; chunk(x, n) makes n "
        "pieces");
}

TEST_CASE("views: sizes hold the elements, one may be inferred") {
  Described c;
  CHECK(c.results("view", {c.x({4, 6}), Dims{3, -1}}) == "f32[3, 8]");
  CHECK(c.results("view", {c.x({0, 6}), Dims{0, 5}}) == "f32[0, 5]");
  CHECK(c.results("permute", {c.x({2, 3, 4}), Dims{2, 0, 1}}) == "f32[4, 2, 3]");
  CHECK(c.results("expand", {c.x({3, 1}), Dims{2, -1, 5}}) == "f32[2, 3, 5]");
  CHECK(c.results("repeat", {c.x({2, 3}), Dims{4, 1, 0}}) == "f32[4, 2, 0]");
  CHECK(c.results("t", {c.x({2, 3})}) == "f32[3, 2]");
  CHECK(c.refusal("view", {c.x({4, 6}), Dims{5, 5}}) ==
        "the sizes [5, 5] do not hold 24 elements | give sizes whose product is 24, or -1 for one "
        "of them");
  CHECK(c.refusal("view", {c.x({4, 6}), Dims{-1, -1}}) ==
        "dims 0 and 1 are both -1; only one size can be inferred | write one of the two sizes");
  CHECK(c.refusal("permute", {c.x({2, 3, 4}), Dims{0, 1}}) ==
        "permute names 2 dims, the tensor has 3; it must name each once | reverse all of them: "
        "x.permute(2, 1, 0)");
  CHECK(c.refusal("permute", {c.x({2, 3}), Dims{1, 1}}) ==
        "permute names dim 1 twice; it must name each once | x.permute(1, 0) reverses all");
  CHECK(c.refusal("expand", {c.x({3, 2}), Dims{3, 5}}) ==
        "dim 1 of size 2 cannot be expanded to 5; only a size of 1 can | use repeat, or give -1 to "
        "keep the size");
  CHECK(c.refusal("t", {c.x({2, 3, 4})}) ==
        "t takes a tensor of at most 2 dims, not 3 | use transpose(0, 1), or mT for the last two "
        "dims");
  CHECK(c.refusal("repeat", {c.x({2, 3}), Dims{4}}) ==
        "repeat: there are 1 counts for a tensor of 2 dims; there must be at least one per dim | "
        "give one count per dim; 1 leaves a "
        "dim as it is");
}

TEST_CASE("products: inner sizes agree, dtypes are one") {
  Described c;
  CHECK(c.results("mm", {c.x({2, 3}), c.x({3, 5})}) == "f32[2, 5]");
  CHECK(c.results("bmm", {c.x({7, 2, 0}), c.x({7, 0, 5})}) == "f32[7, 2, 5]");
  CHECK(c.results("mv", {c.x({2, 3}), c.x({3})}) == "f32[2]");
  CHECK(c.results("dot", {c.x({3}), c.x({3})}) == "f32[]");
  CHECK(c.results("addmm", {c.x({5}), c.x({2, 3}), c.x({3, 5})}) == "f32[2, 5]");
  CHECK(c.refusal("mm", {c.x({2, 3}), c.x({2, 3})}) ==
        "aten::mm: f32[2, 3] and f32[2, 3] cannot be multiplied | give sizes that fit, such as [m, "
        "k] and [k, n]; y.mT exchanges the last two dims");
  CHECK(c.refusal("mm", {c.x({2, 3}), c.x({3, 5}, DType::kF64)}) ==
        "aten::mm: f32[2, 3] and f64[3, 5] cannot be multiplied | cast one of them: y.to(x.dtype)");
  CHECK(c.refusal("mv", {c.x({2, 3}), c.x({2})}) ==
        "mv takes a matrix and a vector as long as its rows, not f32[2, 3] and f32[2] | give "
        "shapes [m, n] and [n], and one dtype");
  CHECK(c.refusal("addmm", {c.x({4}), c.x({2, 3}), c.x({3, 4}, DType::kF64)})
            .starts_with("aten::addmm: f32[2, 3] and f64[3, 4] cannot be multiplied"));
}

TEST_CASE("pointwise: sizes broadcast, numbers that are stored are in range") {
  Described c;
  CHECK(c.results("add.Tensor", {c.x({3, 1}), c.x({1, 0}), 1}) == "f32[3, 0]");
  CHECK(c.results("div.Tensor", {c.x({2}, kInt), c.x({2}, kInt)}) == "f32[2]");
  CHECK(c.results("eq.Tensor", {c.x({2}), c.x({2})}) == "bool[2]");
  CHECK(c.refusal("add.Tensor", {c.x({3}), c.x({4}), 1}) ==
        "aten::add.Tensor: sizes 3 and 4 of dim 0 do not broadcast | give equal sizes, or 1 where "
        "a tensor repeats");
  CHECK(c.refusal("add.Tensor", {c.x({3}, kInt), c.x({3}, kInt), 0.5}) ==
        "aten::add.Tensor: alpha is a float, the result is i64 | give an integer alpha, or cast "
        "the tensor first: x.float()");
  CHECK(c.refusal("clamp", {c.x({3}), Argument(), Argument()}) ==
        "aten::clamp takes a lower or an upper bound | write clamp(x, min=0), or max=, or both");
  CHECK(c.refusal("clamp_min", {c.x({3}, DType::kI8), 200}) ==
        "aten::clamp_min: no number of dtype i8 keeps to the bound 200 | give a bound from -128 to "
        "127");
  CHECK(c.refusal("pow.Tensor_Scalar", {c.x({3}, kInt), -1}) ==
        "aten::pow.Tensor_Scalar: integers have no negative integer powers | cast the base first: "
        "pow(x.float(), -1)");
  CHECK(c.refusal("addcdiv", {c.x({3}, kInt), c.x({3}, kInt), c.x({3}, kInt), 1}) ==
        "aten::addcdiv divides floats, not integers | cast the tensors first: x.float()");
  CHECK(c.results("copysign.Tensor", {c.x({3}, kInt), c.x({3}, kInt)}) == "f32[3]");
  for (const char* op : {"hypot", "logaddexp", "logaddexp2"}) {
    CHECK(c.refusal(op, {c.x({3}, kInt), c.x({3}, kInt)}) ==
          fmt::format("aten::{} takes floats, not i64 | cast it first: x.float()", op));
  }
  CHECK(c.results("masked_fill.Tensor", {c.x({3}), c.x({3}, DType::kBool), c.x({})}) == "f32[3]");
  CHECK(c.refusal("masked_fill.Tensor", {c.x({3}), c.x({3}, DType::kBool), c.x({1})}) ==
        "aten::masked_fill.Tensor: the value has 1 dims, must have none | where(mask, value, x) "
        "takes an element of value for each of x");
}

TEST_CASE("in place: the shape and the category of the dtype stay") {
  Described c;
  CHECK(c.refusal("add_.Tensor", {c.x({3}), c.x({2, 3}), 1}) ==
        "aten::add_.Tensor: the result has shape [2, 3]; the tensor that it is written to, [3], "
        "must have the same | use the op that returns a new tensor: x + y, not x += y");
  CHECK(c.refusal("add_.Tensor", {c.x({3}, kInt), c.x({3}), 1}) ==
        "aten::add_.Tensor: a result of dtype f32 cannot be written to a i64 tensor | write into a "
        "tensor of dtype f32, or use the op that returns a new one");
}

TEST_CASE("reductions: dims once each, something to choose from") {
  Described c;
  CHECK(c.results("sum.dim_IntList", {c.x({2, 3, 4}), Dims{0, -1}, false}) == "f32[3]");
  CHECK(c.results("sum.dim_IntList", {c.x({2, 3}), Dims{1}, true}) == "f32[2, 1]");
  CHECK(c.results("sum", {c.x({2}, DType::kI8)}) == "i64[]");
  CHECK(c.results("max.dim", {c.x({2, 3}), 1, false}) == "f32[2], i64[2]");
  CHECK(c.refusal("sum.dim_IntList", {c.x({2, 3}), Dims{1, -1}, false}) ==
        "aten::sum.dim_IntList: a dim is named twice | leave one of them out; dim -1 is the last");
  CHECK(c.refusal("mean", {c.x({2}, kInt)}) ==
        "aten::mean takes floats, not i64 | cast it first: x.float()");
  CHECK(c.refusal("amax", {c.x({2, 0}), Dims{1}, false}) ==
        "aten::amax: dim 1 has no element to choose from | leave empty tensors out, or reduce "
        "another dim");
  CHECK(c.refusal("topk", {c.x({4, 6}), 7, -1}) ==
        "aten::topk: k is 7; it must be from 0 to 6, the size of the dim | k=6 takes all of them");
}

TEST_CASE("positions: indices are integers, as many dims as the tensor, no longer than it") {
  Described c;
  CHECK(c.results("gather", {c.x({4, 3}), 0, c.x({9, 2}, kInt)}) == "f32[9, 2]");
  CHECK(c.results("index_select", {c.x({4, 3}), 1, c.x({5}, DType::kI32)}) == "f32[4, 5]");
  CHECK(c.refusal("gather", {c.x({4, 3}), 0, c.x({9, 2})}) ==
        "the dtype of an index must be i64 or i32, not f32 | cast it: index.to(torch.int64)");
  CHECK(c.refusal("gather", {c.x({4, 3}), 0, c.x({9}, kInt)}) ==
        "aten::gather takes an index of 2 dims, not 1 | index.unsqueeze(-1) adds a dim, "
        "index.flatten() joins all");
  CHECK(c.refusal("gather", {c.x({4, 3}), 0, c.x({9, 5}, kInt)}) ==
        "aten::gather: in dim 1 the index has size 5, the tensor 3; the index must not be longer | "
        "narrow the index: index.narrow(1, 0, 3)");
  CHECK(c.refusal("index_select", {c.x({4}), 0, c.x({2, 2}, kInt)}) ==
        "index_select takes an index of one dim, not 2 | flatten it: index.flatten()");
  CHECK(c.results("index_add", {c.x({3}), 0, c.x({}, kInt), c.x({1})}) == "f32[3]");
  CHECK(c.results("index_add", {c.x({}), 0, c.x({1}, kInt), c.x({})}) == "f32[]");
  CHECK(c.refusal("index_add", {c.x({3}), 0, c.x({}, kInt), c.x({})}) ==
        "aten::index_add: the source has shape [], there are 1 indices for dim 0 of [3] | give a "
        "source of shape [1]");
  CHECK(c.refusal("index_add", {c.x({3, 1}), 0, c.x({3}, kInt), c.x({3})}) ==
        "aten::index_add: the source has shape [3], there are 3 indices for dim 0 of [3, 1] | give "
        "a source of shape [3, 1]");
  CHECK(c.refusal("index_add", {c.x({}), 0, c.x({1}, kInt), c.x({1})})
            .starts_with("aten::index_add: the source has shape [1]"));
}

TEST_CASE("lookups and losses") {
  Described c;
  CHECK(c.results("embedding", {c.x({9, 4}), c.x({2, 0}, kInt)}) == "f32[2, 0, 4]");
  CHECK(c.refusal("embedding", {c.x({9}), c.x({2}, kInt)}) ==
        "embedding takes a table of 2 dims, not 1 | give a table of shape [rows, columns]");
  CHECK(c.refusal("embedding", {c.x({9, 4}), c.x({2})}) ==
        "embedding takes indices of dtype i64 or i32, not f32 | cast them: "
        "indices.to(torch.int64)");
  const auto loss = [&](Dims scores, Dims target, Argument weight, std::int64_t reduction) {
    return Arguments{c.x(std::move(scores)), c.x(std::move(target), kInt), weight, reduction, -100};
  };
  CHECK(c.results("nll_loss_forward", loss({5, 3}, {5}, Argument(), 0)) == "f32[5], f32[]");
  CHECK(c.results("nll_loss_forward", loss({3}, {}, Argument(), 1)) == "f32[], f32[]");
  CHECK(c.refusal("nll_loss_forward", loss({5, 3}, {4}, Argument(), 1)) ==
        "nll_loss takes one target per sample: there are 5 samples and 4 targets | give a target "
        "of shape [5]");
  CHECK(c.refusal("nll_loss_forward", loss({5, 3}, {5}, c.x({2}), 1)) ==
        "nll_loss takes one weight per class: there are 3 classes and 2 weights | give a weight of "
        "shape [3]");
  CHECK(c.refusal("nll_loss_forward", loss({5, 3}, {5}, Argument(), 7)) ==
        "there is no reduction 7 | pass 0 (none), 1 (mean) or 2 (sum)");
}

TEST_CASE("convolutions: sizes of the output, and each argument that does not fit") {
  Described c;
  struct Given {
    Dims input = {1, 4, 8}, weight = {6, 4, 3};
    std::optional<Dims> bias = std::nullopt;
    Dims stride = {1}, padding = {0}, dilation = {1};
    bool transposed = false;
    std::int64_t groups = 1;
  };
  const auto args = [&](const Given& given) {
    return Arguments{
        c.x(given.input), c.x(given.weight), given.bias ? c.x(*given.bias) : Argument(),
        given.stride,     given.padding,     given.dilation,
        given.transposed, Dims{0},           given.groups};
  };
  const auto said = [&](const Given& given) { return c.refusal("convolution", args(given)); };
  CHECK(c.results("convolution", args({})) == "f32[1, 6, 6]");
  CHECK(c.results("convolution", args({.stride = {2}, .padding = {1}})) == "f32[1, 6, 4]");
  CHECK(c.results("convolution", args({.dilation = {2}})) == "f32[1, 6, 4]");
  CHECK(c.results("convolution", args({.input = {0, 4, 8}})) == "f32[0, 6, 6]");
  CHECK(c.results("convolution", args({.weight = {6, 2, 3}, .groups = 2})) == "f32[1, 6, 6]");
  CHECK(c.results("convolution", args({.weight = {4, 5, 3}, .stride = {2}, .transposed = true})) ==
        "f32[1, 5, 17]");
  CHECK(said({.weight = {6, 3, 3}}) ==
        "aten::convolution: the input has 4 channels, the weight is for 3 with groups=1 | give a "
        "weight of shape [out, 4 / groups, ...]");
  CHECK(said({.weight = {5, 5, 3}, .transposed = true}) ==
        "aten::convolution: the input has 4 channels, the weight is for 5 with groups=1 | give a "
        "weight of shape [4, out / groups, ...]");
  CHECK(said({.weight = {5, 2, 3}, .groups = 2}) ==
        "aten::convolution: dim 0 of the weight has size 5, which groups=2 does not divide | pass "
        "a divisor of 5 as groups");
  CHECK(said({.groups = 0}) ==
        "aten::convolution: groups is 0; it must be at least 1 | leave groups out: its default is "
        "1");
  CHECK(said({.weight = {6, 4, 9}}) ==
        "aten::convolution: a window reaches over 9 elements; the padded input has only 8 | use a "
        "smaller kernel or dilation, or more padding");
  CHECK(said({.input = {1, 4, 1}, .weight = {4, 5, 1}, .padding = {2}, .transposed = true}) ==
        "aten::convolution: the output of spatial dim 0 would have size -3 | use less padding, or "
        "more output_padding");
  CHECK(said({.bias = Dims{5}}) ==
        "aten::convolution: the bias has shape [5]; it must have one number per output channel | "
        "give a bias of shape [6]");
  CHECK(said({.stride = {1, 1}}) ==
        "aten::convolution: stride has 2 numbers; it must have one, or one per spatial dim: 1 | "
        "stride=[1] holds for all of them");
  CHECK(said({.padding = {-1}}) ==
        "aten::convolution: padding is -1; it must be from 0 to 2147483647 | leave padding out: "
        "its default is 0");
}

TEST_CASE("normalisation: the last sizes of the input, and parameters of their shape") {
  Described c;
  CHECK(c.results("native_layer_norm", {c.x({2, 3, 4}), Dims{3, 4}, c.x({3, 4}), Argument(),
                                        1e-5}) == "f32[2, 3, 4], f32[2, 1, 1], f32[2, 1, 1]");
  CHECK(c.refusal("native_layer_norm", {c.x({2, 3}), Dims{2}, Argument(), Argument(), 1e-5}) ==
        "the normalized shape [2] is not the end of the input's shape [2, 3] | pass the last sizes "
        "of the input: x.shape[-1:]");
  CHECK(c.refusal("native_layer_norm", {c.x({2, 3}), Dims{3}, c.x({1, 3}), Argument(), 1e-5}) ==
        "aten::native_layer_norm: weight has the shape [1, 3]; it must have the normalized shape | "
        "give it the shape [3]");
}

TEST_CASE("triangles and rolls") {
  Described c;
  CHECK(c.refusal("tril", {c.x({3}), 0}) ==
        "aten::tril takes a tensor of at least two dims, not 1 | x.unsqueeze(0) makes a matrix of "
        "a vector");
  CHECK(c.refusal("roll", {c.x({3}), Dims{1, 2}, Dims{0}}) ==
        "roll: there are 2 shifts for 1 dims; there must be one per dim, or one alone | give one "
        "shift per dim: roll(x, [1, 2], [0, 1]), or "
        "one shift alone: roll(x, 1)");
}

}  // namespace shardlab
