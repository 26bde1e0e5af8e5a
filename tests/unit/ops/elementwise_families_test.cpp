// Gradients of foreach ops, scatters, losses and activations, against numbers of PyTorch.
#include <doctest/doctest.h>

#include <limits>

#include "dispatch/all_ops.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"
#include "tests/unit/ops/gradient_rows.h"

namespace shardlab {
namespace {

using test::call;
using test::check_gradients;
using test::GradientRow;
using test::kA;
using test::kB;
using test::kPositive;
using test::Leaves;
using test::piece;
using test::replica;
using test::times;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

const GradientRow kFamilies[] = {
    {"an element of _foreach_addcmul",
     {{"S(0)", {5, 2}, kA}, {"S(0)", {5, 2}, kB}, {"R", {2}, {0.5, -1.5}}},
     [](const Leaves& x) {
       return piece("aten::_foreach_addcmul.Scalar",
                    {ArgumentList{x[0]}, ArgumentList{x[1]}, ArgumentList{x[2]}, 0.5});
     },
     {{1, -2, 3, -4, 5, -6, 7, -8, 9, -10},
      {0.25, 1.5, 0.75, 3, 1.25, 4.5, 1.75, 6, 2.25, 7.5},
      {-5.625, -4}}},
    {"an element of _foreach_lerp",
     {{"S(0)", {5, 2}, kA}, {"S(0)", {5, 2}, kB}},
     [](const Leaves& x) {
       return piece("aten::_foreach_lerp.Scalar", {ArgumentList{x[0]}, ArgumentList{x[1]}, 0.25});
     },
     {{0.75, -1.5, 2.25, -3, 3.75, -4.5, 5.25, -6, 6.75, -7.5},
      {0.25, -0.5, 0.75, -1, 1.25, -1.5, 1.75, -2, 2.25, -2.5}}},
    {"an element of _foreach_maximum beside a number",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return piece("aten::_foreach_maximum.ScalarList", {ArgumentList{x[0]}, ArgumentList{0.6}});
     },
     {{0, 0, 3, -4, 0, -6, 0, -8, 0, 0}}},
    {"an element of _foreach_pow of numbers",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return piece("aten::_foreach_pow.ScalarAndTensor", {2.0, ArgumentList{x[0]}});
     },
     {{0.9802581434685472, -0.5828649793760772, 8.317766166719343, -4.662919835008617,
       2.450645358671368, -11.763097721622566, 1.2130075659799042, -11.090354888959125,
       7.4186600297936645, -4.121477794329814}}},
    {"an element of _foreach_norm",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return piece("aten::_foreach_norm.Scalar", {ArgumentList{x[0]}, 3});
     },
     {{0.03052571313475552, -0.19078570709222198, 0.4884114101560883, 0.06868285455319992,
       -0.03052571313475552, 0.27473141821279967, -0.4884114101560883, 0.12210285253902207,
       0.00763142828368888, -0.06868285455319992}}},
    {"logsumexp along the cut dim",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return call("aten::logsumexp", {x[0], Dims{0}});
     },
     {{0.149021207254571, -0.056869647087488935, 0.6678667158013943, -0.4202130126558438,
       0.05482183844750527, -0.8895909547732834, 0.012232405592423197, -0.539564188673031,
       0.11605783290410601, -0.09376219681035261}}},
    {"logsumexp, dims kept",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return call("aten::logsumexp", {x[0], Dims{1}, true});
     },
     {{0.8519528019683106, 0.14804719803168948, -1.5545997223493826, -0.4454002776506178,
       0.3576087660663526, 2.642391233933647, -0.18970349271026712, -3.810296507289733,
       3.6552928931500244, 1.3447071068499756}}},
    {"constant_pad_nd along the cut dim",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return call("aten::constant_pad_nd", {x[0], Dims{0, 1, -1, 1}, 2.0});
     },
     {{0, 0, 1, -2, -4, 5, 7, -8, -10, 11}}},
    {"diagonal",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return call("aten::diagonal", {x[0], -1});
     },
     {{0, 0, 1, 0, 0, -2, 0, 0, 0, 0}}},
    {"diag_embed",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return call("aten::diag_embed", {x[0], 1});
     },
     {{-2, -6, 11, 15, -20, -24, 29, 33, -38, -42}}},
    {"index_add with alpha",
     {{"S(0)", {5, 2}, kA}, {"S(0)", {3, 2}, {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}}},
     [](const Leaves& x) {
       return call("aten::index_add", {x[0], 0, replica({3}, {4, 0, 4}), x[1], 2});
     },
     {{1, -2, 3, -4, 5, -6, 7, -8, 9, -10}, {18, -20, 2, -4, 18, -20}}},
    {"select_scatter",
     {{"S(0)", {5, 2}, kA}, {"R", {2}, {3.0, 4.0}}},
     [](const Leaves& x) {
       return call("aten::select_scatter", {x[0], x[1], 0, 3});
     },
     {{1, -2, 3, -4, 5, -6, 0, 0, 9, -10}, {7, -8}}},
    {"slice_scatter",
     {{"S(0)", {5, 2}, kA}, {"S(0)", {2, 2}, {3.0, 4.0, 5.0, 6.0}}},
     [](const Leaves& x) {
       return call("aten::slice_scatter", {x[0], x[1], 0, 1, 4, 2});
     },
     {{1, -2, 0, 0, 5, -6, 0, 0, 9, -10}, {3, -4, 7, -8}}},
    {"huber_loss of unequal shares",
     {{"S(0)", {5, 2}, kA}, {"S(0)", {5, 2}, kB}},
     [](const Leaves& x) {
       return call("aten::huber_loss", {x[0], x[1], 1, 0.5});
     },
     {{-0.05, -0.05, 0.05, 0, -0.05, 0.05, -0.05, 0, 0.05, -0.05},
      {0.05, 0.05, -0.05, 0, 0.05, -0.05, 0.05, 0, -0.05, 0.05}}},
    {"smooth_l1_loss of unequal shares",
     {{"S(0)", {5, 2}, kA}, {"S(0)", {5, 2}, kB}},
     [](const Leaves& x) {
       return call("aten::smooth_l1_loss", {x[0], x[1], 1, 2.0});
     },
     {{-0.05, -0.08750000000000001, 0.1, 0, -0.1, 0.1, -0.08750000000000001, 0, 0.1, -0.0625},
      {0.05, 0.08750000000000001, -0.1, 0, 0.1, -0.1, 0.08750000000000001, 0, -0.1, 0.0625}}},
    {"binary_cross_entropy with weights",
     {{"S(0)", {5, 2}, {0.5, 0.25, 0.75, 0.125, 0.9, 0.3, 0.6, 0.8, 0.1, 0.4}},
      {"S(0)", {5, 2}, {0.4, 0.1, 0.8, 0.6, 0.3, 0.9, 0.125, 0.75, 0.25, 0.5}}},
     [](const Leaves& x) {
       return call("aten::binary_cross_entropy", {x[0], x[1], replica({2}, {2, 0.5}, DType::kF64)});
     },
     {{0.07999999999999999, 0.039999999999999994, -0.05333333333333338, -0.21714285714285714,
       1.3333333333333337, -0.14285714285714288, 0.39583333333333337, 0.015625000000000017,
       -0.3333333333333333, -0.02083333333333333},
      {-0, 0.05493061443340549, -0.21972245773362195, 0.09729550745276568, -0.4394449154672439,
       0.04236489301936018, -0.08109302162163284, -0.06931471805599454, 0.43944491546724385,
       0.020273255405408214}}},
    {"binary_cross_entropy_with_logits",
     {{"S(0)", {5, 2}, kA},
      {"S(0)", {5, 2}, {0.5, 0.25, 0.75, 0.125, 0.9, 0.3, 0.6, 0.8, 0.1, 0.4}}},
     [](const Leaves& x) {
       return call("aten::binary_cross_entropy_with_logits",
                   {x[0], x[1], Argument(), replica({2}, {2, 0.5}, DType::kF64), 2});
     },
     {{-0.06631100319721805, 0.06986262147214523, 0.04139488646129408, 0.5742300304769309,
       -1.0826727292835239, 0.5449383047645969, -1.0092753247646118, 0.038635147178002816,
       0.41839415097437777, 0.056657040659685576},
      {-0.025923015819893314, 0.4990354593273136, -1.8730719889570278, -0.9434355030574499,
       1.4740769841801067, -1.6007066389913762, 4.126928011042973, -1.1566308437591113,
       0.32593941987884356, 0.18156449694255}}},
    {"xlogy",
     {{"S(0)", {5, 2}, kA}, {"S(0)", {5, 2}, kPositive}},
     [](const Leaves& x) {
       return call("aten::xlogy.Tensor", {x[0], x[1]});
     },
     {{-0.6931471805599453, -0.44628710262841953, 2.0794415416798357, 1.1507282898071236,
       5.493061443340549, -2.4327906486489863, -9.704060527839234, -0, 8.246616586867397,
       -5.596157879354227},
      {1, 2, 3, -4, -0.8333333333333334, -6, -56, -8, 0.9, 4.285714285714286}}},
    {"hypot",
     {{"S(0)", {5, 2}, kA}, {"S(0)", {5, 2}, kB}},
     [](const Leaves& x) {
       return call("aten::hypot", {x[0], x[1]});
     },
     {{0.31622776601683794, 1.8569533817705188, 2.6832815729997477, -2.8284271247461903,
       -1.212678125181665, -4.242640687119286, -6.945945136995674, -5.65685424949238,
       1.116312611302876, 8.320502943378438},
      {0.9486832980505138, -0.7427813527082074, -1.3416407864998738, -2.8284271247461903,
       4.85071250072666, 4.242640687119286, -0.8682431421244593, -5.65685424949238,
       -8.930500890423009, -5.547001962252292}}},
    {"logaddexp2",
     {{"S(0)", {5, 2}, kA}, {"S(0)", {5, 2}, kB}},
     [](const Leaves& x) {
       return call("aten::logaddexp2", {x[0], x[1]});
     },
     {{0.3333333333333333, -0.45833865893097914, 2.6666666666666665, -2, 0.7511055241116742,
       -5.333333333333333, 1.604185306258427, -4, 7.436639190742365, -2.9599685885717726},
      {0.6666666666666666, -1.541661341069021, 0.3333333333333333, -2, 4.248894475888325,
       -0.6666666666666666, 5.395814693741573, -4, 1.563360809257635, -7.040031411428228}}},
    {"elu",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return call("aten::elu", {x[0], 2.0, 0.5, 3.0});
     },
     {{0.5, -0.14110647513605465, 1.5, -2, 3.346952402226447, -3, 0.05205379570999353, -4, 4.5,
       -3.16197673685593}}},
    {"mish",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) { return call("aten::mish", {x[0]}); },
     {{0.8864243753577272, 0.029395124946038936, 3.207953802838469, -3.943033422866752,
       1.4475533895675614, -6.530927910047085, -0.7584856469427573, -8.392289760798338,
       6.787554009485335, -1.6074574049983865}}},
    {"hardswish",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) { return call("aten::hardswish", {x[0]}); },
     {{0.6666666666666666, -0.16666666666666663, 3.4999999999999996, -3, 1.666666666666667, -6,
       -1.1666666666666665, -6.666666666666666, 5.25, -2.5}}},
    {"fmax",
     {{"S(0)", {5, 2}, kA}, {"S(0)", {5, 2}, kB}},
     [](const Leaves& x) { return call("aten::fmax", {x[0], x[1]}); },
     {{0, 0, 3, -2, 0, -6, 0, -4, 9, 0}, {1, -2, 0, -2, 5, 0, 7, -4, 0, -10}}},
    {"elu of what is no number",
     {{"S(0)", {5}, {kNan, 0, -0.5, 5, 2}}},
     [](const Leaves& x) { return call("aten::elu", {x[0], 1.0, 1.0, 1.0}); },
     {{1, -2, 1.8195919791379003, -4, 5}}},
    {"hardtanh of what is no number, and at its bounds",
     {{"S(0)", {5}, {kNan, 1, -1, 5, 0.5}}},
     [](const Leaves& x) {
       return call("aten::hardtanh", {x[0], -1.0, 1.0});
     },
     {{1, 0, 0, 0, 5}}},
    {"relu6 of what is no number, and at its bounds",
     {{"S(0)", {5}, {kNan, 0, 6, 5, 7}}},
     [](const Leaves& x) { return call("aten::relu6", {x[0]}); },
     {{1, 0, 0, -4, 0}}},
    {"hardswish of what is no number, and at its bounds",
     {{"S(0)", {5}, {kNan, 3, -3, 5, 0}}},
     [](const Leaves& x) { return call("aten::hardswish", {x[0]}); },
     {{1, -2, 0, -4, 2.5}}},
    {"sinc where the square is too small for a number",
     {{"S(0)", {5}, {1e-170, 0, 0.5, 1, -1e-200}}},
     [](const Leaves& x) { return call("aten::sinc", {x[0]}); },
     {{0, 0, -3.8197186342054876, 4, 0}}},
    {"xlogy where no gradient flows, and at zeros",
     {{"S(0)", {5}, {1, 0, 0, 2, 3}}, {"S(0)", {5}, {0, 0, kNan, 2, 1}}},
     [](const Leaves& x) {
       return times(call("aten::xlogy.Tensor", {x[0], x[1]}),
                    replica({5}, {0, 1, 0, 1, 1}, DType::kF64));
     },
     {{0, 0, kNan, -2.772588722239781, 0}, {kNan, kNan, kNan, -4, 15}}},
    {"copysign under an infinite gradient",
     {{"S(0)", {5}, {1, 0, -2, 3, 4}}, {"S(0)", {5}, {-1, 1, 1, -0.0, 2}}},
     [](const Leaves& x) {
       return times(call("aten::copysign.Tensor", {x[0], x[1]}),
                    replica({5}, {kInfinity, 1, 1, 1, 1}, DType::kF64));
     },
     {{-kInfinity, 0, -3, 4, 5}, {0, 0, 0, 0, 0}}},
    {"masked_fill by a tensor, beside a gradient that is no number",
     {{"S(0)", {5}, {1, 2, 3, 4, 5}}, {"R", {}, {0.25}}},
     [](const Leaves& x) {
       return times(call("aten::masked_fill.Tensor",
                         {x[0], replica({5}, {1, 0, 1, 0, 1}, DType::kBool), x[1]}),
                    replica({5}, {1, kNan, 2, 1, 1}, DType::kF64));
     },
     {{0, kNan, 0, -4, 0}, {12}}},
    {"mse_loss of unequal shares",
     {{"S(0)", {5}, {1, 2, 3, 4, 5}}, {"S(0)", {5}, {2, 2, 1, 0, 9}}},
     [](const Leaves& x) {
       return call("aten::mse_loss", {x[0], x[1]});
     },
     {{-0.4, 0, 0.8, 1.6, -1.6}, {0.4, 0, -0.8, -1.6, 1.6}}},
};

