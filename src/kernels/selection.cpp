// Ops that move whole slices: cat, index_select, the gradients of slice and select, flip, repeat,
// pad.
#include "kernels/tensor_moves.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/convert.h"
#include "kernels/index_access.h"
#include "kernels/kernel_args.h"
#include "kernels/kernel_table.h"
#include "kernels/strided_loop.h"

namespace shardlab {

namespace moves {

namespace {

std::int64_t clamped_start(std::int64_t start, std::int64_t size) {
  return std::clamp<std::int64_t>(start < 0 ? start + size : start, 0, size);
}

}  // namespace

// cat(tensors, dim). A 1-d tensor without elements fits every shape.
void cat(const TensorMoves& moves, const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  const std::size_t dim = wrapped_dim(int_arg(call, 1), out.shape().size());
  std::int64_t start = 0;
  for (const Tensor& piece : tensor_list_arg(call, 0)) {
    if (piece.dim() != out.dim() || piece.numel() == 0) continue;
    moves.convert(out.narrow(dim, start, piece.size(dim)), piece);
    start += piece.size(dim);
  }
}

// stack(tensors, dim)
void stack(const TensorMoves& moves, const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  const std::size_t dim = wrapped_dim(int_arg(call, 1), out.shape().size());
  TensorMeta meta = out.meta();
  meta.shape.erase(dim);
  meta.stride.erase(dim);
  std::int64_t offset = out.offset();
  for (const Tensor& piece : tensor_list_arg(call, 0)) {
    moves.convert(out.as_view(meta, offset), piece);
    offset += out.stride()[dim];
  }
}

// reshape(self, shape), view_copy(self, size): the result is contiguous
void reshape_copy(const TensorMoves& moves, const KernelCall& call) {
  const Tensor &out = call.outputs[0], &self = tensor_arg(call, 0);
  if (out.numel() != self.numel()) {
    fail(ErrorKind::kInternal, "a reshape of {} elements to {}", self.numel(), out.numel());
  }
  moves.convert(out.as_view(contiguous_meta(self.shape(), self.dtype()), out.offset()), self);
}

// slice_backward(grad, input_sizes, dim, start, end, step)
void slice_backward(const TensorMoves& moves, const KernelCall& call) {
  const Tensor &out = call.outputs[0], &grad = tensor_arg(call, 0);
  moves.fill(out, Scalar(0));
  const std::size_t dim = wrapped_dim(int_arg(call, 2), out.shape().size());
  const std::int64_t start = clamped_start(int_arg(call, 3), out.size(dim));
  TensorMeta meta = out.meta();
  meta.shape[dim] = grad.size(dim);
  meta.stride[dim] *= int_arg(call, 5);
  moves.convert(out.as_view(meta, out.offset() + start * out.stride()[dim]), grad);
}

// select_backward(grad, input_sizes, dim, index)
void select_backward(const TensorMoves& moves, const KernelCall& call) {
  const Tensor &out = call.outputs[0], &grad = tensor_arg(call, 0);
  moves.fill(out, Scalar(0));
  const std::size_t dim = wrapped_dim(int_arg(call, 2), out.shape().size());
  const std::int64_t index = int_arg(call, 3);
  const std::int64_t at = index < 0 ? index + out.size(dim) : index;
  TensorMeta meta = out.meta();
  meta.shape.erase(dim);
  meta.stride.erase(dim);
  moves.convert(out.as_view(meta, out.offset() + at * out.stride()[dim]), grad);
}

// flip(self, dims)
void flip(const TensorMoves& moves, const KernelCall& call) {
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
  moves.convert(call.outputs[0], self.as_view(meta, offset));
}

// repeat(self, repeats): the output's dim d is (repeats[d], size d), the first of them broadcast.
void repeat(const TensorMoves& moves, const KernelCall& call) {
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
  moves.convert(out.as_view(to, out.offset()), self.as_view(from, self.offset()));
}

// constant_pad_nd(self, pad, value): pad holds (before, after) from the last dim on; negative
// crops.
void pad(const TensorMoves& moves, const KernelCall& call) {
  const Tensor &out = call.outputs[0], &self = tensor_arg(call, 0);
  const Dims* pad = optional_dims_arg(call, 1);
  check_invariant(pad != nullptr, "constant_pad_nd has a pad list");
  moves.fill(out, scalar_arg(call, 2));
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
  moves.convert(to, from);
}

}  // namespace moves

namespace {

class HostMoves final : public TensorMoves {
 public:
  void convert(const Tensor& out, const Tensor& source) const override {
    convert_tensor(out, source);
  }
  void fill(const Tensor& out, const Scalar& number) const override { fill_tensor(out, number); }
};

template <auto kernel>
void on_host(const KernelCall& call) {
  kernel(HostMoves(), call);
}

// index_select(self, dim, index)
void index_select_kernel(const KernelCall& call) {
  const Tensor &out = call.outputs[0], &self = tensor_arg(call, 0);
  if (self.dim() == 0) return convert_tensor(out, self);
  const std::size_t dim = wrapped_dim(int_arg(call, 1), self.shape().size());
  const RowMajor<std::int64_t> index(tensor_arg(call, 2));
  check_indices(index.data(), out.size(dim), self.size(dim));
  copy_slices(out, self, dim, index.data());
}

}  // namespace

void add_selection_kernels(KernelTable& table) {
  table.set(KernelId::kCat, on_host<moves::cat>);
  table.set(KernelId::kStack, on_host<moves::stack>);
  table.set(KernelId::kReshapeCopy, on_host<moves::reshape_copy>);
  table.set(KernelId::kIndexSelect, index_select_kernel);
  table.set(KernelId::kSliceBackward, on_host<moves::slice_backward>);
  table.set(KernelId::kSelectBackward, on_host<moves::select_backward>);
  table.set(KernelId::kFlip, on_host<moves::flip>);
  table.set(KernelId::kRepeat, on_host<moves::repeat>);
  table.set(KernelId::kConstantPadNd, on_host<moves::pad>);
}

}  // namespace shardlab
