// Programs of several steps: training loops, gradients of gradients, batches in parts, values that
// several losses read. Worked out by loops over whole arrays.
#include <doctest/doctest.h>

#include <cmath>

#include "autograd/grad_mode.h"
#include "autograd/hooks.h"
#include "autograd/tape.h"
#include "sim/world/spmd.h"
#include "tests/unit/models/placed_at_random.h"

using namespace shardlab;
using namespace shardlab::test;

namespace {

// One layer's loss, mean((tanh(x w^T) - t)^2), and its gradient by w.
struct Layer {
  Plain x, target;

  Plain rest(const Plain& weight) const {
    const Plain h = map(product_bt(x, weight), [](double value) { return std::tanh(value); });
    return zip(h, target, std::minus<>());
  }
  double loss(const Plain& weight) const {
    return total(map(rest(weight), [](double r) { return r * r; })) /
           static_cast<double>(target.values.size());
  }
  Plain gradient(const Plain& weight) const {
    const Plain r = rest(weight), h = zip(r, target, std::plus<>());
    const auto count = static_cast<double>(target.values.size());
    return product_at(zip(r, h, [&](double e, double y) { return 2 * e * (1 - y * y) / count; }),
                      x);
  }
};

DTensor layer_loss(const DTensor& x, const DTensor& weight, const DTensor& target) {
  return mean(pow(tanh(linear(x, weight)) - target, 2));
}

// Plain steps of descent with a momentum; the last loss, by its own last weight.
Model descent() {
  constexpr double kRate = 0.3, kMomentum = 0.8;
  constexpr int kSteps = 4;
  Model model;
  const Layer layer{numbers({6, 3}, 1), numbers({6, 2}, 2)};
  Plain weight = numbers({2, 3}, 3), velocity = zeros_of({2, 3});
  model.leaves = {{"x", layer.x}, {"start", weight}};
  for (int step = 0; step < kSteps; ++step) {
    velocity =
        zip(velocity, layer.gradient(weight), [](double v, double g) { return kMomentum * v + g; });
    weight = zip(weight, velocity, [](double w, double v) { return w - kRate * v; });
  }
  model.worked.loss = layer.loss(weight);
  model.program = [layer](const Placed& at, Places& places) {
    DTensor weight = at.at("start").detach();
    require_grad(weight);
    DTensor velocity;
    for (int step = 0; step < kSteps; ++step) {
      backward(layer_loss(at.at("x"), weight, places.place(layer.target)));
      const NoGradGuard off;
      const DTensor own = grad_of(weight);
      velocity = velocity.defined() ? velocity * kMomentum + own : own;
      // The next weight has other placements than this one.
      weight = places.moved(weight - velocity * kRate).detach();
      if (!weight.spec() || !weight.spec()->has_partial()) {
        require_grad(weight);
        continue;
      }
      weight = weight.full_tensor();
      weight = places.place(weight);
      require_grad(weight);
    }
    return layer_loss(at.at("x"), weight, places.place(layer.target));
  };
  return model;
}

// A batch in three parts, whose losses are summed by their gradients.
Model parts_of_a_batch() {
  Model model;
  const Layer layer{numbers({7, 3}, 11), numbers({7, 2}, 12)};
  const Plain weight = numbers({2, 3}, 13);
  model.leaves = {{"weight", weight}};
  model.worked.loss = layer.loss(weight);
  const Plain whole = layer.gradient(weight);
  model.worked.gradients = {{"weight", whole}};
  model.program = [layer](const Placed& at, Places& places) {
    const DTensor x = places.place(layer.x), target = places.place(layer.target);
    DTensor loss;
    const std::vector<DTensor> xs = split(x, 3), targets = split(target, 3);
    for (std::size_t part = 0; part < xs.size(); ++part) {
      const double share = static_cast<double>(xs[part].shape()[0]) / 7;
      const DTensor own = layer_loss(xs[part], at.at("weight"), targets[part]) * share;
      if (part + 1 < xs.size()) backward(own);  // the last part also has the rest
      loss = loss.defined() ? loss + own.detach() : own.detach();
      if (part + 1 == xs.size()) loss = loss + own - own.detach();
    }
    return loss;
  };
  return model;
}

// sum(tanh(x w^T) a) and the squares of its gradient by x: a gradient of a gradient.
Model penalty() {
  Model model;
  const Plain x = numbers({4, 3}, 21), w = numbers({5, 3}, 22), a = numbers({5}, 23);
  model.leaves = {{"x", x}, {"w", w}, {"a", a}};
  const Plain h = map(product_bt(x, w), [](double value) { return std::tanh(value); });
  const auto columns = [](Plain rows, const Plain& by) {
    for (std::int64_t i = 0; i < rows.shape[0]; ++i) {
      for (std::int64_t j = 0; j < rows.shape[1]; ++j) rows.at(i, j) *= by.at(j);
    }
    return rows;
  };
  const Plain slope = map(h, [](double value) { return 1 - value * value; });
  const Plain g = columns(slope, a), first = product_of(g, w);  // d sum / dx
  model.worked.loss =
      total(columns(h, a)) + total(map(first, [](double value) { return value * value; }));
  const Plain of_first = map(first, [](double value) { return 2 * value; });
  const Plain of_g = product_bt(of_first, w);
  // g = (1 - h^2) a
  Plain of_h = columns(zip(of_g, h, [](double in, double y) { return -2 * y * in; }), a);
  for (std::int64_t i = 0; i < 4; ++i) {
    for (std::int64_t j = 0; j < 5; ++j) of_h.at(i, j) += a.at(j);
  }
  const Plain of_z = zip(of_h, slope, std::multiplies<>());
  model.worked.gradients = {
      {"x", product_of(of_z, w)},
      {"w", zip(product_at(of_z, x), product_at(g, of_first), std::plus<>())},
      {"a", column_sums(zip(h, zip(of_g, slope, std::multiplies<>()), std::plus<>()))}};
  model.program = [](const Placed& at, Places& places) {
    const DTensor h = tanh(linear(places.moved(at.at("x")), at.at("w")));
    const DTensor value = sum(places.moved(h) * at.at("a"));
    const DTensor slope = gradients(value, {at.at("x")}, {}, Graph::kCreate).at(0);
    return value + sum(pow(places.moved(slope), 2));
  };
  return model;
}

// A trunk that two heads read; the second one's input is detached in part.
Model two_heads() {
  Model model;
  const Plain x = numbers({5, 4}, 31), trunk = numbers({3, 4}, 32), head = numbers({2, 3}, 33);
  model.leaves = {{"x", x}, {"trunk", trunk}, {"head", head}};
  const Plain h = product_bt(x, trunk), y = product_bt(h, head);
  const auto squares = [](const Plain& p) {
    return total(map(p, [](double value) { return value * value; }));
  };
  model.worked.loss = squares(h) + squares(y) + total(zip(h, h, std::multiplies<>()));
  const Plain of_y = map(y, [](double value) { return 2 * value; });
  // h * detach(h): one of the two factors is a constant.
  const Plain of_h =
      zip(product_of(of_y, head), h, [](double in, double value) { return in + 3 * value; });
  model.worked.gradients = {{"x", product_of(of_h, trunk)},
                            {"trunk", product_at(of_h, x)},
                            {"head", product_at(of_y, h)}};
  model.program = [](const Placed& at, Places& places) {
    const DTensor h = places.moved(linear(at.at("x"), at.at("trunk")));
    const DTensor y = places.moved(linear(h, at.at("head")));
    return sum(pow(h, 2)) + sum(pow(y, 2)) + sum(h * h.detach());
  };
  return model;
}

// A vector's part of the pieces of a rank: from_local and to_local in the middle of a program.
Model through_pieces() {
  Model model;
  const Plain x = numbers({6, 4}, 41), w = numbers({6, 4}, 42);
  model.leaves = {{"x", x}, {"w", w}};
  const Plain y = zip(x, w, std::multiplies<>());
  model.worked.loss = total(map(y, [](double value) { return std::sin(value); }));
  const Plain flow = map(y, [](double value) { return std::cos(value); });
  model.worked.gradients = {{"x", zip(flow, w, std::multiplies<>())},
                            {"w", zip(flow, x, std::multiplies<>())}};
  model.program = [](const Placed& at, Places& places) {
    DTensor y = places.moved(at.at("x") * at.at("w"));
    if (y.spec() != nullptr) {
      const MeshLayout* layout = y.spec()->layout();
      Placements rows(layout->ndim(), Replicate());
      rows[0] = Shard(0);
      y = redistribute(y, rows);
      const DTensor own = recording_calls().one("aten::sin", {to_local(y)});
      const TensorMeta meta = contiguous_meta(y.shape(), y.dtype());
      return sum(from_local(own, layout, rows, meta));
    }
    return sum(recording_calls().one("aten::sin", {y}));
  };
  return model;
}

}  // namespace

TEST_CASE("steps of descent whose weights move between steps end where the loops end") {
  check_model(descent());
}

TEST_CASE("a batch in uneven parts gives the gradient of the whole batch") {
  check_model(parts_of_a_batch());
}

TEST_CASE("V-19 a penalty on a gradient has the gradients that are worked out by hand") {
  check_model(penalty());
}

TEST_CASE("a trunk gets the gradients of both heads, and none through what was detached") {
  check_model(two_heads());
}

TEST_CASE("pieces that leave the mesh and come back carry their gradients along") {
  check_model(through_pieces());
}
