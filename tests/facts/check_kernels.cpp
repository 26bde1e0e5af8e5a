// Recorded calls through the dispatcher: shape inference, argument binding, in-place and out= rules
// and kernels together; then their gradients.
#include <fmt/format.h>

#include <algorithm>
#include <complex>

#include "autograd/autograd.h"
#include "autograd/grad_mode.h"
#include "dispatch/plain_calls.h"
#include "ops/core/expression.h"
#include "schema/argument.h"
#include "schema/calls.h"
#include "schema/op_row.h"
#include "tests/facts/agreement.h"
#include "tests/facts/kernel_facts.h"
#include "tests/facts/open_choice.h"
#include "tests/facts/plain_world.h"
#include "tests/facts/propagate_facts.h"
#include "tests/facts/recorded_event.h"
#include "tests/facts/second_opinion.h"

namespace shardlab {

namespace {

// Resolves the recorded call; a number that is given for a tensor picks the overload that takes it.
ResolvedCall call_of(const OpRow& row, const ValueCase& value_case) {
  return recorded_call(row, {with_numbered_dtypes(row, value_case.args), value_case.kwargs});
}

// The outputs of a case: the results, or the tensors that an op without results wrote.
Arguments outputs_of(const OpRow& row, const ValueCase& value_case, const Arguments& args,
                     const Results& results) {
  Arguments flat;
  const auto keep = [&](const Argument& argument) { flat.push_back(argument); };
  if (!value_case.outputs_are_mutated) {
    for_each_flat(results, keep);
    return flat;
  }
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (row.op.arguments[i].alias.write) for_each_flat({args[i]}, keep);
  }
  return flat;
}

// A gradient program that the tape can find: the row's, its base row's, or that of its parts.
bool tape_finds_gradient(const OpRow& row) {
  return row.gradient || (row.base != nullptr && row.base->gradient) || row.parts() != nullptr;
}

// Kernels of GPUs store some results in blocks of the last dim, which the formula does not have.
Argument unpadded(const Argument& got, const RecordedOutput& expected) {
  if (!got.is_tensor() || expected.meta.shape.empty()) return got;
  return plain_calls().one("aten::slice.Tensor", {got, -1, 0, expected.meta.shape.back()});
}

// Reads a line, and judges the case on the rank unless there is a reason not to.
class CaseChecker : public FactChecker {
 public:
  void check(const Json& fact, CaseReport& report) override {
    if (has_half_complex(fact)) return report.skip(SkipReason::kHalfComplex);
    const OpRow* row = fact_row(fact);
    if (row == nullptr) return report.skip(SkipReason::kNotRegistered);
    const ValueCase value_case = read_value_case(fact, world_.device());
    if (const char* why = differs_on_purpose(value_case.id)) {
      return report.skip(SkipReason::kWrongRecord, why);
    }
    line_ = &fact;
    world_.run(report, [&] { judge(*row, value_case, report); });
  }

  void finish(CheckSummary& summary) override { note_loose(loose_, summary); }

 protected:
  virtual void judge(const OpRow& row, const ValueCase& value_case, CaseReport& report) = 0;

  // The case as recorded, where a call has written into the tensors of the one at hand.
  ValueCase read_again() { return read_value_case(*line_, world_.device()); }

  // True where they agree.
  bool compare(const std::string& field, const Argument& got, const RecordedOutput& expected,
               bool values, CaseReport& report) {
    double needed = 1;
    const auto found = disagreement(got, expected, values, {}, needed);
    if (found) report.differs(field + found->where, found->expected, found->got);
    if (!found && needed > 1) ++loose_;
    return !found;
  }

 private:
  PlainWorld world_;
  const Json* line_ = nullptr;  ///< of the case at hand
  std::int64_t loose_ = 0;
};

class ValueChecker final : public CaseChecker {
 public:
  void finish(CheckSummary& summary) override {
    CaseChecker::finish(summary);
    note_nearer(nearer_, summary);
  }

