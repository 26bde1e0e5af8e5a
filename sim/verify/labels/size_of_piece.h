// size_of_piece.h - a number of the program's text that is the size of a piece: one device uses it,
// too, and agrees with every result of it. Private to the files that verify and judge.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/verify/labels/matched_calls.h"

namespace shardlab {

/// A number, and the reason why one device cannot tell its meaning.
struct SizeOfPiece {
  int line = 0;
  std::string text;
};

/// The first call that divides a sum over pieces by the number of elements which some ranks add up,
/// and not by that of all. Sizes that the program asks for are not searched: one device has others.
std::optional<SizeOfPiece> size_of_piece(const std::vector<MatchedCall>& calls,
                                         const MeshLayout& layout);

}  // namespace shardlab
