// Gradients of reductions and of ops that move elements against numbers of PyTorch.
#include <doctest/doctest.h>

#include "autograd/autograd.h"
#include "schema/argument.h"
#include "tests/unit/ops/gradient_rows.h"

namespace shardlab {
namespace {

using test::call;
using test::check_gradients;
using test::GradientRow;
using test::kA;
using test::Leaves;
using test::piece;
using test::replica;

const GradientRow kReductions[] = {
    {"sum of a dim",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return call("aten::sum.dim_IntList", {x[0], Dims{0}, true});
     },
     {{1, -2, 1, -2, 1, -2, 1, -2, 1, -2}}},
    {"mean",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) { return call("aten::mean", {x[0]}); },
     {{0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1}}},
    {"mean of the cut dim",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return call("aten::mean.dim", {x[0], Dims{0}});
     },
     {{0.2, -0.4, 0.2, -0.4, 0.2, -0.4, 0.2, -0.4, 0.2, -0.4}}},
    {"mean of the other dim",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return call("aten::mean.dim", {x[0], Dims{-1}, true});
     },
     {{0.5, 0.5, -1, -1, 1.5, 1.5, -2, -2, 2.5, 2.5}}},
    {"amax with ties",
     {{"S(0)", {5, 2}, {3, 1, 3, 0, 1, -1, 3, 2, 0, 2}}},
     [](const Leaves& x) {
       return call("aten::amax", {x[0], Dims{0}});
     },
     {{0.3333333333333333, 0, 0.3333333333333333, 0, 0, 0, 0.3333333333333333, -1, 0, -1}}},
    {"min with ties",
     {{"S(0)", {5, 2}, {3, 1, 3, 0, 1, -1, 3, 2, 0, -1}}},
     [](const Leaves& x) { return call("aten::min", {x[0]}); },
     {{0, 0, 0, 0, 0, 0.5, 0, 0, 0, 0.5}}},
    {"max.dim",
     {{"S(0)", {5, 2}, {3, 1, 2, 0, 1, -1, 5, 2, 0, 4}}},
     [](const Leaves& x) {
       return call("aten::max.dim", {x[0], 1});
     },
     {{1, 0, -2, 0, 3, 0, -4, 0, 0, 5}}},
    {"var",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return call("aten::var.correction", {x[0], Dims{0}, 1});
     },
     {{0.225, 1.5, 0.975, -0.5, -0.275, -1.25, -1.025, -0.75, 0.1, 1}}},
    {"var with correction 3",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return call("aten::var.correction", {x[0], Dims{0}, 3});
     },
     {{0.45, 3, 1.95, -1, -0.55, -2.5, -2.05, -1.5, 0.2, 2}}},
    {"var of everything with correction 0",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return call("aten::var.correction", {x[0], Argument(), 0});
     },
     {{0.06999999999999999, -0.27999999999999997, 0.37000000000000005, 0.12, -0.13, 0.27, -0.43,
       0.17, 0.020000000000000004, -0.18000000000000002}}},
    {"softmax",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return call("aten::_softmax", {x[0], 1, false});
     },
     {{0.37838767555996555, -0.3783876755599656, 1.2117335089474788, -1.211733508947479,
       1.1549294394385714, -1.1549294394385723, 0.6776498959636821, -0.6776498959636812,
       3.7356267315881557, -3.7356267315881557}}},
    {"log_softmax",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return call("aten::_log_softmax", {x[0], 1, false});
     },
     {{1.8519528019683107, -1.8519528019683105, 3.777299861174691, -3.7772998611746913,
       5.119202922022118, -5.119202922022118, 7.047425873177567, -7.047425873177566,
       9.731058578630005, -9.731058578630005}}},
    {"layer_norm",
     {{"S(0)", {5, 2}, kA}, {"R", {2}, {2, -0.5}}, {"R", {2}, {0.25, 1}}},
     [](const Leaves& x) {
       return call("aten::native_layer_norm", {x[0], Dims{2}, x[1], x[2], 0.5});
     },
     {{0.17558299039780523, -0.17558299039780523, 1.1897553803812326, -1.1897553803812322,
       0.9525793444156792, -0.95257934441568, 0.5482024446868419, -0.5482024446868428,
       5.003702332976758, -5.003702332976758},
      {-2.4534924046896913, -2.1571287938507826},
      {25, -30}}},
};

TEST_CASE("V-16 gradients of reductions and normalisations") { check_gradients(kReductions); }

