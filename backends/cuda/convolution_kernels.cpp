// Convolutions as matrix products. The inputs of every tap for every output, zeros outside, are
// gathered as patches [groups, channels and taps, samples and outputs], which the weights multiply;
// the gradient of the weight is a product with patches, too, and that of the input adds up patches
// that are a product. Patches are made for some samples at a time, so that memory stays bounded.
// Zeros outside are multiplied like others, as on the CPU: an infinite weight makes NaN of them, as
// where the reference multiplies patches; its other kernels leave them out.
#include <algorithm>

#include "backends/cuda/kernels.h"
#include "backends/cuda/pieces.h"
#include "kernels/convolution.h"

namespace shardlab::cuda {

std::int64_t samples_at_once(std::int64_t samples, std::int64_t elements) {
  constexpr std::int64_t kMost = std::int64_t{1} << 22;  // elements: 16 MiB of f32
  return std::clamp<std::int64_t>(kMost / std::max<std::int64_t>(elements, 1), 1, samples);
}

namespace {

std::int64_t count_of(const Spatial& sizes) { return sizes[0] * sizes[1] * sizes[2]; }

// Dim a and the next one change places.
Tensor swapped(const Tensor& x, std::size_t a) {
  TensorMeta meta = x.meta();
  std::swap(meta.shape[a], meta.shape[a + 1]);
  std::swap(meta.stride[a], meta.stride[a + 1]);
  return x.as_view(meta, x.offset());
}

Tensor channels_in_front(const Tensor& pictures) { return swapped(pictures, 0); }
// Of a batch.
Tensor turned(const Tensor& matrices) { return swapped(matrices, 1); }

class Convolution {
 public:
  /// Of these shapes. `dtype`: of the result, in which products read their matrices, unless
  /// integers.
  Convolution(Ops& ops, const KernelCall& call, const Dims& input, const Dims& weight,
              const Dims& output)
      : ops_(ops),
        sizes_(convolution_sizes(call, input, weight, output)),
        rows_(sizes_.in_channels * count_of(sizes_.kernel)),
        outputs_(count_of(sizes_.output)),
        dtype_(call.outputs[0].dtype()),
        compute_(compute_dtype_here(dtype_)),
        read_(compute_ == DType::kI64 ? DType::kI64 : dtype_) {}

  /// visit(first, count) for as many samples as are taken at once.
  template <typename Visit>
  void for_each_part(const Visit& visit) const {
    const std::int64_t step = samples_at_once(sizes_.batch, sizes_.groups * rows_ * outputs_);
    for (std::int64_t first = 0; first < sizes_.batch; first += step) {
      visit(first, std::min(step, sizes_.batch - first));
    }
  }

  /// [groups, out channels, in channels and taps].
  Tensor weights(const Tensor& weight) const {
    const Tensor lined = as_contiguous(ops_, weight, read_);
    const Dims shape{sizes_.groups, sizes_.out_channels, rows_};
    const Dims stride{sizes_.out_channels * rows_, rows_, 1};
    return lined.as_view({shape, stride, read_}, lined.offset());
  }
  /// [groups, out channels, samples and outputs] of pictures of the output's size.
  Tensor by_channel(const Tensor& pictures) const {
    const Tensor lined = as_contiguous(ops_, channels_in_front(pictures), read_);
    const Dims shape{sizes_.groups, sizes_.out_channels, pictures.size(0) * outputs_};
    return lined.as_view(contiguous_meta(shape, read_), lined.offset());
  }
  /// The same back into pictures.
  void put_by_channel(const Tensor& pictures, const Tensor& values) const {
    const Tensor to = channels_in_front(pictures);
    convert(ops_, to, values.as_view(contiguous_meta(to.shape(), values.dtype()), 0));
  }
  /// [groups, in channels and taps, samples and outputs] of pictures of the input's size.
  Tensor gathered(const Tensor& pictures) const {
    const Dims shape{sizes_.groups, rows_, pictures.size(0) * outputs_};
    const Tensor patches = empty(ops_.device(), shape, read_);
    if (patches.numel() == 0) return patches;
    PatchCall call = patch_call(pictures, read_);
    call.pictures.data = readable(pictures);
    call.patches = writable(patches);
    ops_.gather_patches(call);
    return patches;
  }
  /// Each element of the pictures is the sum of the patches that read it.
  void add_up(const Tensor& pictures, const Tensor& patches) const {
    PatchCall call = patch_call(pictures, patches.dtype());
    call.pictures.data = writable(pictures);
    call.patches = readable(patches);
    ops_.add_patches(call);
  }
  Tensor multiplied(const Tensor& left, const Tensor& right) const {
    return cuda::multiplied(ops_, left, right, dtype_);
  }
  Tensor sum(const Tensor& a, const Tensor& b) const {
    return computed(ops_, Element::kAdd, compute_, a.shape(), {a, b});
  }

