// An operand in place of a call is another program, which one device runs as well: what is wrong
// with it stays, unless the scenario says what is meant.
#include <regex>

#include "sim/edit/line_edits.h"
#include "sim/edit/shrink_passes.h"

namespace shardlab {

bool shorten_names(Trials& trials) {
  static const std::regex full(R"(\baten\.(\w+)\.\w+\()");
  ProgramLines all = trials.best().program;
  for (ProgramLine& line : all) line.text = std::regex_replace(line.text, full, "$1(");
  if (trials.keeps(all)) return true;
  bool kept = false;
  for (std::size_t i = 0; i < all.size(); ++i) {
    ProgramLines lines = trials.best().program;
    lines[i].text = all[i].text;
    kept = trials.keeps(std::move(lines)) || kept;
  }
  return kept;
}

bool simplify_expressions(Trials& trials) {
  if (trials.meaning_is_given()) return false;
  bool kept = false;
  for (bool again = true; again;) {
    again = false;
    const ProgramLines lines = trials.best().program;
    for (const TextEdit& edit : smaller_parts(lines)) {
      if (!trials.keeps(edited(lines, edit))) continue;
      kept = again = true;
      break;
    }
  }
  return kept;
}

bool fold_names(Trials& trials) {
  bool kept = false;
  for (bool again = true; again;) {
    again = false;
    for (const ProgramLines& lines : folded(trials.best().program)) {
      if (!trials.keeps(lines)) continue;
      kept = again = true;
      break;
    }
  }
  return kept;
}

}  // namespace shardlab
