// explain.h - the mistake that makes one tensor of another: applied to the first, it gives the
// second exactly.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/checkpoint/edited.h"

namespace shardlab {

struct CheckpointMistake {
  std::string id;                 ///< "rank-order" (sim/ids.md)
  std::string told;               ///< its numbers: "dim=0; ranks=4; order=1, 0, 3, 2"
  std::vector<Edit> edits;        ///< they give the first tensor again; none: some of it is lost
  std::vector<std::string> also;  ///< other mistakes that give the same
};

/// Two tensors of one name and one type with all their elements.
struct TensorPair {
  std::string name;
  const StoredType* type;
  Dims shape_a, shape_b;
  std::string a, b;
  /// Names tensors of A that have these elements so many elements before where they end, or, with
  /// a distance below 0, behind where they begin; empty: none has. Null: no tensors beside it.
  std::function<std::string(std::string_view elements, std::int64_t distance)> beside = {};
  /// Distances of flat shifts that were found, which small tensors are tried with.
  std::set<std::int64_t>* shifts = nullptr;
};

/// The mistake that gives all of B; empty if no one does. Memory besides the pair: 40 MiB.
/// Time: some passes over both, however much repeats in them.
std::optional<CheckpointMistake> explain(const TensorPair& pair);

/// Mistakes that an order of the indices of one dim tells, or zeros in place of some.
void find_slice_mistakes(const TensorPair& pair, std::size_t dim,
                         std::vector<CheckpointMistake>& found);

/// A hash of bytes; of a text in parts, if all but the last have a multiple of 16 bytes.
std::uint64_t hash_words(std::uint64_t seed, std::string_view bytes);
/// A hash of each index along a dim.
std::vector<std::uint64_t> slice_hashes(const std::string& elements, const Dims& shape,
                                        std::int64_t item, std::size_t dim);

/// Elements of B that differ from A, by the places of their values.
struct DifferenceCounts {
  std::int64_t differ = 0;
  std::int64_t moved = 0;  ///< A has them, at another place
  std::int64_t twice = 0;  ///< of these: B has them at their own place, too
  std::int64_t zero = 0;
};
/// Counts the elements that differ; both tensors have one shape.
DifferenceCounts count_differences(const TensorPair& pair);
/// Indices of the first dim with elements that differ: "6:12+18".
std::string wrong_indices(const TensorPair& pair);

}  // namespace shardlab
