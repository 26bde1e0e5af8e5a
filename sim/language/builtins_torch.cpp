// torch's spellings that are not one op of the same name and arguments: functions of
// torch.nn.functional, and ops that may be there under another form.
#include <algorithm>
#include <cmath>

#include "sim/language/interpreter.h"
#include "sim/language/op_call.h"

namespace shardlab {

namespace {

Value run_embedding(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("embedding",
                         {"input", "weight", "padding_idx=", "max_norm=", "norm_type=",
                          "scale_grad_by_freq=", "sparse="},
                         std::move(call));
  if (given.has("max_norm")) {
    fail(ErrorKind::kUnsupported, "not yet supported: max_norm in embedding");
  }
  const DTensor weight = given.tensor("weight");
  std::int64_t padding = -1;  // ATen's word for none
  if (given.has("padding_idx") && weight.ndim() > 0) {
    const std::int64_t rows = weight.shape()[0];
    padding = given.integer("padding_idx");
    if (padding < -rows || padding >= rows) {
      fail(ErrorKind::kValue, "embedding: padding_idx {} of a table of {} rows", padding, rows);
    }
    if (padding < 0) padding += rows;
  }
  const Values arguments = {weight, given.tensor("input"), padding,
                            given.flag_or("scale_grad_by_freq", false)};
  return in.call_op("embedding", {arguments, {}});
}

// softmax(x, dim, dtype): ATen's plain form has its own name.
Value softmax_like(Interpreter& in, const std::string& name, CallValues call) {
  const Parameters given(name, {"input", "dim", "dtype="}, std::move(call));
  DTensor input = given.tensor("input");
  if (const auto dtype = given.dtype("dtype")) input = in.cast(input, in.effective(*dtype));
  const Value dim = given.integer("dim");
  if (in.has_op(name)) return in.call_op(name, {{input, dim}, {}});
  return in.call_op("_" + name, {{input, dim, false}, {}});
}

Value run_softmax(Interpreter& in, const Value*, CallValues call) {
  return softmax_like(in, "softmax", std::move(call));
}

Value run_log_softmax(Interpreter& in, const Value*, CallValues call) {
  return softmax_like(in, "log_softmax", std::move(call));
}

Value run_layer_norm(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("layer_norm", {"input", "normalized_shape", "weight=", "bias=", "eps="},
                         std::move(call));
  const Values arguments = {given.tensor("input"), make_tuple(given.sizes("normalized_shape")),
                            given["weight"], given["bias"], given.number_or("eps", 1e-5)};
  if (in.has_op("layer_norm")) return in.call_op("layer_norm", {arguments, {}});
  return items_of(in.call_op("native_layer_norm", {arguments, {}})).at(0);
}

// What torch.finfo says of the program's dtype; the reference run stands for an f32 one.
double smallest_step(const Interpreter& in, DType dtype) {
  const bool reference = in.setup().precision == Precision::kReference;
  return 2 * unit_roundoff(reference ? DType::kF32 : dtype);
}

// x * rsqrt(mean(x * x) + eps) * weight, the mean over the last dims.
Value run_rms_norm(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("rms_norm", {"input", "normalized_shape", "weight=", "eps="},
                         std::move(call));
  const DTensor input = given.tensor("input");
  const Dims sizes = given.sizes("normalized_shape");
  const double eps = given.number_or("eps", smallest_step(in, input.dtype()));
  if (in.has_op("rms_norm")) {
    return in.call_op("rms_norm", {{input, make_tuple(sizes), given["weight"], eps}, {}});
  }
  const bool ends_alike =
      sizes.size() <= input.ndim() &&
      std::equal(sizes.begin(), sizes.end(), input.shape().end() - sizes.size());
  if (!ends_alike) {
    fail(ErrorKind::kValue, "rms_norm: the input {} does not end in normalized_shape {}",
         type_string(input), repr(make_tuple(sizes)));
  }
  Dims dims;
  for (std::size_t i = sizes.size(); i > 0; --i) dims.push_back(-static_cast<std::int64_t>(i));
  const DTensor square = in.tensor_op("pow", {input, 2});
  const DTensor mean = in.tensor_op("mean", {square, make_tuple(dims), true});
  const DTensor scale = in.tensor_op("rsqrt", {in.tensor_op("add", {mean, eps})});
  const DTensor out = in.tensor_op("mul", {input, scale});
  return given.has("weight") ? in.call_op("mul", {{out, given.tensor("weight")}, {}}) : Value(out);
}

// ATen's number of a reduction.
std::int64_t reduction_number(const std::string& reduction) {
  static constexpr std::string_view kNames[] = {"none", "mean", "sum"};
  const auto* found = std::find(std::begin(kNames), std::end(kNames), reduction);
  if (found != std::end(kNames)) return found - std::begin(kNames);
  throw Error(ErrorKind::kValue, fmt::format("reduction '{}'", reduction))
      .with("fix", "use 'mean', 'sum' or 'none'");
}

Value reduced(Interpreter& in, const DTensor& value, const std::string& reduction) {
  if (reduction_number(reduction) == 0) return value;
  return in.call_op(reduction, {{value}, {}});
}

// -log_softmax(x)[target] over the class dim: 1 where there is a batch, else 0.
Value run_cross_entropy(Interpreter& in, const Value*, CallValues call) {
  const Parameters given(
      "cross_entropy",
      {"input", "target", "weight=", "ignore_index=", "reduction=", "label_smoothing="},
      std::move(call));
  const DTensor input = given.tensor("input");
  const DTensor target = given.tensor("target");
  const std::int64_t reduction = reduction_number(given.text_or("reduction", "mean"));
  const std::int64_t ignored = given.integer_or("ignore_index", -100);
  if (in.has_op("cross_entropy_loss")) {
    return in.call_op("cross_entropy_loss", {{input, target, given["weight"], reduction, ignored,
                                              given.number_or("label_smoothing", 0)},
                                             {}});
  }
  if (given.number_or("label_smoothing", 0) != 0 || input.ndim() > 2) {
    fail(ErrorKind::kUnsupported,
         "not yet supported: label_smoothing, or more than two dims, in cross_entropy");
  }
  const Value dim = input.ndim() > 1 ? 1 : 0;
  const Value log_probability = run_log_softmax(in, nullptr, {{input, dim}, {}});
  const Values arguments = {log_probability, target, given["weight"], reduction, ignored};
  return items_of(in.call_op("nll_loss_forward", {arguments, {}})).at(0);
}

Value run_mse_loss(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("mse_loss", {"input", "target", "reduction="}, std::move(call));
  const DTensor input = given.tensor("input");
  const DTensor target = given.tensor("target");
  const std::string reduction = given.text_or("reduction", "mean");
  if (in.has_op("mse_loss")) {
    return in.call_op("mse_loss", {{input, target, reduction_number(reduction)}, {}});
  }
  const DTensor difference = in.tensor_op("sub", {input, target});
  return reduced(in, in.tensor_op("mul", {difference, difference}), reduction);
}

// q, k, v: [..., length, features].
Value run_attention(Interpreter& in, const Value*, CallValues call) {
  if (in.has_op("scaled_dot_product_attention")) {
    return in.call_op("scaled_dot_product_attention", std::move(call));
  }
  const Parameters given("scaled_dot_product_attention", {"query", "key", "value", "scale="},
                         std::move(call));
  const DTensor query = given.tensor("query");
  if (query.ndim() < 2) fail(ErrorKind::kValue, "scaled_dot_product_attention: at least two dims");
  const double features = static_cast<double>(query.shape().back());
  const double scale = given.number_or("scale", 1 / std::sqrt(features));
  const DTensor key = in.tensor_op("transpose", {given.tensor("key"), -2, -1});
  const Value scores = in.binary(ast::BinaryOp::kMatMul, query, key);
  const Value scaled = in.binary(ast::BinaryOp::kMul, scores, scale);
  const Value weights = run_softmax(in, nullptr, {{scaled, -1}, {}});
  return in.binary(ast::BinaryOp::kMatMul, weights, given.tensor("value"));
}

Value run_split(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("split", {"tensor", "split_size_or_sections", "dim="}, std::move(call));
  const Value& sizes = given["split_size_or_sections"];
  const Values arguments = {given.tensor("tensor"), sizes, given.integer_or("dim", 0)};
  const bool sections = sizes.is_sequence() && in.has_op("split_with_sizes");
  return in.call_op(sections ? "split_with_sizes" : "split", {arguments, {}});
}

Value run_chunk(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("chunk", {"input", "chunks", "dim="}, std::move(call));
  const DTensor input = given.tensor("input");
  const std::int64_t chunks = given.integer("chunks");
  const auto dims = static_cast<std::int64_t>(input.ndim());
  const std::int64_t dim = given.integer_or("dim", 0);
  if (chunks < 1) fail(ErrorKind::kValue, "chunk: into {} pieces", chunks);
  if (dim < -dims || dim >= dims) fail(ErrorKind::kValue, "chunk: dim {} of {} dims", dim, dims);
  const std::int64_t size = input.shape()[static_cast<std::size_t>(dim < 0 ? dim + dims : dim)];
  const std::int64_t piece = std::max<std::int64_t>(1, (size + chunks - 1) / chunks);
  return in.call_op("split", {{input, piece, dim}, {}});
}

// The mask is drawn in f32 whatever the dtype, so that the reference run drops the same elements.
Value run_dropout(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("dropout", {"input", "p=", "training="}, std::move(call));
  const DTensor input = given.tensor("input");
  const double p = given.number_or("p", 0.5);
  if (!(p >= 0 && p <= 1)) fail(ErrorKind::kValue, "dropout: p is {}", float_text(p));
  if (!given.flag_or("training", true) || p == 0) return input;
  const OpRow& row = in.setup().registry->at("aten::rand_like");
  const Arguments arguments = bind_call(row, {{input}, {{"dtype", DType::kF32}}}).args;
  const DTensor drawn = in.setup().calls->call(row, arguments).at(0).tensor();
  const DTensor kept = in.cast(in.tensor_op("ge", {drawn, p}), input.dtype());
  const double scale = p == 1 ? 0 : 1 / (1 - p);
  return in.tensor_op("mul", {in.tensor_op("mul", {input, kept}), scale});
}

}  // namespace

BuiltinTable torch_builtins() {
  static const Builtin kTable[] = {
      {"chunk", run_chunk},
      {"cross_entropy", run_cross_entropy},
      {"dropout", run_dropout},
      {"embedding", run_embedding},
      {"layer_norm", run_layer_norm},
      {"log_softmax", run_log_softmax},
      {"mse_loss", run_mse_loss},
      {"rms_norm", run_rms_norm},
      {"scaled_dot_product_attention", run_attention},
      {"softmax", run_softmax},
      {"split", run_split},
  };
  return kTable;
}

}  // namespace shardlab
