// One device runs the same program. As long as the program works on DTensors its world is the true
// one; of plain tensors it is a world of one rank: all mesh dims 1. Everything is run once, in the
// program's dtypes and in f64, then each value gets its outcome (outcome.h).
#include "sim/judge/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "base/kept_memory.h"
#include "sim/judge/expected_mistake.h"
#include "sim/judge/literals.h"
#include "sim/judge/parts_by_rank.h"
#include "sim/judge/stages.h"
#include "sim/language/run/call_names.h"
#include "sim/language/run/def_use.h"
#include "sim/language/syntax/ast_walk.h"
#include "sim/language/syntax/parser.h"
#include "sim/run/one_device.h"
#include "sim/run/process_records.h"
#include "sim/verify/assertions.h"
#include "sim/verify/causes.h"
#include "sim/verify/early_judge.h"
#include "sim/verify/evidence.h"
#include "sim/verify/failed_sizes.h"
#include "sim/verify/held_numbers.h"
#include "sim/verify/labels/exchanged.h"
#include "sim/verify/labels/size_of_piece.h"
#include "sim/verify/labels/suspects.h"
#include "sim/verify/parting_branches.h"
#include "sim/verify/reasons.h"
#include "sim/verify/roles.h"

namespace shardlab {

// One choice of rank and world for the single-device run, in the program's dtypes and in f64.
struct Alone {
  AloneOptions options;
  AloneRuns single;
  AloneRuns reference;  ///< of no run until it is needed
  const std::string& failure() const {
    return single.failure.empty() ? reference.failure : single.failure;
  }
  bool runs() const { return failure().empty(); }
};

/// The calls of the ranks and of one device, in f64.
struct CallLogs {
  explicit CallLogs(std::int64_t ranks) : ranks(ranks), alone(1) {}
  CallLog ranks, alone;
  std::vector<MatchedCall> matched;
  bool complete = false;  ///< all of them ran to their ends
};

namespace {

// A program that reads its rank has one reference run per rank: up to this many, or as many as have
// together this many elements of inputs.
constexpr std::int64_t kReferenceRuns = 64;
constexpr std::int64_t kReferenceElements = std::int64_t{1} << 20;

std::int64_t most_reference_runs(const Scenario& scenario) {
  std::int64_t elements = 1;
  for (const ScenarioInput& input : scenario.inputs) elements += product(input.type.sizes);
  return std::max(kReferenceRuns, kReferenceElements / elements);
}

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

std::vector<const Recording*> recordings_of(const ProgramRun& run) {
  std::vector<const Recording*> all;
  for (const Recording& recording : run.recordings) all.push_back(&recording);
  return all;
}

}  // namespace

class Verification {
 public:
  Verification(const Run& run, ScenarioJudgement& judgement, const ProgramRun& ranks,
               const EarlyJudge* early)
      : run_(run), judgement_(judgement), ranks_(ranks), traits_(traits_of(*run.scenario.program)) {
    inputs_.ranks = recordings_of(ranks);
    inputs_.early = early;
    inputs_.reporting_rank = static_cast<std::size_t>(run.reporting_rank);
    inputs_.leaves = traits_.leaves;
    inputs_.mesh = run.layout;
    inputs_.tolerance = run.scenario.expect.tolerance;
    inputs_.keep = run.scenario.expect.checkpoint ? kKeepAll : run.options.keep_elements;
    if (const auto& memory = run.options.memory)
      inputs_.most_elements = most_compared_elements(*memory);
  }

  // Only a run in f64 decides which values are close; it is made if the program asks.
  std::optional<Error> failed_assertion() {
    if (!traits_.asserts_close) return std::nullopt;
    run_ranks_in_f64();
    if (!in_f64_->error) return shardlab::failed_assertion(recordings_of(*in_f64_), inputs_.ranks);
    judgement_.warnings.push_back("assert_close is not decided: in f64 the program fails: " +
                                  in_f64_->error->summary());
    return std::nullopt;
  }

  void explain_failure() {
    judgement_.parted = parted_at(*run_.scenario.program, flow(), inputs_.ranks);
    const bool of_sizes = run_.error && run_.error->kind() == ErrorKind::kValue;
    const auto line =
        of_sizes && judgement_.parted.empty() ? static_cast<int>(line_of_failure()) : 0;
    if (line == 0 || !traits_.leaves || run_.verdict->culprits.empty()) return;
    const AloneRuns alone =
        run_alone(alone_options(ReportedWorld::kOne, 1), *run_.propagator, run_.options);
    const std::int64_t rank = run_.verdict->culprits.front();
    judgement_.parted =
        piece_meets_whole(run_.scenario, *run_.layout, line, rank,
                          *inputs_.ranks[static_cast<std::size_t>(rank)], *alone.recordings[0]);
  }

