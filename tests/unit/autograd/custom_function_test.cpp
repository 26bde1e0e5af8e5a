// Functions with a gradient of their own: values and gradients of such functions in PyTorch 2.15,
// second gradients against the formula, Megatron's f and g on two ranks, and refusals.
#include "autograd/custom_function.h"

#include <doctest/doctest.h>

#include "api/shardlab.h"
#include "sim/world/spmd.h"
#include "tests/support/refusal.h"

namespace shardlab {
namespace {

using Doubles = std::vector<double>;

Doubles doubles_of(const DTensor& x) { return read_doubles(full_tensor(x).local()); }

DTensor leaf_with(const Doubles& values) {
  const DTensor leaf = tensor(values, {static_cast<std::int64_t>(values.size())}, DType::kF64);
  require_grad(leaf);
  return leaf;
}

// x^3 times a number; the second argument is no tensor.
struct Cube : Function<Cube> {
  static constexpr const char* kName = "Cube";
  static DTensor forward(FunctionContext& ctx, const DTensor& x, double factor) {
    CHECK_FALSE(grad_enabled());
    ctx.save_for_backward({x});
    ctx.data["factor"] = factor;
    return x * x * x * factor;
  }
  static std::vector<DTensor> backward(FunctionContext& ctx, const std::vector<DTensor>& grads) {
    CHECK(ctx.needs_input_grad() == std::vector<bool>{true, false});
    const DTensor x = ctx.saved_tensors().at(0);
    return {grads[0] * x * x * (3.0 * std::any_cast<double>(ctx.data["factor"])), {}};
  }
};

// exp(x), whose gradient is made of its own result; x and its negative.
struct Exp : Function<Exp> {
  static DTensor forward(FunctionContext& ctx, const DTensor& x) {
    const DTensor y = exp(x);
    ctx.save_for_backward({y});
    return y;
  }
  static std::vector<DTensor> backward(FunctionContext& ctx, const std::vector<DTensor>& grads) {
    return {grads[0] * ctx.saved_tensors().at(0)};
  }
};

struct Once : Function<Once> {
  static constexpr const char* kName = "Once";
  static constexpr bool kOnceDifferentiable = true;
  static DTensor forward(FunctionContext& ctx, const DTensor& x) {
    ctx.save_for_backward({x});
    return x * x;
  }
  static std::vector<DTensor> backward(FunctionContext& ctx, const std::vector<DTensor>& grads) {
    CHECK_FALSE(grad_enabled());
    return {grads[0] * ctx.saved_tensors().at(0) * 2.0};
  }
};

/// A function of two tensors whose backward returns these gradients of the incoming one.
using Gives = std::function<std::vector<DTensor>(const DTensor& gradient)>;
DTensor apply_to(const std::vector<DTensor>& arguments, const Gives& gives) {
  return apply_function(
             {.name = "Own",
              .forward =
                  [&](FunctionContext&) { return std::vector<DTensor>{arguments.at(0) * 1.0}; },
              .backward = [gives](FunctionContext&,
                                  const std::vector<DTensor>& grads) { return gives(grads[0]); }},
             arguments)
      .at(0);
}

}  // namespace

TEST_CASE("B-26 a function's own gradient takes the place of that of its ops, plain and cut") {
  spmd(1, [](RankContext&) {
    const DTensor x = leaf_with({1, 2, 3});
    const DTensor y = Cube::apply(x, 2.0);
    CHECK(doubles_of(y) == Doubles{2, 16, 54});
    backward(sum(y));
    CHECK(doubles_of(grad_of(x)) == Doubles{6, 24, 54});
  });
  for (const char* placed : {"x=R", "x=S(0)"}) {
    spmd(4, [&](RankContext&) {
      const DTensor x =
          distribute_tensor(tensor({1, 2, 3}, {3}, DType::kF64), init_mesh({{"x", 4}}), placed);
      require_grad(x);
      backward(sum(Cube::apply(x, 2.0)));
      CHECK(doubles_of(grad_of(x)) == Doubles{6, 24, 54});
    });
  }
}

TEST_CASE("B-26 backward that is recorded has gradients, through saved arguments and results") {
  spmd(1, [](RankContext&) {
    const DTensor x = leaf_with({1, 2, 3});
    const DTensor first = gradients(sum(Cube::apply(x, 1.0)), {x}, {}, Graph::kCreate).at(0);
    CHECK(doubles_of(first) == Doubles{3, 12, 27});
    CHECK(doubles_of(gradients(sum(first), {x}).at(0)) == Doubles{6, 12, 18});
    const DTensor z = leaf_with({0, 0.5, 1});
    DTensor left = Exp::apply(z);
    for (int i = 0; i < 3; ++i) {
      left = gradients(sum(left), {z}, {}, Graph::kCreate).at(0);
      CHECK(doubles_of(left) == doubles_of(exp(z)));
    }
  });
}

TEST_CASE("B-26 a backward that is differentiable once gives gradients that refuse to be") {
  spmd(1, [](RankContext&) {
    const DTensor x = leaf_with({1, 2});
    const DTensor seed = leaf_with({1, 1});
    const DTensor first = gradients(Once::apply(x), {x}, seed, Graph::kCreate).at(0);
    CHECK(doubles_of(first) == Doubles{2, 4});
    CHECK(refusal_of([&] {
            gradients(sum(first), {x, seed});
          }).starts_with("Runtime: Once: differentiated twice"));
  });
}

TEST_CASE("B-26 Megatron's f and g on two ranks: a sum in backward, or in forward") {
  struct CopyToParallel : Function<CopyToParallel> {
    static DTensor forward(FunctionContext& ctx, const DTensor& x, ProcessGroup* group) {
      ctx.data["group"] = group;
      return x;
    }
    static std::vector<DTensor> backward(FunctionContext& ctx, const std::vector<DTensor>& grads) {
      return {
          all_reduce(grads[0], ReduceOp::kSum, *std::any_cast<ProcessGroup*>(ctx.data["group"])),
          {}};
    }
  };
  struct ReduceFromParallel : Function<ReduceFromParallel> {
    static DTensor forward(FunctionContext&, const DTensor& x, ProcessGroup* group) {
      return all_reduce(x, ReduceOp::kSum, *group);
    }
    static std::vector<DTensor> backward(FunctionContext&, const std::vector<DTensor>& grads) {
      return {grads[0], {}};
    }
  };
  spmd(2, [](RankContext& rank) {
    init_mesh({{"tp", 2}});
    ProcessGroup* const group = &world_group();
    const double own = rank.rank == 0 ? 2 : 5;  // this rank's piece of a weight
    const DTensor x = leaf_with({1, 3});
    const DTensor copied = CopyToParallel::apply(x, group);
    CHECK_FALSE(copied.is_same(x));
    const DTensor y = ReduceFromParallel::apply(copied * own, group);
    CHECK(doubles_of(y) == Doubles{7, 21});
    backward(sum(y));
    CHECK(doubles_of(grad_of(x)) == Doubles{7, 7});
  });
}

TEST_CASE("B-26 a saved tensor is refused if it was written to since, or is gone") {
  spmd(1, [](RankContext&) {
    const DTensor x = leaf_with({1, 2});
    const DTensor a = x * 2.0;
    const DTensor y = Cube::apply(a, 1.0);
    recording_calls().one("aten::mul_.Scalar", {a, 2.0});
    CHECK(refusal_of([&] { backward(sum(y)); }) ==
          "Runtime: Cube: a tensor that it saved for backward was modified by an in-place op | "
          "clone it before the in-place op, or save the clone");
    const DTensor z = Cube::apply(x, 1.0);
    backward(sum(z), {}, Graph::kRetain);
    backward(sum(z));
    CHECK(doubles_of(grad_of(x)) == Doubles{6, 24});
    CHECK(refusal_of([&] {
            backward(sum(z));
          }).starts_with("Runtime: Cube: what it saved for backward is gone"));
  });
}

TEST_CASE("B-26 gradients are held to the arguments: how many, of what, of which shape") {
  spmd(1, [](RankContext&) {
    const DTensor x = leaf_with({1, 2});
    const auto refused = [&](const std::vector<DTensor>& arguments, const Gives& gives) {
      return refusal_of([&] { backward(sum(apply_to(arguments, gives))); });
    };
    CHECK(refused({x, x}, [](const DTensor& g) { return std::vector<DTensor>{g}; }) ==
          "Runtime: Own: backward gave 1 gradients, forward has 2 arguments | return one gradient "
          "for each argument of forward, None for those that need none");
    CHECK(refused({x}, [](const DTensor& g) {
            return std::vector<DTensor>{g, g};
          }).starts_with("Runtime: Own: backward gave 2 gradients, forward has 1 arguments"));
    CHECK(refused({x, {}},
                  [](const DTensor& g) {
                    return std::vector<DTensor>{g, g};
                  }) ==
          "Runtime: Own: backward gave a gradient for argument 1, which is no tensor | return None "
          "in its place");
    CHECK(refused({x}, [](const DTensor&) { return std::vector<DTensor>{ones({3})}; }) ==
          "Runtime: Own: the gradient of argument 0 has the shape [3], its tensor has [2] | return "
          "a gradient of the argument's shape");
    // A gradient that was stretched is summed, one more that is undefined is passed over.
    backward(sum(apply_to({x}, [](const DTensor&) {
      return std::vector<DTensor>{ones({3, 2}, DType::kF64), {}};
    })));
    CHECK(doubles_of(grad_of(x)) == Doubles{3, 3});
  });
}

TEST_CASE(
    "B-26 results without a gradient: marked ones, integers; zeros or nothing for what is "
    "missing") {
  for (const bool zeros : {true, false}) {
    spmd(1, [zeros](RankContext&) {
      const DTensor x = leaf_with({1, 2});
      std::vector<bool> arrived;
      const std::vector<DTensor> results = apply_function(
          {.name = "Own",
           .forward =
               [&](FunctionContext& ctx) {
                 const DTensor constant = x * 2.0;
                 ctx.mark_non_differentiable({constant});
                 ctx.set_materialize_grads(zeros);
                 return std::vector<DTensor>{x * 3.0, constant, to(x, DType::kI64), x * 4.0};
               },
           .backward =
               [&](FunctionContext&, const std::vector<DTensor>& grads) {
                 for (const DTensor& gradient : grads) arrived.push_back(gradient.defined());
                 return std::vector<DTensor>{grads[0]};
               }},
          {x});
      CHECK(requires_grad(results[0]));
      CHECK_FALSE(requires_grad(results[1]));
      CHECK_FALSE(requires_grad(results[2]));
      backward(sum(results[0]));
      CHECK(arrived == std::vector<bool>{true, zeros, zeros, zeros});
    });
  }
}

}  // namespace shardlab
