#include "schema/op_schema.h"

#include <doctest/doctest.h>

#include "schema/binder.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"

namespace shardlab {
namespace {

struct OneDim {
  Arena arena;
  OpRegistry registry;
  const MeshLayout* layout = arena.layout({.shape = Dims{2}, .names = {"x"}, .ranks = {}});
  const DTensorSpec* a = spec({8, 4}, Placement::shard(0));
  const DTensorSpec* b = spec({8, 4}, Placement::replicate());

  const DTensorSpec* spec(Dims shape, Placement placement) {
    return arena.spec(layout, Placements{placement}, contiguous_meta(shape, DType::kF32));
  }
  const OpRow& add(const char* schema, RuntimeSchemaInfo info) {
    OpRow row;
    row.op = parse_op_schema(schema);
    row.info = std::move(info);
    return registry.add(std::move(row));
  }
  OpSchema call(const OpRow& row, Arguments args) {
    return {&row, bind_arguments(row, std::move(args)), layout};
  }
  static bool same(const OpSchema& a, const OpSchema& b) {
    CHECK((a.key_hash() == b.key_hash()) == a.same_key(b));
    return a.same_key(b);
  }
};

}  // namespace

TEST_CASE("W-8 keys hold tensors and what the schema info calls static") {
  OneDim f;
  const OpRow& scaled = f.add("f(Tensor self, Tensor other, Scalar alpha=1) -> Tensor", {99, {}});
  CHECK(f.same(f.call(scaled, {f.a, f.b, 1}), f.call(scaled, {f.a, f.b, 2})));
  CHECK_FALSE(f.same(f.call(scaled, {f.a, f.b}), f.call(scaled, {f.b, f.a})));
  const OpRow& transpose = f.add("g(Tensor self, int a, int b) -> Tensor", {1, {}});
  CHECK_FALSE(f.same(f.call(transpose, {f.a, 0, 1}), f.call(transpose, {f.a, 1, 0})));
  const OpRow& join = f.add("h(Tensor[] tensors, int dim=0) -> Tensor", {1, {}, true});
  const ArgumentList ab = {f.a, f.b}, ba = {f.b, f.a};
  CHECK(f.same(f.call(join, {ab, 0}), f.call(join, {ab, 0})));
  CHECK_FALSE(f.same(f.call(join, {ab, 0}), f.call(join, {ba, 0})));
  CHECK_FALSE(f.same(f.call(join, {ab, 0}), f.call(join, {ab, 1})));
}

TEST_CASE("X-17 positions are part of the key") {
  OneDim f;
  const OpRow& row = f.add("f(Tensor? x, Tensor? y, int n=0) -> Tensor", {2, {}});
  CHECK_FALSE(f.same(f.call(row, {f.a, Argument()}), f.call(row, {Argument(), f.a})));
}

TEST_CASE("1, 1.0 and True are different values") {
  OneDim f;
  const OpRow& row = f.add("f(Tensor x, Scalar n) -> Tensor", {1, {}});
  CHECK_FALSE(f.same(f.call(row, {f.a, 1}), f.call(row, {f.a, 1.0})));
  CHECK_FALSE(f.same(f.call(row, {f.a, 1}), f.call(row, {f.a, true})));
}

TEST_CASE("O-22 specs in order, lists flattened, keyword ones apart") {
  OneDim f;
  const OpRow& row =
      f.add("f.out(Tensor x, Tensor?[] y, *, Tensor(a!) out) -> Tensor(a!)", {100, {}, true});
  const OpSchema schema{
      &row, bind_arguments(row, {f.a, ArgumentList{Argument(), f.b}}, {{"out", f.b}}), f.layout};
  CHECK(schema.tensor_specs() == std::vector<const DTensorSpec*>{f.a, f.b});
  CHECK(schema.keyword_tensor_specs() == std::vector<const DTensorSpec*>{f.b});
  CHECK(schema.text() == "aten::f.out(x f32[8@x, 4], y [None, f32[8, 4]], out f32[8, 4])");
}

}  // namespace shardlab
