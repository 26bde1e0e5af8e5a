// Look-ups and scatters: a walk over the output, with the place in the other tensor from the index.
#include "kernels/cpu_loops.h"

#include <cstring>
#include <type_traits>

#include "base/error.h"
#include "kernels/scratch.h"
#include "kernels/strided_loop.h"
#include "tensor/cpu_device.h"

namespace shardlab {

namespace {

// Elements that are moved as bytes keep their dtype.
void check_same_dtype(const Tensor& out, const Tensor& source) {
  if (out.dtype() == source.dtype()) return;
  fail(Fix{"cast the source first: src.to(x.dtype)"},
       "a tensor of dtype {} cannot take elements of dtype {}", to_string(out.dtype()),
       to_string(source.dtype()));
}

[[noreturn]] void refuse_index(std::int64_t index, std::int64_t size, const IndexWords& words) {
  fail(Fix{words.fix}, "{} {} is out of range; it must be in [0, {})", words.name, index, size);
}

// The place in a piece of an index of the whole, -1 where it is not here.
std::int64_t local_place(const DimMap& map, std::int64_t index) {
  std::int64_t before = 0;
  for (const IndexRun& run : map.runs) {
    if (index >= run.offset && index < run.offset + run.size) return before + index - run.offset;
    before += run.size;
  }
  return -1;
}

// Calls run(bytes), which is a constant where it is the size of an element.
void with_constant_size(std::int64_t bytes, auto&& run) {
  switch (bytes) {
    case 1:
      return run(std::integral_constant<std::size_t, 1>{});
    case 2:
      return run(std::integral_constant<std::size_t, 2>{});
    case 4:
      return run(std::integral_constant<std::size_t, 4>{});
    case 8:
      return run(std::integral_constant<std::size_t, 8>{});
    default:
      return run(std::integral_constant<std::size_t, 16>{});
  }
}

// Elements of `Size` bytes; the strides count bytes. Null: zeros.
template <typename Size>
void copy_elements(std::byte* to, std::int64_t to_step, const std::byte* from,
                   std::int64_t from_step, std::int64_t count, Size size) {
  constexpr auto kStep = static_cast<std::int64_t>(Size::value);
  if (from != nullptr && count > 1 && to_step == kStep && from_step == kStep) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * size);
    return;
  }
  for (std::int64_t i = 0; i < count; ++i, to += to_step) {
    if (from == nullptr) {
      std::memset(to, 0, size);
    } else {
      std::memcpy(to, from + i * from_step, size);
    }
  }
}

template <typename T>
void scatter_as(const Scatter& scatter) {
  const Dims& shape = scatter.index.shape();
  const std::size_t dim = scatter.dim;
  auto* const out = reinterpret_cast<T*>(writable_bytes(scatter.out));
  auto* const counts = scatter.counts.defined()
                           ? reinterpret_cast<std::int64_t*>(writable_bytes(scatter.counts))
                           : nullptr;
  const Tensor index = scatter.index.dtype() == DType::kI64
                           ? scatter.index
                           : as_contiguous(cpu_loops(), scatter.index, DType::kI64);
  const auto* const indices = reinterpret_cast<const std::int64_t*>(readable_bytes(index));
  T number(0);
  Tensor values;
  if (const auto* given = std::get_if<Tensor>(&scatter.value)) {
    values = given->as_view({shape, given->stride(), given->dtype()}, given->offset());
    if (values.dtype() != dtype_of<T>()) values = as_contiguous(cpu_loops(), values, dtype_of<T>());
  } else {
    store_scalar(&number, dtype_of<T>(), std::get<Scalar>(scatter.value));
  }
  const T* const from =
      values.defined() ? reinterpret_cast<const T*>(readable_bytes(values)) : &number;
  Dims stride = scatter.out.stride();
  const std::int64_t size = scatter.out.size(dim), step = stride[dim];
  stride[dim] = 0;
  StridedLoop loop(shape);
  loop.add(contiguous_strides(shape), 1);  // the order of the walk
  loop.add(index.stride(), 1);
  loop.add(values.defined() ? values.stride() : Dims(shape.size(), 0), 1);
  loop.add(stride, 1);
  loop.run([&](std::span<const std::int64_t> offset, std::span<const std::int64_t> by,
               std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t chosen = indices[offset[1] + i * by[1]];
      if (chosen < 0 || chosen >= size) refuse_index(chosen, size, scatter.words);
      const std::int64_t to = offset[3] + i * by[3] + chosen * step;
      const T value = from[offset[2] + i * by[2]];
      const bool first = counts != nullptr && counts[to]++ == 0;
      out[to] = first ? value : folded(scatter.mode, value, out[to]);
    }
  });
}

}  // namespace

Device& CpuLoops::device() {
  static const std::unique_ptr<Device> memory = make_cpu_device({});
  return *memory;
}

void CpuLoops::look_up(const Lookup& lookup) {
  const Tensor &out = lookup.out, &source = lookup.source;
  check_same_dtype(out, source);
  const std::int64_t bytes = item_bytes(out.dtype());
  std::byte* const to = writable_bytes(out);
  std::byte* const missed = lookup.mask.defined() ? writable_bytes(lookup.mask) : nullptr;
  const std::byte* const from = readable_bytes(source);
  const Tensor index = as_contiguous(*this, lookup.index, DType::kI64);
  const auto* const indices = reinterpret_cast<const std::int64_t*>(readable_bytes(index));
  Dims source_stride = source.stride();
  const std::int64_t step = source_stride[lookup.dim] * bytes;
  source_stride[lookup.dim] = 0;
  const Dims none(out.shape().size(), 0);
  const LocalView* const view = lookup.view;
  const std::int64_t size = (view == nullptr ? source.shape() : view->global_shape)[lookup.dim];
  StridedLoop loop(out.shape());
  loop.add(out.stride(), bytes);
  loop.add(source_stride, bytes);
  loop.add(broadcast_strides(index, out.shape()), 1);
  loop.add(missed == nullptr ? none : broadcast_strides(lookup.mask, out.shape()), 1);
  with_constant_size(bytes, [&](auto unit) {
    loop.run([&](std::span<const std::int64_t> offset, std::span<const std::int64_t> stride,
                 std::int64_t count) {
      const std::int64_t run = stride[2] == 0 ? count : 1;  // elements of one index
      for (std::int64_t i = 0; i < count; i += run) {
        const std::int64_t chosen = indices[offset[2] + i * stride[2]];
        if (chosen < 0 || chosen >= size) refuse_index(chosen, size, lookup.words);
        const std::int64_t place =
            view == nullptr ? chosen : local_place(view->dims[lookup.dim], chosen);
        const std::int64_t first = offset[1] + i * stride[1] * bytes + place * step;
        copy_elements(to + offset[0] + i * stride[0] * bytes, stride[0] * bytes,
                      place < 0 ? nullptr : from + first, stride[1] * bytes, run, unit);
        if (missed != nullptr) missed[offset[3] + i * stride[3]] = std::byte{place < 0};
      }
    });
  });
}

void CpuLoops::scatter(const Scatter& scatter) {
  with_compute_type<kAllKinds>(scatter.out.dtype(),
                               [&](auto type) { scatter_as<decltype(type)>(scatter); });
}

CpuLoops& cpu_loops() {
  static CpuLoops loops;
  return loops;
}

}  // namespace shardlab
