// ops_refusals.h - refusals that a call under drawn placements may get, although the single-device
// run takes it.
#pragma once

#include <span>

#include "base/error.h"
#include "tests/property/ops_case.h"

namespace shardlab::test {

struct RefusalReason {
  const char* reason;
  int most;  ///< of the calls that the property test draws
  /// Whether the error is this refusal of this call.
  bool (*is)(const OpRow& row, const OpsCase& one, const Error& error);
};

std::span<const RefusalReason> refusal_reasons();
/// Null for an error that no row of the table names, which is a fault.
const RefusalReason* refusal_reason(const OpRow& row, const OpsCase& one, const Error& error);

}  // namespace shardlab::test
