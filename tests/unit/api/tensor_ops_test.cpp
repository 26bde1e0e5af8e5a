#include "api/tensor_ops.h"

#include <doctest/doctest.h>

#include <cmath>

#include "sim/world/spmd.h"
#include "tests/unit/dispatch/op_mesh.h"

using namespace shardlab;

namespace {

using test::whole;
using Values = std::vector<double>;

void check_near(const DTensor& x, const Values& want) {
  const Values got = whole(x);
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - want[i]) < 1e-6);
}

// Runs `body` with [[1, 2], [3, 4], [5, 6]], plain and with its 3 rows cut over 2 ranks.
void with_matrix(const std::function<void(const DTensor& x)>& body) {
  spmd(2, [&](RankContext&) {
    const MeshLayout* mesh = init_mesh({{"tp", 2}});
    const DTensor x = tensor({1, 2, 3, 4, 5, 6}, {3, 2});
    body(x);
    body(distribute_tensor(x, mesh, "tp=S(0)"));
  });
}

}  // namespace

TEST_CASE("operators take tensors and numbers on either side") {
  with_matrix([](const DTensor& x) {
    CHECK(whole(x + x) == Values{2, 4, 6, 8, 10, 12});
    CHECK(whole(x - x) == Values(6, 0));
    CHECK(whole(x * x) == Values{1, 4, 9, 16, 25, 36});
    CHECK(whole(x / x) == Values(6, 1));
    CHECK(whole(x + 1) == Values{2, 3, 4, 5, 6, 7});
    CHECK(whole(1.5 + x) == Values{2.5, 3.5, 4.5, 5.5, 6.5, 7.5});
    CHECK(whole(x - 1) == Values{0, 1, 2, 3, 4, 5});
    CHECK(whole(1 - x) == Values{0, -1, -2, -3, -4, -5});
    CHECK(whole(2 * x) == whole(x * 2.0));
    CHECK(whole(x / 2) == Values{0.5, 1, 1.5, 2, 2.5, 3});
    check_near(12 / x, {12, 6, 4, 3, 2.4, 2});
    CHECK(whole(-x) == Values{-1, -2, -3, -4, -5, -6});
    CHECK(whole(pow(x, 2)) == Values{1, 4, 9, 16, 25, 36});
    check_near(pow(x, x), {1, 4, 27, 256, 3125, 46656});
  });
}

TEST_CASE("comparisons give bool, against numbers and tensors") {
  with_matrix([](const DTensor& x) {
    CHECK(eq(x, 3).dtype() == DType::kBool);
    CHECK(whole(eq(x, 3)) == Values{0, 0, 1, 0, 0, 0});
    CHECK(whole(ne(x, 3)) == Values{1, 1, 0, 1, 1, 1});
    CHECK(whole(lt(x, 3)) == Values{1, 1, 0, 0, 0, 0});
    CHECK(whole(le(x, 3)) == Values{1, 1, 1, 0, 0, 0});
    CHECK(whole(gt(x, 3)) == Values{0, 0, 0, 1, 1, 1});
    CHECK(whole(ge(x, 3)) == Values{0, 0, 1, 1, 1, 1});
    const DTensor y = 7 - x;
    CHECK(whole(eq(x, y)) == Values(6, 0));
    CHECK(whole(ne(x, y)) == Values(6, 1));
    CHECK(whole(lt(x, y)) == Values{1, 1, 1, 0, 0, 0});
    CHECK(whole(le(x, x)) == Values(6, 1));
    CHECK(whole(gt(x, y)) == Values{0, 0, 0, 1, 1, 1});
    CHECK(whole(ge(x, y)) == Values{0, 0, 0, 1, 1, 1});
    CHECK(whole(where(gt(x, 3), x, -x)) == Values{-1, -2, -3, 4, 5, 6});
  });
}

