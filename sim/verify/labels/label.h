// label.h - the label of one plain value on the ranks of a mesh, found by comparing their tensors
// with the whole one of a single device. Pure: numbers in, placements out. Private to the files
// that verify.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mesh/mesh_layout.h"
#include "mesh/spec.h"
#include "sim/verify/global_value.h"

namespace shardlab {

/// One placement for each mesh dim, as a distributed tensor would have: the same value, a piece of
/// a tensor dim (also of uneven lengths), a term of a sum, average, maximum or minimum.
struct Label {
  Placements placements;
  /// The order in which mesh dims cut one tensor dim.
  ShardOrder order;
  /// The rows of the whole as the ranks' pieces have them, if in another order: swapped, dealt out
  /// in turn, in a zigzag. Each rank's own rows follow each other as they do in the whole.
  std::vector<std::int64_t> rows = {};
  bool by_rows() const { return !rows.empty(); }
  bool operator==(const Label&) const = default;
  /// All ranks hold the same.
  bool is_replicated() const;
  bool has_terms() const;
  bool is_average() const;  ///< all terms, if there are any, are those of an average
};

/// Number of elements on all ranks together up to which a label is searched.
inline constexpr std::int64_t kMostLabelled = std::int64_t{1} << 20;

/// The first label under which `held`, one for each rank of `layout` by mesh index, make `whole`;
/// replicas come before pieces, pieces before terms, the mesh's cutting order before others.
/// Numbers this close, relative to the largest, count as equal. Nothing if none fits, or if there
/// is too much to try.
std::optional<Label> label_of(const std::vector<GlobalValue>& held, const GlobalValue& whole,
                              const MeshLayout& layout, double relative);

/// The value that the ranks' parts make under a label, which label_of() has found; those of rows in
/// another order in the order of the ranks.
GlobalValue put_together(const std::vector<GlobalValue>& held, const Label& label,
                         const MeshLayout& layout);

/// Values one after the other along a dim; nothing if they do not fit.
std::optional<GlobalValue> joined(const std::vector<GlobalValue>& values, std::size_t dim);

/// True when one of the ranks holds all of `whole`, more than one number: then it is their maximum
/// or minimum only by chance, if at all.
bool one_holds_all(const std::vector<GlobalValue>& held, const GlobalValue& whole, double relative);

/// Whether terms are put together by their largest or smallest.
bool is_extreme(ReduceOp op);

/// "a sum", "an average", "a maximum"; all others are "a minimum".
const char* text_of(ReduceOp op);

/// "dp=S(0), tp=R", as from_local takes them: a dim that is cut in another order than the mesh's is
/// strided.
std::string arguments_of(const Label& label, const MeshLayout& layout);
std::string arguments_of(const DTensorSpec& spec);

/// "each rank holds its piece of dim 1, which tp cuts, and a term of a sum over dp".
std::string text_of(const Label& label, const MeshLayout& layout);

}  // namespace shardlab
