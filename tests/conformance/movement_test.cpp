// Collectives that move data without changing it. Every element carries its rank and its index.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "comm/process_group.h"
#include "tests/conformance/setting.h"
#include "tests/support/local_tensor.h"
#include "tests/support/on_ranks.h"

using namespace shardlab;

namespace {

using Values = std::vector<double>;
using Lengths64 = std::vector<std::int64_t>;

std::int64_t at(const Lengths64& lengths, std::int64_t rank) {
  return lengths[static_cast<std::size_t>(rank)];
}
std::int64_t total(const Lengths64& lengths) {
  std::int64_t sum = 0;
  for (const std::int64_t length : lengths) sum += length;
  return sum;
}
std::int64_t offset_of(const Lengths64& lengths, std::int64_t rank) {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < rank; ++i) sum += at(lengths, i);
  return sum;
}

// A tensor of `shape` that is the part at `origin` of a larger one: its element at (a, b, c) of the
// larger one is who * 10000 + a * 400 + b * 20 + c.
Values numbered(const Dims& shape, const Dims& origin, double who) {
  Values values;
  for (std::int64_t a = 0; a < shape[0]; ++a) {
    for (std::int64_t b = 0; b < shape[1]; ++b) {
      for (std::int64_t c = 0; c < shape[2]; ++c) {
        values.push_back(who * 10000 + static_cast<double>((a + origin[0]) * 400 +
                                                           (b + origin[1]) * 20 + c + origin[2]));
      }
    }
  }
  return values;
}

Dims with(Dims dims, std::int64_t dim, std::int64_t value) {
  dims[static_cast<std::size_t>(dim)] = value;
  return dims;
}

const Dims kShape{2, 3, 4};
const Dims kOrigin{0, 0, 0};

// The same values in memory that is laid out back to front.
Tensor reversed_strides(const Tensor& x) {
  Dims shape;
  Dims stride(3);
  for (std::size_t i = 3; i-- > 0;) shape.push_back(x.size(i));
  std::int64_t step = 1;
  for (std::size_t i = 0; i < 3; ++i) {
    stride[i] = step;
    step *= x.size(i);
  }
  const Tensor memory = empty(plain_device(), shape, x.dtype());
  const Tensor view = memory.as_view({x.shape(), stride, x.dtype()}, 0);
  plain_device().copy(view, x);
  return view;
}

void all_gather_case() {
  for (const DType dtype : {DType::kF32, DType::kI64, DType::kC128}) {
    on_all_groups([&](const Seat& seat) {
      for (const std::string_view kind : kLengthKinds) {
        const Lengths64 lengths = lengths_of(kind, seat.size);
        for (std::int64_t dim = 0; dim < 3; ++dim) {
          const Dims piece = with(kShape, dim, at(lengths, seat.rank));
          const Dims origin = with(kOrigin, dim, offset_of(lengths, seat.rank));
          const Tensor x = local_tensor(piece, dtype, numbered(piece, origin, 0));
          const Dims whole = with(kShape, dim, total(lengths));
          for (const Tensor& input : {x, reversed_strides(x)}) {
            const Tensor y = seat.group.all_gather(input, dim, lengths);
            CHECK(y.shape() == whole);
            CHECK(y.contiguous());
            CHECK(values_of(y) == numbered(whole, kOrigin, 0));
          }
        }
      }
    });
  }
}

void gather_scatter_case() {
  on_all_groups([&](const Seat& seat) {
    Communicator& door = seat.group.communicator();
    const std::int64_t root = seat.size - 1;
    for (const std::string_view kind : kLengthKinds) {
      const Lengths64 lengths = lengths_of(kind, seat.size);
      for (std::int64_t dim = 0; dim < 3; ++dim) {
        const Dims piece = with(kShape, dim, at(lengths, seat.rank));
        const Dims origin = with(kOrigin, dim, offset_of(lengths, seat.rank));
        const Dims whole = with(kShape, dim, total(lengths));
        const TensorMeta meta = contiguous_meta(whole, DType::kF32);
        Tensor source;
        if (seat.rank == root)
          source = local_tensor(whole, DType::kF32, numbered(whole, kOrigin, 0));
        const Issue issue = dim == 1 ? Issue::kAsync : Issue::kWait;
        const Tensor mine = door.scatter(source, root, dim, lengths, meta, issue);
        CHECK(mine.shape() == piece);
        CHECK(values_of(mine) == numbered(piece, origin, 0));
        const Tensor back = door.gather(mine, root, dim, lengths, issue);
        CHECK(back.defined() == (seat.rank == root));
        if (back.defined()) CHECK(values_of(back) == numbered(whole, kOrigin, 0));
      }
    }
  });
}

