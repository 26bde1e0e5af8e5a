// Values dealt out as terms: the terms of all ranks, reduced by a loop in the test, give the value
// back for every reduction and dtype; and collectives of programs against loops.
#include "api/terms.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <complex>

#include "api/shardlab.h"
#include "mesh/local_shape.h"
#include "sim/world/spmd.h"
#include "tensor/cpu_device.h"
#include "tensor/host.h"
#include "tests/support/combined.h"

using namespace shardlab;

namespace {

using Terms64 = std::vector<std::int64_t>;

double whole_of(const Placement& placement, const std::vector<double>& terms) {
  if (placement.kind == PlacementKind::kNormPartial) {
    double sum = 0;
    for (const double term : terms) sum += std::pow(std::fabs(term), placement.norm);
    return std::pow(sum, 1 / placement.norm);
  }
  const double value = combined(placement.op, terms);
  return placement.op == ReduceOp::kAvg ? value / static_cast<double>(terms.size()) : value;
}

/// The terms of every rank of one mesh dim, for the whole of `value`.
std::vector<Tensor> terms_of(const Tensor& value, const Placement& placement, std::int64_t ranks) {
  Arena arena;
  const MeshLayout* layout = arena.layout({{ranks}, {}, {}});
  const auto* spec = arena.spec(layout, {placement}, value.meta());
  std::vector<Tensor> terms;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    terms.push_back(own_terms(value, *spec, {rank}));
  }
  return terms;
}

std::string refused_terms(const Tensor& value, const Placement& placement) {
  try {
    terms_of(value, placement, 2);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kValue);
    return fmt::format("{} | {}", error.summary(), *error.find("fix"));
  }
  return "not refused";
}

}  // namespace

TEST_CASE("terms of floats reduce to the value, for every reduction and number of ranks") {
  const auto device = make_cpu_device({});
  const std::vector<double> values{1.5, -2, 0, 4, -0.25, 8, 16};
  const Placement placements[] = {
      Placement::partial(ReduceOp::kSum), Placement::partial(ReduceOp::kAvg),
      Placement::partial(ReduceOp::kMax), Placement::partial(ReduceOp::kMin),
      Placement::partial(ReduceOp::kProduct)};
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16}) {
    const Tensor whole = empty(*device, Dims{7}, dtype);
    write_doubles(whole, values);
    for (const Placement& placement : placements) {
      for (const std::int64_t ranks : {1, 2, 3, 8}) {
        CAPTURE(to_string(placement));
        CAPTURE(ranks);
        const std::vector<Tensor> terms = terms_of(whole, placement, ranks);
        for (std::size_t i = 0; i < values.size(); ++i) {
          std::vector<double> of_ranks;
          for (const Tensor& one : terms) of_ranks.push_back(read_doubles(one)[i]);
          CHECK(whole_of(placement, of_ranks) == values[i]);
        }
      }
    }
  }
}

TEST_CASE("terms of complex numbers reduce to the value: products of them, and sums part by part") {
  const auto device = make_cpu_device({});
  const std::vector<double> parts{1.5, -2, 0, 4, -0.25, 8};
  const Tensor whole = empty(*device, Dims{3}, DType::kC128);
  write_doubles(whole, parts);
  for (const std::int64_t ranks : {2, 3, 5}) {
    const auto product_terms = terms_of(whole, Placement::partial(ReduceOp::kProduct), ranks);
    const auto sum_terms = terms_of(whole, Placement::partial(ReduceOp::kSum), ranks);
    for (std::size_t i = 0; i < 3; ++i) {
      std::complex<double> product = 1, sum = 0;
      const auto number = [&](const Tensor& of) {
        const std::vector<double> all = read_doubles(of);
        return std::complex<double>(all[2 * i], all[2 * i + 1]);
      };
      for (const Tensor& term : product_terms) product *= number(term);
      for (const Tensor& term : sum_terms) sum += number(term);
      CHECK(product == number(whole));
      CHECK(sum == number(whole));
    }
  }
}

