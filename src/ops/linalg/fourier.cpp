// Fourier transforms: three of them compute (complex to complex, real to complex and back), all
// others are programs over these. Dims that are not transformed may be cut; transforms are linear,
// so that pending sums pass.
#include <algorithm>

#include "ops/family.h"

namespace shardlab {
namespace {

using namespace grad;

// The three that compute

/// The transformed dims, none of which may be listed twice, and each has at least one place.
Dims transformed_dims(const MetaArgs& args) {
  const TensorMeta& self = *args.tensor(0);
  const Dims dims = wrap_dims(ints_of(args[1]), self.shape.size());
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (std::find(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(i), dims[i]) !=
        dims.begin() + static_cast<std::ptrdiff_t>(i)) {
      fail(Fix{"name each dim once"}, "{}: dim {} is transformed twice", args.op().name(), dims[i]);
    }
    if (self.shape[index_of(dims[i])] < 1) {
      fail(Fix{"give at least one place along the transformed dims"},
           "{}: the input [{}] has no place along dim {}", args.op().name(),
           text_of_list(self.shape, ", "), dims[i]);
    }
  }
  return dims;
}

Dims some_dims(const MetaArgs& args) {
  Dims dims = transformed_dims(args);
  if (!dims.empty()) return dims;
  fail(Fix{"name at least one dim"}, "{}: no dim to transform", args.op().name());
}

/// Fails with Value where the kind of number is another one than `wanted`.
DType require_kind(const MetaArgs& args, bool complex, std::string_view wanted) {
  const DType dtype = require_float(args.op().name(), args.tensor(0)->dtype);
  const bool wide = item_bytes(real_dtype(dtype)) >= 4;
  if (is_complex(dtype) == complex && wide) return dtype;
  fail(Fix{fmt::format("cast it first, to {}", wanted)}, "{} takes {}, not {}", args.op().name(),
       wanted, to_string(dtype));
}

/// The reference's library writes dims in the order of the input's strides, but the
/// transformed ones are innermost. `last`: as many of these stay in the order in which they were
/// named.
TensorMeta transformed(const TensorMeta& self, Dims shape, const Dims& dims, std::size_t last,
                       DType dtype) {
  TensorMeta meta = contiguous_meta(std::move(shape), dtype);
  if (product(meta.shape) == 0) return meta;
  const auto longer = [&](std::int64_t a, std::int64_t b) {
    return self.stride[index_of(a)] > self.stride[index_of(b)];
  };
  Dims order;
  for (std::size_t d = 0; d < self.shape.size(); ++d) {
    const auto dim = static_cast<std::int64_t>(d);
    if (std::ranges::find(dims, dim) == dims.end()) order.push_back(dim);
  }
  std::stable_sort(order.begin(), order.end(), longer);
  Dims inner = dims;
  std::stable_sort(inner.begin(), inner.end() - static_cast<std::ptrdiff_t>(last), longer);
  for (const std::int64_t dim : inner) order.push_back(dim);
  std::int64_t stride = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    meta.stride[index_of(order[i])] = stride;
    stride *= meta.shape[index_of(order[i])];
  }
  return meta;
}

/// _fft_c2c(self, dim, normalization, forward)
OutputMetas meta_c2c(const MetaArgs& args) {
  const TensorMeta& self = *args.tensor(0);
  const DType dtype = require_kind(args, true, "complex64 or complex128");
  const Dims dims = transformed_dims(args);
  if (dims.empty()) return meta_like(args);
  return {{transformed(self, self.shape, dims, 0, dtype)}};
}

/// _fft_r2c(self, dim, normalization, onesided)
OutputMetas meta_r2c(const MetaArgs& args) {
  const TensorMeta& self = *args.tensor(0);
  const DType dtype = complex_dtype(require_kind(args, false, "float32 or float64"));
  const Dims dims = some_dims(args);
  Dims shape = self.shape;
  std::int64_t& size = shape[index_of(dims.back())];
  if (args[3].to_bool()) size = size / 2 + 1;
  return {{transformed(self, shape, dims, 1, dtype)}};
}

/// _fft_c2r(self, dim, normalization, last_dim_size): the last dim holds one half of it.
OutputMetas meta_c2r(const MetaArgs& args) {
  const TensorMeta& self = *args.tensor(0);
  const DType dtype = real_dtype(require_kind(args, true, "complex64 or complex128"));
  const Dims dims = some_dims(args);
  Dims shape = self.shape;
  std::int64_t& size = shape[index_of(dims.back())];
  const std::int64_t whole = args[3].to_int();
  if (whole < 1 || size < whole / 2 + 1) {
    fail(Fix{fmt::format("give a size from 1 to {}", 2 * size - 1)},
         "{}: the last dim has size {}, last_dim_size is {}; it must be from 1 to twice the size "
         "less 1",
         args.op().name(), size, whole);
  }
  size = whole;
  const Dims others(dims.begin(), dims.end() - 1);
  const TensorMeta first =
      others.empty() ? self : transformed(self, self.shape, others, 0, self.dtype);
  return {{transformed(first, shape, Dims{dims.back()}, 1, dtype)}};
}