// Sharded along `joined`, cut along `cut`: afterwards the other way round.
void check_transpose(const Seat& seat, std::string_view cut_kind, std::string_view joined_kind,
                     std::int64_t cut, std::int64_t joined) {
  const Lengths64 cuts = lengths_of(cut_kind, seat.size);
  const Lengths64 joins = lengths_of(joined_kind, seat.size);
  const Dims whole = with(with(kShape, cut, total(cuts)), joined, total(joins));
  const Dims before = with(whole, joined, at(joins, seat.rank));
  const Dims before_origin = with(kOrigin, joined, offset_of(joins, seat.rank));
  const Tensor x = local_tensor(before, DType::kF32, numbered(before, before_origin, 0));
  const Dims after = with(whole, cut, at(cuts, seat.rank));
  const Dims after_origin = with(kOrigin, cut, offset_of(cuts, seat.rank));
  for (const Tensor& input : {x, reversed_strides(x)}) {
    const Tensor y = seat.group.all_to_all(input, cut, cuts, joined, joins);
    CHECK(y.shape() == after);
    CHECK(values_of(y) == numbered(after, after_origin, 0));
  }
}

void all_to_all_case() {
  on_all_groups([](const Seat& seat) {
    for (const std::string_view cut_kind : kLengthKinds) {
      for (const std::string_view joined_kind : kLengthKinds) {
        for (std::int64_t cut = 0; cut < 3; ++cut) {
          check_transpose(seat, cut_kind, joined_kind, cut, (cut + 1) % 3);
          check_transpose(seat, cut_kind, joined_kind, cut, (cut + 2) % 3);
        }
      }
    }
    // Along one dim: rank r sends r + i + 1 elements to rank i.
    Lengths64 sent;
    Values expected;
    for (std::int64_t i = 0; i < seat.size; ++i) {
      sent.push_back(seat.rank + i + 1);
      for (std::int64_t k = 0; k <= seat.rank + i; ++k) {
        expected.push_back(static_cast<double>(i * 100 + seat.rank));
      }
    }
    Values values;
    for (std::int64_t i = 0; i < seat.size; ++i) {
      for (std::int64_t k = 0; k < at(sent, i); ++k) {
        values.push_back(static_cast<double>(seat.rank * 100 + i));
      }
    }
    const Tensor x = local_tensor({total(sent)}, DType::kI32, values);
    CHECK(values_of(seat.group.all_to_all(x, 0, sent, 0, sent)) == expected);
  });
}

void broadcast_case() {
  on_all_groups([](const Seat& seat) {
    for (const Dims& shape : {Dims{2, 3, 4}, Dims{0, 3, 4}, Dims{1, 1, 1}}) {
      const TensorMeta meta = contiguous_meta(shape, DType::kF64);
      for (std::int64_t source = 0; source < seat.size; ++source) {
        Tensor x;
        if (seat.rank == source) {
          x = local_tensor(shape, DType::kF64,
                           numbered(shape, kOrigin, static_cast<double>(source)));
        }
        const Tensor y = seat.group.broadcast(x, source, meta);
        CHECK(values_of(y) == numbered(shape, kOrigin, static_cast<double>(source)));
        // Also a part of a larger tensor; later changes of the source reach no other rank.
        if (x.defined() && x.numel() > 0) x.mutable_data<double>()[0] = -1;
        Tensor part;
        if (seat.rank == source) part = x.narrow(2, shape[2] - 1, 1);
        const Dims cut = with(shape, 2, 1);
        const Tensor z =
            seat.group.broadcast(part, source, contiguous_meta(cut, DType::kF64), Issue::kAsync);
        CHECK(values_of(y) == numbered(shape, kOrigin, static_cast<double>(source)));
        if (shape[2] == 4) {
          CHECK(values_of(z) == numbered(cut, with(kOrigin, 2, 3), static_cast<double>(source)));
        }
      }
    }
  });
}

