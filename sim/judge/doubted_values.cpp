// One device is run again as every rank, with the number of ranks, or with another text.
#include "sim/judge/doubted_values.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/judge/literals.h"
#include "sim/language/run/call_names.h"
#include "sim/language/syntax/parser.h"
#include "sim/verify/held_numbers.h"
#include "sim/verify/labels/size_of_piece.h"

namespace shardlab {

namespace {

bool is_blank(const GlobalValue& value) {
  const auto uniform = [](const auto& numbers) {
    return std::ranges::adjacent_find(numbers, std::ranges::not_equal_to{}) == numbers.end();
  };
  return uniform(value.reals) && uniform(value.integers);
}

class Doubts {
 public:
  explicit Doubts(JudgedRuns& runs) : runs_(runs) {}

  // A value that one rank has sent to all is one device's only if every rank would have it: rank
  // 0's zeros agree with those of one device by chance. Zeros that nobody keeps do not count, and
  // neither does what a rank makes of all ranks' values before it sends it.
  void ask_every_rank() {
    const std::set<DefUse::Kind> of_all = {DefUse::Kind::kReduced, DefUse::Kind::kGathered};
    const auto from_one = [&](const ValueReport& report) {
      if (!report.facts.agrees() || !report.facts.by_rank || report.facts.given) return false;
      const auto near = runs_.flow().made_of_until(nodes_of(runs_.flow(), report), of_all);
      const auto& nodes = runs_.flow().nodes();
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
            runs_.flow().made_of_until(nodes[id].from, of_all),
            [&](DefUse::Id one) { return of_all.contains(nodes[one].kind); });
      });
    };
    if (std::ranges::none_of(runs_.judgement.values, from_one)) return;
    AloneOptions options = runs_.alone_options(ReportedWorld::kTrue, runs_.run.scenario.world);
    options.reported_ranks =
        std::min(runs_.run.scenario.world, most_reference_runs(runs_.run.scenario));
    options.precision = Precision::kReference;
    const AloneRuns told = run_alone(options, *runs_.run.propagator, runs_.run.options);
    for (ValueReport& report : runs_.judgement.values) {
      if (!from_one(report)) continue;
      for (std::size_t rank = 0; rank < told.recordings.size(); ++rank) {
        const auto own = numbers_of(*told.recordings[rank], report);
        const auto all = expected_of(runs_.inputs, report);
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

  void look_for_literals() {
    const std::vector<SizeInText> literals = literals_of(runs_.flow(), runs_.run.events);
    const bool failed = !runs_.inputs.one_device->failure.empty();
    const bool off = std::ranges::any_of(runs_.judgement.values, is_open_claim);
    if ((off || failed) && !literals.empty()) take_for_sizes(literals);
    if (runs_.inputs.one_device->other_shape) doubt_shapes_of_text();
    for (const SizeInText& literal : literals) {
      if (literal.divides_sum) doubt(runs_.flow().makes({literal.node}), text_of(literal));
    }
    const bool divides = std::ranges::any_of(
        runs_.flow().nodes(), [](const FlowNode& node) { return node.factor > 1 && node.divides; });
    const auto* calls = divides ? runs_.matched() : nullptr;
    const auto piece = calls == nullptr ? std::nullopt : size_of_piece(*calls, *runs_.run.layout);
    const auto after =
        piece ? runs_.flow().makes(runs_.flow().on_line(piece->line)) : DefUse::Ids();
    if (off) report_ranks(after, piece ? piece->text : "");
    if (piece && !off) doubt(after, piece->text);
  }

 private:
  std::string text_of(const SizeInText& literal) {
    return literal.text(runs_.flow().line_of(literal.node));
  }

  // Values that agree with one device, which divides by the same number.
  void doubt(const DefUse::Ids& after, const std::string& reason) {
    for (ValueReport& report : runs_.judgement.values) {
      if (!report.facts.agrees() || report.facts.given) continue;
      if (!runs_.follows(report, after)) continue;
      report.facts.literal = report.told = true;
      report.reason = reason;
    }
  }

  // With its numbers as they are in a world of one the program on one device agrees.
  void take_for_sizes(const std::vector<SizeInText>& literals) {
    Scenario meant = runs_.run.scenario;
    const SourceText& source = *meant.program->source;
    AloneRuns runs;
    try {
      meant.program = std::make_shared<const ast::Program>(parse_program(
          std::make_shared<const SourceText>(source.file(), text_of_one(source.text(), literals))));
      AloneOptions options = runs_.alone.options;
      options.scenario = &meant;
      options.precision = Precision::kReference;
      runs = run_alone(options, *runs_.run.propagator, runs_.run.options);
    } catch (const Error&) {
      return;
    }
    const VerifyInputs other = inputs_with(runs);
    for (ValueReport& report : runs_.judgement.values) {
      if (report.facts.agrees() || report.facts.given || runs_.is_in_stage(report)) continue;
      const auto all = runs_.before(report);
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
    for (ValueReport& report : runs_.judgement.values) {
      const bool gathered = runs_.flow().any(runs_.before(report), DefUse::Kind::kGathered);
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
             !runs_.is_in_stage(report) &&
             runs_.flow().any(runs_.before(report), DefUse::Kind::kWorld);
    };
    if (std::ranges::none_of(runs_.judgement.values, by_world)) return;
    AloneOptions options = runs_.alone_options(ReportedWorld::kTrue, 1);
    options.precision = Precision::kReference;
    const AloneRuns runs = run_alone(options, *runs_.run.propagator, runs_.run.options);
    const VerifyInputs other = inputs_with(runs);
    for (ValueReport& report : runs_.judgement.values) {
      if (!by_world(report) || !agrees_in(other, report)) continue;
      report.facts.literal = true;
      report.told = runs_.follows(report, divided);
      report.reason =
          report.told ? by_piece
                      : fmt::format(
                            "it agrees only if one device is told the number of ranks, {}; say in "
                            "[reference] whether it should; {}",
                            runs_.run.scenario.world, report.comparison.what);
    }
  }

  // Runs of one device in f64, with another program or another world.
  VerifyInputs inputs_with(const AloneRuns& runs) const {
    VerifyInputs other = runs_.inputs;
    other.one_device.emplace();
    other.one_device->single = other.one_device->reference = runs.recordings;
    other.one_device->failure = runs.failure;
    other.keep = 0;
    return other;
  }

  JudgedRuns& runs_;
};

}  // namespace

void doubt_values(JudgedRuns& runs) {
  Doubts doubts(runs);
  doubts.ask_every_rank();
  doubts.look_for_literals();
}

}  // namespace shardlab
