// Norms, transforms, factorisations, attention and recurrent layers on ranks, and proofs for rows
// of tests/golden/known_differences.toml among them. Expected values come from PyTorch in f64.
#include <doctest/doctest.h>

#include <cmath>

#include "dispatch/dispatcher.h"
#include "tensor/host.h"
#include "tests/unit/dispatch/op_mesh.h"

namespace shardlab {
namespace {

using test::kind_of;
using test::OpMesh;
using test::ops;
using test::plain;
using test::whole;
using Values = std::vector<double>;

constexpr DType kWide = DType::kF64;

void check_close(const Values& got, const Values& expected) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-8).scale(1));
  }
}

/// Numbers that PyTorch was given, too.
Values spread(std::int64_t count, double shift = 0) {
  Values values;
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<double>(i * 7 % 11 - 5) * 0.1 + shift);
  }
  return values;
}

TEST_CASE("X-3 shifts and xor, whose names end in an underscore, write nothing and may move") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor pending =
        ops().one("aten::sum.dim_IntList",
                  {mesh.place("S(0)", {2, 3}, {1, 2, 3, 4, 5, 6}, DType::kI64), Dims{0}});
    const DTensor numbers = mesh.place("R", {3}, {1, 1, 2}, DType::kI64);
    CHECK(whole(ops().one("aten::__xor__.Tensor", {pending, numbers})) == Values{4, 6, 11});
    CHECK(whole(ops().one("aten::__lshift__.Tensor", {pending, numbers})) == Values{10, 14, 36});
    CHECK(whole(ops().one("aten::__rshift__.Scalar", {pending, 1})) == Values{2, 3, 4});
    CHECK(whole(pending) == Values{5, 7, 9});
  });
}

TEST_CASE("X-50 a transform of a pending maximum is that of the maximum") {
  OpMesh mesh({4});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {4, 2}, {1, -5, 2, 7, -3, 4, 0, -1});
    const DTensor most = ops().one("aten::amax", {x, Dims{0}});
    const DTensor spectrum = ops().one("aten::_fft_r2c", {most, Dims{0}, 0, false});
    // The largest of the ranks' transforms, (-4, 6), (9, -5), (1, -7) and (-1, 1), is (9, 6).
    CHECK(whole(ops().one("aten::real", {spectrum})) == Values{9, -5});
    const DTensor numbers = ops().one("aten::_to_copy", {most, DType::kC64});
    CHECK(whole(ops().one("aten::real", {numbers})) == Values{2, 7});
  });
}

TEST_CASE("X-50 right sides that stretch over a batch are not cut along their rows") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor factors = mesh.place("S(0)", {2, 2, 2}, {2, 0, 0, 4, 1, 0, 0, 8});
    const DTensor pivots = mesh.place("S(0)", {2, 2}, {1, 2, 1, 2}, DType::kI32);
    const DTensor sides = mesh.place("S(0)", {2, 1}, {8, 16});
    const DTensor x = ops().one("aten::linalg_ldl_solve", {factors, pivots, sides});
    CHECK(whole(x) == Values{4, 4, 8, 2});
  });
}

TEST_CASE("running statistics are one number per channel") {
  OpMesh mesh({4});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(1)", {8, 16}, Values(128, 1));
    CHECK(kind_of([&] {
            ops()("aten::_native_batch_norm_legit_no_training",
                  {x, Argument(), Argument(), x, x, 0.5, 0.5});
          }) == ErrorKind::kValue);
  });
}

TEST_CASE("scales of pending terms are whole on every rank") {
  OpMesh mesh({2});
  mesh.run([&](RankContext& rank) {
    const DType small = DType::kF8E4M3FN;
    const Values terms = rank.rank == 0 ? Values{1, 2} : Values{3, 4};
    const DTensor a = from_local(plain({1, 2}, terms, small), mesh.layout(),
                                 {Placement::partial(ReduceOp::kSum)});
    const DTensor b = mesh.place("R", {2, 2}, {1, 0, 0, 1}, small);
    const DTensor rows = mesh.place("R", {1, 1}, {2}), columns = mesh.place("R", {1, 2}, {10, 1});
    // A scale that is one rank's term alone would lose the terms of the others.
    CHECK(whole(ops().one("aten::_scaled_mm", {a, b, rows, columns, Argument(), Argument(),
                                               DType::kF32})) == Values{80, 12});
  });
}

