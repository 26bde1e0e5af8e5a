// Rows of different lengths that follow each other along one dim, each reduced to one element, and
// the way back. The beginnings of segments are separate data, for each index of the dims in front.
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "base/error.h"
#include "kernels/kernel_args.h"
#include "kernels/kernel_table.h"
#include "kernels/scatter_reduction.h"
#include "kernels/scratch.h"

namespace shardlab {
namespace {

using Segmented = ScatterReduction;

/// Places of its arguments in a call.
struct SegmentPlaces {
  std::size_t data, reduce, lengths, offsets, axis, initial;
};
constexpr SegmentPlaces kForward{0, 1, 2, 4, 5, 7}, kBackward{2, 3, 4, 5, 6, 7};

/// data [outer, size, inner], of which segment s of `outer` is from bound(outer, s) to
/// bound(outer, s + 1).
class Segments {
 public:
  Segments(const KernelCall& call, const SegmentPlaces& places)
      : reduction_(segment_reduction_named(*optional_text_arg(call, places.reduce)).value()),
        initial_(optional_scalar_arg(call, places.initial)) {
    const Tensor& data = tensor_arg(call, places.data);
    const std::size_t axis = wrapped_dim(int_arg(call, places.axis), data.shape().size());
    const std::span<const std::int64_t> sizes = data.shape();
    outer = product(sizes.first(axis));
    size = sizes[axis];
    inner = product(sizes.subspan(axis + 1));
    const Tensor* offsets = optional_tensor_arg(call, places.offsets);
    const Tensor& given = offsets ? *offsets : tensor_arg(call, places.lengths);
    count = given.size(given.shape().size() - 1) - (offsets ? 1 : 0);
    if (offsets) {
      take_offsets(given);
    } else {
      add_lengths(given);
    }
    for (std::size_t i = 0; i < bounds_.size(); ++i) check(i);
  }

  std::int64_t outer = 1, size = 0, inner = 1, count = 0;

  /// Fails where lengths leave some of the data over.
  void require_all() const {
    for (std::int64_t row = 0; row < outer; ++row) {
      if (bound(row, count) == size) continue;
      fail(Fix{"give lengths that add up to the size of the dim"},
           "segment_reduce: the lengths add up to {}; the dim has {}", bound(row, count), size);
    }
  }
  std::int64_t bound(std::int64_t row, std::int64_t s) const {
    return bounds_[static_cast<std::size_t>(row * (count + 1) + s)];
  }
  Segmented reduction() const { return reduction_; }
  double start() const {
    return initial_ ? initial_->to_double() : neutral<double>(fold_of(reduction_));
  }

  /// visit(first element of the segment in the data, its elements, its element of the result), the
  /// elements of a segment `inner` apart.
  void for_each(auto visit) const {
    for (std::int64_t row = 0; row < outer; ++row) {
      for (std::int64_t s = 0; s < count; ++s) {
        const std::int64_t first = bound(row, s), length = bound(row, s + 1) - first;
        for (std::int64_t i = 0; i < inner; ++i) {
          visit((row * size + first) * inner + i, length, (row * count + s) * inner + i);
        }
      }
    }
  }

  double reduced(const double* data, std::int64_t length) const {
    double value = start();
    for (std::int64_t k = 0; k < length; ++k)
      value = folded(fold_of(reduction_), data[k * inner], value);
    if (reduction_ != Segmented::kMean) return value;
    if (length == 0) return initial_ ? value : std::numeric_limits<double>::quiet_NaN();
    return value / static_cast<double>(length);
  }

