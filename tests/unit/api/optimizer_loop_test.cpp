// Optimizers against the formulas of torch's documentation, written as loops over numbers: every
// combination of their options, on one device and with uneven pieces, for gradients that change
// from step to step.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>

#include "api/optimizers.h"
#include "sim/world/spmd.h"

using namespace shardlab;

namespace {

using Numbers = std::vector<double>;

const Numbers kStart = {0.5, -1.0, 2.0, 0.25, 1.0};
constexpr int kSteps = 5;

/// The gradient of the program below: of sum(w^3 / 3) it is w^2, and one step has none.
bool has_gradient(int step) { return step != 2; }

struct SgdLoop {
  SgdOptions options;
  Numbers momentum = {};

  void step(Numbers& w) {
    const bool first = momentum.empty();
    if (first) momentum.resize(w.size());
    for (std::size_t i = 0; i < w.size(); ++i) {
      double g = (options.maximize ? -1 : 1) * w[i] * w[i] + options.weight_decay * w[i];
      if (options.momentum != 0) {
        momentum[i] = first ? g : options.momentum * momentum[i] + (1 - options.dampening) * g;
        g = options.nesterov ? g + options.momentum * momentum[i] : momentum[i];
      }
      w[i] -= options.lr * g;
    }
  }
};

struct AdamLoop {
  AdamOptions options;
  bool decoupled;
  Numbers mean = {}, square = {}, largest = {};
  int count = 0;

  void step(Numbers& w) {
    mean.resize(w.size()), square.resize(w.size()), largest.resize(w.size());
    ++count;
    const double decay = options.weight_decay.value_or(decoupled ? 0.01 : 0);
    for (std::size_t i = 0; i < w.size(); ++i) {
      double g = (options.maximize ? -1 : 1) * w[i] * w[i];
      if (decoupled) {
        w[i] -= options.lr * decay * w[i];
      } else {
        g += decay * w[i];
      }
      mean[i] = options.beta1 * mean[i] + (1 - options.beta1) * g;
      square[i] = options.beta2 * square[i] + (1 - options.beta2) * g * g;
      largest[i] = std::max(largest[i], square[i]);
      const double unbiased =
          (options.amsgrad ? largest[i] : square[i]) / (1 - std::pow(options.beta2, count));
      const double rate = options.lr / (1 - std::pow(options.beta1, count));
      w[i] -= rate * mean[i] / (std::sqrt(unbiased) + options.eps);
    }
  }
};

/// The values after `kSteps` steps of the optimizer that `make` returns.
template <typename Make>
Numbers stepped(const Make& make, const MeshLayout* mesh, const char* placed) {
  const DTensor start = to(tensor(kStart, {5}), DType::kF64);
  const DTensor w = mesh == nullptr ? start : distribute_tensor(start, mesh, placed);
  require_grad(w);
  auto optimizer = make(std::vector<DTensor>{w});
  for (int step = 0; step < kSteps; ++step) {
    if (has_gradient(step)) backward(sum(w * w * w) / 3.0);
    optimizer.step();
    optimizer.zero_grad();
  }
  return read_doubles(full_tensor(w).local());
}

template <typename Loop>
Numbers looped_steps(Loop loop) {
  Numbers w = kStart;
  for (int step = 0; step < kSteps; ++step) {
    if (has_gradient(step)) loop.step(w);
  }
  return w;
}

void check_close(const Numbers& got, const Numbers& expected) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-11));
  }
}

template <typename Make, typename Loop>
void check_everywhere(const Make& make, const Loop& loop) {
  const Numbers expected = looped_steps(loop);
  spmd(1, [&](RankContext&) { check_close(stepped(make, nullptr, ""), expected); });
  for (const char* placed : {"x=S(0)", "x=R"}) {
    CAPTURE(placed);
    spmd(3, [&](RankContext&) {
      check_close(stepped(make, init_mesh({{"x", 3}}), placed), expected);
    });
  }
}

}  // namespace

TEST_CASE("SGD steps as its formula does, with each combination of options") {
  for (const double momentum : {0.0, 0.9}) {
    for (const double dampening : {0.0, 0.25}) {
      for (const double decay : {0.0, 0.125}) {
        for (const bool nesterov : {false, true}) {
          for (const bool maximize : {false, true}) {
            if (nesterov && (momentum == 0 || dampening != 0)) continue;
            CAPTURE(momentum);
            CAPTURE(dampening);
            CAPTURE(decay);
            CAPTURE(nesterov);
            CAPTURE(maximize);
            const SgdOptions options{.lr = 0.05,
                                     .momentum = momentum,
                                     .dampening = dampening,
                                     .weight_decay = decay,
                                     .nesterov = nesterov,
                                     .maximize = maximize};
            check_everywhere(
                [&](std::vector<DTensor> leaves) { return Sgd(std::move(leaves), options); },
                SgdLoop{options});
          }
        }
      }
    }
  }
}

