// view_chain.h - the way from a base to its view, as a program over other ops that holds no values:
// placements follow by propagation.
#pragma once

#include <vector>

#include "autograd/row_node.h"

namespace shardlab {

/// One op of a chain. Its arguments have no values, nor has its result.
struct ViewStep {
  const OpRow* row;
  Arguments args;
  Results results;
  std::uint32_t output;  ///< number of the result
};

/// x with the placements of `spec`, dims cut into more pieces than they have elements included; x
/// itself where spec is null.
DTensor placed_like(const DTensor& x, const DTensorSpec* spec);

/// The ops that lead from a base to one of its views, in the order in which they were called.
class ViewChain {
 public:
  /// In the order in which they are called, `base` first.
  ViewChain(std::vector<ViewStep> steps, const DTensor& base, const DTensor& view);

  /// The view of another tensor with the shape and placements of the base.
  DTensor of(const DTensor& base, Graph graph = Graph::kFree) const;
  /// `base` with the elements that the view shows replaced by `part`; a new tensor, recorded with
  /// Graph::kCreate alone, like the result of of().
  DTensor replaced(const DTensor& base, const DTensor& part, Graph graph = Graph::kFree) const;
  /// The view's nodes, one for each op, that begin at `base`.
  GradNode::Edge recorded(const DTensor& base) const;

 private:
  /// Elements return to their old places; zeros elsewhere.
  DTensor spread(const DTensor& part, Graph graph) const;

  std::vector<ViewStep> steps_;
  bool whole_;  // the view shows every element of the base
};

/// The in-place op `write` on the view of `base` that the chain makes, as one step of the base.
class WriteNode : public GradNode {
 public:
  WriteNode(Ref<GradNode> write, ViewChain chain, const DTensor& base);
  void check_saved() const override { write_->check_saved(); }
  void visit_saved(const std::function<void(const DTensor& x)>& visit) const override {
    write_->visit_saved(visit);
  }
  std::vector<DTensor> run(std::span<const DTensor> grads, Graph graph) override;

 protected:
  bool free_saved() override;

 private:
  Ref<GradNode> write_;
  ViewChain chain_;
  DTensor base_;  // without values
};

}  // namespace shardlab
