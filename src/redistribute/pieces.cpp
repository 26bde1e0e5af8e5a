// Pieces along one dim. Plain shards are contiguous ranges in rank order, so that gathered pieces
// are the whole already; strided ones are lists of runs, which assemble() puts back to their
// places. If both ends cut the same dim, cut_again() takes this rank's new runs directly out of the
// gathered old pieces.
#include "redistribute/pieces.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

namespace shardlab {
namespace {

DimMap runs_of(std::int64_t length, const Placement& shard, std::int64_t count,
               std::int64_t index) {
  const Cut cut{shard, count, index};
  return dim_map(length, {&cut, 1});
}

}  // namespace

PieceLengths piece_lengths(std::int64_t length, std::int64_t count, const Placement& shard) {
  PieceLengths lengths;
  const auto pieces = static_cast<std::size_t>(count);
  if (shard.is_plain_shard()) {  // full pieces, at most one that is shorter, empty ones
    const std::int64_t chunk = chunk_of(length, count, 0).size;
    const std::int64_t full = chunk == 0 ? 0 : length / chunk;
    lengths.resize(pieces, 0);
    std::fill_n(lengths.begin(), full, chunk);
    if (full < count) lengths[static_cast<std::size_t>(full)] = length - full * chunk;
    return lengths;
  }
  lengths.reserve(pieces);
  for (std::int64_t index = 0; index < count; ++index) {
    lengths.push_back(runs_of(length, shard, count, index).local_size());
  }
  return lengths;
}

namespace {

PieceLengths lengths_of(std::int64_t length, std::span<const std::int64_t> counts,
                        const Placement& shard) {
  PieceLengths lengths = piece_lengths(length, counts[0], shard);
  for (const std::int64_t count : counts.subspan(1)) {
    PieceLengths cut;
    for (const std::int64_t piece : lengths) {
      for (const std::int64_t part : piece_lengths(piece, count, shard)) cut.push_back(part);
    }
    lengths = std::move(cut);
  }
  return lengths;
}

// Lengths of large groups, kept for all ranks of the process.
class KeptLengths {
 public:
  std::shared_ptr<const KnownLengths> find(std::int64_t length,
                                           std::span<const std::int64_t> counts,
                                           const Placement& shard) {
    constexpr std::size_t kMost = 64;
    const std::int64_t factor = shard.is_strided_shard() ? shard.split_factor : 0;
    Key key(length, {counts.begin(), counts.end()}, factor);
    const std::lock_guard lock(mutex_);
    if (kept_.size() >= kMost && !kept_.contains(key)) kept_.clear();
    auto& known = kept_[std::move(key)];
    if (known) return known;
    const PieceLengths lengths = lengths_of(length, counts, shard);
    known = std::make_shared<const KnownLengths>(
        std::vector<std::int64_t>(lengths.begin(), lengths.end()));
    return known;
  }

 private:
  using Key = std::tuple<std::int64_t, std::vector<std::int64_t>, std::int64_t>;
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<const KnownLengths>> kept_;
};

}  // namespace

PieceList::PieceList(std::int64_t length, std::span<const std::int64_t> counts,
                     const Placement& shard) {
  constexpr std::int64_t kFew = 256;
  if (product(counts) <= kFew) {
    few_ = lengths_of(length, counts, shard);
    return;
  }
  static KeptLengths kept;
  many_ = kept.find(length, counts, shard);
}

Tensor cut_piece(const Tensor& whole, const Placement& shard, std::int64_t count,
                 std::int64_t index) {
  const auto dim = static_cast<std::size_t>(shard.dim);
  if (shard.is_plain_shard()) {
    const Chunk chunk = chunk_of(whole.size(dim), count, index);
    return clone_contiguous(whole.narrow(dim, chunk.offset, chunk.size));
  }
  const DimMap map = runs_of(whole.size(dim), shard, count, index);
  Dims shape = whole.shape();
  shape[dim] = map.local_size();
  const Tensor piece = empty(*whole.device(), shape, whole.dtype());
  std::int64_t at = 0;
  for (const IndexRun& run : map.runs) {
    whole.device()->copy(piece.narrow(dim, at, run.size), whole.narrow(dim, run.offset, run.size));
    at += run.size;
  }
  return piece;
}

Tensor assemble(const Tensor& pieces, const Placement& shard, std::int64_t count) {
  if (shard.is_plain_shard()) return pieces;
  const auto dim = static_cast<std::size_t>(shard.dim);
  const Tensor whole = empty(*pieces.device(), pieces.shape(), pieces.dtype());
  std::int64_t at = 0;
  for (std::int64_t index = 0; index < count; ++index) {
    for (const IndexRun& run : runs_of(whole.size(dim), shard, count, index).runs) {
      pieces.device()->copy(whole.narrow(dim, run.offset, run.size),
                            pieces.narrow(dim, at, run.size));
      at += run.size;
    }
  }
  return whole;
}

Tensor cut_again(Tensor pieces, const Placement& from, const Placement& to, std::int64_t count,
                 std::int64_t index) {
  if (from.dim != to.dim) {
    pieces = cut_piece(pieces, to, count, index);
    return assemble(pieces, from, count);
  }
  const auto dim = static_cast<std::size_t>(to.dim);
  const DimMap wanted = runs_of(pieces.size(dim), to, count, index);
  Dims shape = pieces.shape();
  shape[dim] = wanted.local_size();
  const Tensor piece = empty(*pieces.device(), shape, pieces.dtype());
  std::int64_t at = 0;  // in `pieces`
  for (std::int64_t source = 0; source < count; ++source) {
    for (const IndexRun& held : runs_of(pieces.size(dim), from, count, source).runs) {
      std::int64_t to_at = 0;
      for (const IndexRun& run : wanted.runs) {
        const std::int64_t begin = std::max(held.offset, run.offset);
        const std::int64_t size = std::min(held.offset + held.size, run.offset + run.size) - begin;
        if (size > 0) {
          pieces.device()->copy(piece.narrow(dim, to_at + begin - run.offset, size),
                                pieces.narrow(dim, at + begin - held.offset, size));
        }
        to_at += run.size;
      }
      at += held.size;
    }
  }
  return piece;
}

}  // namespace shardlab
