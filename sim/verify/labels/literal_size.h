// literal_size.h - a number of the program's text that is the size of a piece: one device uses it,
// too, and agrees with every result of it. Private to the files that verify and judge.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "sim/language/syntax/ast.h"
#include "sim/verify/labels/call_log.h"

namespace shardlab {

/// A number, and the reason why one device can not tell its meaning.
struct LiteralSize {
  int line = 0;
  std::string text;
};

/// True when something is divided by a number in the text; without running the program.
bool divides_by_numbers(const ast::Program& program);

/// The first call that divides a sum over pieces by the number of elements which some ranks add up,
/// and not by that of all. Sizes that the program asks for are not searched: one device has others.
/// Arguments as of for_each_matched.
std::optional<LiteralSize> literal_size(const CallLog& ranks, const CallLog& alone,
                                        const MeshLayout& layout, double relative);

/// The line at which a value that is this many times too large is divided by that count: by one of
/// a rank's calls on this very value, or, for the number that is read from it, in the text. `name`:
/// the value's own.
std::optional<int> line_that_divides(const ast::Program& program,
                                     const std::vector<LoggedCall>& calls, const std::string& name,
                                     const GlobalValue& value, double count);

/// Names whose value follows, by the text, from the statements of a line; ".grad" if gradients do.
/// Names inside of a def are without the def's.
std::set<std::string> follow_from(const ast::Program& program, int line);

}  // namespace shardlab
