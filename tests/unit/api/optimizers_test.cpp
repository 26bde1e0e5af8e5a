// Expected weights: PyTorch 2.15, torch.optim on the same tensors in f64.
#include "api/optimizers.h"

#include <doctest/doctest.h>

#include <functional>

#include "sim/world/spmd.h"

using namespace shardlab;

namespace {

using Values = std::vector<double>;
using Step = std::function<void()>;
// An optimizer of these parameters, as its step.
using Make = std::function<Step(const std::vector<DTensor>& parameters)>;

template <typename Optimizer, typename... Options>
Make made(const Options&... options) {
  return [=](const std::vector<DTensor>& parameters) -> Step {
    auto optimizer = std::make_shared<Optimizer>(parameters, options...);
    return [optimizer] {
      optimizer->step();
      optimizer->zero_grad();
    };
  };
}

DTensor f64(const Values& values, const MeshLayout* mesh, const char* placements) {
  const DTensor whole = to(tensor(values, {3, 2}), DType::kF64);
  return mesh == nullptr ? whole : distribute_tensor(whole, mesh, placements);
}

// After four steps of the least of sum(w * w * c), which has its gradient pending on one mesh dim.
Values trained(const Make& make, const MeshLayout* mesh) {
  const DTensor w = f64({0.5, -1.0, 2.0, 0.25, 1.0, -0.75}, mesh, "x=S(0)");
  const DTensor c = f64({1.0, 0.5, -0.25, 2.0, 0.75, 1.5}, mesh, "y=P(sum)");
  const DTensor idle = f64({1, 2, 3, 4, 5, 6}, mesh, "y=S(1)");
  require_grad(w);
  require_grad(idle);
  const Step step = make({idle, w});
  for (int i = 0; i < 4; ++i) {
    backward(sum(mul(mul(w, w), c)));
    step();
    CHECK(!grad_of(w).defined());
  }
  CHECK(read_doubles(full_tensor(idle).local()) == Values{1, 2, 3, 4, 5, 6});
  return read_doubles(full_tensor(w).local());
}

void check(const Make& make, const Values& expected) {
  const auto agrees = [&](const Values& got) {
    REQUIRE(got.size() == expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-12));
    }
  };
  spmd(1, [&](RankContext&) { agrees(trained(make, nullptr)); });
  spmd(4, [&](RankContext&) { agrees(trained(make, init_mesh({{"x", 2}, {"y", 2}}))); });
}

}  // namespace

TEST_CASE("SGD: steps, momentum, decay, Nesterov's, upwards") {
  check(made<Sgd>(SgdOptions{.lr = 0.1}), {0.2048, -0.6561000000000001, 2.4310125000000005, 0.0324,
                                           0.52200625, -0.18007499999999999});
  check(made<Sgd>(SgdOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.25, .weight_decay = 0.125}),
        {-0.1155464212417603, -0.25455682792663564, 2.600513228607178, -0.19620441789627077,
         -0.007697218704223757, 0.4283855223655701});
  check(made<Sgd>(SgdOptions{.lr = 0.1, .momentum = 0.9, .nesterov = true}),
        {-0.16241152000000003, -0.09388790999999998, 3.39522647625, -0.08752536000000001,
         -0.16501376187500016, 0.31985031750000004});
  check(
      made<Sgd>(SgdOptions{.lr = 0.1, .maximize = true}),
      {1.0368, -1.4641000000000002, 1.6290125, 0.9603999999999999, 1.7490062499999999, -2.142075});
}

TEST_CASE("Adam and AdamW: decay in the gradient and beside it, amsgrad, upwards") {
  check(made<Adam>(AdamOptions{.lr = 0.1, .weight_decay = 0.125}),
        {0.11291539794003431, -0.603939062213583, 2.4008218297743507, -0.09313812751474619,
         0.603939061060291, -0.3562305969630179});
  check(made<AdamW>(AdamOptions{.lr = 0.1, .beta1 = 0.8, .beta2 = 0.95}),
        {0.11542064374551213, -0.6022372236442537, 2.3928743311643066, -0.08328200582444942,
         0.6022372222482313, -0.35619250646028106});
  check(made<Adam>(AdamOptions{.lr = 0.1, .amsgrad = true}),
        {0.11291539819002169, -0.603939062682108, 2.4008218310639826, -0.09313812742363152,
         0.6039390612765332, -0.35623059703871335});
  check(made<AdamW>(AdamOptions{.lr = 0.1, .weight_decay = 0.5, .maximize = true}),
        {0.7793360811096137, -1.186272846905359, 1.2616637987554495, 0.5738644731536262,
         1.1862728481024034, -0.9829044799007858});
}

TEST_CASE("an optimizer refuses what it cannot train") {
  spmd(1, [](RankContext&) {
    const DTensor w = tensor({1, 2}, {2});
    CHECK_THROWS_WITH_AS(Sgd({}), doctest::Contains("the list of parameters is empty"), Error);
    CHECK_THROWS_WITH_AS(AdamW({w}), doctest::Contains("AdamW: a parameter, f32[2], requires no"),
                         Error);
    require_grad(w);
    CHECK_THROWS_WITH_AS(Sgd({w}, {.nesterov = true}), doctest::Contains("no dampening"), Error);
  });
}

TEST_CASE("training makes the loss smaller, on a mesh as on one device") {
  const auto losses = [](const MeshLayout* mesh) {
    const auto placed = [&](const DTensor& whole, const char* placements) {
      return mesh == nullptr ? whole : distribute_tensor(whole, mesh, placements);
    };
    const DTensor x = placed(randn({8, 16}), "dp=S(0)");
    const DTensor up = placed(randn({16, 64}), "tp=S(1)");
    const DTensor down = placed(randn({64, 16}), "tp=S(0)");
    require_grad(up);
    require_grad(down);
    const auto loss = [&] { return mean(pow(matmul(gelu(matmul(x, up)), down), 2)); };
    Values values = {read_scalar(full_tensor(loss()).local()).to_double()};
    AdamW optimizer({up, down}, {.lr = 3e-4});
    for (int step = 0; step < 10; ++step) {
      optimizer.zero_grad();
      backward(mean(pow(matmul(gelu(matmul(x, up)), down), 2)));
      optimizer.step();
    }
    values.push_back(read_scalar(full_tensor(loss()).local()).to_double());
    return values;
  };
  Values alone;
  spmd(1, [&](RankContext&) { alone = losses(nullptr); });
  CHECK(alone[1] < alone[0]);
  spmd(4, [&](RankContext&) {
    const Values together = losses(init_mesh({{"dp", 2}, {"tp", 2}}));
    CHECK(together[0] == doctest::Approx(alone[0]).epsilon(1e-5));
    CHECK(together[1] == doctest::Approx(alone[1]).epsilon(1e-5));
  });
}
