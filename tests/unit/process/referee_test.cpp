#include "backends/process/referee.h"

#include <doctest/doctest.h>

#include "tests/support/local_tensor.h"

using namespace shardlab;
using namespace shardlab::process;

namespace {

// A copy, as if it came from another process.
std::unique_ptr<EnteredCall> sent(const backends::Call& call) {
  Writer writer;
  EnteredCall::put(writer, call);
  const std::string bytes = writer.take();
  Reader reader(bytes);
  auto copy = std::make_unique<EnteredCall>(reader);
  CHECK(reader.at_end());
  CHECK(backends::signature(copy->call()) == backends::signature(call));
  return copy;
}

std::unique_ptr<EnteredCall> all_reduce_of(const Tensor& x, ReduceOp op) {
  backends::Call call(CollectiveKind::kAllReduce);
  call.x = &x;
  call.op = op;
  call.position = {"a.toml", 3, 1};
  call.op_name = "aten::mm";
  return sent(call);
}

std::unique_ptr<EnteredCall> barrier() { return sent(backends::Call(CollectiveKind::kBarrier)); }

Entrance at(std::int32_t group, std::vector<std::int64_t> ranks, std::uint64_t sequence = 0) {
  return {{group, sequence}, group == 0 ? "world" : "x", std::move(ranks), true};
}

}  // namespace

TEST_CASE("ranks may go on when all of their group have come and their calls fit") {
  const Tensor x = local_tensor({4}, DType::kF32, {1, 2, 3, 4});
  Referee referee(3);
  CHECK(!referee.enter(0, at(0, {0, 1, 2}), all_reduce_of(x, ReduceOp::kSum)).met);
  CHECK(!referee.enter(2, at(0, {0, 1, 2}), all_reduce_of(x, ReduceOp::kSum)).met);
  const auto ruling = referee.enter(1, at(0, {0, 1, 2}), all_reduce_of(x, ReduceOp::kSum));
  CHECK(ruling.met == CallPlace{0, 0});
  CHECK(ruling.ranks == std::vector<std::int64_t>{0, 1, 2});
  CHECK(!ruling.verdict);
}

TEST_CASE("groups without a common rank meet apart") {
  Referee referee(4);
  CHECK(!referee.enter(0, at(2, {0, 1}), barrier()).met);
  CHECK(!referee.enter(2, at(2, {2, 3}), barrier()).met);
  CHECK(referee.enter(3, at(2, {2, 3}), barrier()).ranks == std::vector<std::int64_t>{2, 3});
  CHECK(referee.enter(1, at(2, {0, 1}), barrier()).ranks == std::vector<std::int64_t>{0, 1});
}

TEST_CASE("B-5 calls that do not fit are a mismatch that names who differs and where") {
  const Tensor x = local_tensor({4}, DType::kF32, {1, 2, 3, 4});
  Referee referee(3);
  referee.enter(0, at(0, {0, 1, 2}), all_reduce_of(x, ReduceOp::kSum));
  referee.enter(1, at(0, {0, 1, 2}), all_reduce_of(x, ReduceOp::kMax));
  const auto ruling = referee.enter(2, at(0, {0, 1, 2}), all_reduce_of(x, ReduceOp::kSum));
  REQUIRE(ruling.verdict);
  CHECK(ruling.verdict->kind == VerdictKind::kMismatch);
  CHECK(ruling.verdict->culprits == std::vector<std::int64_t>{1});
  CHECK(text(*ruling.verdict) ==
        "ranks 0,2: in all_reduce(f32[4], sum) of aten::mm on group world, call 0, at a.toml:3\n"
        "rank 1: in all_reduce(f32[4], max) of aten::mm on group world, call 0, at a.toml:3");
}

TEST_CASE("B-6 when all that are left wait, nobody can advance: awaited ranks that ended did it") {
  Referee referee(3);
  CHECK(!referee.enter(0, at(0, {0, 1, 2}), barrier()).verdict);
  CHECK(!referee.enter(1, at(0, {0, 1, 2}), barrier()).verdict);
  const auto ruling = referee.end(2);
  REQUIRE(ruling.verdict);
  CHECK(ruling.verdict->kind == VerdictKind::kDeadlock);
  CHECK(ruling.verdict->culprits == std::vector<std::int64_t>{2});
  CHECK(text(*ruling.verdict) ==
        "ranks 0,1: in barrier() on group world, call 0, waiting for rank 2\nrank 2: ended");
}

