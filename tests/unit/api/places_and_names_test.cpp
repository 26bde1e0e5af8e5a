// Texts that programs write: sizes of meshes, placements, patterns of parameters, names of groups
// and of modules. Their meaning is checked on the pieces of ranks; texts without a meaning are
// refused with the words to write instead.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <deque>

#include "api/inputs.h"
#include "api/shardlab.h"
#include "sim/world/spmd.h"
#include "tests/support/refusal.h"

namespace shardlab {
namespace {

struct ReportedRow {
  std::function<void()> call;
  std::string said;
};

void check_reported(const std::vector<ReportedRow>& rows) {
  for (const ReportedRow& row : rows) CHECK(refusal_of(row.call) == row.said);
}

std::string dims_text(const std::vector<MeshDim>& dims) {
  std::string text;
  for (const MeshDim& dim : dims) text += fmt::format("{}:{} ", dim.name, dim.size);
  return text;
}

/// Placements and order of a value, from its type.
std::string type_of(const DTensor& x) { return type_string(x); }

}  // namespace

TEST_CASE("the dims of a mesh are read with blanks around them, and what is none is quoted") {
  CHECK(dims_text(parse_mesh_dims("dp=2,tp=4")) == "dp:2 tp:4 ");
  CHECK(dims_text(parse_mesh_dims("  x=7 ")) == "x:7 ");
  CHECK(dims_text(parse_mesh_dims("a=1 , b=-3")) == "a:1 b:-3 ");  // sizes are looked at later
  for (const std::string text :
       {"", "x", "x=", "=2", "x=2,", "x=2,,y=3", "x=two", "x=2.5", "x = 2"}) {
    CAPTURE(text);
    const std::string said = refusal_of([&] { parse_mesh_dims(text); });
    CHECK(said.starts_with("Value: can't read \""));
    CHECK(said.ends_with(fmt::format("in \"{}\" | name every dim with its size: x=2,y=3", text)));
  }
}

TEST_CASE("placements by mesh dim and types are the same specs, and wrong ones say what is wrong") {
  spmd(6, [](RankContext&) {
    const MeshLayout* mesh = init_mesh({{"dp", 2}, {"tp", 3}});
    const DTensor plain = reshape(arange(20, {.dtype = DType::kF32}), {4, 5});
    const auto placed = [&](std::string_view text) { return distribute_tensor(plain, mesh, text); };
    CHECK(type_of(placed("dp=S(0), tp=S(-1)")) == "f32[4@dp, 5@tp]");
    CHECK(type_of(placed("tp=P(sum)")) == "f32[4, 5]{sum:tp}");
    CHECK(placed("dp=S(0)").spec() == placed("[4@dp, 5]").spec());
    CHECK(placed("f32[4@(tp,dp), 5]").spec()->order() == ShardOrder{1, 0});
    CHECK(type_of(redistribute(placed("dp=S(0), tp=S(1)"), "tp=R")) == "f32[4@dp, 5]");
    const DTensor cut = placed("dp=S(0)");
    check_reported({
        {[&] { placed("pp=S(0)"); },
         "Value: 'pp=S(0)': mesh {dp:2, tp:3} has no dim 'pp' | did you mean 'dp'?"},
        {[&] { placed("dp=S(0), dp=R"); },
         "Value: 'dp=S(0), dp=R': mesh dim 'dp' is used twice | a mesh dim does one thing to a "
         "tensor: cut one dim, or hold a pending reduction"},
        {[&] { placed("dp S(0)"); },
         "Value: 'dp S(0)': 'S' where '=' is missing between a mesh dim and its placement | write "
         "dp=S(0), tp=R"},
        {[&] { placed("[4@dp, 6]"); },
         "Value: '[4@dp, 6]' is for another shape | write the sizes of the tensor, each with its "
         "cut"},
        {[&] { placed("f64[4@dp, 5]"); },
         "Value: 'f64[4@dp, 5]' is for another dtype | cast the tensor first, or leave the dtype "
         "out"},
        {[&] { placed("dp=S(2)"); },
         "Value: placement S(2) shards a dim that a tensor of 2 dims does not have | cut one of "
         "its dims: S(0) to S(1)"},
        {[&] { spec_of(plain); },
         "Value: f32[4, 5] is a plain tensor; it must be distributed | distribute it first: that "
         "places it on a mesh"},
        {[&] { on_mesh_dim(plain, "tp", Replicate()); },
         "Value: f32[4, 5] is a plain tensor | distribute_tensor(x, mesh, ...) places it on the "
         "mesh"},
        {[&] { on_mesh_dim(cut, "tq", Replicate()); },
         "Value: on_mesh_dim: 'tq' is not a mesh dim | did you mean 'tp'?"},
        {[&] {
           flatten_mesh(mesh, {"dp", "cp"});
         },
         "Value: flatten_mesh: 'cp' is not a mesh dim | did you mean 'dp'?"},
    });
  });
}

TEST_CASE(
    "patterns place parameters: sizes left open, names with underscores, two mesh dims at once") {
  spmd(4, [](RankContext&) {
    const MeshLayout* mesh = init_mesh({{"dp_shard", 2}, {"tp", 2}});
    const NamedTensors all = {{"layers.0.w_up", ones({4, 6})},
                              {"layers.1.w_up", ones({8, 6})},
                              {"layers.1.b", ones({6})},
                              {"head", distribute_tensor(ones({4, 4}), mesh, "tp=S(0)")}};
    const NamedTensors placed = shard(all, mesh,
                                      {{"layers.*.w_up", "[_@dp_shard, _@tp]"},
                                       {"*.b", "[_@(dp_shard,tp)]"},
                                       {"head", "[_@(tp,dp_shard), _]"}});
    CHECK(type_of(placed.at("layers.0.w_up")) == "f32[4@dp_shard, 6@tp]");
    CHECK(type_of(placed.at("layers.1.w_up")) == "f32[8@dp_shard, 6@tp]");
    CHECK(type_of(placed.at("layers.1.b")) == "f32[6@(dp_shard,tp)]");
    CHECK(type_of(placed.at("head")) == "f32[4@(tp,dp_shard), 4]");
    const NamedTensors rest = shard(all, mesh, {{"layers.0*", "[4, _@tp]"}});
    CHECK(type_of(rest.at("layers.0.w_up")) == "f32[4, 6@tp]");
    CHECK(type_of(rest.at("layers.1.b")) == "f32[6]");
    CHECK(rest.at("layers.1.b").distributed());
    CHECK(rest.at("head").is_same(all.at("head")));
    check_reported({
        {[&] {
           shard(all, mesh, {{"layers.9.*", "[_]"}});
         },
         "Value: no parameter is called 'layers.9.*' | the first one is called head"},
        {[&] {
           shard({}, mesh, {{"w", "[_]"}});
         },
         "Value: no parameter is called 'w' | give some parameters"},
        {[&] {
           shard(all, mesh, {{"head", "[_]"}});
         },
         "Value: '[4]' is for another shape | write the sizes of the tensor, each with its cut"},
    });
  });
}

TEST_CASE("groups are found by mesh dim, by name and by ranks, on ranks of the mesh alone") {
  spmd(7, [](RankContext& rank) {
    const MeshLayout* mesh = init_mesh({{"dp", 2}, {"tp", 3}}, {6, 4, 2, 5, 3, 1});
    if (rank.rank == 0) {
      check_reported(
          {{[&] { get_local_rank(mesh, "tp"); },
            "Runtime: get_local_rank: rank 0 is not in the mesh | ask on the ranks of the "
            "mesh only: if (get_coordinate(mesh))"}});
      CHECK_FALSE(get_coordinate(mesh).has_value());
      CHECK(get_group_size_by_name(mesh, "world") == 7);
      return;
    }
    const std::vector<std::int64_t> rows[] = {{6, 4, 2}, {5, 3, 1}};
    const std::int64_t row = std::count(rows[0].begin(), rows[0].end(), rank.rank) > 0 ? 0 : 1;
    const std::int64_t column =
        std::find(rows[row].begin(), rows[row].end(), rank.rank) - rows[row].begin();
    CHECK(get_local_rank(mesh, "dp") == row);
    CHECK(get_local_rank(mesh, "tp") == column);
    CHECK(get_process_group_ranks(&get_group(mesh, "tp")) == rows[row]);
    CHECK(get_group_size_by_name(mesh, "dp") == 2);
    CHECK(get_group_tag(get_group(mesh, "tp")) == "ptd:tp");
    std::vector<std::int64_t> turned(rows[row].rbegin(), rows[row].rend());
    CHECK(resolve_group_name_by_ranks_and_tag(mesh, turned, "") == "tp");
    CHECK(resolve_group_name_by_ranks_and_tag(mesh, turned, "ptd:tp") == "tp");
    const std::vector<std::int64_t> absent{0, 6};
    check_reported({
        {[&] { get_group(mesh); },
         "Runtime: get_group: the mesh has 2 dims, and none is named | get_group(mesh, \"dp\")"},
        {[&] { get_local_rank(mesh, "pp"); },
         "Value: get_local_rank: 'pp' is not a mesh dim | did you mean 'dp'?"},
        {[&] { get_group_size_by_name(mesh, "tpp"); },
         "Value: get_group_size_by_name: no process group is called 'tpp' | did you mean 'tp'?"},
        {[&] { resolve_group_name_by_ranks_and_tag(mesh, absent, ""); },
         "Value: no process group of this rank has the ranks [0, 6] | "
         "get_process_group_ranks(&get_group(mesh, \"tp\")) says the ranks of one"},
        {[&] { resolve_group_name_by_ranks_and_tag(mesh, turned, "ptd:dp"); },
         fmt::format("Value: no process group of this rank has the ranks [{}, {}, {}] | "
                     "get_process_group_ranks(&get_group(mesh, \"tp\")) says the ranks of one",
                     turned[0], turned[1], turned[2])},
    });
  });
}

TEST_CASE("recipes of inputs that nobody knows or that say too little are refused by name") {
  spmd(2, [](RankContext&) {
    const MeshLayout* mesh = init_mesh({{"x", 2}});
    const auto make = [&](const InputRecipe& recipe, std::string_view type = "f32[3@x]") {
      return make_input("w", type, mesh, recipe);
    };
    check_reported({
        {[&] {
           make({"normal", {}, 1, {}});
         },
         "Value: 'normal' is not a way to make the input 'w' | randn, rand, randint, zeros, ones, "
         "full, arange, eye or values"},
        {[&] {
           make({"full", {}, 1, {}});
         },
         "Value: the input 'w': full needs its fill_value | give one number for each"},
        {[&] {
           make({"randint", {0}, 1, {}}, "i64[3@x]");
         },
         "Value: the input 'w': randint needs its high | give one number for each"},
    });
    using V = std::vector<double>;
    const auto whole = [](const DTensor& x) { return read_doubles(full_tensor(x).local()); };
    CHECK(whole(make({"arange", {}, 1, {}}, "f32[5@x]")) == V{0, 1, 2, 3, 4});
    CHECK(whole(make({"full", {2.5}, 2, {}})) == V{5, 5, 5});
    CHECK(whole(make({"eye", {}, 1, {}}, "f32[2@x, 3]")) == V{1, 0, 0, 0, 1, 0});
    CHECK(whole(make({"values", {}, 1, {1, 2, 3}}, "f32[3]{sum:x}")) == V{1, 2, 3});
    const V drawn = whole(make({"randn", {}, 1, {}})),
            doubled = whole(make({"randn", {2.0}, 1, {}}));
    for (std::size_t i = 0; i < 3; ++i) CHECK(doubled[i] == 2 * drawn[i]);
    // Another name draws others, the same name the same.
    CHECK(whole(make_input("v", "f32[3@x]", mesh)) != drawn);
    CHECK(whole(make_input("w", "f32[3]", mesh)) == drawn);
  });
}

TEST_CASE(
    "modules refuse names that say nothing; replaced parameters stay shared where they were") {
  struct Tied : Module {
    DTensor first, second, other;
    Tied() {
      first = ones({2, 2}).requires_grad_();
      second = first;
      other = zeros({3}).requires_grad_();
      add("first", first);
      add("second", second);
      add("other", other);
    }
    void again(const std::string& name) { add(name, other); }
    void part(const std::string& name, Module& module) { add(name, module); }
  };
  spmd(1, [](RankContext&) {
    Tied tied, outer;
    const auto refused = [](const std::string& name) {
      return fmt::format(
          "Value: a module: the name '{}' is empty, has a dot or is taken | give each "
          "parameter and part a name of its own, without a dot",
          name);
    };
    for (const std::string name : {"", "a.b", "first"}) {
      CHECK(refusal_of([&] { tied.again(name); }) == refused(name));
      CHECK(refusal_of([&] { tied.part(name, outer); }) == refused(name));
    }
    outer.part("inner", tied);
    CHECK(outer.named_parameters().size() == 4);  // its own two and those of its part, each once
    tied.replace({{"second", full({2, 2}, 7.0)}});
    CHECK(tied.first.is_same(tied.second));
    CHECK(tied.first.requires_grad());
    CHECK(read_doubles(tied.first.local()) == std::vector<double>(4, 7));
    check_reported({
        {[&] {
           tied.replace({{"thirst", ones({2, 2})}});
         },
         "Value: the module has no parameter 'thirst' | did you mean 'first'?"},
        {[&] {
           outer.replace({{"inner.other", ones({4})}});
         },
         "Value: the parameter 'inner.other' is f32[3], its new value f32[4] | give a value of the "
         "parameter's shape"},
    });
    backward(sum(tied.first * 3.0) + sum(tied.second));
    CHECK(read_doubles(grad_of(tied.first).local()) == std::vector<double>(4, 4));
    outer.zero_grad();
    CHECK_FALSE(grad_of(tied.first).defined());
  });
}

}  // namespace shardlab
