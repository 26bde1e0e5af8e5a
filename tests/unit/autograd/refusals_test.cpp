// Refusals of the tape, each with the value it is about and the words to write instead: losses that
// lead nowhere, seeds that do not fit, graphs that are gone, writes that a gradient could not
// follow. After each refusal the same program continues as if it had not asked.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "api/shardlab.h"
#include "sim/world/spmd.h"

namespace shardlab {
namespace {

using Values = std::vector<double>;

/// "Kind: summary | op | fix".
std::string refused_by_tape(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    const std::string *op = error.find("op"), *fix = error.find("fix");
    return fmt::format("{}: {} | {} | {}", to_string(error.kind()), error.summary(), op ? *op : "",
                       fix ? *fix : "");
  }
  return "not refused";
}

DTensor leaf_of(const Values& values, const Dims& shape) {
  const DTensor leaf = tensor(values, shape, DType::kF64);
  require_grad(leaf);
  return leaf;
}

Values grads_of(const DTensor& leaf) { return read_doubles(full_tensor(grad_of(leaf)).local()); }

}  // namespace

TEST_CASE("backward refuses losses without a gradient, without a seed, and seeds that do not fit") {
  spmd(1, [](RankContext&) {
    const DTensor x = leaf_of({1, 2, 3}, {3});
    const DTensor y = x * x;
    CHECK(refused_by_tape([&] { backward(sum(ones({2}))); }) ==
          "Runtime: backward: nothing that the loss depends on requires a gradient | loss f32[] | "
          "x.requires_grad_() on an input, before what is computed from it");
    CHECK(refused_by_tape([&] {
            backward(sum(detach(y)));
          }).starts_with("Runtime: backward: nothing that the loss depends on"));
    CHECK(
        refused_by_tape([&] { backward(y); }) ==
        "Value: backward: the loss is not a scalar | loss f64[3] | reduce it first: loss.sum() or "
        "loss.mean()");
    CHECK(refused_by_tape([&] { backward(y, ones({2}, DType::kF64)); }) ==
          "Runtime: backward: the gradient has another shape than the result | gradient f64[2], "
          "result f64[3] | pass a gradient of the result's shape");
    CHECK(refused_by_tape([&] { backward(sum(y), {}, Graph::kCreate); }) ==
          "Unsupported: backward: a leaf cannot hold a gradient that is recorded, which holds the "
          "leaf |  | gradients(loss, inputs, {}, Graph::kCreate) gives them instead");
    CHECK_FALSE(grad_of(x).defined());
    backward(y, tensor({1, 10, 100}, {3}, DType::kF64));  // none of that has used the graph up
    CHECK(grads_of(x) == Values{2, 40, 600});
    CHECK(refused_by_tape([&] { backward(sum(y)); }) ==
          "Runtime: backward ran twice through the same graph | aten::mul.Tensor | keep it with "
          "Graph::kRetain, or run the forward again");
    CHECK(grads_of(x) == Values{2, 40, 600});
  });
}

TEST_CASE("a loss of one element needs no seed, whatever its dims") {
  spmd(1, [](RankContext&) {
    for (const Dims& shape : {Dims{}, Dims{1}, Dims{1, 1}}) {
      const DTensor x = leaf_of({3}, shape);
      backward(x * x);
      CHECK(grads_of(x) == Values{6});
    }
  });
}

TEST_CASE("leaves of floats can require a gradient, and nothing else") {
  spmd(1, [](RankContext&) {
    const DTensor x = leaf_of({1, 2}, {2});
    CHECK(refused_by_tape([] { require_grad(ones({2}, DType::kI32)); }) ==
          "Value: only floating and complex tensors can require a gradient | i32[2] | leave "
          "requires_grad out, or make the tensor of a floating dtype");
    CHECK(refused_by_tape([&] { (x * 2.0).requires_grad_(false); }) ==
          "Runtime: requires_grad can be taken from leaves only | f64[2] | use x.detach()");
    x.requires_grad_(false);
    CHECK_FALSE((x * 2.0).requires_grad());
    x.requires_grad_();
    backward(sum(x * 3.0));
    CHECK(grads_of(x) == Values{3, 3});
  });
}

TEST_CASE("a hook may begin a backward elsewhere, and not on the graph of the one that runs") {
  spmd(1, [](RankContext&) {
    const DTensor x = leaf_of({2}, {1}), other = leaf_of({5}, {1});
    const DTensor y = x * x, z = other * other;
    bool elsewhere = true;
    register_hook(x, [&](const DTensor&) {
      backward(elsewhere ? z : y);
      return DTensor();
    });
    backward(y, {}, Graph::kRetain);
    CHECK(grads_of(other) == Values{10});
    CHECK(grads_of(x) == Values{4});
    elsewhere = false;
    const std::string said = refused_by_tape([&] { backward(y); });
    CHECK(said.starts_with("Runtime: backward: a hook of another backward asks for it | "));
    CHECK(
        said.ends_with("| keep what the hook is given in a list, and call backward after the other "
                       "one"));
    CHECK(grads_of(x) == Values{4});
  });
}

