// An edit is proven where the program then runs, no value differs from one device, and one device
// still computes what it did: in a world of one the program as it was is the [reference]. It has to
// hold for inputs of another seed, too.
#include "sim/edit/blame.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <random>
#include <set>

#include "sim/edit/proposals.h"
#include "sim/edit/sketch.h"
#include "sim/edit/stopwatch.h"
#include "sim/edit/trials.h"
#include "sim/edit/type_sizes.h"
#include "sim/judge/expected_mistake.h"
#include "sim/language/run/def_use.h"
#include "sim/scenario/toml_text.h"

namespace shardlab {

namespace {

constexpr std::size_t kMostEdits = 3;
constexpr std::int64_t kMostMore = 40;  // tried after the first that is proven

// Names of values that are verified, or those that are wrong.
std::set<std::string> names_of(const ScenarioResult& result, bool wrong) {
  std::set<std::string> names;
  for (const ValueReport& value : result.judgement.values) {
    if (wrong ? is_off(value) : is_verified(value)) names.insert(value.name);
  }
  return names;
}

// Values that follow from a line.
class After {
 public:
  After(const ScenarioResult& result, std::int64_t line)
      : flow_(*result.run.scenario.program),
        after_(flow_.makes(flow_.on_line(static_cast<int>(line)))) {}
  bool has(const ValueReport& value) const {
    return std::ranges::any_of(flow_.held_by(value.name), [&](DefUse::Id id) {
      return std::ranges::binary_search(after_, id);
    });
  }

 private:
  DefUse flow_;
  DefUse::Ids after_;
};

// Values that differ from one device, and do not follow from the line.
std::set<std::string> apart_from(const ScenarioResult& wrong, std::int64_t line) {
  std::set<std::string> names;
  const After after(wrong, line);
  for (const ValueReport& value : wrong.judgement.values) {
    if (is_off(value) && !is_wrong(value) && !after.has(value)) names.insert(value.name);
  }
  return names;
}

// An edit, tried on meshes of other sizes.
enum class Elsewhere : std::uint8_t { kWrong, kUnknown, kRight };

class Prover {
 public:
  Prover(const Scenario& scenario, const OpRegistry& registry, const ScenarioOptions& options,
         const ScenarioResult& wrong, std::int64_t line)
      : scenario_(scenario),
        registry_(registry),
        options_(options),
        sketch_(sketch_of(scenario)),
        wrong_names_(names_of(wrong, true)),
        verified_names_(names_of(wrong, false)),
        apart_(apart_from(wrong, line)) {
    for (const std::string& name : apart_) wrong_names_.erase(name);
  }

  /// Nothing is wrong with the edit, with inputs of this seed and another one.
  bool proves(const Proposal& edit) const {
    try {
      Sketch candidate = sketch_;
      candidate.program = program_with(edit);
      const ScenarioResult result = run(candidate);
      if (!is_right(result) || !keeps_values(result) || !makes_known(edit, result)) return false;
      if (!as_before(result).value_or(edit.moves_alone)) return false;
      const auto other_seed = static_cast<std::int64_t>(scenario_.seed + 1);
      put(candidate.file, {"seed", {}, {{}, other_seed}});
      const ScenarioResult again = run(candidate);
      return is_right(again) && as_before(again).value_or(edit.moves_alone);
    } catch (const Error&) {
      return false;  // it cannot run as it is written now
    }
  }

  /// With numbers in another order, and on meshes one of whose dims has twice the ranks: with as
  /// many elements, and with twice those that it cuts: nothing is equal by chance any more.
  Elsewhere elsewhere(const Proposal& edit) const {
    Elsewhere worst = Elsewhere::kRight;
    const auto take = [&](Elsewhere found, bool may_fail) {
      if (found == Elsewhere::kWrong || !may_fail) worst = std::min(worst, found);
    };
    take(tried(edit, shuffle_inputs), true);
    for (const ScenarioMeshDim& dim : scenario_.mesh.dims) {
      if (worst == Elsewhere::kWrong) break;
      take(tried(edit, [&](Sketch& sketch) { return doubles(sketch, dim, true); }), false);
      take(tried(edit, [&](Sketch& sketch) { return doubles(sketch, dim, false); }), true);
    }
    return worst;
  }

 private:
  ProgramLines program_with(const Proposal& edit) const {
    return lines_of(SourceText("", edited_text(scenario_.program->source->text(), edit.edits)));
  }

