// graph.h - a program as a value: everything that it did on one rank, event by event, without a
// pointer into the run that it was captured in. It can be printed, saved, compared with that of
// another rank and run again. Nodes are the events of autograd/program.h, inputs and constants; the
// parts of an event (moves of operands, collectives) are listed below its node.
//
// Plain data. Values of a program are numbered in order of appearance; a number is a handle, so
// that a value written in place keeps its number.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "autograd/tape.h"
#include "base/collective_kind.h"
#include "base/rank_context.h"
#include "base/reduce_op.h"
#include "mesh/shard_order.h"
#include "tensor/scalar.h"

namespace shardlab {

/// The fix for a graph that does not fit its inputs or its place.
constexpr const char* kCaptureProgram = "capture the program again";

/// Whether two numbers are the same; a NaN is the same as a NaN.
bool same_number(const Scalar& a, const Scalar& b);

/// A value by its number.
struct ValueRef {
  std::int32_t id = -1;
  bool operator==(const ValueRef&) const = default;
};

/// A generator by its number among the graph's.
struct GeneratorRef {
  std::int32_t index = 0;
  bool operator==(const GeneratorRef&) const = default;
};

/// A number that follows from sizes, by its number among them.
struct NumberRef {
  std::int32_t index = -1;
  bool operator==(const NumberRef&) const = default;
};

/// An argument of a node: None, a number, a value, a list of sizes, a dtype, a text, a generator,
/// a list of arguments, or a number that follows from sizes. A list of sizes among which there is
/// one of those is a list of arguments.
struct GraphArgument {
  std::variant<std::monostate, Scalar, ValueRef, Dims, DType, std::string, GeneratorRef,
               std::vector<GraphArgument>, NumberRef>
      value;
  /// A NaN is the same as a NaN.
  bool operator==(const GraphArgument& other) const;
};

/// The type of a value on every rank: of a plain tensor its own shape, of a distributed one that of
/// the whole.
struct ValueType {
  DType dtype = DType::kF32;
  Dims shape;
  Dims stride;             ///< in elements
  std::int32_t mesh = -1;  ///< among the graph's meshes; -1: a plain tensor
  Placements placements;   ///< one per mesh dim
  ShardOrder order;        ///< likewise
  bool operator==(const ValueType&) const = default;
};

/// A mesh. The first of a graph is spelled out; a part of another one, or some of its dims as one,
/// is named by its origin, since it differs from rank to rank.
struct GraphMesh {
  std::vector<std::string> names;  ///< empty: m0, m1, ...
  Dims shape;
  std::vector<std::int64_t> ranks;  ///< row-major; empty: 0, 1, 2, ..., and where `base` is given
  std::int32_t base = -1;           ///< the mesh that it is made from; -1: it is spelled out
  std::vector<std::string> part;    ///< the dims of `base` that it has
  bool flattened = false;           ///< these dims made one, of the name names[0]
  bool operator==(const GraphMesh&) const = default;
};

/// The ranks of a collective: along these dims of a mesh, or the whole world.
struct GraphGroup {
  std::int32_t mesh = -1;          ///< -1: all ranks of the world
  std::vector<std::int64_t> dims;  ///< mesh dims, ascending
  bool operator==(const GraphGroup&) const = default;
};

/// An operand that the dispatcher moved before the op ran.
struct GraphMove {
  int argument = 0;  ///< among the op's tensors
  std::string op;    ///< the row that needed it; a composite op has several
  std::string from, to;
  std::string plan;
  bool operator==(const GraphMove&) const = default;
};

/// A collective that this rank entered.
struct GraphCollective {
  CollectiveKind kind = CollectiveKind::kBarrier;
  std::string group;                ///< its name
  std::vector<std::int64_t> ranks;  ///< in group order; known on the level of one rank
  std::optional<ReduceOp> op;       ///< of those that reduce
  DType dtype = DType::kF32;
  Dims shape;  ///< of this rank's input
  Pass pass = Pass::kForward;
  bool waits = false;  ///< the result of an asynchronous one is needed here
  bool operator==(const GraphCollective&) const = default;
};

/// The source of an input's elements: they are drawn by global index from the graph's seed and the
/// input's name.
struct InputRecipe {
  std::string init;                    ///< "randn", "rand", "randint", "zeros", "values", ...
  std::vector<Scalar> arguments;       ///< randn(scale), full(value), randint(low, high)
  double scale = 1;                    ///< multiplies the elements of init
  std::vector<Scalar> values;          ///< "values": row-major
  std::string file = {}, tensor = {};  ///< in place of init: a tensor in a file of a recording
  // A graph that admits other sizes has these:
  std::vector<std::string> sizes = {};  ///< by dim, as the program's file writes them: "n", "4*n"
  std::vector<std::int64_t> dynamic = {};  ///< dims that may have another size
  /// A NaN is the same as a NaN.
  bool operator==(const InputRecipe& other) const;
};

enum class NodeKind : std::uint8_t {
  kInput,     ///< an input of the program
  kConstant,  ///< a plain tensor that appeared from outside
  kOp,
  kFactory,
  kDistribute,
  kRedistribute,
  kFromLocal,
  kToLocal,
  kCollective,
  kMesh,  ///< a mesh is made, or dims of one are flattened: a setup action
  kRequireGrad,
  kDetach,
  kBackward,
  kDeal,        ///< pieces become terms of a pending reduction
  kCheckPiece,  ///< the pieces of all ranks are compared
  kGradient,    ///< the gradient of a leaf, as it is now
  kSeed,        ///< a generator starts anew
  kDropGrad,    ///< a leaf forgets its gradient
  kHook,        ///< the gradient of args[0] passes a hook
  kHooks,       ///< the gradients of all of args pass a hook together
  kRemoveHook,  ///< it is not called any more
  kHookCall,    ///< behind a backward: the hook is called inside of it, with the results
  kHookGives,   ///< the result of the hook: all nodes from its call to here are its own
  kSize,        ///< the size of args[0] along args[1] is a number
  kNumber,      ///< two numbers make another: "+", "-", "*", "//", "%"
  kSizeGuard,   ///< "==", "<", ...: whether it holds of two numbers must be `required`
  kRead,        ///< elements become numbers of the program: the graph breaks here
  kWait,        ///< for a collective that was started before
  /// A function with a gradient of its own has run forward. args are four lists: its arguments, its
  /// results, what it saved, results without gradient. Backward calls it as a hook, with gradients
  /// of the results, and it gives those of the arguments.
  kFunction,
  kCheckClose,  ///< a test compares the whole of args[0] with args[1]
  kLook,        ///< of a recording: args are looked at; nothing runs
};
/// "input", "const", "op", "factory", ...
std::string_view kind_name(NodeKind kind);
std::optional<NodeKind> parse_node_kind(std::string_view name);

/// One result. A result that is not a tensor has no number.
struct GraphResult {
  ValueRef value;  ///< -1: there is no such result
  ValueType type;
  bool operator==(const GraphResult&) const = default;
};

/// The failure of a node, where it was the last one that its program reached.
struct NodeError {
  std::string kind;     ///< "Value", ...
  std::string message;  ///< its first line
  bool operator==(const NodeError&) const = default;
};

/// One event. The fields of its kind are filled in, the others keep their defaults.
struct GraphNode {
  NodeKind kind = NodeKind::kOp;
  std::string name;  ///< of the op, of the collective, of the input
  /// Arguments of ops and factories in schema order; else the values that it takes.
  std::vector<GraphArgument> args;
  std::vector<GraphResult> results;  ///< lists flattened

