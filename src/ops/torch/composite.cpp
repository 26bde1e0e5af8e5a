// Composite ops: small programs over other ops, step for step as the reference decomposes them
// before the sharding decision, since every step may move data.
#include <algorithm>
#include <limits>

#include "ops/family.h"

namespace shardlab {
namespace {

std::int64_t ndim_of(const DTensor& x) { return static_cast<std::int64_t>(x.ndim()); }

Results single(DTensor x) { return {Argument(std::move(x))}; }

[[noreturn]] void refuse(std::string summary, std::string fix) {
  fail(Fix{std::move(fix)}, "{}", std::move(summary));
}

// Layout.

/// flatten.using_ints(self, start_dim, end_dim)
Results flatten(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  const std::int64_t start = wrap_dim(args[1].to_int(), x.ndim());
  const std::int64_t end = wrap_dim(args[2].to_int(), x.ndim());
  if (start > end) {
    refuse(fmt::format("flatten: start_dim {} comes after end_dim {}", start, end),
           "name the first and the last of the dims that become one");
  }
  if (x.ndim() == 0) return single(reshape(calls, x, Dims{1}));
  if (start == end) return single(x);
  Dims shape;
  for (std::int64_t d = 0; d < ndim_of(x); ++d) {
    if (d > start && d <= end) {
      shape.back() *= x.shape()[index_of(d)];
    } else {
      shape.push_back(x.shape()[index_of(d)]);
    }
  }
  return single(reshape(calls, x, shape));
}

Results ravel(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  return single(reshape(calls, x, Dims{x.numel()}));
}

/// unflatten.int(self, dim, sizes)
Results unflatten(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  const std::int64_t dim = wrap_dim(args[1].to_int(), x.ndim());
  const Dims sizes = infer_sizes(ints_of(args[2]), x.shape()[index_of(dim)]);
  Dims shape;
  for (std::int64_t d = 0; d < ndim_of(x); ++d) {
    if (d != dim) shape.push_back(x.shape()[index_of(d)]);
    if (d == dim) {
      for (const std::int64_t size : sizes) shape.push_back(size);
    }
  }
  return single(calls.one("view", {x, shape}));
}

/// chunk(self, chunks, dim)
Results chunk(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  const std::int64_t chunks = args[1].to_int();
  if (chunks < 1) {
    refuse(fmt::format("chunk: chunks is {}, must be at least 1", chunks),
           "give the number of pieces");
  }
  const std::int64_t length = x.shape()[index_of(wrap_dim(args[2].to_int(), x.ndim()))];
  if (length == 0) {
    return calls("split_with_sizes", {x, Dims(index_of(chunks), 0), args[2]});
  }
  return calls("split.Tensor", {x, (length + chunks - 1) / chunks, args[2]});
}

Results reversed_dims(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  Dims dims;
  for (std::int64_t d = ndim_of(x); d-- > 0;) dims.push_back(d);
  return single(calls.one("permute", {x, dims}));
}

Results matrix_transpose(Calls& calls, const Arguments& args) {
  return single(calls.one("transpose.int", {args[0], -2, -1}));
}

/// movedim.intlist(self, source, destination) and movedim.int
Results movedim(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  const Dims source = wrap_dims(ints_of(args[1]), x.ndim());
  const Dims destination = wrap_dims(ints_of(args[2]), x.ndim());
  if (source.size() != destination.size()) {
    refuse(
        fmt::format("movedim: {} dims cannot move to {} places", source.size(), destination.size()),
        "name as many dims in source as in destination");
  }
  Dims order(x.ndim(), -1);
  if (order.empty()) return single(calls.one("permute", {x, order}));
  for (std::size_t i = 0; i < source.size(); ++i) order[index_of(destination[i])] = source[i];
  std::int64_t next = 0;
  for (std::int64_t& dim : order) {
    if (dim >= 0) continue;
    while (std::ranges::find(source, next) != source.end()) ++next;
    dim = next++;
  }
  return single(calls.one("permute", {x, order}));
}

/// sum_to_size(self, size): broadcasting undone
Results sum_to_size(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  const Dims size = ints_of(args[1]);
  const std::size_t added = x.ndim() - std::min(size.size(), x.ndim());
  Dims summed;
  bool fits = size.size() <= x.ndim();
  for (std::size_t d = 0; fits && d < x.ndim(); ++d) {
    const bool stretched = d < added || (size[d - added] == 1 && x.shape()[d] != 1);
    if (stretched) summed.push_back(static_cast<std::int64_t>(d));
    fits = stretched || size[d - added] == x.shape()[d];
  }
  if (!fits) {
    refuse(fmt::format("sum_to_size: [{}] does not broadcast to [{}]", text_of_list(size, ", "),
                       text_of_list(x.shape(), ", ")),
           "give sizes that are 1 or the tensor's own");
  }
  const DTensor sum = summed.empty() ? x : calls.one("sum.dim_IntList", {x, summed, true});
  return single(added == 0 ? sum : calls.one("view", {sum, size}));
}

/// isreal(self): whether the imaginary part is 0
Results isreal(Calls& calls, const Arguments& args) {
  const Expression x(calls, args[0].tensor());
  if (!is_complex(x.value().dtype())) {
    return single(calls.one("ones_like", {x, DType::kBool}));
  }
  return single(grad::complex_part(x, 1).eq(0));
}

Results expand_as(Calls& calls, const Arguments& args) {
  return single(calls.one("expand", {args[0], args[1].tensor().shape()}));
}
Results view_as(Calls& calls, const Arguments& args) {
  return single(calls.one("view", {args[0], args[1].tensor().shape()}));
}
Results reshape_as(Calls& calls, const Arguments& args) {
  return single(calls.one("reshape", {args[0], args[1].tensor().shape()}));
}
Results type_as(Calls& calls, const Arguments& args) {
  return single(cast_to(calls, args[0].tensor(), args[1].tensor().dtype()));
}

/// to.dtype(self, dtype, non_blocking, copy, memory_format)
Results to_dtype(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  if (x.dtype() == args[1].dtype() && !args[3].to_bool()) return single(x);
  return single(calls.one("_to_copy", {x, args[1]}));
}

/// to.device(self, device, dtype, non_blocking, copy, memory_format): ranks have one device.
Results to_device(Calls& calls, const Arguments& args) {
  return to_dtype(calls, {args[0], args[2], args[3], args[4], args[5]});
}
/// to.dtype_layout(self, *, dtype, layout, device, pin_memory, non_blocking, copy, memory_format)
Results to_layout(Calls& calls, const Arguments& args) {
  const DType dtype = dtype_or(args[1], args[0].tensor().dtype());
  return to_dtype(calls, {args[0], dtype, args[5], args[6], args[7]});
}
/// to.other(self, other, non_blocking, copy, memory_format)
Results to_other(Calls& calls, const Arguments& args) {
  return to_dtype(calls, {args[0], args[1].tensor().dtype(), args[2], args[3], args[4]});
}
/// to_dense(self, dtype, *, masked_grad): here no tensor is sparse.
Results to_dense(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  return single(cast_to(calls, x, dtype_or(args[1], x.dtype())));
}

/// lift, pin_memory: ops about other devices and other stages leave a tensor as it is.
// _is_all_true and _is_any_true, of truth values alone.
template <FixedText kOp>
Results one_truth(Calls& calls, const Arguments& args) {
  if (args[0].tensor().dtype() != DType::kBool) {
    fail(Fix{fmt::format("use {}", kOp)}, "_is_{}_true: the tensor is {}, must be bool", kOp,
         to_string(args[0].tensor().dtype()));
  }
  return {calls.one(kOp, args)};
}

Results as_it_is(Calls&, const Arguments& args) { return {args[0]}; }

/// narrow(self, dim, start, length)
Results narrow(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  const std::int64_t size = x.shape()[index_of(wrap_dim(args[1].to_int(), x.ndim()))];
  const std::int64_t start = args[2].to_int() < 0 ? args[2].to_int() + size : args[2].to_int();
  const std::int64_t length = args[3].to_int();
  if (start < 0 || length < 0 || start + length > size) {
    refuse(fmt::format("narrow: {} elements from {} on are not in dim {} of size {}", length,
                       args[2].to_int(), args[1].to_int(), size),
           fmt::format("start + length may be at most {}", size));
  }
  return single(calls.one("slice.Tensor", {x, args[1], start, start + length}));
}

// Products.

Results matmul_op(Calls& calls, const Arguments& args) {
  return single(matmul(calls, args[0].tensor(), args[1].tensor()));
}

/// linear(input, weight [out, in], bias)
Results linear(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  const DTensor& weight = args[1].tensor();
  const bool biased = args[2].is_tensor();
  if (x.ndim() == 0 || weight.ndim() == 0) {
    refuse(fmt::format("linear: the input has {} dims, the weight {}; both need at least 1",
                       x.ndim(), weight.ndim()),
           "give the input its features as its last dim");
  }
  if (biased && x.ndim() != 2 && is_contiguous(x.shape(), x.meta().stride)) {
    Dims shape = x.shape();
    const std::int64_t features = shape.back();
    shape.pop_back();
    const DTensor rows = calls.one("view", {x, Dims{product(shape), features}});
    const DTensor y = calls.one("addmm", {args[2], rows, calls.one("t", {weight})});
    shape.push_back(y.shape()[1]);
    return single(calls.one("_unsafe_view", {y, shape}));
  }
  const DTensor transposed = calls.one("t", {weight});
  if (biased && x.ndim() == 2) return single(calls.one("addmm", {args[2], x, transposed}));
  const DTensor y = matmul(calls, x, transposed);
  return single(biased ? calls.one("add.Tensor", {y, args[2]}) : y);
}

// Normalisation.

/// rms_norm(input, normalized_shape, weight, eps): half types are computed in f32.
Results rms_norm(Calls& calls, const Arguments& args) {
  const DTensor input = grad::reduced(calls, args[0].tensor());
  const DType dtype = input.dtype();
  const bool wide = dtype == DType::kF64 || dtype == DType::kC128;
  double eps = args[3].is_none() ? (wide ? std::numeric_limits<double>::epsilon()
                                         : std::numeric_limits<float>::epsilon())
                                 : args[3].to_double();
  if (!wide) eps = static_cast<float>(eps);
  Dims dims;
  const Dims normalized = ints_of(args[1]);
  const auto count = static_cast<std::int64_t>(normalized.size());
  const bool fits = count <= ndim_of(input) &&
                    std::equal(normalized.begin(), normalized.end(), input.shape().end() - count);
  if (!fits) {
    refuse(fmt::format("rms_norm: the input's shape [{}] does not end in normalized_shape [{}]",
                       text_of_list(input.shape(), ", "), text_of_list(normalized, ", ")),
           "give the sizes of the input's last dims");
  }
  for (std::int64_t d = ndim_of(input) - count; d < ndim_of(input); ++d) dims.push_back(d);
  const DTensor x = cast_to(calls, input, f32_for_half(dtype));
  const DTensor mean = calls.one("mean.dim", {calls.one("pow.Tensor_Scalar", {x, 2}), dims, true});
  // In place as in the reference, which refuses where the mean of a cut dim is pending: a tensor
  // that is written in place cannot be reduced on the way.
  const bool pending = mean.distributed() && mean.spec()->has_partial();
  const DTensor shifted = calls.one(pending ? "add.Scalar" : "add_.Scalar", {mean, eps});
  const DTensor root = calls.one("rsqrt", {shifted});
  DTensor result = calls.one("mul.Tensor", {x, root});
  if (args[2].is_tensor()) result = calls.one("mul.Tensor", {result, args[2]});
  return single(cast_to(calls, result, dtype));
}

/// softmax.int(self, dim, dtype), log_softmax.int
template <FixedText op>
Results softmax(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  return single(calls.one(op, {cast_to(calls, x, dtype_or(args[2], x.dtype())), args[1], false}));
}

/// dropout(input, p, train)
Results dropout(Calls& calls, const Arguments& args) {
  DTensor x = args[0].tensor();
  const double keep = 1.0 - args[1].to_double();
  if (!(keep >= 0 && keep <= 1)) {
    refuse(fmt::format("dropout: p is {}, must be in [0, 1]", args[1].text()),
           "p is the share of the elements that become 0");
  }
  if (keep == 1 || !args[2].to_bool() || x.numel() == 0) return single(x);
  if (keep == 0) return single(calls.one("mul.Tensor", {x, calls.one("new_zeros", {x, Dims{}})}));
  x = grad::reduced(calls, x);  // elements are dropped from the whole, not from its terms
  DTensor noise = calls.one("empty_like", {x});
  noise = calls.one("bernoulli_.float", {noise, keep});
  noise = calls.one("div_.Scalar", {noise, keep});
  return single(calls.one("mul.Tensor", {x, noise}));
}

/// feature_dropout(input, p, train): whole channels
Results channel_dropout(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  const double keep = 1.0 - args[1].to_double();
  if (!(keep > 0 && keep < 1) || !args[2].to_bool() || x.numel() == 0) return dropout(calls, args);
  if (x.ndim() < 2) {
    refuse(fmt::format("feature_dropout takes a tensor [batch, channels, ..], not of {} dims",
                       x.ndim()),
           "use dropout, which drops single elements");
  }
  Dims shape(x.ndim(), 1);
  shape[0] = x.shape()[0];
  shape[1] = x.shape()[1];
  DTensor noise = calls.one("new_empty", {x, shape});
  noise = calls.one("bernoulli_.float", {noise, keep});
  noise = calls.one("div_.Scalar", {noise, keep});
  return single(calls.one("mul.Tensor", {grad::reduced(calls, x), noise}));
}

// Losses.

std::int64_t class_dim(const DTensor& x) { return x.ndim() == 1 ? 0 : 1; }

/// One weight for each target, or 1; 0 for those that are ignored.
DTensor target_weights(Calls& calls, const Arguments& args, const DTensor& like) {
  const DTensor ignored = calls.one("eq.Scalar", {args[1], args[4]});
  const DTensor safe = calls.one("masked_fill.Scalar", {args[1], ignored, 0});
  const DTensor weights = args[2].is_tensor()
                              ? calls.one("index.Tensor", {args[2], ArgumentList{safe}})
                              : calls.one("ones_like", {args[1], like.dtype()});
  return calls.one("masked_fill.Scalar", {weights, ignored, 0.0});
}

/// nll_loss_nd(self, target, weight, reduction, ignore_index): all dims but that of the classes are
/// samples; none has to be joined with another, however they are cut.
Results nll_loss(Calls& calls, const Arguments& args) {
  const bool places = args[0].tensor().ndim() > 2;
  return {calls(places ? "nll_loss2d_forward" : "nll_loss_forward", args)[0]};
}

/// One weight per class, in the shape of logs.
DTensor with_class_dim(Calls& calls, const DTensor& weight, const DTensor& logs) {
  Dims shape(logs.ndim(), 1);
  shape[index_of(class_dim(logs))] = weight.numel();
  return calls.one("view", {weight, shape});
}

/// Targets that are probabilities of all classes.
DTensor probability_loss(Calls& calls, const DTensor& logs, const Arguments& args) {
  DTensor target = args[1].tensor();
  const double smoothing = args[5].to_double();
  const auto classes = static_cast<double>(logs.shape()[index_of(class_dim(logs))]);
  if (smoothing > 0) {
    target = calls.one("add.Scalar",
                       {calls.one("mul.Scalar", {target, 1 - smoothing}), smoothing / classes});
  }
  DTensor product_of = calls.one("mul.Tensor", {logs, target});
  if (args[2].is_tensor()) {
    product_of =
        calls.one("mul.Tensor", {product_of, with_class_dim(calls, args[2].tensor(), logs)});
  }
  const LossReduction reduction = loss_reduction(args[3]);
  if (reduction == LossReduction::kNone) {
    return calls.one("neg", {calls.one("sum.dim_IntList", {product_of, Dims{class_dim(logs)}})});
  }
  const DTensor loss = calls.one("neg", {calls.one("sum", {product_of})});
  if (reduction == LossReduction::kSum) return loss;
  return calls.one("div.Scalar", {loss, static_cast<double>(logs.numel()) / classes});
}

/// A share of the loss is spread over all classes.
DTensor smoothed_loss(Calls& calls, const DTensor& logs, const DTensor& loss,
                      const Arguments& args) {
  const double smoothing = args[5].to_double();
  const auto classes = static_cast<double>(logs.shape()[index_of(class_dim(logs))]);
  DTensor smooth = logs;
  if (args[2].is_tensor()) {
    smooth = calls.one("mul.Tensor", {logs, with_class_dim(calls, args[2].tensor(), logs)});
  }
  smooth = calls.one("neg", {calls.one("sum.dim_IntList", {smooth, Dims{class_dim(logs)}})});
  const DTensor ignored = calls.one("eq.Scalar", {args[1], args[4]});
  smooth = calls.one("masked_fill.Scalar", {smooth, ignored, 0.0});
  const LossReduction reduction = loss_reduction(args[3]);
  if (reduction != LossReduction::kNone) smooth = calls.one("sum", {smooth});
  if (reduction == LossReduction::kMean) {
    const DTensor counted = args[2].is_tensor() ? target_weights(calls, args, logs)
                                                : calls.one("logical_not", {ignored});
    smooth = calls.one("div.Tensor", {smooth, calls.one("sum", {counted})});
  }
  return calls.one("add.Tensor", {calls.one("mul.Scalar", {loss, 1 - smoothing}),
                                  calls.one("mul.Scalar", {smooth, smoothing / classes})});
}

/// cross_entropy_loss(self, target, weight, reduction, ignore_index, label_smoothing)
Results cross_entropy(Calls& calls, const Arguments& args) {
  if (const double smoothing = args[5].to_double(); !(smoothing >= 0 && smoothing <= 1)) {
    refuse(fmt::format("cross_entropy: label_smoothing is {}", args[5].text()),
           "give a share from 0 to 1");
  }
  const DTensor& x = args[0].tensor();
  const DTensor logs = calls.one("_log_softmax", {x, class_dim(x), false});
  if (args[1].tensor().shape() == x.shape()) return single(probability_loss(calls, logs, args));
  const DTensor loss = nll_loss(calls, {logs, args[1], args[2], args[3], args[4]})[0].tensor();
  if (args[5].to_double() == 0) return single(loss);
  return single(smoothed_loss(calls, logs, loss, args));
}

// Spreads.

/// var(self, unbiased) and var.dim(self, dim, unbiased, keepdim): the older way to choose the
/// correction.
template <FixedText op>
Results spread(Calls& calls, const Arguments& args) {
  const bool by_dim = args.size() > 2;
  const int correction = args[by_dim ? 2 : 1].to_bool() ? 1 : 0;
  return calls(
      op, {args[0], by_dim ? args[1] : Argument(), correction, by_dim ? args[3] : Argument(false)});
}

// Pools.

/// max_pool2d, max_pool3d(self, kernel_size, stride, padding, dilation, ceil_mode)
template <FixedText with_indices>
Results max_pool(Calls& calls, const Arguments& args) {
  return {calls(with_indices, args)[0]};
}
constexpr const char* kMaxPool2d = "max_pool2d_with_indices";

/// max_pool1d(self, kernel_size, stride, padding, dilation, ceil_mode): of a plane with one row
Results max_pool_of_lines(Calls& calls, const Arguments& args) {
  const auto beside = [&](std::size_t index, std::int64_t of_row) {
    Dims numbers = ints_of(args[index]);
    if (!numbers.empty()) numbers.insert(0, of_row);
    return Argument(numbers);
  };
  const DTensor plane = calls.one("unsqueeze", {args[0], -2});
  const Results pooled =
      calls(kMaxPool2d, {plane, beside(1, 1), beside(2, 1), beside(3, 0), beside(4, 1), args[5]});
  return single(calls.one("squeeze.dim", {pooled[0], -2}));
}

/// adaptive_avg_pool2d, adaptive_avg_pool3d(self, output_size): one number of each is a mean.
template <FixedText op, std::size_t dims>
Results adaptive_mean(Calls& calls, const Arguments& args) {
  const Dims sizes = ints_of(args[1]);
  const bool all = sizes.size() == dims && std::ranges::count(sizes, 1) == static_cast<int>(dims);
  if (!all || args[0].tensor().ndim() < dims) return calls(op, args);
  Dims last;
  for (std::size_t d = 1; d <= dims; ++d) last.push_back(-static_cast<std::int64_t>(d));
  return single(calls.one("mean.dim", {args[0], last, true}));
}

// Sorted by name.
// clang-format off
constexpr Row kCompositeRows[] = {
    composite("_is_all_true"_op, one_truth<"all">, "all", kNotDifferentiable),
    composite("_is_any_true"_op, one_truth<"any">, "any", kNotDifferentiable),
    composite("adaptive_avg_pool2d"_op, adaptive_mean<"_adaptive_avg_pool2d", 2>,
              "_adaptive_avg_pool2d, or a mean"),
    composite("adaptive_avg_pool3d"_op, adaptive_mean<"_adaptive_avg_pool3d", 3>,
              "_adaptive_avg_pool3d, or a mean"),
    composite("chunk"_op, chunk, "split"),
    composite("cross_entropy_loss"_op, cross_entropy, "log_softmax and nll_loss_forward"),
    composite("dropout"_op, dropout, "bernoulli_ and a product", kRandom),
    composite("expand_as"_op, expand_as, "expand"),
    composite("feature_dropout"_op, channel_dropout, "bernoulli_ and a product", kRandom),
    composite("flatten.using_ints"_op, flatten, "reshape"),
    composite("isreal"_op, isreal, "view_as_real and eq", kNotDifferentiable),
    composite("layer_norm"_op, result_of<"native_layer_norm", 0, 0, 1, 2, 3, 4>,
              "native_layer_norm"),
    composite("lift"_op, as_it_is, "the same tensor"),
    composite("linear"_op, linear, "addmm or matmul"),
    composite("log_softmax.int"_op, softmax<"_log_softmax">, "_log_softmax"),
    composite("mT"_op, matrix_transpose, "transpose"),
    composite("matmul"_op, matmul_op, "views around mm, mv, bmm or dot"),
    composite("max_pool1d"_op, max_pool_of_lines, "max_pool2d_with_indices of one row"),
    composite("max_pool2d"_op, max_pool<"max_pool2d_with_indices">, "max_pool2d_with_indices"),
    composite("max_pool3d"_op, max_pool<"max_pool3d_with_indices">, "max_pool3d_with_indices"),
    composite("movedim.int"_op, movedim, "permute"),
    composite("movedim.intlist"_op, movedim, "permute"),
    composite("narrow"_op, narrow, "slice"),
    composite("nll_loss_nd"_op, nll_loss, "nll_loss_forward"),
    composite("numpy_T"_op, reversed_dims, "permute"),
    composite("pin_memory"_op, as_it_is, "the same tensor"),
    composite("ravel"_op, ravel, "reshape"),
    composite("reshape_as"_op, reshape_as, "reshape"),
    composite("rms_norm"_op, rms_norm, "pointwise ops around a mean", kStepOfDtype),
    composite("softmax.int"_op, softmax<"_softmax">, "_softmax"),
    composite("std"_op, spread<"std.correction">, "std.correction"),
    composite("std.dim"_op, spread<"std.correction">, "std.correction"),
    composite("std_mean"_op, spread<"std_mean.correction">, "std_mean.correction"),
    composite("std_mean.dim"_op, spread<"std_mean.correction">, "std_mean.correction"),
    composite("sum_to_size"_op, sum_to_size, "sum"),
    composite("to.device"_op, to_device, "_to_copy where something changes"),
    composite("to.dtype"_op, to_dtype, "_to_copy where something changes"),
    composite("to.dtype_layout"_op, to_layout, "_to_copy where something changes"),
    composite("to.other"_op, to_other, "_to_copy where something changes"),
    composite("to_dense"_op, to_dense, "_to_copy where something changes"),
    composite("type_as"_op, type_as, "_to_copy where something changes"),
    composite("unflatten.int"_op, unflatten, "view"),
    composite("var"_op, spread<"var.correction">, "var.correction"),
    composite("var.dim"_op, spread<"var.correction">, "var.correction"),
    composite("var_mean"_op, spread<"var_mean.correction">, "var_mean.correction"),
    composite("var_mean.dim"_op, spread<"var_mean.correction">, "var_mean.correction"),
    composite("view_as"_op, view_as, "view"),
};
// clang-format on

}  // namespace

void register_composite(OpRegistry& registry) { add_rows(registry, kCompositeRows); }

}  // namespace shardlab