TEST_CASE("a call that nobody waits for holds nobody up; its wait does") {
  Referee referee(2);
  Entrance later = at(0, {0, 1});
  later.waits = false;
  CHECK(!referee.enter(0, later, barrier()).verdict);
  CHECK(!referee.end(1).verdict);
  const auto ruling = referee.wait(0, {0, 0});
  REQUIRE(ruling.verdict);
  CHECK(ruling.verdict->culprits == std::vector<std::int64_t>{1});
}

TEST_CASE("waiting for what has met already is no wait") {
  Referee referee(2);
  Entrance later = at(0, {0, 1});
  later.waits = false;
  referee.enter(0, later, barrier());
  CHECK(referee.enter(1, at(0, {0, 1}), barrier()).met);
  CHECK(!referee.wait(0, {0, 0}).verdict);
  CHECK(!referee.end(1).verdict);
  CHECK(!referee.end(0).verdict);
}

TEST_CASE("two groups that are used in different order are a deadlock between them") {
  Referee referee(2);
  CHECK(!referee.enter(0, at(2, {0, 1}), barrier()).verdict);
  const auto ruling = referee.enter(1, at(4, {0, 1}), barrier());
  REQUIRE(ruling.verdict);
  CHECK(ruling.verdict->kind == VerdictKind::kDeadlock);
  CHECK(ruling.verdict->culprits == std::vector<std::int64_t>{0, 1});
}

TEST_CASE("B-24 a receive from any rank meets what was sent first, and hears who sent it") {
  const std::vector<std::int64_t> ranks{0, 1, 2};
  const Tensor x = local_tensor({2}, DType::kF32, {1, 2});
  const TensorMeta meta = contiguous_meta(Dims{2}, DType::kF32);
  Referee referee(3);
  const auto send_from = [&](std::int64_t rank, Ways& ways) {
    backends::Call call(CollectiveKind::kSend);
    call.x = &x;
    call.to = 0;
    return referee.enter(rank, {ways.next(call), "world", ways.ends(call), true}, sent(call));
  };
  backends::Call any(CollectiveKind::kRecv);
  any.expected = &meta;
  Ways receiver(0, 0, ranks), first(0, 2, ranks), second(0, 1, ranks);
  const auto receive = [&] {
    return referee.enter(0, {receiver.next(any), "world", receiver.ends(any), true}, sent(any));
  };
  CHECK(!send_from(2, first).met);
  CHECK(!send_from(1, second).met);
  for (const std::int64_t from : {2, 1}) {
    const auto ruling = receive();
    REQUIRE(ruling.met_any);
    CHECK(is_any(*ruling.met_any));
    CHECK(ruling.met_any->sequence == static_cast<std::uint64_t>(from));
    CHECK(ruling.ranks == std::vector<std::int64_t>{from, 0});
  }
  // One that has been waited for, and one that no rank sends any more.
  CHECK(!receive().met_any);
  CHECK(send_from(1, second).met_any);
  CHECK(!receive().met_any);
  referee.end(1);
  const auto ruling = referee.end(2);
  REQUIRE(ruling.verdict);
  CHECK(ruling.verdict->cause == "rank 0 receives from any rank, and all others have ended");
}

TEST_CASE("every part of a call arrives") {
  const Tensor x = local_tensor({4, 3}, DType::kBF16, std::vector<double>(12, 1));
  const std::vector<std::int64_t> lengths{4, 0, 2}, joined{1, 1, 1};
  const TensorMeta meta = contiguous_meta(Dims{6, 3}, DType::kBF16);
  backends::Call gather(CollectiveKind::kAllGather);
  gather.x = &x;
  gather.dim = 0;
  gather.lengths = lengths;
  sent(gather);
  backends::Call across(CollectiveKind::kAllToAll);
  across.x = &x;
  across.lengths = lengths;
  across.concat_dim = 1;
  const Lengths joined_lengths(joined);
  across.part = &joined_lengths;
  sent(across);
  backends::Call scatter(CollectiveKind::kScatter);
  scatter.root = 2;
  scatter.lengths = lengths;
  scatter.expected = &meta;
  sent(scatter);
  backends::Call permute(CollectiveKind::kPermute);
  permute.to = 1;
  permute.from = 0;
  permute.x = &x;
  permute.expected = &meta;
  sent(permute);
  const std::vector<SendRecv> exchange{{.peer = 1, .send = x},
                                       {.peer = 0, .receives = true, .receive = meta}};
  backends::BatchPart part{exchange, {}};
  backends::Call batch(CollectiveKind::kBatch);
  batch.part = &part;
  const auto copy = sent(batch);
  const auto& got = std::get<backends::BatchPart*>(copy->call().part)->exchange;
  CHECK(got[0].send.shape() == x.shape());
  CHECK(!got[0].receives);
  CHECK(got[1].peer == 0);
  CHECK(got[1].receive.shape == meta.shape);
}
