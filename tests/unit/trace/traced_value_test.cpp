// Worlds, placement types, placements, meshes and groups while a program is captured. Expected
// values: the numbered behaviours; for meshes and groups torch 2.15's answers on the same ranks.
#include "trace/traced_value.h"

#include "api/shardlab.h"
#include "tests/unit/dispatch/op_mesh.h"
#include "tests/unit/trace/traced.h"
#include "trace/traced_members.h"

namespace shardlab {
namespace {

using test::asked;
using test::broken_by;
using test::kUnlisted;
using test::Lines;
using test::lines_of;
using test::OpMesh;
using test::text;

const Source kArg = Source::input("arg0");
const Source kGroupSource = Source::global("group");

// 2 x 3 ranks in a world of 8: 2 and 7 are outside.
OpMesh mesh_of_six() { return OpMesh({2, 3}, {0, 1, 3, 4, 5, 6}, 8); }

std::string unlisted(const char* member) { return std::string(kUnlisted) + member; }

TEST_CASE("T-2 T-8 each kind of object has its traced value, which knows the object's type") {
  OpMesh mesh({2});
  mesh.run([&](RankContext& rank) {
    Tracing tracing;
    const DTensor x = mesh.place("S(0)", {5}, test::counted(5));
    const std::vector<std::pair<TracedValue, std::string>> rows = {
        {tracing.wrap(x), "tensor DTensor"},
        {tracing.wrap(Argument(3)), "constant int"},
        {tracing.wrap(Argument(3.0)), "constant float"},
        {tracing.wrap(Argument("sum")), "constant str"},
        {tracing.wrap(EnumConstant()), "enum constant enum"},
        {tracing.wrap(WorldMeta::kGroup), "world WorldMeta"},
        {tracing.wrap(&shard_type()), "placement type type"},
        {tracing.wrap(Placement::strided_shard(0, 2)), "placement StridedShard"},
        {tracing.wrap(Placement::partial()), "placement Partial"},
        {tracing.wrap(mesh.layout()), "device mesh DeviceMesh"},
        {tracing.wrap(rank.world), "process group ProcessGroup"},
        {tracing.wrap(rank.world).get_attr("size"), "bound method method"}};
    for (const auto& [value, expected] : rows) {
      CHECK(fmt::format("{} {}", to_string(value.kind()), value.type_name()) == expected);
    }
    CHECK(tracing.wrap(x).as_proxy().value.is_same(x));
    CHECK(broken_by(tracing, [&] {
            tracing.wrap(HostObject(std::string("a text")));
          }).starts_with("an object that is not traced: "));
  });
}

TEST_CASE("T-3 a source is a path that attributes extend; what is made at capture has none") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    CHECK(kArg.attribute("mesh").attribute("mesh_dim_names").text() == "arg0.mesh.mesh_dim_names");
    CHECK(kGroupSource.attribute("WORLD").text() == "global.group.WORLD");
    Tracing tracing;
    const TracedValue x = tracing.wrap(mesh.place("S(0)", {5}, test::counted(5)), kArg);
    CHECK(x.get_attr("device_mesh").source() == kArg.attribute("mesh"));
    const TracedValue flat = x.get_attr("device_mesh").call_method("_flatten", {});
    CHECK_FALSE(flat.source().has_value());
    CHECK_FALSE(tracing.constant(1).source().has_value());
  });
}

TEST_CASE("T-4 a guard that is installed twice is one, and guards keep their order") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    Tracing tracing;
    const TracedValue m = tracing.wrap(mesh.layout(), kArg.attribute("mesh"));
    const TracedValue p = tracing.wrap(Placement::shard(1), kArg.attribute("placements[0]"));
    for (int i = 0; i < 2; ++i) {
      m.get_attr("ndim");
      p.get_attr("dim");
      m.call_method("size", {});
    }
    CHECK(lines_of(tracing.guards()) == Lines{"identity arg0.mesh: {m0:2} on ranks 0-1",
                                              "equality arg0.mesh.device_type: cpu",
                                              "equality arg0.placements[0]: Shard(1)"});
  });
}

