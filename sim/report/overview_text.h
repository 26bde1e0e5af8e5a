// overview_text.h - a run on two screens: its lines in the order in which they ran, with repeats
// folded, and a table by line.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "sim/report/line_reports.h"
#include "sim/report/paint.h"

namespace shardlab {

/// Columns of a report: those of the terminal within bounds, and kReportWidth for other readers.
inline constexpr std::size_t kReportWidth = 100, kLeastWidth = 76, kMostWidth = 160;

/// Lines of the program in the order in which they ran, forward and backward, each with the bytes a
/// rank sends; consecutive repeats are written once: "(18, 19, 20 all_reduce tp 384 B) x 2".
std::string order_text(const Run& run, const std::vector<LineVisit>& visits, std::size_t width);

/// Each line with source, operand types, verdict on its values; below it the collectives. A table
/// of more than a screen leaves out op names and folds lines that send nothing.
std::string line_table_text(const Run& run, const std::vector<LineReport>& lines, Color color,
                            std::size_t width);

/// "bitwise", "envelope", ..., the worst of all; "not verified" if none is verified, empty if there
/// is no value.
std::string worst_verdict(const Run& run, const std::vector<const ValueReport*>& values);

/// Cells with commas between them, on as many lines of at most `width` columns as they need.
std::string flowed(const std::vector<std::string>& cells, std::size_t indent, std::size_t width);

/// "68.5 us", "609 ms".
std::string time_text(double us);

/// At most `width` characters, the last three dots if some are missing.
std::string shortened(std::string_view text, std::size_t width);

}  // namespace shardlab