void permute_case() {
  on_all_groups([](const Seat& seat) {
    const std::int64_t n = seat.size;
    // A ring; pieces have other sizes on every rank.
    const Dims mine{seat.rank + 1, 2, 1};
    const std::int64_t before = (seat.rank + n - 1) % n;
    const Dims theirs{before + 1, 2, 1};
    const Tensor x =
        local_tensor(mine, DType::kF32, numbered(mine, kOrigin, static_cast<double>(seat.rank)));
    const Tensor y =
        seat.group.permute(x, (seat.rank + 1) % n, before, contiguous_meta(theirs, DType::kF32));
    CHECK(values_of(y) == numbered(theirs, kOrigin, static_cast<double>(before)));
    // Only the first sends, only the last receives.
    const Tensor z = seat.group.permute(seat.rank == 0 ? x : Tensor(), seat.rank == 0 ? n - 1 : -1,
                                        seat.rank == n - 1 ? 0 : -1,
                                        contiguous_meta(Dims{1, 2, 1}, DType::kF32));
    CHECK(z.defined() == (seat.rank == n - 1));
    if (z.defined()) CHECK(values_of(z) == numbered({1, 2, 1}, kOrigin, 0));
  });
}

// Round the group, each two under two tags, received in the other order; then from the first rank
// on to the last, each before the next one sends.
void messages_case() {
  if (!passes_messages()) return;
  on_all_groups([](const Seat& seat) {
    if (seat.size == 1) return;
    ProcessGroup& group = seat.group;
    const std::int64_t next = (seat.rank + 1) % seat.size;
    const std::int64_t before = (seat.rank + seat.size - 1) % seat.size;
    for (const DType dtype : {DType::kF32, DType::kI64, DType::kC128}) {
      for (const std::int64_t rows : {0, 1, 4}) {
        const Dims shape{rows, 2, 3};
        const auto piece = [&](std::int64_t who, int which) {
          return numbered(shape, Dims{which, 0, 0}, static_cast<double>(who));
        };
        const Tensor a = local_tensor(shape, dtype, piece(seat.rank, 0));
        const Tensor b = reversed_strides(local_tensor(shape, dtype, piece(seat.rank, 1)));
        const Tensor sent[] = {group.send(a, next, 3, Issue::kAsync),
                               group.send(b, next, 4, Issue::kAsync)};
        const TensorMeta meta = contiguous_meta(shape, dtype);
        const Tensor second = group.recv(meta, before, 4, Issue::kAsync);
        const Tensor first = group.recv(meta, before, 3);
        for (const Tensor& one : sent) one.wait();
        CHECK(values_of(first) == piece(before, 0));
        CHECK(values_of(second) == piece(before, 1));
      }
    }
    const TensorMeta number = contiguous_meta(Dims{1}, DType::kI32);
    double sum = 0;
    if (seat.rank > 0) sum = values_of(group.recv(number, before, 0))[0];
    CHECK(sum == static_cast<double>(seat.rank * (seat.rank + 1) / 2));
    const Tensor own = local_tensor({1}, DType::kI32, {sum + static_cast<double>(seat.rank + 1)});
    if (next > 0) CHECK(group.send(own, next, 0).numel() == 0);
  });
}

// The first rank takes messages of the others in any order, except those it has asked the next rank
// for.
void any_case() {
  if (!passes_messages() || !calls_are_compared()) return;
  on_all_groups([](const Seat& seat) {
    if (seat.size == 1) return;
    ProcessGroup& group = seat.group;
    const TensorMeta meta = contiguous_meta(Dims{2}, DType::kI32);
    if (seat.rank > 0) {
      for (const double which : {0.0, 1.0}) {
        group.send(local_tensor({2}, DType::kI32, {static_cast<double>(seat.rank), which}), 0, 1);
      }
      return;
    }
    const Tensor named = group.recv(meta, 1, 1, Issue::kAsync);
    std::vector<double> next(static_cast<std::size_t>(seat.size), 0);
    next[1] = 1;
    for (std::int64_t left = 2 * (seat.size - 1) - 1; left > 0; --left) {
      std::int64_t from = -1;
      const Tensor got = group.communicator().recv_from_any(meta, 1, from);
      REQUIRE((from > 0 && from < seat.size));
      CHECK(values_of(got) ==
            Values{static_cast<double>(from), next[static_cast<std::size_t>(from)]++});
    }
    CHECK(values_of(named) == Values{1, 0});
  });
}

// A receive that was posted first does not block a rank that waits for a later one.
void overtaking_case() {
  if (!passes_messages()) return;
  on_all_groups([](const Seat& seat) {
    if (seat.size < 3 || seat.rank > 2) return;
    ProcessGroup& group = seat.group;
    const TensorMeta meta = contiguous_meta(Dims{1}, DType::kI32);
    const Tensor own = local_tensor({1}, DType::kI32, {static_cast<double>(seat.rank)});
    if (seat.rank == 1) group.send(own, 0, 0);
    if (seat.rank == 2) {
      CHECK(values_of(group.recv(meta, 0, 0)) == Values{0});
      group.send(own, 0, 0);
    }
    if (seat.rank > 0) return;
    const Tensor last = group.recv(meta, 2, 0, Issue::kAsync);
    CHECK(values_of(group.recv(meta, 1, 0)) == Values{1});
    group.send(own, 2, 0);
    CHECK(values_of(last) == Values{2});
  });
}

