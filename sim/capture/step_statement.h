// step_statement.h - one line of the program of a recorded training step.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "sim/record/json_value.h"

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

struct StepFunction;

/// One line of the program.
struct StepStatement {
  StatementKind kind = StatementKind::kCall;
  const Json* event = nullptr;  ///< of the recording, which outlives the program
  std::string op;               ///< "aten.linear.default"
  std::string renewed;  ///< in place of an op that writes or views: "aten.add.Tensor"; or empty
  std::vector<std::size_t> takes;  ///< numbers of its operands, in order
  std::vector<std::size_t> outs;   ///< numbers of its results
  std::size_t mask = 0;            ///< kDropout, kAttention, kChosen (indices): its value's number
  double scale = 1;                ///< the same: the factor of kept elements
  bool no_grad = false;
  std::vector<std::size_t> leaves;     ///< results that require a gradient from here on
  std::map<std::size_t, DType> casts;  ///< operands that autocast has cast for it
  std::vector<std::size_t> resets;     ///< kBackward: parameters whose gradients begin anew
  /// kBackward, kGradients: the values that are differentiated, and their gradients, by number
  std::vector<std::size_t> roots;
  std::vector<std::optional<std::size_t>> incoming;
  std::shared_ptr<const StepFunction> function;  ///< kFunction

  /// Its only result is its first operand, as that of a call that writes in place.
  bool returns_first() const { return outs.size() == 1 && !takes.empty() && outs[0] == takes[0]; }
  /// It writes to its first operand.
  bool writes() const;
};

/// An autograd.Function: the calls of its forward, and those of its backward, which are its
/// gradient rule. They name values as the program does.
struct StepFunction {
  std::string name;  ///< of its class, in the program
  std::vector<StepStatement> forward, backward;
  std::vector<std::size_t> results;                 ///< of forward; outs are the program's
  std::vector<std::size_t> constant;                ///< those of them that have no gradient
  std::vector<std::optional<std::size_t>> arrives;  ///< the gradient of each result
  std::vector<std::optional<std::size_t>> gives;    ///< the gradient of each operand
  std::vector<std::size_t> saved;                   ///< values that backward takes from forward
};

/// "aten.linear.default" is "linear".
std::string bare_op(const std::string& op);
/// It is named as one that writes to its first operand: aten.add_.Tensor.
bool is_in_place(const std::string& op);

}  // namespace shardlab
