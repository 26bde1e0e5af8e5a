// bodies.h - everything but pointwise functors: moves, reductions, lookups, scatters, values by
// position, products of integers. Platform: for_each(count, body), and fold(segments, load, out,
// op, first), which folds load(j) over the elements j of segment i into out[i].
#pragma once

#include "backends/cuda/elements.h"
#include "kernels/philox.h"
#include "kernels/position_laws.h"
#include "kernels/running.h"

namespace shardlab::cuda {

template <typename Unit>
struct MoveBody {
  MoveCall call;
  SHARDLAB_HD void operator()(std::int64_t i) const {
    const Place* const places[2] = {&call.out, &call.in};
    const auto offsets = offsets_of(call.shape, places, i);
    static_cast<Unit*>(call.out.data)[offsets.at[0]] =
        static_cast<const Unit*>(call.in.data)[offsets.at[1]];
  }
};

template <typename Platform>
Failure run_move(Platform& platform, const MoveCall& call) {
  return in_units(call.item_bytes, [&](auto unit) {
    return platform.for_each(call.shape.count, MoveBody<decltype(unit)>{call});
  });
}

// Reductions.

/// The pieces of a fold, one behind the other.
struct Segments {
  std::int64_t count;
  std::int64_t row_size;
  Pieces pieces;

  /// The first element of segment i with edge 0; with 1, that behind its last.
  SHARDLAB_HD std::int64_t at(std::int64_t i, std::int64_t edge) const {
    const std::int64_t into = (i % pieces.per_row + edge) * pieces.size;
    return i / pieces.per_row * row_size + (into < row_size ? into : row_size);
  }
};

inline Segments segments_of(const FoldCall& call) {
  return {call.rows.rows * call.pieces.per_row, call.rows.size, call.pieces};
}

template <typename T>
struct RowLoad {
  Rows rows;
  SHARDLAB_HD SHARDLAB_APART T operator()(std::int64_t i) const {
    const Place* const places[1] = {&rows.source};
    const std::int64_t at = offsets_of(rows.shape, places, i).at[0];
    return load<T>(rows.source.data, rows.source.dtype, at);
  }
};

template <typename T>
struct TruthLoad {
  RowLoad<T> load;
  SHARDLAB_HD std::uint8_t operator()(std::int64_t i) const { return load(i) != T(0) ? 1 : 0; }
};

// One functor for all folds of a type: each takes long to compile into a reduction.
template <typename T>
struct Folded {
  Fold kind;
  SHARDLAB_HD T operator()(T a, T b) const { return folded(kind, b, a); }
};
struct TruthFolded {
  Fold kind;
  SHARDLAB_HD std::uint8_t operator()(std::uint8_t a, std::uint8_t b) const {
    return kind == Fold::kAny ? a | b : a & b;
  }
};

template <typename T, typename Platform>
Failure fold_as(Platform& platform, const FoldCall& call) {
  const RowLoad<T> load{call.rows};
  if (call.fold == Fold::kAny || call.fold == Fold::kAll) {
    const std::uint8_t first = call.fold == Fold::kAll ? 1 : 0;
    return platform.fold(segments_of(call), TruthLoad<T>{load},
                         static_cast<std::uint8_t*>(call.out), TruthFolded{call.fold}, first);
  }
  return platform.fold(segments_of(call), load, static_cast<T*>(call.out), Folded<T>{call.fold},
                       neutral<T>(call.fold));
}

template <typename Platform>
Failure run_fold(Platform& platform, const FoldCall& call) {
  if (call.rows.rows == 0) return nullptr;
  const auto run = [&](auto type) { return fold_as<decltype(type)>(platform, call); };
  return in_compute_type(call.compute, run, "no reduction computes in this dtype");
}

/// A row whose running value each element is combined into.
template <typename T>
struct ScanBody {
  ScanCall call;
  SHARDLAB_HD void operator()(std::int64_t row) const {
    using Wide = std::conditional_t<std::is_same_v<T, float>, double, T>;
    const RowLoad<T> load{call.rows};
    Wide last(call.scan == Scan::kProduct ? 1 : 0);
    for (std::int64_t j = 0; j < call.rows.size; ++j) {
      const std::int64_t at = row * call.rows.size + j;
      const Wide next(load(at));
      const bool alone = j == 0 && call.scan == Scan::kLogOfSum;
      last = alone ? next : combined(last, next);
      static_cast<T*>(call.out)[at] = static_cast<T>(last);
    }
  }

 private:
  template <typename Wide>
  SHARDLAB_HD Wide combined(Wide last, Wide next) const {
    if (call.scan == Scan::kProduct) return product_of(last, next);
    if constexpr (std::is_floating_point_v<Wide>) {
      if (call.scan == Scan::kLogOfSum) return log_of_sum(last, next);
    }
    return sum_of(last, next);
  }
};

/// A row of the extrema so far.
template <typename T>
struct ExtremaBody {
  ScanCall call;
  SHARDLAB_HD void operator()(std::int64_t row) const {
    const RowLoad<T> load{call.rows};
    T best(0);
    std::int64_t stood = 0;
    for (std::int64_t j = 0; j < call.rows.size; ++j) {
      const std::int64_t at = row * call.rows.size + j;
      const T next = load(at);
      if (j == 0 || wins(next, best)) {
        best = next;
        stood = j;
      }
      static_cast<T*>(call.out)[at] = best;
      call.indices[at] = stood;
    }
  }

