// normalization.h - common parts of norms over channels: calls by the names of their arguments,
// which differ between ATen's, cuDNN's and MIOpen's forms, shapes, and the dtype that they compute
// in.
#pragma once

#include <initializer_list>
#include <string_view>

#include "ops/core/expression.h"
#include "schema/meta_args.h"

namespace shardlab::normalization {

using Names = std::initializer_list<std::string_view>;

inline constexpr std::size_t kAbsent = ~std::size_t{0};

/// The place of the argument that has one of these names.
std::size_t place_of(const OpDescriptor& op, Names names);

/// Its value; None where the op has none of them.
const Argument& named(const OpDescriptor& op, const auto& args, Names names) {
  static const Argument kNothing;
  const std::size_t index = place_of(op, names);
  return index == kAbsent ? kNothing : args[index];
}

inline constexpr std::string_view kVectors[] = {"weight", "bias", "running_mean", "running_var"};

// Shapes; a misfit fails with Value.

/// An input of real numbers [samples, channels, ..].
const TensorMeta& with_channels(const MetaArgs& args, std::size_t index);
/// Channels innermost stay there; all else is in row-major order.
TensorMeta normalized_meta(const TensorMeta& input);
/// Whether vectors of this dtype fit the input: of its own, or of f32 for halves.
bool mixes_with(DType vector, DType input);
/// The vectors of one number per channel, checked; their dtype is that of the statistics.
DType checked_vectors(const MetaArgs& args, const TensorMeta& input);
/// Statistics that the forward op returned, for the input at schema index `input`.
///   fails  Value: another dtype than its own
void require_statistics(const MetaArgs& args, std::size_t index, std::size_t input, DType dtype);
/// An argument that the op may not have, or that may not be given, has this shape.
void require_shape(const MetaArgs& args, std::size_t index, const Dims& shape);
bool wanted_gradient(const Argument& mask, std::size_t index);
/// Metas of the gradients of input, weight and bias, each if it is wanted.
OutputMetas gradient_metas(const MetaArgs& args, const TensorMeta& input, DType of_vectors);

// Programs

/// A call by the names of its arguments, in the dtype that it is computed in: halves in f32.
class Normalization {
 public:
  Normalization(Calls& calls, const OpDescriptor& op, const Arguments& args)
      : calls_(calls), op_(op), args_(args), input_(argument({"input"}).tensor()) {}

  const Argument& argument(Names names) const { return named(op_, args_, names); }
  double number(Names names) const { return argument(names).to_double(); }
  bool has(Names names) const { return argument(names).is_tensor(); }
  const DTensor& input() const { return input_; }
  Expression wide(Names names) const { return wide(argument(names).tensor()); }
  Expression wide(const DTensor& x) const {
    return Expression(calls_, x).to(f32_for_half(x.dtype()));
  }
  /// One number per channel, in a shape that broadcasts to the input.
  Expression beside(Names names) const {
    Dims shape(input_.ndim(), 1);
    shape[1] = input_.shape()[1];
    return {calls_, calls_.one("aten::view", {wide(names), shape})};
  }
  Expression scaled(Expression x) const {
    if (has({"weight"})) x = x * beside({"weight"});
    if (has({"bias"})) x = x + beside({"bias"});
    return x;
  }
  Expression sum(const Expression& x, const Dims& dims, bool keep = true) const {
    return {calls_, calls_.one("aten::sum.dim_IntList", {x, dims, keep})};
  }
  Expression reshaped(const Expression& x, const Dims& shape) const {
    return {calls_, calls_.one("aten::reshape", {x, shape})};
  }
  /// All dims but that of the channels, and how many elements they have.
  Dims other_dims() const {
    Dims dims{0};
    for (std::size_t d = 2; d < input_.ndim(); ++d) dims.push_back(static_cast<std::int64_t>(d));
    return dims;
  }
  double count() const {
    std::int64_t result = input_.shape()[0];
    for (std::size_t d = 2; d < input_.ndim(); ++d) result *= input_.shape()[d];
    return static_cast<double>(result);
  }
  /// The dtype of statistics, and of gradients of the vectors.
  DType vector_dtype() const {
    for (const std::string_view name : kVectors) {
      if (has({name})) return argument({name}).tensor().dtype();
    }
    const Argument& saved = argument({"save_mean"});
    return saved.is_tensor() ? saved.tensor().dtype() : input_.dtype();
  }
  Argument stored(const Expression& x, DType dtype) const { return x.to(dtype); }
  /// Makes x a vector.
  Argument flat(const Expression& x) const {
    return stored(reshaped(x, Dims{input_.shape()[1]}), vector_dtype());
  }

 private:
  Calls& calls_;
  const OpDescriptor& op_;
  const Arguments& args_;
  DTensor input_;
};

struct Spread {
  Expression mean, variance;
};
/// Over these dims, which stay as dims of one place.
Spread spread_of(const Expression& x, const Dims& dims);

/// The part that the backward of a normalisation removes from a gradient, along with its scale.
enum class TakesOut : std::uint8_t {
  kMeanAndSlope,
  kSlope,    ///< of root mean squares
  kNothing,  ///< statistics that do not depend on the input
};

/// The gradients of a backward: for the input root (flow - mean(flow) - normal mean(flow normal)),
/// and for the weight flow's sums with `normal`. All in one dtype; means over `dims`, which the
/// statistics have with one place.
struct WayBack {
  Expression flow, normal, root;
  Expression into_input, into_normal;  ///< gradients of the input's gradient and of the sums
  Dims dims;
  TakesOut takes_out;

  Expression of_flow() const { return root * rest(into_input); }
  /// With the root as a constant.
  Expression of_normal() const;
  /// One number per row, with the normal values made of the root.
  Expression of_root() const;
  /// The gradient of the input, to which the statistics belong.
  Expression of_input() const;

 private:
  Expression mean(const Expression& x) const {
    return {x.calls(), x.calls().one("aten::mean.dim", {x, dims, true})};
  }
  Expression sum(const Expression& x) const {
    return {x.calls(), x.calls().one("aten::sum.dim_IntList", {x, dims, true})};
  }
  Expression rest(const Expression& x) const;
};

/// Gradients of input, weight and bias where they are wanted, computed by `of`.
Results asked_for(const Argument& mask, auto of) {
  Results results;
  for (std::size_t i = 0; i < 3; ++i) {
    results.push_back(wanted_gradient(mask, i) ? of(i) : Argument());
  }
  return results;
}

}  // namespace shardlab::normalization
