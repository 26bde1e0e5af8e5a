// parting_branches.h - branches around collectives that follow from a rank's own values: with other
// numbers the ranks take different branches, and some wait forever. Private to the files that run
// scenarios.
#pragma once

#include <string>
#include <vector>

#include "sim/language/run/def_use.h"
#include "sim/run/recording.h"
#include "sim/scenario/cause.h"

namespace shardlab {

/// One sentence per branch or loop whose condition names a plain tensor or a number that differed
/// between ranks, and which contains a collective; branches on the rank's number are meant by the
/// program and left out. Recordings by global rank.
std::vector<std::string> parting_branches(const ast::Program& program, const DefUse& flow,
                                          const std::vector<const Recording*>& ranks);

/// The branch or loop at which ranks that wait for each other first took different ways, with its
/// numbers if it names any; empty if there is none, or if the program itself branches on the rank's
/// number.
Cause parted_at(const ast::Program& program, const DefUse& flow,
                const std::vector<const Recording*>& ranks);

}  // namespace shardlab
