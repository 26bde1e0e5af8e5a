// Lines are known by those of the first program that they have parts of: a failure at another
// statement is another failure, whatever its text.
#include "sim/edit/trials.h"

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "dispatch/all_ops.h"
#include "sim/scenario/cause.h"
#include "sim/scenario/scenario_file.h"

namespace shardlab {

ScenarioResult run_changed(const std::string& text, const Scenario& from, ScenarioOptions options) {
  constexpr std::int64_t kMostSteps = 10'000;
  options.step_limit = std::min(options.step_limit, kMostSteps);
  const auto source = std::make_shared<const SourceText>(from.file->file(), text);
  return run_scenario(ScenarioFile::read(source, {}).first(), all_ops(), options);
}

std::optional<bool> computes_the_same(const Scenario& changed, const Scenario& before,
                                      const ScenarioOptions& options) {
  if (before.reference != nullptr) return true;
  Scenario alone = changed;
  alone.reference = before.program;
  alone.world = alone.mesh.size = 1;
  alone.mesh.ranks.reset();
  for (ScenarioMeshDim& dim : alone.mesh.dims) dim.size = 1;
  alone.expect = {};
  const ScenarioResult result = run_scenario(alone, all_ops(), options);
  const auto& judgement = result.judgement;
  if (result.run.error || !std::ranges::all_of(judgement.expectations, &ExpectationReport::met)) {
    return std::nullopt;
  }
  return std::ranges::none_of(judgement.values, is_off);
}

std::vector<int> lines_behind(const ProgramLines& program, std::int64_t first_line,
                              std::int64_t line) {
  std::int64_t at = first_line;
  for (const ProgramLine& one : program) {
    at += 1 + std::ranges::count(one.text, '\n');
    if (line >= first_line && line < at) return one.from;
  }
  return {};
}

Trials::Trials(const Scenario& scenario, const ShrinkOptions& options)
    : scenario_(scenario), options_(options), best_(sketch_of(scenario)) {
  const WrittenSketch text = written(best_);
  failure_ = shardlab::symptom_of(run(best_));
  if (failure_.kind == Symptom::Kind::kNone) {
    fail(Fix{"give a scenario that fails, or --set and --seed with which it does"},
         "{}: nothing is wrong, so there is nothing to shrink", scenario.file->file());
  }
  if (failure_.cause == causes::kNone) {
    fail(Fix{"shardlab blame shows the line, and edits that mend it"},
         "{}: {}, and its cause is not known: a smaller program could be wrong for another reason",
         scenario.file->file(), to_string(failure_));
  }
  for (const std::int64_t line : failure_.lines) {
    const std::vector<int> from = lines_behind(best_.program, text.first_line, line);
    failing_.insert(from.begin(), from.end());
  }
  most_seconds_ = std::max(options.most_time * seconds(), options.least_seconds);
}

TomlTable Trials::entries(std::string_view table) const {
  const TomlTable* entries = table_of(best_, table);
  return entries == nullptr ? TomlTable() : *entries;
}

ScenarioResult Trials::run(const Sketch& sketch) const {
  return run_changed(written(sketch).text, scenario_, options_.run);
}

Symptom Trials::failure_of_run(const WrittenSketch& text) const {
  try {
    return shardlab::symptom_of(run_changed(text.text, scenario_, options_.run));
  } catch (const Error&) {
    return {};  // it cannot run as it is written now
  }
}

bool Trials::at_same_lines(const WrittenSketch& text, const Sketch& sketch,
                           const Symptom& found) const {
  std::set<int> met;
  for (const std::int64_t line : found.lines) {
    const std::vector<int> from = lines_behind(sketch.program, text.first_line, line);
    std::size_t known = 0;
    for (const int one : from) {
      if (!failing_.contains(one)) continue;
      met.insert(one);
      ++known;
    }
    if (known == 0 && !failing_.empty()) return false;
  }
  return met == failing_;
}

bool Trials::meaning_is_given() const {
  const bool asserted = failure_.kind == Symptom::Kind::kError && failure_.name == "Assert";
  return asserted || table_of(best_, "reference") != nullptr;
}

bool Trials::keeps(const Sketch& candidate) {
  if (out_of_time_) return false;
  const WrittenSketch text = written(candidate);
  if (!tried_.insert(text.text).second) return false;
  if (seconds() > most_seconds_) {
    out_of_time_ = true;
    return false;
  }
  ++runs_;
  const Symptom found = failure_of_run(text);
  if (!found.is_like(failure_) || !at_same_lines(text, candidate, found)) return false;
  best_ = candidate;
  ++kept_;
  if (options_.progress) options_.progress(runs_, best_.program.size());
  return true;
}

bool Trials::keeps(ProgramLines program) {
  Sketch candidate = best_;
  candidate.program = std::move(program);
  return keeps(candidate);
}

}  // namespace shardlab
