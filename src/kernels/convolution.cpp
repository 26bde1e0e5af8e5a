// Convolutions over 1 to 3 spatial dims, and their gradients, as products: the inputs of output
// elements become a matrix of patches, a few rows of the output at a time. Zeros outside of the
// input are multiplied like others: an infinite weight makes NaN of them, as where the reference
// multiplies patches.
#include "kernels/convolution.h"

#include <algorithm>

#include "base/fix.h"
#include "kernels/functors.h"
#include "kernels/kernel_table.h"
#include "kernels/matmul.h"
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
  return {std::min(first, g.output[dim]), std::clamp(first, last, g.output[dim]), shift};
}

std::int64_t product_of_sizes(const Spatial& sizes) { return sizes[0] * sizes[1] * sizes[2]; }

// Rows of output elements of one sample and group, as many as make patches that fit a core's cache.
struct RowsOfOutput {
  std::int64_t group;         // of all batch * groups ones
  std::int64_t first, count;  // of depth * height rows
};

// A patch is the input of one output element: a matrix has one row for each weight element of an
// output channel, one column for each element of some rows.
class Patches {
 public:
  explicit Patches(const ConvolutionSizes& sizes)
      : g_(sizes),
        taps_(sizes.in_channels * product_of_sizes(sizes.kernel)),
        rows_(sizes.output[0] * sizes.output[1]),
        together_(
            std::clamp<std::int64_t>(kElements / std::max<std::int64_t>(1, taps_ * sizes.output[2]),
                                     1, std::max<std::int64_t>(1, rows_))) {}

  std::int64_t taps() const { return taps_; }
  /// Elements of the largest matrix.
  std::int64_t size() const { return taps_ * together_ * g_.output[2]; }
  /// Of one group, input and output.
  std::int64_t input_size() const { return g_.in_channels * product_of_sizes(g_.input); }
  std::int64_t output_size() const { return g_.out_channels * product_of_sizes(g_.output); }

  /// run(RowsOfOutput) for all output elements, where there are any.
  template <typename Run>
  void for_each(const Run& run) const {
    if (taps_ == 0 || g_.out_channels == 0 || g_.output[2] == 0) return;
    for (std::int64_t group = 0; group < g_.batch * g_.groups; ++group) {
      for (std::int64_t row = 0; row < rows_; row += together_) {
        run(RowsOfOutput{group, row, std::min(together_, rows_ - row)});
      }
    }
  }

  /// The weights of the group, [out channels, taps].
  template <typename T>
  MatrixView<T> weights(T* all, const RowsOfOutput& rows) const {
    const std::int64_t group = rows.group % g_.groups;
    return {all + group * g_.out_channels * taps_, g_.out_channels, taps_, taps_, 1};
  }
  /// Those elements of the output, [out channels, elements].
  template <typename T>
  MatrixView<T> outputs(T* all, const RowsOfOutput& rows) const {
    return {all + rows.group * output_size() + rows.first * g_.output[2], g_.out_channels,
            rows.count * g_.output[2], rows_ * g_.output[2], 1};
  }
  /// Their patches, [taps, elements].
  template <typename T>
  MatrixView<T> matrix(T* patches, const RowsOfOutput& rows) const {
    return {patches, taps_, rows.count * g_.output[2], rows.count * g_.output[2], 1};
  }

  /// Fills in the patches from a group's input, zeros outside of it.
  template <typename T>
  void read(const T* input, T* patches, const RowsOfOutput& rows) const {
    walk(rows, [=, this](std::int64_t from, std::int64_t to, const Window& columns) {
      T* const line = patches + to;
      std::fill_n(line, columns.first, T(0));
      std::fill(line + columns.last, line + g_.output[2], T(0));
      const T* const source = input + from;
      const std::int64_t stride = g_.stride[2], count = columns.last - columns.first;
      if (stride == 1) {
        std::copy_n(source, count, line + columns.first);
      } else {
        for (std::int64_t i = 0; i < count; ++i) line[columns.first + i] = source[i * stride];
      }
    });
  }
  /// Adds the patches to the input elements that they were read from.
  template <typename T>
  void add(const T* patches, T* input, const RowsOfOutput& rows) const {
    walk(rows, [=, this](std::int64_t to, std::int64_t from, const Window& columns) {
      const T* const source = patches + from + columns.first;
      T* const target = input + to;
      const std::int64_t stride = g_.stride[2], count = columns.last - columns.first;
      for (std::int64_t i = 0; i < count; ++i) {
        target[i * stride] = sum_of(target[i * stride], source[i]);
      }
    });
  }

 private:
  static constexpr std::int64_t kElements = std::int64_t{1} << 16;