const GradientRow kShapes[] = {
    {"squeeze",
     {{"S(0)", {5, 1, 2}, kA}},
     [](const Leaves& x) {
       return call("aten::squeeze.dim", {x[0], 1});
     },
     {{1, -2, 3, -4, 5, -6, 7, -8, 9, -10}}},
    {"unsqueeze",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return call("aten::unsqueeze", {x[0], -1});
     },
     {{1, -2, 3, -4, 5, -6, 7, -8, 9, -10}}},
    {"permute",
     {{"S(0)", {5, 2, 3}, {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                           16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30}}},
     [](const Leaves& x) {
       return call("aten::permute", {x[0], Dims{1, 2, 0}});
     },
     {{1,   -6, 11,  -16, 21, -26, -2, 7,   -12, 17, -22, 27, 3,   -8, 13,
       -18, 23, -28, -4,  9,  -14, 19, -24, 29,  5,  -10, 15, -20, 25, -30}}},
    {"transpose",
     {{"S(0)", {5, 2, 3}, {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                           16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30}}},
     [](const Leaves& x) {
       return call("aten::transpose.int", {x[0], 1, 2});
     },
     {{1,   3,   5,   -2, -4, -6, 7,   9,   11,  -8, -10, -12, 13,  15,  17,
       -14, -16, -18, 19, 21, 23, -20, -22, -24, 25, 27,  29,  -26, -28, -30}}},
    {"expand",
     {{"R", {2, 1}, {1, 2}}},
     [](const Leaves& x) {
       return call("aten::expand", {x[0], Dims{3, 2, 2}});
     },
     {{-3, -3}}},
    {"slice with a step",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return call("aten::slice.Tensor", {x[0], 0, 1, 5, 2});
     },
     {{0, 0, 1, -2, 0, 0, 3, -4, 0, 0}}},
    {"select",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return call("aten::select.int", {x[0], 0, -2});
     },
     {{0, 0, 0, 0, 0, 0, 1, -2, 0, 0}}},
    {"cat",
     {{"S(0)", {3}, {1, 2, 3}}, {"R", {2}, {4, 5}}, {"S(0)", {1}, {6}}},
     [](const Leaves& x) {
       return call("aten::cat", {ArgumentList{x[0], x[1], x[2]}, 0});
     },
     {{1, -2, 3}, {-4, 5}, {-6}}},
    {"stack",
     {{"S(0)", {3}, {1, 2, 3}}, {"R", {3}, {4, 5, 6}}},
     [](const Leaves& x) {
       return call("aten::stack", {ArgumentList{x[0], x[1]}, 1});
     },
     {{1, 3, 5}, {-2, -4, -6}}},
    {"the second piece of a split",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return piece("aten::split_with_sizes", {x[0], Dims{1, 3, 1}, 0}, 1);
     },
     {{0, 0, 1, -2, 3, -4, 5, -6, 0, 0}}},
    {"one of unbind",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return piece("aten::unbind.int", {x[0], 1}, 1);
     },
     {{0, 1, 0, -2, 0, 3, 0, -4, 0, 5}}},
    {"reshape",
     {{"R", {5, 2}, kA}},
     [](const Leaves& x) {
       return call("aten::reshape", {x[0], Dims{2, 5}});
     },
     {{1, -2, 3, -4, 5, -6, 7, -8, 9, -10}}},
    {"t",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) { return call("aten::t", {x[0]}); },
     {{1, -6, -2, 7, 3, -8, -4, 9, 5, -10}}},
    {"tril",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return call("aten::tril", {x[0], -1});
     },
     {{0, 0, 3, 0, 5, -6, 7, -8, 9, -10}}},
    {"triu",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return call("aten::triu", {x[0], 1});
     },
     {{0, -2, 0, 0, 0, 0, 0, 0, 0, 0}}},
    {"flip",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return call("aten::flip", {x[0], Dims{0}});
     },
     {{9, -10, 7, -8, 5, -6, 3, -4, 1, -2}}},
    {"roll",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return call("aten::roll", {x[0], Dims{2}, Dims{0}});
     },
     {{5, -6, 7, -8, 9, -10, 1, -2, 3, -4}}},
    {"as_strided that exchanges the dims",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return call("aten::as_strided", {x[0], Dims{2, 5}, Dims{1, 2}});
     },
     {{1, -6, -2, 7, 3, -8, -4, 9, 5, -10}}},
    {"gather",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return call("aten::gather", {x[0], 0, replica({2, 2}, {4, 0, 4, 2})});
     },
     {{0, -2, 0, 0, 0, -4, 0, 0, 4, 0}}},
    {"scatter_add",
     {{"S(0)", {5, 2}, kA}, {"R", {2, 2}, {1, 2, 3, 4}}},
     [](const Leaves& x) {
       return call("aten::scatter_add", {x[0], 0, replica({2, 2}, {4, 0, 4, 2}), x[1]});
     },
     {{1, -2, 3, -4, 5, -6, 7, -8, 9, -10}, {9, -2, 9, -6}}},
    {"sort",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return piece("aten::sort", {x[0], 0, true});
     },
     {{3, -10, 1, -6, 7, -2, 9, -4, 5, -8}}},
    {"topk",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return piece("aten::topk", {x[0], 2, 0});
     },
     {{3, 0, 1, 0, 0, -2, 0, -4, 0, 0}}},
};

