// Layer normalisation and its gradients. f16 and bf16 are computed in f32.
#include <cmath>
#include <optional>
#include <vector>

#include "kernels/elementwise.h"
#include "kernels/kernel_table.h"
#include "kernels/row_reduce.h"
#include "kernels/rows.h"
#include "kernels/vectors.h"

namespace shardlab {

namespace {

// weight or bias in row-major order; `fallback` everywhere for None.
template <typename T>
std::vector<T> affine(const Tensor* tensor, std::int64_t size, T fallback) {
  std::vector<T> values(static_cast<std::size_t>(size), fallback);
  if (tensor != nullptr) load_row_major(values.data(), dtype_of<T>(), *tensor);
  return values;
}

// The squared distance of each element of a row from its mean.
template <typename T>
struct SquaredDistance {
  T mean;

  T operator()(T value, std::int64_t) const { return (value - mean) * (value - mean); }
  void vector(VectorOf<T>& values, std::int64_t) const {
    values -= mean;
    values *= values;
  }
};

template <typename T>
struct Moments {
  T mean;
  T rstd;
};

// The sum of map(element) over a row.
template <typename T, typename Stored, typename Map>
T mapped_sum(const Stored* x, std::int64_t size, const Map& map) {
  return reduce_line<SumOp, T>(MappedLine<Stored, T, T, Map>{x, map, 0}, size);
}

template <typename T, typename Stored>
Moments<T> moments_of(const Stored* x, std::int64_t size, T epsilon) {
  const SquaredDistance<T> distance{mapped_sum<T>(x, size, Unchanged()) / T(size)};
  const T squares = mapped_sum<T>(x, size, distance);
  return {distance.mean, T(1) / std::sqrt(squares / T(size) + epsilon)};
}

// native_layer_norm(input, normalized_shape, weight, bias, eps) -> output, mean, rstd
template <typename T>
struct LayerNorm {
  explicit LayerNorm(const KernelCall& forward)
      : call(forward),
        input(tensor_arg(call, 0)),
        out(call.outputs[0]),
        dims(normalized_dims(input, call, 1)),
        layout(input, dims),
        size(layout.size()),
        weight(affine<T>(optional_tensor_arg(call, 2), size, T(1))),
        bias(affine<T>(optional_tensor_arg(call, 3), size, T(0))),
        epsilon(static_cast<T>(scalar_arg(call, 4).to_double())),
        means(scratch<T>(layout.rows())),
        rstds(scratch<T>(layout.rows())) {}

  void run() {
    const auto stored = [&](auto element) { run_stored<decltype(element)>(); };
    if (!with_stored_rows<T>({&input, &out}, dims, stored)) run_converted();
    store_row_major(call.outputs[1], means.get(), dtype_of<T>());
    store_row_major(call.outputs[2], rstds.get(), dtype_of<T>());
  }

 private:
  template <typename Stored>
  void run_row(std::int64_t i, const Stored* x, Stored* to) {
    const Moments<T> moments = moments_of<T>(x, size, epsilon);
    means[i] = moments.mean;
    rstds[i] = moments.rstd;
    const T *const factors = weight.data(), *const offsets = bias.data();
    for_vectors<T>(size, [=](std::int64_t j, std::int64_t some) {
      VectorOf<T> value, factor, offset;
      load_some<T>(value, x + j, some);
      load_some<T>(factor, factors + j, some);
      load_some<T>(offset, offsets + j, some);
      value = (value - moments.mean) * moments.rstd * factor + offset;
      store_some<T>(to + j, value, some);
    });
  }

  template <typename Stored>
  void run_stored() {
    const RowLayout to_layout(out, dims);
    auto* const to = reinterpret_cast<Stored*>(writable_bytes(out));
    const auto* const x = reinterpret_cast<const Stored*>(readable_bytes(input));
    for (std::int64_t i = 0; i < layout.rows(); ++i) {
      run_row(i, x + layout.offset_of(i), to + to_layout.offset_of(i));
    }
  }

  void run_converted() {
    OutputRows<T> output(out, dims);
    Rows<T> rows(input, dims);
    for (std::int64_t i = 0; i < layout.rows(); ++i) {
      const T* const row = rows.row(i);
      output.write(i, [&](T* to) { run_row(i, row, to); });
    }
    output.store();
  }

  const KernelCall& call;
  const Tensor &input, &out;
  DimMask dims;
  RowLayout layout;
  std::int64_t size;
  std::vector<T> weight, bias;
  T epsilon;
  Scratch<T> means, rstds;
};

// One row: the gradient of the input, and the row's part of those of weight and bias.
template <typename T, typename Stored>
struct LayerNormRow {
  const Stored* grad;
  const Stored* input;
  Moments<T> moments;