  void run() {
    if (run_.scenario.expect.verify == Verify::kNone) {
      judgement_.not_verified = inputs_.nothing = "verify = \"none\"";
      if (inputs_.keep == 0) return;
      judgement_.values = verify_values(inputs_);
      for (ValueReport& report : judgement_.values) report.row = &outcome_of(report.facts);
      return;
    }
    inputs_.nothing = "the single-device run does not get here";
    if (traits_.leaves) {
      judge_plain();
    } else {
      judge_distributed();
    }
    if (lacks_elements()) return;
    explain_first();
    if (run_.scenario.expect.verify == Verify::kOutputs) {
      keep_outputs_only(run_.scenario, judgement_.values);
    }
  }

  bool lacks_elements() const {
    return inputs_.early != nullptr && std::ranges::any_of(judgement_.values, is_off);
  }

 private:
  std::int64_t line_of_failure() const {
    const std::string* at = run_.error->find("at");
    return at == nullptr ? 0 : line_in(*at).value_or(0);
  }

  const DefUse& flow() {
    if (!flow_) flow_.emplace(*run_.scenario.program);
    return *flow_;
  }

  // All that the program names is distributed, or whole on all ranks: one device has the true
  // world, and f64 is asked only where the program's dtypes leave a doubt.
  void judge_distributed() {
    const std::int64_t ranks = run_.scenario.world;
    const bool by_rank = traits_.reads_rank;
    const std::int64_t runs =
        by_rank ? std::min(ranks, most_reference_runs(run_.scenario)) : std::int64_t{1};
    alone_ = {.options = alone_options(ReportedWorld::kTrue, runs)};
    const auto& known = run_.options.alone;
    const bool first = known && runs == 1;
    alone_.single =
        first ? std::move(known->runs) : run_alone(alone_.options, *run_.propagator, run_.options);
    take_alone();
    inputs_.one_device->knows_sharing = !first;
    run_reference();
    judgement_.values = verify_values(inputs_);
    if (in_doubt(judgement_.values)) {
      run_alone_in_f64();
      verify_again(inputs_, judgement_.values);
      if (in_doubt(judgement_.values)) {
        take_ranks_in_f64();
        verify_again(inputs_, judgement_.values);
      }
    }
    for (ValueReport& report : judgement_.values) {
      report.facts.role = ValueFacts::Role::kClaim;
      report.facts.claims_terms = true;
      report.facts.by_rank = by_rank && flow().follows_rank(report.name);
      report.facts.other_program =
          report.facts.by_rank && report.facts.fits == ValueFacts::Fits::kNoValue;
      if (report.replicas_differ) report.facts.by_rank = false;
    }
    doubt_jumps();
    for (ValueReport& report : judgement_.values) report.row = &outcome_of(report.facts);
  }

  void judge_plain() {
    inputs_.flow = &flow();
    for (std::string& text : parting_branches(*run_.scenario.program, flow(), inputs_.ranks)) {
      judgement_.warnings.push_back(std::move(text));
    }
    take_ranks_in_f64();
    AloneOptions options = alone_options(ReportedWorld::kOne, 1);
    options.parts = parts_->expressions();
    if (!options.parts->empty()) options.on_part = parts_->wholes();
    alone_ = {.options = options};
    run_in_f64(alone_);
    alone_.options.precision = Precision::kDeclared;
    alone_.single = run_alone(alone_.options, *run_.propagator, run_.options);
    take_alone();
    take_alone_in_f64();
    run_reference();
    if (inputs_.given.single != nullptr) run_reference_in_f64();
    judgement_.values = verify_values(inputs_);
    RoleInputs roles{.flow = &flow(), .expected = expected_names(run_.scenario)};
    roles.pieces = parts_->pieces();
    for (const RecordedValue& value : inputs_.ranks.front()->values()) {
      if (value.at_end && value.occurrence == 0) roles.types[value.name] = type_string(value.value);
    }
    find_roles(roles, judgement_.values);
    if (std::ranges::any_of(judgement_.values, is_open_claim)) {
      roles.cut_elements = cut_elements();
      find_roles(roles, judgement_.values);
    }
    for (ValueReport& report : judgement_.values) {
      if (report.facts.by_rank && is_stacked(report)) {
        report.facts.other_program = true;
        report.reason =
            "one device runs another program: it has one piece in place of all ranks' own; "
            "[reference] can say what is meant";
      }
      if (report.replicas_differ) report.facts.by_rank = report.facts.other_program = false;
      if (is_in_other_order(report)) {
        report.facts.by_rank = flow().any(before(report), DefUse::Kind::kRank);
      }
    }
    judge_stages(roles);
    ask_every_rank();
    look_for_literals();
    find_outcomes(flow(), judgement_.values);
    add_reasons(inputs_, judgement_.values);
    accept_other_orders();
  }

  // Replicas that differ by the order of additions are no wrong call.
  void accept_other_orders() {
    StepVerdict& steps = judgement_.steps;
    const auto& wrong = steps.wrong;
    if (!wrong || !wrong->unequal_replicas || steps.wrong_calls > 1) return;
    const bool accepted = std::ranges::any_of(judgement_.values, [&](const ValueReport& report) {
      return report.facts.by_order && report.line == wrong->place.position.line;
    });
    if (!accepted) return;
    steps.wrong.reset();
    steps.wrong_calls = 0;
    ++steps.bounded;
  }

