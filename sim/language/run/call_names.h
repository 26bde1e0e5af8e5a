// call_names.h - the meaning that a call has by its text alone: it reads the rank, exchanges data
// between ranks, draws, or reads elements.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "sim/language/syntax/ast.h"

namespace shardlab {

/// The kind of the call, if it is by the text a collective of the program's own: all_reduce(..),
/// dist.all_reduce(..), funcol.all_reduce(..). Names that the program gives another meaning are
/// ignored.
enum class OwnCollective : std::uint8_t {
  kNone,
  kGives,  ///< a new tensor
  kFills,  ///< its argument
};
OwnCollective own_collective(const ast::Call& call);
/// The same of a function that is not called here, such as dist.isend in an argument.
OwnCollective own_collective(const ast::Expression& function);

bool is_one_of(std::span<const std::string_view> names, std::string_view name);

/// The last name of a function: "all_reduce" of dist.all_reduce; empty of other expressions.
std::string_view last_name(const ast::Expression& function);

/// Whether, by the text, the call reads the elements of one tensor: x.item(), x.tolist(), float(x),
/// int(x), bool(x), print(x). The tensor's expression; null for other calls.
const ast::Expression* read_by(const ast::Call& call);
/// The name of a value that a comparison or a condition reads: "(x)".
std::string name_of_operand(const ast::Expression& operand);

// The rank's number, or a coordinate, as a name and as a member; the size of the world; the size of
// a tensor.
bool names_rank(std::string_view name);
bool is_rank_member(std::string_view name);
bool names_world(std::string_view name);
bool names_size(std::string_view name);
/// A function that draws random numbers, in place or not.
bool draws(std::string_view name);
/// A function that sets the state from which numbers are drawn.
bool seeds(std::string_view name);
/// A message: a function that fills a tensor with it, or one that sends it.
bool receives(std::string_view name);
bool sends(std::string_view name);
/// to_local, from_local, and bare collectives: the program leaves the distributed world.
bool leaves_the_mesh(std::string_view name);
/// A method, attribute or function whose result may be in the memory of its first operand, or holds
/// the items of its operands.
bool shares_memory(std::string_view name);

}  // namespace shardlab