  // Elements from j on: gradients, and inputs as they were normalized.
  void load(std::int64_t j, std::int64_t some, VectorOf<T>& slope, VectorOf<T>& normal) const {
    load_some<T>(slope, grad + j, some);
    load_some<T>(normal, input + j, some);
    normal = (normal - moments.mean) * moments.rstd;
  }
  T slope(std::int64_t j) const { return widened<T>(grad[j]); }
  T normal(std::int64_t j) const { return (widened<T>(input[j]) - moments.mean) * moments.rstd; }
};

// The sum of a row's gradients times weight, and that of their products with normalized inputs.
template <typename T>
struct GradSums {
  T scaled;
  T along;
};

struct GradSumsOp {
  template <typename T>
  static GradSums<T> combine(const GradSums<T>& a, const GradSums<T>& b) {
    return {a.scaled + b.scaled, a.along + b.along};
  }
};

// Of one leaf, in the order of all sums.
template <typename T, typename Stored>
GradSums<T> leaf_sums(const LayerNormRow<T, Stored>& row, const T* weight, std::int64_t first,
                      std::int64_t count) {
  Lanes<SumOp, T> scaled, along;
  const auto lanes = [&](std::int64_t i, std::int64_t lane, std::int64_t some, VectorOf<T>& to,
                         VectorOf<T>& product) {
    VectorOf<T> factor;
    row.load(i + lane, some, to, product);
    load_some<T>(factor, weight + i + lane, some);
    to *= factor;
    product *= to;
  };
  std::int64_t i = first;
  for (; i + kReduceLanes <= first + count; i += kReduceLanes) {
    VectorOf<T> products[kReduceLanes / kWidthOf<T>];
    scaled.take([&](std::int64_t lane, VectorOf<T>& to) {
      lanes(i, lane, kWidthOf<T>, to, products[lane / kWidthOf<T>]);
    });
    along.take([&](std::int64_t lane, VectorOf<T>& to) { to = products[lane / kWidthOf<T>]; });
  }
  if (const std::int64_t rest = first + count - i; rest > 0) {
    T slopes[kReduceLanes] = {}, products[kReduceLanes] = {};
    for_vectors<T>(rest, [&](std::int64_t lane, std::int64_t some) {
      VectorOf<T> slope, product;
      lanes(i, lane, some, slope, product);
      store_some<T>(slopes + lane, slope, some);
      store_some<T>(products + lane, product, some);
    });
    scaled.take(static_cast<const T*>(slopes));
    along.take(static_cast<const T*>(products));
  }
  return {scaled.folded(), along.folded()};
}

template <typename T, typename Stored>
void input_gradient(const LayerNormRow<T, Stored>& row, std::int64_t size, const T* weight,
                    Stored* to) {
  const auto leaf = [&](std::int64_t first, std::int64_t count) {
    return leaf_sums(row, weight, first, count);
  };
  const auto sums = reduce_leaves<GradSumsOp, GradSums<T>>(leaf, 0, size);
  const T mean_scaled = sums.scaled / T(size), mean_along = sums.along / T(size);
  for_vectors<T>(size, [=](std::int64_t j, std::int64_t some) {
    VectorOf<T> value, normal, factor;
    row.load(j, some, value, normal);
    load_some<T>(factor, weight + j, some);
    value = row.moments.rstd * (value * factor - mean_scaled - normal * mean_along);
    store_some<T>(to + j, value, some);
  });
}

// The sums of several rows, one after the other, are read and written once.
template <std::size_t count, typename T, typename Stored>
void add_affine(const LayerNormRow<T, Stored> (&rows)[count], std::int64_t size, double* weight,
                double* bias) {
  constexpr std::size_t kParts = sizeof(double) / sizeof(T);
  using Wide = VectorOf<double>[kParts];
  std::int64_t j = 0;
  for (; j + kWidthOf<T> <= size; j += kWidthOf<T>) {
    for (const auto& row : rows) expect_line(row.grad + count * size, row.input + count * size, j);
    Wide weights, biases, part;
    for (std::size_t i = 0; i < kParts; ++i) {
      load_vector<double>(weights[i], weight + j + static_cast<std::int64_t>(i) * kWidthOf<double>);
      load_vector<double>(biases[i], bias + j + static_cast<std::int64_t>(i) * kWidthOf<double>);
    }
    for (const auto& row : rows) {
      VectorOf<T> slope, normal;
      row.load(j, kWidthOf<T>, slope, normal);
      normal *= slope;
      widen_vector<T>(normal, part);
      for (std::size_t i = 0; i < kParts; ++i) weights[i] += part[i];
      widen_vector<T>(slope, part);
      for (std::size_t i = 0; i < kParts; ++i) biases[i] += part[i];
    }
    for (std::size_t i = 0; i < kParts; ++i) {
      store_vector<double>(weight + j + static_cast<std::int64_t>(i) * kWidthOf<double>,
                           weights[i]);
      store_vector<double>(bias + j + static_cast<std::int64_t>(i) * kWidthOf<double>, biases[i]);
    }
  }
  for (; j < size; ++j) {
    for (const auto& row : rows) {
      weight[j] += static_cast<double>(row.slope(j) * row.normal(j));
      bias[j] += static_cast<double>(row.slope(j));
    }
  }
}

// native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias,
// output_mask): an output that is not wanted is undefined.
template <typename T>
struct LayerNormBackward {
  explicit LayerNormBackward(const KernelCall& backward)
      : call(backward),
        grad(tensor_arg(call, 0)),
        input(tensor_arg(call, 1)),
        out(call.outputs[0]),
        dims(normalized_dims(input, call, 2)),
        layout(input, dims),
        size(layout.size()),
        means(tensor_arg(call, 3)),
        rstds(tensor_arg(call, 4)),
        weight(affine<T>(optional_tensor_arg(call, 5), size, T(1))),
        grad_weight(static_cast<std::size_t>(size)),
        grad_bias(static_cast<std::size_t>(size)) {}

