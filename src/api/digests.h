// digests.h - the results of a program, as bits that can be compared with those of another run.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "mesh/dtensor.h"

namespace shardlab {

/// Prints, on rank 0, a line for each value: its name, its type, and a digest of the bits that all
/// ranks hold of it. Then "digests" and, for each rank, that of all values in order: equal to
/// "digests" of a graph whose values are these. Every rank of the world calls this.
///   fails  Runtime: the ranks pass other names or other numbers of values
void print_digests(const std::vector<std::pair<std::string, DTensor>>& values);

}  // namespace shardlab