TEST_CASE("V-17 gradients of views, slices and chosen elements") { check_gradients(kShapes); }

TEST_CASE("V-17 as_strided of a plain tensor: elements that are taken several times add up") {
  using Values = std::vector<double>;
  test::OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const auto gradient = [](const Dims& shape, bool turned, const Dims& size, const Dims& stride) {
      const DTensor leaf =
          test::plain(shape, Values(static_cast<std::size_t>(product(shape)), 1.5), DType::kF64);
      require_grad(leaf);
      const DTensor x = turned ? call("aten::t", {leaf}) : leaf;
      const DTensor y = call("aten::as_strided", {x, size, stride});
      const Values weights{1, -2, 3, -4};
      const Values used(weights.begin(), weights.begin() + y.numel());
      backward(test::sum(test::times(y, test::plain(y.shape(), used, DType::kF64))));
      return test::whole(grad_of(leaf));
    };
    CHECK(gradient({3}, false, {2, 2}, {1, 1}) == Values{1, 1, -4});
    CHECK(gradient({3}, false, {2, 2}, {0, 1}) == Values{4, -6, 0});
    CHECK(gradient({5}, false, {0, 2}, {1, 1}) == Values{0, 0, 0, 0, 0});
    CHECK(gradient({2, 3}, true, {2, 2}, {1, 1}) == Values{1, 1, -4, 0, 0, 0});
  });
}

// Numbers of PyTorch 2.15: the offset counts from the beginning of the storage, also of a slice.
TEST_CASE("V-17 as_strided with an offset, of slices and of every second column") {
  using Values = std::vector<double>;
  test::OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const auto gradient = [](const auto& slice, const Dims& size, const Dims& stride,
                             const Argument& offset) {
      const DTensor leaf = test::plain({3, 4}, test::counted(12), DType::kF64);
      require_grad(leaf);
      const DTensor y = call("aten::as_strided", {slice(leaf), size, stride, offset});
      const DTensor weights = test::plain({2, 2}, {1, -2, 3, -4}, DType::kF64);
      backward(test::sum(test::times(y, weights)));
      return test::whole(grad_of(leaf));
    };
    const auto whole = [](const DTensor& x) { return x; };
    const auto below = [](const DTensor& x) { return call("aten::slice.Tensor", {x, 0, 1, 3, 1}); };
    const auto second = [](const DTensor& x) {
      return call("aten::slice.Tensor", {x, 1, 1, 4, 2});
    };
    CHECK(gradient(whole, {2, 2}, {1, 2}, 5) == Values{0, 0, 0, 0, 0, 1, 3, -2, -4, 0, 0, 0});
    CHECK(gradient(below, {2, 2}, {4, 1}, {}) == Values{0, 0, 0, 0, 1, -2, 0, 0, 3, -4, 0, 0});
    CHECK(gradient(below, {2, 2}, {4, 1}, 2) == Values{0, 0, 0, 0, 0, 0, 3, -4, 0, 0, 0, 0});
    CHECK(gradient(second, {2, 2}, {1, 1}, {}) == Values{0, 1, 0, -4, 0, 0, 0, 0, 0, 0, 0, 0});
  });
}

// Numbers of PyTorch 2.15 without a mesh.
TEST_CASE("V-17 as_strided on a mesh of one rank, which holds the whole however it is cut") {
  for (const char* placement : {"R", "S(0)", "S(1)"}) {
    CAPTURE(placement);
    test::OpMesh mesh({1});
    mesh.run([&](RankContext&) {
      const DTensor x = mesh.place(placement, {4, 6}, test::counted(24));
      require_grad(x);
      const DTensor y = call("aten::as_strided", {x, Dims{2, 3}, Dims{1, 2}, 1});
      CHECK(y.spec()->placement(0).is_replicate());
      CHECK(test::whole(y) == std::vector<double>{1, 3, 5, 2, 4, 6});
      const DTensor weights = mesh.place("R", {2, 3}, {1, 2, 3, 4, 5, 6});
      backward(test::sum(test::times(y, weights)));
      std::vector<double> wanted{0, 1, 4, 2, 5, 3, 6};
      wanted.resize(24);
      CHECK(test::whole(grad_of(x)) == wanted);
    });
  }
}

}  // namespace
}  // namespace shardlab
