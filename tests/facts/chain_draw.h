// chain_draw.h - a mesh and placements for the inputs of a chain fact, and the scenario with them.
// The text of that scenario is run, so that anybody can run it again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/facts/chain_fact.h"

namespace shardlab {

/// A tensor dim of an input and the mesh dims that cut it, in cutting order.
struct ChainCuts {
  std::vector<std::vector<std::size_t>> by_dim;  ///< tensor dim -> mesh dims
};

/// A mesh and how its dims cut every input.
struct ChainDraw {
  std::vector<std::int64_t> mesh;
  std::vector<ChainCuts> inputs;  ///< as ChainFact::inputs

  /// "dp=2,tp=3".
  std::string mesh_text() const;
};

/// A mesh of one rank, where every input is a replica.
ChainDraw one_rank(const ChainFact& fact);
/// 1 to 3 mesh dims of sizes 1 to 8. Each input is a replica along a mesh dim or cut by it, now and
/// then twice along one tensor dim, in either order. `seed`, the program's id and `number` decide.
ChainDraw draw_placements(const ChainFact& fact, std::uint64_t seed, std::int64_t number);

/// A scenario that runs the fact's program and leaves copies of the values to compare.
struct ChainScenario {
  std::string text;                 ///< TOML
  std::int32_t first_line = 0;      ///< of the program, in the text
  std::vector<std::string> checks;  ///< the name that holds fact.values[i] at the end
};
/// The program, then for each value that is compared `check_0 = y.detach().clone()`.
ChainScenario chain_scenario(const ChainFact& fact, const ChainDraw& draw);

}  // namespace shardlab
