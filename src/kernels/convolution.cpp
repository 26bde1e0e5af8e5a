// Convolutions over 1 to 3 spatial dims, and their gradients, as matrix products. The inputs of
// every tap for every output of a sample, zeros outside, are gathered as patches [groups, channels
// and taps, outputs], which the weights multiply; the gradient of the weight is a product with
// patches, too, and that of the input adds up patches that are a product. Zeros outside are
// multiplied like others: an infinite weight makes NaN of them, as where the reference multiplies
// patches; its other kernels leave them out. Patches are a view of a frame: zeros as far as windows
// reach, with the picture in their midst.
#include <algorithm>
#include <array>
#include <utility>

#include "kernels/element_types.h"
#include "kernels/kernel_args.h"
#include "kernels/kernel_table.h"

namespace shardlab {

namespace {

// One number for each spatial dim; missing dims are first, of size 1.
using Spatial = std::array<std::int64_t, 3>;

// Output o of a spatial dim reads input o stride - padding + k dilation by tap k; everything
// outside of the input counts as zeros.
struct ConvolutionSizes {
  std::int64_t batch, groups, in_channels, out_channels;  // channels of one group
  Spatial input, kernel, output, stride, padding, dilation;
};

// Sizes of the dims that are missing are 1; a list of one number holds for all dims.
Spatial spatial_sizes(const Dims& shape) {
  Spatial sizes = {1, 1, 1};
  for (std::size_t i = 2; i < shape.size(); ++i) sizes[3 + i - shape.size()] = shape[i];
  return sizes;
}

Spatial spatial_list(const KernelCall& call, std::size_t index, std::size_t count,
                     std::int64_t absent) {
  Spatial values = {absent, absent, absent};
  const Dims& given = *optional_dims_arg(call, index);
  for (std::size_t i = 0; i < count; ++i) values[3 + i - count] = given[given.size() == 1 ? 0 : i];
  return values;
}

// Shapes are [batch, channels, ..], weight [out channels, in channels of a group, ..].
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

std::int64_t count_of(const Spatial& sizes) { return sizes[0] * sizes[1] * sizes[2]; }

// Matrices of a batch, transposed.
Tensor transposed(const Tensor& matrices) {
  TensorMeta meta = matrices.meta();
  std::swap(meta.shape[1], meta.shape[2]);
  std::swap(meta.stride[1], meta.stride[2]);
  return matrices.as_view(meta, matrices.offset());
}

// One convolution, sample by sample, so that memory stays bounded.
class Convolution {
 public:
  Convolution(Loops& loops, const KernelCall& call, const Dims& input, const Dims& weight,
              const Dims& output)
      : loops_(loops),
        sizes_(convolution_sizes(call, input, weight, output)),
        taps_(sizes_.in_channels * count_of(sizes_.kernel)),
        outputs_(count_of(sizes_.output)),
        compute_(compute_dtype(call.outputs[0].dtype())) {
    if (is_complex(compute_)) {
      fail(ErrorKind::kUnsupported, Fix{"cast input and weight first: x.float()"},
           "no kernel computes a convolution in {}", to_string(call.outputs[0].dtype()));
    }
  }

  std::int64_t samples() const { return sizes_.batch; }
  /// Contiguous, in the compute dtype.
  Tensor read(const Tensor& tensor) const { return as_contiguous(loops_, tensor, compute_); }
  /// [groups, out channels, taps] of a contiguous weight.
  Tensor weights(const Tensor& weight) const {
    return matrices(weight, 0, sizes_.out_channels, taps_);
  }
  /// [groups, out channels, outputs] of a sample of contiguous outputs.
  Tensor outputs(const Tensor& all, std::int64_t sample) const {
    return matrices(all, sample * sizes_.groups * sizes_.out_channels * outputs_,
                    sizes_.out_channels, outputs_);
  }
  /// Memory for patches of one sample.
  Tensor patches() const {
    return empty(loops_.device(), Dims{sizes_.groups, taps_, outputs_}, compute_);
  }
  void gather(const Tensor& pictures, std::int64_t sample, const Tensor& patches) const {
    if (patches.numel() == 0) return;
    Tensor framed = picture_of(pictures, sample);
    if (!needs_no_frame()) {
      const Tensor picture = std::exchange(framed, frame());
      loops_.convert(shared_part(framed, 1), shared_part(picture, -1));
    }
    const TensorMeta windows = windows_of(framed);
    loops_.convert(patches.as_view(contiguous_meta(windows.shape, compute_), 0),
                   framed.as_view(windows, framed.offset()));
  }
  /// Each element of the pictures, which are zeros, becomes the sum of the patches that read it.
  void add_up(const Tensor& pictures, std::int64_t sample, const Tensor& patches) const {
    if (patches.numel() == 0) return;
    const Tensor framed = frame();
    const TensorMeta windows = windows_of(framed);
    Tensor to = framed.as_view(windows, framed.offset());
    Tensor from = patches.as_view(contiguous_meta(windows.shape, compute_), 0);
    for (std::int64_t tap = 0; tap < count_of(sizes_.kernel); ++tap) {
      const Tensor sums = at_tap(to, tap);
      loops_.run(Element::kAdd, compute_, sums, {sums, at_tap(from, tap)});
    }
    loops_.convert(shared_part(picture_of(pictures, sample), -1), shared_part(framed, 1));
  }

