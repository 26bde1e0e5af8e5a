// Sorting along one dim, and the first values in an order. Elements become entries of an unsigned
// key and their place. Rows of some length are sorted digit by digit, from the last digit of the
// keys on: each pass keeps the order of the one before, so that equal elements keep theirs, and
// digits that all keys share take no pass. If few are wanted, the first so far are kept in a heap.
#include <algorithm>
#include <array>
#include <vector>

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
        entries_(scratch<Entry>(few_ ? wanted : size)),
        other_(scratch<Entry>(few_ ? 0 : size)) {}

  // The first `wanted` entries of the row, in order. Valid until the next call.
  template <typename T>
  const Entry* sorted(const T* row) {
    if (few_) {
      keep_first(row);
      return entries_.get();
    }
    make_entries<order>(row, size_, entries_.get());
    if (size_ < kLong) {
      std::sort(entries_.get(), entries_.get() + size_);
    } else {
      sort_digits();
    }
    return entries_.get();
  }

 private:
  static constexpr std::int64_t kFew = 32;    // a heap of one in so many is worth it
  static constexpr std::int64_t kLong = 256;  // shorter rows are sorted by comparing
  static constexpr int kDigitBits = 8;
  static constexpr std::size_t kDigits = sizeof(Key);  // of eight bits

  static std::size_t digit(Key key, std::size_t index) {
    return static_cast<std::size_t>(key >> (index * kDigitBits)) & 0xFF;
  }

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

  void sort_digits() {
    for (auto& counts : counts_) counts.fill(0);
    for (std::int64_t i = 0; i < size_; ++i) {
      for (std::size_t d = 0; d < kDigits; ++d) ++counts_[d][digit(entries_[i].key, d)];
    }
    for (std::size_t d = 0; d < kDigits; ++d) {
      if (counts_[d][digit(entries_[0].key, d)] != size_) sort_digit(d);
    }
  }

  // Counts become the beginnings of the entries of each digit.
  void sort_digit(std::size_t index) {
    std::array<std::int64_t, 256>& begin = counts_[index];
    std::int64_t before = 0;
    for (std::int64_t& count : begin) before += std::exchange(count, before);
    for (std::int64_t i = 0; i < size_; ++i) {
      other_[begin[digit(entries_[i].key, index)]++] = entries_[i];
    }
    std::swap(entries_, other_);
  }

  std::int64_t size_, wanted_;
  bool few_;
  Scratch<Entry> entries_, other_;
  std::array<std::array<std::int64_t, 256>, kDigits> counts_;
};

template <SortOrder order, typename Key, typename T>
void sort_by(const KernelCall& call, const DimMask& dim, std::int64_t wanted) {
  OutputRows<T> values(call.outputs[0], dim);
  OutputRows<std::int64_t> places(call.outputs[1], dim);
  Rows<T> rows(tensor_arg(call, 0), dim);
  const auto sorter = std::make_unique<RowSorter<order, Key>>(rows.size(), wanted);
  const auto sorted = scratch<T>(wanted);
  for (std::int64_t i = 0; i < rows.count(); ++i) {
    const T* row = rows.row(i);
    const SortEntry<Key>* entries = sorter->sorted(row);
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
