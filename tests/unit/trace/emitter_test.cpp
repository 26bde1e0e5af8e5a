// Texts that make an object again: the expected text is the one of T-60.
#include "tests/support/read_expression.h"

#include "tests/unit/dispatch/op_mesh.h"
#include "tests/unit/trace/traced.h"

namespace shardlab {
namespace {

using test::OpMesh;
using test::text;

// The text, read again and made.
HostObject made(const std::string& text, Arena& arena,
                std::span<const PlacementType* const> types = {}) {
  FactoryEmitter factory(arena, types);
  read_expression(text, factory);
  return factory.take()();
}

std::string text_again(const std::string& text) {
  TextEmitter emitter;
  read_expression(text, emitter);
  return emitter.take();
}

TEST_CASE("T-25 T-26 T-60 X-7 placements are written as their class and all that they have") {
  static const PlacementType kRowShard{"RowShard", &shard_type(), {}};
  static const PlacementType kOwnPartial{"OwnPartial", &partial_type(), {}};
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    Tracing tracing;
    const std::vector<std::pair<Placement, std::string>> rows = {
        {Placement::shard(0), "Shard(0)"},
        {Placement::shard(-1), "Shard(-1)"},
        {Placement::replicate(), "Replicate()"},
        {Placement::partial(), "Partial(\"sum\")"},
        {Placement::partial(ReduceOp::kMax), "Partial(\"max\")"},
        {Placement::strided_shard(1, 4), "StridedShard(1, 4)"}};
    for (const auto& [placement, expected] : rows) {
      const TracedValue value = tracing.wrap(placement);
      CHECK(text(value) == expected);
      CHECK(text_again(expected) == expected);
      CHECK(tracing.wrap(made(expected, mesh.layout()->arena())).equals(value));
    }
    const PlacementObject own{&kRowShard, Placement::shard(2)};
    CHECK(text(tracing.wrap(own)) == "RowShard(2)");
    const PlacementType* const types[] = {&kRowShard};
    CHECK(std::any_cast<PlacementObject>(made("RowShard(2)", mesh.layout()->arena(), types)) ==
          own);
    // Exactly Partial and Replicate: the arguments of a derived class are not known.
    for (const HostObject& other :
         {HostObject(Placement::norm_partial(2)), HostObject(PlacementObject{&kOwnPartial, {}})}) {
      CHECK(test::broken_by(tracing, [&] {
              text(tracing.wrap(other));
            }).starts_with("a value that cannot be made again: placement "));
    }
  });
}

TEST_CASE("T-60 T-61 meshes, groups and constants are made again as equal ones") {
  OpMesh mesh({2, 3}, {5, 4, 3, 2, 1, 0});
  mesh.run([&](RankContext& rank) {
    Tracing tracing;
    Arena& arena = mesh.layout()->arena();
    const auto round = [&](const TracedValue& value, const std::string& expected) {
      CHECK(text(value) == expected);
      CHECK(text_again(expected) == expected);
      CHECK(tracing.wrap(made(expected, arena)).equals(value));
    };
    const TracedValue m = tracing.wrap(mesh.layout());
    const std::string whole = "DeviceMesh(\"cpu\", [[5, 4, 3], [2, 1, 0]], None)";
    round(m, whole);
    const TracedValue flat = m.call_method("_flatten", {{tracing.constant("all")}, {}});
    round(flat, "DeviceMesh(\"cpu\", [5, 4, 3, 2, 1, 0], [\"all\"])");
    round(m.call_method("get_group", {{tracing.constant(1)}, {}}), whole + ".get_group(\"m1\")");
    round(tracing.wrap(rank.world), "group.WORLD");
    round(tracing.wrap(EnumConstant()), "group.NON_GROUP_MEMBER");
    round(tracing.wrap(&partial_type()), "Partial");
    for (const Argument& constant :
         {Argument(), Argument(true), Argument(-7), Argument(0.5), Argument("a text"),
          Argument(Dims{1, 0, -2}), Argument(ArgumentList{"dp", Dims{1}, Argument()})}) {
      round(tracing.constant(constant), constant.text());
    }
    // No expression makes these.
    CHECK(test::broken_by(tracing, [&] { text(tracing.wrap(WorldMeta::kGroup)); }) ==
          "a value that cannot be made again: world WorldMeta");
    CHECK(test::broken_by(tracing, [&] { text(tracing.wrap(rank.world).get_attr("size")); }) ==
          "a value that cannot be made again: bound method method");
  });
}

TEST_CASE("texts that make nothing are refused with the place") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const auto refused = [&](const char* text) {
      return test::error_of_call([&] { made(text, mesh.layout()->arena()); });
    };
    CHECK(refused("Shard(0") ==
          "\"Shard(0\" is not an expression of an object: ')' is expected at byte 7\n"
          "  fix         give a text that a graph has, such as Shard(0)");
    CHECK(refused("Shard(0) 1").find("nothing behind the expression") != std::string::npos);
    CHECK(refused("Shards(0)").find("'Shards' is not a name") != std::string::npos);
    CHECK(refused("group.WORLD()").find("nothing behind") != std::string::npos);
    CHECK(refused("Partial(\"sun\")").find("\"sun\" is not a reduction") != std::string::npos);
    CHECK(refused("Shard(Shard(0))").find("a number, a text") != std::string::npos);
    CHECK(refused(std::string(99, '[').c_str()).find("fewer lists") != std::string::npos);
    CHECK(refused("DeviceMesh(\"cuda\", [0, 1], None)").find("a mesh of cuda") !=
          std::string::npos);
    CHECK(refused("").find("at byte 0") != std::string::npos);
    // Texts that can be read and make nothing; none of it is a mistake of ours.
    for (const char* text :
         {"Shard(\"a\")", "Shard(None)", "Shard(99999999999)", "Shard()", "StridedShard(0)",
          "Partial(3)", "DeviceMesh(1, [0, 1], None)", "DeviceMesh(\"cpu\", 3, None)",
          "DeviceMesh(\"cpu\", [[0], [1, 2]], None)", "DeviceMesh(\"cpu\", [0, 1], [3])",
          "DeviceMesh(\"cpu\", [0, 1], [\"a\"]).get_group(\"b\")", "Shard(0).get_group(\"b\")",
          "group.WORLD.get_group(1)", "Shard(0).dim(1)"}) {
      CAPTURE(std::string(text));
      CHECK(test::kind_of([&] { made(text, mesh.layout()->arena()); }) == ErrorKind::kValue);
    }
  });
}

}  // namespace
}  // namespace shardlab