TEST_CASE("M-4 terms of a norm have the value as their norm") {
  const auto device = make_cpu_device({});
  const Tensor whole = empty(*device, Dims{5}, DType::kF64);
  write_doubles(whole, std::vector<double>{0, 1, 2.5, 3, 100});
  for (const double norm : {1.0, 2.0, 3.0}) {
    const Placement placement = Placement::norm_partial(norm);
    const std::vector<Tensor> terms = terms_of(whole, placement, 3);
    for (std::size_t i = 0; i < 5; ++i) {
      std::vector<double> of_ranks;
      for (const Tensor& one : terms) of_ranks.push_back(read_doubles(one)[i]);
      CHECK(whole_of(placement, of_ranks) ==
            doctest::Approx(read_doubles(whole)[i]).epsilon(1e-14));
    }
  }
}

TEST_CASE("terms of integers and bools reduce to the value exactly, bit operations too") {
  const auto device = make_cpu_device({});
  const ReduceOp ops[] = {ReduceOp::kSum,    ReduceOp::kMax,   ReduceOp::kMin,   ReduceOp::kProduct,
                          ReduceOp::kBitAnd, ReduceOp::kBitOr, ReduceOp::kBitXor};
  for (const DType dtype : {DType::kI64, DType::kI32, DType::kI8, DType::kBool}) {
    const bool truth = dtype == DType::kBool;
    const Terms64 values =
        truth ? Terms64{0, 1, 1, 0, 1, 0, 0} : Terms64{0, 1, -1, 77, -100, 5, 42};
    const Tensor whole = empty(*device, Dims{7}, dtype);
    write_integers(whole, values);
    for (const ReduceOp op : ops) {
      for (const std::int64_t ranks : {2, 3, 5}) {
        CAPTURE(to_string(dtype));
        CAPTURE(to_string(op));
        CAPTURE(ranks);
        const std::vector<Tensor> terms = terms_of(whole, Placement::partial(op), ranks);
        bool alike = true;
        for (std::size_t i = 0; i < values.size(); ++i) {
          Terms64 of_ranks;
          for (const Tensor& one : terms) of_ranks.push_back(read_integers(one)[i]);
          const std::int64_t value = combined(op, of_ranks);
          CHECK((truth ? (value != 0 ? 1 : 0) : value) == values[i]);
          for (const std::int64_t term : of_ranks) alike &= term == of_ranks[0];
        }
        CHECK_FALSE(alike);  // a program that forgets the reduction is seen to be wrong
      }
    }
  }
}

TEST_CASE("a piece has the terms of its own elements, whatever its cuts") {
  // The owner of an element follows from its place in the whole: pieces of 7 rows over 3 ranks have
  // the terms that the whole has.
  const auto device = make_cpu_device({});
  const Tensor whole = empty(*device, Dims{7, 2}, DType::kF64);
  std::vector<double> values(14);
  for (std::size_t i = 0; i < 14; ++i) values[i] = static_cast<double>(i) + 0.5;
  write_doubles(whole, values);
  Arena arena;
  const MeshLayout* layout = arena.layout({{3, 2}, {}, {}});
  const auto* cut = arena.spec(layout, {Placement::shard(0), Placement::partial()}, whole.meta());
  const std::vector<Tensor> terms = terms_of(whole, Placement::partial(), 2);
  for (std::int64_t index = 0; index < 6; ++index) {
    const Coordinate at = layout->coordinate_at_index(index);
    const Chunk rows = local_chunk(*cut, at, 0);
    const Tensor mine = own_terms(whole.narrow(0, rows.offset, rows.size), *cut, at);
    const Tensor& all = terms[static_cast<std::size_t>(at[1])];
    CHECK(read_doubles(mine) == read_doubles(all.narrow(0, rows.offset, rows.size)));
  }
}

