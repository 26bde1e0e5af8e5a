// Expected weights: PyTorch 2.15, torch.nn modules of the same shape, in f64.
#include "api/modules.h"

#include <doctest/doctest.h>

#include <deque>

#include "sim/world/spmd.h"

using namespace shardlab;

namespace {

using Values = std::vector<double>;

struct Mlp : Module {
  Linear up{2, 3}, down{3, 2, Bias::kNo};
  LayerNorm norm{2};
  Mlp() {
    add("up", up);
    add("down", down);
    add("norm", norm);
  }
  DTensor forward(Operand x) const { return norm.forward(down.forward(tanh(up.forward(x)))); }
};

// -0.75 to 0.75 in steps of 0.25, again and again.
DTensor filled(const Dims& shape, std::int64_t start) {
  Values values;
  for (std::int64_t i = 0; i < product(shape); ++i) {
    values.push_back((static_cast<double>((i + start) % 7) - 3) / 4);
  }
  return tensor(values, shape, DType::kF64);
}

NamedTensors initial() {
  return {{"up.weight", filled({3, 2}, 1)},
          {"up.bias", filled({3}, 2)},
          {"down.weight", filled({2, 3}, 3)},
          {"norm.weight", ones({2}, DType::kF64)},
          {"norm.bias", zeros({2}, DType::kF64)}};
}

// Three steps; the loss before the last one, and the weights.
std::pair<double, NamedTensors> trained(const MeshLayout* mesh,
                                        const std::vector<ShardPattern>& patterns) {
  Mlp model;
  model.replace(initial());
  if (mesh != nullptr) shard(model, mesh, patterns);
  const auto placed = [&](const DTensor& whole) {
    return mesh == nullptr ? whole : distribute_tensor(whole, mesh, "dp=S(0)");
  };
  const DTensor x = placed(filled({4, 2}, 2)), target = placed(filled({4, 2}, 5));
  Sgd optimizer(model.parameters(), {.lr = 0.1});
  DTensor loss;
  for (int step = 0; step < 3; ++step) {
    model.zero_grad();
    loss = mean(pow(model.forward(x) - target, 2));
    loss.backward();
    optimizer.step();
  }
  NamedTensors weights;
  for (const auto& [name, parameter] : model.named_parameters()) {
    weights[name] = parameter.full_tensor();
  }
  return {loss.item().to_double(), weights};
}

void check_trained(const std::pair<double, NamedTensors>& got) {
  const std::map<std::string, Values> expected = {
      {"up.weight",
       {-0.4996379627259011, -0.2503592378724144, -0.0005659414296571984, 0.2505636375478446,
        0.4994157907140702, 0.7505850020759887}},
      {"up.bias", {-0.249219298735119, -0.0011632886460087744, 0.24881527511022286}},
      {"down.weight",
       {0.00042296075607586706, 0.2501451424547882, 0.49984886613249613, 0.749577039243924,
        -0.7501451424547882, -0.49984886613249613}},
      {"norm.weight", {0.6859106644443778, 0.7554899652322178}},
      {"norm.bias", {-0.13591349885847476, 0.17331903834335377}}};
  CHECK(got.first == doctest::Approx(0.8784270529395847).epsilon(1e-12));
  REQUIRE(got.second.size() == expected.size());
  for (const auto& row : expected) {
    const auto& name = row.first;
    const auto& values = row.second;
    CAPTURE(name);
    const Values weights = read_doubles(got.second.at(name).local());
    REQUIRE(weights.size() == values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      CHECK(weights[i] == doctest::Approx(values[i]).epsilon(1e-11));
    }
  }
}

}  // namespace

TEST_CASE("a model of modules trains as in torch, on one device and however it is placed") {
  spmd(1, [](RankContext&) { check_trained(trained(nullptr, {})); });
  spmd(4, [](RankContext&) {
    check_trained(
        trained(init_mesh({{"dp", 2}, {"tp", 2}}),
                {{"up.weight", "[_@tp, _]"}, {"up.bias", "[_@tp]"}, {"down.weight", "[_, _@tp]"}}));
  });
}

TEST_CASE("named_parameters: torch's names, in torch's order, each once") {
  spmd(1, [](RankContext&) {
    struct Tied : Module {
      std::deque<Linear> layers;
      Embedding table{5, 4};
      DTensor tied;
      DTensor none;
      Tied() : tied(table.weight) {
        add("tied", tied);
        add("none", none);
        for (int i = 0; i < 2; ++i) add("layer" + std::to_string(i), layers.emplace_back(4, 4));
        add("table", table);
      }
    };
    Tied model;
    std::vector<std::string> names;
    for (const auto& [name, parameter] : model.named_parameters()) names.push_back(name);
    CHECK(names == std::vector<std::string>{"tied", "layer0.weight", "layer0.bias", "layer1.weight",
                                            "layer1.bias"});
    CHECK(model.parameters().size() == 5);
    for (const DTensor& parameter : model.parameters()) CHECK(parameter.requires_grad());
    // Replaced under one of its names, a parameter stays one.
    model.replace({{"table.weight", zeros({5, 4})}});
    CHECK(model.tied.is_same(model.table.weight));
    CHECK(is_leaf(model.tied));
    const DTensor rows = model.table.forward(tensor({0, 4, 4}, {3}, DType::kI64));
    rows.sum().backward();
    CHECK(read_doubles(sum(model.tied.grad(), 1).local()) == Values{4, 0, 0, 0, 8});
    model.zero_grad();
    CHECK(!model.tied.grad().defined());
  });
}

TEST_CASE("layers draw and normalise as torch's do") {
  spmd(1, [](RankContext&) {
    const Linear layer(16, 400);
    for (const double weight : read_doubles(layer.weight.local())) CHECK(std::abs(weight) <= 0.25);
    CHECK(std::abs(layer.weight.mean().item().to_double()) < 0.02);
    const DTensor spread = var(layer.weight, {0, 1});
    CHECK(spread.item().to_double() == doctest::Approx(0.25 * 0.25 / 3).epsilon(0.05));
    const RmsNorm norm(2);
    const DTensor y = norm.forward(tensor({3, 4}, {1, 2}));
    CHECK(read_doubles(y.local())[1] == doctest::Approx(4 / std::sqrt(12.5)));
  });
}

TEST_CASE("a module refuses names that say nothing or too much") {
  spmd(1, [](RankContext&) {
    struct Twice : Module {
      DTensor w = ones({2});
      Twice() {
        add("w", w);
        add("w", w);
      }
    };
    CHECK_THROWS_WITH_AS(Twice(), doctest::Contains("the name 'w' is empty, has a dot or is taken"),
                         Error);
    Linear layer(2, 3);
    CHECK_THROWS_WITH_AS(layer.replace({{"wieght", ones({3, 2})}}),
                         doctest::Contains("did you mean 'weight'?"), Error);
    CHECK_THROWS_WITH_AS(layer.replace({{"weight", ones({2, 3})}}),
                         doctest::Contains("the parameter 'weight' is f32[3, 2], its new value"),
                         Error);
  });
}