void batch_case() {
  on_all_groups([](const Seat& seat) {
    const auto number = [](std::int64_t from, std::int64_t to, int which) {
      return Values{static_cast<double>(from * 100 + to * 10 + which)};
    };
    const TensorMeta meta = contiguous_meta(Dims{1}, DType::kI32);
    // Two to every rank, two from every rank, in another order.
    std::vector<SendRecv> exchange;
    for (std::int64_t peer = seat.size - 1; peer >= 0; --peer) {
      for (int which = 0; which < 2; ++which) {
        SendRecv part;
        part.peer = peer;
        part.send = local_tensor({1}, DType::kI32, number(seat.rank, peer, which));
        part.receives = which == 0;
        part.receive = meta;
        exchange.push_back(part);
      }
    }
    for (std::int64_t peer = 0; peer < seat.size; ++peer) {
      SendRecv part;
      part.peer = peer;
      part.receives = true;
      part.receive = meta;
      exchange.push_back(part);
    }
    const std::vector<Tensor> received = seat.group.communicator().batch(exchange);
    REQUIRE(received.size() == exchange.size());
    for (std::size_t i = 0; i < exchange.size(); ++i) {
      CHECK(received[i].defined() == exchange[i].receives);
      if (!received[i].defined()) continue;
      const int which = exchange[i].send.defined() ? 0 : 1;
      CHECK(values_of(received[i]) == number(exchange[i].peer, seat.rank, which));
    }
    CHECK(seat.group.communicator().batch({}).empty());
  });
}

void bytes_case() {
  on_all_groups([](const Seat& seat) {
    const std::string mine(static_cast<std::size_t>(seat.rank), 'x');
    const std::vector<std::string> all = seat.group.communicator().all_gather_bytes(mine);
    REQUIRE(static_cast<std::int64_t>(all.size()) == seat.size);
    for (std::size_t i = 0; i < all.size(); ++i) CHECK(all[i] == std::string(i, 'x'));
  });
}

void split_case() {
  on_world_of(7, [](RankContext& rank) {
    // Colours 0 and 1, keys against the ranks' order; rank 6 stays out.
    const std::int64_t color = rank.rank == 6 ? -1 : rank.rank % 2;
    const auto group = rank.world->communicator().split(color, -rank.rank, "half");
    CHECK((group == nullptr) == (rank.rank == 6));
    if (!group) return;
    CHECK(group->name() == "half");
    const Lengths64 expected = color == 0 ? Lengths64{4, 2, 0} : Lengths64{5, 3, 1};
    CHECK(Lengths64(group->ranks().begin(), group->ranks().end()) == expected);
    CHECK(expected[static_cast<std::size_t>(group->rank())] == rank.rank);
    const Tensor x = local_tensor({1}, DType::kI64, {static_cast<double>(rank.rank)});
    const Tensor sum = group->all_reduce(x, ReduceOp::kSum, Issue::kWait);
    CHECK(values_of(sum) == Values{color == 0 ? 6.0 : 9.0});
    // Equal keys: by rank in the parent.
    const auto again = group->split(0, 0, "again");
    CHECK(again->rank() == group->rank());
  });
}

}  // namespace

TEST_CASE("all_gather along any dim, uneven and empty") { all_gather_case(); }
TEST_CASE("scatter and gather") { gather_scatter_case(); }
TEST_CASE("all_to_all between any dims, uneven and empty") { all_to_all_case(); }
TEST_CASE("broadcast from any rank") { broadcast_case(); }
TEST_CASE("permute, also with ranks that only send or receive") { permute_case(); }
TEST_CASE("B-24 messages between two ranks, under two tags and along a line") { messages_case(); }
TEST_CASE("B-24 a receive from any rank takes what comes") { any_case(); }
TEST_CASE("B-24 a receive overtakes one that was posted before") { overtaking_case(); }
TEST_CASE("batched sends meet receives in order") { batch_case(); }
TEST_CASE("all_gather_bytes") { bytes_case(); }
TEST_CASE("split by colour and key") { split_case(); }
