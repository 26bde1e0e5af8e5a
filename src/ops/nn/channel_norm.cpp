// Normalisation of each channel over samples and places. The forms of ATen, cuDNN and MIOpen, with
// statistics that are written, returned or only read, are one program.
#include "ops/family.h"
#include "ops/nn/normalization.h"

namespace shardlab {
namespace {

using namespace grad;
using namespace normalization;

/// Whether the statistics are those of the input; the names of ops with only one form show it.
bool trains(const OpDescriptor& op, const auto& args) {
  const Argument& said = named(op, args, {"training", "train", "update"});
  return said.is_none() ? op.base.find("_no_") == std::string::npos : said.to_bool();
}

/// Results behind output and statistics: cuDNN's reserve, and running statistics.
bool reserves(const OpDescriptor& op) { return op.returns.size() == 4 || op.returns.size() == 6; }
bool returns_running(const OpDescriptor& op) { return op.returns.size() > 4; }
// Shapes

void check_running(const MetaArgs& args, const TensorMeta& input, bool training) {
  const auto given = [&](std::string_view name) {
    const std::size_t index = place_of(args.op(), {name});
    return index != kAbsent && args.tensor(index) != nullptr;
  };
  const bool mean = given("running_mean"), variance = given("running_var");
  if (mean != variance || (!mean && !training)) {
    fail(Fix{"give running_mean and running_var, or training=True"},
         "{}: without training it reads both running statistics", args.op().name());
  }
  if (training && product(input.shape) == 0) {
    fail(Fix{"give at least one sample with at least one place"},
         "{}: the input [{}] has no elements to take statistics of", args.op().name(),
         text_of_list(input.shape, ", "));
  }
}

OutputMetas meta_batch_norm(const MetaArgs& args) {
  const TensorMeta& input = with_channels(args, 0);
  const bool training = trains(args.op(), args);
  const DType dtype = checked_vectors(args, input);
  check_running(args, input, training);
  const std::int64_t channels = input.shape[1];
  const OutputMeta statistics{contiguous_meta(Dims{training ? channels : 0}, dtype)};
  OutputMetas outputs{{normalized_meta(input)}, statistics, statistics};
  if (reserves(args.op())) outputs.push_back({contiguous_meta(Dims{0}, DType::kU8)});
  if (returns_running(args.op())) {
    outputs.resize(outputs.size() + 2, {contiguous_meta(Dims{channels}, dtype)});
  }
  return outputs;
}

OutputMetas meta_batch_norm_backward(const MetaArgs& args) {
  const OpDescriptor& op = args.op();
  const std::size_t at = place_of(op, {"input"}), flow = place_of(op, {"grad_out", "grad_output"});
  const TensorMeta& input = with_channels(args, at);
  require_shape(args, flow, input.shape);
  check_argument_dtype(args, flow, at);
  DType dtype = checked_vectors(args, input);
  const auto given = [&](std::string_view name) {
    const std::size_t index = place_of(op, {name});
    return index != kAbsent && args.tensor(index) != nullptr;
  };
  const bool training = trains(op, args);
  check_running(args, input, training);
  const std::size_t saved[] = {place_of(op, {"save_mean"}),
                               place_of(op, {"save_invstd", "save_var"})};
  if (!given("weight") && !given("running_mean") && args.tensor(saved[0]) != nullptr) {
    const DType own = args.tensor(saved[0])->dtype;  // alone they decide, as the vectors do
    if (mixes_with(own, input.dtype)) dtype = own;
  }
  for (const std::size_t index : saved) {
    if (args.tensor(index) != nullptr) {
      require_statistics(args, index, at, dtype);
      if (training) require_shape(args, index, Dims{input.shape[1]});
    } else if (training) {
      fail(Fix{"give the statistics that the forward op returned"}, "{}: {} is missing", op.name(),
           op.arguments[index].name);
    }
  }
  return gradient_metas(args, input, dtype);
}

// Rules

/// Channels are cut in everything that has them.
std::vector<RuleRow> rule_batch_norm(const RuleContext& context) {
  RuleRow row = uniform_row(any(0), context.outputs.size(), context.tensors.size());
  row.outputs[0] = row.inputs[0] = any(1);
  if (reserves(context.schema.row->op)) row.outputs[3] = whole();
  return {std::move(row)};
}

/// The same; cuDNN's reserve, the last operand where there is one, stays whole.
std::vector<RuleRow> rule_batch_norm_backward(const RuleContext& context) {
  RuleRow row = uniform_row(any(0), context.outputs.size(), context.tensors.size());
  row.outputs[0] = row.inputs[0] = row.inputs[1] = any(1);
  for (std::size_t i = 0; i < row.outputs.size(); ++i) {
    if (!context.outputs[i].present) row.outputs[i] = RulePlacement::none();
  }
  if (place_of(context.schema.row->op, {"reserve", "reserveSpace"}) != kAbsent) {
    row.inputs.back() = whole();
  }
  return {std::move(row)};
}

// Programs

constexpr std::string_view kTimes = "aten::mul_.Tensor";

/// 1 / standard deviation; without an eps, 0 where nothing varies.
Expression inverse_spread(const Expression& variance, double eps) {
  const Expression root = (variance + eps).of("aten::rsqrt");
  return eps == 0 ? root.filled(variance.eq(0), 0) : root;
}

/// Running statistics after a step: the ops write or return them.
ArgumentList updated(const Normalization& call, const Spread& spread) {
  const double share = call.number({"momentum", "exponential_average_factor"});
  const double count = call.count();
  const Dims channels{call.input().shape()[1]};
  const auto step = [&](Names name, const Expression& now) {
    const Expression part = call.reshaped(now, channels) * share;
    const Expression next = part + call.wide(name) * (1 - share);
    return call.stored(next, call.argument(name).tensor().dtype());
  };
  return {step({"running_mean"}, spread.mean),
          step({"running_var"}, spread.variance * (count / (count - 1)))};
}

Results batch_norm(Calls& calls, const OpRow& row, const Arguments& args) {
  const Normalization call(calls, row.op, args);
  const Expression x = call.wide(call.input());
  const bool training = trains(row.op, args), running = call.has({"running_mean"});
  const Spread spread = training
                            ? spread_of(x, call.other_dims())
                            : Spread{call.beside({"running_mean"}), call.beside({"running_var"})};
  const Expression root = inverse_spread(spread.variance, call.number({"eps", "epsilon"}));
  const Expression scale = call.has({"weight"}) ? root * call.beside({"weight"}) : root;
  const Expression apart = x - spread.mean;
  const Expression y =
      call.has({"bias"})
          ? Expression(calls, calls.one("aten::addcmul", {call.beside({"bias"}), apart, scale}))
          : apart.changed(kTimes, scale);
  Results results{call.stored(y, call.input().dtype())};
  const DTensor nothing =
      calls.one("aten::new_zeros", {call.input(), Dims{0}, call.vector_dtype()});
  results.push_back(training ? call.flat(spread.mean) : Argument(nothing));
  results.push_back(training ? call.flat(root) : Argument(nothing));
  if (reserves(row.op)) {
    results.emplace_back(calls.one("aten::new_zeros", {call.input(), Dims{0}, DType::kU8}));
  }
  if (!running) return results;
  const Argument &mean = call.argument({"running_mean"}),
                 &variance = call.argument({"running_var"});
  if (returns_running(row.op)) {
    const ArgumentList next = training ? updated(call, spread)
                                       : ArgumentList{calls.one("aten::clone", {mean}),
                                                      calls.one("aten::clone", {variance})};
    results.insert(results.end(), next.begin(), next.end());
  } else if (training && row.op.arguments[place_of(row.op, {"running_mean"})].alias.write) {
    const ArgumentList next = updated(call, spread);
    calls("aten::copy_", {mean, next[0]});
    calls("aten::copy_", {variance, next[1]});
  }
  return results;
}

Results batch_norm_backward(Calls& calls, const OpRow& row, const Arguments& args) {
  const Normalization call(calls, row.op, args);
  const bool training = trains(row.op, args);
  const Expression g = call.wide({"grad_out", "grad_output"});
  const Expression mean = call.beside({training ? "save_mean" : "running_mean"});
  const Expression root =
      training ? call.beside({"save_invstd", "save_var"})
               : inverse_spread(call.beside({"running_var"}), call.number({"eps", "epsilon"}));
  const Expression normal = (call.wide(call.input()) - mean) * root;
  const Expression total = call.sum(g, call.other_dims());
  const Expression along = call.sum(g * normal, call.other_dims());
  return asked_for(call.argument({"output_mask"}), [&](std::size_t i) {
    if (i == 1) return call.flat(along);
    if (i == 2) return call.flat(total);
    const double count = call.count();
    const Expression slope = training ? (g - total / count).minus(normal * (along / count)) : g;
    const Expression scaled = slope * root;
    return call.stored(call.has({"weight"}) ? scaled * call.beside({"weight"}) : scaled,
                       call.input().dtype());
  });
}

// Gradients

enum class Trains : std::uint8_t { kAsGiven, kAlways, kNever };

/// (input, weight, bias, [running_mean, running_var,] [training,] momentum, eps)
template <Trains how, bool running = true>
Gradients grad_batch_norm(const GradContext& context) {
  if (!context.grads[0].defined()) return Gradients(running ? 5 : 3);
  const Arguments& args = context.inputs;
  const std::size_t next = running ? 5 : 3, eps = next + (how == Trains::kAsGiven ? 2 : 1);
  const Argument fixed(how == Trains::kAlways), none;
  const Argument& training = how == Trains::kAsGiven ? args[next] : fixed;
  const Argument &mean = running ? args[3] : none, &variance = running ? args[4] : none;
  Gradients gradients =
      masked_gradients(context, "aten::native_batch_norm_backward",
                       {context.grads[0], args[0], args[1], mean, variance, context.outputs[1],
                        context.outputs[2], training, args[eps]},
                       3);
  gradients.resize(running ? 5 : 3);
  return gradients;
}

/// native_batch_norm_backward(grad_out, input, weight, running_mean, running_var, save_mean,
/// save_invstd, train, eps, output_mask): in training the statistics are those of the input.
Gradients grad_batch_norm_backward(const GradContext& context) {
  Calls& calls = context.calls;
  const OpDescriptor& op = calls.find("aten::native_batch_norm_backward").op;
  const Normalization call(calls, op, context.inputs);
  const bool training = trains(op, context.inputs);
  const Expression g = call.wide({"grad_out"}), x = call.wide(call.input());
  const Expression mean = call.beside({training ? "save_mean" : "running_mean"});
  const Expression root = training
                              ? call.beside({"save_invstd"})
                              : inverse_spread(call.beside({"running_var"}), call.number({"eps"}));
  const auto beside = [&](const DTensor& vector) {
    Dims shape(call.input().ndim(), 1);
    shape[1] = call.input().shape()[1];
    return call.reshaped(call.wide(vector), shape);
  };
  const Expression none(calls, grad::zeros_like(calls, g));
  const DTensor &of_input = context.grads[0], &of_weight = context.grads[1],
                &of_bias = context.grads[2];
  const bool weighed = call.has({"weight"});
  const WayBack back{weighed ? g * call.beside({"weight"}) : g,
                     (x - mean) * root,
                     root,
                     of_input.defined() ? call.wide(of_input) : none,
                     of_weight.defined() ? g * beside(of_weight) : none,
                     call.other_dims(),
                     training ? TakesOut::kMeanAndSlope : TakesOut::kNothing};
  Gradients gradients(7);
  const Expression of_flow = back.of_flow();
  if (context.needs(0)) {
    Expression of_g = weighed ? of_flow * call.beside({"weight"}) : of_flow;
    if (of_weight.defined()) of_g = of_g + back.normal * beside(of_weight);
    if (of_bias.defined()) of_g = of_g + beside(of_bias);
    gradients[0] = grad::cast_like(calls, of_g, input(context, 0));
  }
  if (context.needs(1)) {
    gradients[1] = grad::cast_like(calls, back.of_input(), call.input());
  }
  if (weighed && context.needs(2)) {
    const Expression sums = call.sum(of_flow * g, call.other_dims());
    gradients[2] = call.flat(sums).tensor();
  }
  return gradients;
}

// The ops that people call.

/// batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, _): without
/// training nothing is written. Nothing is normalised where there are no elements: the result only
/// keeps weight and bias in backward.
Results batch_norm_parts(Calls& calls, const Arguments& args) {
  if (args[0].tensor().numel() == 0) {
    DTensor y = calls.one("aten::clone", {args[0]});
    const auto first = [&](const Argument& vector) {
      return calls.one("aten::select.int", {vector, std::int64_t{0}, std::int64_t{0}});
    };
    if (args[1].is_tensor()) y = calls.one("aten::mul.Tensor", {y, first(args[1])});
    if (args[2].is_tensor()) y = calls.one("aten::add.Tensor", {y, first(args[2])});
    return {y};
  }
  Arguments inner(args.begin(), args.begin() + 8);
  if (args[5].to_bool()) return {calls("aten::native_batch_norm", inner)[0]};
  inner.erase(inner.begin() + 5);
  return {calls("aten::_native_batch_norm_legit_no_training", inner)[0]};
}

/// instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps,
/// _): each channel of each sample is a group of its own.
Results instance_norm_parts(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  if (x.ndim() < 3) {
    fail(Fix{"give [samples, channels, ..]"},
         "instance_norm: the input has {} dims, must have at least 3", x.ndim());
  }
  if (!args[5].to_bool()) return batch_norm_parts(calls, args);
  const std::int64_t samples = x.shape()[0], channels = x.shape()[1];
  const std::int64_t places = product(Dims(x.shape().begin() + 2, x.shape().end()));
  const Results found = calls("aten::native_group_norm",
                              {x, args[1], args[2], samples, channels, places, channels, args[7]});
  Dims dims;
  for (std::size_t d = 2; d < x.ndim(); ++d) dims.push_back(static_cast<std::int64_t>(d));
  const double share = args[6].to_double();
  const auto step = [&](const Argument& running, const DTensor& now) {
    const Expression mean(calls, calls.one("aten::mean.dim", {now, Dims{0}}));
    const Expression next = (mean * share).plus(Expression(calls, running.tensor()) * (1 - share));
    calls("aten::copy_", {running, next});
  };
  if (args[3].is_tensor()) step(args[3], calls.one("aten::mean.dim", {x, dims}));
  if (args[4].is_tensor()) step(args[4], calls.one("aten::var.correction", {x, dims, 1}));
  return {found[0]};
}

constexpr const char* kChannels = "each channel by itself";
constexpr const char* kSaved =
    "input weight running_mean running_var result1 result2 !running_mean !running_var !result1 "
    "!result2";
constexpr const char* kSavedFunctional =
    "input weight running_mean running_var result1 result2 !running_mean !running_var !result1 "
    "!result2 !result3 !result4";
constexpr const char* kSavedReserving =
    "input weight running_mean running_var result1 result2 !running_mean !running_var !result1 "
    "!result2 !result4 !result5";
constexpr const char* kSavedAlone = "input weight result1 result2 !result1 !result2";

// Sorted by name.
// clang-format off
constexpr Row kChannelNormRows[] = {
    {"_batch_norm_no_update"_op, meta_batch_norm, rule_batch_norm, batch_norm,
     {grad_batch_norm<Trains::kNever>, kSaved}, kChannels, 0, {1}},
    {"_batch_norm_with_update"_op, meta_batch_norm, rule_batch_norm, batch_norm,
     {grad_batch_norm<Trains::kAlways>, kSaved}, kChannels, 0, {1}},
    {"_batch_norm_with_update_functional"_op, meta_batch_norm, rule_batch_norm, batch_norm,
     {grad_batch_norm<Trains::kAlways>, kSavedReserving}, kChannels, 0, {1}},
    {"_native_batch_norm_legit"_op, meta_batch_norm, rule_batch_norm, batch_norm,
     {grad_batch_norm<Trains::kAsGiven>, kSaved}, kChannels, 0, {1}},
    {"_native_batch_norm_legit.no_stats"_op, meta_batch_norm, rule_batch_norm, batch_norm,
     {grad_batch_norm<Trains::kAsGiven, false>, kSavedAlone}, kChannels, 0, {1}},
    {"_native_batch_norm_legit_functional"_op, meta_batch_norm, rule_batch_norm, batch_norm,
     {grad_batch_norm<Trains::kAsGiven>, kSavedFunctional}, kChannels, 0, {1}},
    {"_native_batch_norm_legit_no_training"_op, meta_batch_norm, rule_batch_norm, batch_norm,
     {grad_batch_norm<Trains::kNever>, kSaved}, kChannels, 0, {1}},
    composite("batch_norm"_op, batch_norm_parts, "native_batch_norm"),
    {"batch_norm_backward"_op, meta_batch_norm_backward, rule_batch_norm_backward,
     batch_norm_backward, {}, kChannels, 0, {1}},
    {"cudnn_batch_norm"_op, meta_batch_norm, rule_batch_norm, batch_norm,
     {grad_batch_norm<Trains::kAsGiven>, kSaved}, kChannels, 0, {1}},
    {"cudnn_batch_norm_backward"_op, meta_batch_norm_backward, rule_batch_norm_backward,
     batch_norm_backward, {}, kChannels, 0, {1}},
    composite("instance_norm"_op, instance_norm_parts,
              "native_group_norm, a channel in each group"),
    {"miopen_batch_norm"_op, meta_batch_norm, rule_batch_norm, batch_norm,
     {grad_batch_norm<Trains::kAsGiven>, kSaved}, kChannels, 0, {1}},
    {"miopen_batch_norm_backward"_op, meta_batch_norm_backward, rule_batch_norm_backward,
     batch_norm_backward, {}, kChannels, 0, {1}},
    {"native_batch_norm"_op, meta_batch_norm, rule_batch_norm, batch_norm,
     {grad_batch_norm<Trains::kAsGiven>, kSaved}, kChannels, 0, {1}},
    {"native_batch_norm_backward"_op, meta_batch_norm_backward, rule_batch_norm_backward,
     batch_norm_backward,
     {grad_batch_norm_backward,
      "grad_out input weight running_mean running_var save_mean save_invstd "
      "!running_mean !running_var !save_mean !save_invstd"},
     kChannels, 0, {1}},
};
// clang-format on

}  // namespace

void register_channel_norm(OpRegistry& registry) { add_rows(registry, kChannelNormRows); }

}  // namespace shardlab