  // The type that a factory, distribute, redistribute, from_local or deal makes, and that
  // check_piece is for; to_local: the label of its gradient.
  std::optional<ValueType> target;
  // redistribute
  bool async = false;
  std::optional<std::string> planner;
  std::optional<DType> forward_dtype, backward_dtype;
  // distribute, and collectives from or to one rank: its place in the group
  std::optional<std::int64_t> source;
  std::int64_t tag = 0;  ///< of a message, whose source is the other rank
  // collective
  GraphGroup group;
  ReduceOp op = ReduceOp::kSum;
  std::int64_t dim = 0, split_dim = 0;
  std::vector<std::int64_t> sent, received;  ///< rows by rank, where these differ
  // mesh: its number, and the dims that become one
  std::int32_t mesh = -1;
  std::vector<std::int64_t> mesh_dims;
  bool required = true;      ///< require_grad, size_guard
  std::int32_t number = -1;  ///< size, number: which one it is
  /// The number of a hook or function, in order of registration.
  std::int32_t hook = -1;
  bool zeros = false;  ///< hooks, function: zeros replace gradients that do not arrive
  bool once = false;   ///< function: its backward has no gradient itself
  /// detach; a collective: args are this rank's input, and the tensors that are filled, a list each
  bool in_place = false;
  std::int32_t work = -1;      ///< wait, asynchronous collective: which of these
  Graph graph = Graph::kFree;  ///< backward: whether the values kept for it are dropped
  bool of_inputs = false;      ///< backward: gives the gradients of args[2] and on
  bool requires_grad = false;  ///< input
  InputRecipe recipe;          ///< input
  /// const, read: the elements, row-major; by rank where ranks differ.
  std::vector<std::vector<Scalar>> data;

