// Gradients of complex views, lists of tensors and attention against numbers of PyTorch.
#include <doctest/doctest.h>

#include <limits>

#include "tests/unit/ops/gradient_rows.h"

namespace shardlab {
namespace {

using test::call;
using test::check_gradients;
using test::GradientRow;
using test::kA;
using test::Leaves;
using test::piece;

const std::vector<double> kTied{1, 2, 3, std::numeric_limits<double>::quiet_NaN(), 2};

const GradientRow kViewsAndLists[] = {
    {"view_as_complex and view_as_real around a square",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       const DTensor z = call("aten::view_as_complex", {x[0]});
       return call("aten::view_as_real", {call("aten::mul.Tensor", {z, z})});
     },
     {{6, 0.5, 6, -20.5, -23, -9, -44, 18, 19.5, 8.5}}},
    {"_foreach_maximum beside a number, with a tie",
     {{"S(0)", {5}, kTied}},
     [](const Leaves& x) {
       return piece("aten::_foreach_maximum.Scalar", {ArgumentList{x[0]}, 2.0});
     },
     {{0, -1, 3, -4, 2.5}}},
    {"_foreach_minimum beside numbers, with a tie",
     {{"S(0)", {5}, kTied}},
     [](const Leaves& x) {
       return piece("aten::_foreach_minimum.ScalarList", {ArgumentList{x[0]}, ArgumentList{2.0}});
     },
     {{1, -1, 0, -4, 2.5}}},
    {"_foreach_clamp_min, which has none at its bound",
     {{"S(0)", {5}, kTied}},
     [](const Leaves& x) {
       return piece("aten::_foreach_clamp_min.Scalar", {ArgumentList{x[0]}, 2.0});
     },
     {{0, 0, 3, 0, 0}}},
};

TEST_CASE("V-18 gradients of complex views and of lists beside numbers") {
  check_gradients(kViewsAndLists);
}

const std::vector<double> kQueries{-1.25, 0.5,  -0.5,  1.25,  0.25, -0.75, 1,    0,
                                   -1,    0.75, -0.25, -1.25, 0.5,  -0.5,  1.25, 0.25};
const std::vector<double> kKeys{-1.5, -0.25, 1, -1, 0.25, 1.5, -0.5, 0.75, -1.25, 0, 1.25, -0.75};
const std::vector<double> kValues{-1.5, 0, 1.5, -0.5, 1, -1, 0.5, -1.5, 0, 1.5, -0.5, 1};

GradientRow with_two_heads_of_keys(std::string_view op, Arguments rest) {
  const auto result = [op, rest](const Leaves& x) {
    Arguments args{x[0], x[1], x[2]};
    for (const Argument& argument : rest) args.push_back(argument);
    return piece(op, args);
  };
  return {op,
          {{"S(1)", {1, 4, 2, 2}, kQueries},
           {"S(1)", {1, 2, 3, 2}, kKeys},
           {"S(1)", {1, 2, 3, 2}, kValues}},
          result,
          {{1.2735554178598543, 0.9375288002369725, 2.8554485124264724, 2.5153480094902863,
            5.767797433852328, -0.583747160844194, 3.4118989667698796, 0.46093689386328696,
            3.003324502158672, 4.950964049392208, -2.4065461899748484, 4.680292122547734,
            -5.9790409803162206, 6.980754744066989, -9.022979501416582, 8.73128904226362},
           {-0.5273865170453504, -0.48152448741016185, 1.2150045224873927, -1.2832367718586821,
            -0.6876180054420432, 1.7647612592688442, 3.3666376906212694, -1.688576111733992,
            4.31132674520263, -1.2157774133428156, -7.6779644358239, 2.90435352507681},
           {3.4540699822985594, -4.753672632047762, 7.210820889733365, -8.493871793039352,
            5.3351091279680745, -6.752455574912886, 11.289547671623385, -12.288649248311941,
            12.458919075952132, -13.61514497399395, 24.25153325242448, -26.096205777694106}}};
}

TEST_CASE("V-18 heads of keys stand for several of queries in every form of attention") {
  const Argument none;
  const GradientRow rows[] = {
      with_two_heads_of_keys("aten::_scaled_dot_product_flash_attention", {}),
      with_two_heads_of_keys("aten::_scaled_dot_product_flash_attention_for_cpu", {}),
      with_two_heads_of_keys("aten::_scaled_dot_product_efficient_attention", {none, true}),
      with_two_heads_of_keys("aten::_scaled_dot_product_cudnn_attention", {none, true}),
      with_two_heads_of_keys("aten::scaled_dot_product_attention", {none, 0.0, false, none, true}),
  };
  check_gradients(rows);
}

}  // namespace
}  // namespace shardlab