  void run() {
    const auto stored = [&](auto element) { run_stored<decltype(element)>(); };
    if (!with_stored_rows<T>({&grad, &input, &out}, dims, stored)) run_converted();
    const auto& outputs = call.outputs;
    if (outputs[1].defined()) store_row_major(outputs[1], grad_weight.data(), DType::kF64);
    if (outputs[2].defined()) store_row_major(outputs[2], grad_bias.data(), DType::kF64);
  }

 private:
  Moments<T> moments(std::int64_t i) const { return {means.data()[i], rstds.data()[i]}; }

  // In place, several rows at a time.
  template <typename Stored>
  void run_stored() {
    constexpr std::int64_t kTogether = 4;
    const bool wanted = out.defined();
    std::optional<RowLayout> to_layout;
    if (wanted) to_layout.emplace(out, dims);
    auto* const to = wanted ? reinterpret_cast<Stored*>(writable_bytes(out)) : nullptr;
    const auto* const grads = reinterpret_cast<const Stored*>(readable_bytes(grad));
    const auto* const inputs = reinterpret_cast<const Stored*>(readable_bytes(input));
    const RowLayout grad_layout(grad, dims);
    using Row = LayerNormRow<T, Stored>;
    const auto row = [&](std::int64_t i) {
      return Row{grads + grad_layout.offset_of(i), inputs + layout.offset_of(i), moments(i)};
    };
    const auto add = [&]<std::size_t count>(std::int64_t first, const Row(&rows)[count]) {
      add_affine(rows, size, grad_weight.data(), grad_bias.data());
      for (std::size_t k = 0; wanted && k < count; ++k) {
        const std::int64_t i = first + static_cast<std::int64_t>(k);
        input_gradient(rows[k], size, weight.data(), to + to_layout->offset_of(i));
      }
    };
    std::int64_t i = 0;
    for (; i + kTogether <= layout.rows(); i += kTogether) {
      add(i, {row(i), row(i + 1), row(i + 2), row(i + 3)});
    }
    for (; i < layout.rows(); ++i) add(i, {row(i)});
  }

  void run_converted() {
    std::optional<OutputRows<T>> grad_input;
    if (out.defined()) grad_input.emplace(out, dims);
    Rows<T> grads(grad, dims), inputs(input, dims);
    for (std::int64_t i = 0; i < layout.rows(); ++i) {
      const LayerNormRow<T, T> rows[] = {{grads.row(i), inputs.row(i), moments(i)}};
      add_affine(rows, size, grad_weight.data(), grad_bias.data());
      if (!grad_input) continue;
      grad_input->write(i, [&](T* to) { input_gradient(rows[0], size, weight.data(), to); });
    }
    if (grad_input) grad_input->store();
  }

  const KernelCall& call;
  const Tensor &grad, &input, &out;
  DimMask dims;
  RowLayout layout;
  std::int64_t size;
  RowMajor<T> means, rstds;
  std::vector<T> weight;
  std::vector<double> grad_weight, grad_bias;
};

}  // namespace

void add_normalization_kernels(KernelTable& table) {
  table.set(KernelId::kNativeLayerNorm, [](const KernelCall& call) {
    with_compute_type<kRealKind>(tensor_arg(call, 0).dtype(),
                                 [&](auto type) { LayerNorm<decltype(type)>(call).run(); });
  });
  table.set(KernelId::kNativeLayerNormBackward, [](const KernelCall& call) {
    with_compute_type<kRealKind>(tensor_arg(call, 1).dtype(),
                                 [&](auto type) { LayerNormBackward<decltype(type)>(call).run(); });
  });
}

}  // namespace shardlab
