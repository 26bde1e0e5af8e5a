#include "backends/threads/execute.h"

#include "backends/shared/reduce.h"
#include "backends/shared/stream_device.h"
#include "base/error.h"
#include "tensor/device.h"

namespace shardlab::threads {

namespace {

using backends::BatchPart;
using backends::BytesPart;
using backends::Call;
using backends::reduce;
using backends::stream_of;
using backends::StreamDevice;

// Along one tensor dim, in elements.
struct Range {
  std::int64_t offset;
  std::int64_t size;
};

Range piece_of(Lengths lengths, std::size_t index) {
  Range range{0, lengths[index]};
  for (std::size_t i = 0; i < index; ++i) range.offset += lengths[i];
  return range;
}

Tensor cut(const Tensor& x, std::int64_t dim, Range range) {
  return x.narrow(static_cast<std::size_t>(dim), range.offset, range.size);
}

void copy(const Tensor& to, const Tensor& from) {
  if (from.numel() == 0 || to.device()->shape_only()) return;
  to.device()->copy(to, from);
}

Dims with_size(Dims shape, std::int64_t dim, std::int64_t size) {
  shape[static_cast<std::size_t>(dim)] = size;
  return shape;
}

std::int64_t sum(Lengths lengths) {
  std::int64_t total = 0;
  for (const std::int64_t length : lengths) total += length;
  return total;
}

// A Buffer that holds exactly x, row-major: x's own when it does.
BufferRef whole_buffer(const Tensor& x) {
  const BufferRef& buffer = x.storage()->buffer();
  const bool whole = x.offset() == 0 && x.contiguous() &&
                     buffer->size_bytes() == static_cast<std::size_t>(x.size_bytes());
  if (whole) return buffer;
  const Tensor result = empty(*x.device(), x.shape(), x.dtype());
  copy(result, x);
  return result.storage()->buffer();
}

const void* first_element(const Tensor& x) {
  return static_cast<const std::byte*>(x.storage()->buffer()->data()) +
         x.offset() * item_bytes(x.dtype());
}

// The same in a device's own memory: the ranks' pieces are lined up, then combined.
void reduce_on_device(std::span<Call* const> calls, StreamDevice& device, std::int64_t dim,
                      Range range, const Tensor& result) {
  const auto ranks = static_cast<std::int64_t>(calls.size());
  const std::int64_t count = result.numel();
  const Tensor terms = empty(device, Dims{ranks * count}, result.dtype());
  std::vector<const void*> inputs;
  for (std::int64_t i = 0; i < ranks; ++i) {
    const Tensor& x = *calls[static_cast<std::size_t>(i)]->x;
    const Tensor term = terms.as_view(result.meta(), i * count);
    copy(term, x.dim() == 0 ? x : cut(x, dim, range));
    inputs.push_back(first_element(term));
  }
  device.combine({.dtype = result.dtype(),
                  .op = calls[0]->op,
                  .inputs = inputs,
                  .output = result.storage()->writable()->data(),
                  .rows = 1,
                  .row_elements = count,
                  .row_stride = count});
}

// `size` elements of `dim` from `offset` on, reduced over all ranks.
BufferRef reduce_range(std::span<Call* const> calls, Device& device, std::int64_t dim,
                       Range range) {
  const Tensor& x = *calls[0]->x;
  const Dims shape = x.dim() == 0 ? Dims{} : with_size(x.shape(), dim, range.size);
  const Tensor result = empty(device, shape, x.dtype());
  const BufferRef& buffer = result.storage()->buffer();
  if (device.shape_only() || result.numel() == 0) return buffer;
  if (StreamDevice* streaming = stream_of(device)) {
    reduce_on_device(calls, *streaming, dim, range, result);
    return buffer;
  }
  std::int64_t outer = 1;
  std::int64_t inner = 1;
  for (std::int64_t i = 0; i < x.dim(); ++i) {
    const std::int64_t size = x.size(static_cast<std::size_t>(i));
    if (i < dim) outer *= size;
    if (i > dim) inner *= size;
  }
  const std::int64_t full = x.dim() == 0 ? 1 : x.size(static_cast<std::size_t>(dim));
  std::vector<const void*> inputs;
  inputs.reserve(calls.size());
  for (const Call* call : calls) {
    inputs.push_back(static_cast<const std::byte*>(first_element(*call->x)) +
                     range.offset * inner * item_bytes(x.dtype()));
  }
  reduce({.dtype = x.dtype(),
          .op = calls[0]->op,
          .inputs = inputs,
          .output = buffer->data(),
          .rows = outer,
          .row_elements = range.size * inner,
          .row_stride = full * inner});
  return buffer;
}

void all_reduce(std::span<Call* const> calls) {
  const Tensor& x = *calls[0]->x;
  const Range all{0, x.dim() == 0 ? 1 : x.size(0)};
  const BufferRef result = reduce_range(calls, *calls[0]->device, 0, all);
  for (Call* call : calls) call->result = result;
}

void reduce_scatter(std::span<Call* const> calls) {
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const Range range = piece_of(calls[i]->lengths, i);
    calls[i]->result = reduce_range(calls, *calls[i]->device, calls[i]->dim, range);
  }
}

BufferRef gathered(std::span<Call* const> calls, const Call& taker) {
  const Dims shape = with_size(calls[0]->x->shape(), taker.dim, sum(taker.lengths));
  const Tensor result = empty(*taker.device, shape, calls[0]->x->dtype());
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    copy(cut(result, taker.dim, {offset, taker.lengths[i]}), *calls[i]->x);
    offset += taker.lengths[i];
  }
  return result.storage()->buffer();
}

