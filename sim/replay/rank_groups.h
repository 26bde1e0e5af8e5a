// rank_groups.h - sets of ranks that a reduction may be over.
#pragma once

#include <string>
#include <vector>

#include "sim/recording/recorded_program.h"

namespace shardlab {

using Ranks = std::vector<std::size_t>;

/// "rank 3", "ranks 0-3", "ranks 0, 2".
std::string ranks_text(const Ranks& ranks);

/// Ranks that may reduce a value together: all groups of one kind.
struct RankGroups {
  std::string name;  ///< "tp", "ranks 0-3"
  std::vector<Ranks> groups;
  bool of_mesh = false;   ///< the name is that of a mesh dim
  bool of_value = false;  ///< the ranks that hold the value, as the ends of a pipeline
};

/// Groups of ranks whose coordinates on a mesh of this shape differ in these dims alone: bit i is
/// dim i.
RankGroups groups_along(const Dims& shape, const std::vector<std::string>& names, std::size_t dims);
/// All ranks, and the rows and columns of every grid that they make.
std::vector<RankGroups> groups_of_grids(std::size_t ranks);
/// Those of a group of the program.
RankGroups ranks_of(const RecordedGroup& group);
/// Those of a recording's mesh, those that its program uses, and of one dim those of grids.
std::vector<RankGroups> groups_of(const RecordedProgram& program);

}  // namespace shardlab
