// redistribute_case.h - one random redistribution: drawn from a seed, run on simulated ranks,
// judged by the definition of placements, made smaller when it fails.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "mesh/spec.h"
#include "plan/plan.h"

namespace shardlab::test {

/// Everything that decides a case; printing it is enough to repeat it.
struct RedistributeCase {
  Dims mesh;
  Dims shape;
  Placements source, target;
  ShardOrder source_order, target_order;
  DType dtype = DType::kF32;
  std::optional<PlannerKind> planner;
  bool async = false;
  std::int64_t outsiders = 0;  ///< ranks of the world that are not in the mesh
  std::uint64_t values = 0;    ///< seed of values, terms and of the ranks' places in the mesh
  /// "m0=2,m1=3|f32[7@m0]|f32[7@m1]|planner=bytes outsiders=0 values=7": read_case reads it.
  std::string text() const;
  /// Lines for a shell, in the repository's root, that show this case's plan and run it again.
  std::string commands() const;
};
/// Fails with Value when the text is not a case.
RedistributeCase read_case(const std::string& text);

/// Legal pairs only: pairs that the executor refuses have tests of their own.
RedistributeCase draw_case(std::mt19937_64& random);

/// The fault in our result, or empty. Compares every rank's piece with the piece that the target's
/// placements say it holds, bitwise unless a value was divided on the way.
std::optional<std::string> fault_of(const RedistributeCase& one);

/// Cases that are a little smaller than this one, the boldest first.
std::vector<RedistributeCase> smaller(const RedistributeCase& one);

}  // namespace shardlab::test
