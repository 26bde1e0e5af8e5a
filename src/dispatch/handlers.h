// handlers.h - ops that don't follow the common path (D-3). They receive the raw arguments.
#pragma once

#include "schema/op_row.h"

namespace shardlab {

/// Runs the handler of `row`; only for rows whose handler comes first (D-2).
Results run_handler(const OpRow& row, const Arguments& args);
/// True for rows whose handler replaces the common path altogether.
bool replaces_dispatch(const OpRow& row);

}  // namespace shardlab
