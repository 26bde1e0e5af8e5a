// custom_function.h - functions whose gradient the program itself defines, as PyTorch's
// torch.autograd.Function:
//
//   // Megatron's f: the same value, whose gradient is summed over the group.
//   struct CopyToParallel : Function<CopyToParallel> {
//     static DTensor forward(FunctionContext& ctx, const DTensor& x, ProcessGroup* group) {
//       ctx.data["group"] = group;
//       return x;
//     }
//     static std::vector<DTensor> backward(FunctionContext& ctx, const std::vector<DTensor>& grads)
//     {
//       auto* group = std::any_cast<ProcessGroup*>(ctx.data["group"]);
//       return {all_reduce(grads[0], ReduceOp::kSum, *group), {}};
//     }
//   };
//   const DTensor y = CopyToParallel::apply(x, &group);
//
// Everything here is used by one rank.
#pragma once

#include <any>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "mesh/dtensor.h"

namespace shardlab {

class CustomNode;  // custom_function.cpp

/// Data that forward leaves for backward. Lives as long as either may read it.
class FunctionContext : public std::enable_shared_from_this<FunctionContext> {
 public:
  /// `needs`: by argument of forward, whether its gradient is wanted.
  explicit FunctionContext(std::vector<bool> needs) : needs_(std::move(needs)) {}
  /// Makes the context of a call with these arguments; undefined ones are not tensors.
  static std::shared_ptr<FunctionContext> of(const std::vector<DTensor>& arguments);

  /// Kept until backward has run, and checked to be unchanged since forward ended. May be
  /// undefined.
  void save_for_backward(std::vector<DTensor> tensors) { saved_ = std::move(tensors); }
  /// In the order given.
  ///   fails  Runtime: backward has run without keeping its graph; a tensor was written to since
  std::vector<DTensor> saved_tensors() const;
  /// One flag for each argument of forward; false if it is not a tensor.
  const std::vector<bool>& needs_input_grad() const { return needs_; }
  /// These results have no gradient.
  void mark_non_differentiable(std::vector<DTensor> results) { constant_ = std::move(results); }
  /// False: backward is given an undefined gradient where none arrives, not zeros.
  void set_materialize_grads(bool zeros) { materialize_ = zeros; }

  /// Whether a gradient of this result is wanted.
  bool has_gradient(const DTensor& result) const;
  const std::vector<DTensor>& non_differentiable() const { return constant_; }
  bool materialize_grads() const { return materialize_; }
  /// While backward runs: the results of forward that it saved, by their places among the results,
  /// as saved_tensors() gives them.
  std::vector<std::pair<std::size_t, DTensor>> saved_results() const;

  /// All else that backward needs.
  std::map<std::string, std::any> data;

 private:
  friend class CustomNode;

  std::vector<DTensor> saved_, constant_;
  std::vector<bool> needs_;
  bool materialize_ = true;
  const CustomNode* node_ = nullptr;  // keeps the saved values; null: nothing is recorded
};

/// Undefined tensors take the place of arguments, results and gradients that are none.
struct CustomFunction {
  std::string name;
  /// Runs while nothing is recorded.
  std::function<std::vector<DTensor>(FunctionContext& context)> forward;
  /// From one gradient per result one per argument; more than that may follow where they are
  /// undefined.
  std::function<std::vector<DTensor>(FunctionContext& context, std::vector<DTensor> gradients)>
      backward;
  bool once_differentiable = false;  ///< backward itself has no gradient
};

/// The results of forward, with gradients that pass through backward to `arguments`: those that
/// forward takes, in its order. A result that is an argument is returned as another handle to its
/// memory.
///   fails  with the error of forward. In backward Runtime: too few gradients, one for an
///          argument that is no tensor, one of a shape that does not fit; with once_differentiable
///          where it is differentiated twice
std::vector<DTensor> apply_function(CustomFunction function, const std::vector<DTensor>& arguments);

/// Static forward(FunctionContext&, arguments...) and backward of `Own`, called as in PyTorch:
/// forward gives one tensor, or several as a vector; backward a gradient for each argument. `Own`
/// may have kName, for messages, and kOnceDifferentiable.
template <typename Own>
struct Function {
  template <typename... Arguments>
  static auto apply(Arguments&&... arguments) {
    using Result = decltype(Own::forward(std::declval<FunctionContext&>(), arguments...));
    constexpr bool kOne = std::is_convertible_v<Result, DTensor>;
    std::vector<DTensor> results = apply_function(
        {.name = std::string(name()),
         .forward =
             [&](FunctionContext& context) {
      if constexpr (kOne) {
        return std::vector<DTensor>{Own::forward(context, arguments...)};
      } else {
        return Own::forward(context, arguments...);
      }
             },
         .backward =
             [](FunctionContext& context, const std::vector<DTensor>& gradients) {
      return Own::backward(context, gradients);
             },
         .once_differentiable = requires { Own::kOnceDifferentiable;
  }},
        {tensor_of(arguments)...});
if constexpr (kOne) {
  return std::move(results.at(0));
} else {
  return results;
}
}  // namespace shardlab

private:
static std::string_view name() {
  if constexpr (requires { Own::kName; }) {
    return Own::kName;
  } else {
    return "Function";
  }
}
template <typename Argument>
static DTensor tensor_of(const Argument& argument) {
  if constexpr (std::is_convertible_v<const Argument&, DTensor>) {
    return argument;
  } else {
    return {};
  }
}
}
;

}  // namespace shardlab
