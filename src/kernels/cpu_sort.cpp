// Sorting on the CPU. Elements become entries of an unsigned key and their place, no two of which
// are equal. If few are wanted, the first so far are kept in a heap.
#include <algorithm>

#include "kernels/cpu_loops.h"
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
void sort_by(Rows<T>& rows, std::int64_t wanted, T* keys, std::int64_t* places) {
  RowSorter<order, Key> sorter(rows.size(), wanted);
  for (std::int64_t i = 0; i < rows.count(); ++i) {
    const T* row = rows.row(i);
    const SortEntry<Key>* entries = sorter.sorted(row);
    for (std::int64_t j = 0; j < wanted; ++j) {
      *keys++ = row[entries[j].place];
      *places++ = static_cast<std::int64_t>(entries[j].place);
    }
  }
}

// A place has the width of a key: rows that have more places take wide ones.
template <SortOrder order, typename T>
void sort_in(Rows<T>& rows, std::int64_t wanted, T* keys, std::int64_t* places) {
  if (static_cast<std::uint64_t>(rows.size()) <= std::numeric_limits<SortKey<T>>::max()) {
    sort_by<order, SortKey<T>, T>(rows, wanted, keys, places);
  } else {
    sort_by<order, std::uint64_t, T>(rows, wanted, keys, places);
  }
}

}  // namespace

Sorted CpuLoops::sorted(const Tensor& self, const DimMask& dim, SortOrder order,
                        std::int64_t wanted) {
  Sorted made;
  with_compute_type<kNoComplex>(self.dtype(), [&](auto type) {
    using T = decltype(type);
    Rows<T> rows(self, dim);
    const Dims shape{rows.count(), wanted};
    made = {empty(device(), shape, dtype_of<T>()), empty(device(), shape, DType::kI64)};
    T* const keys = RowMajorOutput<T>(made.keys).data();
    auto* const places = RowMajorOutput<std::int64_t>(made.places).data();
    switch (order) {
      case SortOrder::kAscending:
        return sort_in<SortOrder::kAscending>(rows, wanted, keys, places);
      case SortOrder::kDescending:
        return sort_in<SortOrder::kDescending>(rows, wanted, keys, places);
      case SortOrder::kNanFirst:
        return sort_in<SortOrder::kNanFirst>(rows, wanted, keys, places);
    }
  });
  return made;
}

void CpuLoops::search(const Search& search) {
  with_compute_type<kNoComplex>(search.sorted.dtype(), [&](auto type) {
    using T = decltype(type);
    const RowMajor<T> sorted(search.sorted), wanted(search.wanted);
    std::int64_t* const out = RowMajorOutput<std::int64_t>(search.out).data();
    const std::int64_t size = search.sorted.shape().back();
    for (std::int64_t i = 0; i < search.wanted.numel(); ++i) {
      out[i] = count_before(sorted.data() + i / search.per_row * size, size, wanted.data()[i],
                            search.order, search.equals);
    }
  });
}

}  // namespace shardlab
