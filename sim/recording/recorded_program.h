// recorded_program.h - a program that ran in PyTorch, as its recorder wrote it
// (sim/record_torch/format.md), or as torch.export did: typed, bound to our ops and checked when it
// is read, so that passes and players need no checks. Plain data; immutable once read.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/recording/elements.h"
#include "sim/types/spmd_type.h"
#include "tensor/tensor.h"
#include "trace/graph.h"

namespace shardlab {

class Device;
struct OpRow;

/// A line of the user's program.
struct RecordedPlace {
  std::string file;
  std::int64_t line = 0;
};

/// A fingerprint: [sum x_i, sum x_i * (i mod 7 + 1)] of row-major elements x_i.
using RecordedPrint = std::array<double, 2>;

/// A value that an event gives or looks at, as PyTorch had it. Lists by rank are empty if nothing
/// is known, and have one entry if all ranks are alike.
struct EventValue {
  ValueRef id;                             ///< -1: no tensor
  ValueType type;                          ///< a DTensor's is the whole; its mesh is a number
  std::vector<TensorMeta> of_ranks;        ///< of a plain value whose shape differs by rank
  std::vector<RecordedPrint> prints;       ///< a DTensor has one, of the whole
  std::vector<std::size_t> unwritten;      ///< ranks whose memory nobody has written: no prints
  std::vector<RecordedElements> elements;  ///< several: of each rank's piece
  std::vector<double> numbers;             ///< read from a tensor; id is -1 then

  bool whole() const { return type.mesh >= 0; }
  /// Shape, strides and dtype as a rank has them; a DTensor's are those of the whole.
  TensorMeta meta(std::size_t rank = 0) const;
};

enum class RecordedKind : std::uint8_t {
  kInput,  ///< a parameter, buffer or batch by name
  kConstant,
  kAlias,    ///< a view that no op made
  kOfRanks,  ///< each rank's own value, `takes` by rank, under one number: read from {"ranks"}
  kCall,     ///< as autograd sees it; behind the ops that it is made of
  kOp,       ///< below autograd, backward and optimizer too; on plain tensors or DTensors
  kCollect,  ///< a collective or a message on plain tensors
  kRedistribute,
  kRedistributeBack,  ///< the gradient of a redistribute; likewise the other two
  kToLocal,
  kToLocalBack,
  kFromLocal,
  kFromLocalBack,
  kModule,     ///< one forward of a module, behind its calls
  kFunction,   ///< an autograd.Function, behind its calls
  kRule,       ///< its backward, behind its ops
  kBackward,   ///< the program asks for gradients
  kGradients,  ///< the results of torch.autograd.grad
  kRead,       ///< the program reads numbers of a tensor
  kCheck,      ///< a value once more, by name
  kArrived,    ///< the result of a collective, at its first use
  kStorage,    ///< memory that was freed, or given back
  kTyped,      ///< a claim of spmd_types, `takes` the tensor; or a move, `takes` operand and result
  kOther,      ///< a line without a meaning for replays, as a wait
};
/// "input", "call", "redistribute_bwd", ...: as the file has it; "op" for ops on DTensors alone.
std::string_view to_string(RecordedKind kind);
/// A DTensor's move, or its way to or from plain pieces; forward or back.
inline bool is_move(RecordedKind kind) {
  return kind >= RecordedKind::kRedistribute && kind <= RecordedKind::kFromLocalBack;
}

enum class RecordedPass : std::uint8_t { kNone, kForward, kBackward, kOptimizer };

/// An operand that a call of DTensors moved.
struct RecordedMove {
  std::int64_t operand = 0;
  Placements from, to;
  bool operator==(const RecordedMove&) const = default;
};

/// A collective inside of a call of DTensors.
struct RecordedCollective {
  std::string kind;                 ///< "all_reduce", "all_gather_into_tensor"
  std::optional<std::int64_t> dim;  ///< of the first mesh; none: not along one dim
  std::string reduce;               ///< "sum"; empty: it does not reduce
  bool operator==(const RecordedCollective&) const = default;
};

/// The type of a plain tensor along one dim of a mesh, which is known by its sizes and strides over
/// the ranks.
struct RecordedType {
  std::string dim;  ///< "tp"
  std::vector<std::pair<std::int64_t, std::int64_t>> of;
  SpmdType type;
  std::int64_t order = 0;  ///< of S(d): how many dims cut the tensor dim before
};

/// A rank's place along the dims of these types, row by row, and the rank at place 0.
std::pair<std::int64_t, std::size_t> place_along(const std::vector<RecordedType>& types,
                                                 std::size_t rank);

/// A property of one operand of a call, by its number among the values in `args`.
struct OperandMark {
  std::size_t operand = 0;
  std::int32_t function = -1;  ///< it was passed on by this function, as it was; -1: by none
  bool taped = false;          ///< it has its gradient, though `detached` names its value
};

/// One line of the file. The fields of its kind are filled in, the others keep their defaults.
struct RecordedEvent {
  RecordedKind kind = RecordedKind::kOther;
  RecordedPass pass = RecordedPass::kNone;
  std::size_t line = 0;                  ///< of the file, from 1; ranks of one collective share it
  std::int32_t rank = -1;                ///< the only one that has it; -1: all
  std::int32_t module = -1, place = -1;  ///< -1: none

