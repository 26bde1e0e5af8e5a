// parting_branches.h - branches around collectives that follow from what a rank holds for itself:
// with other numbers the ranks take different branches, and some wait for ever. Private to the
// files that run scenarios.
#pragma once

#include <string>
#include <vector>

#include "sim/language/run/program_traits.h"
#include "sim/run/recording.h"
#include "sim/scenario/cause.h"

namespace shardlab {

/// One sentence per branch or loop whose condition names a plain tensor or a number that differed
/// between ranks, and in which a collective stands; ranks that the program itself tells apart by
/// their number are meant. Recordings by global rank.
std::vector<std::string> parting_branches(const ast::Program& program, const ProgramTraits& traits,
                                          const std::vector<const Recording*>& ranks);

/// The branch or loop at which ranks that wait for each other first took different ways, with its
/// numbers where it names any; empty where there is none, or where the program tells the ranks
/// apart by their number.
Cause parted_at(const ast::Program& program, const ProgramTraits& traits,
                const std::vector<const Recording*>& ranks);

}  // namespace shardlab
