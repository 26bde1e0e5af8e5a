// One device runs the same program. As long as the program works on DTensors its world is the true
// one; of plain tensors it is a world of one rank: all mesh dims 1. Everything is run once, in the
// program's dtypes and in f64, then each value gets its outcome (outcome.h).
#include "sim/judge/verdict.h"

#include <algorithm>
#include <set>

#include "sim/judge/doubted_values.h"
#include "sim/judge/expected_mistake.h"
#include "sim/judge/explain_values.h"
#include "sim/judge/literals.h"
#include "sim/language/syntax/ast_walk.h"
#include "sim/verify/assertions.h"
#include "sim/verify/compare.h"
#include "sim/verify/failed_sizes.h"
#include "sim/verify/labels/label.h"
#include "sim/verify/parting_branches.h"
#include "sim/verify/reasons.h"

namespace shardlab {

namespace {

// True when the text calls functions with jumps: near a jump the last digit of an operand changes
// the whole result.
bool has_jumps(const ast::Program& program) {
  constexpr std::string_view kJumps[] = {"sign",  "sgn",       "heaviside",   "signbit", "copysign",
                                         "floor", "ceil",      "round",       "trunc",   "frac",
                                         "fmod",  "remainder", "floor_divide"};
  return ast::any_part(program.body, [&](const ast::Expression& part) {
    const auto* attribute = std::get_if<ast::Attribute>(&part.node);
    const auto* name = std::get_if<ast::Name>(&part.node);
    std::string_view called = attribute != nullptr ? std::string_view(attribute->name)
                              : name != nullptr    ? std::string_view(name->id)
                                                   : std::string_view();
    if (called.ends_with('_')) called.remove_suffix(1);
    return std::ranges::find(kJumps, called) != std::end(kJumps);
  });
}

std::set<std::string> expected_names(const Scenario& scenario) {
  std::set<std::string> names;
  for (const ExpectedType& type : scenario.expect.types) names.insert(type.full_name());
  for (const ExpectedName& gradient : scenario.expect.gradients) {
    names.insert(gradient.name + ".grad");
  }
  return names;
}

// Values that [expect] names, at their end, and gradients.
void keep_outputs_only(const Scenario& scenario, std::vector<ValueReport>& values) {
  const std::set<std::string> named = expected_names(scenario);
  std::vector<ValueReport> kept;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string& name = values[i].name;
    const bool last =
        std::none_of(values.begin() + static_cast<std::ptrdiff_t>(i) + 1, values.end(),
                     [&](const ValueReport& v) { return v.name == name; });
    if (name.ends_with(".grad") || (named.contains(name) && last)) kept.push_back(values[i]);
  }
  values = std::move(kept);
}

std::int64_t line_of_failure(const JudgedRuns& runs) {
  const std::string* at = runs.run.error->find("at");
  return at == nullptr ? 0 : line_in(*at).value_or(0);
}

// Replicas that differ by the order of additions are no wrong call.
void accept_other_orders(JudgedRuns& runs) {
  StepVerdict& steps = runs.judgement.steps;
  const auto& wrong = steps.wrong;
  if (!wrong || !wrong->unequal_replicas || steps.wrong_calls > 1) return;
  const bool accepted = std::ranges::any_of(runs.judgement.values, [&](const ValueReport& report) {
    return report.facts.by_order && report.line == wrong->place.position.line;
  });
  if (!accepted) return;
  steps.wrong.reset();
  steps.wrong_calls = 0;
  ++steps.bounded;
}

// Values that follow from messages, where one device gets none.
void judge_stages(JudgedRuns& runs, const RoleInputs& roles) {
  const bool asks = !runs.inputs.one_device->failure.empty() ||
                    std::ranges::any_of(runs.judgement.values, [](const ValueReport& report) {
                      return report.facts.other_program && !report.facts.given;
                    });
  if (asks) runs.stages = Stages::of(runs.run, *runs.ranks.registry);
  if (!runs.stages) return;
  DefUse::Ids doubtful;
  for (const SizeInText& literal : literals_of(runs.flow(), runs.run.events)) {
    doubtful.push_back(literal.node);
  }
  for (DefUse::Id id = 0; id < runs.flow().nodes().size(); ++id) {
    const FlowNode& node = runs.flow().nodes()[id];
    const bool other =
        node.kind == DefUse::Kind::kWorld && !runs.stages->kept().contains(node.name);
    if (other) doubtful.push_back(id);
  }
  runs.stages->judge(runs.inputs, roles, doubtful, runs.judgement.values);
  runs.judgement.not_verified.clear();
  runs.judgement.not_verified_fix.clear();
}

// Pieces of which each is as large as all that one device has: as many as there are ranks.
bool is_stacked(const JudgedRuns& runs, const ValueReport& report) {
  if (report.spec == nullptr || !is_open_claim(report)) return false;
  const auto held = held_by_ranks(runs.inputs, report);
  const auto expected = expected_of(runs.inputs, report);
  return held && expected && expected->meta.shape != report.spec->shape() &&
         std::ranges::all_of(
             *held, [&](const GlobalValue& own) { return own.meta.shape == expected->meta.shape; });
}

// Ranks hold the rows of which its label speaks in an order that no label has: the numbers by
// which ranks take pieces, which do not count else, are the difference.
bool is_in_other_order(const JudgedRuns& runs, const ValueReport& report) {
  if (report.spec == nullptr || report.spec->is_replicated() || !is_open_claim(report)) {
    return false;
  }
  const auto held = held_by_ranks(runs.inputs, report);
  const auto expected = expected_of(runs.inputs, report);
  if (!held || !expected || report.replicas_differ) return false;
  const double relative =
      taken_as_equal(!runs.inputs.ranks_in_f64.empty(), held->front().meta.dtype);
  const auto label = label_of(*held, *expected, *report.spec->layout(), relative);
  return label && label->by_rows() && label->placements == report.spec->placements();
}

std::set<int> cut_elements(JudgedRuns& runs) {
  const auto* calls = runs.matched();
  return calls == nullptr ? std::set<int>() : cut_element_lines(*calls);
}

// In a program of distributed tensors alone a value is made by its calls. If each of them is
// right on its own operands, a number that is off even in f64 follows from a jump that rounding
// turned: the sign of a number that is 0 in exact arithmetic.
void doubt_jumps(JudgedRuns& runs) {
  const StepVerdict& steps = runs.judgement.steps;
  const bool all_right = steps.judged && !steps.wrong_found() && steps.skipped.empty();
  if (!all_right || runs.inputs.given.single != nullptr) return;
  if (!has_jumps(*runs.run.scenario.program)) return;
  for (ValueReport& report : runs.judgement.values) {
    Comparison& comparison = report.comparison;
    const bool number_off = report.facts.fits == ValueFacts::Fits::kNo &&
                            comparison.agreement == Agreement::kWrong &&
                            comparison.worst_index >= 0;
    if (!number_off || report.replicas_differ) continue;
    report.facts.fits = ValueFacts::Fits::kReplicas;
    comparison.agreement = Agreement::kUndecided;
    comparison.what.clear();
    report.holders.clear();
  }
}

// All that the program names is distributed, or whole on all ranks: one device has the true
// world, and f64 is asked only where the program's dtypes leave a doubt.
void judge_distributed(JudgedRuns& runs) {
  const bool by_rank = runs.traits.reads_rank;
  const std::int64_t reported =
      by_rank ? std::min(runs.run.scenario.world, most_reference_runs(runs.run.scenario))
              : std::int64_t{1};
  runs.alone = {.options = runs.alone_options(ReportedWorld::kTrue, reported)};
  const auto& known = runs.run.options.alone;
  const bool first = known && reported == 1;
  runs.alone.single = first ? std::move(known->runs)
                            : run_alone(runs.alone.options, *runs.run.propagator, runs.run.options);
  runs.take_alone();
  runs.inputs.one_device->knows_sharing = !first;
  runs.run_reference();
  runs.judgement.values = verify_values(runs.inputs);
  if (in_doubt(runs.judgement.values)) {
    runs.run_alone_in_f64();
    verify_again(runs.inputs, runs.judgement.values);
    if (in_doubt(runs.judgement.values)) {
      runs.take_ranks_in_f64();
      verify_again(runs.inputs, runs.judgement.values);
    }
  }
  for (ValueReport& report : runs.judgement.values) {
    report.facts.role = ValueFacts::Role::kClaim;
    report.facts.claims_terms = true;
    report.facts.by_rank = by_rank && runs.flow().follows_rank(report.name);
    report.facts.other_program =
        report.facts.by_rank && report.facts.fits == ValueFacts::Fits::kNoValue;
    if (report.replicas_differ) report.facts.by_rank = false;
  }
  doubt_jumps(runs);
  for (ValueReport& report : runs.judgement.values) report.row = &outcome_of(report.facts);
}

void judge_plain(JudgedRuns& runs) {
  runs.inputs.flow = &runs.flow();
  for (std::string& text :
       parting_branches(*runs.run.scenario.program, runs.flow(), runs.inputs.ranks)) {
    runs.judgement.warnings.push_back(std::move(text));
  }
  runs.take_ranks_in_f64();
  AloneOptions options = runs.alone_options(ReportedWorld::kOne, 1);
  options.parts = runs.parts->expressions();
  if (!options.parts->empty()) options.on_part = runs.parts->wholes();
  runs.alone = {.options = options};
  runs.run_in_f64(runs.alone);
  runs.alone.options.precision = Precision::kDeclared;
  runs.alone.single = run_alone(runs.alone.options, *runs.run.propagator, runs.run.options);
  runs.take_alone();
  runs.take_alone_in_f64();
  runs.run_reference();
  if (runs.inputs.given.single != nullptr) runs.run_reference_in_f64();
  runs.judgement.values = verify_values(runs.inputs);
  RoleInputs roles{.flow = &runs.flow(), .expected = expected_names(runs.run.scenario)};
  roles.pieces = runs.parts->pieces();
  for (const RecordedValue& value : runs.inputs.ranks.front()->values()) {
    if (value.at_end && value.occurrence == 0) roles.types[value.name] = type_string(value.value);
  }
  find_roles(roles, runs.judgement.values);
  if (std::ranges::any_of(runs.judgement.values, is_open_claim)) {
    roles.cut_elements = cut_elements(runs);
    find_roles(roles, runs.judgement.values);
  }
  for (ValueReport& report : runs.judgement.values) {
    if (report.facts.by_rank && is_stacked(runs, report)) {
      report.facts.other_program = true;
      report.reason =
          "one device runs another program: it has one piece in place of all ranks' own; "
          "[reference] can say what is meant";
    }
    if (report.replicas_differ) report.facts.by_rank = report.facts.other_program = false;
    if (is_in_other_order(runs, report)) {
      report.facts.by_rank = runs.flow().any(runs.before(report), DefUse::Kind::kRank);
    }
  }
  judge_stages(runs, roles);
  doubt_values(runs);
  find_outcomes(runs.flow(), runs.judgement.values);
  add_reasons(runs.inputs, runs.judgement.values);
  accept_other_orders(runs);
}

}  // namespace

