// view.h - views and the tensors that they are views of. Both share one version and one history on
// the tape: an in-place op on a view becomes a step of its base, and views of a base that was
// written to find their place on the tape anew. A view of a dim that is cut may be a copy that was
// gathered; it is kept equal to its base in both directions.
// Used by one rank; the same on every rank of a mesh.
#pragma once

#include "autograd/row_node.h"
#include "schema/calls.h"

namespace shardlab {

// The way from a base to its view, as a program over other ops that holds no values:
// placements follow by propagation.

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

struct OpRow;

/// Whether the results of the row are views of its first argument.
bool makes_views(const OpRow& row);
/// Notes that the results of the row are views of args[0].
void note_views(const OpRow& row, const Arguments& args, const Results& results);
/// In a TargetScope: the view as a target that has no values yet, where making it would move data;
/// undefined where the row has to be called.
DTensor view_to_write(const OpRow& row, const Arguments& args);
/// True for ops that give every element that they write a new value.
bool overwrites(const OpRow& row);
/// Gives a target without values memory to overwrite.
void make_room(const DTensor& target);
/// Notes that `local`, a plain tensor, has the memory of x: the tape can't follow writes to it.
void note_local(const DTensor& x, const DTensor& local);

/// The storage whose version shows whether the value of x has changed.
const Ref<Storage>& versioned_storage(const DTensor& x);
/// A gathered copy takes the value of its base again when that was written to; on every rank of
/// the mesh together.
void bring_up_to_date(const DTensor& x);
/// The destination of x's gradient on the tape; a view whose base has changed finds it anew.
///   fails  Runtime: the view can't follow its base (one of several that an op returned).
GradNode::Edge edge_of(const DTensor& x);

/// Refuses (Runtime) in-place ops that the tape can't follow, if it records them, and those on
/// memory in which several elements share one place.
enum class Recorded : std::uint8_t { kNo, kYes };
void check_writes(const OpRow& row, const Arguments& args, Recorded recorded);
/// After an in-place op on `written`: a gathered copy is written back to its base.
void write_back(const DTensor& written);
/// After an in-place op, recorded as `node`, on `written`: it becomes that node's only output, or
/// its base that of a node around it.
void attach_written(const DTensor& written, const Ref<GradNode>& node);

}  // namespace shardlab