TEST_CASE("O-15 gradients of list elements, scatters, losses and activations") {
  check_gradients(kFamilies);
}

TEST_CASE("O-15 a foreach op is derived from the op on one tensor that it does to each element") {
  OpRegistry registry;
  register_all_ops(registry);
  const auto element = [&](const char* name) { return registry.at(name).base->name(); };
  CHECK(element("aten::_foreach_add_.ScalarList") == "aten::add_.Scalar");
  CHECK(element("aten::_foreach_addcmul.Scalar") == "aten::addcmul");
  CHECK(element("aten::_foreach_pow.ScalarAndTensor") == "aten::pow.Scalar");
  CHECK(element("aten::_foreach_maximum.List") == "aten::maximum");
  CHECK(element("aten::_foreach_maximum_.Scalar") == "aten::clamp_min_");
  CHECK(element("aten::_foreach_norm.Scalar") == "aten::linalg_vector_norm");
  CHECK(element("aten::_foreach_copy_") == "aten::copy_");
  // Its numbers are elements of a tensor, which no op on one tensor takes.
  CHECK(registry.find("aten::_foreach_addcmul.Tensor") == nullptr);
}

TEST_CASE("calls of new ops that PyTorch refuses are refused with a fix") {
  test::OpMesh mesh({4});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {5, 2}, test::kA);
    const DTensor whole = mesh.place("S(0)", {5, 2}, test::kA, DType::kI64);
    const DTensor y = mesh.place("S(0)", {5, 2}, test::kPositive, DType::kF64);
    const auto fix = [](std::string_view op, Arguments args) -> std::string {
      try {
        call(op, std::move(args));
      } catch (const Error& error) {
        const std::string* said = error.find("fix");
        return error.kind() == ErrorKind::kValue && said != nullptr ? *said : error.summary();
      }
      return "not refused";
    };
    CHECK(fix("aten::celu", {x, 0.0}) == "give another alpha; relu is its limit");
    CHECK(fix("aten::softshrink", {x, -1.0}) == "give a lambd of at least 0");
    CHECK(fix("aten::huber_loss", {x, x, 1, 0.0}) == "give a delta above 0");
    CHECK(fix("aten::smooth_l1_loss", {x, x, 1, -1.0}) == "give a beta of at least 0");
    CHECK(fix("aten::huber_loss", {whole, whole}) == "cast it first: x.float()");
    CHECK(fix("aten::mse_loss", {whole, whole, 2}) == "cast it first: x.float()");
    CHECK(fix("aten::binary_cross_entropy", {x, y}) == "cast the target: target.to(x.dtype)");
    CHECK(fix("aten::trace", {mesh.place("R", {2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8})}) ==
          "x.diagonal(0, -2, -1).sum(-1) adds up those of many matrices");
    // On one device PyTorch fails here, and its DTensor on each piece.
    CHECK(fix("aten::logsumexp", {x, Dims{}}) == "name the dims: torch.logsumexp(x, dim=(0, 1))");
  });
}

