// sort_bodies.h - sorting by merging. Each element of a run finds its place among those of its
// sibling by a binary search, all at once: behind the equals of a run to its left, before those of
// one to its right.
#pragma once

#include "backends/cuda/elements.h"

namespace shardlab::cuda {

template <typename T>
struct MergeBody {
  MergeCall call;
  SHARDLAB_HD void operator()(std::int64_t i) const {
    const std::int64_t row = i / call.size, at = i % call.size;
    const std::int64_t run = at / call.run, pair = run / 2;
    const bool is_left = run % 2 == 0;
    const T* keys = static_cast<const T*>(call.from) + row * call.size;
    const std::int64_t sibling = (is_left ? run + 1 : run - 1) * call.run;
    const std::int64_t behind = call.size - sibling;
    const std::int64_t length = behind < 0 ? 0 : behind < call.run ? behind : call.run;
    const auto equals = is_left ? Equals::kLeftOut : Equals::kCounted;
    const std::int64_t place =
        at - run * call.run + count_before(keys + sibling, length, keys[at], call.order, equals);
    if (place >= call.kept) return;
    const std::int64_t to = row * call.to_size + pair * call.kept + place;
    static_cast<T*>(call.to)[to] = keys[at];
    call.places[to] = call.stood == nullptr ? at : call.stood[i];
  }
};

template <typename Platform>
Failure run_merge(Platform& platform, const MergeCall& call) {
  return run_elements<MergeBody>(platform, call, call.rows * call.size,
                                 "nothing is sorted in this dtype");
}

template <typename T>
struct SearchBody {
  SearchCall call;
  SHARDLAB_HD void operator()(std::int64_t i) const {
    const T* sorted = static_cast<const T*>(call.sorted) + i / call.per_row * call.size;
    call.out[i] = count_before(sorted, call.size, static_cast<const T*>(call.wanted)[i], call.order,
                               call.equals);
  }
};

template <typename Platform>
Failure run_search(Platform& platform, const SearchCall& call) {
  return run_elements<SearchBody>(platform, call, call.count,
                                  "nothing is searched for in this dtype");
}

}  // namespace shardlab::cuda
