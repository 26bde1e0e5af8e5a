// shrink_passes.h - the ways to make a scenario smaller. Each tries its changes one after the other
// on the best scenario so far, and is true where one was kept. Private to the files that shrink.
#pragma once

#include "sim/edit/trials.h"

namespace shardlab {

/// Entries of [expect] on other things than the failure.
bool drop_expectations(Trials& trials);
/// The last statements before the failure, with inputs of the types that their operands have; not
/// where [reference] says what the program means.
bool begin_late(Trials& trials);
/// `aten.mm.default(a, b)` is `mm(a, b)`.
bool shorten_names(Trials& trials);
/// Statements, from half of them down to single ones.
bool drop_statements(Trials& trials);
/// `if`, `for` and `with` give way to what is inside of them.
bool unwrap_blocks(Trials& trials);
/// Tables and keys besides the program, inputs, params; inputs of a type alone.
bool drop_entries(Trials& trials);
/// Calls and operators give way to an operand, numbers to smaller ones.
bool simplify_expressions(Trials& trials);
/// A name that is read once gives way to its value.
bool fold_names(Trials& trials);
/// Makes sizes of tensor dims smaller.
bool shrink_sizes(Trials& trials);
/// Mesh dims go, or have fewer ranks.
bool shrink_mesh(Trials& trials);

}  // namespace shardlab