TEST_CASE("reductions that a dtype does not have are refused with those that it has") {
  const auto device = make_cpu_device({});
  const Tensor floats = empty(*device, Dims{2}, DType::kF32);
  const Tensor integers = empty(*device, Dims{2}, DType::kI32);
  const Tensor truths = empty(*device, Dims{2}, DType::kBool);
  for (const Tensor& one : {floats, integers, truths}) {
    if (is_integral(one.dtype())) {
      write_integers(one, Terms64{1, 0});
    } else {
      write_doubles(one, std::vector<double>{1, 0});
    }
  }
  for (const ReduceOp op : {ReduceOp::kBitAnd, ReduceOp::kBitOr, ReduceOp::kBitXor}) {
    CHECK(refused_terms(floats, Placement::partial(op)) ==
          fmt::format("P({}) of a floating tensor does not exist; it must be of integers | use "
                      "sum, avg, max, min or product",
                      to_string(op)));
  }
  CHECK(
      refused_terms(integers, Placement::partial(ReduceOp::kAvg)) ==
      "P(avg) of a tensor of integers does not exist; it must be of floats | use sum, max, min or "
      "product, or make the tensor of floats");
  CHECK(refused_terms(truths, Placement::partial(ReduceOp::kAvg)) ==
        "P(avg) of a tensor of bools does not exist; it must be of floats | use sum, max, min or "
        "product, or make the tensor of floats");
  const std::vector<std::int64_t> table{8, 2};
  const Placement mask = Placement::mask_partial(ReduceOp::kSum, intern_mask_shape(table), 0);
  CHECK(refused_terms(floats, mask)
            .ends_with("cannot be an input, because only a lookup makes its mask | give the input "
                       "as R, and look it "
                       "up in a table that is sharded by rows"));
}

TEST_CASE("K-1 strided and nested cuts of a value hold the elements that its view lists") {
  spmd(4, [](RankContext& rank) {
    const MeshLayout* mesh = init_mesh({{"a", 2}, {"b", 2}});
    std::vector<double> values(22);
    for (std::size_t i = 0; i < 22; ++i) values[i] = static_cast<double>(i);
    const DTensor whole = tensor(values, {11, 2});
    for (const Placements& placements :
         {Placements{Placement::strided_shard(0, 2), Placement::shard(0)},
          Placements{Placement::strided_shard(0, 3), Placement::shard(1)},
          Placements{Placement::shard(0), Placement::strided_shard(0, 2)}}) {
      CAPTURE(to_string(placements));
      const DTensorSpec* spec = spec_of(placements, mesh, whole.meta());
      const DTensor placed = distribute(whole, spec);
      const LocalView view = local_view(*spec, mesh->coordinate_at_index(rank.rank));
      std::vector<double> expected;
      for (std::int64_t row = 0; row < 11; ++row) {
        for (std::int64_t column = 0; column < 2; ++column) {
          if (view.holds({row, column}))
            expected.push_back(values[static_cast<std::size_t>(2 * row + column)]);
        }
      }
      // Rows of a strided piece ascend, as those of the whole.
      CHECK(read_doubles(placed.local()) == expected);
    }
  });
}

TEST_CASE("collectives of a program refuse what they cannot do before other ranks hear of it") {
  spmd(2, [](RankContext& rank) {
    const MeshLayout* mesh = init_mesh({{"x", 2}});
    const DTensor placed = distribute_tensor(tensor({1, 2, 3}, {3}), mesh, "x=S(0)");
    const DTensor leaf = ones({2});
    require_grad(leaf);
    ProcessGroup& world = *rank.world;
    struct Row {
      std::function<void()> call;
      const char *summary, *fix;
    };
    const Row rows[] = {
        {[&] { all_reduce(placed, ReduceOp::kSum, world); }, "all_reduce: f32[3@x] is distributed",
         "collectives take local tensors: x.to_local()"},
        {[&] { all_reduce(leaf, ReduceOp::kMax, world); },
         "all_reduce of max: carries no gradients", "detach() the tensor first, or take a sum"},
        {[&] { broadcast(ones({2}), 2, world); }, "broadcast: src is 2; the group has 2 ranks",
         "give its place in the group, from 0 to 1"},
        {[&] { broadcast(ones({2}), -1, world); }, "broadcast: src is -1; the group has 2 ranks",
         "give its place in the group, from 0 to 1"},
    };
    for (const Row& row : rows) {
      try {
        row.call();
        FAIL_CHECK("not refused: ", row.summary);
      } catch (const Error& error) {
        CHECK(error.summary() == row.summary);
        CHECK(*error.find("fix") == row.fix);
      }
    }
    CHECK_THROWS_AS(all_gather(ones({2}), 1, world), Error);
    CHECK_THROWS_AS(reduce_scatter(ones({2}), -2, ReduceOp::kSum, world), Error);
  });
}