  // The edit in another scenario, unless `change` cannot make one.
  template <typename Change>
  Elsewhere tried(const Proposal& edit, const Change& change) const {
    try {
      Sketch candidate = sketch_;
      candidate.program = program_with(edit);
      if (!change(candidate)) return Elsewhere::kUnknown;
      const ScenarioResult result = run(candidate);
      if (result.run.error || !has_reference(result)) return Elsewhere::kUnknown;
      const auto same = as_before(result);
      if (!same) return Elsewhere::kUnknown;
      if (!*same || has_other_numbers(result)) return Elsewhere::kWrong;
      return is_right(result) ? Elsewhere::kRight : Elsewhere::kUnknown;
    } catch (const Error&) {
      return Elsewhere::kUnknown;
    }
  }

  // Uneven pieces are no test of an edit: a mean of means is right in even ones.
  bool doubles(Sketch& sketch, const ScenarioMeshDim& dim, bool elements) const {
    remove(*table_of(sketch, "mesh"), "ranks");
    put(*table_of(sketch, "mesh"), {dim.name, {}, {{}, 2 * dim.size}});
    TomlTable* inputs = table_of(sketch, "inputs");
    if (inputs == nullptr) return true;
    for (TomlEntry& input : *inputs) {
      TomlValue& type = *type_of(input);
      TypeSizes sizes(std::get<SourcePtr>(type.value)->text());
      for (std::size_t i = 0; i < sizes.sizes.size(); ++i) {
        if (!sizes.cuts(dim.name, i)) continue;
        if (elements) sizes.sizes[i] *= 2;
        std::int64_t pieces = 2;
        for (const ScenarioMeshDim& one : scenario_.mesh.dims) {
          if (sizes.cuts(one.name, i)) pieces *= one.size;
        }
        if (!elements && sizes.sizes[i] % pieces != 0) return false;
      }
      type = toml_string(sizes.text());
    }
    return true;
  }

  // Numbers that are given, in an order that is the same for every edit.
  static bool shuffle_inputs(Sketch& sketch) {
    TomlTable* inputs = table_of(sketch, "inputs");
    if (inputs == nullptr) return false;
    bool any = false;
    for (TomlEntry& input : *inputs) {
      auto* table = std::get_if<TomlTable>(&input.value.value);
      const auto values = table == nullptr ? TomlTable::iterator()
                                           : std::ranges::find(*table, "values", &TomlEntry::key);
      if (table == nullptr || values == table->end()) continue;
      std::vector<TomlValue*> all;
      collect_numbers(values->value, all);
      std::mt19937 random(1);
      for (std::size_t i = all.size(); i > 1; --i) {
        std::swap(all[i - 1]->value, all[random() % i]->value);
        any = true;
      }
    }
    return any;
  }

  static void collect_numbers(TomlValue& value, std::vector<TomlValue*>& all) {
    auto* list = std::get_if<std::vector<TomlValue>>(&value.value);
    if (list == nullptr) return all.push_back(&value);
    for (TomlValue& one : *list) collect_numbers(one, all);
  }

  ScenarioResult run(const Sketch& candidate) const {
    return run_changed(written(candidate).text, scenario_, registry_, options_);
  }

  // Values of each rank's own, as the norm of its piece that is logged, stay so.
  bool is_right(const ScenarioResult& result) const {
    const ScenarioJudgement& judgement = result.judgement;
    return result.met() && !result.run.error && !judgement.steps.wrong_found() &&
           std::ranges::none_of(judgement.values, [&](const ValueReport& value) {
             const bool own = value.row->letter == 'O' || apart_.contains(value.name);
             return is_wrong(value) || (is_off(value) && !own);
           });
  }

  // Other shapes, or numbers of the text that are sizes there, tell of the program, not of the
  // edit.
  bool has_other_numbers(const ScenarioResult& result) const {
    return std::ranges::any_of(result.judgement.values, [&](const ValueReport& value) {
      const bool own = value.row->letter == 'O' || value.row->letter == 'L';
      return is_off(value) && !own && !apart_.contains(value.name) &&
             value.comparison.worst_index >= 0;
    });
  }

  // A program that failed has no values to keep: what the edit makes has to be one device's, or
  // other data would be as right.
  bool makes_known(const Proposal& edit, const ScenarioResult& result) const {
    if (!verified_names_.empty()) return true;
    const DefUse flow(*scenario_.program);
    std::set<std::string> made;
    for (const TextEdit& one : edit.edits) {
      const int line = scenario_.program->source->place(one.span.begin).line;
      for (const DefUse::Id id : flow.on_line(line)) made.insert(flow.nodes()[id].name);
    }
    return std::ranges::none_of(result.judgement.values, [&](const ValueReport& value) {
      const bool open = value.row->letter == 'W' || value.row->letter == 'C';
      return open && made.contains(value.name);
    });
  }

