// rank_checks.h - checks that many ranks make at one place of a test, and their outcome. Knows no
// test framework; sim/install/shardlab/testing.h reports to doctest.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/rank_context.h"
#include "dispatch/all_ops.h"
#include "sim/schedule/schedulers.h"
#include "sim/testing/reference.h"

namespace shardlab::testing {

/// One CHECK in the text of a test.
struct CheckSite {
  enum class Kind : std::uint8_t { kCheck, kCheckFalse, kRequire, kRequireFalse, kClose };
  // Texts of the program's own literals, which live as long as the process.
  const char* file = "";
  int line = 0;
  const char* expression = "";  ///< as written
  Kind kind = Kind::kCheck;
};

/// The findings of all ranks and passes at one place.
struct SiteReport {
  CheckSite site;
  bool passed = true;
  std::string text;  ///< "1 == 2 on ranks 0-3", a line for each text; empty when passed
};

/// A body that ran on every rank.
struct MeshRun {
  std::vector<SiteReport> checks;  ///< by place
  /// Errors that ranks threw, merged; else the first call whose result is not the op's on its own
  /// operands (B-13). Empty when there is neither.
  std::string error;
};

using MeshBody = std::function<void(RankContext& rank, const MeshLayout* mesh)>;

/// Runs `body` on each rank of the mesh "dp=2, tp=4", over `ops`. One run at a time in a process.
///   fails  Value: a text that names no mesh
MeshRun run_on_mesh(std::string_view mesh, const MeshBody& body,
                    SchedulerKind scheduler = SchedulerKind::kPool,
                    const OpRegistry& ops = all_ops());
/// Over a program's own ops (ops_with), which outlive the process's tests.
inline MeshRun run_on_mesh(std::string_view mesh, const OpRegistry& ops, const MeshBody& body) {
  return run_on_mesh(mesh, body, SchedulerKind::kPool, ops);
}

/// True when the caller is a rank of a run_on_mesh().
bool on_rank();

// Called on a rank of a run_on_mesh(). A kRequire that fails ends this rank only; the other ranks
// continue until they wait for it.
void check(const CheckSite& site, bool passed, const std::string& text);
/// Compared when all ranks have ended: the whole value, put together from the pieces of all ranks
/// of its mesh, against `reference` of the first of them. Partial values are reduced.
void check_close(const CheckSite& site, const DTensor& got, const Reference& reference);

}  // namespace shardlab::testing