 private:
  void judge(const OpRow& recorded, const ValueCase& value_case, CaseReport& report) override {
    if (!value_case.raises.empty()) return judge_refusal(recorded, value_case, report);
    const ResolvedCall call = call_of(recorded, value_case);
    const OpRow& row = *call.row;
    const Arguments& args = call.args;
    const Results results = plain_calls().call(row, args);
    if (row.op.returns.empty() && !value_case.outputs_are_mutated) return;
    const Arguments outputs = outputs_of(row, value_case, args, results);
    report.expect("outputs", value_case.outputs.size(), outputs.size());
    const std::string& op = value_case.derived.empty() ? value_case.op : value_case.derived;
    bool wrong_record = false, nearer = false;
    for (std::size_t i = 0; i < std::min(outputs.size(), value_case.outputs.size()); ++i) {
      const RecordedOutput& expected = value_case.outputs[i];
      if (value_case.emulated && !expected.comparable) continue;
      const Argument got = value_case.emulated ? unpadded(outputs[i], expected) : outputs[i];
      if (got.is_tensor() && expected.comparable &&
          differs_by_limits(op, got.tensor().local(), expected)) {
        wrong_record = wrong_record || differs_at_all(got.tensor().local(), expected);
        continue;
      }
      if (!is_open(row, i) && parts_by_rounding(row, op, got, expected, i)) {
        nearer = true;
        continue;
      }
      compare(fmt::format("outputs.{}", i), got, expected, !is_open(row, i), report);
    }
    nearer_ += nearer;
    if (wrong_record) {
      report.skip(SkipReason::kWrongRecord,
                  "the reference has NaN, or another infinity, where the op has a limit");
    }
    const std::string wrong = wrong_choice(row, args, results);
    if (!wrong.empty()) report.differs("outputs", "what the op is defined to give", wrong);
  }

  // True when an element differs, and the same call in f64 shows that the recorded one is rounded
  // more: much more in half precision, in other dtypes by the remainder of larger terms that
  // cancel.
  bool parts_by_rounding(const OpRow& row, const std::string& op, const Argument& got,
                         const RecordedOutput& expected, std::size_t output) {
    double needed = 1;
    const auto found = disagreement(got, expected, true, {}, needed);
    if (!found || found->where.empty()) return false;
    const ValueCase again = read_again();
    const Arguments args = call_of(row, again).args;
    try {
      const Arguments exact = outputs_of(row, again, args, results_in_f64(row, args));
      if (output >= exact.size() || !exact[output].is_tensor()) return false;
      const Tensor &ours = got.tensor().local(), wide = exact[output].tensor().local();
      const double factor = is_half(ours.dtype()) ? 30 : 1;
      return is_nearer(ours, expected, wide, factor) || differs_by_places(op, ours, wide);
    } catch (const Error&) {
      return false;  // no such call in f64: no second opinion
    }
  }

  static bool differs_at_all(const Tensor& got, const RecordedOutput& expected) {
    double needed = 1;
    return disagreement(got, expected, {}, needed).has_value();
  }

  static void judge_refusal(const OpRow& row, const ValueCase& value_case, CaseReport& report) {
    const auto kind = error_of([&] {
      const ResolvedCall call = call_of(row, value_case);
      plain_calls().call(*call.row, call.args);
    });
    // A refusal by shape inference is Value here, also if the reference's class is another.
    if (kind && (*kind == ErrorKind::kValue || same_error(value_case.raises, *kind))) return;
    report.differs("raises", value_case.raises, kind ? std::string(to_string(*kind)) : "no error");
  }

