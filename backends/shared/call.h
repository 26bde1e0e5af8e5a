// call.h - calls of one round side by side: as text, and whether they fit together.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "comm/communicator.h"

namespace shardlab::backends {

using shardlab::BatchPart;
using shardlab::BytesPart;
using shardlab::Call;
using shardlab::Failure;
using shardlab::SplitPart;

/// "f32[4,3]".
std::string meta_text(const TensorMeta& meta);
/// "all_gather(f32[4,3], dim 0, lengths 4,4,2)".
std::string signature(const Call& call);

/// The parts of a call that point to nothing but texts of the program, into one of the same kind.
void copy_plain(const Call& from, Call& to);

/// The reason why two ranks of a group cannot meet in these calls: "different dtypes", ...; empty
/// when they may meet. Conditions on pairs only are left out. A static text.
std::string_view difference(const Call& a, const Call& b);
/// The difference between messages whose labels are not the same: each would get another one.
inline constexpr std::string_view kLabels = "different labels";
inline constexpr std::string_view kLengths = "different lengths";
/// True when two ranks may meet in these calls, as far as two calls can show.
inline bool compatible(const Call& a, const Call& b) { return difference(a, b).empty(); }
/// Whether rank `to` takes the data that rank `from` gives it. All calls have arrived and are
/// compatible.
bool pair_fits(std::span<const Call* const> calls, std::size_t from, std::size_t to);
/// Whether the calls of all ranks, by group rank, fit together.
bool consistent(std::span<const Call* const> calls);

}  // namespace shardlab::backends
