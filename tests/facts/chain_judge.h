// chain_judge.h - the outcome of one run of a chain fact: it agrees with the reference, it is
// wrong, or it was refused.
#pragma once

#include <string>

#include "tests/facts/chain_run.h"

namespace shardlab {

/// Every run has exactly one of these.
enum class ChainOutcome : std::uint8_t {
  kAgrees,
  kWrong,         ///< another value, a missing gradient, a lost write, a missing or wrong error
  kRefused,       ///< an error that names the op and the placement; never on one rank
  kNotSupported,  ///< an op, an overload or a part of the language that does not exist yet
};

/// The outcome, and the details for a report.
struct ChainVerdict {
  ChainOutcome outcome = ChainOutcome::kAgrees;
  std::string field;     ///< of a wrong run: "y", "a.grad", "error"
  std::string expected;  ///< there
  std::string got;
  std::string reason;  ///< of a refused one: the op; of one not supported: what is missing
};

/// `drawn`: the run has placements, which may be refused.
ChainVerdict judge_chain(const ChainFact& fact, const ChainRun& run, bool drawn);

}  // namespace shardlab
