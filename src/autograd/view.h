// view.h - views and the tensors that they are views of. Both share one version and one history on
// the tape: an in-place op on a view becomes a step of its base, and views of a base that was
// written to find their place on the tape anew. A view of a dim that is cut may be a copy that was
// gathered; it is kept equal to its base in both directions.
// Used by one rank; the same on every rank of a mesh.
#pragma once

#include "autograd/grad_node.h"
#include "schema/calls.h"

namespace shardlab {

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
