// Statistics of a dim by order and counting: medians, k-th values, the most frequent value;
// histograms, and places among sorted boundaries. NaN is the largest.
#include <algorithm>
#include <vector>

#include "kernels/elementwise.h"
#include "kernels/functors.h"
#include "kernels/kernel_table.h"
#include "kernels/rows.h"
#include "kernels/sort_keys.h"

namespace shardlab {

namespace {

template <typename T>
bool is_less(T a, T b) {
  return goes_before(SortOrder::kAscending, a, b);
}

template <SortOrder order, typename T>
std::vector<SortEntry<std::uint64_t>> entries_of(const T* row, std::int64_t count) {
  std::vector<SortEntry<std::uint64_t>> entries(static_cast<std::size_t>(count));
  make_entries<order>(row, count, entries.data());
  return entries;
}

// The place of the k-th smallest, from 0 on; the first one among equals.
template <typename T>
std::int64_t place_of_kth(const T* row, std::int64_t count, std::int64_t k) {
  auto entries = entries_of<SortOrder::kAscending>(row, count);
  std::nth_element(entries.begin(), entries.begin() + k, entries.end());
  return static_cast<std::int64_t>(entries[static_cast<std::size_t>(k)].place);
}

// The lower one of two in the middle; NaN where one is.
struct Median {
  template <typename T>
  static std::int64_t place(const T* row, std::int64_t count) {
    const T* nan = std::find_if(row, row + count, is_nan<T>);
    return nan != row + count ? nan - row : place_of_kth(row, count, (count - 1) / 2);
  }
};

// Of the numbers; NaN where there are none.
struct NanMedian {
  template <typename T>
  static std::int64_t place(const T* row, std::int64_t count) {
    const std::int64_t numbers = count - std::count_if(row, row + count, is_nan<T>);
    return numbers == 0 ? 0 : place_of_kth(row, count, (numbers - 1) / 2);
  }
};

// The least among the most frequent values, at its last place. NaN is the largest, but the least
// where the row begins with it, as the reference's sort leaves it.
struct Mode {
  template <typename T>
  static std::int64_t place(const T* row, std::int64_t count) {
    auto entries = is_nan(row[0]) ? entries_of<SortOrder::kNanFirst>(row, count)
                                  : entries_of<SortOrder::kAscending>(row, count);
    std::sort(entries.begin(), entries.end());
    const auto value = [&](std::size_t i) { return row[entries[i].place]; };
    std::uint64_t best = entries[0].place;
    std::int64_t most = 0, run = 0;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      run = i > 0 && value(i) == value(i - 1) ? run + 1 : 1;
      const bool ends = i + 1 == entries.size() || value(i + 1) != value(i);
      if (!ends || run <= most) continue;
      most = run;
      best = entries[i].place;
    }
    return static_cast<std::int64_t>(best);
  }
};

// (self, dim, keepdim): values and places; `place(row, count)` gives the place.
template <typename Place>
void selected_rows(const KernelCall& call, std::size_t dim_argument, Place place) {
  const Tensor& self = tensor_arg(call, 0);
  with_compute_type<kNoComplex>(self.dtype(), [&](auto type) {
    using T = decltype(type);
    Rows<T> rows(self, single_dim(int_arg(call, dim_argument), self));
    const auto values = scratch<T>(rows.count());
    const auto indices = scratch<std::int64_t>(rows.count());
    for (std::int64_t i = 0; i < rows.count(); ++i) {
      const T* row = rows.row(i);
      indices[i] = place(row, rows.size());
      values[i] = row[indices[i]];
    }
    store_row_major(call.outputs[0], values.get(), dtype_of<T>());
    store_row_major(call.outputs[1], indices.get(), DType::kI64);
  });
}

template <typename Statistic>
void along_dim_kernel(const KernelCall& call) {
  selected_rows(call, 1,
                [](const auto* row, std::int64_t count) { return Statistic::place(row, count); });
}

// kthvalue(self, k, dim, keepdim)
void kthvalue_kernel(const KernelCall& call) {
  const std::int64_t k = int_arg(call, 1) - 1;
  selected_rows(call, 2,
                [k](const auto* row, std::int64_t count) { return place_of_kth(row, count, k); });
}

// Of all elements; of none NaN, or the least integer.
template <typename Statistic>
void overall_kernel(const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  with_compute_type<kNoComplex>(self.dtype(), [&](auto type) {
    using T = decltype(type);
    const RowMajor<T> all(self);
    T value = std::numeric_limits<T>::has_quiet_NaN ? std::numeric_limits<T>::quiet_NaN()
                                                    : std::numeric_limits<T>::lowest();
    if (self.dtype() == DType::kI32) value = static_cast<T>(std::numeric_limits<int>::lowest());
    if (self.numel() > 0) value = all.data()[Statistic::place(all.data(), self.numel())];
    store_row_major(call.outputs[0], &value, dtype_of<T>());
  });
}

// histc(self, bins, min, max): without bounds those of the elements; elements beyond them are not
// counted.
void histc_kernel(const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  const std::int64_t bins = int_arg(call, 1);
  const auto rounded = [&](double number) {
    std::byte element[16];
    convert_run({element, 1, self.dtype()}, {&number, 1, DType::kF64}, 1);
    convert_run({&number, 1, DType::kF64}, {element, 1, self.dtype()}, 1);
    return number;
  };
  // Bounds are elements, too.
  double low = rounded(scalar_arg(call, 2).to_double());
  double high = rounded(scalar_arg(call, 3).to_double());
  const RowMajor<double> all(self);
  const double* const first = all.data();
  const double* const last = first + self.numel();
  if (low == high && first != last) {
    low = *std::min_element(first, last);
    high = *std::max_element(first, last);
  }
  if (low == high) {
    low -= 1;
    high += 1;
  }
  std::vector<double> counts(static_cast<std::size_t>(bins), 0);
  for (const double* x = first; x != last; ++x) {
    if (!(*x >= low && *x <= high)) continue;
    // Every step is rounded to the dtype, as in the reference.
    const double part = rounded(rounded(*x - low) * rounded(static_cast<double>(bins)));
    const auto bin = static_cast<std::int64_t>(rounded(part / rounded(high - low)));
    ++counts[static_cast<std::size_t>(std::min(bin, bins - 1))];
  }
  store_row_major(call.outputs[0], counts.data(), DType::kF64);
}

// bucketize(self, boundaries, *, out_int32, right): number of boundaries that are below, or not
// above.
void bucketize_kernel(const KernelCall& call) {
  const RowMajor<double> boundaries(tensor_arg(call, 1));
  const double* const first = boundaries.data();
  const double* const last = first + tensor_arg(call, 1).numel();
  const bool right = scalar_arg(call, 3).to_bool();
  const auto bucket = [&](double x) -> std::int64_t {
    const double* const place = right ? std::upper_bound(first, last, x, is_less<double>)
                                      : std::lower_bound(first, last, x, is_less<double>);
    return place - first;
  };
  const Tensor& out = call.outputs[0];
  const auto buckets = scratch<std::int64_t>(out.numel());
  if (const auto* number = std::get_if<Scalar>(&call.args[0])) {
    buckets[0] = bucket(number->to_double());
  } else {
    const RowMajor<double> self(tensor_arg(call, 0));
    std::transform(self.data(), self.data() + out.numel(), buckets.get(), bucket);
  }
  store_row_major(out, buckets.get(), DType::kI64);
}

}  // namespace

void add_order_statistics_kernels(KernelTable& table) {
  table.set(KernelId::kKthvalue, kthvalue_kernel);
  table.set(KernelId::kMedian, overall_kernel<Median>);
  table.set(KernelId::kNanMedian, overall_kernel<NanMedian>);
  table.set(KernelId::kMedianDim, along_dim_kernel<Median>);
  table.set(KernelId::kNanMedianDim, along_dim_kernel<NanMedian>);
  table.set(KernelId::kMode, along_dim_kernel<Mode>);
  table.set(KernelId::kHistc, histc_kernel);
  table.set(KernelId::kBucketize, bucketize_kernel);
}

}  // namespace shardlab
