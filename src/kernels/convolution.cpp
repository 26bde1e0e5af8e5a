// Convolutions over 1 to 3 spatial dims, and their gradients. One walk over taps serves all three:
// a tap pairs one weight element with a run of output elements and the input elements they read.
#include "kernels/convolution.h"

#include <algorithm>

#include "base/fix.h"
#include "kernels/kernel_table.h"
#include "kernels/scratch.h"

namespace shardlab {

namespace {

Spatial spatial_sizes(const Dims& shape) {
  Spatial sizes = {1, 1, 1};
  for (std::size_t i = 2; i < shape.size(); ++i) sizes[3 + i - shape.size()] = shape[i];
  return sizes;
}

Spatial spatial_list(const KernelCall& call, std::size_t index, std::size_t count,
                     std::int64_t absent) {
  Spatial values = {absent, absent, absent};
  const Dims& given = *optional_dims_arg(call, index);
  for (std::size_t i = 0; i < count; ++i) {
    values[3 + i - count] = given[given.size() == 1 ? 0 : i];
  }
  return values;
}

}  // namespace

ConvolutionSizes convolution_sizes(const KernelCall& call, const Dims& input, const Dims& weight,
                                   const Dims& output) {
  const std::size_t count = input.size() - 2;
  ConvolutionSizes g{};
  g.batch = input[0];
  g.groups = int_arg(call, 5);
  g.in_channels = weight[1];
  g.out_channels = weight[0] / g.groups;
  g.input = spatial_sizes(input);
  g.kernel = spatial_sizes(weight);
  g.output = spatial_sizes(output);
  g.stride = spatial_list(call, 2, count, 1);
  g.padding = spatial_list(call, 3, count, 0);
  g.dilation = spatial_list(call, 4, count, 1);
  return g;
}

namespace {

// Output positions [first, last) of one dim whose input position for tap `k` exists.
struct Window {
  std::int64_t first, last, shift;  // input = output * stride + shift
};
Window window(const ConvolutionSizes& g, std::size_t dim, std::int64_t k) {
  const std::int64_t stride = g.stride[dim], shift = k * g.dilation[dim] - g.padding[dim];
  const std::int64_t first = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
  const std::int64_t room = g.input[dim] - 1 - shift;
  const std::int64_t last = room < 0 ? 0 : std::min(g.output[dim], room / stride + 1);
  return {first, std::max(first, last), shift};
}

// Calls visit(input offset, weight offset, output offset, count): `count` output elements in a row
// and the input elements stride[2] apart.
template <typename Visit>
void for_each_run(const ConvolutionSizes& g, std::int64_t in_plane, std::int64_t tap,
                  std::int64_t out_plane, const Visit& visit) {
  for (std::int64_t i = 0; i < g.kernel[0]; ++i) {
    const Window depth = window(g, 0, i);
    for (std::int64_t j = 0; j < g.kernel[1]; ++j) {
      const Window rows = window(g, 1, j);
      for (std::int64_t k = 0; k < g.kernel[2]; ++k, ++tap) {
        const Window columns = window(g, 2, k);
        if (columns.first == columns.last) continue;
        for (std::int64_t z = depth.first; z < depth.last; ++z) {
          for (std::int64_t y = rows.first; y < rows.last; ++y) {
            const std::int64_t in_row =
                (in_plane * g.input[0] + z * g.stride[0] + depth.shift) * g.input[1] +
                y * g.stride[1] + rows.shift;
            const std::int64_t out_row = (out_plane * g.output[0] + z) * g.output[1] + y;
            visit(in_row * g.input[2] + columns.first * g.stride[2] + columns.shift, tap,
                  out_row * g.output[2] + columns.first, columns.last - columns.first);
          }
        }
      }
    }
  }
}

template <typename Visit>
void for_each_tap(const ConvolutionSizes& g, const Visit& visit) {
  const std::int64_t taps = g.kernel[0] * g.kernel[1] * g.kernel[2];
  const std::int64_t all_out = g.groups * g.out_channels;
  for (std::int64_t n = 0; n < g.batch; ++n) {
    for (std::int64_t out = 0; out < all_out; ++out) {
      const std::int64_t first_in = out / g.out_channels * g.in_channels;
      for (std::int64_t in = 0; in < g.in_channels; ++in) {
        for_each_run(g, n * g.groups * g.in_channels + first_in + in,
                     (out * g.in_channels + in) * taps, n * all_out + out, visit);
      }
    }
  }
}

template <typename T>
void forward(const KernelCall& call) {
  const Tensor &input = tensor_arg(call, 0), &weight = tensor_arg(call, 1);
  const Tensor& output = call.outputs[0];
  const ConvolutionSizes g = convolution_sizes(call, input.shape(), weight.shape(), output.shape());
  const RowMajor<T> x(input), w(weight);
  const RowMajorOutput<T> y(output);
  std::fill_n(y.data(), output.numel(), T(0));
  for_each_tap(g, [&](std::int64_t from, std::int64_t tap, std::int64_t to, std::int64_t count) {
    const T factor = w.data()[tap];
    const T* source = x.data() + from;
    T* target = y.data() + to;
    for (std::int64_t i = 0; i < count; ++i) target[i] += factor * source[i * g.stride[2]];
  });
  y.store();
}

template <typename T>
void input_gradient(const KernelCall& call) {
  const Tensor &gradient = tensor_arg(call, 0), &weight = tensor_arg(call, 1);
  const Tensor& output = call.outputs[0];
  const ConvolutionSizes g =
      convolution_sizes(call, output.shape(), weight.shape(), gradient.shape());
  const RowMajor<T> dy(gradient), w(weight);
  const RowMajorOutput<T> dx(output);
  std::fill_n(dx.data(), output.numel(), T(0));
  for_each_tap(g, [&](std::int64_t to, std::int64_t tap, std::int64_t from, std::int64_t count) {
    const T factor = w.data()[tap];
    const T* source = dy.data() + from;
    T* target = dx.data() + to;
    for (std::int64_t i = 0; i < count; ++i) target[i * g.stride[2]] += factor * source[i];
  });
  dx.store();
}

template <typename T>
void weight_gradient(const KernelCall& call) {
  const Tensor &input = tensor_arg(call, 0), &gradient = tensor_arg(call, 1);
  const Tensor& output = call.outputs[0];
  const ConvolutionSizes g =
      convolution_sizes(call, input.shape(), output.shape(), gradient.shape());
  const RowMajor<T> x(input), dy(gradient);
  const RowMajorOutput<T> dw(output);
  std::fill_n(dw.data(), output.numel(), T(0));
  for_each_tap(g, [&](std::int64_t left, std::int64_t tap, std::int64_t right, std::int64_t count) {
    T sum(0);
    for (std::int64_t i = 0; i < count; ++i) {
      sum += x.data()[left + i * g.stride[2]] * dy.data()[right + i];
    }
    dw.data()[tap] += sum;
  });
  dw.store();
}

// Integers convolve in i64; halves in f32, rounded once.
template <template <typename> typename Run>
void in_compute_type(const KernelCall& call) {
  switch (compute_dtype(call.outputs[0].dtype())) {
    case DType::kF32:
      return Run<float>::run(call);
    case DType::kF64:
      return Run<double>::run(call);
    case DType::kI64:
      return Run<std::int64_t>::run(call);
    default:
      fail(ErrorKind::kUnsupported, Fix{"cast input and weight first: x.float()"},
           "no kernel computes a convolution in {}", to_string(call.outputs[0].dtype()));
  }
}

template <typename T>
struct Forward {
  static void run(const KernelCall& call) { forward<T>(call); }
};
template <typename T>
struct InputGradient {
  static void run(const KernelCall& call) { input_gradient<T>(call); }
};
template <typename T>
struct WeightGradient {
  static void run(const KernelCall& call) { weight_gradient<T>(call); }
};

}  // namespace

void add_convolution_kernels(KernelTable& table) {
  table.set(KernelId::kConvolution, in_compute_type<Forward>);
  table.set(KernelId::kConvolutionInputGrad, in_compute_type<InputGradient>);
  table.set(KernelId::kConvolutionWeightGrad, in_compute_type<WeightGradient>);
}

}  // namespace shardlab