 private:
  SHARDLAB_HD bool wins(T next, T best) const {
    return call.scan == Scan::kLargest ? takes_over<Extreme::kLargest>(next, best)
                                       : takes_over<Extreme::kSmallest>(next, best);
  }
};

template <typename Platform>
Failure run_scan(Platform& platform, const ScanCall& call) {
  const std::int64_t rows = call.rows.rows;
  constexpr Failure kNone = "nothing runs along rows of this dtype";
  return call.indices != nullptr ? run_elements<ExtremaBody>(platform, call, rows, kNone)
                                 : run_elements<ScanBody>(platform, call, rows, kNone);
}

// Indices from data.

/// The local place of `global` in the runs, or -1.
SHARDLAB_HD inline std::int64_t local_place(const Runs& runs, std::int64_t global) {
  std::int64_t before = 0;
  for (int run = 0; run < runs.count; ++run) {
    const std::int64_t into = global - runs.offset[run];
    if (into >= 0 && into < runs.size[run]) return before + into;
    before += runs.size[run];
  }
  return -1;
}

template <typename Unit, typename Platform>
struct LookupBody {
  LookupCall call;
  typename Platform::Counter bad;
  SHARDLAB_HD void operator()(std::int64_t i) const {
    const Place* const places[4] = {&call.out, &call.source, &call.index, &call.mask};
    const auto offsets = offsets_of(call.shape, places, i);
    const auto wanted = load<std::int64_t>(call.index.data, call.index.dtype, offsets.at[2]);
    const bool valid = wanted >= 0 && wanted < call.extent;
    if (!valid) bad.add();
    const std::int64_t at = valid ? local_place(call.here, wanted) : -1;
    auto* out = static_cast<Unit*>(call.out.data) + offsets.at[0];
    *out = at < 0 ? Unit{}
                  : static_cast<const Unit*>(call.source.data)[offsets.at[1] + at * call.step];
    if (call.mask.data != nullptr) {
      store<std::int64_t>(call.mask.data, DType::kBool, offsets.at[3], at < 0 ? 1 : 0);
    }
  }
};

template <typename Platform>
Failure run_lookup(Platform& platform, const LookupCall& call) {
  const auto bad = platform.counter();
  return in_units(call.item_bytes, [&](auto unit) {
    return platform.for_each(call.shape.count, LookupBody<decltype(unit), Platform>{call, bad});
  });
}

template <typename T, typename Platform>
struct ScatterBody {
  ScatterCall call;
  typename Platform::Counter bad;

  SHARDLAB_HD void operator()(std::int64_t i) const {
    const Place* const places[3] = {&call.out, &call.index, &call.value};
    const auto offsets = offsets_of(call.lines, places, i);
    T* out = static_cast<T*>(call.out.data) + offsets.at[0];
    for (std::int64_t k = 0; k < call.length; ++k) {
      const auto at = load<std::int64_t>(call.index.data, call.index.dtype,
                                         offsets.at[1] + k * call.index_step);
      if (at < 0 || at >= call.extent) {
        bad.add();
        continue;
      }
      const T value = call.value.data == nullptr ? number_of<T>(call.value)
                                                 : load<T>(call.value.data, call.value.dtype,
                                                           offsets.at[2] + k * call.value_step);
      T& element = out[at * call.out_step];
      const bool first =
          call.counts != nullptr && call.counts[offsets.at[0] + at * call.out_step]++ == 0;
      element = first ? value : folded(call.mode, value, element);
    }
  }
};

template <typename Platform>
Failure run_scatter(Platform& platform, const ScatterCall& call) {
  const auto bad = platform.counter();
  const auto run = [&](auto type) {
    return platform.for_each(call.lines.count, ScatterBody<decltype(type), Platform>{call, bad});
  };
  return in_compute_type(call.compute, run, "nothing is scattered in this dtype");
}

// Values by position.

struct DrawBody {
  DrawCall call;

  SHARDLAB_HD std::int64_t global_of(std::int64_t i) const {
    std::int64_t global = 0;
    for (int dim = call.shape.dims - 1; dim >= 0; --dim) {
      std::int64_t index = dim == 0 ? i : i % call.shape.size[dim];
      if (dim > 0) i /= call.shape.size[dim];
      const Runs& runs = call.here[dim];
      for (int run = 0; run < runs.count; ++run) {
        if (index < runs.size[run]) {
          global += (runs.offset[run] + index) * call.global_stride[dim];
          break;
        }
        index -= runs.size[run];
      }
    }
    return global;
  }

  template <typename T>
  SHARDLAB_HD T normal(const NormalSource<T>& source) const {
    const T number = std::sqrt(T(-2) * std::log(source.radius)) *
                     std::cos(source.turn * T(6.283185307179586477));
    return static_cast<T>(call.law.a) + static_cast<T>(call.law.b) * number;
  }

