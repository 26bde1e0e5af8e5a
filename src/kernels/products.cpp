// mm, bmm, mv, dot and their add variants.
#include "kernels/element_types.h"
#include "kernels/kernel_args.h"
#include "kernels/kernel_table.h"

namespace shardlab {

namespace {

void matrix_product(Loops& loops, const KernelCall& call) {
  loops.multiply(call.outputs[0], tensor_arg(call, 0), tensor_arg(call, 1));
}

// addmm(self, mat1, mat2, beta, alpha) and baddbmm; beta == 0 ignores self, NaN included, and
// alpha == 0 the factors of addmm. The product has memory of its own, because self may be the
// output.
void add_product(Loops& loops, const KernelCall& call) {
  const Tensor &out = call.outputs[0], &self = tensor_arg(call, 0);
  const DType compute = compute_dtype(out.dtype());
  const Tensor product = empty(loops.device(), out.shape(), compute);
  const Scalar &beta = scalar_arg(call, 3), &alpha = scalar_arg(call, 4);
  if (call.kernel == KernelId::kAddmm && !alpha.to_bool()) {
    loops.fill(product, Scalar(0.0));
  } else {
    loops.multiply(product, tensor_arg(call, 1), tensor_arg(call, 2));
  }
  if (!alpha.is_one()) loops.run(Element::kMul, compute, product, {product, alpha});
  if (!beta.to_bool()) return loops.convert(out, product);
  if (beta.is_one()) return loops.run(Element::kAdd, compute, out, {product, self});
  loops.run(Element::kAddScaled, compute, out, {product, self, beta});
}

Tensor reshaped(const Tensor& tensor, const Dims& shape, const Dims& stride) {
  return tensor.as_view({shape, stride, tensor.dtype()}, tensor.offset());
}

// mv(self, vec) and dot(self, tensor).
void vector_product(Loops& loops, const KernelCall& call) {
  const Tensor &out = call.outputs[0], &a = tensor_arg(call, 0), &b = tensor_arg(call, 1);
  const Tensor left = a.dim() == 1 ? reshaped(a, {1, a.size(0)}, {1, a.stride()[0]}) : a;
  const Tensor column = reshaped(out, {left.size(0), 1}, {out.dim() == 1 ? out.stride()[0] : 1, 1});
  loops.multiply(column, left, reshaped(b, {b.size(0), 1}, {b.stride()[0], 1}));
}

}  // namespace

void add_product_kernels(KernelTable& table) {
  table.set(KernelId::kMm, matrix_product);
  table.set(KernelId::kBmm, matrix_product);
  table.set(KernelId::kAddmm, add_product);
  table.set(KernelId::kBaddbmm, add_product);
  table.set(KernelId::kMv, vector_product);
  table.set(KernelId::kDot, vector_product);
}

}  // namespace shardlab
