// Table lookup by rows, its gradient, and the lookup in a table of which a rank holds some rows.
#include <vector>

#include "kernels/elementwise.h"
#include "kernels/index_access.h"
#include "kernels/kernel_table.h"

namespace shardlab {

namespace {

// The output [indices..., columns] as [number of indices, columns].
Tensor as_rows(const Tensor& out) {
  check_invariant(out.contiguous(), "a lookup's output is contiguous");
  const std::int64_t columns = out.shape().back();
  std::int64_t rows = 1;
  for (std::size_t d = 0; d + 1 < out.shape().size(); ++d) rows *= out.size(d);
  return out.as_view(contiguous_meta(Dims{rows, columns}, out.dtype()), out.offset());
}

// embedding(weight, indices, padding_idx, scale_grad_by_freq, sparse)
void embedding_kernel(const KernelCall& call) {
  const Tensor& weight = tensor_arg(call, 0);
  const RowMajor<std::int64_t> indices(tensor_arg(call, 1));
  const Tensor rows = as_rows(call.outputs[0]);
  check_indices(indices.data(), rows.size(0), weight.size(0));
  copy_slices(rows, weight, 0, indices.data());
}

// The same where `view` gives the rows of the table that are here: the others give zeros and a set
// mask.
void embedding_masked_kernel(const KernelCall& call) {
  check_invariant(call.view != nullptr, "a masked lookup knows the table's position");
  const Tensor& weight = tensor_arg(call, 0);
  const RowMajor<std::int64_t> indices(tensor_arg(call, 1));
  const RowMajorOutput<bool> mask(call.outputs[1]);
  fill_tensor(call.outputs[0], Scalar(0));
  const Tensor rows = as_rows(call.outputs[0]);
  const auto places = scratch<std::int64_t>(rows.size(0));
  for (std::int64_t i = 0; i < rows.size(0); ++i) {
    places[i] = local_index(*call.view, 0, indices.data()[i]);
    mask.data()[i] = places[i] < 0;
  }
  copy_slices(rows, weight, 0, places.get());
  mask.store();
}

// embedding_dense_backward(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq)
template <typename T>
void embedding_backward(const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  const RowMajor<T> grad(tensor_arg(call, 0));
  const Tensor& index_tensor = tensor_arg(call, 1);
  const RowMajor<std::int64_t> indices(index_tensor);
  const std::int64_t rows = out.size(0), columns = out.size(1), padding = int_arg(call, 3);
  const std::int64_t count = index_tensor.numel();
  std::vector<std::int64_t> uses(static_cast<std::size_t>(rows), 0);
  for (std::int64_t i = 0; i < count; ++i) {
    ++uses[static_cast<std::size_t>(index_in_range(indices.data()[i], rows))];
  }
  const bool by_frequency = scalar_arg(call, 4).to_bool();
  const RowMajorOutput<T> result(out);
  std::fill_n(result.data(), rows * columns, T(0));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = indices.data()[i];
    if (row == padding) continue;
    const T scale = by_frequency ? T(1) / T(uses[static_cast<std::size_t>(row)]) : T(1);
    T* to = result.data() + row * columns;
    const T* from = grad.data() + i * columns;
    for (std::int64_t column = 0; column < columns; ++column) to[column] += from[column] * scale;
  }
  result.store();
}

void embedding_backward_kernel(const KernelCall& call) {
  with_compute_type<kRealKind>(call.outputs[0].dtype(),
                               [&](auto type) { embedding_backward<decltype(type)>(call); });
}

}  // namespace

void add_embedding_kernels(KernelTable& table) {
  table.set(KernelId::kEmbedding, embedding_kernel);
  table.set(KernelId::kEmbeddingMasked, embedding_masked_kernel);
  table.set(KernelId::kEmbeddingDenseBackward, embedding_backward_kernel);
}

}  // namespace shardlab
