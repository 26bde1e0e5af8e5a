// Formulas issue ops in the order in which they are written, with every compiler.
#include "ops/core/expression.h"

#include <doctest/doctest.h>

#include <utility>

#include "dispatch/all_ops.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"

namespace shardlab {
namespace {

/// Notes the ops that are called; results have the shape of the first argument.
class NamedCalls : public Calls {
 public:
  NamedCalls() { register_all_ops(registry_); }
  Results call(const OpRow& row, const Arguments& args) override {
    log += row.op.base.substr(6) + " ";
    return {args[0]};
  }
  const OpRow& find(std::string_view name) const override { return registry_.at(name); }
  DTensor redistribute(const DTensor& x, const Placements&) override { return x; }

  std::string log;

 private:
  OpRegistry registry_;
};

// Whether a compiler takes the operators between two values, each computed on the spot (a value) or
// named before (a reference).
template <typename A, typename B>
constexpr bool kAdds = requires(A a, B b) {
  std::forward<A>(a) + std::forward<B>(b);
};
template <typename A, typename B>
constexpr bool kSubtracts = requires(A a, B b) {
  std::forward<A>(a) - std::forward<B>(b);
};
template <typename A, typename B>
constexpr bool kMultiplies = requires(A a, B b) {
  std::forward<A>(a) * std::forward<B>(b);
};
template <typename A, typename B>
constexpr bool kDivides = requires(A a, B b) {
  std::forward<A>(a) / std::forward<B>(b);
};
template <typename A, typename B>
constexpr bool kChooses = requires(const Expression& mask, A a, B b) {
  mask.choose(std::forward<A>(a), std::forward<B>(b));
};

template <typename A, typename B>
constexpr bool kAll =
    kAdds<A, B>&& kSubtracts<A, B>&& kMultiplies<A, B>&& kDivides<A, B>&& kChooses<A, B>;
template <typename A, typename B>
constexpr bool kAny =
    kAdds<A, B> || kSubtracts<A, B> || kMultiplies<A, B> || kDivides<A, B> || kChooses<A, B>;

}  // namespace

TEST_CASE("two operands that are computed on the spot have no order, and no operator") {
  CHECK_FALSE(kAny<Expression, Expression>);
  CHECK(kAll<Expression, const Expression&>);
  CHECK(kAll<const Expression&, Expression>);
  CHECK(kAll<const Expression&, const Expression&>);
  // A value that no op has computed, like grad::in().
  CHECK(kAll<const Expression, Expression>);
  CHECK(kAll<Expression, const Expression>);
}

TEST_CASE("an object comes before the arguments of its member") {
  NamedCalls calls;
  const Expression x(calls, DTensor(Tensor(Ref<Storage>(), contiguous_meta(Dims{2}, DType::kF32))));
  const auto steps = [&](auto formula) {
    calls.log.clear();
    formula();
    return calls.log;
  };
  CHECK(steps([&] { x.of("aten::cos").plus(x.of("aten::sin")); }) == "cos sin add ");
  CHECK(steps([&] { x.of("aten::cos").minus(x.of("aten::sin")); }) == "cos sin sub ");
  CHECK(steps([&] { x.of("aten::cos").times(x.of("aten::sin")); }) == "cos sin mul ");
  CHECK(steps([&] { x.of("aten::cos").over(x.of("aten::sin")); }) == "cos sin div ");
  CHECK(steps([&] { x.of("aten::cos").minus(x.of("aten::sin")).minus(x.of("aten::tan")); }) ==
        "cos sin sub tan sub ");
  CHECK(steps([&] { x.gt(0) && x.lt(1); }) == "gt lt logical_and ");
  CHECK(steps([&] { x.of("aten::cos").filled(x.lt(1), 0); }) == "cos lt masked_fill ");
}

}  // namespace shardlab