TEST_CASE(
    "D-48 an out= tensor of another shape takes the result's where programs compute it, too") {
  test::OpMesh mesh({4});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("R", {2}, {1, 2});
    const DTensor out = mesh.place("R", {3}, {7, 7, 7});
    call("aten::constant_pad_nd.out", {x, Dims{1, 1}, 0.5, out});
    CHECK(test::whole(out) == std::vector<double>{0.5, 1, 2, 0.5});
    const DTensor kept = mesh.place("R", {2}, {7, 7});
    call("aten::hypot.out", {x, mesh.place("R", {2}, {0, 0}), kept});
    CHECK(test::whole(kept) == std::vector<double>{1, 2});
  });
}

TEST_CASE("floor_divide has no gradient, as in PyTorch") {
  test::OpMesh mesh({4});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {5}, {5, -5, 2, 0, 7});
    CHECK(test::whole(call("aten::floor_divide.Scalar", {x, 2})) ==
          std::vector<double>{2, -3, 1, 0, 3});
    CHECK(test::whole(call("aten::floor_divide", {x, mesh.place("R", {}, {-2})})) ==
          std::vector<double>{-3, 2, -1, 0, -4});
    CHECK_FALSE(all_ops().at("aten::floor_divide").gradient);
    CHECK_FALSE(all_ops().at("aten::floor_divide").gradient_reads().everything);
  });
}

TEST_CASE("X-13 index_add_ keeps the mean of its terms, and is refused where self would move") {
  test::OpMesh mesh({4});
  mesh.run([&](RankContext&) {
    const std::vector<double> rows{0, 1, 2, 3, 4, 5, 6, 7};
    const auto add = [&](const char* placement) {
      const DTensor x = mesh.place(placement, {4, 2}, rows);
      const DTensor source = mesh.place("R", {1, 2}, {1, 1});
      const DTensor row = mesh.place("R", {1}, {2}, DType::kI64);
      call("aten::index_add_", {x, 0, row, source, 1});
      return x;
    };
    const DTensor mean = add("P(avg)");
    CHECK(type_string(mean) == "f32[4, 2]{avg:m0}");
    CHECK(test::whole(mean) == std::vector<double>{0, 1, 2, 3, 5, 6, 6, 7});
    for (const char* placement : {"S(0)", "P(max)"}) {
      CHECK(test::kind_of([&] { add(placement); }) == ErrorKind::kRuntime);
    }
  });
}

}  // namespace
}  // namespace shardlab
