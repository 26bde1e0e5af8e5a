// Gradients of elementwise functions, products and losses against numbers of PyTorch.
#include <doctest/doctest.h>

#include <limits>

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
using test::replica;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const std::vector<double> kSigns{3, -4, 0, 0, 1, 2, -1, 2, 2, 2};

const GradientRow kPointwise[] = {
    {"sub with alpha, a row broadcast",
     {{"S(0)", {5, 2}, kA}, {"R", {1, 2}, {1.5, -0.5}}},
     [](const Leaves& x) {
       return call("aten::sub.Tensor", {x[0], x[1], 2});
     },
     {{1, -2, 3, -4, 5, -6, 7, -8, 9, -10}, {-50, 60}}},
    {"add with alpha, a vector broadcast",
     {{"S(0)", {5, 2}, kA}, {"R", {2}, {1.5, -0.5}}},
     [](const Leaves& x) {
       return call("aten::add.Tensor", {x[0], x[1], 3});
     },
     {{1, -2, 3, -4, 5, -6, 7, -8, 9, -10}, {75, -90}}},
    {"mul by a column",
     {{"S(0)", {5, 2}, kA}, {"S(0)", {5, 1}, {1, -2, 0.5, 3, -1.5}}},
     [](const Leaves& x) {
       return call("aten::mul.Tensor", {x[0], x[1]});
     },
     {{1, -2, -6, 8, 2.5, -3, 21, -24, -13.5, 15}, {3, 3, -11.5, -22, 9.75}}},
    {"div",
     {{"S(0)", {5, 2}, kA}, {"S(0)", {5, 2}, kB}},
     [](const Leaves& x) {
       return call("aten::div.Tensor", {x[0], x[1]});
     },
     {{0.6666666666666666, -4, -3, -5.333333333333333, 2.5, 4, -28, -8, -4.5, -20},
      {-0.2222222222222222, -10, -6, 5.333333333333333, 0.625, 4, 224, 8, -0.5625, -30}}},
    {"maximum with ties",
     {{"S(0)", {5}, {1, 2, 3, 4, 5}}, {"S(0)", {5}, {1, 3, 2, 4, 0}}},
     [](const Leaves& x) {
       return call("aten::maximum", {x[0], x[1]});
     },
     {{0.5, 0, 3, -2, 5}, {0.5, -2, 0, -2, 0}}},
    {"minimum with ties",
     {{"S(0)", {5}, {1, 2, 3, 4, 5}}, {"S(0)", {5}, {1, 3, 2, 4, 0}}},
     [](const Leaves& x) {
       return call("aten::minimum", {x[0], x[1]});
     },
     {{0.5, -2, 0, -2, 0}, {0.5, 0, 3, -2, 5}}},
    {"maximum beside NaN",
     {{"S(0)", {3}, {1, kNan, 2}}, {"S(0)", {3}, {kNan, 1, 3}}},
     [](const Leaves& x) {
       return call("aten::maximum", {x[0], x[1]});
     },
     {{1, -2, 0}, {1, -2, 3}}},
    {"clamp between tensors that cross, meet, and are no numbers",
     {{"S(0)", {7}, {1, 1, 2, 3, 5, 3, kNan}},
      {"S(0)", {7}, {1, 2, 2, 3, 7, kNan, 4}},
      {"S(0)", {7}, {2, 3, 3, 3, 6, 2, 1}}},
     [](const Leaves& x) {
       return call("aten::clamp.Tensor", {x[0], x[1], x[2]});
     },
     {{0.5, 0, 1.5, -4, 0, 0, 7}, {0.5, -2, 1.5, 0, 0, 0, 0}, {0, 0, 0, 0, 5, 0, 7}}},
    {"clamp above a tensor",
     {{"S(0)", {7}, {1, 1, 2, 3, 5, 3, kNan}}, {"S(0)", {7}, {1, 2, 2, 3, 7, kNan, 4}}},
     [](const Leaves& x) {
       return call("aten::clamp.Tensor", {x[0], x[1], Argument()});
     },
     {{0.5, 0, 1.5, -2, 0, -6, 7}, {0.5, -2, 1.5, -2, 5, -6, 7}}},
    {"clamp below a tensor",
     {{"S(0)", {7}, {1, 1, 2, 3, 5, 3, kNan}}, {"S(0)", {7}, {1, 2, 2, 3, 7, kNan, 4}}},
     [](const Leaves& x) {
       return call("aten::clamp.Tensor", {x[0], Argument(), x[1]});
     },
     {{0.5, -2, 1.5, -2, 5, -6, 7}, {0.5, 0, 1.5, -2, 0, -6, 7}}},
    {"repeat along new and old dims",
     {{"S(0)", {3, 2}, {1, 2, 3, 4, 5, 6}}},
     [](const Leaves& x) {
       return call("aten::repeat", {x[0], Dims{2, 1, 3}});
     },
     {{72, -78, 108, -114, 144, -150}}},
    {"rsub of tensors with alpha",
     {{"S(0)", {3, 2}, {1, 2, 3, 4, 5, 6}}, {"R", {2}, {1, 2}}},
     [](const Leaves& x) {
       return call("aten::rsub.Tensor", {x[0], x[1], 2});
     },
     {{-2, 4, -6, 8, -10, 12}, {9, -12}}},
    {"masked_fill with a tensor",
     {{"S(0)", {3, 2}, {1, 2, 3, 4, 5, 6}}, {"R", {}, {7}}},
     [](const Leaves& x) {
       return call("aten::masked_fill.Tensor", {x[0], call("aten::lt.Scalar", {x[0], 4}), x[1]});
     },
     {{0, 0, 0, -4, 5, -6}, {2}}},
    {"prod beside one zero",
     {{"S(0)", {4}, {1, 0, 3, 4}}},
     [](const Leaves& x) { return call("aten::prod", {x[0]}); },
     {{0, 12, 0, 0}}},
    {"prod without zeros",
     {{"S(0)", {4}, {1, 2, 3, 4}}},
     [](const Leaves& x) { return call("aten::prod", {x[0]}); },
     {{24, 12, 8, 6}}},
    {"prod of rows",
     {{"S(0)", {3, 2}, {1, 2, 0, 4, 5, 6}}},
     [](const Leaves& x) {
       return call("aten::prod.dim_int", {x[0], 0, false});
     },
     {{0, -48, 5, -24, 0, -16}}},
    {"prod of columns, kept",
     {{"S(0)", {3, 2}, {1, 2, 0, 4, 5, 6}}},
     [](const Leaves& x) {
       return call("aten::prod.dim_int", {x[0], 1, true});
     },
     {{2, 1, -8, 0, 18, 15}}},
    {"prod beside NaN and one zero",
     {{"S(0)", {5}, {2, kNan, 0, 3, 1}}},
     [](const Leaves& x) { return call("aten::prod", {x[0]}); },
     {{kNan, 0, kNan, kNan, kNan}}},
    {"prod beside NaN and two zeros",
     {{"S(0)", {5}, {kNan, 0, 0, 3, 1}}},
     [](const Leaves& x) { return call("aten::prod", {x[0]}); },
     {{0, 0, 0, 0, 0}}},
    {"prod beside infinity, a quotient",
     {{"S(0)", {5}, {2, kInfinity, 4, 3, 1}}},
     [](const Leaves& x) { return call("aten::prod", {x[0]}); },
     {{kInfinity, kNan, kInfinity, kInfinity, kInfinity}}},
    {"prod of rows beside a zero in another one, no quotient",
     {{"S(0)", {5, 2}, {2, kNan, kInfinity, 3, 1, 0, 5, 2, 1, 0.5}}},
     [](const Leaves& x) {
       return call("aten::prod.dim_int", {x[0], 1, false});
     },
     {{kNan, 2, -6, -kInfinity, 0, 3, -8, -20, 2.5, 5}}},
    {"prod of columns beside a zero",
     {{"S(0)", {5, 2}, {2, kNan, kInfinity, 3, 1, 0, 5, 2, 1, 0.5}}},
     [](const Leaves& x) {
       return call("aten::prod.dim_int", {x[0], 0, false});
     },
     {{kInfinity, 0, 10, kNan, kInfinity, kNan, kInfinity, kNan, kInfinity, kNan}}},
    {"norm of order 1, dim 0",
     {{"S(0)", {5, 2}, kSigns}},
     [](const Leaves& x) {
       return call("aten::linalg_vector_norm", {x[0], 1.0, Dims{0}, false});
     },
     {{1, 2, 0, 0, 1, -2, -1, -2, 1, -2}}},
    {"norm of order 1, dim 1",
     {{"S(0)", {5, 2}, kSigns}},
     [](const Leaves& x) {
       return call("aten::linalg_vector_norm", {x[0], 1.0, Dims{1}, true});
     },
     {{1, -1, 0, 0, 3, 3, 4, -4, 5, 5}}},
    {"norm of order 2, dim 0",
     {{"S(0)", {5, 2}, kSigns}},
     [](const Leaves& x) {
       return call("aten::linalg_vector_norm", {x[0], 2.0, Dims{0}, false});
     },
     {{0.7745966692414834, 1.5118578920369088, 0, 0, 0.2581988897471611, -0.7559289460184544,
       -0.2581988897471611, -0.7559289460184544, 0.5163977794943222, -0.7559289460184544}}},
    {"norm of order 2, dim 1",
     {{"S(0)", {5, 2}, kSigns}},
     [](const Leaves& x) {
       return call("aten::linalg_vector_norm", {x[0], 2.0, Dims{1}, true});
     },
     {{0.6, -0.8, 0, 0, 1.3416407864998738, 2.6832815729997477, 1.7888543819998317,
       -3.5777087639996634, 3.5355339059327373, 3.5355339059327373}}},
    {"norm of order inf, dim 0",
     {{"S(0)", {5, 2}, kSigns}},
     [](const Leaves& x) {
       return call("aten::linalg_vector_norm", {x[0], kInfinity, Dims{0}, false});
     },
     {{1, 2, 0, 0, 0, 0, 0, 0, 0, 0}}},
    {"norm of order inf, dim 1",
     {{"S(0)", {5, 2}, kSigns}},
     [](const Leaves& x) {
       return call("aten::linalg_vector_norm", {x[0], kInfinity, Dims{1}, true});
     },
     {{0, -1, 0, 0, 0, 3, 0, -4, 2.5, 2.5}}},
    {"norm of order -inf, dim 0",
     {{"S(0)", {5, 2}, kSigns}},
     [](const Leaves& x) {
       return call("aten::linalg_vector_norm", {x[0], -kInfinity, Dims{0}, false});
     },
     {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}},
    {"norm of order -inf, dim 1",
     {{"S(0)", {5, 2}, kSigns}},
     [](const Leaves& x) {
       return call("aten::linalg_vector_norm", {x[0], -kInfinity, Dims{1}, true});
     },
     {{1, 0, 0, 0, 3, 0, 4, 0, 2.5, 2.5}}},
    {"norm of order 0.5, dim 0",
     {{"S(0)", {5, 2}, kSigns}},
     [](const Leaves& x) {
       return call("aten::linalg_vector_norm", {x[0], 0.5, Dims{0}, false});
     },
     {{2.971197119306978, 6.242640687119285, 0, 0, 5.146264369941973, -8.828427124746188,
       -5.146264369941973, -8.828427124746188, 3.638958433764684, -8.828427124746188}}},
    {"norm of order 0.5, dim 1",
     {{"S(0)", {5, 2}, kSigns}},
     [](const Leaves& x) {
       return call("aten::linalg_vector_norm", {x[0], 0.5, Dims{1}, true});
     },
     {{2.154700538379252, -1.8660254037844386, 0, 0, 7.242640687119285, 5.121320343559642,
       9.65685424949238, -6.828427124746189, 10, 10}}},
    {"norm of order 1.5, dim 0",
     {{"S(0)", {5, 2}, kSigns}},
     [](const Leaves& x) {
       return call("aten::linalg_vector_norm", {x[0], 1.5, Dims{0}, false});
     },
     {{0.8032891577991526, 1.5716694203489103, 0, 0, 0.46377921149244855, -1.1113381049122448,
       -0.46377921149244855, -1.1113381049122448, 0.6558828508393206, -1.1113381049122448}}},
    {"norm of order 1.5, dim 1",
     {{"S(0)", {5, 2}, kSigns}},
     [](const Leaves& x) {
       return call("aten::linalg_vector_norm", {x[0], 1.5, Dims{1}, true});
     },
     {{0.7329564758289748, -0.8463452372482761, 0, 0, 1.9177020235956974, 2.712040210359364,
       2.5569360314609297, -3.6160536138124852, 3.9685026299204984, 3.9685026299204984}}},
    {"norm of order 3, dim 0",
     {{"S(0)", {5, 2}, kSigns}},
     [](const Leaves& x) {
       return call("aten::linalg_vector_norm", {x[0], 3.0, Dims{0}, false});
     },
     {{0.8105404504003672, 1.6174400658685937, 0, 0, 0.09006005004448524, -0.4043600164671484,
       -0.09006005004448524, -0.4043600164671484, 0.36024020017794095, -0.4043600164671484}}},
    {"norm of order 3, dim 1",
     {{"S(0)", {5, 2}, kSigns}},
     [](const Leaves& x) {
       return call("aten::linalg_vector_norm", {x[0], 3.0, Dims{1}, true});
     },
     {{0.4448513517305356, -0.7908468475209521, 0, 0, 0.6933612743506347, 2.7734450974025386,
       0.9244816991341795, -3.697926796536718, 3.1498026247371826, 3.1498026247371826}}},
    {"pow of tensors",
     {{"S(0)", {5, 2}, kPositive}, {"S(0)", {5, 2}, kB}},
     [](const Leaves& x) {
       return call("aten::pow.Tensor_Tensor", {x[0], x[1]});
     },
     {{1.0606601717798214, -0.8944271909999159, -0.75, -3.2237097954706257, 30, 3.265986323710904,
       -9.899494936611665, -8, -1.1520000000000001, -3.7796447300922726},
      {-0.2450645358671368, -0.4989641494792856, 1.0397207708399179, 0.9274035149440963,
       49.43755299006494, -1.324243497823228, -13.723614008559661, 0, 1.3194586538987836,
       -7.4030210231129425}}},
    {"pow by a number",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return call("aten::pow.Tensor_Scalar", {x[0], 3});
     },
     {{0.75, -9.375, 36, -6.75, 3.75, -40.5, 84, -24, 1.6875, -16.875}}},
    {"pow of a number",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return call("aten::pow.Scalar", {2.5, x[0]});
     },
     {{1.4487828558124876, -0.5829593584800428, 17.180451222640407, -7.2869919810005355,
       2.897565711624975, -21.731742837187312, 1.0262456196990537, -18.325814637483102,
       10.369571378104855, -4.608698390268823}}},
    {"where",
     {{"S(0)", {5, 2}, kA}, {"S(0)", {5, 2}, kB}},
     [](const Leaves& x) {
       return call("aten::where.self", {call("aten::gt.Scalar", {x[0], 0}), x[0], x[1]});
     },
     {{1, 0, 3, -4, 0, -6, 0, -8, 9, 0}, {0, -2, 0, 0, 5, 0, 7, 0, 0, -10}}},
    {"clamp at both bounds",
     {{"S(0)", {5}, {-1, -0.5, 0, 0.75, 2}}},
     [](const Leaves& x) {
       return call("aten::clamp", {x[0], -0.5, 0.75});
     },
     {{0, 0, 3, 0, 0}}},
    {"clamp_max at the bound",
     {{"S(0)", {5}, {-1, -0.5, 0, 0.75, 2}}},
     [](const Leaves& x) {
       return call("aten::clamp_max", {x[0], 0.75});
     },
     {{1, -2, 3, 0, 0}}},
    {"masked_fill",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return call("aten::masked_fill.Scalar", {x[0], call("aten::lt.Scalar", {x[0], 0}), 7.0});
     },
     {{1, 0, 3, -4, 0, -6, 0, -8, 9, 0}}},
    {"rsub with alpha",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return call("aten::rsub.Scalar", {x[0], 1.0, 2});
     },
     {{-2, 4, -6, 8, -10, 12, -14, 16, -18, 20}}},
    {"mul by a number",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return call("aten::mul.Scalar", {x[0], -1.5});
     },
     {{-1.5, 3, -4.5, 6, -7.5, 9, -10.5, 12, -13.5, 15}}},
    {"div by a number",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return call("aten::div.Scalar", {x[0], -4.0});
     },
     {{-0.25, 0.5, -0.75, 1, -1.25, 1.5, -1.75, 2, -2.25, 2.5}}},
    {"addcmul",
     {{"R", {2}, {1, -1}}, {"S(0)", {5, 2}, kA}, {"S(0)", {5, 1}, {1, -2, 0.5, 3, -1.5}}},
     [](const Leaves& x) {
       return call("aten::addcmul", {x[0], x[1], x[2], 2});
     },
     {{25, -30}, {2, -4, -12, 16, 5, -6, 42, -48, -27, 30}, {6, 6, -23, -44, 19.5}}},
    {"leaky_relu",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return call("aten::leaky_relu", {x[0], 0.25});
     },
     {{1, -0.5, 3, -4, 1.25, -6, 1.75, -8, 9, -2.5}}},
    {"softplus",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return call("aten::softplus", {x[0], 2});
     },
     {{0.7310585786300049, -0.15171636004248712, 2.946041370113725, -3.2702979047745746,
       1.3447071068499756, -5.7154447609345995, 0.1259034697346409, -7.046376623823059,
       5.602133980816691, -1.8242552380635633}}},
    {"gelu by tanh",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return call("aten::gelu", {x[0], "tanh"});
     },
     {{0.8673699035346424, 0.2449852644992973, 3.258297769870855, -3.995753024549657,
       0.6631504823267882, -6.766264758908598, -0.6026947963653281, -8.66371267076626,
       6.2581868563595435, -0.01061743862585618}}},
    {"silu",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) { return call("aten::silu", {x[0]}); },
     {{0.7399611873026519, -0.01263831016937514, 3.2723527463546866, -3.3703997779870143,
       1.300194063486741, -6.247764925794858, -0.6354897414942683, -7.421364094971895,
       5.613390194131779, -1.574000555032465}}},
    {"relu",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) { return call("aten::relu", {x[0]}); },
     {{1, 0, 3, -4, 0, -6, 0, -8, 9, 0}}},
    {"neg",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) { return call("aten::neg", {x[0]}); },
     {{-1, 2, -3, 4, -5, 6, -7, 8, -9, 10}}},
    {"abs",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) { return call("aten::abs", {x[0]}); },
     {{1, 2, 3, -4, -5, -6, -7, -8, 9, 10}}},
    {"exp",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) { return call("aten::exp", {x[0]}); },
     {{1.6487212707001282, -0.5730095937203802, 22.16716829679195, -8.4680000664507,
       3.032653298563167, -26.89013442202839, 0.9473469826562889, -21.74625462767236,
       11.556228750189673, -4.723665527410147}}},
    {"expm1",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) { return call("aten::expm1", {x[0]}); },
     {{1.6487212707001282, -0.5730095937203803, 22.16716829679195, -8.4680000664507,
       3.032653298563167, -26.890134422028392, 0.9473469826562889, -21.746254627672364,
       11.556228750189673, -4.723665527410147}}},
    {"square",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) { return call("aten::square", {x[0]}); },
     {{1, 5, 12, -6, -5, -18, -28, -16, 4.5, 15}}},
    {"sin",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) { return call("aten::sin", {x[0]}); },
     {{0.8775825618903728, -0.6306447247905373, -1.2484405096414273, -2.9267554754952836,
       4.387912809451864, -0.4244232100062174, -2.9130278558299967, -4.322418446945118,
       8.720211795395803, -7.316888688738209}}},
    {"cos",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) { return call("aten::cos", {x[0]}); },
     {{-0.479425538604203, -1.8979692387111724, -2.727892280477045, 2.7265550400933365,
       2.397127693021015, 5.9849699196243265, 6.365081987779772, 6.731767878463172,
       -2.2266356332907065, -6.816387600233341}}},
    {"tan",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) { return call("aten::tan", {x[0]}); },
     {{1.2984464104095248, -20.115019243669657, 17.323197612125753, -7.471487856721311,
       6.492232052047624, -1199.1002671589547, 40.42079442829342, -27.40415056651808,
       9.58679547059565, -18.67871964180328}}},
    {"atan",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) { return call("aten::atan", {x[0]}); },
     {{0.8, -0.7804878048780488, 0.6, -2.56, 4, -1.8461538461538463, 1.4, -4, 8.470588235294118,
       -6.4}}},
    {"tanh",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) { return call("aten::tanh", {x[0]}); },
     {{0.7864477329659274, -0.5608297323608653, 0.2119524745594933, -2.386343233125326,
       3.932238664829637, -1.0842398335418917, 0.494555773972151, -3.359794732912209,
       8.460133639257402, -5.965858082813314}}},
    {"sigmoid",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) { return call("aten::sigmoid", {x[0]}); },
     {{0.2350037122015945, -0.346209573984994, 0.31498075621051985, -0.8715799750472562,
       1.1750185610079724, -0.8948787124219971, 0.7349550978245456, -1.5728954659318548,
       2.215206744638385, -2.1789499376181403}}},
    {"erf",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) { return call("aten::erf", {x[0]}); },
     {{0.8787825789354448, -0.4730422448945815, 0.06200095606227616, -2.5717242767808295,
       4.393912894677224, -0.7135817353417762, 0.14466889747864436, -3.3208599793647577,
       9.540127164385028, -6.4293106919520735}}},
    {"exp2",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) { return call("aten::exp2", {x[0]}); },
     {{0.9802581434685472, -0.5828649793760772, 8.317766166719343, -4.662919835008617,
       2.450645358671368, -11.763097721622568, 1.2130075659799042, -11.090354888959125,
       7.4186600297936645, -4.121477794329813}}},
    {"reciprocal",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) { return call("aten::reciprocal", {x[0]}); },
     {{-4, 1.2800000000000002, -0.75, 7.111111111111111, -20, 2.6666666666666665, -1.75, 8, -144,
       17.77777777777778}}},
    {"log",
     {{"S(0)", {5, 2}, kPositive}},
     [](const Leaves& x) { return call("aten::log", {x[0]}); },
     {{2, -1.6, 1.5, -5.333333333333333, 1.6666666666666667, -4, 28, -8, 3.6, -5.714285714285714}}},
    {"log1p",
     {{"S(0)", {5, 2}, kPositive}},
     [](const Leaves& x) { return call("aten::log1p", {x[0]}); },
     {{0.6666666666666666, -0.8888888888888888, 1, -2.2857142857142856, 1.25, -2.4, 5.6, -4,
       2.5714285714285716, -3.6363636363636362}}},
    {"log2",
     {{"S(0)", {5, 2}, kPositive}},
     [](const Leaves& x) { return call("aten::log2", {x[0]}); },
     {{2.8853900817779268, -2.3083120654223412, 2.1640425613334453, -7.694373551407805,
       2.4044917348149393, -5.770780163555854, 40.39546114489098, -11.541560327111707,
       5.193702147200268, -8.243971662222648}}},
    {"log10",
     {{"S(0)", {5, 2}, kPositive}},
     [](const Leaves& x) { return call("aten::log10", {x[0]}); },
     {{0.8685889638065035, -0.6948711710452028, 0.6514417228548777, -2.3162372368173427,
       0.7238241365054197, -1.737177927613007, 12.16024549329105, -3.474355855226014,
       1.5634601348517063, -2.4816827537328674}}},
    {"sqrt",
     {{"S(0)", {5, 2}, kPositive}},
     [](const Leaves& x) { return call("aten::sqrt", {x[0]}); },
     {{0.7071067811865476, -0.8944271909999159, 1.0606601717798214, -2.3094010767585034,
       1.4433756729740645, -2.4494897427831783, 7, -4, 2.846049894151541, -3.779644730092272}}},
    {"rsqrt",
     {{"S(0)", {5, 2}, kPositive}},
     [](const Leaves& x) { return call("aten::rsqrt", {x[0]}); },
     {{-1.4142135623730947, 0.7155417527999326, -0.5303300858899105, 3.0792014356780055,
       -0.48112522432468835, 1.6329931618554527, -28, 4, -1.1384199576606167, 2.159796988624155}}},
};