TEST_CASE("collectives of a program take dims from the end, and give what a loop gives") {
  spmd(2, [](RankContext& rank) {
    const double r = static_cast<double>(rank.rank);
    const DTensor x = tensor({1 + 10 * r, 2 + 10 * r, 3 + 10 * r, 4 + 10 * r}, {2, 2});
    ProcessGroup& world = *rank.world;
    const auto values = [](const DTensor& y) { return read_doubles(y.local()); };
    using V = std::vector<double>;
    CHECK(values(all_gather(x, 0, world)) == V{1, 2, 3, 4, 11, 12, 13, 14});
    CHECK(values(all_gather(x, -1, world)) == V{1, 2, 11, 12, 3, 4, 13, 14});
    CHECK(values(reduce_scatter(x, 0, ReduceOp::kSum, world)) ==
          (rank.rank == 0 ? V{12, 14} : V{16, 18}));
    CHECK(values(reduce_scatter(x, -1, ReduceOp::kMax, world)) ==
          (rank.rank == 0 ? V{11, 13} : V{12, 14}));
    CHECK(values(all_to_all(x, 0, -1, world)) ==
          (rank.rank == 0 ? V{1, 2, 11, 12} : V{3, 4, 13, 14}));
    CHECK(values(all_to_all(x, -1, 0, world)) ==
          (rank.rank == 0 ? V{1, 3, 11, 13} : V{2, 4, 12, 14}));
    CHECK(values(broadcast(x, 1, world)) == V{11, 12, 13, 14});
    barrier(world);
  });
}

TEST_CASE("B-23 gradients of uneven pieces and of gradients pass collectives") {
  spmd(2, [](RankContext& rank) {
    const double r = static_cast<double>(rank.rank);
    ProcessGroup& world = *rank.world;
    const auto values = [](const DTensor& y) { return read_doubles(y.local()); };
    using V = std::vector<double>;
    // y = x0^2 + x1^2 on both ranks, and rank r's loss is (r + 1) y^2: dr = 12 y xr. The sum of
    // dr^2 over both is 144 y^3, whose gradient is 864 y^2 xr.
    const DTensor x = tensor({0 - r, 0.5 - r, 1 - r, 1.5 - r}, {4});
    require_grad(x);
    const DTensor y = all_reduce(x * x, ReduceOp::kSum, world);
    const DTensor d = gradients(sum(y * y) * (r + 1), {x}, DTensor(), Graph::kCreate)[0];
    CHECK(values(d) == (rank.rank == 0 ? V{0, 3, 12, 45} : V{-12, -3, 0, 15}));
    CHECK(values(gradients(sum(d * d), {x})[0]) ==
          (rank.rank == 0 ? V{0, 108, 864, 8100} : V{-864, -108, 0, 2700}));
    // Three rows over two ranks: two and one. The gradient of z is r + 1, gathered again.
    const DTensor rows = tensor({1, 2, 3}, {3});
    require_grad(rows);
    const DTensor z = reduce_scatter(rows, 0, ReduceOp::kSum, world);
    CHECK(z.numel() == 2 - rank.rank);
    CHECK(values(gradients(sum(z) * (r + 1), {rows})[0]) == V{1, 1, 2});
    // The first rank gets two rows of each rank, the second one.
    const DTensor moved = all_to_all(rows, 0, 0, world);
    CHECK(moved.numel() == (rank.rank == 0 ? 4 : 2));
    CHECK(values(gradients(sum(moved) * (r + 1), {rows})[0]) == V{1, 1, 2});
  });
}
