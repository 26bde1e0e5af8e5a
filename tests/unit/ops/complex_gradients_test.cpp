// Gradients of complex numbers, compared with differences: of Re(sum(conj(g) f(z))) the gradient is
// its slope along the real axis plus i times its slope along the imaginary axis.
#include <doctest/doctest.h>

#include <complex>
#include <random>

#include "api/shardlab.h"
#include "autograd/program.h"
#include "sim/world/spmd.h"

using namespace shardlab;

namespace {

using Values = std::vector<double>;

DTensor complex_tensor(const Values& pairs, const Dims& shape) {
  const Tensor made = empty(*current_rank().device, shape, DType::kC128);
  write_doubles(made, pairs);
  return DTensor(made);
}

struct Case {
  const char* op;
  std::vector<Dims> shapes;
  std::vector<Argument> others = {};
};

DTensor called(const Case& one, const std::vector<Values>& inputs, std::vector<DTensor>* leaves) {
  Arguments args;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const DTensor x = complex_tensor(inputs[i], one.shapes[i]);
    if (leaves != nullptr) {
      require_grad(x);
      leaves->push_back(x);
    }
    args.emplace_back(x);
  }
  for (const Argument& other : one.others) args.push_back(other);
  return program_calls().one(one.op, std::move(args));
}

// Re(sum(conj(g) f(z))), of numbers or of pairs.
double risen(const Values& gradient, const Values& result) {
  double sum = 0;
  for (std::size_t i = 0; i < gradient.size(); ++i) sum += gradient[i] * result[i];
  return sum;
}

void check(const Case& one, std::mt19937_64& random) {
  const auto drawn = [&](std::size_t count) {
    Values values;
    for (std::size_t i = 0; i < count; ++i) {
      values.push_back(0.3 + static_cast<double>(random() % 1000) / 1500 * (i % 3 == 1 ? -1 : 1));
    }
    return values;
  };
  std::vector<Values> inputs;
  for (const Dims& shape : one.shapes) {
    inputs.push_back(drawn(2 * static_cast<std::size_t>(product(shape))));
  }
  std::vector<DTensor> leaves;
  const DTensor result = called(one, inputs, &leaves);
  const bool complex = is_complex(result.dtype());
  const Values flowing =
      drawn(static_cast<std::size_t>(result.local().numel()) * (complex ? 2 : 1));
  DTensor seed = complex ? complex_tensor(flowing, result.shape()) : clone(detach(result));
  if (!complex) write_doubles(seed.local(), flowing);
  const std::vector<DTensor> found = gradients(result, leaves, seed);
  constexpr double kStep = 1e-6;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const Values gradient = read_doubles(found[k].local());
    for (std::size_t i = 0; i < inputs[k].size(); ++i) {
      std::vector<Values> above = inputs, below = inputs;
      above[k][i] += kStep;
      below[k][i] -= kStep;
      const double rise = (risen(flowing, read_doubles(called(one, above, nullptr).local())) -
                           risen(flowing, read_doubles(called(one, below, nullptr).local()))) /
                          (2 * kStep);
      CAPTURE(one.op);
      CAPTURE(k);
      CAPTURE(i);
      CHECK(gradient[i] == doctest::Approx(rise).epsilon(1e-6));
    }
  }
}

}  // namespace

TEST_CASE("gradients of complex numbers are those of differences") {
  std::mt19937_64 random(7);
  spmd(1, [&](RankContext&) {
    for (const char* op :
         {"abs",    "acos", "acosh",      "asin",  "asinh",        "atan",         "atanh", "cos",
          "cosh",   "exp",  "exp2",       "expm1", "log",          "log10",        "log1p", "log2",
          "neg",    "prod", "reciprocal", "rsqrt", "sigmoid",      "sin",          "sinh",  "sqrt",
          "square", "sum",  "tan",        "tanh",  "view_as_real", "conj_physical"}) {
      check({op, {{3, 2}}}, random);
    }
    for (const char* op :
         {"add.Tensor", "div.Tensor", "mul.Tensor", "pow.Tensor_Tensor", "sub.Tensor"}) {
      check({op, {{3, 2}, {2}}}, random);
    }
    check({"mm", {{2, 3}, {3, 2}}}, random);
    check({"bmm", {{2, 2, 3}, {2, 3, 1}}}, random);
    check({"addmm", {{2}, {2, 3}, {3, 2}}}, random);
    check({"mv", {{2, 3}, {3}}}, random);
    check({"dot", {{3}, {3}}}, random);
    check({"addcmul", {{3}, {3}, {3}}}, random);
    check({"addcdiv", {{3}, {3}, {3}}}, random);
    check({"cumprod", {{4}}, {std::int64_t{0}}}, random);
    check({"cumsum", {{4}}, {std::int64_t{0}}}, random);
    check({"transpose.int", {{2, 3}}, {std::int64_t{0}, std::int64_t{1}}}, random);
    check({"mul.Scalar", {{3}}, {2.5}}, random);
    check({"pow.Tensor_Scalar", {{3}}, {2.5}}, random);
  });
}
