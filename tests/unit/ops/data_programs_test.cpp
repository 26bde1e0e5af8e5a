// Ops whose number of results depends on the data, on cut tensors; values as PyTorch gives them, or
// counted by hand.
#include <doctest/doctest.h>

#include "dispatch/dispatcher.h"
#include "tensor/host.h"
#include "tests/unit/dispatch/op_mesh.h"

namespace shardlab {
namespace {

using test::counted;
using test::OpMesh;
using test::ops;
using test::whole;
using Values = std::vector<double>;

TEST_CASE("places of what is not 0, of what a mask chooses and of what repeats, on cut tensors") {
  OpMesh mesh({3});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {4, 2}, {0, 5, 0, 0, 6, 7, 0, 8});
    const DTensor places = ops().one("aten::nonzero", {x});
    CHECK(places.shape() == Dims{4, 2});
    CHECK(whole(places) == Values{0, 1, 2, 0, 2, 1, 3, 1});
    const DTensor mask = mesh.place("R", {2}, {0, 1}, DType::kBool);
    CHECK(whole(ops().one("aten::masked_select", {x, mask})) == Values{5, 0, 7, 8});
    const DTensor list = mesh.place("S(0)", {7}, {3, 1, 1, 2, 3, 3, 1});
    const Results unique = ops()("aten::_unique2", {list, true, true, true});
    CHECK(whole(unique[0].tensor()) == Values{1, 2, 3});
    CHECK(whole(unique[1].tensor()) == Values{2, 0, 0, 1, 2, 2, 0});
    CHECK(whole(unique[2].tensor()) == Values{3, 1, 3});
    const Results runs = ops()("aten::unique_consecutive", {list, false, true, {}});
    CHECK(whole(runs[0].tensor()) == Values{3, 1, 2, 3, 1});
    CHECK(whole(runs[2].tensor()) == Values{1, 2, 1, 2, 1});
    const DTensor numbers = mesh.place("S(0)", {5}, {1, 3, 1, 0, 3}, DType::kI64);
    CHECK(whole(ops().one("aten::bincount", {numbers, {}, 6})) == Values{1, 2, 0, 2, 0, 0});
  });
}

TEST_CASE("a histogram counts its upper edge, and rows have boundaries of their own") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {5}, {0, 1, 1.5, 4, 2});
    const Results bins = ops()("aten::histogram.bin_ct", {x, 2, {}, {}, false});
    CHECK(whole(bins[0].tensor()) == Values{3, 2});
    CHECK(whole(bins[1].tensor()) == Values{0, 2, 4});
    const DTensor edges = mesh.place("S(0)", {2, 3}, {1, 2, 3, 2, 4, 6});
    const DTensor values = mesh.place("S(0)", {2, 2}, {2, 9, 2, 3});
    const Results left = ops()("aten::searchsorted.Tensor", {edges, values, false, false, {}, {}});
    CHECK(whole(left[0].tensor()) == Values{1, 3, 0, 1});
  });
}

TEST_CASE("a tensor that takes the view of itself takes its placements, too") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {2, 3}, counted(6));
    const DTensor turned = ops().one("aten::transpose_", {x, 0, 1});
    CHECK(turned.is_same(x));
    CHECK(x.spec()->placement(0) == Placement::shard(1));
    CHECK(whole(x) == Values{0, 3, 1, 4, 2, 5});
    ops()("aten::unsqueeze_", {x, 0});
    CHECK(x.shape() == Dims{1, 3, 2});
    CHECK(x.spec()->placement(0) == Placement::shard(2));
    CHECK(whole(x) == Values{0, 3, 1, 4, 2, 5});
  });
}

TEST_CASE("a tensor that is resized keeps its memory, zeros come behind its end") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor six = test::plain({6}, counted(6));
    const DTensor x = ops().one("aten::slice.Tensor", {six, 0, 2, 6});
    ops()("aten::resize_", {x, Dims{2, 1}});
    CHECK(x.shape() == Dims{2, 1});
    ops()("aten::fill_.Scalar", {x, 9});
    Values after = counted(6);
    after[2] = after[3] = 9;
    CHECK(whole(six) == after);
    ops()("aten::resize_", {x, Dims{3, 2}});
    CHECK(whole(x) == Values{9, 9, after[4], after[5], 0, 0});
    const DTensor cut = mesh.place("S(0)", {4}, counted(4));
    CHECK_THROWS_AS(ops()("aten::resize_", {cut, Dims{2, 2}}), Error);
  });
}

// torch.hash_tensor of PyTorch 2.15.
TEST_CASE("a hash of rows is the exclusive or of their bits, in pieces as whole") {
  OpMesh mesh({3});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {2, 3, 4}, counted(24));
    CHECK(whole(ops().one("aten::hash_tensor", {x})) == Values{4609434218613702656.0});
    CHECK(whole(ops().one("aten::hash_tensor", {x, Dims{-1}})) ==
          Values{4609434218613702656.0, 0, 0, 0, 0, 0});
    const DTensor kept = ops().one("aten::hash_tensor", {x, Dims{0, -1}, true});
    CHECK(kept.shape() == Dims{1, 3, 1});
    CHECK(kept.dtype() == DType::kU64);
    CHECK_THROWS_AS(ops()("aten::hash_tensor", {x, Dims{0}, false, 1}), Error);
  });
}

TEST_CASE("a bag of rows is their sum, mean or largest, without those that are padding") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor table = mesh.place("S(0)", {3, 2}, {1, 2, 3, 4, 5, 6});
    const DTensor rows = mesh.place("R", {5}, {0, 2, 1, 1, 0}, DType::kI64);
    const DTensor begins = mesh.place("R", {3}, {0, 2, 5}, DType::kI64);
    const auto bags = [&](std::int64_t mode, std::int64_t padding) {
      return whole(ops()("aten::_embedding_bag",
                         {table, rows, begins, false, mode, false, {}, false, padding})[0]
                       .tensor());
    };
    CHECK(bags(0, -1) == Values{6, 8, 7, 10, 0, 0});
    CHECK(bags(1, 0) == Values{5, 6, 3, 4, 0, 0});
    CHECK(bags(2, -1) == Values{5, 6, 3, 4, 0, 0});
    // Sums of rows in one piece need no bag of each index, as in torch.
    const auto named = [&](const DTensor& weight) {
      return ops()("aten::_embedding_bag",
                   {weight, rows, begins, false, 0, false, {}, false, -1})[1]
          .tensor()
          .numel();
    };
    CHECK(named(table) == 0);
    CHECK(named(ops().one("aten::t", {mesh.place("S(1)", {2, 3}, {1, 3, 5, 2, 4, 6})})) == 5);
  });
}

TEST_CASE("least squares of more rows than columns leave what they cannot reach") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    // y = 1 + x through (0, 1), (1, 2), (2, 4): 5/6 + 3/2 x, squares off by 1/6.
    const DTensor a = mesh.place("S(0)", {3, 2}, {1, 0, 1, 1, 1, 2});
    const DTensor b = mesh.place("S(0)", {3, 1}, {1, 2, 4});
    const Results fit = ops()("aten::linalg_lstsq", {a, b, {}, "gelsd"});
    CHECK(whole(fit[0].tensor())[0] == doctest::Approx(5.0 / 6));
    CHECK(whole(fit[0].tensor())[1] == doctest::Approx(1.5));
    CHECK(whole(fit[1].tensor())[0] == doctest::Approx(1.0 / 6));
    CHECK(whole(fit[2].tensor()) == Values{2});
  });
}

}  // namespace
}  // namespace shardlab
