// Sorting along one dim, and the first values in an order. Elements become entries of an unsigned
// key and their place, no two of which are equal. If few are wanted, the first so far are kept in a
// heap.
#include <algorithm>

#include "kernels/elementwise.h"
#include "kernels/kernel_table.h"
#include "kernels/rows.h"
#include "kernels/sort_keys.h"

namespace shardlab {

namespace {

// Sorts rows of `size` elements; its memory serves all of them.
template <SortOrder order, typename Key>
class RowSorter {
 public:
  using Entry = SortEntry<Key>;

  RowSorter(std::int64_t size, std::int64_t wanted)
      : size_(size),
        wanted_(wanted),
        few_(wanted * kFew <= size),
        entries_(scratch<Entry>(few_ ? wanted : size)) {}

  // The first `wanted` entries of the row, in order. Valid until the next call.
  template <typename T>
  const Entry* sorted(const T* row) {
    if (few_) {
      keep_first(row);
      return entries_.get();
    }
    make_entries<order>(row, size_, entries_.get());
    std::sort(entries_.get(), entries_.get() + size_);
    return entries_.get();
  }

 private:
  static constexpr std::int64_t kFew = 32;  // a heap of one in so many is worth it

  // A later element does not replace an equal one.
  template <typename T>
  void keep_first(const T* row) {
    if (wanted_ == 0) return;
    Entry *const first = entries_.get(), *const last = first + wanted_;
    make_entries<order>(row, wanted_, first);
    std::make_heap(first, last);
    for (std::int64_t i = wanted_; i < size_; ++i) {
      const Key key = sort_key<order>(row[i]);
      if (key >= first->key) continue;
      std::pop_heap(first, last);
      last[-1] = {key, static_cast<Key>(i)};
      std::push_heap(first, last);
    }
    std::sort_heap(first, last);
  }

  std::int64_t size_, wanted_;
  bool few_;
  Scratch<Entry> entries_;
};

template <SortOrder order, typename Key, typename T>
void sort_by(const KernelCall& call, const DimMask& dim, std::int64_t wanted) {
  OutputRows<T> values(call.outputs[0], dim);
  OutputRows<std::int64_t> places(call.outputs[1], dim);
  Rows<T> rows(tensor_arg(call, 0), dim);
  RowSorter<order, Key> sorter(rows.size(), wanted);
  const auto sorted = scratch<T>(wanted);
  for (std::int64_t i = 0; i < rows.count(); ++i) {
    const T* row = rows.row(i);
    const SortEntry<Key>* entries = sorter.sorted(row);
    for (std::int64_t j = 0; j < wanted; ++j) sorted[j] = row[entries[j].place];
    values.write(i, [&](T* to) { std::copy_n(sorted.get(), wanted, to); });
    places.write(i, [&](std::int64_t* to) {
      for (std::int64_t j = 0; j < wanted; ++j) to[j] = static_cast<std::int64_t>(entries[j].place);
    });
  }
  values.store();
  places.store();
}

// A place has the width of a key: rows that have more places take wide ones.
template <SortOrder order, typename T>
void sort_in(const KernelCall& call, const DimMask& dim, std::int64_t wanted) {
  const auto size = static_cast<std::uint64_t>(RowLayout(tensor_arg(call, 0), dim).size());
  if (size <= std::numeric_limits<SortKey<T>>::max()) {
    sort_by<order, SortKey<T>, T>(call, dim, wanted);
  } else {
    sort_by<order, std::uint64_t, T>(call, dim, wanted);
  }
}

void sort_rows(const KernelCall& call, std::int64_t dim_argument, std::int64_t wanted,
               const Scalar& descending) {
  const Tensor& self = tensor_arg(call, 0);
  const DimMask dim = single_dim(dim_argument, self);
  with_compute_type<kIntegerKind | kRealKind>(self.dtype(), [&](auto type) {
    using T = decltype(type);
    if (descending.to_bool()) {
      sort_in<SortOrder::kDescending, T>(call, dim, wanted);
    } else {
      sort_in<SortOrder::kAscending, T>(call, dim, wanted);
    }
  });
}

// (self, dim, descending) from argument `first` on.
template <std::size_t first>
void sort_kernel(const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  const std::int64_t dim = int_arg(call, first);
  sort_rows(call, dim, RowLayout(self, single_dim(dim, self)).size(), scalar_arg(call, first + 1));
}

// topk(self, k, dim, largest, sorted); always sorted.
void topk_kernel(const KernelCall& call) {
  const std::int64_t wanted = tensor_arg(call, 0).dim() == 0 ? 1 : int_arg(call, 1);
  sort_rows(call, int_arg(call, 2), wanted, scalar_arg(call, 3));
}

}  // namespace

void add_sorting_kernels(KernelTable& table) {
  table.set(KernelId::kSort, sort_kernel<1>);
  table.set(KernelId::kSortStable, sort_kernel<2>);
  table.set(KernelId::kTopk, topk_kernel);
}

}  // namespace shardlab
