// From the end of the program to its beginning: what nobody reads any more is dropped next.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "sim/edit/shrink_passes.h"
#include "sim/scenario/toml_text.h"

namespace shardlab {

namespace {

// The names in a line: all, and those before the `=` of an assignment; of a statement that has
// none all are given, since it may change any of them.
struct NamesOfLine {
  explicit NamesOfLine(const ProgramLine& line) {
    int depth = 0;
    bool assigns = false;
    for (const Token& token : tokens_of(SourceText("", line.text), LexMode::kExpression)) {
      if (token.kind == TokenKind::kName) {
        all.insert(token.text);
        if (!assigns) given.insert(token.text);
      }
      if (token.kind != TokenKind::kOperator) continue;
      if (token.text == "(" || token.text == "[" || token.text == "{") ++depth;
      if (token.text == ")" || token.text == "]" || token.text == "}") --depth;
      const bool compares =
          token.text == "==" || token.text == "<=" || token.text == ">=" || token.text == "!=";
      assigns = assigns || (depth == 0 && token.text.ends_with('=') && !compares);
    }
  }

  std::set<std::string> all, given;
};

bool shares(const std::set<std::string>& some, const std::set<std::string>& others) {
  return std::ranges::any_of(some, [&](const std::string& one) { return others.contains(one); });
}

bool ends_early(const ProgramLine& line) {
  return line.text == "break" || line.text == "continue" || line.text.starts_with("return");
}

// For each line whether one of `wanted` (as ProgramLine::from counts them) may need it: it gives a
// value to a name that is read there, changes what such a name holds, or is the header of a block
// around. Lines that give names nobody needs are not.
std::vector<bool> needed_lines(const ProgramLines& lines, const std::set<int>& wanted) {
  const std::vector<NamesOfLine> names(lines.begin(), lines.end());
  std::vector<bool> needed(lines.size());
  std::set<std::string> read;
  const auto need = [&](std::size_t i) {
    needed[i] = true;
    read.insert(names[i].all.begin(), names[i].all.end());
  };
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto& from = lines[i].from;
    if (std::ranges::any_of(from, [&](int one) { return wanted.contains(one); })) need(i);
  }
  for (bool more = true; more;) {
    more = false;
    for (std::size_t i = lines.size(); i-- > 0;) {
      if (needed[i]) continue;
      const std::size_t end = block_end(lines, i);
      const bool around = std::find(needed.begin() + static_cast<std::ptrdiff_t>(i),
                                    needed.begin() + static_cast<std::ptrdiff_t>(end),
                                    true) != needed.begin() + static_cast<std::ptrdiff_t>(end);
      if (!around && !shares(names[i].given, read) && !ends_early(lines[i])) continue;
      need(i);
      more = true;
    }
  }
  return needed;
}

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
void drop_unneeded(Trials& trials) {
  const ProgramLines& lines = trials.best().program;
  const std::vector<bool> needed = needed_lines(lines, trials.failing());
  ProgramLines left;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (needed[i]) left.push_back(lines[i]);
  }
  if (left.size() < lines.size()) trials.keeps(std::move(left));
}

// Those that hold say nothing of the one that fails.
void drop_assertions(Trials& trials) {
  for (std::size_t i = trials.best().program.size(); i-- > 0;) {
    const ProgramLines& lines = trials.best().program;
    if (lines[i].text.starts_with("assert")) trials.keeps(without(lines, i, i + 1));
  }
}

// Types of the values that names have before a line of the written text.
std::map<std::string, std::string> types_before(const ScenarioResult& result, std::int64_t line) {
  std::map<std::string, std::string> types;
  for (const ValueReport& value : result.judgement.values) {
    const bool own = value.spec != nullptr && value.spec->layout() == result.run.layout;
    if (value.line < line && own) types[value.name] = value.type;
  }
  return types;
}