  // call, op, collect
  std::string op;              ///< "aten.linear.default"
  const OpRow* row = nullptr;  ///< null: no such op here
  /// In schema order with defaults, where there is a row that takes them; else as they were given,
  /// keywords last. A number may be given for a tensor.
  std::vector<GraphArgument> args;
  std::vector<std::vector<GraphArgument>> args_of_ranks;  ///< empty where they are equal
  std::vector<GraphArgument> filled;  ///< tensors of the keyword out= of an op without a row
  std::string misfit;                 ///< the reason why no overload takes the arguments
  std::int32_t group = -1;            ///< of a collective, among RecordedProgram::groups
  std::vector<OperandMark> marks;
  std::vector<EventValue> out;      ///< results; the value of an input, a constant, a check
  std::vector<EventValue> written;  ///< other tensors that the call wrote
  std::string error;                ///< the call failed

  // Numbers of values; -1: None.
  std::vector<std::int32_t>
      takes;  ///< move, alias, module, function, rule, read, storage; backward
  std::vector<std::int32_t> gives;              ///< module, function, rule
  std::vector<std::int32_t> gradients, wanted;  ///< backward
  std::vector<std::int32_t> through;            ///< backward: functions that passed on `takes`
  std::vector<std::int32_t> leaves, detached;   ///< call
  std::vector<bool> constant;                   ///< function: results without a gradient
  std::vector<RecordedType> types;              ///< typed: of the tensor; of operand and result

  std::string name;                     ///< input, check, function; class, call or label of others
  std::vector<std::string> checkpoint;  ///< input, constant: path, name and sha256 of a tensor
  std::string node;                     ///< op of backward: "AccumulateGrad"
  std::optional<std::size_t> call;      ///< its number; of an op: the call that it is a part of
  std::optional<std::size_t> of;        ///< op of backward: the call whose gradient it is
  std::optional<std::size_t> function;  ///< number of a function; op: of its backward
  std::size_t first_call = 0, end_call = 0;  ///< module, function
  std::size_t known = 0;                     ///< function: number of values before it
  Placements label;  ///< from_local: of the result; of gradients: of the forward value
  Placements from;   ///< redistribute: of the operand
  std::vector<std::int64_t> offsets;  ///< alias, in elements: one, or of each rank
  std::vector<RecordedMove> moves;
  std::vector<RecordedCollective> collectives;

  bool distributed = false;    ///< op: of DTensors
  bool loss_parallel = false;  ///< op: inside of loss_parallel()
  bool random = false, ties = false, recomputed = false;
  bool no_grad = false, autocast = false, by_library = false, in_sequence = false;
  bool retain_graph = false, create_graph = false;
  bool only = false;       ///< backward: of `wanted` alone
  bool asks = false;       ///< backward: for the gradients of `wanted`
  bool reentrant = false;  ///< function
  bool described = false;  ///< function: arguments and calls are known
  bool requires_grad = false, batch = false;
  bool undefined = false;  ///< its memory was never written
  bool joins = false;      ///< a message: in one batch with the rank's last one
  bool any = false;        ///< a receive from any rank
  bool open = false;       ///< input: its formula has elements for any shape

