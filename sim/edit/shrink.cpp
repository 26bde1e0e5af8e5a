// Each pass makes what the others look at smaller, so that they take turns until none finds
// anything.
#include "sim/edit/shrink.h"

#include <algorithm>
#include <sstream>

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

}  // namespace shardlab
