// Convolutions on cut spatial dims against the definition, written out (D-61, K-40 to K-45, X-38).
#include <doctest/doctest.h>

#include "comm/device_mesh.h"
#include "dispatch/halo.h"
#include "tensor/host.h"
#include "tests/unit/dispatch/op_mesh.h"
#include "tests/unit/dispatch/seen.h"

namespace shardlab {
namespace {

using test::counted;
using test::kind_of;
using test::OpMesh;
using test::ops;
using test::plain;
using test::Seen;
using test::whole;
using Values = std::vector<double>;

// A convolution of [batch, in, height, width]; one kernel, stride, padding, dilation per dim.
struct Case {
  std::int64_t batch, in, out, height, width, kernel_h, kernel_w;
  Dims stride, padding, dilation;
  std::int64_t groups = 1;

  std::int64_t out_height() const {
    return (height + 2 * padding[0] - dilation[0] * (kernel_h - 1) - 1) / stride[0] + 1;
  }
  std::int64_t out_width() const {
    return (width + 2 * padding[1] - dilation[1] * (kernel_w - 1) - 1) / stride[1] + 1;
  }
  Dims x_shape() const { return {batch, in, height, width}; }
  Dims w_shape() const { return {out, in / groups, kernel_h, kernel_w}; }
  Dims y_shape() const { return {batch, out, out_height(), out_width()}; }
};

// Calls visit(index into x, into w, into y) for every product of the definition.
template <typename Visit>
void for_each_product(const Case& c, const Visit& visit) {
  const std::int64_t in = c.in / c.groups, out = c.out / c.groups;
  for (std::int64_t n = 0; n < c.batch; ++n)
    for (std::int64_t o = 0; o < c.out; ++o)
      for (std::int64_t y = 0; y < c.out_height(); ++y)
        for (std::int64_t x = 0; x < c.out_width(); ++x)
          for (std::int64_t i = 0; i < in; ++i)
            for (std::int64_t ky = 0; ky < c.kernel_h; ++ky)
              for (std::int64_t kx = 0; kx < c.kernel_w; ++kx) {
                const std::int64_t row = y * c.stride[0] - c.padding[0] + ky * c.dilation[0];
                const std::int64_t column = x * c.stride[1] - c.padding[1] + kx * c.dilation[1];
                if (row < 0 || row >= c.height || column < 0 || column >= c.width) continue;
                const std::int64_t channel = o / out * in + i;
                visit(((n * c.in + channel) * c.height + row) * c.width + column,
                      ((o * in + i) * c.kernel_h + ky) * c.kernel_w + kx,
                      ((n * c.out + o) * c.out_height() + y) * c.out_width() + x);
              }
}

// Small integers, so that sums are exact in any sequence.
Values numbers(const Dims& shape, std::int64_t step) {
  Values values;
  for (std::int64_t i = 0; i < product(shape); ++i) {
    values.push_back(static_cast<double>(i * step % 7 - 3));
  }
  return values;
}

Argument call(const Case& c, const DTensor& x, const DTensor& w, const Argument& bias) {
  return ops()("aten::convolution",
               {x, w, bias, c.stride, c.padding, c.dilation, false, Dims{0, 0}, c.groups})[0];
}

void check(const Case& c, OpMesh& mesh, const char* placements, const char* expected) {
  CAPTURE(placements);
  const Values xs = numbers(c.x_shape(), 3), ws = numbers(c.w_shape(), 5);
  const Values gs = numbers(c.y_shape(), 2);
  Values y(static_cast<std::size_t>(product(c.y_shape())), 0), dx(xs.size(), 0), dw(ws.size(), 0);
  for_each_product(c, [&](std::int64_t i, std::int64_t j, std::int64_t k) {
    const auto a = static_cast<std::size_t>(i), b = static_cast<std::size_t>(j),
               o = static_cast<std::size_t>(k);
    y[o] += xs[a] * ws[b];
    dx[a] += gs[o] * ws[b];
    dw[b] += gs[o] * xs[a];
  });
  mesh.run([&](RankContext& rank) {
    const DTensor x = mesh.place(placements, c.x_shape(), xs);
    const DTensor w = mesh.place(mesh.layout()->ndim() == 1 ? "R" : "R R", c.w_shape(), ws);
    require_grad(x);
    require_grad(w);
    const DTensor result = call(c, x, w, Argument()).tensor();
    CHECK(result.spec() == mesh.spec(expected, c.y_shape()));
    const DTensor seed = mesh.place(expected, c.y_shape(), gs);
    backward(result, seed);
    if (!mesh.layout()->coordinate_of(rank.rank)) return;
    CHECK(whole(result) == y);
    CHECK(whole(grad_of(x)) == dx);
    CHECK(whole(grad_of(w)) == dw);
  });
}

const Case kUsual = {1, 2, 3, 5, 11, 3, 3, {1, 1}, {1, 1}, {1, 1}};

TEST_CASE("D-61 K-40 K-44 a convolution cut along its width, its batch, or not at all") {
  OpMesh mesh({4});
  check(kUsual, mesh, "S(3)", "S(3)");
  check({5, 2, 2, 4, 4, 3, 3, {1, 1}, {1, 1}, {1, 1}}, mesh, "S(0)", "S(0)");
  check(kUsual, mesh, "R", "R");
}

TEST_CASE("K-41 K-42 X-38 any stride, padding, dilation and kernel, uneven widths") {
  OpMesh mesh({3});
  for (const std::int64_t width : {7, 9, 10, 13}) {
    for (const std::int64_t kernel : {1, 2, 3, 5}) {
      for (const std::int64_t stride : {1, 2, 3}) {
        for (const std::int64_t padding : {0, 1, 2}) {
          CAPTURE(width);
          CAPTURE(kernel);
          CAPTURE(stride);
          CAPTURE(padding);
          check({1, 1, 1, 2, width, 1, kernel, {1, stride}, {0, padding}, {1, 1}}, mesh, "S(3)",
                "S(3)");
        }
      }
    }
  }
  check({1, 1, 2, 3, 14, 2, 3, {1, 2}, {1, 3}, {2, 3}}, mesh, "S(3)", "S(3)");
}

TEST_CASE(
    "X-38 K-43 shards narrower than the halo, and empty ones, fetch from several neighbours") {
  OpMesh mesh({4});
  check({1, 1, 1, 1, 6, 1, 5, {1, 1}, {0, 2}, {1, 1}}, mesh, "S(3)", "S(3)");
  check({1, 1, 1, 1, 5, 1, 5, {1, 1}, {0, 2}, {1, 1}}, mesh, "S(3)", "S(3)");
  check({1, 1, 1, 1, 2, 1, 3, {1, 1}, {0, 1}, {1, 1}}, mesh, "S(3)", "S(3)");
}

TEST_CASE("X-38 K-45 X-18 any mesh dim and several at once; neighbours are those of the mesh dim") {
  OpMesh mesh({2, 2}, {4, 1, 2, 0}, 5);
  check(kUsual, mesh, "R S(3)", "R S(3)");
  check(kUsual, mesh, "S(3) R", "S(3) R");
  check(kUsual, mesh, "S(2) S(3)", "S(2) S(3)");
  check({3, 2, 2, 4, 6, 3, 3, {1, 1}, {1, 1}, {1, 1}}, mesh, "S(0) S(3)", "S(0) S(3)");
}

TEST_CASE("D-61 grouped channels") {
  OpMesh mesh({2});
  check({1, 4, 6, 3, 7, 2, 3, {1, 1}, {0, 1}, {1, 1}, 2}, mesh, "S(3)", "S(3)");
}

TEST_CASE("K-43 X-38 exactly the columns that windows reach are sent, in one batch") {
  OpMesh mesh({3});
  mesh.run([&](RankContext& rank) {
    const DTensor x = mesh.place("S(3)", {1, 1, 1, 9}, counted(9));
    const DTensor w = mesh.place("R", {1, 1, 1, 4}, {1, 1, 1, 1});
    const Case c = {1, 1, 1, 1, 9, 1, 4, {1, 1}, {0, 1}, {1, 1}};
    const Seen seen;
    call(c, x, w, Argument());
    REQUIRE(seen.collectives.size() == 1);
    CHECK(seen.collectives[0].kind == CollectiveKind::kBatch);
    // Outputs 0-2, 3-5, 6-7 read columns 0-4, 2-7, 5-8.
    const double sent[] = {1 * 4, (2 + 1) * 4, 2 * 4};
    CHECK(seen.collectives[0].sent_bytes == sent[rank.rank]);
  });
}

TEST_CASE("K-41 nothing is sent where windows stay inside of pieces") {
  OpMesh mesh({3});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(3)", {1, 1, 1, 12}, counted(12));
    const DTensor w = mesh.place("R", {1, 1, 1, 2}, {1, 1});
    const Seen seen;
    call({1, 1, 1, 1, 12, 1, 2, {1, 2}, {0, 0}, {1, 1}}, x, w, Argument());
    CHECK(seen.collectives.empty());
  });
}

