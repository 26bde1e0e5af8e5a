// Ops that read neighbours or look up rows: convolutions, pools, scans, gathers. Forward and
// backward are worked out by loops over whole arrays.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "sim/world/spmd.h"
#include "tests/unit/models/definition.h"

using namespace shardlab;
using namespace shardlab::test;

namespace {

// One output and the element of the input that a weight's element meets there.
struct Meeting {
  std::int64_t n, out, y, x;     ///< of the output
  std::int64_t in, ky, kx;       ///< of the weight: in of its group
  std::int64_t channel, iy, ix;  ///< of the input
};

struct Window {
  Dims input, weight, stride, padding, dilation;
  std::int64_t groups = 1;

  std::int64_t size(std::size_t d) const {
    const std::int64_t reach = dilation[d] * (weight[d + 2] - 1) + 1;
    return (input[d + 2] + 2 * padding[d] - reach) / stride[d] + 1;
  }
  Dims output() const { return {input[0], weight[0], size(0), size(1)}; }

  // All meetings inside of the input, `visit` is called with each.
  void each(const std::function<void(const Meeting&)>& visit) const {
    const Dims out = output();
    for (std::int64_t n = 0; n < out[0]; ++n) {
      for (std::int64_t o = 0; o < out[1]; ++o) {
        for (std::int64_t y = 0; y < out[2]; ++y) {
          for (std::int64_t x = 0; x < out[3]; ++x) each_of({n, o, y, x}, visit);
        }
      }
    }
  }