  // Values that follow from messages, where one device gets none.
  void judge_stages(const RoleInputs& roles) {
    const bool asks = !inputs_.one_device->failure.empty() ||
                      std::ranges::any_of(judgement_.values, [](const ValueReport& report) {
                        return report.facts.other_program && !report.facts.given;
                      });
    if (asks) stages_ = Stages::of(run_, *ranks_.registry);
    if (!stages_) return;
    DefUse::Ids doubtful;
    for (const SizeInText& literal : literals_of(flow(), run_.events)) {
      doubtful.push_back(literal.node);
    }
    for (DefUse::Id id = 0; id < flow().nodes().size(); ++id) {
      const FlowNode& node = flow().nodes()[id];
      const bool other = node.kind == DefUse::Kind::kWorld && !stages_->kept().contains(node.name);
      if (other) doubtful.push_back(id);
    }
    stages_->judge(inputs_, roles, doubtful, judgement_.values);
    judgement_.not_verified.clear();
    judgement_.not_verified_fix.clear();
  }

  // All that a value is compared with.
  const VerifyInputs& inputs_of(const ValueReport& report) const {
    return is_in_stage(report) ? stages_->inputs(stages_->stage_of(report)) : inputs_;
  }

  bool is_in_stage(const ValueReport& report) const {
    return stages_ && stages_->stage_of(report) >= 0;
  }

  static bool is_open_claim(const ValueReport& report) {
    const ValueFacts& facts = report.facts;
    return facts.comparable && !facts.agrees() && facts.role != ValueFacts::Role::kOnTheWay;
  }

  // Pieces of which each is as large as all that one device has: as many as there are ranks.
  bool is_stacked(const ValueReport& report) const {
    if (report.spec == nullptr || !is_open_claim(report)) return false;
    const auto held = held_by_ranks(inputs_, report);
    const auto expected = expected_of(inputs_, report);
    return held && expected && expected->meta.shape != report.spec->shape() &&
           std::ranges::all_of(*held, [&](const GlobalValue& own) {
             return own.meta.shape == expected->meta.shape;
           });
  }

  // Ranks hold the rows of which its label speaks in an order that no label has: the numbers by
  // which ranks take pieces, which do not count else, are the difference.
  bool is_in_other_order(const ValueReport& report) const {
    if (report.spec == nullptr || report.spec->is_replicated() || !is_open_claim(report)) {
      return false;
    }
    const auto held = held_by_ranks(inputs_, report);
    const auto expected = expected_of(inputs_, report);
    if (!held || !expected || report.replicas_differ) return false;
    const double relative = taken_as_equal(!inputs_.ranks_in_f64.empty(), held->front().meta.dtype);
    const auto label = label_of(*held, *expected, *report.spec->layout(), relative);
    return label && label->by_rows() && label->placements == report.spec->placements();
  }

  DefUse::Ids before(const ValueReport& report) { return flow().made_of(nodes_of(flow(), report)); }

  // Runs of one device in f64, with another program or another world.
  VerifyInputs inputs_with(const AloneRuns& runs) const {
    VerifyInputs other = inputs_;
    other.one_device.emplace();
    other.one_device->single = other.one_device->reference = runs.recordings;
    other.one_device->failure = runs.failure;
    other.keep = 0;
    return other;
  }

  std::set<int> cut_elements() {
    const auto* calls = matched();
    return calls == nullptr ? std::set<int>() : cut_element_lines(*calls);
  }

  // A value that one rank has sent to all is one device's only if every rank would have it: rank
  // 0's zeros agree with those of one device by chance. Zeros that nobody keeps do not count, and
  // neither does what a rank makes of all ranks' values before it sends it.
  void ask_every_rank() {
    const std::set<DefUse::Kind> of_all = {DefUse::Kind::kReduced, DefUse::Kind::kGathered};
    const auto from_one = [&](const ValueReport& report) {
      if (!report.facts.agrees() || !report.facts.by_rank || report.facts.given) return false;
      const auto near = flow().made_of_until(nodes_of(flow(), report), of_all);
      const auto& nodes = flow().nodes();
      const bool drawn = std::ranges::any_of(
          near, [&](DefUse::Id id) { return !nodes[id].op.empty() && draws(nodes[id].op); });
      // Entries of a list that ranks take by their place are pieces, and so is what is scattered.
      const bool pieces = report.facts.fits == ValueFacts::Fits::kPieces;
      return !drawn && std::ranges::any_of(near, [&](DefUse::Id id) {
        if (nodes[id].kind != DefUse::Kind::kFromOne ||
            (pieces && (nodes[id].entry || nodes[id].op == "scatter"))) {
          return false;
        }
        return std::ranges::none_of(
            flow().made_of_until(nodes[id].from, of_all),
            [&](DefUse::Id one) { return of_all.contains(nodes[one].kind); });
      });
    };
    if (std::ranges::none_of(judgement_.values, from_one)) return;
    AloneOptions options = alone_options(ReportedWorld::kTrue, run_.scenario.world);
    options.reported_ranks = std::min(run_.scenario.world, most_reference_runs(run_.scenario));
    options.precision = Precision::kReference;
    const AloneRuns told = run_alone(options, *run_.propagator, run_.options);
    for (ValueReport& report : judgement_.values) {
      if (!from_one(report)) continue;
      for (std::size_t rank = 0; rank < told.recordings.size(); ++rank) {
        const auto own = numbers_of(*told.recordings[rank], report);
        const auto all = expected_of(inputs_, report);
        if (!own || !all || is_blank(*own)) continue;
        if (close_numbers(*own, *all, rounding::kRelativeInF64)) continue;
        report.facts.fits = ValueFacts::Fits::kNo;
        report.comparison.what =
            fmt::format("one rank sends it to all, and rank {} has another value of it", rank);
        report.cause = {causes::kOtherChunk, report.comparison.what};
        break;
      }
    }
  }