TEST_CASE(
    "T-5 breaks are counted by type, and both are shown where one comes while another is "
    "handled") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    Tracing tracing;
    const TracedValue m = tracing.wrap(mesh.layout());
    for (const char* name : {"barrier", "abort"}) {
      CHECK(broken_by(tracing, [&] { m.call_method(name, {}); }) ==
            unlisted(fmt::format("device mesh.{}()", name).c_str()));
    }
    CHECK(broken_by(tracing, [&] { tracing.wrap(WorldMeta::kGroup).as_constant(); }) ==
          "a value that is not a constant: world");
    CHECK(counted(tracing.breaks()) ==
          std::map<std::string, std::int64_t>{{"an unlisted member of a traced value", 2},
                                              {"a value that is not a constant", 1}});
    const GraphBreak& first = tracing.breaks()[0];
    CHECK(
        first.text().starts_with("an unlisted member of a traced value\n"
                                 "  context      device mesh.barrier()\n  explanation  "));
    CHECK(first.text().find("\n  hint         ") != std::string::npos);
    Error second = error_of(tracing.breaks()[2]);
    second.caused_by(error_of(first));
    CHECK(second.text().find("device mesh.barrier()") != std::string::npos);
    CHECK(second.text().find("a value that is not a constant") != std::string::npos);
  });
}

TEST_CASE(
    "T-6 T-18 T-24 T-29 T-40 T-45 T-46 a member that no table lists is a break with kind and name, "
    "never an answer") {
  OpMesh mesh({2});
  mesh.run([&](RankContext& rank) {
    Tracing tracing;
    const std::vector<std::pair<TracedValue, std::string>> rows = {
        {tracing.wrap(mesh.place("S(0)", {5}, test::counted(5))), "tensor"},
        {tracing.constant(3), "constant"},
        {tracing.wrap(EnumConstant()), "enum constant"},
        {tracing.wrap(WorldMeta::kGroup, kGroupSource), "world"},
        {tracing.wrap(&shard_type(), Source::global("Shard")), "placement type"},
        {tracing.wrap(Placement::shard(0)), "placement"},
        {tracing.wrap(mesh.layout(), kArg), "device mesh"},
        {tracing.wrap(rank.world), "process group"},
        {tracing.wrap(rank.world).get_attr("rank"), "bound method"}};
    for (const auto& [value, kind] : rows) {
      CHECK(broken_by(tracing, [&value = value] { value.get_attr("other"); }) ==
            unlisted((kind + ".other").c_str()));
      CHECK(broken_by(tracing, [&value = value] { value.call_method("other", {}); }) ==
            unlisted((kind + ".other()").c_str()));
    }
    // A method is no attribute and an attribute is no method, unless both are listed.
    const auto breaks = [&](const TracedValue& value, const char* attribute, const char* method) {
      CHECK(broken_by(tracing, [&] { value.get_attr(attribute); }).starts_with(kUnlisted));
      CHECK(broken_by(tracing, [&] { value.call_method(method, {}); }).starts_with(kUnlisted));
    };
    breaks(rows[5].first, "is_shard", "dim");
    breaks(rows[6].first, "size", "ndim");
    breaks(rows[7].first, "_get_backend_name", "group_name");
    breaks(rows[3].first, "default_pg", "WORLD");
    // Kinds that cannot be called.
    for (const std::size_t row : {0, 1, 2, 3, 5, 6, 7}) {
      CHECK(broken_by(tracing, [&] { rows[row].first.call({}); }) ==
            unlisted((rows[row].second + ".__call__()").c_str()));
    }
    CHECK(tracing.guards().empty());
    CHECK(tracing.folds().empty());
  });
}

