// The last rank to arrive does the collective for all, from their tensors and in rank order (K-21),
// while they wait; results that are equal on all ranks are one Buffer that they share. So a
// collective reads each rank's data once and writes each result once. Large ones are cut into parts
// for the crew, along elements and never along ranks, so that the order of additions stays.
#include "backends/threads/execute.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "backends/shared/pieces.h"
#include "backends/shared/reduce.h"
#include "backends/shared/stream_device.h"
#include "base/error.h"
#include "base/memory_account.h"
#include "base/rank_context.h"
#include "tensor/device.h"
#include "tensor/strided_copy.h"

namespace shardlab::threads {

namespace {

using backends::address;
using backends::BatchPart;
using backends::BytesPart;
using backends::Call;
using backends::copy;
using backends::piece_of;
using backends::Range;
using backends::reduce;
using backends::Reduction;
using backends::stream_of;
using backends::StreamDevice;
using backends::with_size;

Tensor cut(const Tensor& x, std::int64_t dim, Range range) {
  return x.narrow(static_cast<std::size_t>(dim), range.offset, range.size);
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
    inputs.push_back(address(term));
  }
  device.combine({.dtype = result.dtype(),
                  .op = calls[0]->op,
                  .inputs = inputs,
                  .output = result.storage()->writable()->data(),
                  .rows = 1,
                  .row_elements = count,
                  .row_stride = count});
}

// A reduction and the data that it points to.
struct ReductionWork {
  std::vector<const void*> inputs;
  Reduction whole;

  std::int64_t bytes() const {
    const std::int64_t elements = whole.rows * whole.row_elements;
    return elements * item_bytes(whole.dtype) * static_cast<std::int64_t>(inputs.size());
  }
};

// Rows, or elements of the only row.
struct ReductionPart {
  const ReductionWork* work;
  std::int64_t first;
  std::int64_t count;

  // Elements keep their terms and these their order, however the work is cut.
  void run() const {
    const Reduction& whole = work->whole;
    const bool rows = whole.rows > 1;
    const std::int64_t bytes = item_bytes(whole.dtype);
    std::vector<const void*> inputs;
    inputs.reserve(work->inputs.size());
    for (const void* input : work->inputs) {
      inputs.push_back(static_cast<const std::byte*>(input) +
                       first * (rows ? whole.row_stride : 1) * bytes);
    }
    Reduction part = whole;
    part.inputs = inputs;
    part.output =
        static_cast<std::byte*>(whole.output) + first * (rows ? whole.row_elements : 1) * bytes;
    (rows ? part.rows : part.row_elements) = count;
    reduce(part);
  }
};

void add_parts(const ReductionWork& work, std::vector<ReductionPart>& parts) {
  constexpr std::int64_t kPartBytes = 512 * 1024;  // to read
  const std::int64_t units = work.whole.rows > 1 ? work.whole.rows : work.whole.row_elements;
  if (units == 0 || work.bytes() == 0) return;
  const std::int64_t size = std::max<std::int64_t>(1, kPartBytes / (work.bytes() / units));
  for (std::int64_t first = 0; first < units; first += size) {
    parts.push_back({&work, first, std::min(size, units - first)});
  }
}

void run_reductions(const std::vector<ReductionWork>& works, Crew& crew) {
  std::int64_t bytes = 0;
  for (const ReductionWork& work : works) bytes += work.bytes();
  if (!crew.pays(bytes)) {
    for (const ReductionWork& work : works) reduce(work.whole);
    return;
  }
  std::vector<ReductionPart> parts;
  for (const ReductionWork& work : works) add_parts(work, parts);
  crew.run(parts.size(), [&parts](std::size_t i) { parts[i].run(); });
}

// `size` elements of `dim` from `offset` on, reduced over all ranks: the rest of the work in host
// memory is added to `works`.
BufferRef reduce_range(std::span<Call* const> calls, Device& device, std::int64_t dim, Range range,
                       std::vector<ReductionWork>& works) {
  const Tensor& x = *calls[0]->x;
  const Dims shape = with_size(x.shape(), dim, range.size);
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
  ReductionWork work;
  work.inputs.reserve(calls.size());
  for (const Call* call : calls) {
    work.inputs.push_back(address(*call->x) + range.offset * inner * item_bytes(x.dtype()));
  }
  work.whole = {.dtype = x.dtype(),
                .op = calls[0]->op,
                .inputs = work.inputs,
                .output = buffer->data(),
                .rows = outer,
                .row_elements = range.size * inner,
                .row_stride = full * inner};
  works.push_back(std::move(work));
  return buffer;
}

void all_reduce(std::span<Call* const> calls, Crew& crew) {
  const Tensor& x = *calls[0]->x;
  const Range all{0, x.dim() == 0 ? 1 : x.size(0)};
  std::vector<ReductionWork> works;
  const BufferRef result = reduce_range(calls, *calls[0]->device, 0, all, works);
  run_reductions(works, crew);
  for (Call* call : calls) call->result = result;
}

void reduce_scatter(std::span<Call* const> calls, Crew& crew) {
  std::vector<ReductionWork> works;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const Range range = piece_of(calls[i]->lengths, i);
    calls[i]->result = reduce_range(calls, *calls[i]->device, calls[i]->dim, range, works);
  }
  run_reductions(works, crew);
}

