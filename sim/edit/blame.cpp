// An edit is proven where the program then runs, no value differs from one device, and one device
// still computes what it did: in a world of one the program as it was is the [reference]. It has to
// hold for inputs of another seed, too.
#include "sim/edit/blame.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <random>
#include <set>

#include "dispatch/all_ops.h"
#include "sim/edit/proposals.h"
#include "sim/edit/sketch.h"
#include "sim/edit/stopwatch.h"
#include "sim/edit/trials.h"
#include "sim/edit/type_inference.h"
#include "sim/judge/expected_mistake.h"
#include "sim/language/run/def_use.h"
#include "sim/scenario/scenario_file.h"
#include "sim/scenario/toml_text.h"
#include "sim/verify/roles.h"

namespace shardlab {

namespace {

constexpr std::size_t kMostEdits = 3;
constexpr std::int64_t kMostMore = 40;  // tried after the first that is proven

template <typename Is>
std::set<std::string> names_of(const ScenarioResult& result, const Is& is) {
  std::set<std::string> names;
  for (const ValueReport& value : result.judgement.values) {
    if (is(value)) names.insert(value.name);
  }
  return names;
}

// Not what it should be, on the way, too.
bool is_open(const ValueReport& value) {
  return is_off(value) || value.outcome() == Outcome::kPartOfCause;
}

// Values that follow from a line.
class After {
 public:
  After(const ScenarioResult& result, std::int64_t line)
      : flow_(*result.run.scenario.program),
        after_(flow_.makes(flow_.on_line(static_cast<int>(line)))) {}
  bool has(const ValueReport& value) const { return meet(nodes_of(flow_, value), after_); }

