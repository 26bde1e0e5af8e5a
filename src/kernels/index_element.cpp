// Ops that address single elements along one dim: gather and scatter.
#include <cstring>

#include "kernels/elementwise.h"
#include "kernels/functors.h"
#include "kernels/index_access.h"
#include "kernels/kernel_table.h"

namespace shardlab {

namespace {

// Strides of the addressed tensor for a walk over the indices: along `dim` the index decides.
Dims addressed_strides(const Dims& stride, std::size_t dim) {
  Dims strides = stride;
  strides[dim] = 0;
  return strides;
}

// Walks the indices in row-major order; visit(index, byte offset in `beside`, byte offset in the
// addressed tensor with `dim` at 0), `beside` a tensor of the indices' shape.
struct IndexWalk {
  const Tensor& index;
  Dims beside_stride;
  std::int64_t beside_bytes;
  Dims addressed_stride;
  std::int64_t addressed_bytes;

  template <typename Visit>
  void run(Visit&& visit) const {
    const RowMajor<std::int64_t> indices(index);
    StridedLoop loop(index.shape());
    loop.add(contiguous_strides(index.shape()), 1);
    loop.add(beside_stride, beside_bytes);
    loop.add(addressed_stride, addressed_bytes);
    loop.run([&](std::span<const std::int64_t> offsets, std::span<const std::int64_t> strides,
                 std::int64_t count) {
      const std::int64_t* const first = indices.data() + offsets[0];
      const std::int64_t step = strides[0], beside = offsets[1], addressed = offsets[2];
      const std::int64_t beside_step = strides[1] * beside_bytes;
      const std::int64_t addressed_step = strides[2] * addressed_bytes;
      for (std::int64_t i = 0; i < count; ++i) {
        visit(first[i * step], beside + i * beside_step, addressed + i * addressed_step);
      }
    });
  }
};

// out[i] = self[i with dim at locate(index[i])]; zero where locate gives -1, which calls `missed`.
template <typename Locate, typename Missed>
void gather_elements(const KernelCall& call, std::size_t dim, Locate locate, Missed missed) {
  const Tensor out = at_least_one_dim(call.outputs[0]);
  const Tensor self = at_least_one_dim(tensor_arg(call, 0));
  const Tensor index = at_least_one_dim(tensor_arg(call, 2));
  check_same_dtype(out, self);
  const std::int64_t bytes = item_bytes(out.dtype());
  const std::int64_t step = self.stride()[dim] * bytes;
  std::byte* target = writable_bytes(out);
  const std::byte* source = readable_bytes(self);
  const IndexWalk walk{index, out.stride(), bytes, addressed_strides(self.stride(), dim), bytes};
  std::int64_t element = 0;
  with_constant_size(bytes, [&](auto size) {
    walk.run([=, &element](std::int64_t chosen, std::int64_t to, std::int64_t from) {
      const std::int64_t at = locate(chosen);
      if (at >= 0) {
        std::memcpy(target + to, source + from + at * step, size);
      } else {
        std::memset(target + to, 0, size);
      }
      missed(element++, at < 0);
    });
  });
}

std::size_t gathered_dim(const KernelCall& call) {
  return wrapped_dim(int_arg(call, 1), at_least_one_dim(tensor_arg(call, 0)).shape().size());
}

// gather(self, dim, index, sparse_grad)
void gather_kernel(const KernelCall& call) {
  const std::size_t dim = gathered_dim(call);
  const std::int64_t count = at_least_one_dim(tensor_arg(call, 0)).size(dim);
  gather_elements(
      call, dim, [count](std::int64_t index) { return index_in_range(index, count); },
      [](std::int64_t, bool) {});
}

// The same where `view` gives the part of self that is here.
void gather_masked_kernel(const KernelCall& call) {
  check_invariant(call.view != nullptr, "a masked lookup knows the position of self");
  const RowMajorOutput<bool> mask(call.outputs[1]);
  const std::size_t dim = gathered_dim(call);
  const LocalView* view = call.view;
  gather_elements(
      call, dim, [=](std::int64_t index) { return local_index(*view, dim, index); },
      [data = mask.data()](std::int64_t element, bool is_missed) { data[element] = is_missed; });
  mask.store();
}

// result (row-major, self's shape) at index, element by element: combine(old, src value).
template <typename T, typename Combine>
void scatter_elements(const KernelCall& call, Combine combine) {
  const Tensor out = at_least_one_dim(call.outputs[0]);
  const Tensor index = at_least_one_dim(tensor_arg(call, 2));
  const std::size_t dim = wrapped_dim(int_arg(call, 1), out.shape().size());
  const auto result = scratch<T>(out.numel());
  load_row_major(result.get(), dtype_of<T>(), tensor_arg(call, 0));
  T number(0);
  std::unique_ptr<RowMajor<T>> values;
  Dims value_stride(index.shape().size(), 0);
  if (const Tensor* src = optional_tensor_arg(call, 3)) {
    const Tensor whole = at_least_one_dim(*src);
    const TensorMeta used{index.shape(), whole.stride(), whole.dtype()};
    values = std::make_unique<RowMajor<T>>(whole.as_view(used, whole.offset()));
    value_stride = contiguous_strides(index.shape());
  } else {
    store_scalar(&number, dtype_of<T>(), scalar_arg(call, 3));
  }
  const T* from = values ? values->data() : &number;
  const Dims stride = contiguous_strides(out.shape());
  const std::int64_t count = out.size(dim), step = stride[dim];
  const IndexWalk walk{index, value_stride, 1, addressed_strides(stride, dim), 1};
  walk.run([=, target = result.get()](std::int64_t chosen, std::int64_t value, std::int64_t to) {
    T& element = target[to + index_in_range(chosen, count) * step];
    element = combine(element, from[value]);
  });
  store_row_major(out, result.get(), dtype_of<T>());
}

// scatter_add(self, dim, index, src)
void scatter_add_kernel(const KernelCall& call) {
  with_compute_type<kAllKinds>(call.outputs[0].dtype(), [&](auto type) {
    using T = decltype(type);
    scatter_elements<T>(call, [](T old, T value) { return sum_of(old, value); });
  });
}

// scatter(self, dim, index, src or value); the last one wins.
void scatter_kernel(const KernelCall& call) {
  with_compute_type<kAllKinds>(call.outputs[0].dtype(), [&](auto type) {
    using T = decltype(type);
    scatter_elements<T>(call, [](T, T value) { return value; });
  });
}

}  // namespace

void add_index_element_kernels(KernelTable& table) {
  table.set(KernelId::kGather, gather_kernel);
  table.set(KernelId::kGatherMasked, gather_masked_kernel);
  table.set(KernelId::kScatterAdd, scatter_add_kernel);
  table.set(KernelId::kScatter, scatter_kernel);
}

}  // namespace shardlab