// The program from the line at `begin` on, to the one before `end`.
Sketch begun_at(const Sketch& sketch, const ScenarioResult& result, std::size_t begin,
                std::size_t end) {
  Sketch late = sketch;
  late.program.resize(end);
  std::int64_t line = written(sketch).first_line;
  for (std::size_t i = 0; i < begin; ++i) {
    line += 1 + std::ranges::count(sketch.program[i].text, '\n');
  }
  late.program.erase(late.program.begin(),
                     late.program.begin() + static_cast<std::ptrdiff_t>(begin));
  const std::map<std::string, std::string> types = types_before(result, line);
  TomlTable* inputs = table_of(late, "inputs");
  if (inputs == nullptr) {
    const auto program = std::ranges::find(late.file, "program", &TomlEntry::key);
    late.file.insert(program, {"inputs", {}, {{}, TomlTable{}}});
    inputs = table_of(late, "inputs");
  }
  for (const ProgramLine& one : late.program) {
    for (const std::string& name : NamesOfLine(one).all) {
      const auto type = types.find(name);
      if (type != types.end()) put(*inputs, {name, {}, toml_string(type->second)});
    }
  }
  return late;
}

}  // namespace

void begin_late(Trials& trials) {
  const ProgramLines& lines = trials.best().program;
  const auto fails = [&](const ProgramLine& line) {
    return std::ranges::any_of(line.from, [&](int one) { return trials.failing().contains(one); });
  };
  const auto first = std::ranges::find_if(lines, fails);
  if (first == lines.end() || first->indent > 0) return;
  if (table_of(trials.best(), "reference") != nullptr) return;
  const auto at = static_cast<std::size_t>(first - lines.begin());
  const Sketch sketch = trials.best();
  const ScenarioResult result = trials.run(sketch);
  std::size_t end = sketch.program.size();
  while (!fails(sketch.program[end - 1])) --end;
  for (std::size_t before = 1; before < at; before *= 2) {
    if (sketch.program[at - before].indent > 0) continue;
    for (const std::size_t last : {statement_end(sketch.program, end - 1), sketch.program.size()}) {
      if (trials.keeps(begun_at(sketch, result, at - before, last))) return;
    }
  }
}

void drop_expectations(Trials& trials) {
  constexpr std::string_view kNeeded[] = {"grads", "implicit", "tolerance", "verify"};
  if (table_of(trials.best(), "expect") == nullptr) return;
  Sketch candidate = trials.best();
  std::erase_if(*table_of(candidate, "expect"), [&](const TomlEntry& entry) {
    return std::ranges::find(kNeeded, entry.key) == std::end(kNeeded);
  });
  trials.keeps(candidate);
  for (const TomlEntry& entry : trials.entries("expect")) {
    candidate = trials.best();
    remove(*table_of(candidate, "expect"), entry.key);
    trials.keeps(candidate);
  }
}

void drop_statements(Trials& trials) {
  if (trials.meaning_is_given()) {
    drop_assertions(trials);
    return drop_unneeded(trials);
  }
  for (std::size_t chunk = std::max<std::size_t>(trials.best().program.size() / 2, 1);;
       chunk /= 2) {
    for (std::size_t end = trials.best().program.size(); end > 0;) {
      const std::size_t begin = end > chunk ? end - chunk : 0;
      trials.keeps(without(trials.best().program, begin, end));
      end = std::min(begin, trials.best().program.size());
    }
    if (chunk <= 1) return;
  }
}

void unwrap_blocks(Trials& trials) {
  if (trials.meaning_is_given()) return;
  for (std::size_t i = trials.best().program.size(); i-- > 0;) {
    const ProgramLines& lines = trials.best().program;
    if (i >= lines.size() || !is_block(lines[i])) continue;
    // An `else` gives way to its block together with the statement that it belongs to.
    std::size_t begin = i;
    while (lines[begin].text.starts_with("else:") || lines[begin].text.starts_with("elif ")) {
      do --begin;
      while (lines[begin].indent != lines[i].indent);
    }
    trials.keeps(unwrapped(lines, begin, i));
  }
}

}  // namespace shardlab
