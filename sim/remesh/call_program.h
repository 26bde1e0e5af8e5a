// call_program.h - the program of a recording as statements, with the inputs and names of their
// values. One is a call, or what several recorded events are together.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/recording/recorded_program.h"

namespace shardlab {

enum class StatementKind : std::uint8_t {
  kCall,
  kDropout,    ///< the recorded mask, in place of one that is drawn
  kAttention,  ///< with dropout: by products, since the recorded mask is of the scores
  kChosen,     ///< elements of takes[0] at the recorded indices: PyTorch chose among equal ones
  kDrawn,      ///< takes[1], the recorded numbers, is copied into takes[0]
  kFactory,    ///< a tensor made of numbers alone
  kBackward,   ///< gradients of the first `roots` of takes; incoming ones follow, if any
  kGradients,  ///< outs are gradients of these, of the last outs.size() of takes
  kFunction,   ///< an autograd.Function
  kGradient,   ///< the gradient of the parameter takes[0], with the parameter's placements
  kEnd,        ///< the parameter takes[0] after the step
};

struct CallFunction;

/// One line of the program. Values have the recording's numbers, or new ones behind them.
struct Statement {
  StatementKind kind = StatementKind::kCall;
  const RecordedEvent* event = nullptr;  ///< of the recording, which outlives the program
  std::string op;                        ///< "aten.linear.default"
  const OpRow* row = nullptr;            ///< of a call: null if there is none
  const OpRow* renewed = nullptr;        ///< in place of a row that writes or views: add.Tensor
  bool reshapes = false;                 ///< a view of other dims, of memory that nothing writes
  std::vector<GraphArgument> args;       ///< of a call, in schema order
  std::vector<std::int32_t> takes;       ///< numbers of its operands, in order
  std::vector<std::int32_t> outs;        ///< numbers of its results
  std::int32_t mask = -1;  ///< kDropout, kAttention, kChosen (indices): its value's number
  double scale = 1;        ///< the same: the factor of kept elements
  bool no_grad = false;
  std::vector<std::int32_t> leaves;     ///< results that require a gradient from here on
  std::map<std::int32_t, DType> casts;  ///< operands that autocast has cast for it
  std::vector<std::int32_t> resets;     ///< kBackward: parameters whose gradients begin anew
  /// kBackward, kGradients: the values that are differentiated, and their gradients, by number
  std::vector<std::int32_t> roots;
  std::vector<std::optional<std::int32_t>> incoming;
  std::shared_ptr<const CallFunction> function;  ///< kFunction

  /// Its only result is its first operand, as the result of a call that writes in place is.
  bool returns_first() const { return outs.size() == 1 && !takes.empty() && outs[0] == takes[0]; }
  /// It writes to its first operand.
  bool writes() const {
    return kind == StatementKind::kDrawn || (is_in_place(op) && kind == StatementKind::kCall);
  }
  /// The program has detached this operand: no gradient reaches it through the statement.
  bool takes_detached(std::int32_t value, std::size_t index) const;
  /// "linear"
  std::string_view bare() const { return bare_op(op); }
};

/// An autograd.Function: the calls of its forward, and those of its backward, which are its
/// gradient rule. They name values as the program does.
struct CallFunction {
  std::string name;  ///< of its class
  std::vector<Statement> forward, backward;
  std::vector<std::int32_t> results;                 ///< of forward; outs are the program's
  std::vector<std::int32_t> constant;                ///< those of them that have no gradient
  std::vector<std::optional<std::int32_t>> arrives;  ///< the gradient of each result
  std::vector<std::optional<std::int32_t>> gives;    ///< the gradient of each operand
  std::vector<std::int32_t> saved;                   ///< values that backward takes from forward
};

/// A call as the recording has it.
Statement statement_of(const RecordedEvent& event);
/// A move: the whole `value` under its other number.
Statement same_whole(const RecordedEvent& move, std::int32_t value);
/// The gradient of a parameter as it is at the event, under the number `value`.
Statement gradient_of(const RecordedEvent& event, std::int32_t parameter, std::int32_t value);
/// The values in arguments, in order.
std::vector<std::int32_t> values_in(const std::vector<GraphArgument>& args);
/// The value of the argument of this name, as the row has it; null if it has no such argument.
const GraphArgument* argument_of(const Statement& statement, std::string_view name);
/// The number of that argument, if it is one.
std::optional<double> number_of(const Statement& statement, std::string_view name);

/// An input of the program.
struct CallInput {
  std::int32_t value = -1;  ///< its number
  std::string name;         ///< in the program: "layers_0_wq_weight"
  std::string recorded;     ///< in the recording: "layers.0.wq.weight"; "v12" if it has no name
  std::string tensor;       ///< the same, but "v12" if an earlier one has the name
  TensorMeta meta;
  const ValueType* type = nullptr;      ///< as recorded
  bool parameter = false;               ///< it requires a gradient
  bool graded = false;                  ///< the program gives it one
  bool batch = false;                   ///< its dim 0 is the batch's
  bool buffer = false;                  ///< it has a name, and is neither parameter nor batch
  const RecordedEvent* user = nullptr;  ///< of data without a name: the call that takes it first
};

struct CallProgram {
  const RecordedProgram* recording = nullptr;
  std::vector<CallInput> inputs;  ///< in the order of their first use
  std::vector<Statement> statements;
  /// Below autograd and without gradients: clipping, and the optimizer's ops.
  std::vector<Statement> updates;
  std::map<std::int32_t, std::string> names;  ///< of all values, by number
  std::vector<std::string> notes;             ///< facts that are baked in, or not part of it
  const RecordedEvent* end = nullptr;         ///< the first event of a later step, if there is one
  /// Lengths of pieces that were cut by numbers of the data: they differ for other data.
  std::vector<std::string> sizes_of_data;
  std::map<std::int32_t, TensorMeta> metas;  ///< of inputs and results, by number
  std::set<std::int32_t> pieces;  ///< values that the recording has only pieces of, by number
  std::int32_t values = 0;        ///< numbers are below this

  const CallInput* input(std::int32_t value) const;
  /// The shape of an input or a result; empty for other numbers.
  Dims shape_of(std::int32_t value) const;
};

}  // namespace shardlab