TEST_CASE("bounds that are keywords have to be whole") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor a = mesh.place("R", {2, 2}, {4, 0, 0, 1}, kWide);
    const DTensor halves = mesh.place("S(0)", {2}, {1, 1}, kWide);
    const DTensor pending = ops().one("aten::sum", {halves});  // 2, of which a rank holds 1
    const auto inverse = [&](std::string_view op, const Arguments& args) {
      return whole(ops().one(op, args));
    };
    CHECK(kind_of([&] {
            inverse("aten::linalg_pinv.atol_rtol_tensor", {a, pending});
          }) == ErrorKind::kRuntime);
    const DTensor bound = ops().redistribute(pending, {Placement::replicate()});
    CHECK(inverse("aten::linalg_pinv.atol_rtol_tensor", {a, bound}) == Values{0.25, 0, 0, 0});
    // It is moved as an argument of its own.
    const DTensor share = ops().one("aten::div.Scalar", {pending, 4.0});
    CHECK(inverse("aten::linalg_pinv.rcond_tensor", {a, share}) == Values{0.25, 0, 0, 0});
  });
}

TEST_CASE("attention is of floats with samples and heads in front") {
  OpMesh mesh({4});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("R", {8, 16}, Values(128, 1), DType::kI64);
    CHECK(kind_of([&] {
            ops()("aten::_scaled_dot_product_cudnn_attention_backward",
                  {x, x, x, x, x, x, x, x, x, x, x, 1, 1, 0.5, false});
          }) == ErrorKind::kValue);
  });
}

TEST_CASE("batch norm in training moves its running statistics, and only where they lie") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const auto vector = [&](const char* where, const Values& values) {
      return mesh.place(where, {2}, values, kWide);
    };
    const DTensor x = mesh.place("S(1)", {3, 2, 2}, spread(12), kWide);
    const DTensor mean = vector("S(0)", {0.5, -1}), variance = vector("S(0)", {2, 3});
    const DTensor y =
        ops().one("aten::batch_norm", {x, vector("R", {1.5, 0.5}), vector("R", {0.1, -0.2}), mean,
                                       variance, true, 0.25, 1e-3, false});
    check_close(whole(y), {-1.8198976082, 1.5399232061, -0.513969364, 0.5003931967, 1.0599488041,
                           -0.8599488041, 0.3554842594, -0.2241514895, -1.3399232061, 2.0198976082,
                           -0.3690604268, -0.9486961758});
    check_close(whole(mean), {0.35, -0.7458333333333333});
    check_close(whole(variance), {1.529, 2.285416666666667});
    CHECK(kind_of([&] {
            ops()("aten::native_batch_norm", {x, Argument(), Argument(), vector("R", {0, 0}),
                                              vector("R", {1, 1}), true, 0.1, 1e-5});
          }) == ErrorKind::kRuntime);
  });
}

TEST_CASE("instance norm has statistics of each sample") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {3, 2, 2}, spread(12), kWide);
    const DTensor mean = mesh.place("R", {2}, {0.5, -1}, kWide);
    const DTensor variance = mesh.place("R", {2}, {2, 3}, kWide);
    const DTensor y = ops().one("aten::instance_norm", {x, Argument(), Argument(), mean, variance,
                                                        true, 0.25, 1e-3, false});
    check_close(whole(y), {-0.9959431881, 0.9959431881, -0.9959431881, 0.9959431881, 0.9877295966,
                           -0.9877295966, 0.9877295966, -0.9877295966, -0.9959431881, 0.9959431881,
                           0.9877295966, -0.9877295966});
  });
}

