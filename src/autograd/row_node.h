// row_node.h - a recorded row: the gradient program of an op over the kept values of its call.
#pragma once

#include "autograd/grad_node.h"
#include "schema/calls.h"
#include "schema/gradient_reads.h"

namespace shardlab {

struct OpRow;

/// Calls `visit(handle)` for each tensor of the results, lists flattened; undefined where there is
/// none.
void for_each_result(const Results& results, auto visit) {
  for (const Argument& result : results) {
    if (result.is_list()) {
      for (const Argument& element : result.list()) {
        visit(element.is_tensor() ? element.tensor() : DTensor());
      }
    } else {
      visit(result.is_tensor() ? result.tensor() : DTensor());
    }
  }
}

/// A handle of x's shape, dtype and placements, those of a pending reduction as it would be carried
/// out, without values. Only ops that read nothing else take it (zeros_like).
DTensor without_values(const DTensor& x);

/// A gradient in the shape and dtype of its tensor: summed where that was stretched, cast where it
/// is another, as the reference's engine does. Errors name this argument of `op`.
///   fails  Runtime: the shapes do not fit
DTensor fitted_gradient(Calls& calls, const DTensor& gradient, const DTensor& of,
                        std::string_view op, std::string_view argument, std::string_view fix);

/// A value that was made in a KernelScope counts from here on.
void count_from_here(const DTensor& x);

/// Keeps the values of its call that the row's gradient reads (OpRow::gradient_reads()) and refuses
/// to run when a kept value was written to since.
class RowNode : public GradNode {
 public:
  /// Connected to the tensors among `args`. Before the call: the old value of a written argument is
  /// kept where its gradient reads it.
  RowNode(const OpRow& row, const Arguments& args);
  /// A step that keeps nothing of `args`, which have no values; not connected.
  static Ref<RowNode> unconnected(const OpRow& row, const Arguments& args);

  /// False for a result that has no gradient.
  bool gives_gradient(std::size_t result) const {
    return result >= 32 || (reads_->constant_results >> result & 1) == 0;
  }
  /// After the call.
  void save_results(const Results& results);

  void check_saved() const override;
  void visit_saved(const std::function<void(const DTensor& x)>& visit) const override;
  std::vector<DTensor> run(std::span<const DTensor> grads, Graph graph) override;

 protected:
  bool free_saved() override;

 private:
  explicit RowNode(const OpRow& row);

  /// A value that was kept, and which version of its memory.
  struct Kept {
    Hold memory;
    Ref<Storage> versioned;  // null: a copy, which is never written
    std::uint64_t version;
    std::size_t index;  // of the argument or result
    bool result;
  };

  Argument kept_argument(std::size_t index, const Argument& argument);
  DTensor kept(const DTensor& x, std::size_t index, bool result);
  DTensor kept_copy(const DTensor& x, std::size_t index);
  std::vector<DTensor> gradients(std::span<const DTensor> grads, Graph graph);
  // With zeros for each input whose gradient is wanted and not among those found.
  std::vector<DTensor> with_zeros(Calls& calls, std::span<const DTensor> grads,
                                  std::vector<DTensor> found) const;
  // Each in the shape and dtype of its input: summed where that was stretched, cast where it is
  // another (as the reference's engine does). Fails with Runtime where the shapes do not fit.
  std::vector<DTensor> fitted(Calls& calls, std::vector<DTensor> found) const;
  // The kept arguments, each at its place on the tape.
  Arguments inputs_on_tape() const;
  Results outputs_on_tape();
  // A call that a user's rule decided as a whole (D-2) is run once more in parts, which are
  // recorded: their gradients are its own.
  std::vector<DTensor> gradients_of_parts(const OpRow& definition, std::span<const DTensor> grads,
                                          Graph graph) const;

  const OpRow* row_;
  const GradientReads* reads_ = nullptr;
  Arguments inputs_;
  Results outputs_;
  boost::container::small_vector<Kept, 2> kept_;
  ArgumentSet wanted_ = 0;
  bool in_parts_ = false;
  bool one_kernel_ = false;  // a composite op that is recorded as one (op_row.h, Gradient)
  bool keeps_ = false;       // something that is dropped after backward
};

}  // namespace shardlab