  static bool is_blank(const GlobalValue& value) {
    const auto uniform = [](const auto& numbers) {
      return std::ranges::adjacent_find(numbers, std::ranges::not_equal_to{}) == numbers.end();
    };
    return uniform(value.reals) && uniform(value.integers);
  }

  void look_for_literals() {
    const std::vector<SizeInText> literals = literals_of(flow(), run_.events);
    const bool failed = !inputs_.one_device->failure.empty();
    const bool off = std::ranges::any_of(judgement_.values, is_open_claim);
    if ((off || failed) && !literals.empty()) take_for_sizes(literals);
    if (inputs_.one_device->other_shape) doubt_shapes_of_text();
    for (const SizeInText& literal : literals) {
      if (literal.divides_sum) doubt(flow().makes({literal.node}), text_of(literal));
    }
    const bool divides = std::ranges::any_of(
        flow().nodes(), [](const FlowNode& node) { return node.factor > 1 && node.divides; });
    const auto* calls = divides ? matched() : nullptr;
    const auto piece = calls == nullptr ? std::nullopt : size_of_piece(*calls, *run_.layout);
    const auto after = piece ? flow().makes(flow().on_line(piece->line)) : DefUse::Ids();
    if (off) report_ranks(after, piece ? piece->text : "");
    if (piece && !off) doubt(after, piece->text);
  }

  std::string text_of(const SizeInText& literal) {
    return literal.text(flow().line_of(literal.node));
  }

  // Values that agree with one device, which divides by the same number.
  void doubt(const DefUse::Ids& after, const std::string& reason) {
    for (ValueReport& report : judgement_.values) {
      if (!report.facts.agrees() || report.facts.given) continue;
      if (!follows(report, after)) continue;
      report.facts.literal = report.told = true;
      report.reason = reason;
    }
  }

  // With its numbers as they are in a world of one the program on one device agrees.
  void take_for_sizes(const std::vector<SizeInText>& literals) {
    Scenario meant = run_.scenario;
    const SourceText& source = *meant.program->source;
    AloneRuns runs;
    try {
      meant.program = std::make_shared<const ast::Program>(parse_program(
          std::make_shared<const SourceText>(source.file(), text_of_one(source.text(), literals))));
      AloneOptions options = alone_.options;
      options.scenario = &meant;
      options.precision = Precision::kReference;
      runs = run_alone(options, *run_.propagator, run_.options);
    } catch (const Error&) {
      return;
    }
    const VerifyInputs other = inputs_with(runs);
    for (ValueReport& report : judgement_.values) {
      if (report.facts.agrees() || report.facts.given || is_in_stage(report)) continue;
      const auto all = before(report);
      const auto literal = std::ranges::find_if(literals, [&](const SizeInText& one) {
        return std::ranges::binary_search(all, one.node);
      });
      if (literal == literals.end()) continue;
      const bool lists_only = literal->list && !runs.failure.empty();
      if (!lists_only && !agrees_in(other, report)) continue;
      report.facts.literal = report.facts.comparable = report.told = true;
      report.reason = text_of(*literal);
    }
  }

  // A gather fills a tensor to which the text gives the shape that several ranks make.
  void doubt_shapes_of_text() {
    for (ValueReport& report : judgement_.values) {
      const bool gathered = flow().any(before(report), DefUse::Kind::kGathered);
      if (report.facts.agrees() || report.facts.given || !gathered) continue;
      report.facts.literal = report.told = true;
      report.reason =
          "follows from a gather into a tensor to which the text gives the shape that several "
          "ranks "
          "make: one device has another; write it with dist.get_world_size(), or say in "
          "[reference] "
          "what is meant";
    }
  }

  // Values that one device has only if it is told the number of ranks; or if a number that they
  // are divided by, the size of a piece, were that of the whole.
  void report_ranks(const DefUse::Ids& divided, const std::string& by_piece) {
    const auto by_world = [&](const ValueReport& report) {
      const ValueFacts& facts = report.facts;
      return is_open_claim(report) && !facts.by_rank && !facts.given && !facts.literal &&
             !is_in_stage(report) && flow().any(before(report), DefUse::Kind::kWorld);
    };
    if (std::ranges::none_of(judgement_.values, by_world)) return;
    AloneOptions options = alone_options(ReportedWorld::kTrue, 1);
    options.precision = Precision::kReference;
    const AloneRuns runs = run_alone(options, *run_.propagator, run_.options);
    const VerifyInputs other = inputs_with(runs);
    for (ValueReport& report : judgement_.values) {
      if (!by_world(report) || !agrees_in(other, report)) continue;
      report.facts.literal = true;
      report.told = follows(report, divided);
      report.reason =
          report.told ? by_piece
                      : fmt::format(
                            "it agrees only if one device is told the number of ranks, {}; say in "
                            "[reference] whether it should; {}",
                            run_.scenario.world, report.comparison.what);
    }
  }

