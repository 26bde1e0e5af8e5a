// Hooks on gradients: their order, arguments and results. Expected values are those of PyTorch 2.15
// (Tensor.register_hook on x = [1, 2, 3] in f64); each case runs on one device and with x cut
// unevenly, one rank being empty.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "api/shardlab.h"
#include "sim/world/spmd.h"
#include "tests/support/refusal.h"

namespace shardlab {
namespace {

using Values = std::vector<double>;
using Calls64 = std::vector<Values>;

Values all_of(const DTensor& x) { return read_doubles(full_tensor(x).local()); }

/// Runs `body` with functions that make the leaf [1, 2, 3]: plain, whole on 2 ranks, cut over 2 and
/// over 4.
template <typename Body>
void with_leaves(const Body& body) {
  const auto leaf_on = [](const MeshLayout* mesh, const char* placed) {
    const DTensor plain = tensor({1, 2, 3}, {3}, DType::kF64);
    const DTensor leaf = mesh == nullptr ? plain : distribute_tensor(plain, mesh, placed);
    require_grad(leaf);
    return leaf;
  };
  spmd(1, [&](RankContext&) { body([&] { return leaf_on(nullptr, ""); }); });
  for (const std::int64_t ranks : {2, 4}) {
    for (const char* placed : {"x=R", "x=S(0)"}) {
      spmd(ranks, [&](RankContext&) {
        const MeshLayout* mesh = init_mesh({{"x", ranks}});
        CAPTURE(placed);
        body([&] { return leaf_on(mesh, placed); });
      });
    }
  }
}

/// Notes the gradient that it is given, and returns `replaced` of it.
GradientHook noting(Calls64& log, std::function<DTensor(const DTensor&)> replaced = {}) {
  return [&log, replaced](const DTensor& gradient) {
    log.push_back(all_of(gradient));
    return replaced ? replaced(gradient) : DTensor();
  };
}
std::function<DTensor(const DTensor&)> times_by(double factor) {
  return [factor](const DTensor& gradient) { return gradient * factor; };
}

}  // namespace

TEST_CASE("hooks of a leaf run in order, each given what the one before gave") {
  with_leaves([](const auto& leaf) {
    const DTensor x = leaf();
    Calls64 log;
    register_hook(x, noting(log, times_by(2)));
    register_hook(x, noting(log));
    register_hook(x, noting(log, [](const DTensor& gradient) { return gradient + 1.0; }));
    backward(sum(x * x));
    CHECK(log == Calls64{{2, 4, 6}, {4, 8, 12}, {4, 8, 12}});
    CHECK(all_of(grad_of(x)) == Values{5, 9, 13});
  });
}

TEST_CASE("a hook is called once with the sum of all that arrives, and once for each backward") {
  with_leaves([](const auto& leaf) {
    const DTensor x = leaf();
    Calls64 log;
    register_hook(x, noting(log));
    backward(sum(x * x + x * 3.0));
    CHECK(log == Calls64{{5, 7, 9}});
    const DTensor z = leaf();
    log.clear();
    register_hook(z, noting(log, times_by(10)));
    const DTensor y = sum(z * z);
    backward(y, {}, Graph::kRetain);
    backward(y);
    CHECK(log == Calls64{{2, 4, 6}, {2, 4, 6}});  // the leaf's own gradient is not included
    CHECK(all_of(grad_of(z)) == Values{40, 80, 120});
  });
}

TEST_CASE("a hook of a result changes what flows on, whatever is written to the result later") {
  with_leaves([](const auto& leaf) {
    Calls64 log;
    const DTensor x = leaf();
    const DTensor y = x * 2.0;
    register_hook(y, noting(log, times_by(5)));
    backward(sum(y * y));
    CHECK(all_of(grad_of(x)) == Values{40, 80, 120});
    log.clear();
    const DTensor before = leaf();
    const DTensor written = before * 2.0;
    register_hook(written, noting(log, times_by(5)));
    mul_(written, 3.0);
    backward(sum(written * written));
    CHECK(log == Calls64{{36, 72, 108}});  // of the value before the write
    CHECK(all_of(grad_of(before)) == Values{360, 720, 1080});
    log.clear();
    const DTensor after = leaf();
    const DTensor first = after * 2.0;
    mul_(first, 3.0);
    register_hook(first, noting(log, times_by(5)));
    backward(sum(first * first));
    CHECK(log == Calls64{{12, 24, 36}});
    CHECK(all_of(grad_of(after)) == Values{360, 720, 1080});
  });
}

TEST_CASE("a hook that removes itself runs to its end, and the next one is called as well") {
  with_leaves([](const auto& leaf) {
    const DTensor x = leaf();
    std::string log;
    HookHandle handle;
    handle = register_hook(x, [&](const DTensor&) {
      log += "h";
      handle.take_off();
      return DTensor();
    });
    const HookHandle other = register_hook(x, [&](const DTensor&) {
      log += "i";
      return DTensor();
    });
    CHECK_FALSE(handle == other);
    CHECK(handle == handle);
    const DTensor y = sum(x * x);
    backward(y, {}, Graph::kRetain);
    backward(y);
    CHECK(log == "hii");
    CHECK(all_of(grad_of(x)) == Values{4, 8, 12});
    handle.remove();  // again: nothing
  });
  HookHandle dangling;
  spmd(1, [&](RankContext&) {
    const DTensor x = ones({2});
    require_grad(x);
    dangling = register_hook(x, [](const DTensor&) { return DTensor(); });
  });
  dangling.take_off();  // the tensor is gone
}

TEST_CASE("gradients() calls the hooks of what it is asked for, and adds to no leaf") {
  with_leaves([](const auto& leaf) {
    const DTensor x = leaf();
    Calls64 log;
    register_hook(x, noting(log, times_by(10)));
    CHECK(all_of(gradients(sum(x * x), {x})[0]) == Values{20, 40, 60});
    CHECK(log == Calls64{{2, 4, 6}});
    CHECK_FALSE(grad_of(x).defined());
    const DTensor z = leaf();
    const DTensor y = z * 2.0;
    register_hook(y, [](const DTensor& gradient) { return gradient * 5.0; });
    const std::vector<DTensor> both = gradients(sum(y * y), {z});
    CHECK(all_of(both[0]) == Values{40, 80, 120});
  });
}

TEST_CASE("a hook is not called where no gradient arrives, and those of pieces see their own") {
  with_leaves([](const auto& leaf) {
    const DTensor x = leaf(), idle = leaf();
    Calls64 log;
    register_hook(idle, noting(log));
    backward(sum(x * x));
    CHECK(log.empty());
    const DTensor z = leaf();
    const std::vector<DTensor> pieces = split(z, 1);
    register_hook(pieces[0], times_by(100));
    register_hook(pieces[1], times_by(10));
    backward(sum(pieces[0] * pieces[0] + pieces[1] * pieces[1] + pieces[2] * pieces[2]));
    CHECK(all_of(grad_of(z)) == Values{200, 40, 6});
  });
}

TEST_CASE("V-19 a hook of a gradient that is recorded is part of it") {
  with_leaves([](const auto& leaf) {
    const DTensor x = leaf();
    register_hook(x, [](const DTensor& gradient) { return gradient * gradient; });
    const DTensor first = gradients(sum(x * x * x), {x}, {}, Graph::kCreate)[0];
    CHECK(all_of(first) == Values{9, 144, 729});
    CHECK(all_of(gradients(sum(first), {x})[0]) == Values{1296, 82944, 944784});
  });
}

TEST_CASE("detach and no_grad cut a program's history where they stand") {
  with_leaves([](const auto& leaf) {
    const DTensor x = leaf();
    backward(sum(detach(x * x) * x));
    CHECK(all_of(grad_of(x)) == Values{1, 4, 9});
    const DTensor z = leaf();
    const DTensor y = no_grad([&] { return z * z; });
    CHECK_FALSE(y.requires_grad());
    backward(sum(y * z));
    CHECK(all_of(grad_of(z)) == Values{1, 4, 9});
  });
}

TEST_CASE("hook_gradients: together, with zeros or without for those that do not arrive") {
  with_leaves([](const auto& leaf) {
    for (const auto missing : {MissingGradients::kZeros, MissingGradients::kUndefined}) {
      const DTensor x = leaf(), idle = leaf();
      int calls = 0;
      const std::vector<DTensor> passed =
          hook_gradients({x, idle}, missing, [&](std::vector<DTensor> given) {
            ++calls;
            REQUIRE(given.size() == 2);
            CHECK(all_of(given[0]) == Values{2, 4, 6});
            CHECK(given[1].defined() == (missing == MissingGradients::kZeros));
            if (given[1].defined()) CHECK(all_of(given[1]) == Values{0, 0, 0});
            given[0] = given[0] * 3.0;
            return given;
          });
      CHECK(all_of(passed[1]) == Values{1, 2, 3});
      backward(sum(passed[0] * passed[0]));
      CHECK(calls == 1);
      CHECK(all_of(grad_of(x)) == Values{6, 12, 18});
      CHECK(all_of(grad_of(idle)) == Values{0, 0, 0});  // in any case, once the hook has run
    }
    // A hook may take a gradient away: nothing arrives then.
    const DTensor x = leaf();
    const DTensor taken = hook_gradients(
        {x}, MissingGradients::kZeros,
        [](std::vector<DTensor> given) { return std::vector<DTensor>(given.size()); })[0];
    backward(sum(taken * taken));
    CHECK_FALSE(grad_of(x).defined());
    // A tensor that requires no gradient comes back as it is.
    const DTensor plain = ones({2});
    CHECK(hook_gradients({plain}, MissingGradients::kZeros,
                         [](std::vector<DTensor> given) { return given; })[0]
              .is_same(plain));
  });
}

TEST_CASE("mistakes of hooks are refused with the gradient that they got") {
  spmd(2, [](RankContext&) {
    const MeshLayout* mesh = init_mesh({{"x", 2}});
    const DTensor plain = ones({3});
    require_grad(plain);
    const DTensor placed = distribute_tensor(ones({3}), mesh, "x=S(0)");
    require_grad(placed);
    const char* fix = "give a gradient of the same shape, dtype and mesh, or None to keep it";
    struct Row {
      DTensor leaf, given;
      const char* types;
    };
    const Row rows[] = {
        {plain, ones({2}), "the plain f32[2] for the gradient, the plain f32[3]"},
        {plain, ones({3}, {.dtype = DType::kF64}),
         "the plain f64[3] for the gradient, the plain f32[3]"},
        {plain, distribute_tensor(ones({3}), mesh, "x=R"),
         "the distributed f32[3] for the gradient, the plain f32[3]"},
        {placed, ones({3}), "the plain f32[3] for the gradient, the distributed f32[3@x]"},
    };
    for (const Row& row : rows) {
      HookHandle handle = register_hook(row.leaf, [&](const DTensor&) { return row.given; });
      CHECK(refusal_of([&] { backward(sum(row.leaf * row.leaf)); }) ==
            fmt::format("Runtime: a hook gives {} | {}", row.types, fix));
      handle.remove();
    }
    CHECK(refusal_of([&] { register_hook(ones({2}), [](const DTensor& g) { return g; }); }) ==
          "Runtime: register_hook: the tensor does not require a gradient | x.requires_grad_() "
          "first, or set requires_grad = true on the input");
  });
}

TEST_CASE("a gradient of a local piece that has another shape names piece, rank and the way out") {
  spmd(2, [](RankContext&) {
    const MeshLayout* mesh = init_mesh({{"x", 2}});
    const DTensor x = distribute_tensor(ones({3}), mesh, "x=S(0)");
    require_grad(x);
    // Labelled as if every rank held the whole.
    const DTensor local = to_local(x, Placements{Placement::replicate()});
    CHECK(refusal_of([&] { backward(sum(local)); }) ==
          "Runtime: to_local: the shape of the gradient is not that of the rank's piece | "
          "grad_placements say how the local gradients make up the whole one");
  });
}

}  // namespace shardlab
