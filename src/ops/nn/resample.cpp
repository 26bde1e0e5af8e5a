// Resampling of the last dims: samples and channels, which are the dims in front, may be cut. It is
// linear, so that pending sums and averages pass; its backward is linear, too, and the gradient of
// that is the forward op again.
#include "ops/nn/resample.h"

#include <algorithm>
#include <span>
#include <string>

#include "ops/family.h"

namespace shardlab {

std::size_t spatial_dims(const OpDescriptor& op) {
  return static_cast<std::size_t>(op.base[op.base.find('d', op.base.find_first_of("123")) - 1] -
                                  '0');
}

void require_dims(const MetaArgs& args, const TensorMeta& self, std::size_t least) {
  const std::size_t most = spatial_dims(args.op()) + 2;
  if (self.shape.size() >= least && self.shape.size() <= most) return;
  fail(Fix{"give [samples, channels, ..sizes]"}, "{}: the input has {} dims, must have {}",
       args.op().name(), self.shape.size(), most);
}

void require_gradient(const MetaArgs& args, const TensorMeta& gradient, const Dims& sizes) {
  const std::size_t ndim = gradient.shape.size();
  if (ndim >= sizes.size() &&
      std::equal(sizes.begin(), sizes.end(),
                 gradient.shape.end() - static_cast<std::ptrdiff_t>(sizes.size()))) {
    return;
  }
  fail(Fix{"give the gradient of the result that these arguments give"},
       "{}: the gradient has shape [{}]; its last sizes must be those of the result, [{}]",
       args.op().name(), text_of_list(gradient.shape, ", "), text_of_list(sizes, ", "));
}

TensorMeta resized(const TensorMeta& like, const Dims& sizes) {
  Dims shape(like.shape.begin(), like.shape.end() - static_cast<std::ptrdiff_t>(sizes.size()));
  for (const std::int64_t size : sizes) shape.push_back(size);
  TensorMeta meta = contiguous_meta(shape, like.dtype);
  const std::size_t ndim = shape.size();
  const bool inside = ndim == sizes.size() + 2 && ndim > 3 && like.stride[1] == 1 &&
                      like.shape[1] > 1 && is_dense(like) && like.stride.back() == like.shape[1];
  if (!inside) return meta;
  std::int64_t stride = shape[1];
  meta.stride[1] = 1;
  for (std::size_t d = ndim; d-- > 2;) {
    meta.stride[d] = stride;
    stride *= std::max<std::int64_t>(shape[d], 1);
  }
  meta.stride[0] = stride;
  return meta;
}

namespace {

using namespace grad;

// Shapes

void require_sizes(const MetaArgs& args, const Dims& sizes) {
  const std::size_t count = spatial_dims(args.op());
  const bool positive = std::ranges::all_of(sizes, [](std::int64_t size) { return size > 0; });
  if (sizes.size() == count && positive) return;
  fail(Fix{fmt::format("give {} sizes of at least 1", count)},
       "{}: output_size is {}; it must be one size, at least 1, for each of {} dims",
       args.op().name(), args[1].text(), count);
}

/// There is something to take samples of.
void require_samples(const MetaArgs& args, const Dims& shape) {
  const auto sizes = std::span(shape.data(), shape.size()).last(spatial_dims(args.op()));
  if (std::ranges::all_of(sizes, [](std::int64_t size) { return size > 0; })) return;
  fail(Fix{"give an input with at least one place along each dim"},
       "{}: the input [{}] has no places", args.op().name(), text_of_list(shape, ", "));
}

OutputMetas meta_upsample(const MetaArgs& args) {
  const TensorMeta& self = *args.tensor(0);
  require_dims(args, self, spatial_dims(args.op()) + 2);
  require_sizes(args, args[1].ints());
  require_samples(args, self.shape);
  return {{resized(self, args[1].ints())}};
}

/// upsample.._backward(grad_output, output_size, input_size, ..)
OutputMetas meta_upsample_backward(const MetaArgs& args) {
  const TensorMeta& gradient = *args.tensor(0);
  require_dims(args, gradient, spatial_dims(args.op()) + 2);
  const Dims& whole = args[2].ints();
  if (whole.size() != gradient.shape.size()) {
    fail(Fix{"give the sizes of all dims of the input"},
         "{}: input_size has {} sizes; it must have one for each of {} dims", args.op().name(),
         whole.size(), gradient.shape.size());
  }
  require_sizes(args, args[1].ints());
  require_samples(args, whole);
  Dims result(whole.begin(), whole.begin() + 2);  // samples and channels are the input's
  for (const std::int64_t size : args[1].ints()) result.push_back(size);
  require_gradient(args, gradient, result);
  return {{resized(gradient, Dims(whole.begin() + 2, whole.end()))}};
}

// Rules

std::vector<RuleRow> upsample_rule(const RuleContext& context) {
  std::vector<RuleRow> rows{uniform_row(any(0), 1, 1), uniform_row(any(1), 1, 1)};
  append_passing(rows, "sa", 1, 1);
  return context.tensors[0]->ndim() < 2 ? std::vector<RuleRow>{} : rows;
}

// Gradients

/// upsample..(self, output_size, ..): the way back takes self's sizes behind output_size.
template <FixedText backward>
Gradients grad_upsample(const GradContext& context) {
  Arguments args = context.inputs;
  args[0] = context.grads[0];
  args.insert(args.begin() + 2, Argument(input(context, 0).shape()));
  return {context.calls.one(backward, std::move(args))};
}

/// Backward is linear: its gradient is the forward op.
template <FixedText forward>
Gradients grad_upsample_backward(const GradContext& context) {
  Arguments args = context.inputs;
  args[0] = context.grads[0];
  args.erase(args.begin() + 2);
  return {context.calls.one(forward, std::move(args))};
}

/// The number `index` of a list of numbers.
double factor_at(const Argument& list, std::size_t index) {
  if (list.is_ints()) return static_cast<double>(list.ints()[index]);
  return list.list()[index].to_double();
}

/// upsample...vec(input, output_size, [align_corners,] scale_factors): to sizes, or by factors.
template <FixedText op>
Results upsample_to(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  const Argument &sizes = args[1], &factors = args.back();
  const std::size_t count = spatial_dims(calls.find(op).op);
  const std::size_t given =
      sizes.is_none() && !factors.is_none()
          ? (factors.is_ints() ? factors.ints().size() : factors.list().size())
          : ints_of(sizes).size();
  if (sizes.is_none() == factors.is_none() || given != count || x.ndim() != count + 2) {
    fail(Fix{fmt::format("give {} sizes or {} factors, and a tensor of {} dims", count, count,
                         count + 2)},
         "{}: there are {} {} for a tensor of {} dims", op, given,
         sizes.is_none() ? "factors" : "sizes", x.ndim());
  }
  Arguments call{x, sizes};
  if (sizes.is_none()) {
    Dims scaled;
    for (std::size_t d = 0; d < count; ++d) {
      const double size = static_cast<double>(x.shape()[d + 2]) * factor_at(factors, d);
      if (!(size >= 1 && size < 0x1p40)) {
        fail(Fix{"give factors that leave at least one element"},
             "{}: a factor of {} makes {} elements of {}; it must leave at least one", op,
             factor_at(factors, d), size, x.shape()[d + 2]);
      }
      scaled.push_back(static_cast<std::int64_t>(size));
    }
    call[1] = scaled;
  }
  if (args.size() > 3) call.push_back(args[2]);
  for (std::size_t d = 0; d < count; ++d) {
    call.push_back(factors.is_none() ? Argument() : Argument(factor_at(factors, d)));
  }
  return calls(op, std::move(call));
}

// A family of upsampling: forward and backward of 1, 2 or 3 dims.
struct Upsampling {
  RowText name;
  PartsFn to;
  KernelId forward;
  KernelId backward;
  Gradient gradient;
  Gradient gradient_of_backward;
};

template <FixedText stem>
constexpr Upsampling upsampling(KernelId forward, KernelId backward, SourceLine place = {}) {
  return {RowText(OpText{stem.letters}, place),
          upsample_to<stem>,
          forward,
          backward,
          {grad_upsample<stem.with("_backward")>, ""},
          {grad_upsample_backward<stem>, ""}};
}

using Id = KernelId;
constexpr Upsampling kUpsamplings[] = {
    upsampling<"upsample_bicubic2d">(Id::kUpsampleCubic, Id::kUpsampleCubicBackward),
    upsampling<"_upsample_bicubic2d_aa">(Id::kUpsampleCubicAa, Id::kUpsampleCubicAaBackward),
    upsampling<"upsample_bilinear2d">(Id::kUpsampleLinear, Id::kUpsampleLinearBackward),
    upsampling<"_upsample_bilinear2d_aa">(Id::kUpsampleLinearAa, Id::kUpsampleLinearAaBackward),
    upsampling<"_upsample_lanczos2d_aa">(Id::kUpsampleLanczosAa, Id::kUpsampleLanczosAaBackward),
    upsampling<"upsample_linear1d">(Id::kUpsampleLinear, Id::kUpsampleLinearBackward),
    upsampling<"upsample_nearest1d">(Id::kUpsampleNearest, Id::kUpsampleNearestBackward),
    upsampling<"upsample_nearest2d">(Id::kUpsampleNearest, Id::kUpsampleNearestBackward),
    upsampling<"upsample_nearest3d">(Id::kUpsampleNearest, Id::kUpsampleNearestBackward),
    upsampling<"_upsample_nearest_exact1d">(Id::kUpsampleNearestExact,
                                            Id::kUpsampleNearestExactBackward),
    upsampling<"_upsample_nearest_exact2d">(Id::kUpsampleNearestExact,
                                            Id::kUpsampleNearestExactBackward),
    upsampling<"_upsample_nearest_exact3d">(Id::kUpsampleNearestExact,
                                            Id::kUpsampleNearestExactBackward),
    upsampling<"upsample_trilinear3d">(Id::kUpsampleLinear, Id::kUpsampleLinearBackward),
};

void register_upsampling(OpRegistry& registry) {
  for (const Upsampling& family : kUpsamplings) {
    const std::string name = family.name.text, backward = name + "_backward";
    add_row(registry, {family.name, meta_upsample, upsample_rule, family.forward, family.gradient,
                       kLinearMap});
    const std::string vec = name + ".vec";
    add_row(registry, {{{vec.c_str()}, family.name.source},
                       nullptr,
                       {},
                       family.to,
                       {},
                       "by sizes or by factors"});
    constexpr int kInputSize = 2;  // the sizes of all dims
    add_row(registry, {{{backward.c_str()}, family.name.source},
                       meta_upsample_backward,
                       upsample_rule,
                       family.backward,
                       family.gradient_of_backward,
                       kLinearMap,
                       0,
                       {},
                       nullptr,
                       kInputSize});
  }
}

}  // namespace

void register_resample(OpRegistry& registry) { register_upsampling(registry); }

}  // namespace shardlab
