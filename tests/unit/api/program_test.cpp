// Whole programs as the README shows them: programs of users, against the single-device run of the
// same.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "sim/world/spmd.h"

using namespace shardlab;

namespace {

using Values = std::vector<double>;

struct Outcome {
  Values loss, up, down;
};

// The layer of the test below on plain tensors, as in a single-device run.
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

void check_close(const Values& got, const Values& want) {
  REQUIRE(got.size() == want.size());
  double size = 0;
  for (const double value : want) size = std::max(size, std::abs(value));
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - want[i]) <= 1e-5 * size);
}

}  // namespace

TEST_CASE("a Megatron layer on 2 x 4 ranks: types as planned, values of one device") {
  const Outcome want = alone();
  std::atomic<int> ranks = 0;
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

namespace {

// Token ids in, next-token loss out: a table of 10 rows, a normed MLP, logits over the table.
struct Model {
  DTensor table, gain, up, down;
  std::vector<DTensor> parameters() const { return {table, gain, up, down}; }
};

DTensor loss_of(const Model& model, const DTensor& tokens, const DTensor& next) {
  const DTensor rows = embedding(tokens, model.table);
  // rms_norm refuses pending sums, as the reference does.
  const DTensor x = rows.distributed() ? redistribute(rows, "tp=R") : rows;
  const DTensor normed = rms_norm(x, {6}, {.weight = model.gain, .eps = 1e-6});
  const DTensor h = silu(matmul(normed, model.up));
  const DTensor y = x + matmul(h, model.down);
  return cross_entropy(matmul(y, transpose(model.table, 0, 1)), next);
}

// Loss and gradients, whole, in the order of parameters(). `place` puts a plain value on a mesh.
template <typename Place>
std::vector<Values> train_once(Place place) {
  const DTensor tokens = place(tensor({1, 4, 1, 9, 0, 2, 6}, {7}, DType::kI64), "dp=S(0)");
  const DTensor next = place(tensor({4, 1, 9, 0, 2, 6, 3}, {7}, DType::kI64), "dp=S(0)");
  const Model model = {.table = place(randn({10, 6}), "tp=S(0)"),
                       .gain = place(ones({6}), "tp=R"),
                       .up = place(randn({6, 7}) / 4, "tp=S(1)"),
                       .down = place(randn({7, 6}) / 4, "tp=S(0)")};
  for (const DTensor& parameter : model.parameters()) require_grad(parameter);
  const DTensor loss = loss_of(model, tokens, next);
  backward(loss);
  const auto whole = [](const DTensor& x) {
    return read_doubles((x.distributed() ? full_tensor(x) : x).local());
  };
  std::vector<Values> out = {whole(loss)};
  for (const DTensor& parameter : model.parameters()) out.push_back(whole(grad_of(parameter)));
  return out;
}

}  // namespace

TEST_CASE("a small language model, everything cut unevenly: loss and gradients of one device") {
  std::vector<Values> want, pool;
  spmd(1, [&](RankContext&) {
    want = train_once([](const DTensor& value, std::string_view) { return value; });
  });
  for (const SchedulerKind kind : {SchedulerKind::kPool, SchedulerKind::kThreads}) {
    WorldOptions options;
    options.ranks = 12;
    options.schedule.kind = kind;
    std::vector<std::vector<Values>> got(12);
    spmd(options, [&](RankContext& rank) {
      const MeshLayout* mesh = init_mesh({{"dp", 4}, {"tp", 3}});
      got[static_cast<std::size_t>(rank.rank)] =
          train_once([&](const DTensor& value, std::string_view text) {
            return distribute_tensor(value, mesh, text);
          });
    });
    for (const std::vector<Values>& one : got) CHECK(one == got[0]);  // bitwise, on every rank
    REQUIRE(got[0].size() == want.size());
    for (std::size_t i = 0; i < want.size(); ++i) check_close(got[0][i], want[i]);
    if (kind == SchedulerKind::kPool) pool = got[0];
    CHECK(got[0] == pool);
  }
}