 private:
  void take_offsets(const Tensor& offsets) {
    const RowMajor<std::int64_t> given(offsets);
    bounds_.assign(given.data(), given.data() + outer * (count + 1));
  }
  void add_lengths(const Tensor& lengths) {
    const RowMajor<std::int64_t> given(lengths);
    for (std::int64_t row = 0; row < outer; ++row) {
      bounds_.push_back(0);
      for (std::int64_t s = 0; s < count; ++s) {
        bounds_.push_back(bounds_.back() + given.data()[row * count + s]);
      }
    }
  }
  /// Segments follow one another inside the data.
  void check(std::size_t i) const {
    const bool begins = i % static_cast<std::size_t>(count + 1) == 0;
    const std::int64_t least = begins ? 0 : bounds_[i - 1];
    if (bounds_[i] >= least && bounds_[i] <= size) return;
    fail(Fix{"give lengths of 0 or more, or offsets that ascend, inside of the dim"},
         "segment_reduce: a bound of a segment is {}; it must be from {} to {}", bounds_[i], least,
         size);
  }
  Segmented reduction_;
  const Scalar* initial_;
  std::vector<std::int64_t> bounds_;
};

// segment_reduce(data, reduce, *, lengths, indices, offsets, axis, unsafe, initial)
void segment_reduce_kernel(const KernelCall& call) {
  const Segments segments(call, kForward);
  const bool unsafe = scalar_arg(call, 6).to_bool();
  if (!unsafe && optional_tensor_arg(call, kForward.offsets) == nullptr) segments.require_all();
  const RowMajor<double> data(tensor_arg(call, 0));
  const RowMajorOutput<double> out(call.outputs[0]);
  segments.for_each([&](std::int64_t first, std::int64_t length, std::int64_t place) {
    out.data()[place] = segments.reduced(data.data() + first, length);
  });
  out.store();
}

/// Equal extrema share the gradient; a NaN is one.
void share_extremum(const Segments& segments, const double* data, std::int64_t length,
                    double extremum, double flow, double* result) {
  const auto is_extremum = [&](std::int64_t k) {
    const double x = data[k * segments.inner];
    return x == extremum || std::isnan(x);
  };
  double equal = 0;
  for (std::int64_t k = 0; k < length; ++k) equal += is_extremum(k);
  for (std::int64_t k = 0; k < length; ++k) {
    if (is_extremum(k)) result[k * segments.inner] = flow / equal;
  }
}

/// Each element gets the product of the others, which needs no division by zero.
void share_product(const Segments& segments, const double* data, std::int64_t length, double flow,
                   double* result) {
  for (std::int64_t k = 0; k < length; ++k) {
    double others = segments.start();
    for (std::int64_t other = 0; other < length; ++other) {
      if (other != k) others *= data[other * segments.inner];
    }
    result[k * segments.inner] = flow * others;
  }
}

// _segment_reduce_backward(grad, output, data, reduce, *, lengths, offsets, axis, initial)
void segment_reduce_backward_kernel(const KernelCall& call) {
  const Segments segments(call, kBackward);
  const RowMajor<double> grad(tensor_arg(call, 0)), output(tensor_arg(call, 1)),
      data(tensor_arg(call, 2));
  const RowMajorOutput<double> out(call.outputs[0]);
  std::fill_n(out.data(), call.outputs[0].numel(), 0.0);
  segments.for_each([&](std::int64_t first, std::int64_t length, std::int64_t place) {
    const double flow = grad.data()[place];
    double* const result = out.data() + first;
    switch (segments.reduction()) {
      case Segmented::kLargest:
      case Segmented::kLeast:
        return share_extremum(segments, data.data() + first, length, output.data()[place], flow,
                              result);
      case Segmented::kProduct:
        return share_product(segments, data.data() + first, length, flow, result);
      case Segmented::kSum:
      case Segmented::kMean:
        break;
    }
    const bool mean = segments.reduction() == Segmented::kMean;
    for (std::int64_t k = 0; k < length; ++k) {
      result[k * segments.inner] = mean ? flow / static_cast<double>(length) : flow;
    }
  });
  out.store();
}

}  // namespace

void add_segment_kernels(CpuKernelTable& table) {
  table.set(KernelId::kSegmentReduce, segment_reduce_kernel);
  table.set(KernelId::kSegmentReduceBackward, segment_reduce_backward_kernel);
}

}  // namespace shardlab