TEST_CASE(
    "D-61 a bias is added once, its gradient sums over what is cut; conv2d is a convolution") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(3)", {1, 1, 1, 5}, {1, 2, 3, 4, 5});
    const DTensor w = mesh.place("R", {2, 1, 1, 1}, {1, 10});
    const DTensor b = mesh.place("R", {2}, {100, 200});
    require_grad(b);
    const DTensor y = ops().one("aten::conv2d", {x, w, b});
    CHECK(whole(y) == Values{101, 102, 103, 104, 105, 210, 220, 230, 240, 250});
    backward(ops().one("aten::sum", {y}));
    CHECK(whole(grad_of(b)) == Values{5, 5});
  });
}

TEST_CASE("D-61 a transposed convolution is the gradient of a convolution") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const auto transposed = [&](const char* placements) {
      const DTensor x = mesh.place(placements, {2, 1, 3}, {1, 2, 3, 4, 5, 6});
      const DTensor w = mesh.place("R", {1, 1, 2}, {1, 10});
      return whole(ops()("aten::convolution",
                         {x, w, Argument(), Dims{2}, Dims{0}, Dims{1}, true, Dims{0}, 1})[0]
                       .tensor());
    };
    const Values expected = {1, 10, 2, 20, 3, 30, 4, 40, 5, 50, 6, 60};
    CHECK(transposed("S(0)") == expected);
    CHECK(transposed("S(2)") == expected);
    CHECK(transposed("R") == expected);
  });
}

TEST_CASE("D-61 channels that do not fit and windows that do not fit are bad values") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(3)", {1, 2, 3, 4}, counted(24));
    const Case c = {1, 2, 1, 3, 4, 1, 1, {1, 1}, {0, 0}, {1, 1}};
    const DTensor channels = mesh.place("R", {1, 3, 1, 1}, counted(3));
    CHECK(kind_of([&] { call(c, x, channels, Argument()); }) == ErrorKind::kValue);
    const DTensor large = mesh.place("R", {1, 2, 1, 6}, counted(12));
    CHECK(kind_of([&] { call(c, x, large, Argument()); }) == ErrorKind::kValue);
  });
}

}  // namespace
}  // namespace shardlab
