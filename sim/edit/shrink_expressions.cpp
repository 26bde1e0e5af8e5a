// An operand in place of a call is another program, which one device runs as well: what is wrong
// with it stays, unless the scenario says what is meant.
#include <algorithm>
#include <regex>

#include "sim/edit/line_edits.h"
#include "sim/edit/shrink_passes.h"

namespace shardlab {

void shorten_names(Trials& trials) {
  static const std::regex full(R"(\baten\.(\w+)\.\w+\()");
  ProgramLines all = trials.best().program;
  for (ProgramLine& line : all) line.text = std::regex_replace(line.text, full, "$1(");
  if (trials.keeps(all)) return;
  for (std::size_t i = 0; i < all.size(); ++i) {
    ProgramLines lines = trials.best().program;
    lines[i].text = all[i].text;
    trials.keeps(std::move(lines));
  }
}

void simplify_expressions(Trials& trials) {
  if (trials.meaning_is_given()) return;
  const auto one_more = [&] {
    const ProgramLines lines = trials.best().program;
    return std::ranges::any_of(smaller_parts(lines), [&](const TextEdit& edit) {
      return trials.keeps(edited(lines, edit));
    });
  };
  while (one_more()) {
  }
}

void fold_names(Trials& trials) {
  const auto one_more = [&] {
    return std::ranges::any_of(folded(trials.best().program),
                               [&](const ProgramLines& lines) { return trials.keeps(lines); });
  };
  while (one_more()) {
  }
}

}  // namespace shardlab
