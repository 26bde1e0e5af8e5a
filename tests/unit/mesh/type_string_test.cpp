#include "mesh/type_string.h"

#include <doctest/doctest.h>

#include <random>

#include "mesh/dtensor.h"
#include "mesh/local_shape.h"

using namespace shardlab;

namespace {

struct Fixture {
  Arena arena;
  const MeshLayout* mesh = arena.layout({{2, 3, 2}, {"dp", "tp", "pp"}, {}});

  const DTensorSpec* read(std::string_view text) {
    const ParsedType type = parse_type(text, *mesh);
    return arena.spec(mesh, type.placements, type.order, contiguous_meta(type.shape, *type.dtype));
  }
};

struct Refused {
  TextSpan span;
  std::string summary, fix;
};

/// The refusal when `text` is parsed.
Refused refusal(std::string_view text) {
  Fixture fixture;
  try {
    parse_type(text, *fixture.mesh);
  } catch (const TypeStringError& error) {
    CHECK(error.kind() == ErrorKind::kValue);
    const std::string* fix = error.find("fix");
    return {error.span(), error.summary(), fix ? *fix : ""};
  }
  return {};
}

}  // namespace

TEST_CASE("type strings mean placements and orders") {
  struct Row {
    const char* text;
    const char* placements;
  };
  const Row rows[] = {
      {"f32[]", "RRR"},
      {"bool[0]", "RRR"},
      {"f32[8@dp, 64@tp]", "S(0)S(1)R"},
      {"f32[8, 64@(dp,tp), 16]", "S(1)[0]S(1)[1]R"},
      {"f32[64@(tp,dp)]", "S(0)[1]S(0)[0]R"},
      {"i64[5@(pp,tp,dp)]", "S(0)[2]S(0)[1]S(0)[0]"},
      {"f32[4]{sum:pp}", "RRP(sum)"},
      {"f32[4@dp]{sum:(tp,pp)}", "S(0)P(sum)P(sum)"},
      {"f32[4]{sum:dp, avg:(tp,pp)}", "P(sum)P(avg)P(avg)"},
      {"f32[4]{norm(2):tp}", "RNP(2)R"},
      {"f32[4]{norm(0.5):tp}", "RNP(0.5)R"},
      {"f32[4, 8]{mask(sum,16x8,0):tp}", "RMP(sum,16x8,0)R"},
      {"f32[7@dp~2]", "SS(0,2)RR"},
      {"f32[7@(dp~2,tp)]", "SS(0,2)S(0)R"},
  };
  Fixture fixture;
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const DTensorSpec* spec = fixture.read(row.text);
    CHECK(order_text(spec->placements(), spec->order()) == row.placements);
    CHECK(type_string(*spec) == row.text);
  }
}

TEST_CASE("spaces do not matter") {
  Fixture fixture;
  CHECK(fixture.read(" f32 [ 8 @ ( dp , tp ) , 16 ] { sum : pp } ") ==
        fixture.read("f32[8@(dp,tp), 16]{sum:pp}"));
}

TEST_CASE("placements alone have no dtype") {
  Fixture fixture;
  const ParsedType type = parse_type("[8@dp, 16]", *fixture.mesh);
  CHECK_FALSE(type.dtype.has_value());
  CHECK(type.shape == Dims{8, 16});
}

TEST_CASE("unnamed mesh dims are m0, m1, ...") {
  Arena arena;
  const MeshLayout* mesh = arena.layout({{2, 2}, {}, {}});
  CHECK(to_string(parse_type("f32[4@m1]", *mesh).placements) == "RS(0)");
}

