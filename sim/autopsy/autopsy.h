// autopsy.h - the rank that parted from the others, from the dumps of a job that hangs. Never the
// first rank of a list: the word of most ranks with the same program is right.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/autopsy/flight_dump.h"
#include "sim/files/json.h"

namespace shardlab {

enum class AutopsyKind : std::uint8_t {
  kHealthy,
  kDeviceStuck,  ///< all have called, and it does not end
  kOtherKind,
  kSkipped,
  kExtra,
  kOtherSize,
  kOtherDtype,
  kStopped,
  kNoDump,
  kCrossed,
  kLostSend,
};
/// "other_kind".
std::string_view to_string(AutopsyKind kind);

/// Ranks that wait in one group.
struct AutopsyWait {
  std::string group;
  std::vector<std::int64_t> ranks;
  std::vector<std::int64_t> awaited;  ///< members that have not come
};

/// A rank of a circle of waits, and its call.
struct AutopsyLink {
  std::int64_t rank = 0;
  std::int32_t word = -1;
  std::int64_t place = 0;  ///< as Autopsy::our_place
};

/// Ranks of another role that parted, too, later.
struct AutopsyParting {
  AutopsyKind kind = AutopsyKind::kHealthy;
  std::vector<std::int64_t> culprits;
  std::int32_t word = -1;
};

struct Autopsy {
  AutopsyKind kind = AutopsyKind::kHealthy;
  std::vector<std::int64_t> culprits;  ///< ascending; more than one: a tie, or several
  bool tie = false;                    ///< nobody says which of two sides is right
  /// Words of the culprit and of the others at the place where they part; -1: none.
  std::int32_t theirs = -1, ours = -1;
  std::int64_t their_place = 0, our_place = 0;  ///< among calls of the group, from 1
  std::int32_t before = -1;                     ///< the last word of all
  std::vector<std::int64_t> others;             ///< ranks of the culprit's role that agree
  std::string group, op;
  std::int64_t line = 0;              ///< 0: not known
  std::vector<std::int64_t> missing;  ///< ranks without a dump
  std::vector<AutopsyWait> waits;
  std::vector<AutopsyParting> also;
  bool left_habit = false;          ///< `ours` is what the culprit always called there
  std::vector<AutopsyLink> circle;  ///< ranks that wait for each other
  std::int64_t slowest = -1;        ///< kDeviceStuck: the member that started last
  std::size_t ranks = 0, groups = 0, entries = 0;
  /// A rank at the place, and its record there; -1: none.
  std::int64_t rank = -1, record = -1;
  std::vector<std::string> recorded;  ///< lines on a recorded program
  std::vector<std::string> notes;

  std::string text(const FlightWords& words) const;
  Json json(const FlightWords& words) const;
};

/// `dumps` in any order.
///   fails  Value: two dumps of one rank; a dump of another job, by name
Autopsy autopsy_of(std::vector<FlightDump> dumps, const FlightWords& words);
/// Reads the files, or all files of the folders, on `workers` threads. Those of a folder that are
/// no dumps, and whose names end in no rank, are noted.
std::vector<FlightDump> read_flight_dumps(const std::vector<std::string>& paths, FlightWords& words,
                                          std::size_t workers, std::vector<std::string>& notes);

}  // namespace shardlab
