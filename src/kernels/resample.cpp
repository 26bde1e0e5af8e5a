// Upsampling and pooling, with the places of resampling.h. Sums are of f64, dim by dim; the parts
// of complex numbers are along one more.
#include "kernels/resampling.h"

#include <vector>

#include "base/fix.h"
#include "kernels/element_types.h"
#include "kernels/kernel_args.h"
#include "kernels/kernel_table.h"

namespace shardlab {

namespace {

Terms forward_terms(const SampledDim& sampled) {
  Terms terms;
  for (const Window& window : sampled.windows) {
    for (const Tap& tap : window.taps) terms.add(tap.place, tap.weight, 1);
    terms.end_result(window.divisor);
  }
  return terms;
}

// A gradient flows to each place from the windows that read it, in their order.
Terms backward_terms(const SampledDim& sampled) {
  struct Reader {
    std::int64_t result;
    double weight;
    double divisor;
  };
  std::vector<std::vector<Reader>> readers(static_cast<std::size_t>(sampled.source));
  for (std::size_t r = 0; r < sampled.windows.size(); ++r) {
    const Window& window = sampled.windows[r];
    for (const Tap& tap : window.taps) {
      readers[static_cast<std::size_t>(tap.place)].push_back(
          {static_cast<std::int64_t>(r), tap.weight, window.divisor});
    }
  }
  Terms terms;
  for (const std::vector<Reader>& place : readers) {
    for (const Reader& reader : place) terms.add(reader.result, reader.weight, reader.divisor);
    terms.end_result(1);
  }
  return terms;
}

void resample(Loops& loops, const KernelCall& call) {
  const Tensor &self = tensor_arg(call, 0), &out = call.outputs[0];
  if (out.numel() == 0) return;
  const Resampling resampling = resampling_of(call);
  const bool forward = resampling.direction == Resampling::Direction::kForward;
  const DType wide = is_complex(self.dtype()) ? DType::kC128 : DType::kF64;
  Tensor values = as_contiguous(loops, self, wide);
  Dims shape = values.shape();
  if (wide == DType::kC128) {
    shape.push_back(2);
    values = values.as_view(contiguous_meta(shape, DType::kF64), 2 * values.offset());
  }
  for (const SampledDim& sampled : resampling.dims) {
    const Terms terms = forward ? forward_terms(sampled) : backward_terms(sampled);
    shape[sampled.dim] = static_cast<std::int64_t>(terms.divisor.size());
    const Tensor made = empty(loops.device(), shape, DType::kF64);
    loops.sample({values, made, sampled.dim, terms, resampling.in_bytes});
    values = made;
  }
  loops.convert(out, values.as_view(contiguous_meta(out.shape(), wide), 0));
}

// Pooling that takes the largest, with indices.
void largest(Loops& loops, const KernelCall& call) {
  const Tensor &self = tensor_arg(call, 0), &out = call.outputs[0];
  const DType compute = compute_dtype(self.dtype());
  if (out.numel() == 0) return;
  if (is_integral(compute) && call.kernel != KernelId::kMaxPool) {
    fail(ErrorKind::kUnsupported, Fix{"cast the operands first, to a dtype that the op takes"},
         "device {} has no kernel of this op for {}", loops.device().type(),
         to_string(self.dtype()));
  }
  std::vector<double> shifts;
  if (const int index = shifting_argument(call.kernel); index >= 0) {
    const Tensor& numbers = tensor_arg(call, static_cast<std::size_t>(index));
    shifts.resize(static_cast<std::size_t>(numbers.numel()));
    loops.device().read(as_contiguous(loops, numbers, DType::kF64), shifts.data());
  }
  const Tensor from = as_contiguous(loops, self, compute);
  const Tensor values = empty(loops.device(), out.shape(), compute);
  const Tensor places = empty(loops.device(), out.shape(), DType::kI64);
  loops.largest({pool_windows_of(call, shifts), from, values, places});
  loops.convert(out, values);
  loops.convert(call.outputs[1], places);
}

}  // namespace

void add_resample_kernels(KernelTable& table) {
  for (const KernelId id : resampling_kernels()) table.set(id, resample);
  for (const KernelId id : largest_kernels()) table.set(id, largest);
}

}  // namespace shardlab