TEST_CASE("Adam and AdamW step as their formula does, with each combination of options") {
  for (const bool decoupled : {false, true}) {
    for (const bool amsgrad : {false, true}) {
      for (const bool maximize : {false, true}) {
        for (const std::optional<double> decay : {std::optional<double>(), {0.25}}) {
          CAPTURE(decoupled);
          CAPTURE(amsgrad);
          CAPTURE(maximize);
          CAPTURE(decay.has_value());
          const AdamOptions options{.lr = 0.05,
                                    .beta1 = 0.8,
                                    .beta2 = 0.95,
                                    .eps = 1e-3,
                                    .weight_decay = decay,
                                    .amsgrad = amsgrad,
                                    .maximize = maximize};
          const auto kind = decoupled ? WeightDecay::kDecoupled : WeightDecay::kInGradient;
          check_everywhere(
              [&](std::vector<DTensor> leaves) { return Adam(std::move(leaves), options, kind); },
              AdamLoop{options, decoupled});
        }
      }
    }
  }
}

TEST_CASE("a parameter that cannot be trained is refused with the optimizer's name and a fix") {
  spmd(1, [](RankContext&) {
    const DTensor plain = ones({2});
    DTensor leaf = ones({2});
    require_grad(leaf);
    struct Row {
      std::function<void()> make;
      const char *summary, *fix;
    };
    const Row rows[] = {
        {[] { Sgd sgd({}); }, "SGD: the list of parameters is empty",
         "pass the leaves that are trained"},
        {[] { Adam adam({}); }, "Adam: the list of parameters is empty",
         "pass the leaves that are trained"},
        {[] { AdamW adam({}); }, "AdamW: the list of parameters is empty",
         "pass the leaves that are trained"},
        {[&] {
           Sgd sgd({leaf, plain});
         },
         "SGD: a parameter, f32[2], requires no gradient", "x.requires_grad_() before"},
        {[&] { AdamW adam({leaf * 2.0}); },
         "AdamW: a parameter, f32[2], is the result of an op, which keeps no gradient",
         "train a leaf: x = x.detach().requires_grad_(), where x is made, begins one"},
        {[&] { Sgd sgd({leaf}, {.nesterov = true}); },
         "SGD: nesterov takes a momentum and no dampening; they are 0 and 0",
         "give a momentum above 0 and a dampening of 0"},
        {[&] { Sgd sgd({leaf}, {.momentum = 0.5, .dampening = 0.5, .nesterov = true}); },
         "SGD: nesterov takes a momentum and no dampening; they are 0.5 and 0.5",
         "give a momentum above 0 and a dampening of 0"},
    };
    for (const Row& row : rows) {
      try {
        row.make();
        FAIL_CHECK("not refused: ", row.summary);
      } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::kValue);
        CHECK(error.summary() == row.summary);
        CHECK(*error.find("fix") == row.fix);
      }
    }
  });
}

TEST_CASE("parameters on several meshes and on none are trained by one optimizer") {
  spmd(4, [](RankContext&) {
    const MeshLayout* pairs = init_mesh({{"a", 2}, {"b", 2}});
    const MeshLayout* line = init_mesh({{"c", 4}});
    std::vector<DTensor> leaves;
    for (int which = 0; which < 3; ++which) {
      const DTensor start = to(tensor(kStart, {5}), DType::kF64);
      const DTensor leaf = which == 0   ? start
                           : which == 1 ? distribute_tensor(start, pairs, "b=S(0)")
                                        : distribute_tensor(start, line, "c=S(0)");
      require_grad(leaf);
      leaves.push_back(leaf);
    }
    Sgd sgd(leaves, {.lr = 0.05, .momentum = 0.9});
    for (int step = 0; step < kSteps; ++step) {
      for (const DTensor& leaf : leaves) {
        if (has_gradient(step)) backward(sum(leaf * leaf * leaf) / 3.0);
      }
      sgd.step();
      sgd.zero_grad();
    }
    const Numbers expected = looped_steps(SgdLoop{{.lr = 0.05, .momentum = 0.9}});
    for (const DTensor& leaf : leaves)
      check_close(read_doubles(full_tensor(leaf).local()), expected);
  });
}