 private:
  void each_of(const Dims& at, const std::function<void(const Meeting&)>& visit) const {
    const std::int64_t group = at[1] / (weight[0] / groups);
    for (std::int64_t in = 0; in < weight[1]; ++in) {
      for (std::int64_t ky = 0; ky < weight[2]; ++ky) {
        for (std::int64_t kx = 0; kx < weight[3]; ++kx) {
          const std::int64_t iy = at[2] * stride[0] - padding[0] + ky * dilation[0];
          const std::int64_t ix = at[3] * stride[1] - padding[1] + kx * dilation[1];
          if (iy < 0 || ix < 0 || iy >= input[2] || ix >= input[3]) continue;
          visit({at[0], at[1], at[2], at[3], in, ky, kx, group * weight[1] + in, iy, ix});
        }
      }
    }
  }
};

Model convolution_model(const Window& window) {
  Model model;
  const Plain x = numbers(window.input, 1), weight = numbers(window.weight, 2),
              bias = numbers({window.weight[0]}, 3), factors = numbers(window.output(), 4);
  model.leaves = {{"x", x}, {"weight", weight}, {"bias", bias}, {"factors", factors}};
  Plain y = zeros_of(window.output()), of_x = zeros_of(x.shape), of_weight = zeros_of(weight.shape),
        of_bias = zeros_of(bias.shape);
  const Dims& out = y.shape;
  for (std::int64_t i = 0; i < product(out); ++i) {
    const std::int64_t channel = i / (out[2] * out[3]) % out[1];
    y.at(i) = bias.at(channel);
    of_bias.at(channel) += factors.at(i);
  }
  window.each([&](const Meeting& m) {
    const double flow = factors.at(m.n, m.out, m.y, m.x);
    const double element = x.at(m.n, m.channel, m.iy, m.ix);
    const double factor = weight.at(m.out, m.in, m.ky, m.kx);
    y.at(m.n, m.out, m.y, m.x) += element * factor;
    of_x.at(m.n, m.channel, m.iy, m.ix) += flow * factor;
    of_weight.at(m.out, m.in, m.ky, m.kx) += flow * element;
  });
  model.worked.loss = total(zip(y, factors, std::multiplies<>()));
  model.worked.gradients = {{"x", of_x}, {"weight", of_weight}, {"bias", of_bias}, {"factors", y}};
  model.program = [window](const Placed& at, Places& places) {
    const DTensor y = first_of(
        "aten::conv2d", {places.moved(at.at("x")), at.at("weight"), at.at("bias"),
                         ints({window.stride.begin(), window.stride.end()}),
                         ints({window.padding.begin(), window.padding.end()}),
                         ints({window.dilation.begin(), window.dilation.end()}), window.groups});
    return sum(places.moved(y) * at.at("factors"));
  };
  return model;
}

// The mean or the largest of windows of 2 x 3 that touch.
Model pool_model(bool largest) {
  const Dims in{2, 3, 4, 6}, out{2, 3, 2, 2};
  Model model;
  const Plain x = numbers(in, 11), factors = numbers(out, 12);
  model.leaves = {{"x", x}};
  Plain of_x = zeros_of(in);
  for (std::int64_t i = 0; i < product(out); ++i) {
    const std::int64_t plane = i / 4, row = i % 4 / 2 * 2, column = i % 2 * 3;
    std::vector<std::int64_t> window;
    for (std::int64_t k = 0; k < 6; ++k) {
      window.push_back(plane * 24 + (row + k / 3) * 6 + column + k % 3);
    }
    const std::int64_t chosen = *std::ranges::max_element(
        window, [&](std::int64_t a, std::int64_t b) { return x.at(a) < x.at(b); });
    for (const std::int64_t element : window) {
      const double share = largest ? (element == chosen ? 1.0 : 0.0) : 1.0 / 6;
      of_x.at(element) += factors.at(i) * share;
      model.worked.loss += factors.at(i) * share * x.at(element);
    }
  }
  model.worked.gradients = {{"x", of_x}};
  model.program = [factors, largest](const Placed& at, Places& places) {
    const DTensor y = first_of(largest ? "aten::max_pool2d" : "aten::avg_pool2d",
                               {places.moved(at.at("x")), ints({2, 3})});
    const DTensor by = places.place(factors);
    return sum(places.moved(y) * by);
  };
  return model;
}

// Running sums along a dim, and the largest of the elements that each row picks out of them.
Model scan_model(std::int64_t dim) {
  Model model;
  const Plain x = numbers({5, 4}, 21), factors = numbers({5, 4}, 22);
  model.leaves = {{"x", x}};
  Plain running = x, of_x = zeros_of(x.shape);
  for (std::int64_t i = 0; i < 5; ++i) {
    for (std::int64_t j = 0; j < 4; ++j) {
      if (dim == 0 && i > 0) running.at(i, j) += running.at(i - 1, j);
      if (dim == 1 && j > 0) running.at(i, j) += running.at(i, j - 1);
    }
  }
  for (std::int64_t i = 4; i >= 0; --i) {
    for (std::int64_t j = 3; j >= 0; --j) {
      of_x.at(i, j) = 2 * running.at(i, j) * factors.at(i, j);
      if (dim == 0 && i < 4) of_x.at(i, j) += of_x.at(i + 1, j);
      if (dim == 1 && j < 3) of_x.at(i, j) += of_x.at(i, j + 1);
    }
  }
  const Plain squares = map(running, [](double value) { return value * value; });
  model.worked.loss = total(zip(squares, factors, std::multiplies<>()));
  model.worked.gradients = {{"x", of_x}};
  model.program = [factors, dim](const Placed& at, Places& places) {
    const DTensor running = places.moved(first_of("aten::cumsum", {places.moved(at.at("x")), dim}));
    return sum(pow(running, 2) * places.place(factors));
  };
  return model;
}

// Elements by index along dim 1, an element twice, and rows that are added at indices.
Model index_model() {
  Model model;
  const Plain x = numbers({4, 5}, 31), rows = numbers({3, 5}, 32);
  const Plain picks{{4, 3}, {0, 4, 4, 1, 2, 0, 3, 3, 3, 2, 0, 1}}, onto{{3}, {2, 0, 2}};
  model.leaves = {{"x", x}, {"rows", rows}};
  model.integers = {{"picks", picks}, {"onto", onto}};
  const auto whole = [](double value) { return static_cast<std::int64_t>(value); };
  Plain sums = x;
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t j = 0; j < 5; ++j) sums.at(whole(onto.at(i)), j) += rows.at(i, j);
  }
  Plain of_sums = zeros_of(x.shape), of_rows = zeros_of(rows.shape);
  for (std::int64_t i = 0; i < 4; ++i) {
    for (std::int64_t j = 0; j < 3; ++j) {
      const double picked = sums.at(i, whole(picks.at(i, j)));
      model.worked.loss += static_cast<double>(j + 1) * picked * picked;
      of_sums.at(i, whole(picks.at(i, j))) += 2 * static_cast<double>(j + 1) * picked;
    }
  }
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t j = 0; j < 5; ++j) of_rows.at(i, j) = of_sums.at(whole(onto.at(i)), j);
  }
  model.worked.gradients = {{"x", of_sums}, {"rows", of_rows}};
  model.program = [](const Placed& at, Places& places) {
    const DTensor sums = places.moved(
        first_of("aten::index_add", {at.at("x"), 0, at.at("onto"), places.moved(at.at("rows"))}));
    const DTensor picked = places.moved(gather(sums, 1, at.at("picks")));
    return sum(pow(picked, 2) * places.place(tensor({1, 2, 3}, {3}, DType::kF64)));
  };
  return model;
}