Verdicts::Verdicts(const Run& run, ScenarioJudgement& judgement, const ProgramRun& ranks,
                   const EarlyJudge* early)
    : judgement_(judgement), ranks_(ranks) {
  if (!run.shapes_only()) runs_ = std::make_unique<JudgedRuns>(run, judgement, ranks, early);
}

Verdicts::~Verdicts() = default;

// Only a run in f64 decides which values are close; it is made if the program asks.
std::optional<Error> Verdicts::failed_assertion() {
  if (!runs_ || !runs_->traits.asserts_close) return std::nullopt;
  const ProgramRun& in_f64 = runs_->ranks_in_f64();
  if (!in_f64.error) return shardlab::failed_assertion(recordings_of(in_f64), runs_->inputs.ranks);
  runs_->judgement.warnings.push_back("assert_close is not decided: in f64 the program fails: " +
                                      in_f64.error->summary());
  return std::nullopt;
}

void Verdicts::explain_failure() {
  if (!runs_) return;
  JudgedRuns& runs = *runs_;
  runs.judgement.parted = parted_at(*runs.run.scenario.program, runs.flow(), runs.inputs.ranks);
  const bool of_sizes = runs.run.error && runs.run.error->kind() == ErrorKind::kValue;
  const auto line =
      of_sizes && runs.judgement.parted.empty() ? static_cast<int>(line_of_failure(runs)) : 0;
  if (line == 0 || !runs.traits.leaves || runs.run.verdict->culprits.empty()) return;
  const AloneRuns alone =
      run_alone(runs.alone_options(ReportedWorld::kOne, 1), *runs.run.propagator, runs.run.options);
  const std::int64_t rank = runs.run.verdict->culprits.front();
  runs.judgement.parted =
      piece_meets_whole(runs.run.scenario, *runs.run.layout, line, rank,
                        *runs.inputs.ranks[static_cast<std::size_t>(rank)], *alone.recordings[0]);
}

