// Convolutions over 1 to 3 spatial dims, and their gradients, as matrix products. The inputs of
// every tap for every output of a sample, zeros outside, are gathered as patches [groups, channels
// and taps, outputs], which the weights multiply; the gradient of the weight is a product with
// patches, too, and that of the input adds up patches that are a product. Zeros outside are
// multiplied like others: an infinite weight makes NaN of them, as where the reference multiplies
// patches; its other kernels leave them out.
#include <utility>

#include "kernels/element_types.h"
#include "kernels/kernel_args.h"
#include "kernels/kernel_table.h"

namespace shardlab {

namespace {

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
    if (patches.numel() > 0) loops_.gather_patches(at(pictures, sample, patches));
  }
  /// Each element of the pictures is the sum of the patches that read it.
  void add_up(const Tensor& pictures, std::int64_t sample, const Tensor& patches) const {
    loops_.add_patches(at(pictures, sample, patches));
  }

 private:
  Patching at(const Tensor& pictures, std::int64_t sample, const Tensor& patches) const {
    return {sizes_, pictures.narrow(0, sample, 1), patches};
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
  const Tensor total = empty(loops.device(), out.shape(), compute_dtype(out.dtype()));
  const Tensor part = empty(loops.device(), out.shape(), total.dtype());
  loops.fill(total, Scalar(0));
  for (std::int64_t sample = 0; sample < one.samples(); ++sample) {
    one.gather(input, sample, patches);
    loops.multiply(one.weights(part), one.outputs(slopes, sample), transposed(patches));
    const LocalArg terms[] = {total, part};
    loops.run(Element::kAdd, total.dtype(), total, terms);
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
