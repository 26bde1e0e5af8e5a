// The operator schema's types (O-1 to O-48, M-2, M-3, W-8).
#include "schema/schema_queries.h"

#include <doctest/doctest.h>

#include "dispatch/all_ops.h"
#include "propagate/propagator.h"
#include "schema/binder.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"

namespace shardlab {
namespace {

ErrorKind kind_of(const auto& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.kind();
  }
  FAIL("nothing was thrown");
  return ErrorKind::kAssert;
}

struct Fixture {
  Arena arena;
  OpRegistry registry;
  const MeshLayout* layout = arena.layout({.shape = Dims{2, 2}, .names = {}, .ranks = {}});
  const MeshLayout* other = arena.layout({.shape = Dims{4}, .names = {}, .ranks = {}});
  const DTensorSpec* rows = spec(layout, {Placement::shard(0), Placement::replicate()});
  const DTensorSpec* columns = spec(layout, {Placement::replicate(), Placement::shard(1)});
  const DTensorSpec* pending = spec(layout, {Placement::partial(), Placement::shard(0)});
  const DTensorSpec* elsewhere = spec(other, {Placement::shard(0)});

  const DTensorSpec* spec(const MeshLayout* mesh, const Placements& placements) {
    return arena.spec(mesh, placements, contiguous_meta(Dims{8, 4}, DType::kF32));
  }
  const OpRow& add(const char* schema, RuntimeSchemaInfo info = {99, {}}) {
    OpRow row;
    row.op = parse_op_schema(schema);
    row.info = std::move(info);
    return registry.add(std::move(row));
  }
  OpSchema call(const OpRow& row, Arguments args,
                std::vector<std::pair<std::string, Argument>> keywords = {}) {
    return {&row, bind_arguments(row, std::move(args), std::move(keywords)), layout};
  }
};

bool same(const OpSchema& a, const OpSchema& b) {
  CHECK((!a.same_key(b) || a.key_hash() == b.key_hash()));
  return a.same_key(b);
}

TEST_CASE("O-1 M-5 compact texts of none, one spec and sequences; anything else is refused") {
  const Fixture f;
  CHECK(compact_text(static_cast<const DTensorSpec*>(nullptr)) == "None");
  CHECK(compact_text(f.rows) == "S(0)R");
  const DTensorSpec* pair[] = {f.pending, nullptr};
  CHECK(compact_text(OutputSpecs(pair)) == "(P(sum)S(0), None)");
  CHECK(compact_text(Argument(ArgumentList{f.rows, ArgumentList{f.columns, Argument()}})) ==
        "(S(0)R, (RS(1), None))");
  CHECK(kind_of([&] { compact_text(Argument(3)); }) == ErrorKind::kRuntime);
}

TEST_CASE(
    "O-2 M-3 O-39 O-40 metadata for shape inference: shape, stride, dtype of every tensor, no "
    "data") {
  Fixture f;
  CHECK(meta_of(f.rows) == contiguous_meta(Dims{8, 4}, DType::kF32));
  CHECK(kind_of([] { meta_of(nullptr); }) == ErrorKind::kInternal);
  const OpRow& row =
      f.add("f.out(Tensor[] xs, int n, Tensor? y=None, *, Tensor(a!) out) -> Tensor(a!)");
  const OpSchema schema = f.call(row, {ArgumentList{f.rows, f.columns}, 3}, {{"out", f.rows}});
  CHECK(inference_metas(schema).size() == 3);
  CHECK(inference_metas(schema)[2] == f.rows->meta());
}

TEST_CASE("O-3 O-6 O-7 O-8 a candidate's output, mesh and inputs, with their failures") {
  Fixture f;
  const OpSpec one{{f.rows}, {f.rows, f.columns}, {0, 1}};
  CHECK(single_output(one) == f.rows);
  CHECK(mesh_of(one) == f.layout);
  CHECK(input_of(one) == f.rows);
  CHECK(input_of(one, 1) == f.columns);
  CHECK(kind_of([&] { input_of(one, 2); }) == ErrorKind::kInternal);
  CHECK(kind_of([&] { input_of(OpSpec{{f.rows}, {}, {}}); }) == ErrorKind::kInternal);
  const OpSpec two{{f.rows, nullptr}, {}, {}};
  CHECK(kind_of([&] { single_output(two); }) == ErrorKind::kValue);
  CHECK(mesh_of(two) == f.layout);
  CHECK(kind_of([&] { mesh_of(OpSpec{{nullptr, f.rows}, {}, {}}); }) == ErrorKind::kInternal);
  CHECK(kind_of([&] { mesh_of(OpSpec{}); }) == ErrorKind::kValue);
}

TEST_CASE("O-4 O-11 strategies are not empty and stay on one mesh") {
  Fixture f;
  check_strategy({{{{f.rows}, {f.columns}, {1}}, {{f.rows, nullptr}, {}, {}}}});
  CHECK(kind_of([] { check_strategy({}); }) == ErrorKind::kInternal);
  CHECK(kind_of([&] { check_candidate({{f.rows}, {f.elsewhere}, {}}); }) == ErrorKind::kInternal);
  CHECK(kind_of([&] { check_candidate({{f.rows}, {f.rows}, {0, 0}}); }) == ErrorKind::kInternal);
  CHECK(kind_of([&] {
          check_strategy({{{{f.rows}, {}, {}}, {{f.elsewhere}, {}, {}}}});
        }) == ErrorKind::kInternal);
}

TEST_CASE("O-5 X-79 K-26 a candidate has a price for each input, and costs their sum") {
  const Fixture f;
  check_candidate({{f.rows}, {f.rows, f.columns}, {1.5, 2}});
  CHECK(kind_of([&] { check_candidate({{f.rows}, {f.rows}, {1.5, 2}}); }) == ErrorKind::kInternal);
  CHECK(OpSpec{{f.rows}, {f.rows, f.columns}, {1.5, 2}}.cost() == 3.5);
  CHECK(OpSpec{{f.rows}, {}, {}}.cost() == 0);
}

TEST_CASE("O-9 O-12 O-17 X-25 texts of candidates and strategies") {
  const Fixture f;
  const OpSpec product{{f.pending}, {f.rows, f.columns}, {}};
  CHECK(product.text() == "(S(0)R, RS(1)) -> P(sum)S(0)");
  CHECK(OpSpec{{f.rows}, {}, {}}.text() == "S(0)R");
  const OpStrategy strategy{{product, {{f.rows}, {}, {}}}};
  CHECK(strategy.text() == "[(S(0)R, RS(1)) -> P(sum)S(0), S(0)R] @ mesh: (2, 2)");
  const OpStrategy single{{{{f.rows}, {}, {}}}};
  CHECK(TupleStrategy{{single, single}}.text() ==
        "TupleStrategy([S(0)R] @ mesh: (2, 2), [S(0)R] @ mesh: (2, 2))");
}

TEST_CASE("O-10 O-13 O-14 mesh and shape of a strategy come from its first candidate") {
  Fixture f;
  const OpStrategy strategy{
      {{{f.columns}, {}, {}},
       {{f.spec(f.layout, {Placement::shard(0), Placement::shard(1)})}, {}, {}}}};
  CHECK(max_num_shards(strategy) == 4);
  CHECK(mesh_of(strategy) == f.layout);
  CHECK(shape_of(strategy) == Dims{8, 4});
  CHECK(kind_of([] { mesh_of(OpStrategy{}); }) == ErrorKind::kInternal);
  const OpStrategy tuple{{{{f.rows, f.rows}, {}, {}}}};
  CHECK(kind_of([&] { max_num_shards(tuple); }) == ErrorKind::kValue);
}

TEST_CASE("O-15 O-16 O-18 X-24 X-5 a tuple strategy is its children, one decision each") {
  Fixture f;
  const OpStrategy a{{{{f.rows}, {}, {}}}}, b{{{{f.elsewhere}, {}, {}}}};
  const TupleStrategy tuple = unflatten({a, b});
  REQUIRE(flatten(tuple).size() == 2);
  CHECK(child_mesh(tuple, 0) == f.layout);
  CHECK(child_mesh(tuple, 1) == f.other);
  CHECK(kind_of([&] { child_mesh(tuple, 2); }) == ErrorKind::kInternal);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  CHECK(&childs(tuple) == &tuple.children);
#pragma GCC diagnostic pop
}

TEST_CASE(
    "O-19 X-80 O-25 a call's text names op, arguments and their types; defaults and mesh are left "
    "out") {
  Fixture f;
  const OpRow& row = f.add("f(Tensor x, Tensor y, Scalar alpha=1, int n=0) -> Tensor");
  CHECK(f.call(row, {f.rows, f.columns, 1, 3}).text() ==
        "aten::f(x f32[8@m0, 4], y f32[8, 4@m1], n=3)");
}

TEST_CASE(
    "O-20 O-21 the row says which arguments count; by default all positions, and keywords that "
    "shape") {
  Fixture f;
  const OpRow& row =
      f.add("f(Tensor x, int n=0, *, ScalarType? dtype=None, Scalar alpha=1) -> Tensor",
            RuntimeSchemaInfo{});
  CHECK(row.info.static_argnum == 0);
  CHECK(row.info.static_kwargs == std::vector<std::string>{"dtype"});
  CHECK_FALSE(row.info.needs_pytree);
  CHECK(f.add("g(Tensor[] xs) -> Tensor", RuntimeSchemaInfo{}).info.needs_pytree);
  OpSchema schema = f.call(row, {f.rows});
  const OpSchema copy = schema;
  CHECK(same(schema, copy));
}

TEST_CASE("O-22 O-23 X-26 specs of a call in order: lists looked into, keywords apart") {
  Fixture f;
  const OpRow& row = f.add("f.out(Tensor[] xs, Tensor? y, *, Tensor(a!) out) -> Tensor(a!)");
  const OpSchema schema =
      f.call(row, {ArgumentList{f.columns, f.rows}, Argument()}, {{"out", f.pending}});
  CHECK(schema.tensor_specs() == std::vector<const DTensorSpec*>{f.columns, f.rows});
  CHECK(schema.keyword_tensor_specs() == std::vector<const DTensorSpec*>{f.pending});
}

TEST_CASE("O-24 X-17 tensor-like: a spec, or a list that holds one") {
  const Fixture f;
  CHECK(tensor_like(f.rows));
  CHECK(tensor_like(Argument(ArgumentList{Argument(), f.rows})));
  CHECK_FALSE(tensor_like(Argument(ArgumentList{})));
  CHECK_FALSE(tensor_like(Argument(Dims{1, 2})));
  CHECK_FALSE(tensor_like(Argument(2)));
}

TEST_CASE("O-26 every size is a number: equal calls have equal keys from the start") {
  Fixture f;
  const OpRow& row = f.add("f(Tensor x) -> Tensor");
  CHECK(f.call(row, {f.rows}).key_hash() == f.call(row, {f.rows}).key_hash());
  CHECK_FALSE(same(f.call(row, {f.rows}),
                   f.call(row, {f.rows->with(contiguous_meta(Dims{8, 5}, DType::kF32))})));
}

TEST_CASE("O-27 O-28 X-16 the declared results of an op") {
  const OpDescriptor pair = parse_op_schema("f(Tensor x) -> (Tensor, Tensor)");
  const OpDescriptor list = parse_op_schema("f(Tensor x) -> Tensor[]");
  const OpDescriptor nothing = parse_op_schema("f(Tensor x) -> ()");
  const OpDescriptor number = parse_op_schema("f(Tensor x) -> bool");
  CHECK(pair.returns_tuple_of_tensors());
  CHECK(pair.returns_tensor());
  CHECK(list.returns_list_of_tensors());
  CHECK_FALSE(list.returns_tuple_of_tensors());
  CHECK_FALSE(nothing.returns_tensor());
  CHECK_FALSE(number.returns_tensor());
}

TEST_CASE("O-29 O-31 X-21 X-19 keys: op, layout, tensors, and values from static_argnum on") {
  Fixture f;
  const OpRow& row = f.add("f(Tensor x, int a, int b) -> Tensor", {2, {}});
  const OpRow& twin = f.add("g(Tensor x, int a, int b) -> Tensor", {2, {}});
  CHECK(same(f.call(row, {f.rows, 1, 5}), f.call(row, {f.rows, 2, 5})));
  CHECK_FALSE(same(f.call(row, {f.rows, 1, 5}), f.call(row, {f.rows, 1, 6})));
  CHECK_FALSE(same(f.call(row, {f.rows, 1, 5}), f.call(row, {f.columns, 1, 5})));
  CHECK_FALSE(same(f.call(row, {f.rows, 1, 5}), f.call(twin, {f.rows, 1, 5})));
}

TEST_CASE("O-30 O-33 only tensors count where nothing is static") {
  Fixture f;
  const OpRow& row = f.add("f(Tensor x, int a, *, Scalar alpha=1) -> Tensor", {99, {}});
  CHECK(same(f.call(row, {f.rows, 1}), f.call(row, {f.rows, 2}, {{"alpha", 3}})));
}

TEST_CASE("O-32 a static keyword that is missing equals an explicit none; others do not count") {
  Fixture f;
  const OpRow& row = f.add("f(Tensor x, *, int? n=None, int? m=None) -> Tensor", {99, {"n"}});
  CHECK(same(f.call(row, {f.rows}), f.call(row, {f.rows}, {{"n", Argument()}})));
  CHECK_FALSE(same(f.call(row, {f.rows}), f.call(row, {f.rows}, {{"n", 2}})));
  CHECK(same(f.call(row, {f.rows}), f.call(row, {f.rows}, {{"m", 2}})));
}

TEST_CASE(
    "O-33 X-17 positions are part of the key, and so are specs inside lists before static_argnum") {
  Fixture f;
  const OpRow& row = f.add("f(Tensor? x, Tensor? y, Tensor[] zs) -> Tensor", {99, {}, true});
  const ArgumentList none;
  CHECK_FALSE(
      same(f.call(row, {f.rows, Argument(), none}), f.call(row, {Argument(), f.rows, none})));
  CHECK_FALSE(same(f.call(row, {f.rows, Argument(), ArgumentList{f.rows}}),
                   f.call(row, {f.rows, Argument(), ArgumentList{f.columns}})));
}

TEST_CASE("O-34 the first positional value names the mesh") {
  Fixture f;
  const OpRow& row = f.add("f(Tensor? x, int n=0) -> Tensor");
  const OpRow& list = f.add("g(Tensor?[] xs) -> Tensor");
  const OpRow& empty = f.add("h() -> Tensor");
  CHECK(mesh_from_args(f.call(row, {f.rows})) == f.layout);
  CHECK(mesh_from_args(f.call(list, {ArgumentList{f.elsewhere}})) == f.other);
  CHECK(kind_of([&] {
          mesh_from_args(f.call(list, {ArgumentList{Argument(), f.rows}}));
        }) == ErrorKind::kInternal);
  CHECK(kind_of([&] { mesh_from_args(f.call(list, {ArgumentList{}})); }) == ErrorKind::kValue);
  CHECK(kind_of([&] { mesh_from_args(f.call(row, {Argument()})); }) == ErrorKind::kValue);
  CHECK(kind_of([&] { mesh_from_args(f.call(empty, {})); }) == ErrorKind::kValue);
}

TEST_CASE("O-35 later top-level tensors share the mesh when that is asked for") {
  Fixture f;
  const OpRow& row = f.add("f(Tensor x, Tensor y) -> Tensor");
  const OpSchema mixed = f.call(row, {f.rows, f.elsewhere});
  CHECK(kind_of([&] { mesh_from_args(mixed); }) == ErrorKind::kRuntime);
  CHECK(mesh_from_args(mixed, MeshCheck::kFirstOnly) == f.layout);
}

TEST_CASE("O-36 O-37 X-3 in place and out are what arguments say, not what names say") {
  CHECK(parse_op_schema("f(Tensor(a!) self) -> Tensor(a!)").is_inplace());
  CHECK_FALSE(parse_op_schema("__or__.Tensor(Tensor self, Tensor other) -> Tensor").is_inplace());
  CHECK_FALSE(parse_op_schema("f.layout(Tensor self) -> Tensor").is_out_variant());
  CHECK(parse_op_schema("f.grad_input(Tensor x, *, Tensor(a!) grad_input) -> Tensor(a!)")
            .is_out_variant());
}

TEST_CASE("O-38 views alias without writing") {
  CHECK(parse_op_schema("t(Tensor(a) self) -> Tensor(a)").is_view());
  CHECK(parse_op_schema("split.Tensor(Tensor(a -> *) self, int n, int dim=0) -> Tensor(a)[]")
            .is_view());
  CHECK_FALSE(parse_op_schema("t_(Tensor(a!) self) -> Tensor(a!)").is_view());
  CHECK_FALSE(parse_op_schema("clone(Tensor self) -> Tensor").is_view());
}

TEST_CASE(
    "O-41 O-43 K-28 a suggestion goes onto a call spec by spec; values, lists and keywords stay") {
  Fixture f;
  const OpRow& row = f.add("f.out(Tensor[] xs, int n, Tensor y, *, Tensor(a!) out) -> Tensor(a!)");
  const OpSchema call =
      f.call(row, {ArgumentList{f.rows, f.rows}, 3, f.rows}, {{"out", f.pending}});
  const DTensorSpec* suggested[] = {f.columns, f.pending, f.columns};
  const OpSchema moved = rewrapped(call, suggested);
  CHECK(moved.tensor_specs() == std::vector<const DTensorSpec*>{f.columns, f.pending, f.columns});
  REQUIRE(moved.args[0].is_list());
  CHECK(moved.args[1].to_int() == 3);
  CHECK(moved.args[3].spec() == f.pending);
  CHECK_FALSE(same(moved, call));
  CHECK(call.tensor_specs()[0] == f.rows);
}

TEST_CASE("O-42 a call has as many specs as tensors") {
  Fixture f;
  const OpRow& row = f.add("f(Tensor x, Tensor y) -> Tensor");
  const OpSchema call = f.call(row, {f.rows, f.rows});
  const DTensorSpec* one[] = {f.columns};
  const DTensorSpec* three[] = {f.columns, f.columns, f.columns};
  CHECK(kind_of([&] { rewrapped(call, one); }) == ErrorKind::kInternal);
  CHECK(kind_of([&] { rewrapped(call, three); }) == ErrorKind::kInternal);
}

TEST_CASE(
    "O-44 O-45 K-27 a decision that moves nothing suggests the call itself, else one with other "
    "specs") {
  Fixture f;
  register_all_ops(f.registry);
  Propagator propagator(f.registry, PlanOptions{});
  const OpRow& row = f.registry.at("aten::mul.Tensor");
  const OpSchema stays = f.call(row, {f.rows, f.rows}), moves = f.call(row, {f.rows, f.columns});
  const OutputSharding kept = *propagator.propagate(stays);
  CHECK_FALSE(kept.needs_redistribute);
  CHECK(same(redistributed_schema(stays, kept), stays));
  const OutputSharding changed = *propagator.propagate(moves);
  CHECK(changed.needs_redistribute);
  CHECK(redistributed_schema(moves, changed).tensor_specs() == changed.inputs);
  const OutputSharding fresh;
  CHECK(fresh.outputs.empty());
  CHECK_FALSE(fresh.needs_redistribute);
  CHECK(fresh.adapted.empty());
}

TEST_CASE("O-46 the mesh of a decision is that of its first output") {
  Fixture f;
  OutputSharding sharding;
  CHECK(kind_of([&] { mesh_of(sharding); }) == ErrorKind::kValue);
  sharding.outputs = {f.elsewhere, nullptr};
  CHECK(mesh_of(sharding) == f.other);
  sharding.outputs = {nullptr, f.rows};
  CHECK(kind_of([&] { mesh_of(sharding); }) == ErrorKind::kValue);
}

TEST_CASE("O-48 M-2 arguments of every kind keep their kind, text and identity") {
  const Fixture f;
  const Argument values[] = {Argument(),
                             Argument(true),
                             Argument(1),
                             Argument(1.0),
                             Argument("x"),
                             Argument(Dims{1, 2}),
                             Argument(DType::kF32),
                             Argument(f.rows),
                             Argument(ArgumentList{1, 2.5})};
  for (std::size_t i = 0; i < std::size(values); ++i) {
    for (std::size_t j = 0; j < std::size(values); ++j) {
      CAPTURE(i);
      CAPTURE(j);
      CHECK((values[i] == values[j]) == (i == j));
    }
  }
  CHECK(values[0].is_none());
  CHECK(values[5].is_ints());
  CHECK(values[8].is_list());
  CHECK(kind_of([&] { values[2].tensor(); }) == ErrorKind::kInternal);
}

}  // namespace
}  // namespace shardlab