void Verdicts::verify() {
  if (!runs_) {
    judgement_.not_verified = "shapes only: nothing verified";
    for (const Recording& recording : ranks_.recordings) {
      list_values(recording, "not computed", judgement_.values);
    }
    return;
  }
  JudgedRuns& runs = *runs_;
  if (runs.run.scenario.expect.verify == Verify::kNone) {
    runs.judgement.not_verified = runs.inputs.nothing = "verify = \"none\"";
    if (runs.inputs.keep == 0) return;
    runs.judgement.values = verify_values(runs.inputs);
    for (ValueReport& report : runs.judgement.values) report.row = &outcome_of(report.facts);
    return;
  }
  runs.inputs.nothing = "the single-device run does not get here";
  if (runs.traits.leaves) {
    judge_plain(runs);
  } else {
    judge_distributed(runs);
  }
  if (lacks_elements()) return;
  if (runs.run.options.explain) explain_values(runs);
  if (runs.run.scenario.expect.verify == Verify::kOutputs) {
    keep_outputs_only(runs.run.scenario, runs.judgement.values);
  }
}

bool Verdicts::lacks_elements() const {
  return runs_ && runs_->inputs.early != nullptr &&
         std::ranges::any_of(runs_->judgement.values, is_off);
}

}  // namespace shardlab