  // Only the first are explained, as others follow from them; what differs takes no turn of these.
  void explain_first() {
    constexpr int kMost = 3;
    int tried = 0;
    for (const Outcome outcome : {Outcome::kWrong, Outcome::kDiffers}) {
      for (ValueReport& report : judgement_.values) {
        if (report.outcome() != outcome || report.told || !report.cause.empty()) continue;
        if (tried++ == kMost) return explain_by_messages();
        report.cause = explain(report);
        if (tried > 1 && report.cause.id == causes::kNone) report.cause = {};
      }
    }
    explain_by_messages();
  }

  // A stage that is right itself has a wrong value from the stage that is not.
  void explain_by_messages() {
    for (ValueReport& report : judgement_.values) {
      if (!is_in_stage(report) || report.cause.id != causes::kNone) continue;
      const auto all = before(report);
      for (const ValueReport& other : judgement_.values) {
        const bool known = is_in_stage(other) && other.cause.line > 0 &&
                           stages_->stage_of(other) != stages_->stage_of(report);
        if (!known || !follows(other, all)) continue;
        report.cause = other.cause;
        break;
      }
    }
  }

  // A label that fits what ranks hold; the step at which the meaning was lost; a value on the way
  // that is off in a known way, and with which the program is right if it is not; this value.
  Cause explain(const ValueReport& report) {
    Cause cause = cause_by_numbers(inputs_of(report), report, run_.scenario);
    const bool label = cause.id == causes::kOtherLabel && report.spec != nullptr &&
                       cause.text.find("=P(") == std::string::npos;
    const bool number = cause.id == causes::kUnequalNumber;
    // A gradient is at its input, and the first wrong call of backward is its place.
    const std::optional<WrongStep>& wrong = judgement_.steps.wrong;
    const bool in_backward =
        report.name.ends_with(".grad") && wrong && wrong->place.pass == Pass::kBackward;
    if (traits_.leaves && !label && !number) {
      const bool told = !cause.empty() && cause.id != causes::kOtherChunk;
      if (auto step = cause_by_steps(report, told || in_backward)) return *step;
      if (auto part = cause_by_parts(report)) return *part;
    }
    if (cause.empty()) {
      cause = last_cause(inputs_of(report), report, run_.scenario);
      const bool weak = cause.id == causes::kNone || cause.id == causes::kSomeRanks;
      if (weak && traits_.leaves) {
        Cause known = cause_by_text(flow(), report, run_.warnings);
        if (known.empty()) known = cause_by_branch(report);
        if (!known.empty()) return known;
      }
      cause.line = first_part_line(report);
    }
    if (in_backward && cause.line == 0) cause.line = wrong->place.position.line;
    return cause;
  }

  // The line of the first value on the way that is not right; 0: there is none. Ranks may go apart
  // in values that follow from the rank.
  int first_part_line(const ValueReport& report) {
    if (!traits_.leaves) return 0;
    const auto all = before(report);
    for (const ValueReport& part : judgement_.values) {
      const bool told = part.outcome() == Outcome::kPartOfCause && !part.facts.by_rank;
      if (told && follows(part, all)) return part.line;
    }
    return 0;
  }

  bool follows(const ValueReport& report, const DefUse::Ids& from) {
    return meet(nodes_of(flow(), report), from);
  }

  std::optional<Cause> cause_by_parts(const ValueReport& report) {
    const auto all = before(report);
    for (const ValueReport& part : judgement_.values) {
      if (part.outcome() != Outcome::kPartOfCause || !follows(part, all)) continue;
      Cause cause = cause_by_numbers(inputs_of(part), part, run_.scenario);
      if (cause.empty() || !is_right_with_right(part, report)) continue;
      if (cause.line == 0) cause.line = cause.id == causes::kFactor ? last_sum(part) : part.line;
      return cause;
    }
    return std::nullopt;
  }

  // A sum in place that ends the value counts it once too often.
  int last_sum(const ValueReport& report) {
    int line = report.line;
    for (const DefUse::Id id : nodes_of(flow(), report)) {
      if (flow().nodes()[id].kind == DefUse::Kind::kReduced) {
        line = std::max(line, flow().line_of(id));
      }
    }
    return line;
  }