void all_gather(std::span<Call* const> calls) {
  const BufferRef result = gathered(calls, *calls[0]);
  for (Call* call : calls) call->result = result;
}

void gather(std::span<Call* const> calls) {
  Call& taker = *calls[static_cast<std::size_t>(calls[0]->root)];
  taker.result = gathered(calls, taker);
}

void all_to_all(std::span<Call* const> calls) {
  for (std::size_t to = 0; to < calls.size(); ++to) {
    Call& taker = *calls[to];
    Dims shape = taker.x->shape();
    shape[static_cast<std::size_t>(taker.dim)] = taker.lengths[to];
    shape[static_cast<std::size_t>(taker.concat_dim)] = sum(taker.concat_lengths);
    const Tensor result = empty(*taker.device, shape, taker.x->dtype());
    std::int64_t offset = 0;
    for (std::size_t from = 0; from < calls.size(); ++from) {
      const Range joined{offset, taker.concat_lengths[from]};
      const Range range = piece_of(calls[from]->lengths, to);
      copy(cut(result, taker.concat_dim, joined), cut(*calls[from]->x, taker.dim, range));
      offset += joined.size;
    }
    taker.result = result.storage()->buffer();
  }
}

void broadcast(std::span<Call* const> calls) {
  const BufferRef result = whole_buffer(*calls[static_cast<std::size_t>(calls[0]->root)]->x);
  for (Call* call : calls) call->result = result;
}

void scatter(std::span<Call* const> calls) {
  const Tensor& x = *calls[static_cast<std::size_t>(calls[0]->root)]->x;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const Range range = piece_of(calls[i]->lengths, i);
    const Dims shape = with_size(x.shape(), calls[i]->dim, range.size);
    const Tensor result = empty(*calls[i]->device, shape, x.dtype());
    copy(result, cut(x, calls[i]->dim, range));
    calls[i]->result = result.storage()->buffer();
  }
}

void permute(std::span<Call* const> calls) {
  for (Call* call : calls) {
    if (call->from < 0) continue;
    call->result = whole_buffer(*calls[static_cast<std::size_t>(call->from)]->x);
  }
}

BatchPart& batch_part(const Call& call) { return *std::get<BatchPart*>(call.part); }

// The k-th send to a rank meets its k-th receive from the sender.
void exchange(std::span<Call* const> calls) {
  for (std::size_t to = 0; to < calls.size(); ++to) {
    std::vector<std::size_t> next(calls.size(), 0);
    BatchPart& taker = batch_part(*calls[to]);
    taker.received.resize(taker.exchange.size());
    for (std::size_t i = 0; i < taker.exchange.size(); ++i) {
      const SendRecv& part = taker.exchange[i];
      if (!part.receives) continue;
      const auto from = static_cast<std::size_t>(part.peer);
      std::size_t& place = next[from];
      const std::span<const SendRecv> sends = batch_part(*calls[from]).exchange;
      while (!sends[place].send.defined() || sends[place].peer != static_cast<std::int64_t>(to)) {
        ++place;
      }
      const Tensor& x = sends[place++].send;
      taker.received[i] =
          Tensor(make_ref<Storage>(whole_buffer(x)), contiguous_meta(x.shape(), x.dtype()));
    }
  }
}

void all_gather_bytes(std::span<Call* const> calls) {
  std::vector<std::string> all;
  all.reserve(calls.size());
  for (const Call* call : calls) all.emplace_back(std::get<BytesPart*>(call->part)->bytes);
  for (Call* call : calls) std::get<BytesPart*>(call->part)->gathered = all;
}

}  // namespace

void execute(std::span<Call* const> calls) {
  switch (calls[0]->kind) {
    case CollectiveKind::kAllReduce:
      return all_reduce(calls);
    case CollectiveKind::kAllGather:
      return all_gather(calls);
    case CollectiveKind::kReduceScatter:
      return reduce_scatter(calls);
    case CollectiveKind::kAllToAll:
      return all_to_all(calls);
    case CollectiveKind::kBroadcast:
      return broadcast(calls);
    case CollectiveKind::kScatter:
      return scatter(calls);
    case CollectiveKind::kGather:
      return gather(calls);
    case CollectiveKind::kPermute:
      return permute(calls);
    case CollectiveKind::kBatch:
      return exchange(calls);
    case CollectiveKind::kAllGatherBytes:
      return all_gather_bytes(calls);
    case CollectiveKind::kBarrier:
    case CollectiveKind::kSplit:
      return;
  }
}

}  // namespace shardlab::threads
