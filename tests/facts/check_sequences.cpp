// Sequences of calls on one device: every call has its recorded results, and the values that the
// sample returns are the recorded ones.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "autograd/grad_mode.h"
#include "autograd/program.h"
#include "schema/op_row.h"
#include "sim/run/reference_calls.h"
#include "tests/facts/agreement.h"
#include "tests/facts/call_sequence.h"
#include "tests/facts/kernel_facts.h"
#include "tests/facts/open_choice.h"
#include "tests/facts/plain_world.h"

namespace shardlab {

namespace {

class SequenceChecker final : public FactChecker {
 public:
  void begin(const CheckOptions&, const std::string& path) override {
    tolerances_ = read_tolerances(path);
  }

  void check(const Json& fact, CaseReport& report) override {
    if (has_half_complex(fact)) return report.skip(SkipReason::kHalfComplex);
    const CallSequence sequence = read_sequence(fact);
    for (const SequenceCall& call : sequence.calls) {
      if (call.row == nullptr) return report.skip(SkipReason::kNotRegistered);
    }
    world_.run(report, [&] {
      const GradModeScope below_autograd(false);
      judge(sequence, report);
    });
  }

  void finish(CheckSummary& summary) override {
    note_loose(loose_, summary);
    note_nearer(nearer_, summary);
  }

 private:
  // The values of one line; those that follow from a choice that the reference left open; and those
  // that are compared with their definition alone.
  struct Run {
    Arguments values;
    std::vector<bool> open, judged;
  };

  void judge(const CallSequence& sequence, CaseReport& report) {
    Run run;
    for (const auto* list : {&sequence.inputs, &sequence.constants}) {
      for (const RecordedTensor& given : *list) run.values.emplace_back(made(given));
    }
    run.open.resize(run.values.size());
    run.judged.resize(run.values.size());
    for (std::size_t n = 0; n < sequence.calls.size(); ++n) {
      if (!run_call(sequence.calls[n], n, run, report)) return;
    }
    const auto own = tolerances_.find(sequence.opinfo);
    bool loose = false, nearer = false;
    std::optional<Arguments> exact;
    for (std::size_t i = 0; i < sequence.outputs.size(); ++i) {
      const SequenceOutput& output = sequence.outputs[i];
      const Argument& value = run.values.at(output.value);
      double needed = 1;
      const auto found =
          disagreement(value, output.expected, true,
                       own == tolerances_.end() ? Tolerances() : own->second, needed);
      loose = loose || needed > 1;
      if (!found) continue;
      const bool element = !found->where.empty();
      if (element && run.open[output.value] &&
          (run.judged[output.value] || same_magnitudes(value.tensor().local(), output.expected))) {
        continue;
      }
      if (element && !exact) exact = values_in_f64(sequence);
      if (element && parts_by_rounding(op_of(sequence, output.value), value.tensor().local(),
                                       output.expected, exact->at(output.value).tensor().local())) {
        nearer = true;
        continue;
      }
      report.differs(fmt::format("outputs.{}{}", i, found->where), found->expected, found->got);
    }
    loose_ += loose;
    nearer_ += nearer;
  }

  static bool parts_by_rounding(const std::string& op, const Tensor& ours,
                                const RecordedOutput& expected, const Tensor& exact) {
    return is_nearer(ours, expected, exact) || differs_by_places(op, ours, exact);
  }

  // The op that gives a value, without its library; empty for an input.
  static std::string op_of(const CallSequence& sequence, std::size_t value) {
    std::string op;
    for (const SequenceCall& call : sequence.calls) {
      if (call.first <= value) op = call.op.substr(call.op.find('.') + 1);
    }
    return op;
  }

  // The values of the same calls in reference precision.
  Arguments values_in_f64(const CallSequence& sequence) {
    Arguments values;
    for (const auto* list : {&sequence.inputs, &sequence.constants}) {
      for (const RecordedTensor& given : *list) {
        values.emplace_back(in_reference_precision(made(given)));
      }
    }
    ReferenceCalls reference(program_calls());
    const ProgramScope scope(reference);
    for (const SequenceCall& call : sequence.calls) {
      for (Argument& result : run_bound(call, bound_call(call, values))) {
        values.push_back(std::move(result));
      }
    }
    return values;
  }

  DTensor made(const RecordedTensor& given) { return DTensor(tensor_of(given, world_.device())); }

  // False where the rest cannot run.
  bool run_call(const SequenceCall& call, std::size_t number, Run& run, CaseReport& report) {
    const std::string field = fmt::format("calls.{} {}", number, call.op);
    Arguments results;
    try {
      const ResolvedCall bound = bound_call(call, run.values);
      results = run_bound(call, bound);
      const std::string wrong = wrong_choice(*bound.row, bound.args, results);
      if (!wrong.empty()) report.differs(field, "what the op is defined to give", wrong);
    } catch (const Error& error) {
      if (world_.lacks(error)) throw;
      report.differs(field, "an answer", error.text());
      return false;
    }
    const bool follows =
        std::ranges::any_of(call.takes, [&](std::size_t value) -> bool { return run.open[value]; });
    // A view of vectors with several right values has several right values, too.
    const bool looks_on = call.row->view() != nullptr &&
                          std::ranges::any_of(call.takes, [&](std::size_t value) -> bool {
                            return run.judged[value];
                          });
    for (std::size_t i = 0; i < results.size(); ++i) {
      double needed = 1;
      const auto found = disagreement(results[i], call.out[i], false, {}, needed);
      if (found) report.differs(fmt::format("{}.out.{}", field, i), found->expected, found->got);
      run.values.push_back(results[i]);
      run.judged.push_back(looks_on || leaves_basis(*call.row, results, i));
      run.open.push_back(follows || is_open(*call.row, i));
    }
    return true;
  }

  PlainWorld world_;
  OpInfoTolerances tolerances_;
  std::int64_t loose_ = 0, nearer_ = 0;
};

}  // namespace

std::unique_ptr<FactChecker> make_sequence_checker(std::string_view) {
  return std::make_unique<SequenceChecker>();
}

}  // namespace shardlab
