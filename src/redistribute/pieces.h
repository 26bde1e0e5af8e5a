// pieces.h - cutting and assembling tensors along one dim, for plain and strided shards (K-2, K-6,
// K-19). Local: no communication.
#pragma once

#include <memory>
#include <span>

#include "comm/call.h"
#include "mesh/local_shape.h"
#include "tensor/device.h"

namespace shardlab {

/// One count per coordinate of a mesh dim.
using PieceLengths = InlineVector<std::int64_t, 16>;

/// Lengths of the pieces of a dim of `length` elements cut over `count` coordinates by a shard.
PieceLengths piece_lengths(std::int64_t length, std::int64_t count, const Placement& shard);

/// The same as an argument of a collective. Those of many coordinates are made once and kept
/// for the next call.
class PieceList {
 public:
  /// Cut by one mesh dim after the other, whose sizes are `counts`.
  PieceList(std::int64_t length, std::span<const std::int64_t> counts, const Placement& shard);
  operator Lengths() const { return many_ ? Lengths(*many_) : Lengths(few_); }

 private:
  PieceLengths few_;
  std::shared_ptr<const KnownLengths> many_;  // null: few_
};

/// Coordinate `index`'s piece of `whole`, an independent contiguous copy (K-6). A strided shard's
/// piece is its runs, one after another.
Tensor cut_piece(const Tensor& whole, const Placement& shard, std::int64_t count,
                 std::int64_t index);

/// The whole from all pieces in coordinate order, one after another along the shard's dim. The
/// pieces of a plain shard are the whole already and are returned unchanged.
Tensor assemble(const Tensor& pieces, const Placement& shard, std::int64_t count);

/// cut_piece(assemble(pieces, from, count), to, count, index), without memory for the whole in
/// addition to `pieces`, which it frees.
Tensor cut_again(Tensor pieces, const Placement& from, const Placement& to, std::int64_t count,
                 std::int64_t index);

}  // namespace shardlab