TEST_CASE("T-7 T-9 T-12 outside of a world nothing is recognised, and a value breaks the graph") {
  OpMesh mesh({2});
  CHECK_FALSE(trace_available());
  Tracing tracing;
  CHECK(broken_by(tracing, [&] { tracing.wrap(mesh.layout()); }) ==
        "distributed package unavailable: ");
  CHECK(tracing.breaks()[0].explanation.find("build lacks") != std::string::npos);
  REQUIRE(tracing.breaks()[0].hints.size() == 1);
  CHECK(tracing.breaks()[0].hints[0].find("meson configure") != std::string::npos);
  CHECK_FALSE(is_world_meta(WorldMeta::kGroup));
  CHECK_FALSE(is_placement_type(&shard_type()));
  CHECK_FALSE(is_placement(Placement::shard(0)));
  CHECK_FALSE(is_device_mesh(mesh.layout()));
  CHECK_FALSE(is_process_group(static_cast<ProcessGroup*>(nullptr)));
  mesh.run([&](RankContext&) {
    CHECK(trace_available());
    CHECK(is_device_mesh(mesh.layout()));
  });
}

TEST_CASE("T-10 T-11 T-61 every value has a hash, and constants are equal as their objects are") {
  OpMesh mesh({2, 2});
  mesh.run([&](RankContext& rank) {
    Tracing tracing;
    const TracedValue shard = tracing.wrap(Placement::shard(0), kArg);
    const TracedValue again = tracing.wrap(Placement::shard(0), Source::input("arg1"));
    CHECK(shard.equals(again));
    CHECK(shard.hash() == again.hash());
    for (const Placement& other : {Placement::strided_shard(0, 2), Placement::shard(1),
                                   Placement::replicate(), Placement::partial()}) {
      CHECK_FALSE(shard.equals(tracing.wrap(other)));
    }
    CHECK_FALSE(shard.equals(tracing.constant(0)));
    const TracedValue m = tracing.wrap(mesh.layout());
    const TracedValue part = m.call_method("__getitem__", {{tracing.constant("m0")}, {}});
    CHECK(m.equals(tracing.wrap(mesh.layout())));
    CHECK_FALSE(m.equals(part));
    // A part of a mesh has the groups of the mesh.
    const TracedValue group = m.call_method("get_group", {{tracing.constant("m0")}, {}});
    const TracedValue other = part.call_method("get_group", {});
    CHECK(group.equals(m.call_method("get_group", {{tracing.constant(0)}, {}})));
    CHECK(group.equals(other));
    CHECK_FALSE(group.equals(m.call_method("get_group", {{tracing.constant("m1")}, {}})));
    CHECK(tracing.constant("a").equals(tracing.constant("a")));
    const TracedValue world = tracing.wrap(WorldMeta::kGroup);
    CHECK(world.hash() == tracing.wrap(WorldMeta::kGroup).hash());
    CHECK(world.hash() != tracing.wrap(WorldMeta::kGroupMember).hash());
    CHECK(tracing.wrap(rank.world).get_attr("rank").hash() !=
          tracing.wrap(rank.world).get_attr("size").hash());
    // T-18: neither side may be without a constant form.
    CHECK(broken_by(tracing, [&] { world.equals(shard); }) ==
          "a value that is not a constant: world");
    CHECK(broken_by(tracing, [&] { shard.equals(world); }) ==
          "a value that is not a constant: world");
  });
}

