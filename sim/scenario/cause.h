// cause.h - the reason why a value is wrong: a sentence for people, and an id for programs. The ids
// are a closed list (sim/contract.md).
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

inline constexpr std::string_view kOnPieces = "cause.on-pieces";
inline constexpr std::string_view kTermAdded = "cause.term-added";
inline constexpr std::string_view kReplicaCounted = "cause.replica-counted";
inline constexpr std::string_view kUnevenMean = "cause.uneven-mean";
inline constexpr std::string_view kMissingSum = "cause.missing-sum";
inline constexpr std::string_view kWrongGroup = "cause.wrong-group";
inline constexpr std::string_view kOtherReduction = "cause.other-reduction";
inline constexpr std::string_view kFactor = "cause.factor";
inline constexpr std::string_view kOneFactor = "cause.one-factor";
inline constexpr std::string_view kOtherLabel = "cause.other-label";
inline constexpr std::string_view kOtherChunk = "cause.other-chunk";
inline constexpr std::string_view kOneMask = "cause.one-mask";
inline constexpr std::string_view kOwnDraws = "cause.own-draws";
inline constexpr std::string_view kUnequalNumber = "cause.unequal-number";
inline constexpr std::string_view kSomeRanks = "cause.some-ranks";
inline constexpr std::string_view kPartedBranch = "cause.parted-branch";
inline constexpr std::string_view kNone = "cause.none";

inline constexpr std::array kAll = {
    kOnPieces,       kTermAdded,     kReplicaCounted, kUnevenMean,   kMissingSum, kWrongGroup,
    kOtherReduction, kFactor,        kOneFactor,      kOtherLabel,   kOtherChunk, kOneMask,
    kOwnDraws,       kUnequalNumber, kSomeRanks,      kPartedBranch, kNone};

}  // namespace causes

}  // namespace shardlab
