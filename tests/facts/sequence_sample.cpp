// Calls are made below autograd, as they were recorded. Inputs are cloned where a call writes: they
// are used for other placings, too.
#include "tests/facts/sequence_sample.h"

#include <algorithm>
#include <cmath>

#include "autograd/grad_mode.h"
#include "autograd/program.h"
#include "base/error.h"
#include "dispatch/plain_calls.h"
#include "kernels/convert.h"
#include "schema/op_row.h"
#include "tensor/host.h"

namespace shardlab {

namespace {

bool writes(const CallSequence& sequence) {
  return std::ranges::any_of(sequence.calls, [](const SequenceCall& call) {
    return call.row != nullptr &&
           std::ranges::any_of(call.row->op.arguments,
                               [](const SchemaArgument& argument) { return argument.alias.write; });
  });
}

DTensor number_tensor(const Scalar& number) {
  const DType dtype = number.is_integral() ? DType::kI64 : DType::kF64;
  return plain_calls().one("aten::full", {Dims{}, number, dtype});
}

// One run of a sequence on the rank.
class SequenceRun {
 public:
  SequenceRun(const CallSequence& sequence, const SampleRun& run)
      : sequence_(sequence), run_(run) {}

  std::vector<DTensor> values() {
    const GradModeScope below_autograd(false);
    if (run_.precision == Precision::kDeclared) {
      make_calls();
    } else {
      ReferenceCalls reference(program_calls());
      const ProgramScope scope(reference);
      make_calls();
    }
    std::vector<DTensor> out;
    for (const SequenceOutput& output : sequence_.outputs) {
      if (!output.expected.comparable && !output.expected.scalar && !sequence_.random) continue;
      out.push_back(tensor_of_result(values_.at(output.value)));
    }
    return out;
  }

 private:
  void make_calls() {
    const bool copies = writes(sequence_);
    for (const DTensor& input : run_.inputs) {
      values_.emplace_back(copies ? plain_calls().one("aten::clone", {input}) : input);
    }
    for (const SequenceCall& call : sequence_.calls) {
      if (call.row == nullptr) {
        throw Error(ErrorKind::kUnsupported, fmt::format("{} is not registered", call.op))
            .with("fix", "shardlab ops lists what is");
      }
      for (Argument& result : results_of(call)) {
        if (result.is_tensor()) result = on_mesh(result.tensor());
        values_.push_back(std::move(result));
      }
    }
  }

  // Views, which may not move, and writes in place are refused where their tensors would have to be
  // replicas. The message says so, and a program would do as it says. Values drawn before the
  // refusal are drawn again.
  Arguments results_of(const SequenceCall& call) {
    const RandomState before = current_rank().random;
    try {
      return run_bound(call, bound_call(call, values_));
    } catch (const Error& error) {
      if (run_.layout == nullptr || run_.moved == nullptr || !asks_for_replicas(error)) throw;
      if (!can_be_moved(call)) throw;
      if (run_.moved->empty()) *run_.moved = error.summary();
    }
    current_rank().random = before;
    for (const std::size_t number : call.takes) make_whole(number);
    return run_bound(call, bound_call(call, values_));
  }

  static bool shares_memory(const Argument& value, const DTensor& x) {
    return value.is_tensor() && value.tensor().defined() && value.tensor().distributed() &&
           value.tensor().local().storage() == x.local().storage();
  }

  static bool is_same(const DTensor& a, const DTensor& b) {
    return a.spec() == b.spec() && a.local().meta() == b.local().meta() &&
           a.local().offset() == b.local().offset();
  }

  // A view of a moved value would stay behind, and not see a write.
  bool can_be_moved(const SequenceCall& call) const {
    if (!writes(sequence_)) return true;
    return std::ranges::all_of(call.takes, [&](std::size_t number) {
      if (!values_[number].is_tensor() || !values_[number].tensor().distributed()) return true;
      const DTensor& x = values_[number].tensor();
      return std::ranges::all_of(values_, [&](const Argument& value) {
        return !shares_memory(value, x) || is_same(value.tensor(), x);
      });
    });
  }

  // Under all of its numbers.
  void make_whole(std::size_t number) {
    if (!values_[number].is_tensor()) return;
    const DTensor x = values_[number].tensor();
    if (!x.defined() || !x.distributed()) return;
    const DTensor moved = whole(x);
    for (Argument& value : values_) {
      if (shares_memory(value, x) && is_same(value.tensor(), x)) value = moved;
    }
  }

  static bool asks_for_replicas(const Error& error) {
    const std::string* fix = error.find("fix");
    return fix != nullptr && (fix->find("redistribute") != std::string::npos ||
                              fix->find("go through R") != std::string::npos);
  }

  static DTensor whole(const DTensor& x) {
    const Placements replicas(x.spec()->layout()->ndim(), Placement::replicate());
    return plain_calls().redistribute(x, replicas);
  }

  // A value that every rank made for itself is a replica.
  DTensor on_mesh(const DTensor& x) const {
    if (run_.layout == nullptr || !x.defined() || x.distributed()) return x;
    const Placements whole(run_.layout->ndim(), Placement::replicate());
    return {x.local(), run_.layout->arena().spec(run_.layout, whole, x.meta())};
  }

  DTensor tensor_of_result(const Argument& value) const {
    if (value.is_tensor()) return value.tensor();
    return value.is_scalar() ? on_mesh(number_tensor(value.scalar())) : DTensor();
  }

  const CallSequence& sequence_;
  const SampleRun& run_;
  Arguments values_;
};

bool is_tame(const RecordedTensor& tensor) {
  if (!is_floating(tensor.meta.dtype)) return true;
  const auto count =
      static_cast<std::int64_t>(tensor.storage.size()) / item_bytes(tensor.meta.dtype);
  std::vector<double> values(static_cast<std::size_t>(count));
  convert_run({values.data(), 1, DType::kF64}, {tensor.storage.data(), 1, tensor.meta.dtype},
              count);
  return std::ranges::all_of(values, [](double value) { return std::fabs(value) < 1e30; });
}

SampleInput given_input(const std::shared_ptr<const CallSequence>& sequence,
                        const RecordedTensor& tensor, bool placed) {
  GivenElements given{tensor.meta.dtype, placed, is_tame(tensor), {}};
  given.make = [sequence, &tensor](Precision precision) {
    const Tensor own = tensor_of(tensor, *current_rank().device);
    return precision == Precision::kReference ? in_reference_precision(DTensor(own)).local() : own;
  };
  return {tensor.meta.shape, Fill::kGiven, 0, std::make_shared<const GivenElements>(given)};
}

}  // namespace

OpSample sample_of(std::shared_ptr<const CallSequence> sequence) {
  OpSample sample{sequence->opinfo.c_str(), {}, {}};
  for (const RecordedTensor& input : sequence->inputs) {
    sample.inputs.push_back(given_input(sequence, input, true));
  }
  for (const RecordedTensor& constant : sequence->constants) {
    sample.inputs.push_back(given_input(sequence, constant, false));
  }
  sample.marked = !writes(*sequence);
  sample.calls = [sequence](const SampleRun& run) { return SequenceRun(*sequence, run).values(); };
  return sample;
}

}  // namespace shardlab