TEST_CASE("T-15 T-19 T-27 T-43 X-61 recognisers go by exact type, of placements by the class") {
  struct Wrapped final : ForwardingCommunicator {
    using ForwardingCommunicator::ForwardingCommunicator;
    std::unique_ptr<Communicator> wrap(std::unique_ptr<Communicator> part) override { return part; }
  };
  class NamedMesh : public MeshLayout {};
  static const PlacementType kRowShard{"RowShard", &shard_type(), {}};
  static const PlacementType kNone{"None", nullptr, {}};
  OpMesh mesh({2});
  mesh.run([&](RankContext& rank) {
    CHECK(is_world_meta(WorldMeta::kGroupMember));
    CHECK_FALSE(is_world_meta(&shard_type()));
    for (const PlacementType* type : {&placement_type(), &partial_type(), &kRowShard}) {
      CHECK(is_placement_type(type));
    }
    CHECK_FALSE(is_placement_type(&kNone));
    CHECK_FALSE(is_placement_type(Placement::shard(0)));
    CHECK(is_placement(Placement::norm_partial(2)));
    CHECK(is_placement(PlacementObject{&kRowShard, Placement::shard(0)}));
    CHECK_FALSE(is_placement(PlacementObject{&kNone, Placement::shard(0)}));
    CHECK_FALSE(is_placement(&shard_type()));
    CHECK(is_device_mesh(mesh.layout()));
    CHECK_FALSE(is_device_mesh(static_cast<const NamedMesh*>(nullptr)));
    CHECK(is_process_group(rank.world));
    CHECK(is_process_group(&device_mesh(mesh.layout()).group(0)));
    CHECK(is_process_group(static_cast<Communicator*>(rank.world)));
    CHECK_FALSE(is_process_group(static_cast<Communicator*>(&rank.world->communicator())));
    CHECK_FALSE(is_process_group(static_cast<ProcessGroup*>(nullptr)));
  });
}

TEST_CASE("T-16 T-17 T-18 the world gives its group and the sentinel, each with its own guard") {
  OpMesh mesh({2});
  mesh.run([&](RankContext& rank) {
    Tracing tracing;
    const TracedValue group = tracing.wrap(WorldMeta::kGroup, kGroupSource);
    const TracedValue world = group.get_attr("WORLD");
    CHECK(world.kind() == TracedKind::kProcessGroup);
    CHECK(world.as_constant() == TracedConstant(static_cast<const ProcessGroup*>(rank.world)));
    const TracedValue none = tracing.wrap(WorldMeta::kGroupMember, Source::global("GroupMember"))
                                 .get_attr("NON_GROUP_MEMBER");
    CHECK(none.kind() == TracedKind::kEnumConstant);
    CHECK(lines_of(tracing.guards()) ==
          Lines{"identity global.group.WORLD: world on ranks 0,1",
                "identity global.GroupMember.NON_GROUP_MEMBER: NON_GROUP_MEMBER"});
    for (const char* name : {"WORLD", "NON_GROUP_MEMBER"}) {
      CHECK(test::kind_of([&] { tracing.wrap(WorldMeta::kGroup).get_attr(name); }) ==
            ErrorKind::kInternal);
    }
    CHECK(broken_by(tracing, [&] { group.as_constant(); }) ==
          "a value that is not a constant: world");
  });
}

TEST_CASE("T-20 T-21 a placement type makes placements where it has a source, and only there") {
  static const PlacementType kRowShard{"RowShard", &shard_type(), {}};
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    Tracing tracing;
    const auto made = [&](const PlacementType& type, const std::vector<Argument>& arguments) {
      TracedCall call;
      for (const Argument& argument : arguments) {
        call.positional.push_back(tracing.constant(argument));
      }
      const TracedValue value = tracing.wrap(&type, Source::global(type.name)).call(call);
      CHECK(value.kind() == TracedKind::kPlacement);
      CHECK_FALSE(value.source().has_value());
      return text(value);
    };
    CHECK(made(shard_type(), {-1}) == "Shard(-1)");
    CHECK(made(kRowShard, {1}) == "RowShard(1)");
    CHECK(made(strided_shard_type(), {0, 2}) == "StridedShard(0, 2)");
    CHECK(made(replicate_type(), {}) == "Replicate()");
    CHECK(made(partial_type(), {}) == "Partial(\"sum\")");
    CHECK(made(partial_type(), {"avg"}) == "Partial(\"avg\")");
    CHECK(tracing.wrap(&shard_type()).as_constant() == TracedConstant(&shard_type()));
    CHECK(broken_by(tracing, [&] { tracing.wrap(&shard_type()).call({}); }) ==
          unlisted("placement type.__call__()"));
    CHECK(test::kind_of([&] { made(shard_type(), {}); }) == ErrorKind::kValue);
  });
}