 private:
  /// [channels, three spatial dims] of one sample.
  Tensor picture_of(const Tensor& pictures, std::int64_t sample) const {
    TensorMeta meta{{pictures.size(1)}, {pictures.stride()[1]}, pictures.dtype()};
    const auto missing = static_cast<std::size_t>(5 - pictures.dim());
    for (std::size_t d = 0; d < 3; ++d) {
      meta.shape.push_back(sizes_.input[d]);
      meta.stride.push_back(d < missing ? 0 : pictures.stride()[2 + d - missing]);
    }
    return pictures.as_view(std::move(meta), pictures.offset() + sample * pictures.stride()[0]);
  }
  /// Number of places of a dim that windows reach over.
  std::int64_t reach(std::size_t d) const {
    return (sizes_.output[d] - 1) * sizes_.stride[d] + (sizes_.kernel[d] - 1) * sizes_.dilation[d] +
           1;
  }
  bool needs_no_frame() const {
    const auto within = [&](std::size_t d) { return reach(d) <= sizes_.input[d]; };
    return sizes_.padding == Spatial{} && within(0) && within(1) && within(2);
  }
  /// Zeros, of which place `padding` is where the picture begins.
  Tensor frame() const {
    const Dims shape{sizes_.groups * sizes_.in_channels, reach(0), reach(1), reach(2)};
    return filled(loops_, shape, compute_, Scalar(0));
  }
  /// The part of a frame (sign 1) that is the picture's, or of a picture (-1) that is the frame's.
  Tensor shared_part(Tensor tensor, std::int64_t sign) const {
    for (std::size_t d = 0; d < 3; ++d) {
      const std::int64_t padding = sizes_.padding[d], begin = std::max<std::int64_t>(0, -padding);
      const std::int64_t end = std::max(std::min(sizes_.input[d], reach(d) - padding), begin);
      tensor = tensor.narrow(1 + d, sign > 0 ? begin + padding : begin, end - begin);
    }
    return tensor;
  }
  /// [channels, kernel, output] of a frame.
  TensorMeta windows_of(const Tensor& framed) const {
    TensorMeta meta{{framed.size(0)}, {framed.stride()[0]}, framed.dtype()};
    for (std::size_t d = 0; d < 3; ++d) {
      meta.shape.push_back(sizes_.kernel[d]);
      meta.stride.push_back(framed.stride()[1 + d] * sizes_.dilation[d]);
    }
    for (std::size_t d = 0; d < 3; ++d) {
      meta.shape.push_back(sizes_.output[d]);
      meta.stride.push_back(framed.stride()[1 + d] * sizes_.stride[d]);
    }
    return meta;
  }
  /// [channels, output] of those.
  Tensor at_tap(Tensor windows, std::int64_t tap) const {
    for (std::size_t d = 3; d > 0; tap /= sizes_.kernel[--d]) {
      windows = windows.narrow(d, tap % sizes_.kernel[d - 1], 1);
    }
    return windows;
  }
  Tensor matrices(const Tensor& all, std::int64_t first, std::int64_t rows,
                  std::int64_t columns) const {
    const Dims shape{sizes_.groups, rows, columns};
    return all.as_view(contiguous_meta(shape, all.dtype()), all.offset() + first);
  }

  Loops& loops_;
  ConvolutionSizes sizes_;
  std::int64_t taps_;     // and channels, of a group's patches
  std::int64_t outputs_;  // of a sample and channel
  DType compute_;
};

void convolution(Loops& loops, const KernelCall& call) {
  const Tensor &input = tensor_arg(call, 0), &weight = tensor_arg(call, 1);
  const Tensor& out = call.outputs[0];
  const Convolution one(loops, call, input.shape(), weight.shape(), out.shape());
  if (out.numel() == 0) return;
  const Tensor to = out.contiguous() ? out : empty(loops.device(), out.shape(), out.dtype());
  const Tensor weights = one.weights(one.read(weight)), patches = one.patches();
  for (std::int64_t sample = 0; sample < one.samples(); ++sample) {
    one.gather(input, sample, patches);
    loops.multiply(one.outputs(to, sample), weights, patches);
  }
  if (!out.contiguous()) loops.convert(out, to);
}

void input_gradient(Loops& loops, const KernelCall& call) {
  const Tensor &gradient = tensor_arg(call, 0), &weight = tensor_arg(call, 1);
  const Tensor& out = call.outputs[0];
  const Convolution one(loops, call, out.shape(), weight.shape(), gradient.shape());
  if (out.numel() == 0) return;
  const Tensor weights = transposed(one.weights(one.read(weight))), slopes = one.read(gradient);
  const Tensor patches = one.patches();
  loops.fill(out, Scalar(0));
  for (std::int64_t sample = 0; sample < one.samples(); ++sample) {
    if (patches.numel() > 0) loops.multiply(patches, weights, one.outputs(slopes, sample));
    one.add_up(out, sample, patches);
  }
}

void weight_gradient(Loops& loops, const KernelCall& call) {
  const Tensor &input = tensor_arg(call, 0), &gradient = tensor_arg(call, 1);
  const Tensor& out = call.outputs[0];
  const Convolution one(loops, call, input.shape(), out.shape(), gradient.shape());
  if (out.numel() == 0) return;
  const Tensor slopes = one.read(gradient), patches = one.patches();
  const Tensor total = filled(loops, out.shape(), compute_dtype(out.dtype()), Scalar(0));
  const Tensor part = empty(loops.device(), out.shape(), total.dtype());
  for (std::int64_t sample = 0; sample < one.samples(); ++sample) {
    one.gather(input, sample, patches);
    loops.multiply(one.weights(part), one.outputs(slopes, sample), transposed(patches));
    loops.run(Element::kAdd, total.dtype(), total, {total, part});
  }
  loops.convert(out, total);
}

}  // namespace

void add_convolution_kernels(KernelTable& table) {
  table.set(KernelId::kConvolution, convolution);
  table.set(KernelId::kConvolutionInputGrad, input_gradient);
  table.set(KernelId::kConvolutionWeightGrad, weight_gradient);
}

}  // namespace shardlab