 private:
  PatchCall patch_call(const Tensor& pictures, DType patch_dtype) const {
    PatchCall call{};
    call.compute = compute_;
    call.samples = pictures.size(0);
    call.channels = sizes_.groups * sizes_.in_channels;
    std::ranges::copy(sizes_.input, call.input);
    std::ranges::copy(sizes_.kernel, call.kernel);
    std::ranges::copy(sizes_.output, call.output);
    std::ranges::copy(sizes_.stride, call.stride);
    std::ranges::copy(sizes_.padding, call.padding);
    std::ranges::copy(sizes_.dilation, call.dilation);
    call.pictures.dtype = pictures.dtype();
    call.patch_dtype = patch_dtype;
    const Dims& stride = pictures.stride();
    call.pictures.stride[0] = stride[0];
    call.pictures.stride[1] = stride[1];
    for (std::size_t dim = 2; dim < stride.size(); ++dim) {
      call.pictures.stride[5 + dim - stride.size()] = stride[dim];
    }
    return call;
  }

  Ops& ops_;
  ConvolutionSizes sizes_;
  std::int64_t rows_;     // of a group's patches
  std::int64_t outputs_;  // of a sample and channel
  DType dtype_, compute_, read_;
};

void convolution(Ops& ops, const KernelCall& call) {
  const Tensor &input = tensor_arg(call, 0), &weight = tensor_arg(call, 1);
  const Tensor& out = call.outputs[0];
  const Convolution sizes(ops, call, input.shape(), weight.shape(), out.shape());
  if (out.numel() == 0) return;
  const Tensor weights = sizes.weights(weight);
  sizes.for_each_part([&](std::int64_t first, std::int64_t count) {
    const Tensor patches = sizes.gathered(input.narrow(0, first, count));
    sizes.put_by_channel(out.narrow(0, first, count), sizes.multiplied(weights, patches));
  });
}

void input_gradient(Ops& ops, const KernelCall& call) {
  const Tensor &gradient = tensor_arg(call, 0), &weight = tensor_arg(call, 1);
  const Tensor& out = call.outputs[0];
  const Convolution sizes(ops, call, out.shape(), weight.shape(), gradient.shape());
  if (out.numel() == 0) return;
  const Tensor weights = turned(sizes.weights(weight));
  sizes.for_each_part([&](std::int64_t first, std::int64_t count) {
    const Tensor slopes = sizes.by_channel(gradient.narrow(0, first, count));
    sizes.add_up(out.narrow(0, first, count), sizes.multiplied(weights, slopes));
  });
}

void weight_gradient(Ops& ops, const KernelCall& call) {
  const Tensor &input = tensor_arg(call, 0), &gradient = tensor_arg(call, 1);
  const Tensor& out = call.outputs[0];
  const Convolution sizes(ops, call, input.shape(), out.shape(), gradient.shape());
  if (out.numel() == 0) return;
  Tensor total;
  sizes.for_each_part([&](std::int64_t first, std::int64_t count) {
    const Tensor slopes = sizes.by_channel(gradient.narrow(0, first, count));
    const Tensor patches = turned(sizes.gathered(input.narrow(0, first, count)));
    const Tensor terms = sizes.multiplied(slopes, patches);
    total = total.defined() ? sizes.sum(total, terms) : terms;
  });
  if (!total.defined()) return fill(ops, out, Scalar(0));
  convert(ops, out, total.as_view(contiguous_meta(out.shape(), total.dtype()), total.offset()));
}

}  // namespace

void add_convolution_kernels(CudaKernelTable& table) {
  table.set(KernelId::kConvolution, convolution);
  table.set(KernelId::kConvolutionInputGrad, input_gradient);
  table.set(KernelId::kConvolutionWeightGrad, weight_gradient);
}

}  // namespace shardlab::cuda
