// implicit_moves.h - the redistributions that ops asked for and that communicate: the list of
// `implicit = "warn"`.
#pragma once

#include <string>
#include <vector>

#include "sim/log/trace.h"
#include "sim/run/run.h"

namespace shardlab {

/// Equal moves of one argument of one op on one source line.
struct ImplicitMove {
  Pass pass = Pass::kForward;
  int line = 0;
  std::string op;        ///< "aten::mm"
  std::string argument;  ///< its name in the schema
  std::string source, target;
  std::int64_t times = 0;
  double sent_bytes = 0;  ///< by this rank, all times together
};

/// In order of their first appearance.
std::vector<ImplicitMove> implicit_moves(const Run& run);

/// Uses of replicated numbers of other meshes by the reporting rank.
std::int64_t foreign_numbers(const Run& run);

/// A sentence for each: its place, the argument, its placements before and after, counts and bytes.
/// Empty unless the scenario asks for warnings.
std::vector<std::string> implicit_warnings(const Run& run);

}  // namespace shardlab