  /// op, factory: the source of draws, where the row has no argument for one; seed: the one that
  /// starts anew. None: the rank's own.
  std::optional<GeneratorRef> generator;
  std::uint64_t seed = 0;             ///< seed
  bool taped = true;                  ///< gradients are recorded
  bool replicates = false;            ///< a plain tensor next to a DTensor is a replica
  bool target_view = false;           ///< views made here are to be overwritten
  std::int32_t line = 0, column = 0;  ///< in the program; 0: none
  // Recordings have these, and no file.
  std::int32_t rank = -1;  ///< the only rank that runs it; -1: all
  bool back = false;       ///< redistribute: of a gradient
  /// redistribute, in place of a target: the placements of these mesh dims, others stay.
  std::vector<std::pair<std::string, Placement>> towards;
  std::optional<NodeError> error;
  // Below the node.
  std::vector<GraphMove> moves;
  std::vector<GraphCollective> collectives;

  bool operator==(const GraphNode&) const = default;
};

/// Facts besides types and meshes on which decisions depend. Texts are as the user writes them.
struct GraphPolicies {
  std::string planner;   ///< empty: the default's choice
  std::string implicit;  ///< "allow", "warn", "forbid"
  std::string mixed;     ///< "refuse", "replicate"
  struct Rule {
    std::string op, rule;
    std::string local;  ///< text of its local program; empty: none
  };
  std::vector<Rule> rules;
  struct Link {
    std::string mesh_dim;
    std::optional<double> gbps, us;
    bool operator==(const Link&) const = default;
  };
  std::vector<Link> links;
  bool operator==(const GraphPolicies&) const = default;
};

/// A fact on which the graph depends: (source, kind, expected) of T-4, and the line that needed it.
struct Guard {
  enum class Kind : std::uint8_t { kIdentity, kEquality, kType, kRank };
  Kind kind = Kind::kEquality;
  std::string source;  ///< "inputs.x", "mesh", "params.hidden"
  std::string expected;
  std::int32_t line = 0;  ///< the first that needed it
  bool operator==(const Guard&) const = default;
};
std::string_view to_string(Guard::Kind kind);
std::optional<Guard::Kind> parse_guard_kind(std::string_view name);

/// The actions of the ranks of one class: all nodes are equal on them, data of constants apart.
struct ProgramGraph {
  std::string title;
  std::string file;  ///< of the program, for messages
  std::int64_t world = 1;
  std::vector<std::int64_t> ranks;  ///< the ranks with this graph, ascending; empty: all ranks
  std::uint64_t seed = 0;           ///< of inputs and of draws
  std::vector<GraphMesh> meshes;    ///< the program's own first
  GraphPolicies policies;
  std::vector<GraphNode> nodes;
  std::int32_t values = 0;              ///< number of them
  std::vector<RandomState> generators;  ///< as they were when the program met them
  std::int32_t numbers = 0;             ///< number of those that follow from sizes
  /// Whether other sizes than those of the capture are admitted: results of a node then follow from
  /// its inputs, and the shapes written here are those of the capture.
  bool dynamic = false;
  /// The names of the sizes of its inputs, and the sizes at the capture: "n", 8.
  std::vector<std::pair<std::string, std::int64_t>> sizes;
  std::vector<Guard> guards;      ///< in order, each once
  std::vector<ValueRef> outputs;  ///< results of a function; -1: nothing
  std::vector<ValueRef> left;     ///< values that the program still held at its end, on every rank
  /// One for each rank of `ranks`, or of the world: of the bits of all values that are left. Empty:
  /// not computed.
  std::vector<std::uint64_t> digests;
  /// One for each value of `left`, of a graph that is not joined with others yet. Not part of a
  /// file.
  std::vector<std::uint64_t> left_digests;

  bool of_rank(std::int64_t rank) const;
};

/// The name of a mesh dim.
std::string dim_name(const GraphMesh& mesh, std::size_t dim);
/// True where an op in place, or with out=, gives the value that it has written.
bool writes(const GraphNode& node, ValueRef value);
/// Calls visit(ValueRef&) or visit(const ValueRef&) for every value in the arguments.
void for_each_value(auto& argument, const auto& visit) {
  if (auto* value = std::get_if<ValueRef>(&argument.value)) {
    visit(*value);
  } else if (auto* list = std::get_if<std::vector<GraphArgument>>(&argument.value)) {
    for (auto& item : *list) for_each_value(item, visit);
  }
}
/// Number of collectives that its nodes issue; one that is waited for counts once.
std::int64_t collective_count(const ProgramGraph& graph);

}  // namespace shardlab