  // The value is right where a part of it is: the step that made the part gives one device's.
  bool is_right_with_right(const ValueReport& part, const ValueReport& report) {
    const auto held = held_by_ranks(inputs_of(part), part);
    const auto expected = expected_of(inputs_of(part), part);
    if (!held || !expected || matched() == nullptr) return false;
    const auto& steps =
        logs_->ranks.by_rank()[static_cast<std::size_t>(run_.layout->rank_at_index(0))];
    for (std::size_t i = steps.size(); i-- > 0;) {
      const LoggedCall& step = steps[i];
      for (std::size_t k = 0; k < step.results.size(); ++k) {
        if (!same_numbers(step.results[k], (*held)[0])) continue;
        const auto ranks = static_cast<std::size_t>(run_.scenario.world);
        return is_right_with({{step.key, k, {ranks, expected}}}, report);
      }
    }
    return false;
  }

  std::optional<Cause> cause_by_steps(const ValueReport& report, bool explained) {
    std::vector<MatchedCall> of_stage;
    const auto* calls = matched_of(report, of_stage);
    if (calls == nullptr) return std::nullopt;
    const auto all = before(report);
    Suspicions suspicions{{.calls = *calls,
                           .layout = inputs_of(report).mesh,
                           .relative = rounding::kRelativeInF64,
                           .by_backward = flow().any(all, DefUse::Kind::kBackward)},
                          {},
                          explained};
    const SourceText& source = *run_.scenario.program->source;
    for (const DefUse::Id id : all) {
      const SourcePlace place = source.place(flow().nodes()[id].begin);
      suspicions.path.emplace(place.line, place.column);
    }
    suspicions.number_in = [&](int line, double own, double alone) {
      return number_in(line, own, alone);
    };
    suspicions.mends = [&](const std::vector<ChangedResult>& changes,
                           std::vector<MatchedCall>& steps) {
      return is_right_with(changes, report, &steps);
    };
    if (!is_in_stage(report) && report.in_floats) {
      suspicions.exchanged = [&]() -> std::optional<Cause> {
        if (!cause_by_text(flow(), report, run_.warnings).empty()) return std::nullopt;
        return cause_by_exchange({logs_->ranks, *run_.layout, suspicions.path,
                                  [&](const std::vector<ChangedResult>& changes) {
                                    return is_right_with(changes, report);
                                  }});
      };
    }
    return cause_on_path(suspicions);
  }

  // Ranks that a branch on their number parts, where all are right if they go one device's way.
  Cause cause_by_branch(const ValueReport& report) {
    const auto all = before(report);
    const auto parts = [&](DefUse::Id id) {
      return flow().nodes()[id].kind == DefUse::Kind::kDecides &&
             flow().any(flow().made_of({id}), DefUse::Kind::kRank);
    };
    const auto turn = std::ranges::find_if(all, parts);
    if (turn == all.end() || is_in_stage(report)) return {};
    ProgramRun again;
    again.follows.emplace(&alone_.reference.runs.front()->answers, Branches::kFollowed);
    if (!is_right_in(again, report)) return {};
    const int line = flow().line_of(*turn);
    return {causes::kPartedBranch,
            fmt::format("line {} parts the ranks by their number, and the value is right if all go "
                        "on there as one device does",
                        line),
            line};
  }

  // A name in a line that has these numbers on the ranks and on one device, and the line of it.
  std::optional<std::pair<std::string, int>> number_in(int line, double own, double alone) {
    const auto is = [](double a, double b) {  // 0 is no number that was read
      return std::fabs(a - b) < rounding::kFactor * std::fabs(b);
    };
    const auto& others = inputs_.one_device->single.front()->notes().numbers;
    for (const auto& [name, number] : inputs_.ranks.front()->notes().numbers) {
      const auto other = others.find(name);
      if (other == others.end() || !is(number, own) || !is(other->second, alone)) continue;
      const std::string_view text = run_.scenario.program->source->line(line);
      const int bound = text.find(name) == text.npos ? 0 : line_bound(flow(), name, line);
      if (bound > 0) return std::pair(name, bound);
    }
    return std::nullopt;
  }

  // A value of other sizes that fits as pieces or terms: its claim is one more mistake.
  bool fits_resized(const VerifyInputs& other, const ValueReport& report) const {
    const auto held = held_by_ranks(other, report),
               before = held_by_ranks(inputs_of(report), report);
    const auto expected = expected_of(inputs_of(report), report);
    return held && before && expected && held->front().meta.shape != before->front().meta.shape &&
           label_of(*held, *expected, *mesh_of(report, other.mesh), rounding::kRelativeInF64);
  }

  // The ranks once more with some results changed.
  bool is_right_with(const std::vector<ChangedResult>& changes, const ValueReport& report,
                     std::vector<MatchedCall>* steps = nullptr) {
    ProgramRun again;
    auto changed = std::make_unique<CallLog>(run_.scenario.world, changes);
    again.listener = changed.get();
    if (is_right_in(again, report)) return true;
    if (steps != nullptr && !again.error) {
      trial_ = std::move(changed);
      *steps = steps_of(*trial_, report);
    }
    return false;
  }

  bool is_right_in(ProgramRun& again, const ValueReport& report) const {
    prepare_in_f64(again);
    ScenarioOptions options = simulated();
    options.sharing = KernelSharing::kOff;
    execute(again, *run_.propagator, run_.scenario.world, options);
    if (again.error) return false;
    VerifyInputs other = inputs_of(report);
    other.keep = 0;
    other.ranks_in_f64 = recordings_of(again);
    if (is_in_stage(report)) {
      other.ranks_in_f64 = stages_->only_of(stages_->stage_of(report), other.ranks_in_f64);
    }
    return agrees_in(other, report) || fits_resized(other, report);
  }

