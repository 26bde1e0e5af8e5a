// literal_size.h - a number of the program's text that is the size of a piece: one device takes it,
// too, and agrees with whatever it makes. Private to the files that verify and judge.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "sim/language/syntax/ast.h"
#include "sim/verify/labels/call_log.h"

namespace shardlab {

/// A number, and why one device can not tell whether it is meant.
struct LiteralSize {
  int line = 0;
  std::string text;
};

/// Whether something is divided by a number that stands in the text; without running the program.
bool divides_by_numbers(const ast::Program& program);

/// The first call that divides a sum over pieces by the number of elements which some ranks add up,
/// and not by that of all. Sizes that the program asks for are not meant: one device has others.
/// Arguments as of for_each_matched.
std::optional<LiteralSize> literal_size(const CallLog& ranks, const CallLog& alone,
                                        const MeshLayout& layout, double relative);

/// The line at which a value that is so many times too large is divided by that count: by one of a
/// rank's calls on this very value, or, of the number that is read from it, in the text. `name`:
/// the value's own.
std::optional<int> line_that_divides(const ast::Program& program,
                                     const std::vector<LoggedCall>& calls, const std::string& name,
                                     const GlobalValue& value, double count);

/// Names whose value follows, by the text, from what the statements of a line compute; ".grad"
/// where gradients do. Names inside of a def are without the def's.
std::set<std::string> follow_from(const ast::Program& program, int line);

}  // namespace shardlab
