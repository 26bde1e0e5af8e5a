// Calls of one round side by side: their text, the differences between two ranks, and the arguments
// that only pairs of ranks have to agree on.
#include "backends/shared/call.h"

#include <doctest/doctest.h>

#include "tests/unit/shared/rounds.h"

using namespace shardlab;
using namespace shardlab::backends;
using shardlab::test::Round;

namespace {

using Kind = CollectiveKind;

}  // namespace

TEST_CASE("B-5 the text of a call names what the ranks have to agree on") {
  Round round;
  Call& sum = round.add(Kind::kAllReduce, {4, 3});
  CHECK(signature(sum) == "all_reduce(f32[4,3], sum)");
  sum.op = ReduceOp::kMax;
  CHECK(signature(sum) == "all_reduce(f32[4,3], max)");

  Call& gathered = round.add(Kind::kAllGather, {2, 3}, DType::kBF16);
  gathered.dim = 1;
  gathered.lengths = round.lengths({3, 3, 0});
  CHECK(signature(gathered) == "all_gather(bf16[2,3], dim 1, lengths 3,3,0)");

  Call& scattered = round.add(Kind::kReduceScatter, {7});
  scattered.lengths = round.lengths({4, 3});
  CHECK(signature(scattered) == "reduce_scatter(f32[7], sum, dim 0, lengths 4,3)");

  Call& exchanged = round.add(Kind::kAllToAll, {4, 2});
  exchanged.lengths = round.lengths({3, 1});
  exchanged.concat_dim = 1;
  exchanged.part = round.joined({2, 5});
  CHECK(signature(exchanged) == "all_to_all(f32[4,2], dim 0 cut 3,1, dim 1 joined 2,5)");

  CHECK(signature(round.bare(Kind::kBarrier)) == "barrier()");
}

TEST_CASE("B-5 a source reads like those who receive, a destination like those who send") {
  Round round;
  Call& source = round.add(Kind::kBroadcast, {4});
  source.root = 1;
  source.expected = round.meta({4});
  Call& other = round.bare(Kind::kBroadcast);
  other.root = 1;
  other.expected = source.expected;
  CHECK(signature(source) == "broadcast(f32[4], source 1)");
  CHECK(signature(other) == signature(source));

  Call& gather = round.add(Kind::kGather, {2});
  gather.root = 0;
  gather.lengths = round.lengths({2, 1});
  CHECK(signature(gather) == "gather(f32[2], dim 0, lengths 2,1, destination 0)");

  Call& shifted = round.add(Kind::kPermute, {2});
  shifted.to = 1;
  shifted.from = 3;
  shifted.expected = round.meta({5});
  CHECK(signature(shifted) == "permute(f32[2], to 1, from 3, receives f32[5])");
  shifted.from = -1;
  CHECK(signature(shifted) == "permute(f32[2], to 1, from -1)");
}

TEST_CASE("B-5 the lengths of many ranks fold where they are equal") {
  Round round;
  Call& call = round.add(Kind::kAllGather, {8});
  std::vector<std::int64_t> many(1024, 8);
  many.back() = 4;
  call.lengths = round.lengths(many);
  CHECK(signature(call) == "all_gather(f32[8], dim 0, lengths 8 (1023 times), 4)");
  call.lengths = round.lengths(std::vector<std::int64_t>(32, 1));
  CHECK(signature(call).find("times") == std::string::npos);
}

TEST_CASE("B-5 reasons that keep two ranks from meeting, the coarsest first") {
  Round round;
  Call& a = round.add(Kind::kAllReduce, {4});
  CHECK(difference(a, a) == "");
  CHECK(difference(a, round.add(Kind::kAllReduce, {4})) == "");
  CHECK(difference(a, round.add(Kind::kReduceScatter, {4})) == "different collectives");
  CHECK(difference(a, round.add(Kind::kAllReduce, {4}, DType::kF64)) == "different dtypes");
  CHECK(difference(a, round.add(Kind::kAllReduce, {5})) == "different shapes");
  CHECK(difference(a, round.add(Kind::kAllReduce, {4, 1})) == "different shapes");
  Call& largest = round.add(Kind::kAllReduce, {4}, DType::kF64);
  largest.op = ReduceOp::kMax;
  CHECK(difference(a, largest) == "different reductions");
}

TEST_CASE("B-5 a gathered dim may differ in size, all other dims and the lengths may not") {
  Round round;
  const auto piece = [&](const Dims& shape, std::int32_t dim,
                         std::vector<std::int64_t> lengths) -> Call& {
    Call& call = round.add(Kind::kAllGather, shape);
    call.dim = dim;
    call.lengths = round.lengths(std::move(lengths));
    return call;
  };
  const Call& a = piece({2, 3}, 0, {2, 0});
  CHECK(difference(a, piece({0, 3}, 0, {2, 0})) == "");
  CHECK(difference(a, piece({2, 4}, 0, {2, 0})) == "different shapes");
  CHECK(difference(a, piece({2, 3}, 1, {2, 0})) == "different dims");
  CHECK(difference(a, piece({0, 3}, 0, {2, 1})) == "different lengths");
  CHECK(compatible(a, piece({0, 3}, 0, {2, 0})));
}

