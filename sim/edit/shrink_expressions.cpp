// An operand in place of a call is another program, which one device runs as well: what is wrong
// with it stays, unless the scenario says what is meant.
#include "sim/edit/line_edits.h"
#include "sim/edit/shrink_passes.h"

namespace shardlab {

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
