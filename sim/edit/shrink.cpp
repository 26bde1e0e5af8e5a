// Each pass makes what the others look at smaller, so that they take turns until none finds
// anything.
#include "sim/edit/shrink.h"

#include <algorithm>
#include <array>
#include <regex>
#include <sstream>
#include <string_view>

#include "sim/edit/line_edits.h"
#include "sim/edit/shrink_passes.h"
#include "sim/scenario/toml_text.h"

namespace shardlab {

namespace {

// Expects the failure, whose lines move where that takes one.
void expect_failure(Sketch& sketch, Symptom& failure) {
  if (failure.kind == Symptom::Kind::kExpectation) return;
  const std::int64_t begun = written(sketch).first_line;
  if (table_of(sketch, "expect") == nullptr)
    sketch.file.push_back({"expect", {}, {{}, TomlTable{}}});
  TomlTable& expect = *table_of(sketch, "expect");
  if (!failure.cause.empty()) {
    put(expect, {"cause", {}, toml_string(failure.cause)});
  } else if (failure.kind == Symptom::Kind::kVerdict) {
    put(expect, {"verdict", {}, toml_string(failure.name)});
  } else if (failure.kind == Symptom::Kind::kError) {
    put(expect, {"error", {}, {{}, TomlTable{{"kind", {}, toml_string(failure.name)}}}});
  }
  if (failure.lines.empty() || failure.lines.front() == 0) return;
  put(expect, {"line", {}, {{}, failure.lines.front()}});
  const std::int64_t moved = written(sketch).first_line - begun;
  for (std::int64_t& line : failure.lines) line += moved;
  put(expect, {"line", {}, {{}, failure.lines.front()}});
}

std::string comment_of_failure(const Trials& trials, const Scenario& scenario) {
  if (trials.failing().empty()) return {};
  std::istringstream lines(scenario.program->source->text());
  std::string line;
  // A statement without a place of its own is told by the last one before it.
  std::string comment;
  for (int at = 0; at <= *trials.failing().begin() && std::getline(lines, line); ++at) {
    const std::size_t begin = line.rfind("  # ");
    if (begin != std::string::npos) comment = line.substr(begin + 4);
  }
  return comment;
}

std::int64_t count_lines(const std::string& text) { return std::ranges::count(text, '\n'); }

}  // namespace

void repeat(Trials& trials, std::initializer_list<ShrinkPass> passes) {
  for (std::int64_t kept = -1; kept != trials.kept();) {
    kept = trials.kept();
    for (const ShrinkPass pass : passes) pass(trials);
  }
}

Shrunk shrink(const Scenario& scenario, const ShrinkOptions& options) {
  Trials trials(scenario, options);
  drop_expectations(trials);
  begin_late(trials);
  shorten_names(trials);
  shrink_sizes(trials);
  repeat(trials, {drop_statements, unwrap_blocks, drop_entries, shrink_mesh, shrink_sizes,
                  simplify_expressions, fold_names});
  Sketch sketch = trials.best();
  Symptom found = symptom_of(trials.run(sketch));
  expect_failure(sketch, found);
  Shrunk shrunk{.text = written(sketch).text, .failure = found, .runs = trials.runs()};
  shrunk.comment = comment_of_failure(trials, scenario);
  shrunk.seconds = trials.seconds();
  shrunk.out_of_time = trials.out_of_time();
  shrunk.lines_before = count_lines(scenario.file->text());
  shrunk.lines_after = count_lines(shrunk.text);
  return shrunk;
}

// Entries of the file besides its program go or become plainer.

namespace {

// Each entry of the table, one after the other; a param is written out in the program.
void drop_each(Trials& trials, std::string_view table) {
  for (const TomlEntry& entry : trials.entries(table)) {
    Sketch candidate = trials.best();
    const auto is_param = [&](const Token& token) {
      return token.kind == TokenKind::kName && token.text == entry.key;
    };
    if (table == "params") replace_tokens(candidate.program, is_param, toml_text(entry.value));
    TomlTable& left = *table_of(candidate, table);
    remove(left, entry.key);
    if (left.empty()) remove(candidate.file, table);
    trials.keeps(candidate);
  }
}

// An input of a type alone, else without one of its other keys.
void plainer_inputs(Trials& trials) {
  for (const TomlEntry& entry : trials.entries("inputs")) {
    const auto* table = std::get_if<TomlTable>(&entry.value.value);
    const TomlEntry* type = table == nullptr ? nullptr : find(*table, "type");
    if (type == nullptr) continue;
    Sketch candidate = trials.best();
    put(*table_of(candidate, "inputs"), {entry.key, {}, type->value});
    if (trials.keeps(candidate)) continue;
    TomlTable left = *table;
    for (const TomlEntry& key : *table) {
      if (key.key == "type") continue;
      TomlTable fewer = left;
      remove(fewer, key.key);
      candidate = trials.best();
      put(*table_of(candidate, "inputs"), {entry.key, {}, {{}, fewer}});
      if (trials.keeps(candidate)) left = std::move(fewer);
    }
  }
}

}  // namespace

void drop_entries(Trials& trials) {
  constexpr std::array<std::string_view, 5> kKept = {"title", "mesh", "inputs", "program",
                                                     "expect"};
  const TomlTable all = trials.best().file;
  for (const TomlEntry& entry : all) {
    if (std::ranges::find(kKept, entry.key) != kKept.end()) continue;
    Sketch candidate = trials.best();
    remove(candidate.file, entry.key);
    trials.keeps(candidate);
  }
  drop_each(trials, "params");
  drop_each(trials, "inputs");
  plainer_inputs(trials);
}

// An operand in place of a call is another program, which one device runs as well: what is wrong
// with it stays, unless the scenario says what is meant.

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