  // visit(place in the group's input of the first element that exists, place in the patches of the
  // row, window of elements that exist) for each tap and row.
  template <typename Visit>
  void walk(const RowsOfOutput& rows, const Visit& visit) const {
    std::int64_t line = 0;
    for (std::int64_t channel = 0; channel < g_.in_channels; ++channel) {
      for (std::int64_t i = 0; i < g_.kernel[0]; ++i) {
        for (std::int64_t j = 0; j < g_.kernel[1]; ++j) {
          for (std::int64_t k = 0; k < g_.kernel[2]; ++k, line += rows.count * g_.output[2]) {
            walk_rows({channel, i, j, k}, line, rows, visit);
          }
        }
      }
    }
  }
  struct Tap {
    std::int64_t channel, i, j, k;
  };
  template <typename Visit>
  void walk_rows(const Tap& tap, std::int64_t line, const RowsOfOutput& rows,
                 const Visit& visit) const {
    const Window depth = window(g_, 0, tap.i), height = window(g_, 1, tap.j);
    const Window width = window(g_, 2, tap.k), none{0, 0, 0};
    for (std::int64_t r = 0; r < rows.count; ++r, line += g_.output[2]) {
      const std::int64_t z = (rows.first + r) / g_.output[1], y = (rows.first + r) % g_.output[1];
      if (z < depth.first || z >= depth.last || y < height.first || y >= height.last ||
          width.first == width.last) {
        visit(std::int64_t{0}, line, none);
        continue;
      }
      const std::int64_t in_depth = tap.channel * g_.input[0] + z * g_.stride[0] + depth.shift;
      const std::int64_t in_row = in_depth * g_.input[1] + y * g_.stride[1] + height.shift;
      visit(in_row * g_.input[2] + width.first * g_.stride[2] + width.shift, line, width);
    }
  }

  const ConvolutionSizes& g_;
  std::int64_t taps_, rows_, together_;
};

template <typename T>
MatrixView<const T> for_reading(const MatrixView<T>& m) {
  return {m.data, m.rows, m.columns, m.row_stride, m.column_stride};
}

template <typename T>
void forward(const KernelCall& call) {
  const Tensor &input = tensor_arg(call, 0), &weight = tensor_arg(call, 1);
  const Tensor& output = call.outputs[0];
  const ConvolutionSizes g = convolution_sizes(call, input.shape(), weight.shape(), output.shape());
  const RowMajorOutput<T> y(output);
  const RowMajor<T> x(input), w(weight);
  const Patches patches(g);
  const auto memory = scratch<T>(patches.size());
  std::fill_n(y.data(), output.numel(), T(0));
  patches.for_each([&](const RowsOfOutput& rows) {
    patches.read(x.data() + rows.group * patches.input_size(), memory.get(), rows);
    multiply(patches.outputs(y.data(), rows), patches.weights(w.data(), rows),
             for_reading(patches.matrix(memory.get(), rows)));
  });
  y.store();
}

template <typename T>
void input_gradient(const KernelCall& call) {
  const Tensor &gradient = tensor_arg(call, 0), &weight = tensor_arg(call, 1);
  const Tensor& output = call.outputs[0];
  const ConvolutionSizes g =
      convolution_sizes(call, output.shape(), weight.shape(), gradient.shape());
  const RowMajorOutput<T> dx(output);
  const RowMajor<T> dy(gradient), w(weight);
  const Patches patches(g);
  const auto memory = scratch<T>(patches.size());
  std::fill_n(dx.data(), output.numel(), T(0));
  patches.for_each([&](const RowsOfOutput& rows) {
    multiply(patches.matrix(memory.get(), rows), turned(patches.weights(w.data(), rows)),
             patches.outputs(dy.data(), rows));
    patches.add(memory.get(), dx.data() + rows.group * patches.input_size(), rows);
  });
  dx.store();
}

template <typename T>
void weight_gradient(const KernelCall& call) {
  const Tensor &input = tensor_arg(call, 0), &gradient = tensor_arg(call, 1);
  const Tensor& output = call.outputs[0];
  const ConvolutionSizes g =
      convolution_sizes(call, input.shape(), output.shape(), gradient.shape());
  const RowMajorOutput<T> dw(output);
  const RowMajor<T> x(input), dy(gradient);
  const Patches patches(g);
  const std::int64_t size = g.out_channels * patches.taps();
  const auto memory = scratch<T>(patches.size()), part = scratch<T>(size);
  std::fill_n(dw.data(), output.numel(), T(0));
  patches.for_each([&](const RowsOfOutput& rows) {
    patches.read(x.data() + rows.group * patches.input_size(), memory.get(), rows);
    multiply({part.get(), g.out_channels, patches.taps(), patches.taps(), 1},
             patches.outputs(dy.data(), rows),
             turned(for_reading(patches.matrix(memory.get(), rows))));
    T* const sums = patches.weights(dw.data(), rows).data;
    for (std::int64_t i = 0; i < size; ++i) sums[i] = sum_of(sums[i], part[i]);
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