// Rows in the order of their keys, in halves, the second half turned round and put in front.
Model order_model() {
  Model model;
  const Plain x = numbers({6, 3}, 41), factors = numbers({6, 3}, 42);
  model.leaves = {{"x", x}};
  Plain of_x = zeros_of(x.shape);
  for (std::int64_t column = 0; column < 3; ++column) {
    std::vector<std::int64_t> order{0, 1, 2, 3, 4, 5};
    std::ranges::sort(order, [&](std::int64_t a, std::int64_t b) {
      return x.at(a, column) > x.at(b, column);  // falling
    });
    for (std::int64_t row = 0; row < 6; ++row) {
      // Behind: rows 0 to 2 of the order; in front: rows 5, 4, 3.
      const std::int64_t from = order[static_cast<std::size_t>(row < 3 ? 5 - row : row - 3)];
      of_x.at(from, column) = factors.at(row, column);
      model.worked.loss += factors.at(row, column) * x.at(from, column);
    }
  }
  model.worked.gradients = {{"x", of_x}};
  model.program = [factors](const Placed& at, Places& places) {
    const Results sorted = recording_calls()("aten::sort", {places.moved(at.at("x")), 0, true});
    const std::vector<DTensor> halves = split(places.moved(sorted.at(0).tensor()), 3);
    const DTensor turned = first_of("aten::flip", {halves.at(1), ints({0})});
    const DTensor y = places.moved(cat({turned, halves.at(0)}));
    return sum(y * places.place(factors));
  };
  return model;
}

}  // namespace

TEST_CASE("a padded, strided convolution has the loops' value and gradients, however it lies") {
  check_model(convolution_model({{2, 3, 6, 5}, {4, 3, 3, 2}, {2, 1}, {1, 0}, {1, 1}, 1}));
}

TEST_CASE("a dilated convolution in groups has the loops' value and gradients, however it lies") {
  check_model(convolution_model({{3, 4, 5, 7}, {6, 2, 2, 3}, {1, 2}, {0, 2}, {2, 1}, 2}));
}

TEST_CASE("windows give their mean and its gradient, wherever images and channels lie") {
  check_model(pool_model(false));
}

TEST_CASE("windows give their largest, and the gradient goes to it alone") {
  check_model(pool_model(true));
}

TEST_CASE("running sums go on from rank to rank, and their gradients come back") {
  check_model(scan_model(0));
  check_model(scan_model(1));
}

TEST_CASE("elements picked twice get both gradients, and rows added twice both") {
  check_model(index_model());
}

TEST_CASE("sorted, split, turned and joined rows send each gradient back to its row") {
  check_model(order_model());
}