TEST_CASE("functions of one element are those of the math library") {
  with_matrix([](const DTensor& x) {
    const auto each = [](const auto& f) {
      Values out;
      for (double value = 1; value <= 6; ++value) out.push_back(f(value - 3.5));
      return out;
    };
    const DTensor y = x - 3.5;
    check_near(exp(y), each([](double v) { return std::exp(v); }));
    check_near(tanh(y), each([](double v) { return std::tanh(v); }));
    check_near(sigmoid(y), each([](double v) { return 1 / (1 + std::exp(-v)); }));
    check_near(relu(y), each([](double v) { return std::max(v, 0.0); }));
    check_near(silu(y), each([](double v) { return v / (1 + std::exp(-v)); }));
    check_near(gelu(y), each([](double v) { return v * std::erfc(-v / std::sqrt(2.0)) / 2; }));
    check_near(gelu(y, Gelu::kTanh), each([](double v) {
                 return v / 2 * (1 + std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
               }));
    check_near(log(x), each([](double v) { return std::log(v + 3.5); }));
    check_near(sqrt(x), each([](double v) { return std::sqrt(v + 3.5); }));
    check_near(rsqrt(x), each([](double v) { return 1 / std::sqrt(v + 3.5); }));
  });
}

TEST_CASE("reductions over all, over some dims, keeping them or not") {
  with_matrix([](const DTensor& x) {
    CHECK(whole(sum(x)) == Values{21});
    CHECK(whole(sum(x, {0})) == Values{9, 12});
    CHECK(sum(x, {0}, KeepDim::kYes).shape() == Dims{1, 2});
    CHECK(whole(mean(x)) == Values{3.5});
    CHECK(whole(mean(x, {1})) == Values{1.5, 3.5, 5.5});
    CHECK(mean(x, {-1}, KeepDim::kYes).shape() == Dims{3, 1});
    CHECK(whole(amax(x)) == Values{6});
    CHECK(whole(amax(x, {0})) == Values{5, 6});
    CHECK(whole(amin(x, {1})) == Values{1, 3, 5});
    CHECK(amin(x, {1}, KeepDim::kYes).shape() == Dims{3, 1});
    check_near(var(x), {3.5});
    check_near(var(x, {0}), {4, 4});
    check_near(var(x, {1}, {.correction = 0}), {0.25, 0.25, 0.25});
    CHECK(var(x, {1}, {.keep = KeepDim::kYes}).shape() == Dims{3, 1});
  });
}

TEST_CASE("one dim may be a number, and no dim is a list of none") {
  with_matrix([](const DTensor& x) {
    CHECK(whole(sum(x, 1)) == Values{3, 7, 11});
    CHECK(whole(sum(x, -1, KeepDim::kYes)) == Values{3, 7, 11});
    CHECK(whole(mean(x, 0)) == Values{3, 4});
    CHECK(whole(sum(x, {0, 1})) == Values{21});
    CHECK(whole(sum(x, {})) == Values{21});
    CHECK(zeros({2}, DType::kI64).dtype() == DType::kI64);
    CHECK(ones({2}, {}).dtype() == DType::kF32);
  });
}

TEST_CASE("products: matmul, mm and linear") {
  with_matrix([](const DTensor& x) {
    const DTensor gram = matmul(transpose(x, 0, 1), x);
    CHECK(whole(gram) == Values{35, 44, 44, 56});
    CHECK(whole(mm(transpose(x, 0, 1), x)) == Values{35, 44, 44, 56});
    CHECK(whole(linear(x, x)) == Values{5, 11, 17, 11, 25, 39, 17, 39, 61});
    CHECK(whole(linear(x, x, sum(x, {1}))) == Values{8, 18, 28, 14, 32, 50, 20, 46, 72});
  });
}

TEST_CASE("layers: softmax, norms, lookups, loss") {
  with_matrix([](const DTensor& x) {
    const double p = 1 / (1 + std::exp(-1.0));
    check_near(softmax(x, 1), {1 - p, p, 1 - p, p, 1 - p, p});
    check_near(log_softmax(x, -1), {std::log(1 - p), std::log(p), std::log(1 - p), std::log(p),
                                    std::log(1 - p), std::log(p)});
    const double z = 0.5 / std::sqrt(0.25 + 1e-5);
    check_near(layer_norm(x, {2}), {-z, z, -z, z, -z, z});
    const DTensor weight = select(x, 0, 0), bias = select(x, 0, 1);
    check_near(layer_norm(x, {2}, {.weight = weight, .bias = bias, .eps = 0}), {2, 6, 2, 6, 2, 6});
    check_near(rms_norm(slice(x, 0, {.end = 1}), {2}, {.weight = weight, .eps = 0}),
               {1 / std::sqrt(2.5), 4 / std::sqrt(2.5)});
    CHECK_THROWS_WITH_AS(rms_norm(x, {2}, {.bias = bias}),
                         doctest::Contains("a bias is given; rms_norm has none"), Error);
    const DTensor target = to(eq(select(x, 1, 0), 3), DType::kI64);  // 0, 1, 0
    CHECK(whole(embedding(target, x)) == Values{1, 2, 3, 4, 1, 2});
    const double loss = -(2 * std::log(1 - p) + std::log(p));
    check_near(cross_entropy(x, target), {loss / 3});
    check_near(cross_entropy(x, target, {.reduction = Reduction::kSum}), {loss});
    check_near(cross_entropy(x, target, {.reduction = Reduction::kNone}),
               {-std::log(1 - p), -std::log(p), -std::log(1 - p)});
    check_near(cross_entropy(x, target, {.ignore_index = 1}), {-std::log(1 - p)});
  });
}

// Expected values: PyTorch 2.15.
TEST_CASE("attention and dropout") {
  spmd(1, [](RankContext&) {
    const Dims shape = {1, 1, 3, 2};
    const DTensor q = tensor({1, 0.5, -1, 2, 0.25, -0.5}, shape),
                  k = tensor({0.5, 1, 1.5, -0.5, -1, 0}, shape),
                  v = tensor({1, 2, 3, 4, 5, 7}, shape);
    check_near(
        scaled_dot_product_attention(q, k, v, {.causal = true}),
        {1, 2, 1.1116144384143396, 2.1116144384143394, 3.044854587598439, 4.309969270078147});
    const DTensor mask = tensor({1, 0, 1, 1, 1, 0, 0, 1, 1}, {3, 3}, DType::kBool);
    check_near(scaled_dot_product_attention(q, k, v, {.mask = mask, .scale = 2.0}),
               {1.0719448398483662, 2.0899310498104575, 1.000670700260933, 2.000670700260933,
                3.296094396063379, 4.444141594095068});
    CHECK(whole(dropout(v, 0)) == whole(v));
    const DTensor kept = dropout(ones({1000}), 0.25);
    for (const double x : whole(kept)) CHECK((x == 0 || std::abs(x - 4.0 / 3) < 1e-6));
    CHECK(sum(kept).item().to_double() == doctest::Approx(1000).epsilon(0.1));
  });
}

TEST_CASE("shapes: elements stay in order, or move as asked") {
  with_matrix([](const DTensor& x) {
    const Values rows = {1, 2, 3, 4, 5, 6}, columns = {1, 3, 5, 2, 4, 6};
    CHECK(view(x, {3, 1, 2}).shape() == Dims{3, 1, 2});
    CHECK(whole(view(x, {-1, 2})) == rows);
    CHECK(whole(reshape(transpose(x, 0, 1), {6})) == columns);
    CHECK(whole(permute(x, {1, 0})) == columns);
    CHECK(squeeze(view(x, {3, 1, 2, 1})).shape() == Dims{3, 2});
    CHECK(squeeze(view(x, {3, 1, 2, 1}), -1).shape() == Dims{3, 1, 2});
    CHECK(unsqueeze(x, 1).shape() == Dims{3, 1, 2});
    CHECK(whole(expand(unsqueeze(select(x, 0, 2), 0), {2, -1})) == Values{5, 6, 5, 6});
  });
}

TEST_CASE("parts and wholes") {
  with_matrix([](const DTensor& x) {
    CHECK(whole(slice(x, 0, {.start = 1})) == Values{3, 4, 5, 6});
    CHECK(whole(slice(x, 0, {.end = -1})) == Values{1, 2, 3, 4});
    CHECK(whole(slice(x, 0, {.step = 2})) == Values{1, 2, 5, 6});
    CHECK(whole(select(x, 1, -1)) == Values{2, 4, 6});
    const std::vector<DTensor> halves = split(x, 2);
    REQUIRE(halves.size() == 2);
    CHECK(whole(halves[1]) == Values{5, 6});
    const std::vector<DTensor> columns = split_with_sizes(x, {1, 1}, 1);
    CHECK(whole(columns.at(1)) == Values{2, 4, 6});
    CHECK(whole(cat({x, x}, 1)) == Values{1, 2, 1, 2, 3, 4, 3, 4, 5, 6, 5, 6});
    CHECK(whole(stack(columns)) == Values{1, 3, 5, 2, 4, 6});
    const DTensor first = to(ge(slice(x, 1, {.end = 1}), 3), DType::kI64);  // [[0], [1], [1]]
    CHECK(whole(gather(x, 1, first)) == Values{1, 4, 6});
    CHECK(whole(clone(x)) == whole(x));
    CHECK(to(x, DType::kF32).is_same(x));
    CHECK(to(x, DType::kBF16).dtype() == DType::kBF16);
  });
}

TEST_CASE("gradients flow through operators as on one device") {
  with_matrix([](const DTensor& x) {
    const DTensor leaf = clone(x);
    require_grad(leaf);
    backward(sum(2 * leaf * leaf - leaf / 4 + 1));
    CHECK(type_string(grad_of(leaf)) == type_string(x));
    CHECK(whole(grad_of(leaf)) == Values{3.75, 7.75, 11.75, 15.75, 19.75, 23.75});
  });
}
