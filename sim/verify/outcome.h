// outcome.h - the table of outcomes: what a value of a program is worth, from facts about it. Pure.
// A row an outcome; the first row that holds counts.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace shardlab {

enum class Outcome : std::uint8_t {
  /// agrees with one device: as replicas, as pieces, or as terms where terms are meant
  kVerified,
  /// each rank holds a term, and nothing adds them
  kLeftAsTerms,
  /// one device computes it in another way, and all that is made of it is right
  kOnTheWay,
  kPartOfCause,  ///< no outcome of its own
  /// one device runs another program before it; `[reference]` decides
  kNoCounterpart,
  /// ranks hold other values than one device, and the rank's number, or a number of the text that
  /// is a size of the mesh, is before it
  kDiffers,
  /// there is nothing to compare it with
  kNotCompared,
  /// is not what one device, or `[reference]`, has
  kWrong,
};
inline constexpr std::size_t kOutcomes = 8;

/// The facts about one value, as it is at its last write.
struct ValueFacts {
  /// Q1: what the ranks' values are of the one that the world of one has, or [reference].
  enum class Fits : std::uint8_t { kNoValue, kNo, kReplicas, kPieces, kTerms };
  /// Q2: what it is. A sink is left at the end, and nothing is made of it.
  enum class Role : std::uint8_t { kOnTheWay, kSink, kClaim };

  bool comparable = true;
  Fits fits = Fits::kNo;
  bool by_order = false;  ///< replicas that differ by the order of additions
  bool averages = false;  ///< its terms are those of an average
  bool alike = false;     ///< all ranks hold the same
  Role role = Role::kOnTheWay;
  bool parameter = false;        ///< all ranks held it alike before an update
  bool starts_backward = false;  ///< backward begins at it
  bool claims_terms = false;     ///< a label that says P(op)
  bool given = false;            ///< a name of [reference], which decides
  bool leads_right = false;      ///< every claim and sink that is made of it is right
  /// Q3: what one device cannot have, before it.
  bool by_rank = false;        ///< a rank, coordinate or seed
  bool other_program = false;  ///< messages, a cut element, an entry of a list: another program
  bool literal = false;        ///< a number of the text is a size of the mesh

  bool agrees() const { return fits != Fits::kNoValue && fits != Fits::kNo; }
  bool whole_or_pieces() const { return fits == Fits::kReplicas || fits == Fits::kPieces; }
};

struct OutcomeRow {
  char letter;
  Outcome outcome;
  bool fails, fails_strictly;
  bool (*holds)(const ValueFacts&);
};

/// The table, in the order in which its rows are asked.
extern const std::array<OutcomeRow, 14> kOutcomeTable;
const OutcomeRow& outcome_of(const ValueFacts& facts);

/// "outcome.differs", of the closed list in sim/ids.md.
std::string_view id_of(Outcome outcome);
/// "differs", as people read it.
std::string_view word_of(Outcome outcome);
/// "no_counterpart": a key in counts.
std::string key_of(Outcome outcome);

}  // namespace shardlab