/// All dims but the transformed ones. The reference lets extrema pass as well, which withheld()
/// keeps from being taken.
std::vector<RuleRow> transform_rule(const RuleContext& context) {
  const Dims dims = wrap_dims(ints_of(context.schema.args[1]), context.tensors[0]->ndim());
  std::vector<RuleRow> rows;
  for (std::int64_t dim = 0; dim < ndim_of(context); ++dim) {
    if (std::ranges::find(dims, dim) == dims.end()) rows.push_back(uniform_row(any(dim), 1, 1));
  }
  append_passing(rows, "saxn", 1, 1);
  return rows;
}

DTensor cut_off(Calls& calls, const DTensor& x, std::int64_t dim, std::int64_t from,
                std::int64_t to) {
  return calls.one("aten::slice.Tensor", {x, dim, from, to});
}

/// With zeros behind the last place of a dim.
DTensor lengthened(Calls& calls, const DTensor& x, std::int64_t dim, std::int64_t added) {
  if (added == 0) return x;
  Dims pad(2 * (x.ndim() - index_of(dim)), 0);
  pad.back() = added;
  return calls.one("aten::constant_pad_nd", {x, pad});
}

std::int64_t last_transformed(const GradContext& context) {
  return wrap_dim(context.inputs[1].ints().back(), input(context, 0).ndim());
}

Gradients grad_c2c(const GradContext& context) {
  return {context.calls.one("aten::_fft_c2c", {context.grads[0], context.inputs[1],
                                               context.inputs[2], !context.inputs[3].to_bool()})};
}

/// The half that was left out has no gradient, the imaginary part of the input neither.
Gradients grad_r2c(const GradContext& context) {
  Calls& calls = context.calls;
  const std::int64_t dim = last_transformed(context);
  const std::int64_t size = input(context, 0).shape()[index_of(dim)];
  const DTensor& g = context.grads[0];
  const DTensor whole = lengthened(calls, g, dim, size - g.shape()[index_of(dim)]);
  const DTensor back =
      calls.one("aten::_fft_c2c", {whole, context.inputs[1], context.inputs[2], false});
  return {calls.one("aten::real", {back})};
}

/// Elements for two places, all but the first and that in the middle, count twice.
Gradients grad_c2r(const GradContext& context) {
  Calls& calls = context.calls;
  const std::int64_t dim = last_transformed(context);
  const DTensor half =
      calls.one("aten::_fft_r2c", {context.grads[0], context.inputs[1], context.inputs[2], true});
  const std::int64_t size = half.shape()[index_of(dim)];
  const std::int64_t twice = context.grads[0].shape()[index_of(dim)] - size;
  const std::int64_t given = input(context, 0).shape()[index_of(dim)];
  if (twice <= 0) return {lengthened(calls, half, dim, given - size)};
  ArgumentList parts{cut_off(calls, half, dim, 0, 1),
                     times(calls, cut_off(calls, half, dim, 1, 1 + twice), Scalar(2)),
                     cut_off(calls, half, dim, 1 + twice, size)};
  const DTensor joined = calls.one("aten::cat", {parts, dim});
  return {lengthened(calls, joined, dim, given - size)};
}

// Programs

enum class Way : std::uint8_t { kForward, kInverse };

/// The scaling by `norm`, as the kernels number it.
std::int64_t normalization(const Argument& norm, Way way) {
  if (norm.is_none() || norm.string() == "backward") return way == Way::kForward ? 0 : 2;
  if (norm.string() == "forward") return way == Way::kForward ? 2 : 0;
  if (norm.string() == "ortho") return 1;
  fail(Fix{"write norm='backward', 'forward' or 'ortho'"},
       "norm is '{}'; it must be 'backward', 'forward' or 'ortho'", norm.string());
}

/// Integers and halves are transformed in f32.
DTensor as_real(Calls& calls, const DTensor& x) {
  if (is_complex(x.dtype())) {
    fail(Fix{"take its real part first, or call the op without r"},
         "a transform of real numbers takes no {}", to_string(x.dtype()));
  }
  const bool ready = x.dtype() == DType::kF32 || x.dtype() == DType::kF64;
  return ready ? x : calls.one("aten::_to_copy", {x, DType::kF32});
}
DTensor as_complex(Calls& calls, const DTensor& x) {
  if (is_complex(x.dtype())) return x;
  const DTensor real = as_real(calls, x);
  return calls.one("aten::_to_copy", {real, complex_dtype(real.dtype())});
}

