// cause.h - the reason why a value is wrong: a sentence for people, and an id for programs. The ids
// are a closed list (sim/ids.md).
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace shardlab {

/// Without an id and a text: no cause was searched.
struct Cause {
  std::string_view id;  ///< "cause.on-pieces", one of causes
  std::string text;     ///< one sentence without its period
  int line = 0;         ///< of the program, named in the sentence; 0: that of the value
  bool empty() const { return text.empty(); }
};

namespace causes {

/// an op on plain pieces runs along the dim that a mesh dim cuts: softmax, norm, mean, chunk,
/// shift, a view with a size of the whole; or a tensor is made alike for pieces that differ
inline constexpr std::string_view kOnPieces = "cause.on-pieces";
/// a value that is equal on all ranks is added to a term of a sum, and counts once a rank: a bias
/// before the sum
inline constexpr std::string_view kTermAdded = "cause.term-added";
/// a number that is equal on all ranks is added to each rank's own before a sum, and counts once a
/// rank: a replicated gradient in a global norm
inline constexpr std::string_view kReplicaCounted = "cause.replica-counted";
/// means over unequal counts are averaged
inline constexpr std::string_view kUnevenMean = "cause.uneven-mean";
/// a term is taken for the whole: a reduction is missing, also inside of an update
inline constexpr std::string_view kMissingSum = "cause.missing-sum";
/// a collective over another mesh dim than the one along which ranks hold terms
inline constexpr std::string_view kWrongGroup = "cause.wrong-group";
/// terms of one reduction are combined by another one: a maximum of sums
inline constexpr std::string_view kOtherReduction = "cause.other-reduction";
/// a factor that is the size of a mesh dim, or one for each rank
inline constexpr std::string_view kFactor = "cause.factor";
/// one factor for all ranks and elements that no single size explains; not reported for a single
/// number
inline constexpr std::string_view kOneFactor = "cause.one-factor";
/// another dim, another placement or another cutting order fits what the ranks hold; or pieces are
/// unequal, and `shape=` is missing
inline constexpr std::string_view kOtherLabel = "cause.other-label";
/// ranks hold each other's pieces, or all the same one; a whole tensor is cut by the size of a
/// piece; the right rows are in another order, or rows of a table are taken for others
inline constexpr std::string_view kOtherChunk = "cause.other-chunk";
/// all ranks drew the same random mask
inline constexpr std::string_view kOneMask = "cause.one-mask";
/// each rank drew other numbers, from a random state of its own
inline constexpr std::string_view kOwnDraws = "cause.own-draws";
/// a number was read from a piece and is not the same on all ranks
inline constexpr std::string_view kUnequalNumber = "cause.unequal-number";
/// nothing fits: the text names ranks whose pieces are right
inline constexpr std::string_view kSomeRanks = "cause.some-ranks";
/// ranks took different ways at a branch or loop, and wait for each other or meet in different
/// collectives; or a branch on the rank, without which the value is right
inline constexpr std::string_view kPartedBranch = "cause.parted-branch";
/// nothing fits
inline constexpr std::string_view kNone = "cause.none";

inline constexpr std::array kAll = {
    kOnPieces,       kTermAdded,     kReplicaCounted, kUnevenMean,   kMissingSum, kWrongGroup,
    kOtherReduction, kFactor,        kOneFactor,      kOtherLabel,   kOtherChunk, kOneMask,
    kOwnDraws,       kUnequalNumber, kSomeRanks,      kPartedBranch, kNone};

}  // namespace causes

}  // namespace shardlab
