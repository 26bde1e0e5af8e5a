#include <doctest/doctest.h>

#include <cmath>

#include "tensor/host.h"
#include "tests/unit/redistribute/on_mesh.h"

namespace shardlab {
namespace {

using test::OnMesh;
using test::tensor;
using Values = std::vector<std::vector<double>>;

TEST_CASE("R-50 K-7 X-36 all-gather of uneven and empty pieces") {
  OnMesh mesh({4});
  const std::vector<Tensor> pieces = {tensor({2}, {0, 1}), tensor({2}, {2, 3}), tensor({1}, {4}),
                                      tensor({0}, {})};
  const std::vector<double> whole = {0, 1, 2, 3, 4};
  CHECK(mesh.moved(pieces, mesh.spec("S(0)", {5}), mesh.spec("R", {5})) ==
        Values{whole, whole, whole, whole});
}

TEST_CASE("R-53 K-6 a chunk is an independent contiguous copy") {
  OnMesh mesh({2});
  mesh.run([&](RankContext& context) {
    const Tensor whole = tensor({2, 3}, {0, 1, 2, 3, 4, 5});
    const Tensor piece =
        redistribute_local(whole, mesh.spec("R", {2, 3}), mesh.spec("S(1)", {2, 3}));
    CHECK(piece.contiguous());
    CHECK(piece.storage() != whole.storage());
    CHECK(read_doubles(piece) ==
          (context.rank == 0 ? std::vector<double>{0, 1, 3, 4} : std::vector<double>{2, 5}));
  });
}

TEST_CASE("R-54 K-10 all-to-all between uneven dims") {
  OnMesh mesh({2});  // 3 rows as 2 + 1, 3 columns as 2 + 1
  const std::vector<Tensor> rows = {tensor({2, 3}, {0, 1, 2, 3, 4, 5}), tensor({1, 3}, {6, 7, 8})};
  CHECK(mesh.moved(rows, mesh.spec("S(0)", {3, 3}), mesh.spec("S(1)", {3, 3})) ==
        Values{{0, 1, 3, 4, 6, 7}, {2, 5, 8}});
}

TEST_CASE("R-49 R-52 K-14 K-15 every reduction, whole and scattered") {
  struct Row {
    const char* op;
    std::vector<double> value;
  };
  const Row rows[] = {{"P(sum)", {9, -5, 12}},
                      {"P(avg)", {3, -5.0 / 3, 4}},
                      {"P(max)", {6, 2, 7}},
                      {"P(min)", {1, -4, 1}},
                      {"P(product)", {12, 24, 28}}};
  OnMesh mesh({3});
  const std::vector<Tensor> terms = {tensor({3}, {1, 2, 4}), tensor({3}, {2, -4, 1}),
                                     tensor({3}, {6, -3, 7})};
  for (const Row& row : rows) {
    CAPTURE(row.op);
    const auto whole = mesh.moved(terms, mesh.spec(row.op, {3}), mesh.spec("R", {3}));
    const auto cut = mesh.moved(terms, mesh.spec(row.op, {3}), mesh.spec("S(0)", {3}));
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(whole[i][i] == doctest::Approx(row.value[i]));
      CHECK(cut[i] == std::vector<double>{whole[0][i]});
    }
  }
}

TEST_CASE("K-14 bit reductions of integers") {
  OnMesh mesh({2});
  const std::vector<Tensor> terms = {tensor({1}, {12}, DType::kI32),
                                     tensor({1}, {10}, DType::kI32)};
  const auto value = [&](const char* op) {
    return mesh.moved(terms, mesh.spec(op, {1}, DType::kI32),
                      mesh.spec("R", {1}, DType::kI32))[0][0];
  };
  CHECK(value("P(band)") == 8);
  CHECK(value("P(bor)") == 14);
  CHECK(value("P(bxor)") == 6);
}

TEST_CASE("M-4 norm partials combine by powers and roots, infinite norms by max and min") {
  OnMesh mesh({2});
  const std::vector<Tensor> norms = {tensor({2}, {3, 1}), tensor({2}, {4, 2})};
  const auto value = [&](const char* norm, const char* target) {
    return mesh.moved(norms, mesh.spec(norm, {2}), mesh.spec(target, {2}));
  };
  CHECK(value("NP(2)", "R")[1][0] == doctest::Approx(5));
  CHECK(value("NP(1)", "R")[0][0] == 7);
  CHECK(value("NP(0)", "R")[0][0] == 7);
  CHECK(value("NP(3)", "R")[0][1] == doctest::Approx(std::cbrt(9)));
  CHECK(value("NP(inf)", "R")[0][0] == 4);
  CHECK(value("NP(-inf)", "R")[0][0] == 3);
  CHECK(value("NP(2)", "S(0)")[1] == std::vector<double>{std::sqrt(5.0F)});
}

TEST_CASE("X-76 norms of small and of large f16 numbers are those of one device") {
  OnMesh mesh({2});
  constexpr DType kHalf = DType::kF16;
  const std::vector<Tensor> norms = {tensor({2}, {0x1p-14, 36032}, kHalf),
                                     tensor({2}, {0x1p-14, 36032}, kHalf)};
  // Squares: 2^-28 is 0 in f16, and 1.3e9 infinite.
  const double small = 0x1.6ap-14, large = 50944;  // the f16 next to sqrt(2) times either
  for (const char* target : {"R", "S(0)"}) {
    const auto held =
        mesh.moved(norms, mesh.spec("NP(2)", {2}, kHalf), mesh.spec(target, {2}, kHalf));
    CHECK(held[0].front() == small);
    CHECK(held[1].back() == large);
  }
}

TEST_CASE("K-18 X-15 a mask partial drops masked rows, also on a mesh dim of size 1") {
  for (const std::int64_t ranks : {2, 1}) {
    OnMesh mesh({ranks});
    const DTensorSpec* source = mesh.spec("MP(sum,8x2,0)", {2, 2});
    mesh.run([&](RankContext& context) {
      TensorExtras extras;  // rank 0 knows the first lookup, rank 1 the second
      const bool first = context.rank == 0;
      extras.mask = tensor({2}, {first ? 0.0 : 1.0, first ? 1.0 : 0.0}, DType::kBool);
      DTensor looked_up(tensor({2, 2}, {1, 2, 3, 4}), source);
      looked_up.impl()->extras = std::make_shared<TensorExtras>(extras);
      const DTensor whole = redistribute_tensor(looked_up, mesh.spec("R", {2, 2}));
      const std::vector<double> one_rank = {1, 2, 0, 0}, both = {1, 2, 3, 4};
      CHECK(read_doubles(whole.local()) == (ranks == 2 ? both : one_rank));
      CHECK_FALSE(whole.impl()->extras);
      CHECK(read_doubles(looked_up.local()) == both);  // the input keeps its values
    });
  }
}

TEST_CASE("K-18 the mask is applied before another mesh dim moves the rows") {
  OnMesh mesh({2, 2});
  const DTensorSpec* source = mesh.spec("MP(sum,8x2,0) S(0)", {2, 1});
  std::vector<std::vector<double>> held(4);
  mesh.run([&](RankContext& context) {
    TensorExtras extras;  // rank (i, j) holds lookup j, known to table rank i == j
    extras.mask = tensor({1}, {context.rank == 0 || context.rank == 3 ? 0.0 : 1.0}, DType::kBool);
    const Tensor local = tensor({1, 1}, {static_cast<double>(10 + context.rank)});
    held[static_cast<std::size_t>(context.rank)] =
        read_doubles(redistribute_local(local, source, mesh.spec("R R", {2, 1}), {}, &extras));
  });
  for (const auto& values : held) CHECK(values == std::vector<double>{10, 13});
}

TEST_CASE("X-32 a shard becomes a term of a sum: its own slice, zeros elsewhere") {
  OnMesh mesh({2});
  const std::vector<Tensor> pieces = {tensor({2}, {1, 2}), tensor({1}, {3})};
  CHECK(mesh.moved(pieces, mesh.spec("S(0)", {3}), mesh.spec("P", {3})) ==
        Values{{1, 2, 0}, {0, 0, 3}});
}

TEST_CASE("K-16 X-39 terms of a replica reduce back to it") {
  OnMesh mesh({2});
  const std::vector<Tensor> wholes = {tensor({2}, {6, 8}), tensor({2}, {6, 8})};
  const auto terms = [&](const char* op) {
    return mesh.moved(wholes, mesh.spec("R", {2}), mesh.spec(op, {2}));
  };
  CHECK(terms("P(sum)") == Values{{3, 4}, {3, 4}});
  for (const char* op : {"P(avg)", "P(max)", "P(min)"}) {
    CAPTURE(op);
    CHECK(terms(op) == Values{{6, 8}, {6, 8}});
  }
  CHECK(terms("NP(1)") == Values{{3, 4}, {3, 4}});
  CHECK(terms("NP(inf)") == Values{{6, 8}, {6, 8}});
}

TEST_CASE("K-16 terms of a norm have the value as their norm") {
  OnMesh mesh({4});
  const std::vector<Tensor> wholes(4, tensor({2}, {6, -2}));
  const Values terms = mesh.moved(wholes, mesh.spec("R", {2}), mesh.spec("NP(2)", {2}));
  CHECK(terms == Values{{3, -1}, {3, -1}, {3, -1}, {3, -1}});
}

ErrorKind kind_of(OnMesh& mesh, const Tensor& x, const DTensorSpec* from, const DTensorSpec* to) {
  try {
    mesh.moved({x, x}, from, to);
  } catch (const Error& error) {
    return error.kind();
  }
  FAIL("expected an error");
  return ErrorKind::kInternal;
}

TEST_CASE("X-2 X-10 X-32 K-16 pairs without a meaning are refused") {
  OnMesh mesh({2});
  const Tensor x = tensor({2}, {1, 2});
  const auto kind = [&](const char* from, const char* to) {
    return kind_of(mesh, x, mesh.spec(from, {2}), mesh.spec(to, {2}));
  };
  CHECK(kind("P(sum)", "P(max)") == ErrorKind::kRuntime);
  CHECK(kind("P(sum)", "P(avg)") == ErrorKind::kRuntime);
  CHECK(kind("S(0)", "P(max)") == ErrorKind::kRuntime);
  CHECK(kind("R", "NP(0)") == ErrorKind::kRuntime);
  CHECK(kind("S(0)", "NP(2)") == ErrorKind::kRuntime);
  CHECK(kind("R", "P(product)") == ErrorKind::kValue);
  const Tensor integers = tensor({2}, {1, 2}, DType::kI64);
  CHECK(kind_of(mesh, integers, mesh.spec("R", {2}, DType::kI64),
                mesh.spec("P", {2}, DType::kI64)) == ErrorKind::kValue);
}

TEST_CASE("R-46 B-11 ranks outside the mesh keep their tensor") {
  OnMesh mesh({2}, {2, 1}, 4);
  mesh.run([&](RankContext& context) {
    const bool outside = context.rank == 0 || context.rank == 3;
    const Tensor x = outside ? tensor({0}, {}) : tensor({1}, {static_cast<double>(context.rank)});
    const Tensor got = redistribute_local(x, mesh.spec("S(0)", {2}), mesh.spec("R", {2}));
    if (outside) {
      CHECK(got.storage() == x.storage());
    } else {
      CHECK(read_doubles(got) == std::vector<double>{2, 1});  // X-43: the array's order
    }
  });
}

TEST_CASE("W-11 R-47 R-48 nothing moves: the same storage comes back") {
  OnMesh mesh({1, 4});
  mesh.run([&](RankContext&) {
    const Tensor x = tensor({8, 2}, std::vector<double>(16, 1));
    const auto same = [&](const char* from, const char* to) {
      const Tensor got = redistribute_local(x, mesh.spec(from, {8, 8}), mesh.spec(to, {8, 8}));
      return got.storage() == x.storage();
    };
    CHECK(same("P R", "R R"));
    CHECK(same("S(0) S(1)", "R S(1)"));
    CHECK(same("P(max) R", "P(min) R"));
    CHECK(same("S(0) S(1)", "S(0) S(1)"));
  });
}

TEST_CASE("R-57 R-58 backwards, replicas and shards do not become terms") {
  OnMesh mesh({2});
  const std::vector<Tensor> pieces = {tensor({2}, {1, 2}), tensor({1}, {3})};
  const RedistributeOptions back = {.direction = Direction::kBackward};
  const std::vector<double> whole = {1, 2, 3};
  CHECK(mesh.moved(pieces, mesh.spec("S(0)", {3}), mesh.spec("P", {3}), back) ==
        Values{whole, whole});
  const std::vector<Tensor> wholes = {tensor({3}, whole), tensor({3}, whole)};
  CHECK(mesh.moved(wholes, mesh.spec("R", {3}), mesh.spec("P", {3}), back) == Values{whole, whole});
}

TEST_CASE("R-74 X-1 a gradient that stays partial is labelled so") {
  OnMesh mesh({2, 2});
  const auto target = [&](const char* gradient, const char* source) {
    return to_string(
        gradient_target(mesh.spec(gradient, {4}), mesh.spec(source, {4}))->placements());
  };
  CHECK(target("P P", "P P") == "P(sum)P(sum)");
  CHECK(target("R P", "P P") == "RP(sum)");
  CHECK(target("S(0) R", "P R") == "RR");
  CHECK(target("P R", "S(0) P") == "S(0)R");
  // Real ranks: the terms that stay are terms still, so reducing them gives the gradient.
  const std::vector<Tensor> terms(4, tensor({1}, {1}));
  const DTensorSpec* partial = mesh.spec("P R", {1});
  const DTensorSpec* kept = gradient_target(partial, partial);
  CHECK(kept == partial);
  CHECK(mesh.moved(terms, kept, mesh.spec("R R", {1})) == Values{{2}, {2}, {2}, {2}});
}

TEST_CASE("X-6 strided shards move through the whole") {
  OnMesh mesh({2});  // SS(0,2) on 6 rows: chunks 0 1 2 | 3 4 5, each cut again: 0 1 3 4 and 2 5
  const std::vector<Tensor> pieces = {tensor({4}, {0, 1, 3, 4}), tensor({2}, {2, 5})};
  const std::vector<double> whole = {0, 1, 2, 3, 4, 5};
  CHECK(mesh.moved(pieces, mesh.spec("SS(0,2)", {6}), mesh.spec("R", {6})) == Values{whole, whole});
  CHECK(mesh.moved(pieces, mesh.spec("SS(0,2)", {6}), mesh.spec("S(0)", {6})) ==
        Values{{0, 1, 2}, {3, 4, 5}});
  const std::vector<Tensor> wholes = {tensor({6}, whole), tensor({6}, whole)};
  CHECK(mesh.moved(wholes, mesh.spec("R", {6}), mesh.spec("SS(0,2)", {6})) ==
        Values{{0, 1, 3, 4}, {2, 5}});
}

TEST_CASE("X-4 another order with equal placements runs the plan") {
  OnMesh mesh({2, 2});  // rows 0..3; default order: rank (i, j) holds row 2 i + j
  std::vector<Tensor> rows;
  for (int rank = 0; rank < 4; ++rank) rows.push_back(tensor({1}, {static_cast<double>(rank)}));
  CHECK(mesh.moved(rows, mesh.spec("S(0) S(0)", {4}), mesh.spec("S(0) S(0)", {1, 0}, {4})) ==
        Values{{0}, {2}, {1}, {3}});
}

class Listener : public Observer {
 public:
  void op_begins(const OpSchema&, const OutputSharding&) override {}
  void op_ends() override {}
  void redistribution(const RedistributionRecord& record) override {
    log += fmt::format("{} for argument {}: ", record.plan->text(), record.argument);
  }
  void collective(const CollectiveRecord& record) override {
    log += fmt::format("{} over {}; ", to_string(record.kind), record.group.name);
  }
  std::string log;
};

TEST_CASE("R-62 X-9 one record for one execution, in front of its collectives") {
  OnMesh mesh({2, 2});
  mesh.run([&](RankContext& context) {
    Listener listener;
    context.observer = &listener;
    context.mode |= kModeObserve;
    const DTensorSpec* source = mesh.spec("S(0) P", {4});
    const Tensor x = tensor({2}, {1, 2});
    redistribute_local(x, source, mesh.spec("R S(0)", {4}), {.argument = 1});
    redistribute_local(x, source, source, {.argument = 1});
    CHECK(listener.log ==
          "S(0)P(sum)->S(0)R->RR->RS(0) for argument 1: all_reduce over m1; all_gather over m0; ");
  });
}

TEST_CASE("R-60 K-20 asynchronous results complete on first use") {
  OnMesh mesh({2});
  const std::vector<Tensor> pieces = {tensor({2}, {1, 2}), tensor({1}, {3})};
  const std::vector<double> whole = {1, 2, 3};
  CHECK(mesh.moved(pieces, mesh.spec("S(0)", {3}), mesh.spec("R", {3}), {.issue = Issue::kAsync}) ==
        Values{whole, whole});
}

TEST_CASE("R-66 R-69 handles: a new one for a new spec, the same one for its own") {
  OnMesh mesh({2});
  mesh.run([&](RankContext& context) {
    const DTensorSpec* source = mesh.spec("S(0)", {2});
    const DTensor x(tensor({1}, {static_cast<double>(context.rank)}), source);
    CHECK(redistribute_tensor(x, source).is_same(x));
    const DTensor whole = redistribute_tensor(x, mesh.spec("R", {2}));
    CHECK(whole.spec() == mesh.spec("R", {2}));
    CHECK(read_doubles(whole.local()) == std::vector<double>{0, 1});
    CHECK(x.spec() == source);
  });
}

TEST_CASE("planner bytes: whole pieces change ranks, also in a mesh of shuffled ranks") {
  OnMesh mesh({2, 3}, {5, 1, 6, 2, 0, 3}, 7);  // rank 4 is outside
  std::vector<Tensor> inputs(7, tensor({0}, {}));
  for (const std::int64_t rank : {5, 1, 6}) inputs[rank] = tensor({3}, {0, 1, 2});
  for (const std::int64_t rank : {2, 0, 3}) inputs[rank] = tensor({3}, {3, 4, 5});
  const auto moved = mesh.moved(inputs, mesh.spec("S(0) R", {6}), mesh.spec("R S(0)", {6}),
                                {.planner = PlannerKind::kBytes});
  CHECK(moved == Values{{2, 3}, {2, 3}, {0, 1}, {4, 5}, {}, {0, 1}, {4, 5}});
}

TEST_CASE("merged steps on flattened dims, uneven pieces in nested order") {
  OnMesh mesh({2, 2});
  const std::size_t both[] = {1, 0};
  const DTensorSpec* whole = mesh.spec("R R", {5});
  const DTensorSpec* cut = mesh.spec("S(0) S(0)", {5});  // 2 1 | 1 1
  const DTensorSpec* terms = mesh.spec("P(sum) P(avg)", {4});
  mesh.run([&](RankContext& context) {
    const DeviceMesh& flat = context.meshes->flatten(mesh.layout(), both);
    CHECK(flat.flattened() == FlattenedDims{0b11});
    const std::vector<std::vector<double>> pieces = {{0, 1}, {2}, {3}, {4}};
    const auto& own = pieces[static_cast<std::size_t>(context.rank)];
    const Tensor piece = tensor({static_cast<std::int64_t>(own.size())}, own);
    CHECK(read_doubles(redistribute_local(piece, cut, whole)) ==
          std::vector<double>{0, 1, 2, 3, 4});
    const auto r = static_cast<double>(context.rank);
    const Tensor term = tensor({4}, {r, 2, 4, 2 * r});  // sums 6, 8, 16, 12, halved by the avg
    CHECK(read_doubles(redistribute_local(term, terms, mesh.spec("R R", {4}))) ==
          std::vector<double>{3, 4, 8, 6});
    const std::vector<double> value = {3, 4, 8, 6};
    CHECK(read_doubles(redistribute_local(term, terms, mesh.spec("S(0) S(0)", {4}))) ==
          std::vector<double>{value[static_cast<std::size_t>(context.rank)]});
  });
}

}  // namespace
}  // namespace shardlab