/// Cut off or lengthened with zeros.
DTensor resized(Calls& calls, DTensor x, const Dims& dims, const Dims& sizes) {
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const std::int64_t now = x.shape()[index_of(dims[i])];
    if (sizes[i] < now) x = cut_off(calls, x, dims[i], 0, sizes[i]);
    x = lengthened(calls, x, dims[i], std::max<std::int64_t>(sizes[i] - now, 0));
  }
  return x;
}

/// The transformed dims, and the number of places that they are brought to.
struct Extent {
  Dims dims, sizes;
};

void check_sizes(const Extent& extent) {
  for (const std::int64_t size : extent.sizes) {
    if (size >= 1) continue;
    fail(Fix{"give a size of at least 1"}, "the size of a transform is {}; it must be at least 1",
         size);
  }
}

/// Reads (n, dim): one dim.
Extent one_dim(const DTensor& x, const Argument& n, const Argument& dim) {
  const std::int64_t at = wrap_dim(dim.to_int(), x.ndim());
  if (x.ndim() == 0) {
    fail(Fix{"give a tensor with at least one dim"}, "a number alone has no dim to transform");
  }
  return {{at}, {int_or(n, x.shape()[index_of(at)])}};
}

/// Reads (s, dim): several, all if none is named, the last ones if only sizes are given.
Extent some_dims(const DTensor& x, const Argument& s, const Argument& dim) {
  Extent extent;
  const std::size_t ndim = x.ndim();
  if (!dim.is_none()) {
    extent.dims = wrap_dims(ints_of(dim), ndim);
  } else {
    const std::size_t count = s.is_none() ? ndim : ints_of(s).size();
    for (std::size_t d = ndim - std::min(count, ndim); d < ndim; ++d) {
      extent.dims.push_back(static_cast<std::int64_t>(d));
    }
  }
  const Dims sizes = s.is_none() ? Dims(extent.dims.size(), -1) : ints_of(s);
  if (sizes.size() != extent.dims.size()) {
    fail(Fix{"give one size for each transformed dim"},
         "there are {} sizes for {} transformed dims; there must be one per dim", sizes.size(),
         extent.dims.size());
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    extent.sizes.push_back(sizes[i] == -1 ? x.shape()[index_of(extent.dims[i])] : sizes[i]);
  }
  return extent;
}

Results alone(DTensor x) { return {Argument(std::move(x))}; }

DTensor c2c(Calls& calls, const DTensor& x, const Dims& dims, const Argument& norm, Way way) {
  if (dims.empty()) return x;
  return calls.one("aten::_fft_c2c", {x, dims, normalization(norm, way), way == Way::kForward});
}

/// Complex numbers both ways; real ones as complex ones of which nothing is left out.
DTensor plain_transform(Calls& calls, const DTensor& x, const Extent& extent, const Argument& norm,
                        Way way) {
  check_sizes(extent);
  return c2c(calls, resized(calls, as_complex(calls, x), extent.dims, extent.sizes), extent.dims,
             norm, way);
}

/// Real to the half that is not a conjugate of the other; inverse: its conjugates.
DTensor from_real(Calls& calls, const DTensor& x, const Extent& extent, const Argument& norm,
                  Way way) {
  check_sizes(extent);
  if (extent.dims.empty()) {
    fail(Fix{"name at least one dim"}, "a transform of real numbers needs at least one dim");
  }
  const DTensor ready = resized(calls, as_real(calls, x), extent.dims, extent.sizes);
  if (way == Way::kForward) {
    return calls.one("aten::_fft_r2c",
                     {ready, extent.dims, normalization(norm, Way::kForward), true});
  }
  const Dims others(extent.dims.begin(), extent.dims.end() - 1), last{extent.dims.back()};
  const DTensor half = calls.one("aten::_fft_r2c", {ready, last, normalization(norm, way), true});
  return c2c(calls, conjugated(calls, half), others, norm, way);
}

/// From one half to real numbers, the sizes being those of the result; forward: of conjugates.
DTensor to_real(Calls& calls, const DTensor& x, Extent extent, const Argument& norm, Way way) {
  check_sizes(extent);
  if (extent.dims.empty()) {
    fail(Fix{"name at least one dim"}, "a transform to real numbers needs at least one dim");
  }
  const std::int64_t whole = extent.sizes.back();
  extent.sizes.back() = whole / 2 + 1;
  const DTensor ready = resized(calls, as_complex(calls, x), extent.dims, extent.sizes);
  if (way == Way::kInverse) {
    return calls.one("aten::_fft_c2r", {ready, extent.dims, normalization(norm, way), whole});
  }
  const Dims others(extent.dims.begin(), extent.dims.end() - 1), last{extent.dims.back()};
  const DTensor turned = conjugated(calls, c2c(calls, ready, others, norm, way));
  return calls.one("aten::_fft_c2r", {turned, last, normalization(norm, way), whole});
}