TEST_CASE("a spectrum of short times, and the signal that it is of") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(1)", {1, 10}, spread(10), kWide);
    const DTensor window = mesh.place("R", {4}, spread(4, 1), kWide);
    const DTensor spectrum =
        ops().one("aten::stft.center", {x, 4, 2, 4, window, true, "reflect", false, true, true});
    check_close(whole(ops().one("aten::view_as_real", {spectrum})),
                {0.04,  0,    0.58,  0,    0.13,  0,     0.01,  0,    0.33,  0,    -0.16, 0,
                 0.3,   0.06, -0.09, 0.51, -0.18, -1.05, -0.27, 0.36, 0.52,  0.45, 0.12,  -0.36,
                 -1.04, 0,    -1.4,  0,    -0.17, 0,     0.73,  0,    -0.57, 0,    -0.88, 0});
    const DTensor back = ops().one("aten::istft", {spectrum, 4, 2, 4, window});
    check_close(whole(back), spread(10));
  });
}

TEST_CASE("A V = V diag(L) for the eigenvalues and vectors of any matrix") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor a = mesh.place("S(0)", {2, 3, 3}, spread(18), kWide);
    const Results found = ops()("aten::linalg_eig", {a});
    const DTensor &values = found[0].tensor(), &vectors = found[1].tensor();
    const DTensor turned =
        ops().one("aten::matmul", {ops().one("aten::_to_copy", {a, DType::kC128}), vectors});
    const DTensor scaled =
        ops().one("aten::mul.Tensor", {vectors, ops().one("aten::unsqueeze", {values, -2})});
    const DTensor rest = ops().one("aten::sub.Tensor", {turned, scaled});
    check_close(whole(ops().one("aten::view_as_real", {rest})), Values(36, 0));
    const DTensor lengths = ops().one("aten::linalg_vector_norm", {vectors, 2, Dims{-2}});
    check_close(whole(lengths), Values(6, 1));
  });
}

TEST_CASE("an LSTM goes both ways over padded sequences, a GRU over packed ones") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const auto value = [&](const char* where, Dims shape, double shift = 0) {
      std::int64_t count = 1;
      for (const std::int64_t size : shape) count *= size;
      return Argument(mesh.place(where, std::move(shape), spread(count, shift), kWide));
    };
    const auto weights = [&](std::int64_t rows) {
      ArgumentList list;
      for (const double way : {0.0, 0.05}) {
        const ArgumentList one{value("S(0)", {rows, 2}, way), value("R", {rows, 1}, -way),
                               value("R", {rows}), value("R", {rows}, 0.1)};
        list.insert(list.end(), one.begin(), one.end());
      }
      return list;
    };
    const ArgumentList states{value("R", {2, 2, 1}, 0.2), value("S(0)", {2, 2, 1}, -0.1)};
    const Results lstm = ops()("aten::lstm.input", {value("S(1)", {2, 2, 2}), states, weights(4),
                                                    true, 1, 0.0, false, true, false});
    check_close(whole(lstm[0].tensor()),
                {-0.3260268743, -0.1924939087, -0.0571830156, -0.0148081001, -0.2354081349,
                 -0.1698718055, -0.0822948965, 0.1476207003});
    check_close(whole(lstm[2].tensor()),
                {-0.3361389507, -0.1067185241, -0.2857841802, -0.019732809});
    const Argument sizes(mesh.place("R", {2}, {2, 1}, DType::kI64));
    const Results gru = ops()("aten::gru.data", {value("S(0)", {3, 2}), sizes, states[0],
                                                 weights(3), true, 1, 0.0, false, true});
    check_close(whole(gru[0].tensor()), {-0.304989854, -0.1528535744, 0.1641985611, 0.3839178481,
                                         -0.2210302905, -0.0570693739});
    check_close(whole(gru[1].tensor()), {-0.2210302905, 0.1641985611, -0.1528535744, 0.3839178481});
  });
}

}  // namespace
}  // namespace shardlab