TEST_CASE(
    "T-22 T-64 attributes of placements are constants; what a kind lacks is the program's "
    "error, and a break") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    Tracing tracing;
    const auto attribute = [&](const Placement& placement, const char* name) {
      return text(tracing.wrap(placement).get_attr(name));
    };
    CHECK(attribute(Placement::shard(3), "dim") == "3");
    CHECK(attribute(Placement::strided_shard(1, 2), "dim") == "1");
    CHECK(attribute(Placement::strided_shard(1, 2), "split_factor") == "2");
    CHECK(attribute(Placement::partial(ReduceOp::kMax), "reduce_op") == "\"max\"");
    const auto lacks = [&](const Placement& placement, const char* name) {
      return broken_by(tracing, [&] { attribute(placement, name); });
    };
    const std::string without = "a placement without this attribute: placement ";
    CHECK(lacks(Placement::replicate(), "dim") == without + "Replicate.dim");
    CHECK(lacks(Placement::partial(), "dim") == without + "Partial.dim");
    CHECK(lacks(Placement::shard(0), "reduce_op") == without + "Shard.reduce_op");
    CHECK(lacks(Placement::shard(0), "split_factor") == without + "Shard.split_factor");
  });
}

TEST_CASE("T-23 predicates of placements are folded over constants, found on the type") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    Tracing tracing;
    const auto ask = [&](const Placement& placement, const char* name,
                         const std::vector<Argument>& arguments = {}) {
      return asked(tracing, tracing.wrap(placement), name, arguments);
    };
    const Placement strided = Placement::strided_shard(0, 2);
    CHECK(ask(Placement::shard(0), "is_shard") == "True");
    CHECK(ask(Placement::shard(0), "is_shard", {0}) == "True");
    CHECK(ask(Placement::shard(0), "is_shard", {1}) == "False");
    CHECK(ask(strided, "is_shard") == "False");
    CHECK(ask(Placement::replicate(), "is_replicate") == "True");
    CHECK(ask(Placement::partial(ReduceOp::kAvg), "is_partial") == "True");
    CHECK(ask(Placement::partial(ReduceOp::kAvg), "is_partial", {"sum"}) == "False");
    CHECK(ask(Placement::replicate(), "__init__") == "None");
    const TracedValue shard = tracing.wrap(Placement::shard(0));
    CHECK(text(shard.call_method("is_shard", {{}, {{"dim", tracing.constant(0)}}})) == "True");
    // Setting a field changes the object itself, for all holders.
    const TracedValue same = shard;
    const TracedValue given =
        shard.call_method("__setattr__", {{tracing.constant("dim"), tracing.constant(2)}, {}});
    CHECK(text(same) == "Shard(2)");
    CHECK(given.equals(shard));
    CHECK(broken_by(tracing, [&] {
            shard.call_method("is_shard", {{shard}, {}});
          }) == "an argument that is not a plain constant: placement Shard(2)");
    CHECK(test::kind_of([&] {
            shard.call_method("is_shard", {{}, {{"dims", shard}}});
          }) == ErrorKind::kValue);
  });
}

TEST_CASE(
    "T-23 a type with a lookup of its own breaks the graph; one that lacks a method is ours "
    "to mend") {
  static const PlacementType kLogged{"LoggedShard", &shard_type(), {}, true};
  static const PlacementMethod kWithout[] = {{"is_shard", {}, nullptr}};
  static const PlacementType kLess{"LessShard", &shard_type(), kWithout};
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    Tracing tracing;
    const TracedValue logged = tracing.wrap(PlacementObject{&kLogged, Placement::shard(0)});
    for (const char* method : {"is_shard", "is_partial", "__init__"}) {
      CHECK(broken_by(tracing, [&] { logged.call_method(method, {}); }) ==
            "placement with custom attribute lookup: LoggedShard");
    }
    CHECK(tracing.breaks()[0].hints.size() == 2);
    CHECK(broken_by(tracing, [&] { logged.get_attr("dim"); }) ==
          "placement with custom attribute lookup: LoggedShard");
    const TracedValue less = tracing.wrap(PlacementObject{&kLess, Placement::shard(0)});
    CHECK(test::kind_of([&] { less.call_method("is_shard", {}); }) == ErrorKind::kInternal);
    CHECK(asked(tracing, less, "is_partial") == "False");
  });
}