TEST_CASE("B-5 sources, destinations and the names of parts") {
  Round round;
  const auto with_root = [&](Kind kind, std::int32_t root) -> Call& {
    Call& call = round.add(kind, {2});
    call.root = root;
    call.expected = round.meta({2});
    return call;
  };
  CHECK(difference(with_root(Kind::kBroadcast, 0), with_root(Kind::kBroadcast, 1)) ==
        "different sources");
  CHECK(difference(with_root(Kind::kGather, 0), with_root(Kind::kGather, 1)) ==
        "different destinations");
  Call& narrow = with_root(Kind::kBroadcast, 0);
  narrow.expected = round.meta({3});
  CHECK(difference(with_root(Kind::kBroadcast, 0), narrow) == "different shapes");

  SplitPart dp{.color = 1, .name = "dp"}, tp{.color = 1, .name = "tp"},
      far{.color = 2, .name = "tp"};
  Call &a = round.bare(Kind::kSplit), &b = round.bare(Kind::kSplit), &c = round.bare(Kind::kSplit);
  a.part = &dp;
  b.part = &tp;
  c.part = &far;
  CHECK(difference(a, b) == "different names");  // one group would get two names
  CHECK(difference(a, c) == "");
  CHECK(signature(a) == "split(dp)");
}

TEST_CASE("B-5 pieces of an all_to_all fit in pairs: what one cuts, the other joins") {
  Round round;
  const auto exchange = [&](std::int64_t rows, std::vector<std::int64_t> cut,
                            std::vector<std::int64_t> joined) {
    Call& call = round.add(Kind::kAllToAll, {rows});
    call.lengths = round.lengths(std::move(cut));
    call.part = round.joined(std::move(joined));
  };
  // Rank 0 keeps 1 and sends 3; rank 1 sends nothing and keeps 2.
  exchange(4, {1, 3}, {1, 0});
  exchange(2, {0, 2}, {3, 2});
  CHECK(consistent(round.calls()));
  Round torn;
  for (const std::int64_t joined : {3, 4}) {
    Call& call = torn.add(Kind::kAllToAll, {4});
    call.lengths = torn.lengths({1, 3});
    call.part = torn.joined({1, joined});
  }
  CHECK_FALSE(consistent(torn.calls()));
}

TEST_CASE("B-5 an all_to_all over two dims: the size of the joined dim is the sender's") {
  Round round;
  for (const std::int64_t columns : {5, 2}) {
    Call& call = round.add(Kind::kAllToAll, {4, columns});
    call.lengths = round.lengths({3, 1});
    call.concat_dim = 1;
    call.part = round.joined({5, 2});
  }
  CHECK(consistent(round.calls()));
  const_cast<Call*>(round.calls()[1])->part = round.joined({5, 3});
  CHECK_FALSE(consistent(round.calls()));
  CHECK_FALSE(pair_fits(round.calls(), 1, 1));
  CHECK(pair_fits(round.calls(), 0, 1));
  // Pieces of 1 and of 2 rows cannot be joined along columns.
  const_cast<Call*>(round.calls()[1])->part = round.joined({5, 2});
  const_cast<Call*>(round.calls()[1])->lengths = round.lengths({2, 2});
  CHECK_FALSE(pair_fits(round.calls(), 0, 1));
  CHECK_FALSE(consistent(round.calls()));
}

TEST_CASE("B-5 a permute fits where each sender names its receiver, and both one shape") {
  Round round;
  for (std::int32_t rank = 0; rank < 3; ++rank) {
    Call& call = round.add(Kind::kPermute, {rank + 1});
    call.to = (rank + 1) % 3;
    call.from = (rank + 2) % 3;
    call.expected = round.meta({call.from + 1});
  }
  CHECK(consistent(round.calls()));
  auto* last = const_cast<Call*>(round.calls()[2]);
  last->expected = round.meta({9});
  CHECK_FALSE(consistent(round.calls()));
  last->expected = round.meta({2}, DType::kF64);
  CHECK_FALSE(consistent(round.calls()));
  last->expected = round.meta({2});
  last->to = -1;  // rank 0 waits for a message that no rank sends
  CHECK_FALSE(consistent(round.calls()));
}

TEST_CASE("B-5 a batch fits where messages between two ranks agree in number, order and shape") {
  const auto fits = [](std::vector<Dims> sent, std::vector<Dims> received) {
    Round round;
    std::vector<SendRecv> first, second;
    for (const Dims& shape : sent) first.push_back({.peer = 1, .send = round.tensor(shape)});
    for (const Dims& shape : received) {
      second.push_back({.peer = 0,
                        .send = Tensor(),
                        .receives = true,
                        .receive = contiguous_meta(shape, DType::kF32)});
    }
    BatchPart left{.exchange = first, .received = {}}, right{.exchange = second, .received = {}};
    round.bare(Kind::kBatch).part = &left;
    round.bare(Kind::kBatch).part = &right;
    return consistent(round.calls());
  };
  CHECK(fits({}, {}));
  CHECK(fits({{2}, {3}}, {{2}, {3}}));
  CHECK_FALSE(fits({{2}, {3}}, {{3}, {2}}));
  CHECK_FALSE(fits({{2}, {3}}, {{2}}));
  CHECK_FALSE(fits({{2}}, {{2}, {3}}));
  CHECK(fits({{0}}, {{0}}));
}
