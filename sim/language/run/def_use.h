// def_use.h - which values of a program are made of which, from its text alone, so that it is the
// same on every rank: through names, memory that several names share, defs, branches, loops,
// messages and backward. The only analysis of that kind: traits of names, the lines that a value
// needs, and the values that follow from a line are questions to it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/language/syntax/ast.h"

namespace shardlab {

/// Facts about a whole program, from its text.
struct ProgramTraits {
  bool reads_rank = false;   ///< `rank`, a mesh's `coordinate`, a group's rank, ...
  bool reads_world = false;  ///< `world_size`, or a mesh's size or shape
  /// Local tensors or the program's own collectives: to_local, from_local, all_reduce, ...
  bool leaves = false;
  bool asserts_close = false;  ///< calls assert_close
};
ProgramTraits traits_of(const ast::Program& program);

/// A place of the text at which something is made, written or taken. Nodes of a def are made for
/// each of its calls.
struct FlowNode {
  enum class Kind : std::uint8_t {
    kInput,     ///< a name that the program does not give a value
    kDefined,   ///< a statement gives a name a value
    kComputed,  ///< a call, an operator, an index
    kWritten,   ///< a write in place
    kRank,      ///< the rank's number, or a coordinate
    kWorld,     ///< the number of ranks
    kReceived,  ///< a message
    kFromOne,   ///< what one rank has: a broadcast, a scatter, an entry of a gathered list
    kReduced,   ///< a reduction over ranks
    kGathered,  ///< the pieces of all ranks of a group, put together or exchanged
    kLabelled,  ///< from_local
    kBackward,
    kRead,     ///< numbers that are read from a tensor
    kDecides,  ///< a condition, or the number of passes of a loop
    kShown,    ///< printed
    kAsserted,
    kSent,
  };
  Kind kind = Kind::kComputed;
  /// Its first character: for a call of a method its name, as the places of errors have it.
  std::uint32_t begin = 0;
  std::string name;    ///< of inputs, definitions (in a def "function.name"); a rank's mesh dim
  bool alias = false;  ///< a definition that gives a value a further name
  /// A number of the text that multiplies (or, `divides`, divides) a value; 0: none.
  double factor = 0;
  bool divides = false;
  SourceSpan literal;       ///< of that number, if it is written once; else empty
  std::int64_t length = 0;  ///< by the text, of the list that a collective fills; 0: not known
  bool entry = false;       ///< what one rank has of such a list, or alone gets of a reduce
  bool by_world = false;    ///< inside of a loop whose passes follow from the number of ranks
  std::uint32_t loop = 0;   ///< the node that decides the innermost loop around it, plus 1; 0: none
  std::string op;           ///< of calls the last name of the function, of operators "+"
  std::vector<std::uint32_t> from;  ///< its operands, sorted
};

/// The flow of data of one program, which may be gone.
class DefUse {
 public:
  using Id = std::uint32_t;
  using Ids = std::vector<Id>;  ///< sorted
  using Kind = FlowNode::Kind;
  using Ends = std::function<bool(Id)>;

  explicit DefUse(const ast::Program& program);

  const std::vector<FlowNode>& nodes() const { return nodes_; }
  /// The nodes that a recorded value ("x", "outs[1]", "w.grad", "f.x", "x.item()") holds, as it is
  /// at its last write; `begin`: of the statement that gave it its name.
  Ids held_by(std::string_view recorded, std::uint32_t begin) const;
  /// The nodes of a printed expression, by its place.
  Ids shown_at(std::uint32_t begin) const;
  /// The same for all values that a name gets.
  Ids held_by(std::string_view recorded) const;
  /// Everything that some nodes are made of, with the nodes themselves.
  Ids made_of(const Ids& some) const { return made_of_until(some, Ends()); }
  /// Everything that is made of them, and they themselves; not what follows from the conditions and
  /// numbers of ranks among them, which are no values.
  Ids makes(const Ids& some) const;
  const Ids& makes_directly(Id id) const { return into_all_[id]; }
  /// made_of() without what is behind these nodes, or nodes of these kinds.
  Ids made_of_until(const Ids& some, const Ends& ends) const {
    return reached(some, from_all_, ends);
  }
  Ids made_of_until(const Ids& some, const std::set<Kind>& ends) const;
  /// Some nodes, and all that is made of them up to these, with these.
  Ids makes_until(const Ids& some, const Ends& ends) const {
    return reached(some, into_all_, ends);
  }
  bool any(const Ids& some, Kind kind) const;
  /// The nodes of a line.
  Ids on_line(int line) const;
  int line_of(Id id) const { return lines_[id]; }
  /// Whether a recorded value follows from the rank's number, a message included: no other rank
  /// computes it in the same way.
  bool follows_rank(std::string_view recorded) const;
  /// The same of a value that is read under no name, by the place of its expression.
  bool follows_rank(std::uint32_t begin) const;

  /// Numbers that the text gives as counts: of range(), of items of a list.
  std::set<std::int64_t> counts;
  /// Expressions that take a part by the rank's number out of a value that does not follow from it:
  /// x[rank], x.chunk(2)[rank].
  std::set<SourceSpan> parts_by_rank;

 private:
  friend class FlowWalk;
  using Edges = std::vector<Ids>;
  static Ids reached(const Ids& some, const Edges& edges, const Ends& ends);

  std::vector<FlowNode> nodes_;
  std::vector<int> lines_;  // by node
  Edges from_all_, into_all_;
  std::map<std::pair<std::string, std::uint32_t>, Ids, std::less<>> held_;  // by name and place
  std::map<std::string, Ids, std::less<>> gradients_;                       // by name, at the end
  std::map<std::uint32_t, Ids> reads_, shown_;  // by the place of the expression
};

}  // namespace shardlab
