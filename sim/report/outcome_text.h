// outcome_text.h - the outcome of a value in words: the outcome first, then how it is known.
#pragma once

#include <string>

#include "sim/verify/verify.h"

namespace shardlab {

inline constexpr std::string_view kEqual = "equal", kRounding = "rounding";

/// "equal", "rounding", "tolerance", "undecided": of a verified one.
std::string how_text(const ValueReport& value);
/// "verified, equal", "verified as pieces, rounding", "left as terms".
std::string outcome_text(const ValueReport& value);
/// The sentence with its id: "... is missing [cause.missing-sum]".
std::string cause_text(const Cause& cause);

}  // namespace shardlab