TEST_CASE(
    "T-28 T-29 T-30 T-31 T-32 T-33 T-34 T-35 T-36 T-39 T-64 a mesh answers with constants, outside "
    "of it too") {
  OpMesh mesh = mesh_of_six();
  mesh.run([&](RankContext& rank) {
    Tracing tracing;
    const TracedValue m = tracing.wrap(mesh.layout(), kArg.attribute("mesh"));
    const auto ask = [&](const char* name, const std::vector<Argument>& arguments = {}) {
      return asked(tracing, m, name, arguments);
    };
    CHECK(m.as_constant() == TracedConstant(mesh.layout()));
    CHECK(text(m.get_attr("ndim")) == "2");
    CHECK(text(m.get_attr("shape")) == "[2, 3]");
    CHECK(text(m.get_attr("device_type")) == "\"cpu\"");
    CHECK(text(m.get_attr("mesh_dim_names")) == "None");
    CHECK(text(m.get_attr("names")) == "[\"m0\", \"m1\"]");
    CHECK(m.get_attr("mesh_dim_names").source()->text() == "arg0.mesh.mesh_dim_names");
    CHECK_FALSE(tracing.wrap(mesh.layout()).get_attr("mesh_dim_names").source().has_value());
    CHECK((ask("size") == "6" && ask("size", {0}) == "2" && ask("size", {-1}) == "3"));
    CHECK(ask("get_rank") == std::to_string(rank.rank));
    const bool outside = rank.rank == 2 || rank.rank == 7;
    CHECK(ask("_is_current_rank_part_of_mesh") == (outside ? "False" : "True"));
    CHECK(asked(tracing, m.call_method("_get_or_create_default_group", {}), "size") == "8");
    if (outside) {
      CHECK(ask("get_coordinate") == "None");
      CHECK(test::kind_of([&] { ask("get_local_rank", {0}); }) == ErrorKind::kRuntime);
      CHECK(test::kind_of([&] { ask("_sym_get_coordinate", {0}); }) == ErrorKind::kRuntime);
    }
    CHECK(test::kind_of([&] { ask("get_local_rank"); }) == ErrorKind::kRuntime);
    CHECK(test::kind_of([&] { ask("get_local_rank", {"m7"}); }) == ErrorKind::kValue);
    CHECK(test::kind_of([&] { ask("size", {2}); }) == ErrorKind::kValue);
    if (rank.rank != 3) return;
    CHECK((ask("get_coordinate") == "[0, 2]" && text(m.get_attr("coordinate")) == "[0, 2]"));
    CHECK(ask("get_coordinate", {"ignored"}) == "[0, 2]");
    CHECK((ask("get_local_rank", {"m1"}) == "2" && ask("get_local_rank", {0}) == "0"));
    CHECK(ask("_sym_get_coordinate", {1}) == "2");
    const TracedValue group = m.call_method("get_group", {{tracing.constant("m1")}, {}});
    CHECK(group.kind() == TracedKind::kProcessGroup);
    CHECK(asked(tracing, group, "ranks") == "[0, 1, 3]");
  });
}