// Copies of pieces, none of which overlap.
class Copies {
 public:
  void add(Tensor to, Tensor from) {
    if (from.numel() == 0 || to.device()->shape_only()) return;
    bytes_ += from.size_bytes();
    pieces_.push_back({std::move(to), std::move(from)});
  }
  void run(Crew& crew) {
    const bool on_host = !pieces_.empty() && stream_of(*pieces_[0].to.device()) == nullptr;
    if (!on_host || !crew.pays(bytes_)) {
      for (const Piece& piece : pieces_) copy(piece.to, piece.from);
      return;
    }
    // Not through functions that count writes to a Storage: it belongs to one rank at a time.
    crew.run(pieces_.size(), [this](std::size_t i) {
      const auto& [to, from] = pieces_[i];
      strided_copy({address(to), to.stride()}, {address(from), from.stride()}, from.shape(),
                   item_bytes(from.dtype()));
    });
  }

 private:
  struct Piece {
    Tensor to;
    Tensor from;
  };
  std::vector<Piece> pieces_;
  std::int64_t bytes_ = 0;
};

BufferRef gathered(std::span<Call* const> calls, const Call& taker, Crew& crew) {
  const Dims shape = with_size(calls[0]->x->shape(), taker.dim, taker.lengths.total());
  const Tensor result = empty(*taker.device, shape, calls[0]->x->dtype());
  Copies copies;
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    copies.add(cut(result, taker.dim, {offset, taker.lengths[i]}), *calls[i]->x);
    offset += taker.lengths[i];
  }
  copies.run(crew);
  return result.storage()->buffer();
}

void all_gather(std::span<Call* const> calls, Crew& crew) {
  const BufferRef result = gathered(calls, *calls[0], crew);
  for (Call* call : calls) call->result = result;
}

void gather(std::span<Call* const> calls, Crew& crew) {
  Call& taker = *calls[static_cast<std::size_t>(calls[0]->root)];
  taker.result = gathered(calls, taker, crew);
}

void all_to_all(std::span<Call* const> calls, Crew& crew) {
  Copies copies;
  std::vector<Tensor> results;
  for (std::size_t to = 0; to < calls.size(); ++to) {
    Call& taker = *calls[to];
    const Lengths joined_lengths = taker.concat_lengths();
    Dims shape = taker.x->shape();
    shape[static_cast<std::size_t>(taker.dim)] = taker.lengths[to];
    shape[static_cast<std::size_t>(taker.concat_dim)] = joined_lengths.total();
    const Tensor result = empty(*taker.device, shape, taker.x->dtype());
    std::int64_t offset = 0;
    for (std::size_t from = 0; from < calls.size(); ++from) {
      const Range joined{offset, joined_lengths[from]};
      const Range range = piece_of(calls[from]->lengths, to);
      copies.add(cut(result, taker.concat_dim, joined), cut(*calls[from]->x, taker.dim, range));
      offset += joined.size;
    }
    results.push_back(result);
  }
  copies.run(crew);
  // Not before: a Buffer with another holder must not be written.
  for (std::size_t i = 0; i < calls.size(); ++i) calls[i]->result = results[i].storage()->buffer();
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

// The sender is first; the receiver may give the message another shape.
void pass_message(std::span<Call* const> calls) {
  const Tensor& x = *calls[0]->x;
  calls[1]->result = whole_buffer(x);
  calls[0]->result = empty(*calls[0]->device, Dims{0}, x.dtype()).storage()->buffer();
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

void execute(std::span<Call* const> calls, Crew& crew) {
  // The last rank to enter works for all: memory on the way is not its own. Results are counted
  // where ranks take them.
  const UncountedScope scope;
  switch (calls[0]->kind) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kReduce:
      return all_reduce(calls, crew);
    case CollectiveKind::kAllGather:
      return all_gather(calls, crew);
    case CollectiveKind::kReduceScatter:
      return reduce_scatter(calls, crew);
    case CollectiveKind::kAllToAll:
      return all_to_all(calls, crew);
    case CollectiveKind::kBroadcast:
      return broadcast(calls);
    case CollectiveKind::kScatter:
      return scatter(calls);
    case CollectiveKind::kGather:
      return gather(calls, crew);
    case CollectiveKind::kPermute:
      return permute(calls);
    case CollectiveKind::kSend:
    case CollectiveKind::kRecv:
      return pass_message(calls);
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
