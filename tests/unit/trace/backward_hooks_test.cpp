// Hooks of modules while they are captured. Their changes of gradients are worked out by hand;
// torch's BackwardHook calls its functions in the same order, with the same arguments.
#include "trace/backward_hooks.h"

#include "api/shardlab.h"
#include "tests/unit/dispatch/op_mesh.h"
#include "tests/unit/trace/traced.h"

namespace shardlab {
namespace {

using test::broken_by;
using test::Lines;
using test::OpMesh;
using Values = std::vector<double>;

// Seven elements over three ranks: 3, 3 and 1.
DTensor leaf_on(OpMesh& mesh) {
  const DTensor x = mesh.place("S(0)", {7}, test::counted(7));
  require_grad(x);
  return x;
}

HookFunction scaled_by(double factor) {
  return [factor](const HostObject&, const Gradients& now, const std::vector<Gradients>&) {
    return std::optional(Gradients{mul(now[0], factor)});
  };
}

TEST_CASE("T-47 T-48 hooks of a module are traced where backward is captured, and break else") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    Tracing without;
    CHECK(broken_by(without, [&] { create_backward_hook(without, 1, {}, {}); }) ==
          "module backward hooks need backward capture: ");
    CHECK(without.breaks()[0].explanation.empty());
    CHECK(without.breaks()[0].hints == Lines{"capture with TraceOptions{.backward = true}"});
    CHECK(without.backward_state().names().empty());
    Tracing tracing({.backward = true});
    CHECK(create_backward_hook(tracing, 1, {}, {}).type_name() == "BackwardHook");
  });
}

TEST_CASE("T-49 T-50 T-53 T-54 the state is named in order, empty in forward and filled after it") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    Tracing tracing({.backward = true});
    BackwardState& state = tracing.backward_state();
    const TracedValue first =
        create_backward_hook(tracing, std::string("first"), {scaled_by(2)}, {});
    const TracedValue second =
        create_backward_hook(tracing, std::string("second"), {}, {scaled_by(3), scaled_by(4)});
    CHECK(state.names() == Lines{"mod0", "hook1", "hook2", "mod3", "hook4", "hook5"});
    CHECK((first.as_proxy().hook_node == 0 && second.as_proxy().hook_node == 1));
    CHECK_FALSE(first.as_proxy().value.defined());
    REQUIRE(tracing.hook_nodes().size() == 2);
    const HookNode& node = tracing.hook_nodes()[1];
    CHECK(node.name == "backward_hook");
    CHECK(node.state == Lines{"mod3", "hook4", "hook5"});
    // The node's example value: a hook object without module and functions.
    CHECK((node.arguments.empty() && node.results.empty()));
    CHECK(test::kind_of([&] { state.get("mod0"); }) == ErrorKind::kInternal);
    state.fill();
    CHECK(std::any_cast<std::string>(state.get("mod3")) == "second");
    CHECK(std::any_cast<HookFunctions>(state.get("hook1")).empty());      // pre-hooks
    CHECK(std::any_cast<HookFunctions>(state.get("hook2")).size() == 1);  // hooks
    CHECK(std::any_cast<HookFunctions>(state.get("hook4")).size() == 2);
    CHECK(test::kind_of([&] { state.get("hook3"); }) == ErrorKind::kInternal);
    // Two prefixes may give one name.
    BackwardState twice;
    for (int i = 0; i < 10; ++i) twice.add("x", {});
    twice.add("x1", {});  // x110
    for (int i = 11; i < 110; ++i) twice.add("y", {});
    CHECK(test::kind_of([&] { twice.add("x", {}); }) == ErrorKind::kInternal);
  });
}