  /// The arguments as a rank has them.
  const std::vector<GraphArgument>& args_on(std::size_t rank) const {
    return args_of_ranks.empty() ? args : args_of_ranks[rank];
  }
  /// The only rank that has it, or the first of all.
  std::size_t first_rank() const { return rank < 0 ? 0 : static_cast<std::size_t>(rank); }
  /// The numbers of ranks whose operands may differ: 1 where all have the same.
  std::size_t ranks_of_operands() const {
    return kind == RecordedKind::kOfRanks ? takes.size()
                                          : std::max<std::size_t>(args_of_ranks.size(), 1);
  }
};

/// Groups of one number: one, or that of each rank. In group order.
using RecordedGroup = std::vector<std::vector<std::int64_t>>;

/// The dim of a mesh of this shape, ranks counted row by row, along which all groups are.
std::optional<std::int64_t> dim_along(const Dims& shape, const RecordedGroup& groups);

/// A size of an exported program.
struct ExportedSize {
  std::string symbol;
  std::optional<std::int64_t> size;
  std::vector<std::string> of;  ///< "dim 0 of tokens"
};

struct RecordedProgram {
  std::string path;
  std::string title;         ///< of the program: the file's name when it was recorded
  std::string torch;         ///< release that recorded it
  bool shapes_only = false;  ///< no elements and no fingerprints
  bool has_calls = false;    ///< the level above autograd, which a re-mesh needs
  bool exported = false;     ///< by torch.export: calls without values, and no step of an optimizer
  std::size_t ranks = 1;
  std::int32_t values = 0;        ///< they are numbered from 0
  std::vector<GraphMesh> meshes;  ///< the first has all ranks, others are parts of it
  std::vector<RecordedGroup> groups;
  std::vector<std::string> modules;  ///< paths: "layers.0.attention.wo"
  std::vector<RecordedPlace> places;
  std::vector<RecordedEvent> events;            ///< in the order of the file
  std::shared_ptr<const std::string> raw;       ///< elements
  std::map<std::int32_t, std::string> outputs;  ///< of an exported program: their names
  std::vector<ExportedSize> sizes;              ///< likewise
  std::string error;               ///< the program failed while it was recorded; empty: it did not
  std::vector<std::string> notes;  ///< parts of a checkpoint, or of the program, that are not used
};

/// The module's path, or empty.
const std::string& module_of(const RecordedProgram& program, const RecordedEvent& event);
/// "layers.0.attention.wo  models.py:22", or one of both. `place` may be null.
std::string place_text(const std::string& module, const RecordedPlace* place);
/// The same of an event, as far as it has them; else empty.
std::string place_of(const RecordedProgram& program, const RecordedEvent& event);
/// Fails with Value: the event is not as a reader expects; `what` says so.
[[noreturn]] void refuse_event(const RecordedProgram& program, const RecordedEvent& event,
                               std::string_view what);

/// Its op; of an event that is no op's the kind.
std::string op_text(const RecordedEvent& event);
/// "aten.linear.default" is "linear".
std::string_view bare_op(std::string_view op);
/// It is named as one that writes to its first operand: aten.add_.Tensor.
bool is_in_place(std::string_view op);
bool is_recorded_send(const RecordedEvent& event);
/// A send or a receive.
bool is_recorded_message(const RecordedEvent& event);
/// The number of what it sends, or fills.
std::int32_t value_of_message(const RecordedEvent& event);
/// The one rank, or, where it is -1, all of so many.
std::vector<std::size_t> ranks_meant(std::int32_t rank, std::size_t ranks);
/// The ranks of its group, in group order, as a rank has it.
const std::vector<std::int64_t>& members_of(const RecordedProgram& program,
                                            const RecordedEvent& event, std::size_t rank);
/// The whole number that an argument is; none: it is missing, or something else.
std::optional<std::int64_t> number_at(const std::vector<GraphArgument>& args, std::size_t at);
/// A gradient of a parameter, as a backward leaves it.
bool is_gradient_check(const RecordedEvent& event);
/// An op of an optimizer's step.
bool is_of_optimizer(const RecordedEvent& event);
/// The change to a program with an op that has no row: "record it with ...".
std::string without_op(std::string_view op);

/// Calls visit(std::int32_t) for every value in arguments.
void for_each_value_in(const std::vector<GraphArgument>& args, const auto& visit) {
  for (const GraphArgument& argument : args) {
    for_each_value(argument, [&](const ValueRef& value) { visit(value.id); });
  }
}
/// Calls visit(std::int32_t) for every value that an op, a call, a move or a collective takes.
void for_each_operand(const RecordedEvent& event, std::size_t rank, const auto& visit) {
  for_each_value_in(event.args_on(rank), visit);
  for_each_value_in(event.filled, visit);
  if (event.kind == RecordedKind::kOfRanks) {
    if (event.takes[rank] >= 0) visit(event.takes[rank]);
    return;
  }
  if (event.kind != RecordedKind::kOp && event.kind != RecordedKind::kCall) {
    for (const std::int32_t number : event.takes) {
      if (number >= 0) visit(number);
    }
  }
}

/// The same of all ranks; values come several times.
void for_each_operand(const RecordedEvent& event, const auto& visit) {
  for (std::size_t rank = 0; rank < event.ranks_of_operands(); ++rank) {
    for_each_operand(event, rank, visit);
  }
}

/// Calls visit(const EventValue&) for every tensor that an event gives or writes.
void for_each_given(const RecordedEvent& event, const auto& visit) {
  for (const auto* values : {&event.out, &event.written}) {
    for (const EventValue& value : *values) {
      if (value.id.id >= 0) visit(value);
    }
  }
}

/// A tensor with the elements that the file has of a value, on a rank, whose piece has `meta`.
///   fails  Value: the file has none, or their number is that of another shape
Tensor recorded_tensor(Device& device, const RecordedProgram& program, const EventValue& value,
                       std::size_t rank, const TensorMeta& meta);

}  // namespace shardlab