  template <typename T>
  SHARDLAB_HD void put(std::int64_t at, T value) const {
    store<T>(call.out.data, call.out.dtype, at, value);
  }

  SHARDLAB_HD void operator()(std::int64_t i) const {
    const Place* const places[2] = {&call.out, &call.chances};
    const auto at = offsets_of(call.shape, places, i);
    const std::int64_t global = global_of(i);
    const PhiloxWords words =
        element_words(call.seed, call.offset + static_cast<std::uint64_t>(global));
    const DType made = call.law.made_in(call.out.dtype);
    if (call.law.kind == DrawLaw::Kind::kNormal) {
      return made == DType::kF64 ? put(at.at[0], normal(normal_source_double(words)))
                                 : put(at.at[0], normal(normal_source_float(words)));
    }
    if (made == DType::kF32) return put(at.at[0], value<float>(global, words, 0));
    if (made == DType::kF64) return put(at.at[0], value<double>(global, words, 0));
    const double chance = call.chances.data == nullptr
                              ? call.law.a
                              : load<double>(call.chances.data, call.chances.dtype, at.at[1]);
    put(at.at[0], value<std::int64_t>(global, words, chance));
  }

 private:
  template <typename T>
  SHARDLAB_HD T value(std::int64_t global, const PhiloxWords& words, double chance) const {
    return drawn<T>(call.law, global, words, call.out.dtype, chance);
  }
};

template <typename Platform>
Failure run_draw(Platform& platform, const DrawCall& call) {
  return platform.for_each(call.shape.count, DrawBody{call});
}

template <typename T>
struct ProductBody {
  ProductCall call;
  SHARDLAB_HD void operator()(std::int64_t i) const {
    const std::int64_t column = i % call.columns;
    const std::int64_t row = i / call.columns % call.rows;
    const std::int64_t batch = i / call.columns / call.rows;
    const std::int64_t a = batch * call.a.batch_stride + row * call.a.row_stride;
    const std::int64_t b = batch * call.b.batch_stride + column * call.b.column_stride;
    T sum(0);
    for (std::int64_t k = 0; k < call.inner; ++k) {
      const auto left = load<T>(call.a.data, call.dtype, a + k * call.a.column_stride);
      const auto right = load<T>(call.b.data, call.dtype, b + k * call.b.row_stride);
      sum = sum_of(sum, product_of(left, right));
    }
    store<T>(call.out, call.compute, i, sum);
  }
};

/// One element after the other; for integers, and for the host.
template <typename Platform>
Failure run_product(Platform& platform, const ProductCall& call) {
  return run_elements<ProductBody>(platform, call, call.batch * call.rows * call.columns,
                                   "no product computes in this dtype");
}

// Terms of several ranks.
template <typename T>
struct CombineBody {
  CombineCall call;
  SHARDLAB_HD T combined(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if (call.op == ReduceOp::kBitAnd) return a & b;
      if (call.op == ReduceOp::kBitOr) return a | b;
      if (call.op == ReduceOp::kBitXor) return a ^ b;
    }
    const Fold fold = call.op == ReduceOp::kProduct ? Fold::kProduct
                      : call.op == ReduceOp::kMax   ? Fold::kMax
                      : call.op == ReduceOp::kMin   ? Fold::kMin
                                                    : Fold::kSum;
    return folded(fold, a, b);
  }
  SHARDLAB_HD void operator()(std::int64_t i) const {
    T sum = load<T>(call.terms, call.dtype, i);
    for (std::int64_t rank = 1; rank < call.ranks; ++rank) {
      sum = combined(sum, load<T>(call.terms, call.dtype, rank * call.count + i));
    }
    if (call.op == ReduceOp::kAvg) sum = static_cast<T>(sum / static_cast<T>(call.ranks));
    // Sum of bool is "any".
    if (call.dtype == DType::kBool && call.op != ReduceOp::kBitXor) sum = sum != T(0) ? T(1) : T(0);
    store<T>(call.out, call.dtype, i, sum);
  }
};

template <typename Platform>
Failure run_combine(Platform& platform, const CombineCall& call) {
  switch (call.dtype) {
    case DType::kF16:
    case DType::kBF16:
    case DType::kF32:
      return platform.for_each(call.count, CombineBody<float>{call});
    case DType::kF64:
      return platform.for_each(call.count, CombineBody<double>{call});
    case DType::kC64:
    case DType::kC128:
    case DType::kF8E4M3FN:
    case DType::kC32:
    case DType::kBC32:
      return "terms of this dtype are not combined on the device";
    case DType::kU64:
      return platform.for_each(call.count, CombineBody<std::uint64_t>{call});
    default:
      return platform.for_each(call.count, CombineBody<std::int64_t>{call});
  }
}

template <typename Platform>
Failure run_order(Platform& platform, const backends::Ordering& call) {
  return platform.for_each(call.count, backends::OrderBody{call});
}

}  // namespace shardlab::cuda