  std::int64_t nearer_ = 0;
};

class GradientChecker final : public CaseChecker {
  void judge(const OpRow& recorded, const ValueCase& value_case, CaseReport& report) override {
    if (std::ranges::none_of(value_case.grad_outputs, &Tensor::defined)) {
      return report.skip(SkipReason::kNoGradientIn);
    }
    const ResolvedCall call = call_of(recorded, value_case);
    const OpRow& row = *call.row;
    const Arguments& args = call.args;
    std::vector<DTensor> tensors;
    for_each_flat(args, [&](const Argument& argument) {
      if (argument.is_tensor()) tensors.push_back(argument.tensor());
    });
    std::vector<DTensor> inputs;
    for (const auto& [index, expected] : value_case.grad_inputs) {
      require_grad(tensors.at(index));
      inputs.push_back(tensors[index]);
    }
    if (!tape_finds_gradient(row)) return report.skip(SkipReason::kNoGradient);
    const Results results = recording_calls().call(row, args);
    if (!same_choice(row, value_case, results)) return report.skip(SkipReason::kOtherChoice);
    const DTensor loss = loss_of(results, value_case.grad_outputs);
    std::vector<DTensor> grads(inputs.size());
    if (loss.defined() && loss.requires_grad()) grads = gradients(loss, inputs);
    std::size_t next = 0;
    for (const auto& [index, expected] : value_case.grad_inputs) {
      const DTensor& grad = grads[next++];
      if (refuted(row, args, value_case, index, grad, expected)) {
        report.skip(SkipReason::kWrongRecord, "differences of the results are no such gradient");
        continue;
      }
      compare_gradient(fmt::format("grad_inputs.{}", index), grad, expected, report);
    }
  }

  static bool refuted(const OpRow& row, const Arguments& args, const ValueCase& value_case,
                      std::size_t index, const DTensor& grad, const RecordedOutput& expected) {
    double needed = 1;
    if (!grad.defined() || !expected.defined) return false;
    const auto found = disagreement(grad, expected, true, {}, needed);
    if (!found || found->where.empty()) return false;
    const GradModeScope below_autograd(false);
    return differences_refute(row, args, value_case.grad_outputs, index, grad.local(), expected);
  }

  // Sum over the results of <result, its gradient>: a loss with exactly these gradients.
  static DTensor loss_of(const Results& results, const std::vector<Tensor>& grads) {
    Calls& calls = recording_calls();
    DTensor loss;
    std::size_t next = 0;
    for_each_flat(results, [&](const Argument& result) {
      const std::size_t index = next++;
      if (!result.is_tensor() || index >= grads.size() || !grads[index].defined()) return;
      const DTensor weighted =
          calls.one("aten::mul.Tensor", {result, conjugated(calls, DTensor(grads[index]))});
      const DTensor sum = calls.one("aten::sum", {weighted});
      loss = loss.defined() ? calls.one("aten::add.Tensor", {loss, sum}) : sum;
    });
    return loss;
  }

  // A choice that a definition leaves open (the signs of vectors, the index of one of several equal
  // elements) decides the gradients of the inputs: another choice has other gradients. Finite
  // differences judge them.
  static bool same_choice(const OpRow& row, const ValueCase& value_case, const Results& results) {
    Arguments flat;
    for_each_flat(results, [&](const Argument& result) { flat.push_back(result); });
    double needed = 1;
    for (std::size_t i = 0; i < std::min(flat.size(), value_case.outputs.size()); ++i) {
      const bool names_places = value_case.outputs[i].meta.dtype == DType::kI64;
      if (!is_open(row, i) || (!value_case.grad_outputs.at(i).defined() && !names_places)) continue;
      if (disagreement(flat[i], value_case.outputs[i], true, {}, needed)) return false;
    }
    return true;
  }

  // Zeros are accepted for a gradient that the reference leaves out; no gradient is not accepted
  // for its zeros.
  void compare_gradient(const std::string& field, const DTensor& grad,
                        const RecordedOutput& expected, CaseReport& report) {
    if (!grad.defined()) {
      if (expected.defined) report.differs(field, "a gradient", "none");
      return;
    }
    RecordedOutput zero{.meta = grad.local().meta(), .comparable = true};
    zero.values.resize(static_cast<std::size_t>(grad.numel()));
    compare(field, grad, expected.defined ? expected : zero, true, report);
  }
};

}  // namespace

std::unique_ptr<FactChecker> make_value_checker(std::string_view) {
  return std::make_unique<ValueChecker>();
}

std::unique_ptr<FactChecker> make_gradient_checker(std::string_view) {
  return std::make_unique<GradientChecker>();
}

}  // namespace shardlab
