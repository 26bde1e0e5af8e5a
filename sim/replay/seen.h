// seen.h - facts about the values of a replay that judgements need, without the values: filled in
// by the ranks while they run, read when all have ended.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "mesh/dtensor.h"
#include "sim/replay/fingerprint.h"

namespace shardlab {

/// A rank's part of a value.
struct SeenPart {
  bool there = false;  ///< the rank has the value
  Dims shape;          ///< of a DTensor the whole
  DType dtype = DType::kF32;
  Fingerprint print;                ///< of a plain value, or of a term
  const Storage* memory = nullptr;  ///< equal for views of one memory, while both live
};

/// A value that an event gave, or looked at.
struct SeenValue {
  std::vector<SeenPart> parts;       ///< by rank; empty: no rank came to the event
  bool terms = false;                ///< a DTensor with a pending reduction
  std::optional<Fingerprint> whole;  ///< of a DTensor
  std::string fault;  ///< ranks hold different replicas, or a piece of a wrong shape; else empty
};

/// The moves, collectives and placements of our call, as rank 0 saw them.
struct SeenRule {
  std::vector<RecordedMove> moves;
  std::vector<RecordedCollective> collectives;
  std::vector<std::optional<Placements>> placements;  ///< by result; none: not a DTensor
};

/// The sum of magnitudes of a rank's part of a value; 0 for a piece that an earlier rank has, too.
struct SeenSize {
  std::int32_t number = -1;
  double size = 0;
  bool adds_up = false;  ///< the parts of all ranks make the value
};

/// One event as a rank came through it.
struct SeenOnRank {
  bool ran = false;
  bool skipped = false;   ///< an operand does not exist
  bool supposed = false;  ///< shapes alone: its results are those of the file
  std::optional<Error> error;
  std::vector<SeenSize> sizes;  ///< of operands whose memory was written through others
};

struct SeenEvent {
  std::vector<SeenOnRank> ranks;  ///< one entry for an event of one rank
  std::vector<SeenValue> values;  ///< results, then written ones
  std::optional<SeenRule> rule;
  std::uint64_t order = 0;  ///< messages come before what they are needed for
};

/// Values of which each rank has a part. The parts of a DTensor are put together by the rank that
/// comes last; no part is kept longer.
class SeenValues {
 public:
  /// `value` has an entry for each rank that takes part, of which `first` is the first; `ranks`: of
  /// the world.
  void add(SeenValue& value, std::size_t first, std::size_t rank, std::size_t ranks,
           const DTensor& part);

 private:
  struct Open {
    const SeenValue* value;
    std::size_t missing;
    std::vector<DTensor> pieces;       // by rank
    std::vector<FingerprintSum> sums;  // likewise, in place of pieces that no other rank has
    std::string fault;
  };
  std::mutex mutex_;
  std::vector<Open> open_;  // DTensors of which parts are missing
};

/// Each rank writes to its own entries.
class SeenTable {
 public:
  SeenTable(const RecordedProgram& program, std::size_t ranks);

  SeenEvent& at(std::size_t event) { return events_[event]; }
  const SeenEvent& at(std::size_t event) const { return events_[event]; }
  SeenOnRank& on_rank(std::size_t event, std::size_t rank);
  /// The ranks that play an event: first, one past the last. None with shapes alone, where only the
  /// first rank is played.
  std::pair<std::size_t, std::size_t> ranks_of(std::size_t event) const;

  /// A rank's part of the value at `index`.
  void add(std::size_t event, std::size_t index, std::size_t rank, const DTensor& value) {
    values_.add(events_[event].values[index], ranks_of(event).first, rank, ranks_, value);
  }
  void came_to(std::size_t event, bool sends);

 private:
  const RecordedProgram& program_;
  const std::size_t ranks_;
  std::vector<SeenEvent> events_;
  SeenValues values_;
  std::mutex mutex_;
  std::uint64_t order_ = 0;
};

/// The values that an event gives: results, then written ones, without None.
struct Given {
  const EventValue* value;
  std::string_view list;  ///< "out" or "mut"
  std::size_t index;      ///< in its list
  std::string field() const { return fmt::format("{}[{}]", list, index); }
  bool written() const { return list == "mut"; }
};
std::vector<Given> given_by(const RecordedEvent& event);

}  // namespace shardlab
