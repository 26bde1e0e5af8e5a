// Layers of matrix products. Forward and backward are worked out by loops over whole arrays, and
// the program must give the same for all placements of its leaves and of its intermediate values.
#include <doctest/doctest.h>

#include <cmath>

#include "sim/world/spmd.h"
#include "tests/unit/models/placed_at_random.h"

using namespace shardlab;
using namespace shardlab::test;

namespace {

double square(double x) { return x * x; }

Plain tanh_of(const Plain& x) {
  return map(x, [](double value) { return std::tanh(value); });
}

// The gradient before a tanh that gave `y`.
Plain tanh_back(const Plain& y, const Plain& flow) {
  return zip(y, flow, [](double value, double in) { return (1 - value * value) * in; });
}

Plain scaled(const Plain& x, double factor) {
  return map(x, [&](double value) { return value * factor; });
}

Plain sum_of(const Plain& a, const Plain& b) { return zip(a, b, std::plus<>()); }

// Two linear layers with a tanh between them, compared with a target.
Model mlp() {
  Model model;
  const Plain x = numbers({5, 3}, 1), up = numbers({4, 3}, 2), up_bias = numbers({4}, 3),
              down = numbers({2, 4}, 4), down_bias = numbers({2}, 5), target = numbers({5, 2}, 6);
  model.leaves = {
      {"x", x},          {"up", up}, {"up_bias", up_bias}, {"down", down}, {"down_bias", down_bias},
      {"target", target}};
  const Plain h = tanh_of(with_bias(product_bt(x, up), up_bias));
  const Plain rest = zip(with_bias(product_bt(h, down), down_bias), target, std::minus<>());
  const Plain out = scaled(rest, 2.0 / 10);
  const Plain before = tanh_back(h, product_of(out, down));
  model.worked.loss = total(map(rest, square)) / 10;
  model.worked.gradients = {{"x", product_of(before, up)},    {"up", product_at(before, x)},
                            {"up_bias", column_sums(before)}, {"down", product_at(out, h)},
                            {"down_bias", column_sums(out)},  {"target", scaled(out, -1)}};
  model.program = [](const Placed& at, Places& places) {
    const DTensor h = tanh(places.moved(linear(at.at("x"), at.at("up"), at.at("up_bias"))));
    const DTensor y = linear(places.moved(h), at.at("down"), at.at("down_bias"));
    return mean(pow(places.moved(y - at.at("target")), 2));
  };
  return model;
}

// A layer that is added to its input, three times with the same weight.
Model residual() {
  constexpr int kTimes = 3;
  Model model;
  const Plain x = numbers({3, 4}, 11), weight = numbers({4, 4}, 12);
  model.leaves = {{"x", x}, {"weight", weight}};
  std::vector<Plain> inputs{x}, inner;
  for (int i = 0; i < kTimes; ++i) {
    inner.push_back(tanh_of(product_of(inputs.back(), weight)));
    inputs.push_back(sum_of(inputs.back(), inner.back()));
  }
  model.worked.loss = total(map(inputs.back(), square));
  Plain flow = scaled(inputs.back(), 2), of_weight = zeros_of({4, 4});
  for (int i = kTimes - 1; i >= 0; --i) {
    const auto at = static_cast<std::size_t>(i);
    const Plain before = tanh_back(inner[at], flow);
    of_weight = sum_of(of_weight, product_at(inputs[at], before));
    flow = sum_of(flow, product_bt(before, weight));
  }
  model.worked.gradients = {{"x", flow}, {"weight", of_weight}};
  model.program = [](const Placed& at, Places& places) {
    DTensor x = at.at("x");
    for (int i = 0; i < kTimes; ++i) {
      x = places.moved(x + tanh(places.moved(matmul(x, at.at("weight")))));
    }
    return sum(pow(x, 2));
  };
  return model;
}

// Elman's cell over five steps: h = tanh(x[:, t] in^T + h rec^T); the loss reads every step.
Model recurrent() {
  constexpr std::int64_t kSteps = 5;
  Model model;
  const Plain x = numbers({3, kSteps, 2}, 21), in = numbers({4, 2}, 22), rec = numbers({4, 4}, 23);
  model.leaves = {{"x", x}, {"in", in}, {"rec", rec}};
  const auto step = [&](std::int64_t t) {
    Plain now = zeros_of({3, 2});
    for (std::int64_t i = 0; i < 3; ++i) {
      for (std::int64_t j = 0; j < 2; ++j) now.at(i, j) = x.at(i, t, j);
    }
    return now;
  };
  std::vector<Plain> h{zeros_of({3, 4})};
  for (std::int64_t t = 0; t < kSteps; ++t) {
    h.push_back(tanh_of(sum_of(product_bt(step(t), in), product_bt(h.back(), rec))));
    model.worked.loss += static_cast<double>(t + 1) * total(map(h.back(), square));
  }
  Plain flow = zeros_of({3, 4}), of_x = zeros_of(x.shape), of_in = zeros_of(in.shape),
        of_rec = zeros_of(rec.shape);
  for (std::int64_t t = kSteps - 1; t >= 0; --t) {
    const auto at = static_cast<std::size_t>(t);
    flow = sum_of(flow, scaled(h[at + 1], 2.0 * static_cast<double>(t + 1)));
    const Plain before = tanh_back(h[at + 1], flow);
    of_in = sum_of(of_in, product_at(before, step(t)));
    of_rec = sum_of(of_rec, product_at(before, h[at]));
    const Plain back = product_of(before, in);
    for (std::int64_t i = 0; i < 3; ++i) {
      for (std::int64_t j = 0; j < 2; ++j) of_x.at(i, t, j) = back.at(i, j);
    }
    flow = product_of(before, rec);
  }
  model.worked.gradients = {{"x", of_x}, {"in", of_in}, {"rec", of_rec}};
  model.program = [](const Placed& at, Places& places) {
    DTensor h, loss;
    for (std::int64_t t = 0; t < kSteps; ++t) {
      DTensor z = linear(select(at.at("x"), 1, t), at.at("in"));
      if (h.defined()) z = z + linear(h, at.at("rec"));
      h = places.moved(tanh(z));
      const DTensor own = sum(pow(h, 2)) * static_cast<double>(t + 1);
      loss = loss.defined() ? loss + own : own;
    }
    return loss;
  };
  return model;
}

// Three experts of one layer each, mixed by the softmax of a router.
Model experts() {
  constexpr std::int64_t kExperts = 3, kRows = 7, kWidth = 4;
  Model model;
  const Plain x = numbers({kRows, kWidth}, 31), router = numbers({kExperts, kWidth}, 32);
  const Plain weights = numbers({kExperts, kWidth, kWidth}, 33);
  model.leaves = {{"x", x}, {"router", router}, {"weights", weights}};
  const auto expert = [&](std::int64_t e) {
    Plain own = zeros_of({kWidth, kWidth});
    for (std::int64_t i = 0; i < kWidth * kWidth; ++i)
      own.at(i) = weights.at(e * kWidth * kWidth + i);
    return own;
  };
  const Plain p = softmax_rows(product_bt(x, router));
  std::vector<Plain> given;
  Plain y = zeros_of(x.shape);
  for (std::int64_t e = 0; e < kExperts; ++e) {
    given.push_back(tanh_of(product_of(x, expert(e))));
    for (std::int64_t i = 0; i < kRows; ++i) {
      for (std::int64_t j = 0; j < kWidth; ++j) y.at(i, j) += p.at(i, e) * given.back().at(i, j);
    }
  }
  model.worked.loss = total(map(y, square));
  const Plain flow = scaled(y, 2);
  Plain of_p = zeros_of(p.shape), of_x = zeros_of(x.shape), of_weights = zeros_of(weights.shape);
  for (std::int64_t e = 0; e < kExperts; ++e) {
    const Plain& own = given[static_cast<std::size_t>(e)];
    Plain of_own = flow;
    for (std::int64_t i = 0; i < kRows; ++i) {
      for (std::int64_t j = 0; j < kWidth; ++j) {
        of_p.at(i, e) += flow.at(i, j) * own.at(i, j);
        of_own.at(i, j) *= p.at(i, e);
      }
    }
    const Plain before = tanh_back(own, of_own);
    of_x = sum_of(of_x, product_bt(before, expert(e)));
    const Plain part = product_at(x, before);
    for (std::int64_t i = 0; i < kWidth * kWidth; ++i) {
      of_weights.at(e * kWidth * kWidth + i) = part.at(i);
    }
  }
  const Plain before = softmax_back(p, of_p);
  model.worked.gradients = {{"x", sum_of(of_x, product_of(before, router))},
                            {"router", product_at(before, x)},
                            {"weights", of_weights}};
  model.program = [](const Placed& at, Places& places) {
    const DTensor& x = at.at("x");
    const DTensor p = places.moved(softmax(linear(x, at.at("router")), 1));  // [rows, experts]
    const DTensor given = places.moved(tanh(matmul(unsqueeze(x, 0), at.at("weights"))));
    const DTensor mixed = sum(unsqueeze(transpose(p, 0, 1), 2) * given, 0);
    return sum(pow(places.moved(mixed), 2));
  };
  return model;
}

}  // namespace

TEST_CASE("two layers give the loops' loss and gradients, however everything lies") {
  check_model(mlp());
}

TEST_CASE("a weight that is used three times has the sum of its gradients, however it lies") {
  check_model(residual());
}

TEST_CASE("a recurrent cell over five steps has the gradients of the loops back through time") {
  check_model(recurrent());
}

TEST_CASE("experts that a router mixes have the loops' gradients, cut by expert, row or column") {
  check_model(experts());
}