 private:
  DefUse flow_;
  DefUse::Ids after_;
};

// Values that differ from one device, and do not follow from the line.
std::set<std::string> apart_from(const ScenarioResult& wrong, std::int64_t line) {
  const After after(wrong, line);
  return names_of(wrong, [&](const ValueReport& value) {
    return is_off(value) && !is_wrong(value) && !after.has(value);
  });
}

// A program with an edit: as wrong as before, wrong in fewer values and not in the first, right.
enum class Effect : std::uint8_t { kNone, kFirst, kAll };
// An edit, tried on meshes of other sizes.
enum class Elsewhere : std::uint8_t { kWrong, kUnknown, kRight };

struct Prover {
  /// All is right with the edit where it is with inputs of this seed and another one.
  Effect effect(const Proposal& edit) const {
    try {
      Sketch candidate = sketch_;
      candidate.program = program_with(edit);
      const ScenarioResult result = run(candidate);
      const bool all = is_right(result) && keeps_values(result) && makes_known(edit, result);
      if (!(all || mends_first(result)) || !as_before(result).value_or(edit.moves_alone)) {
        return Effect::kNone;
      }
      if (!all) return Effect::kFirst;
      const auto other_seed = static_cast<std::int64_t>(scenario_.seed + 1);
      put(candidate.file, {"seed", {}, {{}, other_seed}});
      const ScenarioResult again = run(candidate);
      return is_right(again) && as_before(again).value_or(edit.moves_alone) ? Effect::kAll
                                                                            : Effect::kNone;
    } catch (const Error&) {
      return Effect::kNone;  // it cannot run as it is written now
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
      TomlEntry* values = table == nullptr ? nullptr : find(*table, "values");
      if (values == nullptr) continue;
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
    return run_changed(written(candidate).text, scenario_, options_);
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
    const std::set<std::string> now = names_of(result, is_verified);
    return std::ranges::includes(now, verified_names_) && std::ranges::includes(now, wrong_names_);
  }

  bool mends_first(const ScenarioResult& result) const {
    const std::set<std::string> now = names_of(result, is_verified);
    return !result.run.error && now.contains(first_) &&
           std::ranges::includes(open_names_, names_of(result, is_open)) &&
           std::ranges::includes(now, verified_names_);
  }

  // The user's, or the program as it was, runs.
  static bool has_reference(const ScenarioResult& result) {
    return std::ranges::all_of(result.judgement.expectations, [](const ExpectationReport& one) {
      return one.met || one.what != "reference";
    });
  }

  std::optional<bool> as_before(const ScenarioResult& result) const {
    return computes_the_same(result.run.scenario, scenario_, options_);
  }

  const Scenario& scenario_;
  const ScenarioOptions& options_;
  const ScenarioResult& wrong_;
  const std::string first_;  ///< name of the first wrong value, or empty
  std::int64_t line_;        ///< to look at first
  Sketch sketch_ = sketch_of(scenario_);
  std::set<std::string> apart_ = apart_from(wrong_, line_);
  std::set<std::string> wrong_names_ = names_of(wrong_, [this](const ValueReport& value) {
    return is_off(value) && !apart_.contains(value.name);
  });
  std::set<std::string> open_names_ = names_of(wrong_, is_open);
  std::set<std::string> verified_names_ = names_of(wrong_, is_verified);
};

ProvenEdit proven(const SourceText& program, const Proposal& proposal) {
  return {proposal.what, proposal.undoes,
          changed_lines(program, edited_text(program.text(), proposal.edits))};
}

// The scenario with the edit in its file, where lines keep their numbers.
std::optional<Scenario> edited(const Scenario& scenario, const Proposal& proposal) {
  const SourceText& program = *scenario.program->source;
  std::vector<TextEdit> edits;
  const auto at = [&](std::uint32_t place) {
    return scenario.file->offset_of(program.place(place));
  };
  for (const auto& [span, with] : proposal.edits) {
    edits.push_back({{at(span.begin), at(span.end)}, with});
  }
  std::vector<Setting> settings;
  for (const std::string& setting : scenario.settings) settings.push_back(parse_setting(setting));
  try {
    const auto text = std::make_shared<const SourceText>(scenario.file->file(),
                                                         edited_text(scenario.file->text(), edits));
    Scenario changed = ScenarioFile::read(text, settings).first();
    const std::string meant = edited_text(program.text(), proposal.edits);
    if (changed.program->source->text() == meant) return changed;
  } catch (const Error&) {  // the program is not in the file as it is written
  }
  return std::nullopt;
}

void add_value(const ScenarioResult& result, const ValueReport& first, Blame& blame) {
  const std::int64_t line = blame.line();
  blame.what = fmt::format("{} {}: {}", first.name, first.type, first.comparison.what);
  blame.held_by = first.holders;
  const After after(result, line);
  for (const ValueReport& value : result.judgement.values) {
    const bool own = value.row->letter == 'O';
    if (!is_off(value) || own || &value == &first) continue;
    blame.later.push_back({value.name, value.line, after.has(value)});
  }
}

// Edits with which all is right. Returns one at the line that mends a part if none is, or if other
// values do not follow from the first.
std::optional<Proposal> try_edits(const Scenario& scenario, const ScenarioResult& result,
                                  const Prover& prover, double most_seconds, Blame& blame) {
  std::optional<Proposal> part;
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
    const Effect effect = prover.effect(proposal);
    const auto line_of = [&] {
      return scenario.program->source->place(proposal.edits.front().span.begin).line;
    };
    if (effect != Effect::kNone && !part && line_of() == blame.line()) part = proposal;
    if (effect != Effect::kAll) continue;
    const Elsewhere elsewhere = prover.elsewhere(proposal);
    if (elsewhere == Elsewhere::kWrong) continue;
    found.emplace_back(elsewhere, proven(*scenario.program->source, proposal));
    if (elsewhere == Elsewhere::kRight && ++right == kMostEdits) break;
  }
  std::ranges::stable_sort(found, std::greater<>(), [](const auto& one) { return one.first; });
  for (auto& [elsewhere, edit] : found) {
    if (blame.edits.size() < kMostEdits) blame.edits.push_back(std::move(edit));
  }
  const bool apart = !std::ranges::all_of(blame.later, &LaterValue::follows);
  return blame.edits.empty() || apart ? part : std::nullopt;
}

// The line of a value of which the numbers tell nothing is that of the edit which mends it, and so
// is that of pieces of other ranks, which were taken before they are claimed.
void tell_by_edit(const SourceText& program, Blame& blame) {
  Symptom& failure = blame.failure;
  const bool weak = failure.cause == causes::kNone || failure.cause == causes::kSomeRanks;
  if (blame.edits.empty()) return;
  const ProvenEdit& edit = blame.edits.front();
  const bool taken = failure.cause == causes::kOtherChunk && edit.undoes == failure.cause &&
                     failure.text.find(" in line ") == std::string::npos;
  if (!weak && !taken) return;
  if (edit.undoes != causes::kNone) failure.cause = edit.undoes;
  failure.lines = {edit.changes.front().line};
  if (weak) {
    failure.text = fmt::format("line {} is right {}{}", blame.line(),
                               edit.what.starts_with("without ") ? "" : "with ", edit.what);
  }
  blame.line_text = program.line(static_cast<std::int32_t>(blame.line()));
}

}  // namespace

Blame blame(const Scenario& scenario, const BlameOptions& options) {
  const Stopwatch watch;
  const ScenarioResult result = run_scenario(scenario, all_ops(), options.run);
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
  ScenarioOptions trials = options.run;
  trials.explain = false;
  const Prover prover{scenario, trials, result,
                      mistake && mistake->value ? mistake->value->name : "", blame.line()};
  const double most_seconds = std::max(options.most_time * whole, options.least_seconds);
  const auto part = try_edits(scenario, result, prover, most_seconds, blame);
  tell_by_edit(*scenario.program->source, blame);
  const auto rest = part && options.most_mistakes > 1 ? edited(scenario, *part) : std::nullopt;
  if (rest) {
    BlameOptions fewer = options;
    --fewer.most_mistakes;
    Blame next = shardlab::blame(*rest, fewer);
    if (next.failure.kind == Symptom::Kind::kNone) return blame;
    blame.edits = {proven(*scenario.program->source, *part)};
    blame.next.push_back(std::move(next));
  }
  return blame;
}

}  // namespace shardlab