TEST_CASE("writes that a gradient could not follow are refused, and change nothing") {
  spmd(1, [](RankContext&) {
    const DTensor x = leaf_of({1, 2, 3, 4}, {2, 2});
    const DTensor made = no_grad([&] { return select(x, 0, 0); });
    const DTensor y = x * 1.0;
    const DTensor unseen = no_grad([&] { return select(y, 0, 0); });
    const std::vector<DTensor> halves = split(y, 1);
    const char* clone_it = "clone() it, or take the part with x[...], narrow or select";
    struct Row {
      std::function<void()> write;
      std::string summary, fix;
    };
    const std::string leaf_fix =
        "use the op that returns a new tensor; a step of an optimizer writes under no_grad(), or "
        "to "
        "x.detach(), which shares memory";
    const Row rows[] = {
        {[&] { mul_(x, 2.0); },
         "Runtime: aten::mul_.Scalar: writes a leaf that requires a gradient while gradients are "
         "recorded",
         leaf_fix},
        {[&] { mul_(select(x, 0, 1), 2.0); },
         "Runtime: aten::mul_.Scalar: writes a view of a leaf that requires a gradient while "
         "gradients are recorded",
         leaf_fix},
        {[&] { mul_(halves[0], 2.0); },
         "Runtime: the gradient can't follow a write to the memory of this view: its op returned "
         "several views",
         clone_it},
        {[&] { mul_(unseen, 2.0); },
         "Runtime: the gradient can't follow a write to the memory of this view: it was made while "
         "nothing was recorded",
         clone_it},
        {[&] {
           mul_(expand(ones({1, 2}), {3, 2}), 2.0);
         },
         "Runtime: aten::mul_.Scalar: writes an expanded tensor, several elements of which are one "
         "in memory",
         "clone() it before"},
        {[&] { add_(y, transpose(y, 0, 1)); },
         "Runtime: aten::add_.Tensor: reads memory that it writes to, at other places",
         "clone() what is read before"},
    };
    for (const Row& row : rows) {
      const std::string said = refused_by_tape(row.write);
      CAPTURE(said);
      CHECK(said.starts_with(row.summary + " | "));
      CHECK(said.ends_with(" | " + row.fix));
    }
    CHECK(read_doubles(x.local()) == Values{1, 2, 3, 4});
    CHECK(read_doubles(y.local()) == Values{1, 2, 3, 4});
    mul_(select(y, 0, 1), 5.0);  // a part that can be followed
    backward(sum(y));
    CHECK(grads_of(x) == Values{1, 1, 5, 5});
    no_grad([&] { mul_(made, 2.0); });
    CHECK(read_doubles(x.local()) == Values{2, 4, 3, 4});
  });
}

TEST_CASE("a value that a gradient needs is watched through views, copies and detached handles") {
  spmd(1, [](RankContext&) {
    const char* fix =
        "clone it before the in-place op, or use the op that returns a new tensor; views and "
        "detached tensors share the memory of what they come from";
    struct Row {
      const char* what;
      std::function<void(const DTensor&)> write;  ///< to the result of tanh
      bool harms;
    };
    const Row rows[] = {
        {"nothing", [](const DTensor&) {}, false},
        {"the result", [](const DTensor& y) { mul_(y, 2.0); }, true},
        {"a view of it", [](const DTensor& y) { mul_(select(y, 0, 0), 2.0); }, true},
        {"a detached handle", [](const DTensor& y) { mul_(detach(y), 2.0); }, true},
        {"a clone", [](const DTensor& y) { mul_(detach(clone(y)), 2.0); }, false},
    };
    for (const Row& row : rows) {
      CAPTURE(std::string(row.what));
      const DTensor x = leaf_of({0, 0}, {2});
      const DTensor y = tanh(x);
      const DTensor loss = sum(y * 1.0);
      row.write(y);
      const std::string said = refused_by_tape([&] { backward(loss); });
      if (row.harms) {
        CHECK(said ==
              fmt::format("Runtime: aten::tanh: a tensor that its gradient needs was modified "
                          "by an in-place op | result 0 f64[2] | {}",
                          fix));
      } else {
        CHECK(said == "not refused");
        CHECK(grads_of(x) == Values{1, 1});  // 1 - tanh(0)^2
      }
    }
  });
}

}  // namespace shardlab
