// Upsampling and pooling, with the places of resampling.h. Sums are of f64, dim by dim; the parts
// of complex numbers are along one more.
#include <algorithm>
#include <vector>

#include "base/error.h"
#include "kernels/element_types.h"
#include "kernels/kernel_args.h"
#include "kernels/kernel_table.h"
#include "kernels/resampling.h"

namespace shardlab {

namespace {

// Weighted sums: each term is a place times a weight over a share, added to a result in this order;
// the results are then divided.
struct Terms {
  std::vector<std::int64_t> place, result;
  std::vector<double> weight, share;
  std::vector<double> divisor;

  void add(std::int64_t from, double times, double over) {
    place.push_back(from);
    result.push_back(static_cast<std::int64_t>(divisor.size()));
    weight.push_back(times);
    share.push_back(over);
  }
  void end_result(double over) { divisor.push_back(over); }
};

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

template <typename T>
Tensor column_of(Loops& loops, const std::vector<T>& values) {
  const Tensor made =
      empty(loops.device(), Dims{static_cast<std::int64_t>(values.size()), 1}, dtype_of<T>());
  loops.device().write(made, values.data());
  return made;
}

// [outer, results, inner] of [outer, places, inner].
Tensor summed(Loops& loops, const Tensor& from, const Terms& terms) {
  const auto count = static_cast<std::int64_t>(terms.place.size());
  const auto results = static_cast<std::int64_t>(terms.divisor.size());
  const Dims all{from.size(0), count, from.size(2)};
  const IndexWords words{"resample"};
  const Tensor picked = empty(loops.device(), all, DType::kF64);
  loops.look_up({picked, from, 1, column_of(loops, terms.place), words});
  const Tensor weighted =
      computed(loops, Element::kMul, DType::kF64, all, {column_of(loops, terms.weight), picked});
  const Tensor shares =
      computed(loops, Element::kDiv, DType::kF64, all, {weighted, column_of(loops, terms.share)});
  const Tensor sums = filled(loops, Dims{all[0], results, all[2]}, DType::kF64, Scalar(0.0));
  const Tensor index = column_of(loops, terms.result).as_view({all, {0, 1, 0}, DType::kI64}, 0);
  loops.scatter({Fold::kSum, sums, 1, index, shares, words});
  return computed(loops, Element::kDiv, DType::kF64, sums.shape(),
                  {sums, column_of(loops, terms.divisor)});
}

// To 0 .. 255.
Tensor rounded_to_bytes(Loops& loops, const Tensor& values) {
  const auto step = [&](Element function, std::initializer_list<LocalArg> operands) {
    return computed(loops, function, DType::kF64, values.shape(), operands);
  };
  const Tensor moved = step(Element::kAdd, {values, Scalar(0.5)});
  return step(Element::kClamp, {step(Element::kFloor, {moved}), Scalar(0.0), Scalar(255.0)});
}

void resample(Loops& loops, const KernelCall& call) {
  const Tensor &self = tensor_arg(call, 0), &out = call.outputs[0];
  if (out.numel() == 0) return;
  const auto kernel = std::ranges::find(resampling_kernels(), call.kernel, &ResamplingKernel::id);
  check_invariant(kernel != resampling_kernels().end(), "a kernel that resamples");
  const Resampling resampling = kernel->plan(call);
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
    const std::span<const std::int64_t> sizes = shape;
    const Dims lines{product(sizes.first(sampled.dim)), sizes[sampled.dim],
                     product(sizes.subspan(sampled.dim + 1))};
    values =
        summed(loops, values.as_view(contiguous_meta(lines, DType::kF64), values.offset()), terms);
    if (resampling.in_bytes) values = rounded_to_bytes(loops, values);
    shape[sampled.dim] = values.size(1);
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
  if (call.kernel == KernelId::kFractionalMaxPool) {
    const Tensor& numbers = tensor_arg(call, 3);
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
  for (const ResamplingKernel& kernel : resampling_kernels()) table.set(kernel.id, resample);
  table.set(KernelId::kMaxPool, largest);
  table.set(KernelId::kAdaptiveMaxPool, largest);
  table.set(KernelId::kFractionalMaxPool, largest);
}

}  // namespace shardlab
