// Whole programs as the README shows them: what users write, against the same on one device.
#include <doctest/doctest.h>

#include "sim/world/spmd.h"

using namespace shardlab;

namespace {

struct Outcome {
  std::vector<double> loss, up, down;
};

// The layer of the test below, plain: what one device computes.
Outcome alone() {
  Outcome out;
  spmd(1, [&](RankContext&) {
    const DTensor x = randn({8, 16});
    const DTensor up = randn({16, 64}), down = randn({64, 16});
    require_grad(up);
    require_grad(down);
    const DTensor y = matmul(gelu(matmul(x, up)), down);
    const DTensor loss = mean(pow(y, 2));
    backward(loss);
    out = {read_doubles(loss.local()), read_doubles(grad_of(up).local()),
           read_doubles(grad_of(down).local())};
  });
  return out;
}

void check_close(const std::vector<double>& got, const std::vector<double>& want) {
  REQUIRE(got.size() == want.size());
  double size = 0;
  for (const double value : want) size = std::max(size, std::abs(value));
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - want[i]) <= 1e-5 * size);
}

}  // namespace

TEST_CASE("a Megatron layer on 2 x 4 ranks: types as planned, values of one device") {
  const Outcome want = alone();
  int ranks = 0;
  spmd(8, [&](RankContext&) {
    const MeshLayout* mesh = init_mesh({{"dp", 2}, {"tp", 4}});
    const DTensor x = distribute_tensor(randn({8, 16}), mesh, "dp=S(0)");
    const DTensor up = distribute_tensor(randn({16, 64}), mesh, "tp=S(1)");
    const DTensor down = distribute_tensor(randn({64, 16}), mesh, "tp=S(0)");
    require_grad(up);
    require_grad(down);
    const DTensor h = gelu(matmul(x, up));
    CHECK(type_string(h) == "f32[8@dp, 64@tp]");
    const DTensor pending = matmul(h, down);
    CHECK(type_string(pending) == "f32[8@dp, 16]{sum:tp}");
    const DTensor y = redistribute(pending, "tp=R");
    CHECK(type_string(y) == "f32[8@dp, 16]");
    const DTensor loss = mean(pow(y, 2));
    backward(loss);
    CHECK(type_string(grad_of(up)) == "f32[16, 64@tp]{sum:dp}");
    CHECK(type_string(grad_of(down)) == "f32[64@tp, 16]{sum:dp}");
    check_close(read_doubles(full_tensor(loss).local()), want.loss);
    check_close(read_doubles(full_tensor(grad_of(up)).local()), want.up);
    check_close(read_doubles(full_tensor(grad_of(down)).local()), want.down);
    ++ranks;
  });
  CHECK(ranks == 8);
}

TEST_CASE("the example of the README runs and prints what it says") {
  std::vector<std::string> lines;
  const auto print = [&](const std::string& line) { lines.push_back(line); };
  spmd(8, [&](RankContext& rank) {
    const MeshLayout* mesh = init_mesh({{"dp", 2}, {"tp", 4}});
    const DTensor x = distribute_tensor(randn({8, 16}), mesh, "dp=S(0)");
    const DTensor up = distribute_tensor(randn({16, 64}), mesh, "tp=S(1)");
    const DTensor down = distribute_tensor(randn({64, 16}), mesh, "tp=S(0)");
    require_grad(up);
    const DTensor y = redistribute(matmul(gelu(matmul(x, up)), down), "tp=R");
    backward(mean(pow(y, 2)));
    if (rank.rank == 0) print(type_string(y) + ", " + type_string(grad_of(up)));
  });
  CHECK(lines == std::vector<std::string>{"f32[8@dp, 16], f32[16, 64@tp]{sum:dp}"});
}
