// reading.h - the state that the passes share while a recording becomes a program of calls. Private
// to the files of the passes.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/remesh/call_program.h"

namespace shardlab {

/// A value that no statement makes: an input, a constant, a view of one, or recorded numbers that
/// take the place of drawn ones.
struct GivenValue {
  const RecordedEvent* event = nullptr;  ///< null: drawn
  const EventValue* value = nullptr;
  std::string name;            ///< empty: it has none
  std::string stem = "drawn";  ///< of the name of drawn numbers

  bool is_alias() const { return event != nullptr && event->kind == RecordedKind::kAlias; }
  bool requires_grad() const { return event != nullptr && event->requires_grad; }
};

class Reading {
 public:
  explicit Reading(const RecordedProgram& recording);

  [[noreturn]] void refuse(const RecordedEvent& event, const std::string& what,
                           const std::string& fix) const;
  std::string told_place(const RecordedEvent& event) const;
  [[noreturn]] void refuse_missing(const RecordedEvent& event) const;

  std::int32_t fresh() { return program.values++; }
  void add(Statement statement);
  void note_given(const RecordedEvent& event);
  /// Results of an op that the file has elements of.
  void note_drawn(const RecordedEvent& event);
  /// The ops that a call is made of.
  const std::vector<const RecordedEvent*>& inside(const RecordedEvent& call) {
    return inside_[call.call.value_or(0)];
  }
  void note_inside(const RecordedEvent& op) {
    if (op.call) inside_[*op.call].push_back(&op);
  }

  // Gradients as a backward leaves them.
  void note_gradient(const RecordedEvent& check);
  void note_accumulation(const RecordedEvent& op);
  /// The parameter whose gradient has this name: "w.grad".
  std::optional<std::int32_t> parameter_of(const std::string& gradient) const;
  /// A statement for a gradient of an earlier backward that a call takes.
  void make_gradient(std::int32_t value);
  void note_leaf(std::int32_t value) { leaves_.emplace("v" + std::to_string(value), value); }

  const RecordedProgram& recording;
  CallProgram program;
  std::map<std::int32_t, GivenValue> given;
  std::map<std::int32_t, GivenValue> drawn;  ///< results that the file has elements of
  std::set<std::int32_t> made;               ///< results of statements
  std::set<std::string> graded;              ///< the names of the gradients before the first step
  const RecordedEvent* at = nullptr;         ///< the event that an error names

 private:
  std::map<std::int32_t, int> times_;  // how often elements of a value were stored
  std::map<std::size_t, std::vector<const RecordedEvent*>> inside_;
  std::map<std::string, std::int32_t> leaves_;  // results that require a gradient, as "v5"
  std::map<std::string, std::int32_t> ends_;    // parameters after the step, by name
  std::set<std::string> fresh_gradients_;       // those that a backward has left so far
  std::map<std::int32_t, const RecordedEvent*> gradient_checks_;
  bool adds_up_ = false;  // the gradient that comes next, to another
};

/// Its result is its operand: x.detach() is x, and a use of the detached value is marked.
bool is_same_value(const Statement& statement);
/// x.flatten(1) of a matrix is x, and broadcast_tensors of equal shapes gives its operands.
bool returns_operands(const Statement& statement);
/// "_to_copy" or "to".
bool is_cast(std::string_view op);
/// An LSTM with dropout between its layers is these: they have no row.
bool is_lstm_layer(std::string_view op);

/// The recorded numbers that calls drew, and the indices that PyTorch chose, in place of new ones.
class RecordedDraws {
 public:
  explicit RecordedDraws(Reading& reading) : reading_(reading) {}
  /// For a call. kLowered: the ops that it is made of take its place; kGiven: its results are
  /// inputs.
  enum class Taken : std::uint8_t { kStatement, kGiven, kLowered };
  Taken take(Statement& statement);
  /// For an op below autograd. False: its results are inputs.
  bool take_op(Statement& statement);
  /// Elements at the recorded indices, of a row that has equal ones.
  bool choose(Statement& statement);
  /// Vectors of eigh and svd, which get the recorded signs: the statements behind it that give
  /// them. Without a gradient they are inputs: of equal values any basis is as right.
  std::vector<Statement> sign(Statement& statement);
  /// Adds the statement to the program, with those behind it.
  void add_signed(Statement statement);

