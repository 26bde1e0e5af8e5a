// shrink_passes.h - the ways to make a scenario smaller. Each tries its changes one after the other
// on the best scenario so far. Private to the files that shrink.
#pragma once

#include <initializer_list>

#include "sim/edit/trials.h"

namespace shardlab {

/// Makes passes, one after the other, until none of them finds anything.
using ShrinkPass = void (*)(Trials&);
void repeat(Trials& trials, std::initializer_list<ShrinkPass> passes);

/// Entries of [expect] on other things than the failure.
void drop_expectations(Trials& trials);
/// The last statements before the failure, with inputs of the types that their operands have; not
/// where [reference] says what the program means.
void begin_late(Trials& trials);
/// `aten.mm.default(a, b)` is `mm(a, b)`.
void shorten_names(Trials& trials);
/// Statements, from half of them down to single ones.
void drop_statements(Trials& trials);
/// `if`, `for` and `with` give way to what is inside of them.
void unwrap_blocks(Trials& trials);
/// Tables and keys besides the program, inputs, params; inputs of a type alone.
void drop_entries(Trials& trials);
/// Calls and operators give way to an operand, numbers to smaller ones.
void simplify_expressions(Trials& trials);
/// A name that is read once gives way to its value.
void fold_names(Trials& trials);
/// Makes sizes of tensor dims smaller.
void shrink_sizes(Trials& trials);
/// Mesh dims go, or have fewer ranks.
void shrink_mesh(Trials& trials);

}  // namespace shardlab
