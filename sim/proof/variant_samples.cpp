// Samples of ops that write their results into given tensors or lists, of those that give numbers
// about a tensor, and of those whose number of results depends on their inputs.
#include <array>

#include "api/distribute.h"
#include "autograd/grad_mode.h"
#include "autograd/program.h"
#include "base/rank_context.h"
#include "sim/proof/sample_inputs.h"
#include "tensor/host.h"

namespace shardlab {
namespace {

using namespace samples;

/// Factories that write into a given tensor, and other derived rows.
void add_out_forms(std::vector<OpSample>& samples) {
  const Argument none;
  samples.insert(
      samples.end(),
      {{"arange.out", {real({7})}, {7, "$0"}},
       {"arange.start_out", {real({5})}, {2, 12, 2, "$0"}},
       {"eye.out", {real({7, 7})}, {7, "$0"}},
       {"bartlett_window.out", {real({7})}, {7, "$0"}},
       {"blackman_window.periodic_out", {real({7})}, {7, false, "$0"}},
       {"hamming_window.periodic_alpha_beta_out", {real({7})}, {7, true, 0.7, 0.2, "$0"}},
       {"kaiser_window.beta_out", {real({7})}, {7, false, 5.5, "$0"}},
       {"hann_window.out", {real({7})}, {7, "$0"}},
       {"hann_window.periodic_out", {real({7})}, {7, false, "$0"}},
       {"linspace.out", {real({7})}, {0.5, 2.0, 7, "$0"}},
       {"logspace.out", {real({7})}, {0.5, 2.0, 7, 2.0, "$0"}},
       {"tril_indices.out", {index({2, 9}, 9)}, {4, 3, 0, "$0"}},
       {"triu_indices.out", {index({2, 6}, 9)}, {4, 3, 0, "$0"}},
       {"normal.Tensor_Tensor_out",
        {real({7, 5}), unit({7, 5}), real({7, 5})},
        {"$0", "$1", none, "$2"}},
       {"normal.Tensor_float_out", {real({7, 5}), real({7, 5})}, {"$0", 0.5, none, "$1"}},
       {"normal.float_Tensor", {unit({7, 5})}, {0.5, "$0"}},
       {"normal.float_Tensor_out", {unit({7, 5}), real({7, 5})}, {0.5, "$0", none, "$1"}},
       {"_index_put_impl_",
        {real({7, 5}), index({1}, 7), real({5})},
        {"$0", List{"$1"}, "$2", true}},
       {"_index_put_impl", {real({7, 5}), index({1}, 7), real({5})}, {"$0", List{"$1"}, "$2"}},
       {"_index_put_impl.out",
        {real({7, 5}), index({1}, 7), real({5}), real({7, 5})},
        {"$0", List{"$1"}, "$2", true, false, "$3"}},
       {"arctanh", {unit({7, 5})}, {"$0"}},
       {"prims::conj_physical", {real({7, 5})}, {"$0"}},
       {"fill_.Tensor", {real({7, 5}), real({})}, {"$0", "$1"}},
       {"set_.source_Tensor_storage_offset",
        {real({7, 5}), real({7, 5})},
        {"$0", "$1", 0, Dims{5, 7}, Dims{1, 5}}}});
}

/// Lists that take a number for each element from a tensor, and steps of optimizers.
void add_list_forms(std::vector<OpSample>& samples) {
  for (const char* op : {"_foreach_addcdiv_.Tensor", "_foreach_addcmul_.Tensor"}) {
    samples.push_back(
        {op,
         {real({7, 5}), real({3}), real({7, 5}), real({3}), unit({7, 5}), unit({3}), unit({2})},
         {List{"$0", "$1"}, List{"$2", "$3"}, List{"$4", "$5"}, "$6"}});
  }
  for (const char* op : {"_fused_adam_.tensor_lr", "_fused_adamw_.tensor_lr",
                         "_fused_adam.tensor_lr", "_fused_adamw.tensor_lr"}) {
    samples.push_back(
        {op,
         {real({7, 5}), real({7, 5}), real({7, 5}), unit({7, 5}), {{}, Fill::kUnit}, unit({})},
         {List{"$0"}, List{"$1"}, List{"$2"}, List{"$3"}, List{}, List{"$4"}, "$5", 0.9, 0.99, 0.01,
          1e-3, false, false}});
  }
}

/// Steps of other optimizers, in place and on copies, of two tensors.
void add_fused_steps(std::vector<OpSample>& samples) {
  const std::vector<SampleInput> inputs{real({7, 5}), real({3}), real({7, 5}), real({3}),
                                        unit({7, 5}), unit({3}), unit({}),     unit({})};
  const Argument rate("$6");
  for (const char* op :
       {"_fused_sgd_", "_fused_sgd", "_fused_sgd_.tensor_lr", "_fused_sgd.tensor_lr"}) {
    const bool of_tensor = std::string_view(op).ends_with("lr");
    samples.push_back({op,
                       inputs,
                       {List{"$0", "$1"}, List{"$2", "$3"}, List{"$4", "$5"}, 0.01, 0.9,
                        of_tensor ? rate : Argument(0.1), 0.2, true, false, false, "$7"}});
  }
  for (const char* op : {"_fused_adagrad_", "_fused_adagrad", "_fused_adagrad_.tensor_lr",
                         "_fused_adagrad.tensor_lr"}) {
    const bool of_tensor = std::string_view(op).ends_with("lr");
    samples.push_back({op,
                       inputs,
                       {List{"$0", "$1"}, List{"$2", "$3"}, List{"$4", "$5"}, List{"$6", "$6"},
                        of_tensor ? rate : Argument(0.1), 0.05, 0.02, 1e-3, true, "$7"}});
  }
}

/// Derived rows of ops on lists.
void add_list_outs(std::vector<OpSample>& samples) {
  const std::vector<SampleInput> inputs{real({7, 5}), real({3}), real({7, 5}), real({3})};
  samples.push_back({"_foreach_zero", inputs, {List{"$0", "$1"}}});
  samples.push_back({"_foreach_zero.out", inputs, {List{"$0", "$1"}, List{"$2", "$3"}}});
  samples.push_back({"_foreach_add.Scalar_out", inputs, {List{"$0", "$1"}, 2.0, List{"$2", "$3"}}});
  samples.push_back({"_foreach_sqrt.out",
                     {unit({7, 5}), unit({3}), real({7, 5}), real({3})},
                     {List{"$0", "$1"}, List{"$2", "$3"}}});
}

/// Products have the dtype of the factors, for every dtype.
void add_products_in_dtype(std::vector<OpSample>& samples) {
  const auto takes = [&](const char* op, Dims first, Dims second) {
    OpSample sample{op, {real(std::move(first)), real(std::move(second))}, {"$0", "$1"}};
    sample.calls = [op](const SampleRun& run) {
      const DTensor& factor = run.inputs.at(0);
      return std::vector{program_calls().one(op, {factor, run.inputs.at(1), factor.dtype()})};
    };
    samples.push_back(std::move(sample));
  };
  takes("mm.dtype", {7, 5}, {5, 2});
  takes("bmm.dtype", {3, 7, 5}, {3, 5, 2});
}

/// Segments of up to two elements, of which some are empty.
void add_segments(std::vector<OpSample>& samples) {
  const Argument none;
  for (const char* reduce : {"sum", "mean", "max", "min", "prod"}) {
    samples.push_back({"segment_reduce",
                       {real({7, 5}), index({3}, 3)},
                       {"$0", reduce, "$1", none, none, 0, true}});
    samples.push_back({"segment_reduce",
                       {real({3, 7, 5}), index({3, 2}, 4)},
                       {"$0", reduce, "$1", none, none, 1, true, 0.5}});
    samples.push_back({"_segment_reduce_backward",
                       {real({3, 2, 5}), real({3, 2, 5}), real({3, 7, 5}), index({3, 2}, 4)},
                       {"$0", "$1", "$2", reduce, "$3", none, 1, 0.5}});
  }
}

/// Counts, of up to 40 trials, and times.
void add_counts(std::vector<OpSample>& samples) {
  for (const char* op : {"poisson", "_standard_gamma"}) {
    samples.push_back({op, {unit({7, 5})}, {"$0"}});
  }
  samples.push_back({"_standard_gamma_grad", {unit({5}), unit({7, 5})}, {"$0", "$1"}});
  OpSample sample{"binomial", {unit({7, 5}), unit({5})}, {"$0", "$1"}};
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
    OpSample sample{op, {real({7, 5})}, {"$0"}};
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
    OpSample sample{op, {real(std::move(pairs))}, {"$0"}};
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

/// Coordinates: no two are equal.
SampleInput counted(Dims shape) {
  GivenElements places;
  places.make = [count = shape[0]](Precision precision) {
    const DType dtype = precision == Precision::kReference ? DType::kF64 : DType::kF32;
    const Tensor tensor = empty(*current_rank().device, Dims{count}, dtype);
    std::vector<double> values;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<double>(i * i + 2 * i));
    write_doubles(tensor, values);
    return tensor;
  };
  return {std::move(shape), Fill::kGiven, 0, std::make_shared<const GivenElements>(places)};
}

/// Slopes of samples at coordinates.
void add_coordinates(std::vector<OpSample>& samples) {
  const SampleInput x = real({7, 5});
  samples.insert(
      samples.end(),
      {{"gradient.tensorarrayint", {x, counted({7}), counted({5})}, {"$0", List{"$1", "$2"}}},
       {"gradient.tensorarray", {x, counted({5})}, {"$0", List{"$1"}, Dims{1}, 2}}});
}

/// Sequences of several lengths in one tensor: a step of two of them, and one of one.
void add_packed(std::vector<OpSample>& samples) {
  GivenElements sizes{DType::kI64, false, true, {}};
  sizes.make = [](Precision) {
    const Tensor tensor = empty(*current_rank().device, Dims{2}, DType::kI64);
    write_integers(tensor, std::array<std::int64_t, 2>{2, 1});
    return tensor;
  };
  const SampleInput lengths{{2}, Fill::kGiven, 0, std::make_shared<const GivenElements>(sizes)};
  const SampleInput x = real({3, 2}), h = real({1, 2, 3});
  for (const auto& [op, gates] :
       {std::pair("rnn_tanh.data", 1), {"rnn_relu.data", 1}, {"gru.data", 3}}) {
    samples.push_back({op,
                       {x, lengths, h, real({3 * gates, 2}), real({3 * gates, 3})},
                       {"$0", "$1", "$2", List{"$3", "$4"}, false, 1, 0.0, true, false}});
  }
  samples.push_back({"lstm.data",
                     {x, lengths, h, h, real({12, 2}), real({12, 3})},
                     {"$0", "$1", List{"$2", "$3"}, List{"$4", "$5"}, false, 1, 0.0, true, false}});
}

/// Factorisations.
void add_more_numbers(std::vector<OpSample>& samples) {
  samples.insert(samples.end(), {{"svd", {real({3, 5, 4})}, {"$0"}},
                                 {"svd.U",
                                  {real({3, 4, 4}), real({3, 4, 4}), real({3, 4}), real({3, 4, 4})},
                                  {"$0", true, true, "$1", "$2", "$3"}},
                                 {"linalg_eigvals", {real({3, 4, 4})}, {"$0"}}});
}

/// Ops whose number of results depends on the values of the inputs.
void add_counted(std::vector<OpSample>& samples) {
  samples.insert(samples.end(),
                 {{"where", {truth({7, 5})}, {"$0"}},
                  {"nonzero_numpy", {index({7, 5}, 3)}, {"$0"}},
                  {"repeat_interleave.self_Tensor", {real({7, 5}), index({7}, 3)}, {"$0", "$1", 0}},
                  {"narrow.Tensor", {real({7, 5}), index({}, 3)}, {"$0", 0, "$1", 4}},
                  {"tensor_split.tensor_indices_or_sections",
                   {real({7, 5}), index({2}, 7)},
                   {"$0", "$1", 0}}});
}

}  // namespace

std::span<const OpSample> all_samples() {
  static const std::vector<OpSample> samples = [] {
    std::vector<OpSample> all(op_samples().begin(), op_samples().end());
    add_out_forms(all);
    add_list_forms(all);
    add_fused_steps(all);
    add_list_outs(all);
    add_products_in_dtype(all);
    add_counts(all);
    add_segments(all);
    add_queries(all);
    add_complex(all);
    add_packed(all);
    add_coordinates(all);
    add_more_numbers(all);
    add_counted(all);
    return all;
  }();
  return samples;
}

}  // namespace shardlab