TEST_CASE("V-15 gradients of pointwise ops, broadcasting undone") { check_gradients(kPointwise); }

const GradientRow kProducts[] = {
    {"mm",
     {{"S(0)", {5, 2}, kA}, {"R", {2, 3}, {1, 2, -1, 0.5, 3, -2}}},
     [](const Leaves& x) {
       return call("aten::mm", {x[0], x[1]});
     },
     {{-6, -11.5, 12, 25, -18, -38.5, 24, 52, -30, -65.5},
      {12.25, -12.5, 12.75, -13.5, 15.75, -18}}},
    {"bmm",
     {{"S(0)", {3, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
      {"S(0)", {3, 2, 2}, {2, -1, 0.5, 1, 3, -2, 1, 1, 0, 2, -1, 4}}},
     [](const Leaves& x) {
       return call("aten::bmm", {x[0], x[1]});
     },
     {{4, -1.5, 10, -2.5, 27, -1, 37, -1, -20, -49, -24, -59},
      {10, -14, 14, -20, 74, -86, 86, -100, 202, -222, 222, -244}}},
    {"addmm with beta and alpha",
     {{"R", {3}, {1, -1, 2}}, {"S(0)", {5, 2}, kA}, {"R", {2, 3}, {1, 2, -1, 0.5, 3, -2}}},
     [](const Leaves& x) {
       return call("aten::addmm", {x[0], x[1], x[2], 3, 0.5});
     },
     {{21, -24, 27},
      {-3, -5.75, 6, 12.5, -9, -19.25, 12, 26, -15, -32.75},
      {6.125, -6.25, 6.375, -6.75, 7.875, -9}}},
    {"dot",
     {{"S(0)", {5}, {1, 2, 3, 4, 5}}, {"S(0)", {5}, {2, -1, 0.5, 3, -2}}},
     [](const Leaves& x) {
       return call("aten::dot", {x[0], x[1]});
     },
     {{2, -1, 0.5, 3, -2}, {1, 2, 3, 4, 5}}},
    {"mv",
     {{"S(0)", {5, 2}, kA}, {"R", {2}, {2, -1}}},
     [](const Leaves& x) {
       return call("aten::mv", {x[0], x[1]});
     },
     {{2, -1, -4, 2, 6, -3, -8, 4, 10, -5}, {4.25, -6}}},
    {"embedding with a padding row",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return call("aten::embedding", {x[0], replica({4}, {1, 3, 1, 4}), 3});
     },
     {{0, 0, 6, -8, 0, 0, 0, 0, 7, -8}}},
    {"mse_loss",
     {{"S(0)", {5, 2}, kA}, {"S(0)", {5, 2}, kB}},
     [](const Leaves& x) {
       return call("aten::mse_loss", {x[0], x[1], 1});
     },
     {{-0.2, -0.35000000000000003, 0.6000000000000001, 0, -0.5, 0.6000000000000001,
       -0.35000000000000003, 0, 0.45, -0.25},
      {0.2, 0.35000000000000003, -0.6000000000000001, 0, 0.5, -0.6000000000000001,
       0.35000000000000003, 0, -0.45, 0.25}}},
    {"nll_loss with weights and an ignored row",
     {{"S(0)", {5, 2}, kA}},
     [](const Leaves& x) {
       return call("aten::nll_loss_forward", {x[0], replica({5}, {1, 0, 1, 0, 1}),
                                              replica({2}, {2, 0.5}, DType::kF64), 1, -100});
     },
     {{0, -0.09090909090909091, -0.36363636363636365, 0, 0, -0.09090909090909091,
       -0.36363636363636365, 0, 0, -0.09090909090909091}}},
};

TEST_CASE("V-18 gradients of products and losses") { check_gradients(kProducts); }

}  // namespace
}  // namespace shardlab
