// moves.h - the redistributions of a run that communicate, by what they start from and end with,
// and the names of what they moved.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "sim/judge/scenario_run.h"
#include "sim/language/syntax/lexer.h"

namespace shardlab {

/// Those of the reporting rank between two types, all asked for by the program, or all by ops.
struct Moves {
  const DTensorSpec* source = nullptr;
  const DTensorSpec* target = nullptr;
  bool asked = false;
  double us = 0;  ///< predicted, one after the other
  std::set<std::int64_t> lines;
  std::set<std::tuple<std::int64_t, Pass, int>> places;  ///< line, pass, argument
};

/// Those that take longest first.
std::vector<Moves> moves_of(const Run& run);

/// "tp=R, dp=S(0)": what takes one to the other; none if no program can ask for that.
std::optional<std::string> arguments_between(const DTensorSpec& source, const DTensorSpec& target);

/// Whether the token is a name whose value is read, and not changed, bound or asked for its
/// gradient.
bool reads_value(const std::vector<Token>& tokens, std::size_t token);

/// Names of the source's type that lines of the moves read.
std::set<std::string> names_moved(const ScenarioResult& result, const Moves& moves);

/// A value that several ops move to the same placements, each for itself.
struct MovedAgain {
  std::string name, arguments;  ///< "h", "tp=R"
  std::vector<std::int64_t> lines;
};
/// Those that take longest first.
std::vector<MovedAgain> moved_again(const ScenarioResult& result);

}  // namespace shardlab