  // All that was right still is, and what was wrong is, too.
  bool keeps_values(const ScenarioResult& result) const {
    const std::set<std::string> now = names_of(result, false);
    return std::ranges::includes(now, verified_names_) && std::ranges::includes(now, wrong_names_);
  }

  // The user's, or the program as it was, runs.
  static bool has_reference(const ScenarioResult& result) {
    return std::ranges::all_of(result.judgement.expectations, [](const ExpectationReport& one) {
      return one.met || one.what != "reference";
    });
  }

  std::optional<bool> as_before(const ScenarioResult& result) const {
    return computes_the_same(result.run.scenario, scenario_, registry_, options_);
  }

  const Scenario& scenario_;
  const OpRegistry& registry_;
  const ScenarioOptions& options_;
  Sketch sketch_;
  std::set<std::string> wrong_names_, verified_names_, apart_;
};

ProvenEdit proven(const SourceText& program, const Proposal& proposal) {
  return {proposal.what, changed_lines(program, edited_text(program.text(), proposal.edits))};
}

void add_value(const ScenarioResult& result, const ValueReport& first, Blame& blame) {
  const std::int64_t line = blame.line();
  blame.what = fmt::format("{} {}: {}", first.name, first.type, first.comparison.what);
  blame.held_by = first.holders;
  const After after(result, line);
  for (const ValueReport& value : result.judgement.values) {
    if (!is_wrong(value) || &value == &first) continue;
    blame.later.push_back({value.name, value.line, after.has(value)});
  }
}

void try_edits(const Scenario& scenario, const ScenarioResult& result, const Prover& prover,
               double most_seconds, Blame& blame) {
  std::vector<std::pair<Elsewhere, ProvenEdit>> found;
  Suspicion suspicion{.program = scenario.program.get(),
                      .line = blame.line(),
                      .cause = blame.failure.cause,
                      .failed = result.run.error.has_value()};
  for (const ScenarioMeshDim& dim : result.run.scenario.mesh.dims) {
    suspicion.mesh_dims.push_back(dim.name);
  }
  for (const ScenarioInput& input : scenario.inputs) suspicion.inputs.push_back(input.name);
  const Stopwatch watch;
  std::int64_t more = kMostMore;
  std::size_t right = 0;
  for (const Proposal& proposal : proposals(suspicion)) {
    if (watch.seconds() > most_seconds || more == 0) break;
    if (!found.empty()) --more;
    ++blame.tried;
    if (!prover.proves(proposal)) continue;
    const Elsewhere elsewhere = prover.elsewhere(proposal);
    if (elsewhere == Elsewhere::kWrong) continue;
    found.emplace_back(elsewhere, proven(*scenario.program->source, proposal));
    if (elsewhere == Elsewhere::kRight && ++right == kMostEdits) break;
  }
  std::ranges::stable_sort(found, std::greater<>(), [](const auto& one) { return one.first; });
  for (auto& [elsewhere, edit] : found) {
    if (blame.edits.size() < kMostEdits) blame.edits.push_back(std::move(edit));
  }
}

}  // namespace

Blame blame(const Scenario& scenario, const OpRegistry& registry, const BlameOptions& options) {
  const Stopwatch watch;
  const ScenarioResult result = run_scenario(scenario, registry, options.run);
  const double whole = watch.seconds();
  Blame blame{.failure = symptom_of(result), .file = scenario.file->file()};
  if (blame.failure.kind == Symptom::Kind::kNone) return blame;
  if (blame.line() > 0) {
    const SourceText& program = *scenario.program->source;
    blame.line_text = program.line(static_cast<std::int32_t>(blame.line()));
    blame.file = program.file();
  }
  const ScenarioJudgement& judgement = result.judgement;
  const auto mistake =
      mistake_of(result.run, {judgement.values, judgement.steps, judgement.parted});
  if (mistake && mistake->value != nullptr) {
    add_value(result, *mistake->value, blame);
  } else if (blame.failure.kind == Symptom::Kind::kCall) {
    blame.producer = judgement.steps.wrong->place.op;
    blame.what = judgement.steps.wrong->text();
    blame.held_by = judgement.steps.wrong->held_by;
  }
  const Prover prover(scenario, registry, options.run, result, blame.line());
  const double most_seconds = std::max(options.most_time * whole, options.least_seconds);
  try_edits(scenario, result, prover, most_seconds, blame);
  return blame;
}

}  // namespace shardlab