TEST_CASE(
    "T-51 T-55 setting up a hook is a node of the graph, in which no function of the user "
    "stands") {
  OpMesh mesh({3});
  mesh.run([&](RankContext&) {
    Tracing tracing({.backward = true});
    const TracedValue hook = create_backward_hook(tracing, 0, {scaled_by(2)}, {scaled_by(5)});
    const DTensor x = leaf_on(mesh);
    const TracedValue in = hook.call_method("setup_input_hook", {{tracing.wrap(x)}, {}});
    CHECK(in.kind() == TracedKind::kTensorProxy);
    const DTensor y = mul(in.as_proxy().value, 1.0);
    const TracedValue out = hook.call_method("setup_output_hook", {{tracing.wrap(y)}, {}});
    REQUIRE(tracing.hook_nodes().size() == 3);
    const HookNode& node = tracing.hook_nodes()[2];
    CHECK((node.name == "setup_output_hook" && node.hook == 0 && node.state.empty()));
    CHECK((node.arguments.size() == 1 && node.arguments[0].is_same(y)));
    CHECK((node.results.size() == 1 && node.results[0].is_same(out.as_proxy().value)));
    const auto wrong = [&](const TracedCall& call) {
      return test::kind_of([&] { hook.call_method("setup_input_hook", call); });
    };
    CHECK(wrong({}) == ErrorKind::kValue);
    CHECK(wrong({{tracing.wrap(x), tracing.wrap(x)}, {}}) == ErrorKind::kValue);
    CHECK(broken_by(tracing, [&] { hook.call_method("setup_hook", {}); }) ==
          std::string(test::kUnlisted) + "backward hook.setup_hook()");
    CHECK(broken_by(tracing, [&] { hook.get_attr("module"); }) ==
          std::string(test::kUnlisted) + "backward hook.module");
    CHECK(broken_by(tracing, [&] { hook.as_constant(); }) ==
          "a value that is not a constant: backward hook");
  });
}

TEST_CASE("T-50 T-52 deferred calls fetch by name; each hook is given what the one before gave") {
  OpMesh mesh({3});
  mesh.run([&](RankContext&) {
    Lines told;
    const auto tells = [&told](std::string name, std::optional<double> factor) -> HookFunction {
      return [&told, name, factor](const HostObject& module, const Gradients& now,
                                   const std::vector<Gradients>& rest) {
        CHECK_FALSE(grad_enabled());
        std::string line = fmt::format("{} of {}: {}", name, std::any_cast<std::string>(module),
                                       test::whole(now[0])[0]);
        for (const Gradients& one : rest) line += fmt::format(" {}", test::whole(one[0])[0]);
        told.push_back(line);
        return factor ? std::optional(Gradients{mul(now[0], *factor)}) : std::nullopt;
      };
    };
    Tracing tracing({.backward = true});
    const TracedValue hook = create_backward_hook(tracing, std::string("layer"),
                                                  {tells("a", 10.0), tells("b", std::nullopt)},
                                                  {tells("pre", 2.0), tells("last", std::nullopt)});
    const DTensor x = leaf_on(mesh);
    const TracedValue in = hook.call_method("setup_input_hook", {{tracing.wrap(x)}, {}});
    const DTensor y = mul(in.as_proxy().value, 3.0);
    const TracedValue out = hook.call_method("setup_output_hook", {{tracing.wrap(y)}, {}});
    tracing.backward_state().fill();
    backward(redistribute(sum(out.as_proxy().value), "m0=R"));
    CHECK(told ==
          Lines{"pre of layer: 1", "last of layer: 2", "a of layer: 6 2", "b of layer: 60 2"});
    CHECK(test::whole(grad_of(x)) == Values(7, 60));
  });
}

TEST_CASE("T-52 a hook keeps the metadata of the gradient that arrived") {
  OpMesh mesh({3});
  mesh.run([&](RankContext&) {
    BackwardState state;
    const auto run = [&](const HookFunction& hook) {
      const std::string module = state.add("mod", 0);
      const std::string hooks = state.add("hook", HookFunctions{hook});
      state.fill();
      const DTensor gradient = mesh.place("S(0)", {7}, test::counted(7));
      return call_module_hooks(state, hooks, module, {gradient}, {});
    };
    CHECK(test::whole(run(scaled_by(2))[0]) == Values{0, 2, 4, 6, 8, 10, 12});
    const std::vector<HookFunction> wrong = {
        [](const auto&, const Gradients& now, const auto&) {
          return std::optional(Gradients{redistribute(now[0], "m0=R")});
        },
        [&](const auto&, const auto&, const auto&) {
          return std::optional(Gradients{mesh.place("S(0)", {6}, test::counted(6))});
        },
        [](const auto&, const Gradients& now, const auto&) {
          return std::optional(Gradients{now[0], now[0]});
        }};
    for (const HookFunction& hook : wrong) {
      CHECK(test::kind_of([&] { run(hook); }) == ErrorKind::kRuntime);
    }
  });
}

}  // namespace
}  // namespace shardlab
