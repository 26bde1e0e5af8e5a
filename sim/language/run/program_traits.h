// program_traits.h - facts that the text of a program gives about the sources of its values:
// whether it leaves the distributed world, and which of its values depend on the rank that computes
// them, or on data that ranks exchange by the program's own collectives. Found from the syntax
// tree, so it is the same on every rank; if the text leaves it open, the larger set.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "sim/language/syntax/ast.h"

namespace shardlab {

/// Facts about the whole program, and about its names.
struct ProgramTraits {
  bool reads_rank = false;   ///< `rank`, a mesh's `coordinate`, a group's rank, ...
  bool reads_world = false;  ///< `world_size`, or a mesh's size or shape
  /// Local tensors or the program's own collectives: to_local, from_local, all_reduce, ...
  bool leaves = false;
  bool asserts_close = false;  ///< calls assert_close
  /// Names whose value follows from the rank's number: through arithmetic, an index or a branch.
  /// Names inside of a def are "function.name", with all defs around: "outer.inner.name".
  std::set<std::string, std::less<>> by_rank;
  bool gradients_by_rank = false;  ///< a backward pass begins at such a value, or in such a branch
  /// Likewise: names whose value follows from a collective of the program's own, or from_local.
  std::set<std::string, std::less<>> by_exchange;
  bool gradients_by_exchange = false;
  /// Likewise: names whose value follows from the size of a tensor, which a piece has of its own.
  std::set<std::string, std::less<>> by_size;
  bool gradients_by_size = false;

  /// Whether a recorded value ("x", "outs[1]", "w.grad", "f.x") follows from the rank's number.
  bool follows_rank(std::string_view recorded) const;
  /// Whether it follows from a collective of the program's own, or from_local.
  bool follows_exchange(std::string_view recorded) const;
  /// Whether it follows from the size of a tensor.
  bool follows_size(std::string_view recorded) const;
};

ProgramTraits traits_of(const ast::Program& program);

/// The kind of the call, if it is by the text a collective of the program's own: all_reduce(..),
/// dist.all_reduce(..), funcol.all_reduce(..). Names that the program gives another meaning are
/// ignored.
enum class OwnCollective : std::uint8_t {
  kNone,
  kGives,  ///< a new tensor
  kFills,  ///< its argument
};
OwnCollective own_collective(const ast::Call& call);

/// Whether, by the text, the call reads the elements of one tensor: x.item(), x.tolist(), float(x),
/// int(x), bool(x), print(x). The tensor's expression; null for other calls.
const ast::Expression* read_by(const ast::Call& call);
/// The name of a value that a comparison or a condition reads: "(x)".
std::string name_of_operand(const ast::Expression& operand);

}  // namespace shardlab
