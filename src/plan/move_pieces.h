// move_pieces.h - a move of pieces between two meshes: who receives which elements from whom. All
// ranks know all pieces, so that nobody asks. Pure.
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "mesh/local_shape.h"

namespace shardlab {

/// Elements that two pieces of a dim share: the first index in each, and the number.
struct Shared {
  std::int64_t from, to, size;
};
/// A box of elements, one Shared for each dim; without dims it is one element.
using Box = std::vector<Shared>;
std::vector<Box> shared_boxes(const LocalView& from, const LocalView& to);

/// A rank with its piece, on the part of the mesh that it sees.
struct Holder {
  std::int64_t rank;
  const DTensorSpec* spec;
  LocalView view;
  std::vector<std::size_t> ranges;  ///< numbers of those that it has, by dim
};

/// The holders of a value by rank. Ranges of a dim that pieces have are listed once, so that a
/// partner looks at ranges, not at ranks.
class Holders {
 public:
  explicit Holders(const DTensorSpec& spec);
  /// Null for a rank outside.
  const Holder* at(std::int64_t rank) const;
  /// Ranges by dim, for each piece that shares elements with `wanted`.
  std::vector<std::vector<std::size_t>> pieces_that_meet(const LocalView& wanted) const;
  /// Ascending; of one part, or of all (null). Null: there are none.
  const std::vector<std::int64_t>* ranks_with(const std::vector<std::size_t>& ranges,
                                              const MeshLayout* part) const;

  std::map<std::int64_t, Holder> by_rank;

 private:
  using Runs = std::vector<std::pair<std::int64_t, std::int64_t>>;  // offsets and sizes

  std::vector<std::size_t> ranges_that_meet(const DimMap& wanted, std::size_t dim) const;

  std::vector<std::map<Runs, std::size_t>> ranges_;  // by dim, with their numbers
  std::map<std::pair<const MeshLayout*, std::vector<std::size_t>>, std::vector<std::int64_t>>
      ranks_;
  bool several_ = false;  // a piece has several runs of a dim
};

/// The holders of both sides. Neither spec has pending reductions. A rank has the nearest holder of
/// equal pieces as its source: itself first, of two the lower; one of the mesh of the source has
/// those of its own part.
class MovePieces {
 public:
  MovePieces(const DTensorSpec& source, const DTensorSpec& target);
  std::vector<const Holder*> sources_of(const Holder& receiver) const;
  /// Ascending by rank.
  std::vector<const Holder*> receivers_of(const Holder& sender) const;

  Holders from, to;
  std::set<std::int64_t> partners;  ///< ranks that send to others or receive from them

 private:
  const std::int64_t* source_of(std::int64_t receiver,
                                const std::vector<std::size_t>& ranges) const;
};

}  // namespace shardlab
