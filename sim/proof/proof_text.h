// proof_text.h - the results of proofs of ops, for people and for machines.
#pragma once

#include <string>
#include <vector>

#include "sim/proof/op_proof.h"

namespace shardlab {

/// The number of calls and their outcomes, of all ops together.
struct ProofSums {
  std::int64_t tried = 0, right = 0, silent = 0, wrong = 0, refused = 0;
  std::int64_t rows_judged = 0;
  std::int64_t unproven = 0;  ///< ops with a sample that one device refuses
  FormTally forms;
  std::int64_t median_forms = 0;  ///< of the ops that have some
};
ProofSums sums_of(const std::vector<OpProof>& proofs);

/// A line an op; below it faults as command lines, reasons of refusals, and, if `details` is set,
/// the rows that are missing.
std::string proof_text(const std::vector<OpProof>& proofs, bool details);
/// One array, an object an op, in the same order.
std::string proof_json(const std::vector<OpProof>& proofs);

}  // namespace shardlab
