#include "dispatch/halo.h"

#include <algorithm>

#include "tensor/device.h"

namespace shardlab {

namespace {

TensorMeta meta_with(const Tensor& x, std::size_t dim, std::int64_t size) {
  Dims shape = x.shape();
  shape[dim] = size;
  return contiguous_meta(shape, x.dtype());
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
