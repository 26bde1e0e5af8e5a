// ast_walk.h - visits the parts of a tree without naming every kind of node.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/language/syntax/ast.h"

namespace shardlab::ast {

/// Calls visit(part) for every direct part of an expression, in the order of the text.
void for_each_part(const Expression& expression,
                   const std::function<void(const Expression&)>& visit);

/// Calls visit for every expression that a statement holds itself, and visit_block for every block
/// inside of it, the body of a def included.
void for_each_part(const Statement& statement, const std::function<void(const Expression&)>& visit,
                   const std::function<void(const Block&)>& visit_block);

/// Calls visit for every block inside of a statement, the body of a def included.
void for_each_block(const Statement& statement, const std::function<void(const Block&)>& visit);

/// True when `wanted` holds for the expression or for any part of it, however deep.
bool any_part(const Expression& expression, const std::function<bool(const Expression&)>& wanted);

/// The same for the expressions of a block, those of all blocks inside included.
bool any_part(const Block& block, const std::function<bool(const Expression&)>& wanted);

/// The name that an assignment to this target changes: that of `x` in x, x[0] and x.y; empty for
/// tuples and calls.
std::string_view base_name(const Expression& target);

/// The names an assignment, a loop, a def or a class in `block` binds, sorted, each once; not those
/// of the functions inside.
std::vector<std::string> bound_names(const Block& block);

/// Names that `target` binds, in order, appended to `names`.
void collect_targets(const Expression& target, std::vector<std::string>& names);

}  // namespace shardlab::ast