 private:
  [[noreturn]] void refuse(const Statement& statement) const;
  // The number of an input that has recorded numbers.
  std::int32_t as_input(std::int32_t drawn);
  void draw_in_place(Statement& statement);
  void mask(Statement& statement, const RecordedEvent& draw, std::string_view probability);
  void attention(Statement& statement, const RecordedEvent& draw);
  bool give(const Statement& statement);

  Reading& reading_;
};

/// Casts of autocast, and calls that become the ops that they are made of.
class Casts {
 public:
  Casts(Reading& reading, RecordedDraws& draws) : reading_(reading), draws_(draws) {}
  void note(const RecordedEvent& op);
  /// Behind the call.
  void note_results(const RecordedEvent& call);
  /// False: autocast has cast something else than operands of the call.
  bool take(Statement& statement);
  void lower(const RecordedEvent& call);
  void lower_op(const RecordedEvent& op, bool no_grad);

 private:
  void make(std::int32_t value, bool no_grad);
  std::int32_t above(std::int32_t value) const;

  Reading& reading_;
  RecordedDraws& draws_;
  std::map<std::int32_t, const RecordedEvent*> casts_;  // by result
  std::map<std::int32_t, std::int32_t> above_;          // by the number below autograd
};

/// autograd.Functions: their calls are statements already when their event comes.
class Functions {
 public:
  Functions(Reading& reading, Casts& casts);
  /// Functions begin whose calls begin with this one.
  void begin(std::size_t call);
  void read(const RecordedEvent& event);
  /// Arguments as the program numbers them: operands that a function has passed on are values of
  /// their own. `others`: their first numbers, and those in the program.
  void renumber(const RecordedEvent& event, Statement& statement,
                std::map<std::int32_t, std::int32_t>& others) const;
  std::int32_t passed(std::int32_t value, std::int32_t function) const;

 private:
  struct Rule {
    std::vector<const RecordedEvent*> ops;
    const RecordedEvent* end = nullptr;
  };
  const Rule* rule_of(const RecordedEvent& function) const;
  std::vector<Statement> taken_from(std::size_t begin);

  Reading& reading_;
  Casts& casts_;
  std::map<std::size_t, Rule> rules_;                           // by number
  std::multimap<std::size_t, const RecordedEvent*> functions_;  // with a rule, by first call
  std::map<const RecordedEvent*, std::size_t> begun_;           // statements that were there before
  // (a value, the function that passed it on) -> the number of the result
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> passed_;
};

/// Numbers that the program has read from tensors, and later calls that take them.
class ReadNumbers {
 public:
  explicit ReadNumbers(Reading& reading) : reading_(reading) {}
  void note(const RecordedEvent& event);
  void find(const RecordedEvent& call);
  void end();

 private:
  struct Number {
    const RecordedEvent* event;
    double value;
    const RecordedEvent* user = nullptr;  // the first later call that takes the same number
    bool is_size = false;                 // it is a length of pieces there
  };
  Reading& reading_;
  std::vector<Number> numbers_;
};

/// A recording of several ranks: pieces of a value are taken as the whole, as far as all ranks run
/// the calls of one program.
class Wholes {
 public:
  explicit Wholes(Reading& reading) : reading_(reading) {}
  void note_given(const RecordedEvent& event);
  /// A collective, or values that differ by rank: each rank has its own result.
  void note_own(const RecordedEvent& event);
  /// The whole gets another number, by a statement, and maybe other placements.
  void read_move(const RecordedEvent& move);
  /// Notes the results of a call. Refuses one that would be another call on wholes.
  void check_call(const RecordedEvent& call);

 private:
  void check_label(const RecordedEvent& from_local, std::int32_t value) const;
  void add_piece(std::int32_t value, const ValueType& whole);
  bool is_piece(std::int32_t value) const { return reading_.program.pieces.contains(value); }

  Reading& reading_;
  std::map<std::int32_t, ValueType> types_;           // of wholes; of a piece that of its whole
  std::map<std::int32_t, const RecordedEvent*> own_;  // the event that gave each rank its own
  std::map<std::int32_t, std::int32_t> cut_from_;     // the whole that distribute_tensor cuts
};

/// The ops after the last backward: clipping, and one step of optimizers.
void read_updates(Reading& reading, std::size_t begin);
/// Inputs of the program, and names of all values.
void name_values(Reading& reading);

}  // namespace shardlab