TEST_CASE("a malformed type names its place and the fix") {
  struct Row {
    const char* text;
    std::size_t offset, size;
    const char* summary;
    const char* fix;
  };
  const Row rows[] = {
      {"f33[8]", 0, 3, "unknown dtype 'f33'", "did you mean 'f32'?"},
      {"f32[8@ddp]", 6, 3, "mesh {dp:2, tp:3, pp:2} has no dim 'ddp'", "did you mean 'dp'?"},
      {"f32[8@data]", 6, 4, "mesh {dp:2, tp:3, pp:2} has no dim 'data'", "known: dp, tp, pp"},
      {"f32[8@dp, 4@dp]", 12, 2, "mesh dim 'dp' is used twice",
       "a mesh dim does one thing to a tensor: cut one dim, or hold a pending reduction"},
      {"f32[8@dp]{sum:dp}", 14, 2, "mesh dim 'dp' is used twice",
       "a mesh dim does one thing to a tensor: cut one dim, or hold a pending reduction"},
      {"f32[8@]", 6, 1, "the name of a mesh dim is missing", "known: dp, tp, pp"},
      {"f32[8", 5, 0, "the text ends where ']' is missing after the sizes",
       "write it as dtype[sizes]{reductions}: f32[8@dp, 16]{sum:tp}"},
      {"f32", 3, 0, "the text ends where '[' is missing before the sizes",
       "write it as dtype[sizes]{reductions}: f32[8@dp, 16]{sum:tp}"},
      {"f32[8, ]", 7, 1, "a size is missing", "write one size per tensor dim: f32[8, 16]"},
      {"f32[n]", 4, 1, "'n' is not a size", "write a whole number"},
      {"f32[-1]", 4, 2, "size -1 is negative", "give a size of 0 or more"},
      {"f32[99999999999999999999]", 4, 20, "size 99999999999999999999 is too large",
       "give a size below 2^63"},
      {"f32[0, 4611686018427387904]", 7, 19, "the tensor has more elements than can be addressed",
       "use smaller sizes"},
      {"f32[8@dp~0]", 9, 1, "the split factor after '~' must be a whole number from 1 on",
       "write 8@dp~2, or leave the ~ out"},
      {"f32[8@(tp,dp~2)]", 6, 9, "strided cuts in another order than the mesh's",
       "with ~ the mesh dims of one tensor dim stand in the mesh's order"},
      {"f32[8]{sun:dp}", 7, 3, "'sun' is not a pending reduction", "did you mean 'sum'?"},
      {"f32[8]{sum dp}", 7, 6, "'sum dp' is not a pending reduction",
       "known: sum, avg, max, min, product, band, bor, bxor, norm(2), mask(sum,16x8,0)"},
      {"f32[8] 4", 7, 1, "there is text after the end of the type",
       "write it as dtype[sizes]{reductions}: f32[8@dp, 16]{sum:tp}"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const Refused refused = refusal(row.text);
    CHECK(refused.summary == row.summary);
    CHECK(refused.fix == row.fix);
    CHECK(refused.span.offset == row.offset);
    CHECK(refused.span.size == row.size);
  }
}

TEST_CASE("placements by mesh dim: those not named keep theirs") {
  Fixture fixture;
  const Placements base{Placement::shard(0), Placement::replicate(), Placement::partial()};
  const auto read = [&](std::string_view text) {
    return to_string(parse_placements_by_dim(text, *fixture.mesh, base));
  };
  CHECK(read("tp=S(1), dp=R") == "RS(1)P(sum)");
  CHECK(read("pp = P(max)") == "S(0)RP(max)");
  CHECK(read("") == "S(0)RP(sum)");
  CHECK(read("tp=SS(0,2)") == "S(0)SS(0,2)P(sum)");
  CHECK_THROWS_AS(read("tp=Q"), TypeStringError);
  CHECK_THROWS_AS(read("tp=R, tp=R"), TypeStringError);
  CHECK_THROWS_AS(read("tq=R"), TypeStringError);
  CHECK_THROWS_AS(read("tp"), TypeStringError);
}

TEST_CASE("K-19 a strided shard prints as the order it means where it owns the same elements") {
  Arena arena;
  const MeshLayout* mesh = arena.layout({{4, 2}, {"x", "y"}, {}});
  const Placements strided{Placement::strided_shard(0, 2), Placement::shard(0)};
  const auto text = [&](std::int64_t rows) {
    return type_string(*arena.spec(mesh, strided, contiguous_meta(Dims{rows}, DType::kF32)));
  };
  CHECK(text(16) == "f32[16@(y,x)]");
  CHECK(text(7) == "f32[7@(y,x)]");    // uneven, but every rank owns the same
  CHECK(text(9) == "f32[9@(x~2,y)]");  // the orders differ: see the layout facts
}

TEST_CASE("a plain tensor's type has no mesh") {
  CHECK(type_string(contiguous_meta(Dims{8, 16}, DType::kF32)) == "f32[8, 16]");
  CHECK(type_string(contiguous_meta(Dims{}, DType::kI64)) == "i64[]");
}

TEST_CASE("printing a spec and parsing it back gives the same spec (2,000 random specs)") {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const auto below = [&](std::int64_t limit) {
      return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(limit));
    };
    Arena arena;
    MeshLayout::Init init;
    const std::int64_t mesh_ndim = 1 + below(4);
    for (std::int64_t i = 0; i < mesh_ndim; ++i) init.shape.push_back(1 + below(4));
    if (below(2) == 0) {
      const char* names[] = {"dp", "tp", "pp", "ep_2"};
      init.names.assign(names, names + mesh_ndim);
    }
    const MeshLayout* mesh = arena.layout(init);
    const std::int64_t ndim = below(4);
    Dims shape;
    for (std::int64_t i = 0; i < ndim; ++i) shape.push_back(below(12));
    const Placement partial = below(2) == 0
                                  ? Placement::partial(static_cast<ReduceOp>(below(kReduceOpCount)))
                                  : Placement::norm_partial(0.5 * static_cast<double>(below(5)));
    Placements placements;
    for (std::int64_t i = 0; i < mesh_ndim; ++i) {
      const std::int64_t choice = below(4);
      if (choice < 2 && ndim > 0) {
        placements.push_back(Placement::shard(below(ndim)));
      } else {
        placements.push_back(choice == 2 ? partial : Placement::replicate());
      }
    }
    ShardOrder order = default_order(placements);
    for (std::size_t a = 0; a < placements.size(); ++a) {
      const auto b = static_cast<std::size_t>(below(mesh_ndim));
      if (placements[a].is_shard() && placements[b] == placements[a]) std::swap(order[a], order[b]);
    }
    const DTensorSpec* spec =
        arena.spec(mesh, placements, order, contiguous_meta(shape, DType::kBF16));
    const std::string text = type_string(*spec);
    CAPTURE(text);
    const ParsedType type = parse_type(text, *mesh);
    CHECK(arena.spec(mesh, type.placements, type.order, contiguous_meta(type.shape, *type.dtype)) ==
          spec);
  }
}

TEST_CASE("strided types come back as a spec that owns the same elements (500 random specs)") {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const auto below = [&](std::int64_t limit) {
      return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(limit));
    };
    Arena arena;
    const MeshLayout* mesh = arena.layout({{1 + below(4), 1 + below(4), 2}, {}, {}});
    Placements placements;
    for (int i = 0; i < 3; ++i) {
      // A factor of 1 reads as the plain shard that it is.
      placements.push_back(below(3) == 0 ? Placement::shard(0)
                                         : Placement::strided_shard(0, 2 + below(5)));
    }
    const TensorMeta meta = contiguous_meta(Dims{below(40)}, DType::kF32);
    const DTensorSpec* spec = arena.spec(mesh, placements, meta);
    const std::string text = type_string(*spec);
    CAPTURE(text);
    const ParsedType type = parse_type(text, *mesh);
    const DTensorSpec* back = arena.spec(mesh, type.placements, type.order, meta);
    CHECK((back == spec || text.find('~') == std::string::npos));
    for (std::int64_t rank = 0; rank < mesh->size(); ++rank) {
      const Coordinate at = mesh->coordinate_at_index(rank);
      CHECK(local_view(*back, at).dims[0].runs == local_view(*spec, at).dims[0].runs);
    }
  }
}