/// Without a size the last dim of the result has twice the places of the half but two.
Extent of_halves(const DTensor& x, Extent extent, bool given) {
  if (!given && !extent.dims.empty()) {
    extent.sizes.back() = 2 * (x.shape()[index_of(extent.dims.back())] - 1);
  }
  return extent;
}

using Transform = DTensor (*)(Calls&, const DTensor&, const Extent&, const Argument&, Way);

/// fft_..(self, n, dim, norm), with `many` fft_..(self, s, dim, norm)
template <Transform run, Way way, bool many>
Results transform(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  return alone(run(calls, x, many ? some_dims(x, args[1], args[2]) : one_dim(x, args[1], args[2]),
                   args[3], way));
}

template <Way way, bool many>
Results transform_to_real(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  const bool given = !args[1].is_none() && (!many || ints_of(args[1]).back() != -1);
  const Extent extent = many ? some_dims(x, args[1], args[2]) : one_dim(x, args[1], args[2]);
  return alone(to_real(calls, x, of_halves(x, extent, given), args[3], way));
}

/// fft_fftshift(self, dim): the place in the middle is moved to the front, or back.
template <bool back>
Results shifted(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  const Extent extent = some_dims(x, Argument(), args[1]);
  Dims shifts;
  for (const std::int64_t size : extent.sizes) shifts.push_back((size + (back ? 1 : 0)) / 2);
  return alone(extent.dims.empty() ? x : calls.one("aten::roll", {x, shifts, extent.dims}));
}

constexpr const char* kLinearAlong = "linear, and other dims go by themselves";
constexpr const char* kOver = "_fft_c2c, _fft_r2c or _fft_c2r";
constexpr Way kForward = Way::kForward, kInverse = Way::kInverse;

/// A program, in one dim and in several.
struct Program {
  RowText name;
  PartsFn parts;
};
constexpr Program kPrograms[] = {
    {"fft_fft"_op, transform<plain_transform, kForward, false>},
    {"fft_fft2"_op, transform<plain_transform, kForward, true>},
    {"fft_fftn"_op, transform<plain_transform, kForward, true>},
    {"fft_fftshift"_op, shifted<false>},
    {"fft_hfft"_op, transform_to_real<kForward, false>},
    {"fft_hfft2"_op, transform_to_real<kForward, true>},
    {"fft_hfftn"_op, transform_to_real<kForward, true>},
    {"fft_ifft"_op, transform<plain_transform, kInverse, false>},
    {"fft_ifft2"_op, transform<plain_transform, kInverse, true>},
    {"fft_ifftn"_op, transform<plain_transform, kInverse, true>},
    {"fft_ifftshift"_op, shifted<true>},
    {"fft_ihfft"_op, transform<from_real, kInverse, false>},
    {"fft_ihfft2"_op, transform<from_real, kInverse, true>},
    {"fft_ihfftn"_op, transform<from_real, kInverse, true>},
    {"fft_irfft"_op, transform_to_real<kInverse, false>},
    {"fft_irfft2"_op, transform_to_real<kInverse, true>},
    {"fft_irfftn"_op, transform_to_real<kInverse, true>},
    {"fft_rfft"_op, transform<from_real, kForward, false>},
    {"fft_rfft2"_op, transform<from_real, kForward, true>},
    {"fft_rfftn"_op, transform<from_real, kForward, true>},
};

// clang-format off
constexpr Row kTransformRows[] = {
    {"_fft_c2c"_op, meta_c2c, transform_rule, KernelId::kFftC2c, {grad_c2c, ""}, kLinearAlong, 0,
     {1}},
    {"_fft_c2r"_op, meta_c2r, transform_rule, KernelId::kFftC2r, {grad_c2r, ""}, kLinearAlong, 0,
     {1}},
    {"_fft_r2c"_op, meta_r2c, transform_rule, KernelId::kFftR2c, {grad_r2c, ""}, kLinearAlong, 0,
     {1}},
};
// clang-format on

}  // namespace

void register_fourier(OpRegistry& registry) {
  add_rows(registry, kTransformRows);
  for (const Program& program : kPrograms) {
    add_row(registry, {program.name, nullptr, {}, program.parts, {}, kOver});
  }
}

}  // namespace shardlab
