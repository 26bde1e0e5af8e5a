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
#include "mesh/dtensor.h"
#include "sim/schedule/schedulers.h"

namespace shardlab::testing {

// The expected value for a value on a mesh in a test.

/// Whole, plain values. Made on a rank.
struct Reference {
  enum class Kind : std::uint8_t {
    kProgram,  ///< a single-device run of the program: exact values must agree bitwise
    kGiven,    ///< a value from elsewhere: the envelope holds for floats
  };

  Reference() = default;
  /// A plain tensor: of f64 for the true value, or of the dtype that is compared.
  Reference(DTensor value);  // NOLINT(google-explicit-constructor)
  /// Row-major, in the shape of the compared value.
  Reference(std::vector<double> values);  // NOLINT(google-explicit-constructor)

  Kind kind = Kind::kGiven;
  DTensor single;              ///< in the dtype that is compared; undefined: `exact`, rounded
  DTensor exact;               ///< floats in f64, complex in c128
  std::vector<double> values;  ///< instead of both
};

/// f64 for floats, c128 for complex; others are left as they are.
/// Called on a rank; the result is a new tensor unless the dtype stays.
DTensor widened(const DTensor& plain);

/// A leaf with memory of its own, which requires a gradient if the argument does.
DTensor fresh(const DTensor& plain);

/// The single-device run of `program`: once as it is, once on widened arguments, which makes all of
/// it f64 as long as its dtypes follow its arguments. `plain` are its arguments, equal on all
/// ranks. Each run has copies: it may ask for gradients of them, and train them.
template <typename Program, typename... Tensors>
Reference one_device(Program&& program, const Tensors&... plain) {
  Reference reference;
  reference.kind = Reference::Kind::kProgram;
  const auto run = [&](const auto&... arguments) { return program(arguments...); };
  reference.single = run(fresh(plain)...);
  reference.exact = run(widened(fresh(plain))...);
  return reference;
}

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
