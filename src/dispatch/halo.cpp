// Each rank knows the ranges that all ranks of the group own and need, so that none has to ask:
// this rank sends to a peer the intersection of the peer's need with its own piece, and receives
// the intersection the other way round. Both sides compute the same two ranges. All ranks together
// decide whether anything moves at all, because a batch is collective over the group: ranks with
// nothing to send still enter it.
//
// For worlds in which one rank represents a class of equal ones, likeness() finds the ranks that
// send and receive equally much over equal distances. Each rank reads only the owners that its
// range overlaps, which sorting finds in O(ranks log ranks).
#include "dispatch/halo.h"

#include <algorithm>

#include "base/hash.h"
#include "tensor/device.h"

namespace shardlab {

namespace {

TensorMeta meta_with(const Tensor& x, std::size_t dim, std::int64_t size) {
  Dims shape = x.shape();
  shape[dim] = size;
  return contiguous_meta(shape, x.dtype());
}

// Hashes by group rank: equal for ranks that own, fetch and send ranges of the same lengths, with
// partners at the same distances. In O(ranks log ranks).
std::vector<std::uint64_t> likeness(std::int64_t ranks, const RangeOf& owned,
                                    const RangeOf& needed) {
  std::vector<DimRange> pieces;
  std::vector<std::int64_t> owners;  // by where their pieces begin
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    pieces.push_back(owned(rank));
    if (pieces.back().size() > 0) owners.push_back(rank);
  }
  const auto piece = [&](std::int64_t rank) { return pieces[static_cast<std::size_t>(rank)]; };
  std::ranges::sort(owners, {}, [&](std::int64_t rank) { return piece(rank).begin; });
  std::vector<std::uint64_t> numbers(pieces.size());
  const auto add = [&](std::int64_t rank, std::int64_t what, std::int64_t far, std::int64_t size) {
    const auto number = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
    numbers[static_cast<std::size_t>(rank)] +=
        hash_mix(hash_mix(number(what), number(far)), number(size));
  };
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const DimRange wanted = needed(rank);
    add(rank, 0, piece(rank).size(), wanted.size());
    if (wanted.size() == 0) continue;
    auto owner = std::ranges::upper_bound(owners, wanted.begin, {},
                                          [&](std::int64_t other) { return piece(other).begin; });
    if (owner != owners.begin()) --owner;
    for (; owner != owners.end() && piece(*owner).begin < wanted.end; ++owner) {
      const std::int64_t size = intersection(wanted, piece(*owner)).size();
      if (size == 0) continue;
      add(rank, 1, *owner - rank, size);
      add(*owner, 2, rank - *owner, size);
    }
  }
  return numbers;
}

}  // namespace

DimRange intersection(const DimRange& a, const DimRange& b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

Tensor exchange_halo(const Tensor& local, std::size_t dim, ProcessGroup& group,
                     const RangeOf& owned, const RangeOf& needed) {
  const std::int64_t me = group.rank();
  const DimRange mine = owned(me), wanted = needed(me);
  bool anyone = false;
  std::vector<SendRecv> exchange;
  std::vector<DimRange> arriving;
  for (std::int64_t peer = 0; peer < group.size(); ++peer) {
    const DimRange their_need = needed(peer);
    if (their_need.size() > intersection(their_need, owned(peer)).size()) anyone = true;
    if (peer == me) continue;
    const DimRange sent = intersection(their_need, mine), got = intersection(wanted, owned(peer));
    if (sent.size() == 0 && got.size() == 0) continue;
    SendRecv part{.peer = peer};
    if (sent.size() > 0) part.send = local.narrow(dim, sent.begin - mine.begin, sent.size());
    if (got.size() > 0) {
      part.receives = true;
      part.receive = meta_with(local, dim, got.size());
    }
    exchange.push_back(std::move(part));
    arriving.push_back(got);
  }
  std::vector<std::uint64_t> alike;
  group.compare_answers([&](std::int64_t rank) {
    if (alike.empty()) alike = likeness(group.size(), owned, needed);
    return alike[static_cast<std::size_t>(rank)];
  });
  std::vector<Tensor> received;
  if (anyone) received = group.batch(exchange);
  const DimRange kept = intersection(wanted, mine);
  if (kept == wanted && kept.size() > 0) {
    return local.narrow(dim, kept.begin - mine.begin, kept.size());
  }
  Device& device = *local.device();
  const Tensor result = empty(device, meta_with(local, dim, wanted.size()));
  const auto put = [&](const DimRange& range, const Tensor& piece) {
    device.copy(result.narrow(dim, range.begin - wanted.begin, range.size()), piece);
  };
  if (kept.size() > 0) put(kept, local.narrow(dim, kept.begin - mine.begin, kept.size()));
  for (std::size_t i = 0; i < received.size(); ++i) {
    if (exchange[i].receives) put(arriving[i], received[i]);
  }
  return result;
}

}  // namespace shardlab
