// printed_text.h - output of the ranks of a run, put together: a line that all ranks print is
// written once.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sim/run/run.h"

namespace shardlab {

/// One line of output, and the ranks that printed it.
struct PrintedBy {
  int line = 0;  ///< of the source
  std::string text;
  std::vector<std::size_t> who;  ///< indices into the argument of merged_prints, ascending
};

/// The prints of several ranks (or classes of ranks) in an order that is that of each of them.
/// Texts that ranks print at the same place, the same number of times they came there, belong
/// together.
std::vector<PrintedBy> merged_prints(const std::vector<std::vector<PrintedLine>>& prints);

/// "rank 3", "ranks 0,2,3"; of classes of ranks "dp 0-7, tp 0; dp 0-7, tp 2". `who` as in
/// PrintedBy.
std::string printers_text(const Run& run, const std::vector<std::size_t>& who);

///   fails  Value: the scenario has no rank of this number, which is not negative
void check_printer(const Scenario& scenario, std::int64_t rank);
/// The index of `rank`'s prints in run.printed.
///   fails  Unsupported: of this many ranks only the first of each class is known
std::size_t printer_of(const Run& run, std::int64_t rank);

}  // namespace shardlab
