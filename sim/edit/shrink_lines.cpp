// From the end of the program to its beginning: what nobody reads any more goes next.
#include <algorithm>
#include <string_view>

#include "sim/edit/needed_lines.h"
#include "sim/edit/shrink_passes.h"

namespace shardlab {

namespace {

// The statement gives way to the lines of a block, whose header is at `header`.
ProgramLines unwrapped(const ProgramLines& lines, std::size_t begin, std::size_t header) {
  ProgramLines out(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(begin));
  for (std::size_t i = header + 1; i < block_end(lines, header); ++i) {
    out.push_back(lines[i]);
    --out.back().indent;
  }
  const auto end = static_cast<std::ptrdiff_t>(statement_end(lines, begin));
  out.insert(out.end(), lines.begin() + end, lines.end());
  return out;
}

bool is_block(const ProgramLine& line) {
  return line.text.ends_with(':') && !line.text.starts_with("def ") &&
         !line.text.starts_with("class ");
}

// All that the failing statements do not need, at once.
bool drop_unneeded(Trials& trials) {
  const ProgramLines& lines = trials.best().program;
  const std::vector<bool> needed = needed_lines(lines, trials.failing());
  ProgramLines left;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (needed[i]) left.push_back(lines[i]);
  }
  return left.size() < lines.size() && trials.keeps(std::move(left));
}

}  // namespace

bool drop_expectations(Trials& trials) {
  constexpr std::string_view kNeeded[] = {"grads", "implicit", "tolerance", "verify"};
  const TomlTable* given = table_of(trials.best(), "expect");
  if (given == nullptr) return false;
  Sketch candidate = trials.best();
  std::erase_if(*table_of(candidate, "expect"), [&](const TomlEntry& entry) {
    return std::ranges::find(kNeeded, entry.key) == std::end(kNeeded);
  });
  bool kept = trials.keeps(candidate);
  const TomlTable all = *table_of(trials.best(), "expect");
  for (const TomlEntry& entry : all) {
    candidate = trials.best();
    remove(*table_of(candidate, "expect"), entry.key);
    kept = trials.keeps(candidate) || kept;
  }
  return kept;
}

bool drop_statements(Trials& trials) {
  if (trials.meaning_is_given()) return drop_unneeded(trials);
  bool kept = false;
  for (std::size_t chunk = std::max<std::size_t>(trials.best().program.size() / 2, 1);;
       chunk /= 2) {
    for (std::size_t end = trials.best().program.size(); end > 0;) {
      const std::size_t begin = end > chunk ? end - chunk : 0;
      kept = trials.keeps(without(trials.best().program, begin, end)) || kept;
      end = std::min(begin, trials.best().program.size());
    }
    if (chunk <= 1) return kept;
  }
}

bool unwrap_blocks(Trials& trials) {
  if (trials.meaning_is_given()) return false;
  bool kept = false;
  for (std::size_t i = trials.best().program.size(); i-- > 0;) {
    const ProgramLines& lines = trials.best().program;
    if (i >= lines.size() || !is_block(lines[i])) continue;
    // An `else` gives way to its block together with the statement that it belongs to.
    std::size_t begin = i;
    while (lines[begin].text.starts_with("else:") || lines[begin].text.starts_with("elif ")) {
      do --begin;
      while (lines[begin].indent != lines[i].indent);
    }
    kept = trials.keeps(unwrapped(lines, begin, i)) || kept;
  }
  return kept;
}

}  // namespace shardlab