TEST_CASE(
    "T-35 T-37 T-38 T-62 T-64 objects that a mesh makes on the way are made once, as setup "
    "actions") {
  OpMesh mesh = mesh_of_six();
  mesh.run([&](RankContext& rank) {
    Tracing tracing;
    const TracedValue m = tracing.wrap(mesh.layout(), kArg);
    const TracedValue flat = m.call_method("_flatten", {});
    CHECK(m.call_method("_flatten", {}).equals(flat));
    CHECK((flat.kind() == TracedKind::kDeviceMesh && !flat.source()));
    CHECK(asked(tracing, flat, "size") == "6");
    const TracedValue named = m.call_method("_flatten", {{tracing.constant("all")}, {}});
    CHECK(text(named.get_attr("mesh_dim_names")) == "[\"all\"]");
    const TracedValue part = m.call_method("__getitem__", {{tracing.constant("m1")}, {}});
    CHECK(asked(tracing, part, "size") == "3");
    m.call_method("__getitem__", {{tracing.constant("m1")}, {}});
    const TracedValue world = m.call_method("_get_or_create_default_group", {});
    CHECK(world.as_constant() == TracedConstant(static_cast<const ProcessGroup*>(rank.world)));
    // The world's group is there before any program: nothing is made.
    CHECK(tracing.setup_actions() == Lines{"{m0_m1:6} = flatten {m0:2, m1:3}",
                                           "{all:6} = flatten {m0:2, m1:3}",
                                           "{m1:3} = part of {m0:2, m1:3}"});
    if (rank.rank == 4) {
      CHECK(asked(tracing, flat, "get_local_rank") == "3");
      CHECK(asked(tracing, part.call_method("get_group", {}), "ranks") == "[4, 5, 6]");
    }
  });
}

TEST_CASE("T-42 T-44 T-45 T-46 T-64 a process group becomes constants, and methods may be taken") {
  OpMesh mesh({2, 3});
  mesh.run([&](RankContext& rank) {
    Tracing tracing({.backend = "fake"});
    const ProcessGroup& real = device_mesh(mesh.layout()).group(1);
    const TracedValue group =
        tracing.wrap(mesh.layout()).call_method("get_group", {{tracing.constant(1)}, {}});
    CHECK(group.as_constant() == TracedConstant(&real));
    CHECK(broken_by(tracing, [&] { group.as_proxy(); }) ==
          "a value that is not part of a graph: process group");
    const std::string place = std::to_string(rank.rank % 3);
    CHECK(asked(tracing, group, "rank") == place);
    CHECK(asked(tracing, group, "size") == "3");
    CHECK(asked(tracing, group, "_get_backend_name") == "\"fake\"");
    CHECK(text(group.get_attr("group_name")) == "\"m1\"");
    const std::int64_t first = rank.rank - rank.rank % 3;
    CHECK(asked(tracing, group, "ranks") ==
          fmt::format("[{}, {}, {}]", first, first + 1, first + 2));
    const TracedValue taken = group.get_attr("rank");
    CHECK(taken.kind() == TracedKind::kBoundMethod);
    CHECK(text(taken.call({})) == place);
    CHECK(text(group.get_attr("size").call({})) == "3");
  });
}

TEST_CASE("T-41 the log says what was folded, where, and whether other ranks get other answers") {
  OpMesh mesh({2, 3});
  mesh.run([&](RankContext& rank) {
    rank.position.line = 5;
    Tracing tracing;
    const TracedValue m = tracing.wrap(mesh.layout(), kArg.attribute("mesh"));
    asked(tracing, m, "size");
    asked(tracing, m, "get_local_rank", {"m1"});
    CHECK(tracing.folds() == std::vector<Fold>{{"arg0.mesh", "size()", "6", false, 5},
                                               {"arg0.mesh", "get_local_rank(\"m1\")",
                                                std::to_string(rank.rank % 3), true, 5}});
    std::vector<std::string> by_rank;
    for (const TracedKind kind : {TracedKind::kDeviceMesh, TracedKind::kProcessGroup}) {
      for (const TracedMember& member : members_of(kind)) {
        if (member.answers == Answers::kByRank) by_rank.emplace_back(member.name);
      }
    }
    CHECK(by_rank == Lines{"_is_current_rank_part_of_mesh", "_sym_get_coordinate", "coordinate",
                           "get_coordinate", "get_local_rank", "get_rank", "rank", "ranks"});
  });
}

}  // namespace
}  // namespace shardlab