  // The ranks and one device once more, in f64, with all operands and results of their steps. Made
  // once; null if they do not run.
  const std::vector<MatchedCall>* matched() {
    if (!logs_) {
      logs_.emplace(run_.scenario.world);
      logs_->complete = log_calls(*logs_);
      if (logs_->complete) {
        logs_->matched =
            matched_calls(logs_->ranks, logs_->alone, *run_.layout, rounding::kRelativeInF64);
      }
    }
    return logs_->complete ? &logs_->matched : nullptr;
  }

  // A stage's steps are those of its rank in the smaller world.
  std::vector<MatchedCall> steps_of(const CallLog& ranks, const ValueReport& report) const {
    const int stage = stages_ ? stages_->stage_of(report) : -1;
    return matched_calls(ranks, stage < 0 ? logs_->alone : stages_->calls(),
                         *inputs_of(report).mesh, rounding::kRelativeInF64, std::max(stage, 0));
  }
  // `of_stage` is filled in if they are a stage's.
  const std::vector<MatchedCall>* matched_of(const ValueReport& report,
                                             std::vector<MatchedCall>& of_stage) {
    const auto* calls = matched();
    if (calls == nullptr || !is_in_stage(report)) return calls;
    of_stage = steps_of(logs_->ranks, report);
    return &of_stage;
  }

  bool log_calls(CallLogs& logs) {
    if (!in_f64_ || in_f64_->error) return false;
    ProgramRun again;
    prepare_in_f64(again);
    again.listener = &logs.ranks;
    execute(again, *run_.propagator, run_.scenario.world, simulated());
    AloneOptions alone = alone_.options;
    alone.precision = Precision::kReference;
    alone.listener = &logs.alone;
    run_alone(alone, *run_.propagator, run_.options);
    return !again.error;
  }

