// Copies, constants, and ops that move whole slices: cat, the gradients of slice and select, flip,
// repeat, pad.
#include <algorithm>

#include "base/error.h"
#include "kernels/kernel_args.h"
#include "kernels/kernel_table.h"

namespace shardlab {

namespace {

template <std::size_t index>
void convert_argument(Loops& loops, const KernelCall& call) {
  loops.convert(call.outputs[0], tensor_arg(call, index));
}

template <std::size_t index>
void fill_with_argument(Loops& loops, const KernelCall& call) {
  if (const Tensor* value = optional_tensor_arg(call, index)) {
    return loops.convert(call.outputs[0], *value);
  }
  loops.fill(call.outputs[0], scalar_arg(call, index));
}

template <int value>
void constant(Loops& loops, const KernelCall& call) {
  for (const Tensor& output : call.outputs) loops.fill(output, Scalar(value));
}

std::int64_t clamped_start(std::int64_t start, std::int64_t size) {
  return std::clamp<std::int64_t>(start < 0 ? start + size : start, 0, size);
}

// cat(tensors, dim). A 1-d tensor without elements fits every shape.
void cat(Loops& loops, const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  const std::size_t dim = wrapped_dim(int_arg(call, 1), out.shape().size());
  std::int64_t start = 0;
  for (const Tensor& piece : tensor_list_arg(call, 0)) {
    if (piece.dim() != out.dim() || piece.numel() == 0) continue;
    loops.convert(out.narrow(dim, start, piece.size(dim)), piece);
    start += piece.size(dim);
  }
}

// stack(tensors, dim)
void stack(Loops& loops, const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  const std::size_t dim = wrapped_dim(int_arg(call, 1), out.shape().size());
  TensorMeta meta = out.meta();
  meta.shape.erase(dim);
  meta.stride.erase(dim);
  std::int64_t offset = out.offset();
  for (const Tensor& piece : tensor_list_arg(call, 0)) {
    loops.convert(out.as_view(meta, offset), piece);
    offset += out.stride()[dim];
  }
}

// reshape(self, shape), view_copy(self, size): the result is contiguous
void reshape_copy(Loops& loops, const KernelCall& call) {
  const Tensor &out = call.outputs[0], &self = tensor_arg(call, 0);
  if (out.numel() != self.numel()) {
    fail(ErrorKind::kInternal, "a reshape of {} elements to {}", self.numel(), out.numel());
  }
  loops.convert(out.as_view(contiguous_meta(self.shape(), self.dtype()), out.offset()), self);
}

// slice_backward(grad, input_sizes, dim, start, end, step)
void slice_backward(Loops& loops, const KernelCall& call) {
  const Tensor &out = call.outputs[0], &grad = tensor_arg(call, 0);
  loops.fill(out, Scalar(0));
  const std::size_t dim = wrapped_dim(int_arg(call, 2), out.shape().size());
  const std::int64_t start = clamped_start(int_arg(call, 3), out.size(dim));
  TensorMeta meta = out.meta();
  meta.shape[dim] = grad.size(dim);
  meta.stride[dim] *= int_arg(call, 5);
  loops.convert(out.as_view(meta, out.offset() + start * out.stride()[dim]), grad);
}

// select_backward(grad, input_sizes, dim, index)
void select_backward(Loops& loops, const KernelCall& call) {
  const Tensor &out = call.outputs[0], &grad = tensor_arg(call, 0);
  loops.fill(out, Scalar(0));
  const std::size_t dim = wrapped_dim(int_arg(call, 2), out.shape().size());
  const std::int64_t index = int_arg(call, 3);
  const std::int64_t at = index < 0 ? index + out.size(dim) : index;
  TensorMeta meta = out.meta();
  meta.shape.erase(dim);
  meta.stride.erase(dim);
  loops.convert(out.as_view(meta, out.offset() + at * out.stride()[dim]), grad);
}

// flip(self, dims)
void flip(Loops& loops, const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  const Dims* dims = optional_dims_arg(call, 1);
  check_invariant(dims != nullptr, "flip has a dim list");
  TensorMeta meta = self.meta();
  std::int64_t offset = self.offset();
  for (const std::int64_t dim : *dims) {
    const std::size_t at = wrapped_dim(dim, meta.shape.size());
    if (at >= meta.shape.size() || meta.shape[at] == 0) continue;
    offset += (meta.shape[at] - 1) * meta.stride[at];
    meta.stride[at] = -meta.stride[at];
  }
  loops.convert(call.outputs[0], self.as_view(meta, offset));
}

// repeat(self, repeats): the output's dim d is (repeats[d], size d), the first of them broadcast.
void repeat(Loops& loops, const KernelCall& call) {
  const Tensor &out = call.outputs[0], &self = tensor_arg(call, 0);
  if (out.numel() == 0) return;
  TensorMeta to{{}, {}, out.dtype()}, from{{}, {}, self.dtype()};
  const auto lead = static_cast<std::size_t>(out.dim() - self.dim());
  for (std::size_t d = 0; d < out.shape().size(); ++d) {
    const std::int64_t size = d < lead ? 1 : self.size(d - lead);
    const std::int64_t stride = d < lead ? 0 : self.stride()[d - lead];
    for (const std::int64_t part : {out.size(d) / size, size}) to.shape.push_back(part);
    to.stride.push_back(out.stride()[d] * size);
    to.stride.push_back(out.stride()[d]);
    from.stride.push_back(0);
    from.stride.push_back(stride);
  }
  from.shape = to.shape;
  loops.convert(out.as_view(to, out.offset()), self.as_view(from, self.offset()));
}

// constant_pad_nd(self, pad, value): pad holds (before, after) from the last dim on; negative
// crops.
void pad(Loops& loops, const KernelCall& call) {
  const Tensor &out = call.outputs[0], &self = tensor_arg(call, 0);
  const Dims* pad = optional_dims_arg(call, 1);
  check_invariant(pad != nullptr, "constant_pad_nd has a pad list");
  loops.fill(out, scalar_arg(call, 2));
  Tensor to = out, from = self;
  for (std::size_t i = 0; i + 1 < pad->size(); i += 2) {
    const std::size_t dim = self.shape().size() - 1 - i / 2;
    const std::int64_t before = (*pad)[i], after = (*pad)[i + 1];
    const std::int64_t size =
        self.size(dim) + std::min<std::int64_t>(before, 0) + std::min<std::int64_t>(after, 0);
    if (size <= 0) return;
    to = to.narrow(dim, std::max<std::int64_t>(before, 0), size);
    from = from.narrow(dim, std::max<std::int64_t>(-before, 0), size);
  }
  loops.convert(to, from);
}

}  // namespace

void add_moving_kernels(KernelTable& table) {
  table.set(KernelId::kCopy, convert_argument<1>);
  table.set(KernelId::kConvert, convert_argument<0>);
  table.set(KernelId::kFill, fill_with_argument<1>);
  table.set(KernelId::kFillThird, fill_with_argument<2>);
  table.set(KernelId::kZeros, constant<0>);
  table.set(KernelId::kOnes, constant<1>);
  table.set(KernelId::kCat, cat);
  table.set(KernelId::kStack, stack);
  table.set(KernelId::kReshapeCopy, reshape_copy);
  table.set(KernelId::kSliceBackward, slice_backward);
  table.set(KernelId::kSelectBackward, select_backward);
  table.set(KernelId::kFlip, flip);
  table.set(KernelId::kRepeat, repeat);
  table.set(KernelId::kConstantPadNd, pad);
}

}  // namespace shardlab
