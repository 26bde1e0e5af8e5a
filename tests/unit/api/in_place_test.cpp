// Parts of a training loop in C++ besides ops. Expected numbers: PyTorch 2.15, in f64.
#include <doctest/doctest.h>

#include "sim/world/spmd.h"

using namespace shardlab;

namespace {

using Values = std::vector<double>;

Values values_of(const DTensor& x) { return read_doubles(full_tensor(x).local()); }

void check_near(const Values& got, const Values& expected) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-14));
  }
}

DTensor numbers(const Values& values) {
  return tensor(values, {static_cast<std::int64_t>(values.size())}, DType::kF64);
}

// The same on one device, on three ranks of which the last has no element, and on more ranks than
// elements unless `most` is less.
void on_meshes(const std::function<void(const std::function<DTensor(const Values&)>&)>& body,
               std::int64_t most = 8) {
  spmd(1, [&](RankContext&) { body(numbers); });
  for (std::int64_t ranks = 3; ranks <= most; ++ranks) {
    spmd(ranks, [&](RankContext&) {
      const MeshLayout* mesh = init_mesh({{"x", ranks}});
      body([&](const Values& values) {
        return distribute_tensor(numbers(values), mesh, {Shard(0)});
      });
    });
  }
}

}  // namespace

TEST_CASE("augmented operators write the tensor that all its handles are") {
  on_meshes([](const auto& placed) {
    const DTensor y = placed({1, 2, 3, 4}), same = y;
    y += 1;
    y *= placed({2, 1, 0.5, 1});
    y -= 0.25;
    y /= placed({3, 2, 1, 8});
    check_near(values_of(same), {1.25, 1.375, 1.75, 0.59375});
    y += y;
    y -= placed({1, 1, 1, 1});
    y *= 2;
    y /= 4;
    check_near(values_of(same), {0.75, 0.875, 1.25, 0.09375});
    copy_(y, placed({5, 6, 7, 8}));
    CHECK(values_of(same) == Values{5, 6, 7, 8});
    CHECK(values_of(fill_(y, 2)) == Values{2, 2, 2, 2});
    CHECK(values_of(zero_(y)) == Values{0, 0, 0, 0});
  });
}

TEST_CASE("gradients follow what is written in place, views included") {
  spmd(1, [](RankContext&) {
    const DTensor a = numbers({1, 2, 3}).requires_grad_();
    const DTensor b = a * 2, first_two = slice(b, 0, {0, 2});
    b *= a;
    first_two += 1;
    b.sum().backward();
    CHECK(values_of(a.grad()) == Values{4, 8, 12});
    CHECK(values_of(b) == Values{3, 9, 18});
  });
}

TEST_CASE("a training loop by hand: leaves are written while nothing is recorded") {
  on_meshes(
      [](const auto& placed) {
        const DTensor w = placed({1, -2, 3, 0.5}).requires_grad_(), c = placed({1, 2, 0.5, 4});
        for (int step = 0; step < 3; ++step) {
          const DTensor loss = sum(w * w * c);
          backward(loss);
          no_grad([&] { w -= 0.05 * w.grad(); });
          drop_grad(w);
        }
        check_near(values_of(w), {0.729, -1.024, 2.572125, 0.108});
        {
          const NoGradGuard guard;
          CHECK(!grad_enabled());
          CHECK(!requires_grad(w * 2));
        }
        CHECK(grad_enabled());
        CHECK(no_grad([&] { return w * 2; }).defined());
        // Another leaf over the same memory.
        const DTensor again = w.detach();
        CHECK(!again.requires_grad());
        again += 1;
        check_near(values_of(w), {1.729, -0.024, 3.572125, 1.108});
      },
      4);  // an op gathers fewer rows than ranks, and a tensor that is written does not move
}

TEST_CASE("mistakes of training loops are refused with the line to write instead") {
  const auto text_of = [](const std::function<void(const DTensor& w)>& wrong) {
    std::string text;
    spmd(1, [&](RankContext&) {
      const DTensor w = numbers({1, 2}).requires_grad_();
      try {
        wrong(w);
      } catch (const Error& error) {
        text = error.text();
      }
    });
    return text;
  };
  const auto has = [](const std::string& text, const char* part) {
    CAPTURE(text);
    CHECK(text.find(part) != std::string::npos);
  };
  const std::string leaf = text_of([](const DTensor& w) { w += 1; });
  has(leaf, "aten::add_.Scalar: writes a leaf that requires a gradient");
  has(leaf, "under no_grad(), or to x.detach()");
  // A weight that was made of another one is no leaf any more: nothing arrives at it.
  const std::string result = text_of([](const DTensor& w) {
    const DTensor next = (w - 0.5).requires_grad_();
    next.sum().backward();
    static_cast<void>(next - next.grad());
  });
  has(result, "aten::sub.Tensor: a tensor is undefined");
  has(result, "a gradient is kept for leaves only, which x.detach() makes of results");
  const std::string taken = text_of([](const DTensor& w) { (w * 2).requires_grad_(false); });
  has(taken, "use x.detach()");
  const std::string trained = text_of([](const DTensor& w) { Sgd({w * 2}); });
  has(trained, "SGD: a parameter, f64[2], is the result of an op");
  has(trained, "x = x.detach().requires_grad_()");
  has(text_of([](const DTensor& w) { w.detach().sum().backward(); }),
      "x.requires_grad_() on an input");
}

TEST_CASE("B-27 a handle without a tensor is refused by the name of the function") {
  struct Row {
    const char* name;
    void (*call)(const DTensor& none);
  };
  const Row rows[] = {
      {"numel", [](const DTensor& none) { static_cast<void>(none.numel()); }},
      {"local", [](const DTensor& none) { static_cast<void>(none.local()); }},
      {"detach", [](const DTensor& none) { static_cast<void>(none.detach()); }},
      {"grad", [](const DTensor& none) { static_cast<void>(none.grad()); }},
      {"grad", [](const DTensor& none) { clip_grad_norm_({none}, 1); }},
      {"backward", [](const DTensor& none) { none.backward(); }},
      {"drop_grad", [](const DTensor& none) { drop_grad(none); }},
      {"register_hook",
       [](const DTensor& none) { register_hook(none, [](const DTensor& g) { return g; }); }},
  };
  spmd(1, [&](RankContext&) {
    for (const Row& row : rows) {
      const std::string expected = std::string(row.name) + "(): the tensor is undefined";
      CHECK_THROWS_WITH_AS(row.call(DTensor()), doctest::Contains(expected.c_str()), Error);
    }
  });
}

TEST_CASE("item() gives the one element, whatever tensor has it") {
  on_meshes([](const auto& placed) {
    const DTensor x = placed({1, 2, 3, 4});
    CHECK(x.sum().item().to_double() == 10);
    CHECK(item(mean(x, 0)).to_double() == 2.5);
    CHECK_THROWS_WITH_AS(
        x.item(), doctest::Contains("item: the tensor has 4 elements; it must have 1"), Error);
  });
}
