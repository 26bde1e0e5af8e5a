// The reported placements are compared with all placements that an input can have on one mesh dim.
#include "propagate/nearest_placements.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "dispatch/all_ops.h"
#include "propagate/propagator.h"
#include "schema/binder.h"
#include "schema/op_registry.h"

namespace shardlab {
namespace {

class RefusedCalls {
 public:
  RefusedCalls() : propagator_(all_ops(), PlanOptions{}) {
    layout_ = arena_.layout({.shape = {4}, .names = {"x"}, .ranks = {}});
  }
  const DTensorSpec* spec(const Dims& shape, const Placement& placement) {
    return arena_.spec(layout_, {placement}, contiguous_meta(shape, DType::kF32));
  }
  OpSchema call(const char* op, Arguments args) const {
    const OpRow& row = all_ops().at(op);
    return {&row, bind_arguments(row, std::move(args)), layout_};
  }
  /// The part "nearest" of the refusal.
  std::string told(const OpSchema& schema) {
    try {
      propagator_.propagate(schema);
    } catch (const Error& error) {
      const std::string* nearest = error.find("nearest");
      return nearest == nullptr ? "" : *nearest;
    }
    FAIL("the call is not refused");
    return {};
  }
  /// The least price with which the call is decided when argument 0 has other placements.
  double least_price(OpSchema schema) {
    const DTensorSpec* given = schema.args[0].spec();
    Placements others = {Placement::replicate()};
    for (std::size_t dim = 0; dim < given->ndim(); ++dim) {
      others.push_back(Placement::shard(static_cast<std::int64_t>(dim)));
    }
    double least = std::numeric_limits<double>::infinity();
    for (const Placement& other : others) {
      schema.args[0] = given->with({other});
      try {
        const OutputSharding sharding = *propagator_.propagate(schema);
        least = std::min(least, sharding.costs.at(0) + redistribute_cost(*given, {other}, {}));
      } catch (const Error&) {
        continue;
      }
    }
    return least;
  }

 private:
  Arena arena_;
  Propagator propagator_;
  const MeshLayout* layout_ = nullptr;
};

// "self f32[8, 4] for 14.7 us, or ...": 14.7
double first_price(const std::string& told) {
  return std::stod(told.substr(told.find(" for ") + 5));
}

}  // namespace

TEST_CASE("X-13 a refused call names the cheapest other placements of its input") {
  RefusedCalls f;
  const Placement sum = Placement::partial(ReduceOp::kSum);
  const std::pair<OpSchema, const char*> cases[] = {
      {f.call("relu_", {f.spec({8, 8}, sum)}), "self f32[8@x, 8] for "},
      {f.call("unbind.int", {f.spec({8, 4}, Placement::shard(0))}), "self f32[8, 4] for "},
      {f.call("expand", {f.spec({1, 4096}, Placement::shard(0)), Dims{4, 4096}}),
       "self f32[1, 4096] for "},
  };
  for (const auto& [schema, beginning] : cases) {
    const std::string told = f.told(schema);
    CAPTURE(told);
    CHECK(told.starts_with(beginning));
    CHECK(first_price(told) == doctest::Approx(f.least_price(schema)).epsilon(0.01));
  }
}

TEST_CASE("X-13 a call that no placement would save names none") {
  RefusedCalls f;
  CHECK(f.told(f.call("mm",
                      {f.spec({8, 3}, Placement::shard(0)), f.spec({8, 3}, Placement::shard(0))}))
            .empty());
}

TEST_CASE("X-13 the out= tensor counts as an input that can lie elsewhere") {
  RefusedCalls f;
  const Placement rows = Placement::shard(0), sum = Placement::partial(ReduceOp::kSum);
  const std::string told = f.told(
      f.call("eq.Tensor_out", {f.spec({8, 8}, rows), f.spec({8, 8}, rows), f.spec({8, 8}, sum)}));
  CAPTURE(told);
  CHECK(told.starts_with("out f32[8@x, 8] for "));
}

TEST_CASE("K-25 a refusal without advice is the same but for the part") {
  RefusedCalls f;
  Propagator plain(all_ops(), PlanOptions{});
  plain.set_advice(false);
  const OpSchema schema = f.call("unbind.int", {f.spec({8, 4}, Placement::shard(0))});
  CHECK_FALSE(f.told(schema).empty());
  try {
    plain.propagate(schema);
    FAIL("the call is not refused");
  } catch (const Error& error) {
    CHECK(error.find("nearest") == nullptr);
    CHECK(error.find("fix") != nullptr);
  }
}

}  // namespace shardlab
