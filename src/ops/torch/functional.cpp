// Functions of torch.nn.functional that torch writes in Python, over ops of ATen: each is a row of
// its own, in a namespace of its own, and takes the same steps. Here: activations, norms, losses
// and interpolation; and the list of all.
#include "ops/torch/functional.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "ops/elementwise/slopes.h"
#include "ops/family.h"

namespace shardlab {
namespace {

Expression formula(Calls& calls, const Argument& tensor) { return {calls, tensor.tensor()}; }

// Activations.

Results softsign(Calls& calls, const Arguments& args) {
  const Expression x = formula(calls, args[0]);
  return {x / (x.of("aten::abs") + 1)};
}

Results tanhshrink(Calls& calls, const Arguments& args) {
  const Expression x = formula(calls, args[0]);
  return {x - x.of("aten::tanh")};
}

/// softmin(input, dim, _stacklevel, dtype)
Results softmin(Calls& calls, const Arguments& args) {
  if (args[1].is_none()) {
    fail(Fix{"name the dim: softmin(x, dim=-1)"}, "softmin takes a dim");
  }
  return calls("softmax.int", {-formula(calls, args[0]), args[1], args[3]});
}

/// gumbel_softmax(logits, tau, hard, eps, dim): a choice that is drawn, and with `hard` one of the
/// classes alone, whose gradient is that of the softmax.
Results gumbel_softmax(Calls& calls, const Arguments& args) {
  const Expression logits(calls, grad::reduced(calls, args[0].tensor()));
  const DTensor room = calls.one("empty_like", {logits});
  const Expression drawn(calls, calls.one("exponential_", {room}));
  const Expression noise = -drawn.of("aten::log");
  const Expression scaled = (logits + noise).with("aten::div.Scalar", args[1]);
  const Expression soft = scaled.with("aten::softmax.int", args[4]);
  if (!args[2].to_bool()) return {soft};
  const Argument chosen = calls("max.dim", {soft, args[4], true})[1];
  const DTensor zeros = calls.one("zeros_like", {logits});
  const Expression hard(calls, calls.one("scatter.value", {zeros, args[4], chosen, 1.0}));
  return {hard - soft.of("aten::detach") + soft};
}

/// feature_alpha_dropout(input, p, training): whole channels, as alpha_dropout drops elements
Results feature_alpha_dropout(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  const double p = args[1].to_double();
  const bool drops = p != 0 && args[2].to_bool() && x.numel() > 0;
  if (!(p >= 0 && p <= 1) || (drops && x.ndim() < 2)) {
    fail(Fix{"give a tensor [batch, channels, ..], and p in [0, 1]"},
         "feature_alpha_dropout: p is {}, the tensor has {} dims; p must be in [0, 1], and dims at "
         "least 2",
         args[1].text(), x.ndim());
  }
  if (!drops) return {x};
  if (p == 1) return calls("mul.Scalar", {x, 0});
  Dims channels(x.ndim(), 1);
  channels[0] = x.shape()[0];
  channels[1] = x.shape()[1];
  return {dropped_to_floor(calls, x, calls.one("new_empty", {x, channels}), p)};
}

/// rrelu(input, lower, upper, training)
Results rrelu(Calls& calls, const Arguments& args) {
  const DTensor noise = calls.one("empty_like", {args[0]});
  return {calls("rrelu_with_noise_functional", {args[0], noise, args[1], args[2], args[3]})[0]};
}

// Norms.

/// normalize(input, p, dim, eps)
Results normalize(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  const DTensor norm = calls.one("linalg_vector_norm", {x, args[1], ints_of(args[2]), true});
  const DTensor least = calls.one("clamp_min", {norm, args[3]});
  return {calls.one("div.Tensor", {x, calls.one("expand", {least, x.shape()})})};
}

/// local_response_norm(input, size, alpha, beta, k): over neighbouring channels
Results local_response_norm(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  if (x.ndim() < 3) {
    fail(Fix{"give a tensor [batch, channels, ..]"},
         "local_response_norm takes a tensor of at least 3 dims, not {}", x.ndim());
  }
  if (x.numel() == 0) return {x};
  const std::int64_t size = args[1].to_int(), front = size / 2, behind = (size - 1) / 2;
  DTensor share = calls.one("mul.Tensor", {x, x});
  if (x.ndim() == 3) {
    share = calls.one("constant_pad_nd",
                      {calls.one("unsqueeze", {share, 1}), Dims{0, 0, front, behind}, 0.0});
    share = calls.one("avg_pool2d", {share, Dims{size, 1}, Dims{1, 1}});
    share = calls.one("squeeze.dim", {share, 1});
  } else {
    const Dims& shape = x.shape();
    const Dims apart{shape[0], 1, shape[1], shape[2], -1};
    share = calls.one("constant_pad_nd",
                      {calls.one("view", {share, apart}), Dims{0, 0, 0, 0, front, behind}, 0.0});
    share = calls.one("avg_pool3d", {share, Dims{size, 1, 1}, Dims{1, 1, 1}});
    share = calls.one("view", {calls.one("squeeze.dim", {share, 1}), shape});
  }
  const Expression scaled = Expression(calls, share) * args[2].to_double() + args[4].to_double();
  const Expression root = scaled.with("aten::pow.Tensor_Scalar", args[3]);
  return {Expression(calls, x) / root};
}

/// lp_pool1d, lp_pool2d, lp_pool3d(input, norm_type, kernel_size, stride, ceil_mode)
template <std::size_t dims>
Results lp_pool(Calls& calls, const Arguments& args) {
  static constexpr std::array<std::array<const char*, 2>, 3> kPools = {
      {{"avg_pool1d", "max_pool1d"}, {"avg_pool2d", "max_pool2d"}, {"avg_pool3d", "max_pool3d"}}};
  const auto& [average, largest] = kPools[dims - 1];
  const Expression x = formula(calls, args[0]);
  const double p = args[1].to_double();
  const Dims kernel = ints_of(args[2]), stride = ints_of(args[3]);
  if (p == 0) {
    fail(Fix{"give another norm_type"}, "lp_pool: norm_type is 0; it must be another number");
  }
  if (std::isinf(p)) {
    const Expression sizes = x.of("aten::abs"), signed_sizes = p > 0 ? sizes : -sizes;
    const Expression pooled(calls, calls.one(largest, {signed_sizes, kernel, stride, Dims(dims, 0),
                                                       Dims(dims, 1), args[4]}));
    return {p > 0 ? pooled : -pooled};
  }
  const Expression powers = x.with("aten::pow.Tensor_Scalar", args[1]);
  const Expression mean(calls,
                        calls.one(average, {powers, kernel, stride, Dims(dims, 0), args[4]}));
  const Expression sign = mean.of("aten::sign");
  const Expression sums =
      sign * mean.of("aten::abs").of("aten::relu") * static_cast<double>(product(kernel));
  return {sums.with("aten::pow.Tensor_Scalar", 1.0 / p)};
}

// Losses.

/// The reductions that the words of a loss mean; the older two are not taken.
Expression in_a_word(std::string_view loss, const Expression& terms, const Argument& word) {
  if (word.string() == "none") return terms;
  if (word.string() == "mean") return terms.of("aten::mean");
  if (word.string() == "sum") return terms.of("aten::sum");
  fail(Fix{"use 'mean', 'sum' or 'none'"},
       "{}: reduction is '{}'; it must be 'mean', 'sum' or 'none'", loss, word.string());
}

void refuse_older_words(std::string_view loss, const Argument& average, const Argument& reduce) {
  if (average.is_none() && reduce.is_none()) return;
  fail(ErrorKind::kUnsupported, Fix{"use reduction='mean', 'sum' or 'none'"},
       "not yet supported: size_average and reduce in {}", loss);
}

/// Losses times the weights of elements; a mean divides by `count`, or by all weights.
Results weighted(std::string_view loss, const Arguments& args, const Expression& terms,
                 const Argument& word, const Argument& weight, bool by_weights) {
  if (weight.tensor().shape() != args[0].tensor().shape()) {
    fail(Fix{"give a weight for each element of the input"},
         "{}: the weight has shape [{}]; it must have that of the input, [{}]", loss,
         text_of_list(weight.tensor().shape(), ", "), text_of_list(args[0].tensor().shape(), ", "));
  }
  const Expression weights = formula(terms.calls(), weight), each = terms * weights;
  if (!by_weights || word.string() != "mean") return {in_a_word(loss, each, word)};
  const Expression sum = each.of("aten::sum");
  return {sum / weights.of("aten::sum")};
}

/// l1_loss, mse_loss(input, target, size_average, reduce, reduction, weight)
Results weighted_l1_loss(Calls& calls, const Arguments& args) {
  refuse_older_words("l1_loss", args[2], args[3]);
  const Expression miss = formula(calls, args[0]).minus(formula(calls, args[1]));
  return weighted("l1_loss", args, miss.of("aten::abs"), args[4], args[5], true);
}
Results weighted_mse_loss(Calls& calls, const Arguments& args) {
  refuse_older_words("mse_loss", args[2], args[3]);
  const Expression miss = formula(calls, args[0]).minus(formula(calls, args[1]));
  const Expression squares = miss.with("aten::pow.Tensor_Scalar", 2);
  return weighted("mse_loss", args, squares, args[4], args[5], true);
}

/// huber_loss(input, target, reduction, delta, weight): a mean over elements
Results weighted_huber_loss(Calls& calls, const Arguments& args) {
  const Expression each(calls, calls.one("huber_loss", {args[0], args[1], 0, args[3]}));
  return weighted("huber_loss", args, each, args[2], args[4], false);
}

/// kl_div(input, target, size_average, reduce, reduction, log_target)
Results kl_div(Calls& calls, const Arguments& args) {
  refuse_older_words("kl_div", args[2], args[3]);
  const Expression terms(calls, calls.one("aten::kl_div", {args[0], args[1], 0, args[5]}));
  if (args[4].string() != "batchmean") return {in_a_word("kl_div", terms, args[4])};
  const Expression sum = terms.of("aten::sum");
  const DTensor& x = args[0].tensor();
  return {x.ndim() == 0 ? sum.value() : (sum / static_cast<double>(x.shape()[0])).value()};
}

/// With a dim for each of the input's, which stretches.
DTensor variance_like(Calls& calls, const DTensor& x, const DTensor& variance) {
  const Dims &shape = x.shape(), &given = variance.shape();
  if (given == shape) return variance;
  const Dims front(shape.begin(), shape.empty() ? shape.end() : shape.end() - 1);
  if (given == front) return calls.one("unsqueeze", {variance, -1});
  std::int64_t others = 0;
  for (std::size_t d = 0; d < std::min(shape.size(), given.size()); ++d) {
    if (shape[d] != given[d]) others += given[d];
  }
  if (shape.size() == given.size() && others == 1) return variance;
  fail(Fix{"give a variance of the input's shape, or without its last dim"},
       "gaussian_nll_loss: the variance has shape [{}]; it must have that of the input, [{}], or "
       "lack its last dim",
       text_of_list(given, ", "), text_of_list(shape, ", "));
}

[[noreturn]] void refuse_negative_variance() {
  fail(Fix{"give variances of at least 0"},
       "gaussian_nll_loss: the variance has a negative element; it must have none");
}

/// (input, target, var, full, eps, reduction), with the variance as a tensor
Results gaussian_loss(Calls& calls, const Arguments& args, const DTensor& given) {
  const DTensor variance = calls.one("clone", {variance_like(calls, args[0].tensor(), given)});
  // Not recorded: values raised to eps have the gradient of the given ones.
  calls("clamp_min_", {grad::unrecorded(variance), args[4]});
  const Expression spread(calls, variance), logs = spread.of("aten::log");
  const Expression x = formula(calls, args[0]), miss = x - formula(calls, args[1]);
  Expression loss = (logs + miss.with("aten::pow.Tensor_Scalar", 2) / spread) * 0.5;
  if (args[3].to_bool()) loss = loss + 0.5 * std::log(2 * std::numbers::pi);
  return {in_a_word("gaussian_nll_loss", loss, args[5])};
}

Results gaussian_nll_loss(Calls& calls, const Arguments& args) {
  const DTensor variance = grad::reduced(calls, args[2].tensor());
  const DTensor negative = calls.one("any", {calls.one("lt.Scalar", {variance, 0})});
  if (integer_in(calls, calls.one("_to_copy", {negative, DType::kI64})) != 0) {
    refuse_negative_variance();
  }
  return gaussian_loss(calls, args, variance);
}

Results gaussian_nll_loss_of_one(Calls& calls, const Arguments& args) {
  if (args[2].to_double() < 0) refuse_negative_variance();
  const DTensor ones = calls.one("ones_like", {args[0]});
  return gaussian_loss(calls, args, calls.one("mul.Scalar", {ones, args[2]}));
}

/// multilabel_soft_margin_loss(input, target, weight, size_average, reduce, reduction)
Results multilabel_soft_margin_loss(Calls& calls, const Arguments& args) {
  refuse_older_words("multilabel_soft_margin_loss", args[3], args[4]);
  const Expression x = formula(calls, args[0]), target = formula(calls, args[1]);
  const Expression yes = x.of("aten::log_sigmoid"), no = (-x).of("aten::log_sigmoid");
  const Expression of_labels = target * yes;
  Expression loss = -(of_labels + (-target + 1) * no);
  if (args[2].is_tensor()) loss = loss * formula(calls, args[2]);
  const auto classes = static_cast<std::int64_t>(x.value().ndim()) - 1;
  if (classes < 0) {
    fail(Fix{"give [.., classes]"},
         "multilabel_soft_margin_loss: the input has no dims; its last one must be the classes");
  }
  const Expression sums(calls, calls.one("sum.dim_IntList", {loss, Dims{classes}}));
  const auto count = static_cast<double>(x.value().shape().back());
  return {in_a_word("multilabel_soft_margin_loss", sums / count, args[5])};
}

// interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)

/// The name of a mode in ATen, for 1, 2 and 3 dims of places; null where there is none.
struct ResampleMode {
  std::string_view name;
  std::array<const char*, 3> ops;
  const char* smooth = nullptr;  ///< with antialias, of 2 dims
  bool aligns = false;           ///< takes align_corners
};
constexpr ResampleMode kResampleModes[] = {
    {"nearest", {"upsample_nearest1d.vec", "upsample_nearest2d.vec", "upsample_nearest3d.vec"}},
    {"nearest-exact",
     {"_upsample_nearest_exact1d.vec", "_upsample_nearest_exact2d.vec",
      "_upsample_nearest_exact3d.vec"}},
    {"area", {"adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"}},
    {"linear", {"upsample_linear1d.vec", nullptr, nullptr}, nullptr, true},
    {"bilinear",
     {nullptr, "upsample_bilinear2d.vec", nullptr},
     "_upsample_bilinear2d_aa.vec",
     true},
    {"trilinear", {nullptr, nullptr, "upsample_trilinear3d.vec"}, nullptr, true},
    {"bicubic", {nullptr, "upsample_bicubic2d.vec", nullptr}, "_upsample_bicubic2d_aa.vec", true},
    {"lanczos", {nullptr, nullptr, nullptr}, "_upsample_lanczos2d_aa.vec", true},
};

const ResampleMode& resample_mode(const Argument& word) {
  const auto* found = std::ranges::find(kResampleModes, word.string(), &ResampleMode::name);
  if (found != std::end(kResampleModes)) return *found;
  std::vector<std::string_view> names;
  for (const ResampleMode& mode : kResampleModes) names.push_back(mode.name);
  fail(Fix{fmt::format("use one of {}", text_of_list(names, ", "))},
       "interpolate: there is no mode '{}'", word.string());
}

/// One number for each of `dims`, given so or as one for all.
std::vector<double> numbers_of(const Argument& given, std::size_t dims, std::string_view name) {
  std::vector<double> numbers;
  if (given.is_scalar()) numbers.assign(dims, given.to_double());
  if (given.is_ints()) numbers.assign(given.ints().begin(), given.ints().end());
  if (given.is_list()) {
    for (const Argument& number : given.list()) numbers.push_back(number.to_double());
  }
  if (numbers.size() == dims) return numbers;
  fail(Fix{"give one number, or one for each dim behind the channels"},
       "interpolate: {} is {}; it must be one number, or one for each of {} dims", name,
       given.text(), dims);
}

/// The given sizes, or the factors; None means that the other is given.
struct Scaling {
  Argument sizes, factors;
};

Scaling scaling_of(const Arguments& args, const Dims& shape, bool by_sizes_only) {
  const bool sized = !args[1].is_none(), scaled = !args[2].is_none();
  const std::size_t dims = shape.size() - 2;
  if (sized == scaled) {
    fail(Fix{"give size or scale_factor"}, "interpolate: {} given; exactly one must be",
         sized ? "both size and scale_factor are" : "neither size nor scale_factor is");
  }
  const bool recompute = !args[5].is_none() && args[5].to_bool();
  if (sized && recompute) {
    fail(Fix{"leave recompute_scale_factor out"},
         "interpolate: recompute_scale_factor is true next to a size; it must be left out there");
  }
  const std::vector<double> numbers =
      numbers_of(args[sized ? 1 : 2], dims, sized ? "size" : "scale_factor");
  Dims sizes;
  for (std::size_t d = 0; d < dims; ++d) {
    const double size = sized ? numbers[d] : static_cast<double>(shape[d + 2]) * numbers[d];
    sizes.push_back(static_cast<std::int64_t>(size));
  }
  if (sized || recompute || by_sizes_only) return {sizes, Argument()};
  return {Argument(), ArgumentList(numbers.begin(), numbers.end())};
}

Results interpolate(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  const ResampleMode& mode = resample_mode(args[3]);
  const std::size_t dims = x.ndim() < 3 ? 0 : x.ndim() - 2;
  const bool smooth = args[6].to_bool();
  const char* op = dims < 1 || dims > 3 ? nullptr
                   : !smooth            ? mode.ops[dims - 1]
                   : dims == 2          ? mode.smooth
                                        : nullptr;
  if (op == nullptr) {
    fail(Fix{"use a mode for so many dims: 'nearest', 'linear', 'bilinear'"},
         "interpolate: there is no mode '{}'{} for a tensor of {} dims", mode.name,
         smooth ? " with antialias" : "", x.ndim());
  }
  if (!mode.aligns && !args[4].is_none()) {
    fail(Fix{"leave align_corners out"}, "interpolate: mode '{}' takes no align_corners",
         mode.name);
  }
  const bool area = mode.name == "area";
  const Scaling scaling = scaling_of(args, x.shape(), area);
  if (area) return {calls(op, {x, scaling.sizes})[0]};
  if (!mode.aligns) return calls(op, {x, scaling.sizes, scaling.factors});
  const bool aligned = !args[4].is_none() && args[4].to_bool();
  return calls(op, {x, scaling.sizes, aligned, scaling.factors});
}

constexpr const char* kWeighted = "the loss of each element times its weight";

// Sorted by name.
// clang-format off
constexpr FunctionRow kFunctions[] = {
    {"functional::feature_alpha_dropout(Tensor input, float p=0.5, bool training=False, bool "
     "inplace=False) -> Tensor"_op, feature_alpha_dropout, "bernoulli_ and a product", kRandom},
    {"functional::gaussian_nll_loss(Tensor input, Tensor target, Tensor var, bool full=False, "
     "float eps=1e-06, str reduction=\"mean\") -> Tensor"_op, gaussian_nll_loss, "pointwise"},
    {"functional::gaussian_nll_loss.float(Tensor input, Tensor target, float var, bool full=False, "
     "float eps=1e-06, str reduction=\"mean\") -> Tensor"_op, gaussian_nll_loss_of_one,
     "pointwise"},
    {"functional::gumbel_softmax(Tensor logits, float tau=1, bool hard=False, float eps=1e-10, int "
     "dim=-1) -> Tensor"_op, gumbel_softmax, "exponential_ and softmax", kRandom},
    {"functional::huber_loss(Tensor input, Tensor target, str reduction=\"mean\", float delta=1.0,"
     " Tensor weight) -> Tensor"_op, weighted_huber_loss, kWeighted},
    {"functional::interpolate(Tensor input, any? size=None, any? scale_factor=None, str "
     "mode=\"nearest\", bool? align_corners=None, bool? recompute_scale_factor=None, bool "
     "antialias=False) -> Tensor"_op, interpolate, "the upsampling that the mode names"},
    {"functional::kl_div(Tensor input, Tensor target, bool? size_average=None, bool? reduce=None, "
     "str reduction=\"mean\", bool log_target=False) -> Tensor"_op, kl_div,
     "kl_div and a reduction"},
    {"functional::l1_loss(Tensor input, Tensor target, bool? size_average=None, bool? reduce=None, "
     "str reduction=\"mean\", Tensor weight) -> Tensor"_op, weighted_l1_loss, kWeighted},
    {"functional::local_response_norm(Tensor input, int size, float alpha=0.0001, float beta=0.75, "
     "float k=1.0) -> Tensor"_op, local_response_norm, "a pool over channels"},
    {"functional::lp_pool1d(Tensor input, Scalar norm_type, int[1] kernel_size, int[1]? "
     "stride=None, bool ceil_mode=False) -> Tensor"_op, lp_pool<1>, "avg_pool1d of powers"},
    {"functional::lp_pool2d(Tensor input, Scalar norm_type, int[2] kernel_size, int[2]? "
     "stride=None, bool ceil_mode=False) -> Tensor"_op, lp_pool<2>, "avg_pool2d of powers"},
    {"functional::lp_pool3d(Tensor input, Scalar norm_type, int[3] kernel_size, int[3]? "
     "stride=None, bool ceil_mode=False) -> Tensor"_op, lp_pool<3>, "avg_pool3d of powers"},
    {"functional::mse_loss(Tensor input, Tensor target, bool? size_average=None, bool? "
     "reduce=None, str reduction=\"mean\", Tensor weight) -> Tensor"_op, weighted_mse_loss,
     kWeighted},
    {"functional::multilabel_soft_margin_loss(Tensor input, Tensor target, Tensor? weight=None, "
     "bool? size_average=None, bool? reduce=None, str reduction=\"mean\") -> Tensor"_op,
     multilabel_soft_margin_loss, "log_sigmoid and a reduction"},
    {"functional::normalize(Tensor input, Scalar p=2., int[1] dim=1, float eps=1e-12) -> Tensor"_op,
     normalize, "linalg_vector_norm"},
    {"functional::rrelu(Tensor input, float lower=0.125, float upper=0.33333333333333331, bool "
     "training=False, bool inplace=False) -> Tensor"_op, rrelu, "rrelu_with_noise_functional",
     kRandom},
    {"functional::softmin(Tensor input, int? dim=None, int _stacklevel=3, ScalarType? dtype=None) "
     "-> Tensor"_op, softmin, "softmax"},
    {"functional::softsign(Tensor input) -> Tensor"_op, softsign, "pointwise"},
    {"functional::tanhshrink(Tensor input) -> Tensor"_op, tanhshrink, "pointwise"},
};
// clang-format on

}  // namespace

std::span<const FunctionRow> functions_of_torch() {
  static const std::vector<FunctionRow> functions = [] {
    std::vector<FunctionRow> all(std::begin(kFunctions), std::end(kFunctions));
    for (const auto theme : {attention_functions(), pooling_functions(), tensor_functions()}) {
      all.insert(all.end(), theme.begin(), theme.end());
    }
    return all;
  }();
  return functions;
}

void register_functional(OpRegistry& registry) {
  for (const FunctionRow& function : functions_of_torch()) {
    OpRow row;
    row.op = parse_literal_schema(function.schema.text);
    row.compute = PartsFn{function.parts};
    row.why = function.why;
    row.flags = function.flags;
    row.source = function.schema.source;
    registry.add(std::move(row));
  }
}

}  // namespace shardlab