  // In a program of distributed tensors alone a value is made by its calls. If each of them is
  // right on its own operands, a number that is off even in f64 follows from a jump that rounding
  // turned: the sign of a number that is 0 in exact arithmetic.
  void doubt_jumps() {
    const StepVerdict& steps = judgement_.steps;
    const bool all_right = steps.judged && !steps.wrong_found() && steps.skipped.empty();
    if (!all_right || inputs_.given.single != nullptr) return;
    if (!has_jumps(*run_.scenario.program)) return;
    for (ValueReport& report : judgement_.values) {
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

  AloneOptions alone_options(ReportedWorld world, std::int64_t runs) const {
    return {.scenario = &run_.scenario,
            .layout = run_.layout,
            .registry = ranks_.registry,
            .answers = &ranks_.answers,
            .answers_rank = traits_.reads_rank ? ranks_.reporting_rank : 0,
            .world = world,
            .reported_ranks = runs};
  }

  void take_alone() {
    inputs_.one_device.emplace();
    inputs_.one_device->single = alone_.single.recordings;
    note_failure();
  }

  void note_failure() {
    OneDeviceValues& one = *inputs_.one_device;
    one.failure = alone_.failure();
    one.other_shape = std::ranges::any_of(alone_.single.recordings, &Recording::has_other_shape);
    if (one.failure.empty()) return;
    inputs_.nothing = "the single-device run fails: " + one.failure;
    if (inputs_.given.single != nullptr) return;
    judgement_.not_verified = inputs_.nothing;
    judgement_.not_verified_fix =
        "say in [reference] what the single-device run computes, or expect verify = \"none\"";
  }

  // True if there was such a run already, which did not fail.
  bool takes_known_f64() {
    const auto& known = run_.options.alone;
    if (!known || !known->in_f64 || traits_.leaves) return false;
    alone_.reference = std::move(known->in_f64->runs);
    return true;
  }

  std::set<std::string> names_in_doubt() const {
    std::set<std::string> names;
    for (const ValueReport& report : judgement_.values) {
      if (in_doubt(report)) names.insert(report.name);
    }
    return names;
  }

  // Only open values are kept, if right ones are let go. The noise of values in f64 is that of all.
  void run_open_in_f64() {
    const bool wide = std::ranges::any_of(
        alone_.single.recordings.front()->values(), [](const RecordedValue& held) {
          return held.value.dtype() == DType::kF64 || held.value.dtype() == DType::kC128;
        });
    const std::set<std::string> names = names_in_doubt();
    auto all = inputs_.ranks;
    all.insert(all.end(), inputs_.one_device->single.begin(), inputs_.one_device->single.end());
    for (const Recording* recording : all) {
      if (inputs_.early == nullptr) break;
      for (const RecordedValue& value : recording->values()) {
        if (!names.contains(value.name)) let_go(value.value.local());
      }
    }
    if (inputs_.early != nullptr) give_back_freed_memory();
    WantedValues wanted(*run_.scenario.program, names);
    if (inputs_.early != nullptr && !wide) alone_.options.drain = &wanted;
    run_in_f64(alone_);
    alone_.options.drain = nullptr;
  }

  void run_in_f64(Alone& alone) {
    alone.options.precision = Precision::kReference;
    alone.reference = run_alone(alone.options, *run_.propagator, run_.options);
  }

  // Only made when the error of the single-device run itself is needed: most values are close
  // enough to that run in the program's dtypes.
  void run_alone_in_f64() {
    if (!takes_known_f64()) run_open_in_f64();
    take_alone_in_f64();
    if (inputs_.given.single != nullptr) run_reference_in_f64();
  }

  void take_alone_in_f64() {
    OneDeviceValues& one = *inputs_.one_device;
    one.reference = alone_.reference.recordings;
    for (std::size_t rank = 0; rank < std::min(one.single.size(), one.reference.size()); ++rank) {
      one.largest = std::max(one.largest, largest_in_f64(*one.single[rank], *one.reference[rank]));
    }
    note_failure();
  }

  void run_reference_in_f64() {
    run_in_f64(given_);
    inputs_.given.reference = given_.reference.recordings[0];
    inputs_.given.largest = largest_in_f64(*inputs_.given.single, *inputs_.given.reference);
    if (!reference_runs()) inputs_.given = {};
  }

  void run_reference() {
    if (!run_.scenario.reference) return;
    reference_program_ = as_reference(run_.scenario);
    given_.options = {.scenario = &reference_program_,
                      .layout = run_.layout,
                      .registry = ranks_.registry,
                      .world = ReportedWorld::kOne};
    given_.single = run_alone(given_.options, *run_.propagator, run_.options);
    if (!reference_runs()) return;
    judgement_.not_verified.clear();
    judgement_.not_verified_fix.clear();
    inputs_.given.single = given_.single.recordings[0];
  }

  bool reference_runs() {
    if (given_.runs()) return true;
    judgement_.expectations.push_back(
        {.what = "reference", .met = false, .text = "fails: " + given_.failure()});
    return false;
  }

  // The ranks once more, in f64: rounding is then too small to be taken for a mistake, and no
  // mistake is small enough to be taken for rounding. They share this process on every backend.
  void run_ranks_in_f64() {
    if (in_f64_) return;
    in_f64_.emplace();
    prepare_in_f64(*in_f64_);
    if (traits_.leaves) {
      parts_.emplace(flow().parts_by_rank, *run_.layout, run_.scenario.world);
      in_f64_->parts = parts_->expressions();
      if (!in_f64_->parts->empty()) in_f64_->on_part = parts_->listener();
    }
    WantedValues wanted(*run_.scenario.program, names_in_doubt());
    if (inputs_.early != nullptr) in_f64_->drain = &wanted;
    execute(*in_f64_, *run_.propagator, run_.scenario.world, simulated());
    in_f64_->drain = nullptr;
  }

  void prepare_in_f64(ProgramRun& run) const {
    run.scenario = &run_.scenario;
    run.registry = ranks_.registry;
    run.layout = run_.layout;
    run.reported = run_.layout;
    run.reporting_rank = ranks_.reporting_rank;
    run.precision = Precision::kReference;
  }

  ScenarioOptions simulated() const {
    ScenarioOptions options = run_.options;
    if (channel_of(options.backend) != nullptr) options.backend = "threads";
    return options;
  }

  // A number that overflows in its dtype, and not in f64, may turn a branch: then the values of f64
  // are those of another path.
  void take_ranks_in_f64() {
    run_ranks_in_f64();
    if (in_f64_->error || !same_branches(ranks_.answers, in_f64_->answers)) return;
    inputs_.ranks_in_f64 = recordings_of(*in_f64_);
  }

  const Run& run_;
  ScenarioJudgement& judgement_;
  const ProgramRun& ranks_;
  ProgramTraits traits_;
  std::optional<DefUse> flow_;
  std::optional<PartsByRank> parts_;
  std::unique_ptr<Stages> stages_;
  Alone alone_;
  Scenario reference_program_;
  Alone given_;
  std::optional<ProgramRun> in_f64_;
  std::optional<CallLogs> logs_;
  std::unique_ptr<CallLog> trial_;  // of the last run with changed results
  VerifyInputs inputs_;
};

Verdicts::Verdicts(const Run& run, ScenarioJudgement& judgement, const ProgramRun& ranks,
                   const EarlyJudge* early)
    : judgement_(judgement), ranks_(ranks) {
  if (run.shapes_only()) return;
  verification_ = std::make_unique<Verification>(run, judgement, ranks, early);
}

Verdicts::~Verdicts() = default;

std::optional<Error> Verdicts::failed_assertion() {
  return verification_ ? verification_->failed_assertion() : std::nullopt;
}

void Verdicts::explain_failure() {
  if (verification_) verification_->explain_failure();
}

bool Verdicts::lacks_elements() const { return verification_ && verification_->lacks_elements(); }

void Verdicts::verify() {
  if (verification_) return verification_->run();
  judgement_.not_verified = "shapes only: nothing verified";
  for (const Recording& recording : ranks_.recordings) {
    list_values(recording, "not computed", judgement_.values);
  }
}

}  // namespace shardlab
