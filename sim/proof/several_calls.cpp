// Samples that are several calls: an argument follows from an input, an input is made by an op, or
// the result is a number.
#include "api/distribute.h"
#include "autograd/grad_mode.h"
#include "autograd/program.h"
#include "base/rank_context.h"
#include "sim/proof/read_samples.h"

namespace shardlab {
namespace {

/// Products have the dtype of the factors, for every dtype.
void add_products_in_dtype(std::vector<OpSample>& samples) {
  const auto takes = [&](const char* op, Dims first, Dims second) {
    OpSample sample{op, {{std::move(first)}, {std::move(second)}}, {"$0", "$1"}};
    sample.calls = [op](const SampleRun& run) {
      const DTensor& factor = run.inputs.at(0);
      return std::vector{program_calls().one(op, {factor, run.inputs.at(1), factor.dtype()})};
    };
    samples.push_back(std::move(sample));
  };
  takes("mm.dtype", {7, 5}, {5, 2});
  takes("bmm.dtype", {3, 7, 5}, {3, 5, 2});
}

/// Counts of up to 40 trials.
void add_trials(std::vector<OpSample>& samples) {
  OpSample sample{"binomial", {{{7, 5}, Fill::kUnit}, {{5}, Fill::kUnit}}, {"$0", "$1"}};
  sample.calls = [](const SampleRun& run) {
    const GradModeScope below_autograd(false);
    Calls& calls = program_calls();
    const DTensor trials =
        calls.one("aten::ceil", {calls.one("aten::mul.Scalar", {run.inputs.at(0), 40})});
    return std::vector{calls.one("aten::binomial", {trials, run.inputs.at(1)})};
  };
  samples.push_back(std::move(sample));
}

/// A number, as a tensor that every rank has.
DTensor on_mesh(const SampleRun& run, const Argument& number) {
  const DTensor whole = program_calls().one("aten::full", {Dims{}, number.to_int(), DType::kI64});
  if (run.layout == nullptr) return whole;
  const Placements replicas(run.layout->ndim(), Placement::replicate());
  return distribute(whole.local(),
                    run.layout->arena().spec(run.layout, replicas, whole.local().meta()));
}

/// Facts about a tensor that need no elements: they are those of the whole, on every rank.
void add_queries(std::vector<OpSample>& samples) {
  const auto asks = [&](const char* op, Arguments behind) {
    OpSample sample{op, {{{7, 5}}}, {"$0"}};
    sample.args.insert(sample.args.end(), behind.begin(), behind.end());
    sample.calls = [op, behind = std::move(behind)](const SampleRun& run) {
      Arguments args{run.inputs.at(0)};
      args.insert(args.end(), behind.begin(), behind.end());
      return std::vector{on_mesh(run, program_calls()(op, args).at(0))};
    };
    samples.push_back(std::move(sample));
  };
  for (const char* op : {"dim", "is_complex", "is_contiguous", "is_pinned", "numel",
                         "storage_offset", "sym_numel", "sym_storage_offset"}) {
    asks(op, {});
  }
  asks("is_contiguous.memory_format", {"channels_last"});
  for (const char* op : {"size.int", "stride.int", "sym_size.int", "sym_stride.int"}) {
    asks(op, {0});
    asks(op, {-1});
  }
}

/// Ops on complex numbers, which samples have as pairs.
void add_complex(std::vector<OpSample>& samples) {
  const auto takes = [&](const char* op, Dims pairs, Arguments behind) {
    OpSample sample{op, {{std::move(pairs)}}, {"$0"}};
    sample.args.insert(sample.args.end(), behind.begin(), behind.end());
    sample.calls = [op, behind = std::move(behind)](const SampleRun& run) {
      const GradModeScope below_autograd(false);
      Calls& calls = program_calls();
      Arguments args{calls.one("aten::view_as_complex", {run.inputs.at(0)})};
      args.insert(args.end(), behind.begin(), behind.end());
      return std::vector{calls.one(op, args)};
    };
    samples.push_back(std::move(sample));
  };
  takes("imag", {7, 5, 2}, {});
  takes("istft", {3, 3, 4, 2}, {4, 2});
}

}  // namespace

std::vector<OpSample> samples_of_several_calls() {
  std::vector<OpSample> samples;
  add_products_in_dtype(samples);
  add_trials(samples);
  add_queries(samples);
  add_complex(samples);
  return samples;
}

}  // namespace shardlab
