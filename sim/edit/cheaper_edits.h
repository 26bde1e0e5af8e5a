// cheaper_edits.h - edits of a program that may spare moves and collectives, by what its run moved:
// one redistribution for several, none, another placement of an input, a piece in place of a slice
// of what was gathered. None is known to hold or to help before it has been tried.
#pragma once

#include <string>
#include <vector>

#include "sim/edit/program_places.h"
#include "sim/judge/scenario_run.h"

namespace shardlab {

struct CheaperEdit {
  std::vector<TextEdit> edits;  ///< of the program's text, in its order
  std::string input, type;      ///< an input and its type then; empty: inputs stay
  std::string what;             ///< "one redistribute(tp=R)"
  std::string spares;           ///< edits that spare the same: the best of them is enough
  std::string within = {};      ///< a name that may hold another value on the way
  bool of_pieces = false;       ///< one device may compute something else, too
  std::vector<std::string> placings = {};  ///< other layouts of a recording
  std::string where = {};                  ///< the user's line that the first is about
};

/// Each once; those that may spare most come first.
std::vector<CheaperEdit> cheaper_edits(const ScenarioResult& result);
/// Those that ask for a rank's own piece, or none, of what a collective gives to all; some twice.
std::vector<CheaperEdit> pieces_for_wholes(const ProgramPlaces& places);

}  // namespace shardlab
