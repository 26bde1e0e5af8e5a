// interpreter.h - runs a program on one rank.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "schema/calls.h"
#include "sim/language/syntax/constant.h"
#include "sim/language/values/answers.h"
#include "sim/language/values/builtin.h"
#include "sim/schedule/sanitizer.h"

namespace shardlab {

class Cells;
class CollectiveWork;  // api/collectives.h
class OpRegistry;
struct OpRow;
class SizeTrace;                  // size_value.h
struct SpmdClaim;                 // sim/types/claim.h
enum class Graph : std::uint8_t;  // autograd/tape.h

/// A computation of a pipeline schedule: its action, "3F0", and its column of equal time.
struct ScheduledAction {
  std::string text;
  std::int32_t column = 0;
};
using ScheduleRows = std::vector<std::vector<ScheduledAction>>;  ///< by rank

/// Receives every value that a statement gives a name, in the order of the program.
class ValueSink {
 public:
  virtual ~ValueSink() = default;
  /// `occurrence` counts the assignments to this name on this rank from 0; names inside of a def
  /// are "function.name". Two runs of one program agree in (name, occurrence).
  virtual void assigned(const std::string& name, std::int64_t occurrence, const Value& value,
                        const Where& where) = 0;
  /// The program reads the elements of a tensor; `name` is the text of the call or, if a condition
  /// reads them, of the operand: "x.item()", "(x)". `shown`: it is printed or asserted as it is; a
  /// number that is used in others is not.
  virtual void read(const std::string& /*name*/, std::int64_t /*occurrence*/,
                    const DTensor& /*tensor*/, const Where& /*where*/, bool /*shown*/) {}
  /// A name that was assigned gets another value, or its def ends: `now` is empty then. Between
  /// assigned() and here writes in place may have changed the former one.
  virtual void replaced(const std::string& /*name*/, const Value& /*before*/,
                        const Value& /*now*/) {}
  /// A number is printed that is no element of a tensor: `name` is its text.
  virtual void number_shown(const std::string& /*name*/, std::int64_t /*occurrence*/,
                            const Value& /*number*/, const Where& /*where*/) {}
  /// An expression of ProgramSetup::parts has taken a part out of a value; the value to go on with
  /// in its place, or nothing.
  virtual std::optional<Value> taken(SourceSpan /*expression*/, const Value& /*whole*/,
                                     const Value& /*part*/) {
    return std::nullopt;
  }
  /// A statement begins. computes(): a part of a statement runs, its operands have values.
  virtual void begins(SourceSpan /*statement*/) {}
  virtual void computes(SourceSpan /*expression*/) {}
  /// The program says what ranks hold of a tensor; `claim` lives during the call.
  virtual void claimed(const std::string& /*name*/, std::int64_t /*occurrence*/,
                       const DTensor& /*tensor*/, const SpmdClaim& /*claim*/,
                       const Where& /*where*/) {}
  /// One line of output, without its end.
  virtual void printed(const std::string& line) = 0;
  /// Two tensors or numbers that are equal up to rounding, as the program claims.
  virtual void asserted_close(const Value& /*a*/, const Value& /*b*/, const Where& /*where*/) {}
  /// In the single-device run: a gather fills a tensor whose shape fits several ranks only.
  virtual void other_shape() {}
  /// The program has read a pipeline schedule: the most microbatches that each rank holds, and the
  /// computations of each rank.
  virtual void schedule_read(const std::vector<std::int64_t>& /*live*/,
                             const ScheduleRows& /*rows*/) {}
  /// A def has become a graph with this many breaks.
  virtual void traced(std::size_t /*breaks*/) {}
  /// backward() or grad() begins; `seed` may be undefined.
  virtual void backward_begins(const DTensor& /*loss*/, const DTensor& /*seed*/) {}
  /// A backward pass begins: `grad` is the former gradient of the tensor of this name, or
  /// undefined.
  virtual void gradient_kept(const std::string& /*name*/, const DTensor& /*grad*/) {}
  /// It has ended: the present gradient.
  virtual void gradient_came(const std::string& /*name*/, const DTensor& /*grad*/) {}
};

/// kOnMesh: the program as it is written. kPlain: the single-device run, where every tensor is
/// plain, and functions that place or gather a tensor return its elements as they are.
enum class Tensors : std::uint8_t { kOnMesh, kPlain };

class RankQuestions;

/// Effects of a program besides its calls, while a part of it is captured.
struct Effects {
  std::set<std::string> found;  ///< by name
  /// Hooks that defs got meanwhile: the def, and the hook.
  std::set<std::pair<const void*, std::uint64_t>> hooks;
};

/// The surroundings of a program, in addition to the running rank and its calls
/// (autograd/program.h).
struct ProgramSetup {
  const ast::Program* program = nullptr;
  const Environment* params = nullptr;
  const OpRegistry* registry = nullptr;
  const MeshLayout* layout = nullptr;    ///< tensors live on it
  const MeshLayout* reported = nullptr;  ///< `mesh` in the program; differs in single-device runs
  std::int64_t rank = 0;                 ///< the value of `rank` in the program
  std::int64_t world_size = 1;
  std::string backend = "threads";  ///< the backend that process groups report
  Tensors tensors = Tensors::kOnMesh;
  AnswerLog* keeps = nullptr;       ///< receives the answers of this run; may be null
  AnswerReader* follows = nullptr;  ///< the answers of another run; may be null
  ValueSink* sink = nullptr;        ///< may be null
  /// Expressions that take a part out of a value, told to the sink by taken(); null: none.
  const std::set<SourceSpan>* parts = nullptr;
  /// The program is a part of an op: the place of the rank stays that of the op's call.
  bool inside_op = false;
  /// One run represents a class of ranks: it is asked where its ranks may take different paths.
  /// Null if the run represents one rank.
  RankQuestions* questions = nullptr;
  std::int64_t step_limit = 1'000'000;  ///< passes through while loops, in all; ten times of for
  /// The stack that nested calls may take.
  std::size_t stack_bytes = 128 * 1024 * sanitizer::kStackFactor;
};

/// `inputs`: names of values that define() will set.
///   fails  ScenarioError: a name, op or method of the program that is not defined (exit code 2)
void check_names(const ast::Program& program, const Environment& params,
                 const std::vector<std::string>& inputs, const OpRegistry& registry);

/// Attributes of tensors that are not methods: shape, T, grad, ...
bool is_tensor_attribute(std::string_view name);

/// Runs one program on the running rank. Holds all names of the program; values reached from it are
/// freed with it. Used by one rank.
class Interpreter {
 public:
  /// Copies `setup`; its pointers outlive the interpreter.
  explicit Interpreter(const ProgramSetup& setup);
  ~Interpreter();
  Interpreter& operator=(Interpreter&&) = delete;

  /// Gives an input or another name a value before run(). Not reported to the sink.
  void define(const std::string& name, Value value);
  /// Runs the whole program. Errors carry the place ("at").
  ///   fails  as its ops do; Assert; Value and Runtime for wrong use of the language
  void run();
  /// The last value of a name, or null.
  const Value* find(const std::string& name) const;
  /// All names outside of defs that have a value, sorted.
  std::vector<std::string> names() const;
  /// Calls `visit` for the value of each name, those of running defs included.
  void visit_values(const std::function<void(const Value& value)>& visit) const;

  // For built-in functions.
  /// Handles of what the program has posted, until they are freed.
  std::vector<std::weak_ptr<CollectiveWork>>& posted_works() { return posted_works_; }
  const ProgramSetup& setup() const { return setup_; }
  /// Meshes of the program in the order in which they were made, the scenario's first.
  const std::vector<MeshValue>& meshes() const { return meshes_; }
  void keep_mesh(MeshValue mesh) { meshes_.push_back(std::move(mesh)); }
  /// The innermost mesh of `with mesh:`, or the scenario's: where a mesh may be left out.
  const MeshLayout* default_mesh() const {
    return entered_meshes_.empty() ? setup_.layout : entered_meshes_.back().layout;
  }
  /// Groups that new_group() made, in order; also groups without this rank.
  const std::vector<GroupValue>& made_groups() const { return made_groups_; }
  void keep_group(GroupValue group) { made_groups_.push_back(std::move(group)); }
  /// Anything that a program can call: a def, a built-in function, an op, a method.
  Value call(const Value& function, CallValues call);
  /// An op by its name in torch, and one by its row.
  Value call_op(std::string_view name, const CallValues& call);
  Value call_row(const OpRow& row, Arguments args);
  /// call_op with positional arguments, for ops with one tensor result.
  DTensor tensor_op(std::string_view base, Values positional);
  static DTensor cast(const DTensor& tensor, DType dtype);
  /// Whether Python takes the value as true; a tensor with one element counts as its element. Fails
  /// with Value for other tensors.
  bool truth(const Value& value);
  /// True in the single-device run, where no tensor is on a mesh.
  bool plain() const { return setup_.tensors == Tensors::kPlain; }
  /// An answer that only the ranks know, such as the placements of a tensor: `own` is called and
  /// kept on the ranks; a run that follows them gets their answer, or `otherwise` if it took
  /// another path.
  Value answer(const std::function<Value()>& own, const Value& otherwise = {});
  /// A value that varies between ranks (rank_value.h) as it is here: from now on the run represents
  /// only those ranks that have the same value.
  Value settle(const Value& value);
  /// Whether the run is that of several ranks, on which values may vary.
  bool represents_several() const;
  /// Anything a for loop takes, as a list.
  Values iterate(const Value& value);
  /// For functions that are called later: a variable that is emptied when the program has ended.
  std::shared_ptr<Cell> keep(Value value);
  /// To the sink, line by line; what follows the last end of a line waits for more.
  void print(const std::string& text);
  void assert_close(const Value& a, const Value& b);
  /// Reports to the sink what `function`, called at `at`, says of x, and, `of_gradient`, the same
  /// of its gradient once that has come. The subject is filled in.
  void claim(const DTensor& x, SpmdClaim claim, SourceSpan at, std::string_view function,
             bool of_gradient);
  /// The part of the text that runs.
  SourceSpan position() const { return position_; }
  void note_other_shape() {
    if (setup_.sink != nullptr) setup_.sink->other_shape();
  }
  /// Notes an effect of the program besides its calls, by name: for captures.
  void note_effect(const char* name) {
    if (effects_ != nullptr) effects_->found.insert(name);
  }
  /// Null outside of captures.
  Effects* effects() const { return effects_; }
  /// The trace in which sizes that programs read stay symbols, while a function is traced for other
  /// sizes, too; null: sizes are numbers.
  SizeTrace* sizes() const { return sizes_; }
  /// Returns the former trace.
  SizeTrace* trace_sizes_in(SizeTrace* sizes) { return std::exchange(sizes_, sizes); }
  /// From now on effects are stored there; null: nowhere. Returns the former place.
  Effects* note_effects_in(Effects* effects) { return std::exchange(effects_, effects); }
  /// Reports to the sink that gradients of `loss` are computed.
  void report_backward(const DTensor& loss, const DTensor& seed);
  /// backward(), and reports to the sink the gradients before and after it.
  void backward_from(const DTensor& loss, const DTensor& seed, Graph graph);

  /// The language's operators, attributes and indices on any values.
  Value binary(ast::BinaryOp op, const Value& left, const Value& right);
  Value compare(ast::CompareOp op, const Value& left, const Value& right);
  Value unary(ast::UnaryOp op, const Value& operand);
  Value attribute(const Value& object, const std::string& name);
  Value index(const Value& object, const Value& key);
  void set_index(const Value& object, const Value& key, const Value& value);
  void remove_index(const Value& object, const Value& key);

 private:
  // The data of one call of a def: its locals, and the place it was called from.
  struct Frame;
  enum class Flow : std::uint8_t { kNext, kBreak, kContinue, kReturn };

  // A statement returns how the block around it continues. Each kind of node has a function here.
  Flow execute(const ast::Block& block);
  Flow execute(const ast::Statement& statement);
  Flow run_node(const ast::Statement& statement, const ast::ExpressionStatement& node);
  Flow run_node(const ast::Statement& statement, const ast::Assign& node);
  Flow run_node(const ast::Statement& statement, const ast::AugmentedAssign& node);
  Flow run_node(const ast::Statement& statement, const ast::If& node);
  Flow run_node(const ast::Statement& statement, const ast::For& node);
  Flow run_node(const ast::Statement& statement, const ast::While& node);
  Flow run_node(const ast::Statement& statement, const ast::Def& node);
  Flow run_node(const ast::Statement& statement, const ast::Class& node);
  FunctionValue made(const ast::Def& node);
  Flow run_node(const ast::Statement& statement, const ast::With& node);
  Flow run_with(const ast::Statement& statement, const ast::With& node, std::size_t item);
  Flow run_node(const ast::Statement& statement, const ast::Return& node);
  Flow run_node(const ast::Statement& statement, const ast::Assert& node);
  Flow run_node(const ast::Statement& statement, const ast::Try& node);
  Flow run_handled(const ast::Statement& statement, const ast::Try& node);
  Flow run_node(const ast::Statement& statement, const ast::Delete& node);
  Flow run_node(const ast::Statement&, const ast::OuterNames&) { return Flow::kNext; }
  Flow run_node(const ast::Statement&, const ast::Pass&) { return Flow::kNext; }
  Flow run_node(const ast::Statement&, const ast::Break&) { return Flow::kBreak; }
  Flow run_node(const ast::Statement&, const ast::Continue&) { return Flow::kContinue; }

  // Operands are evaluated from left to right, as in Python. A value that varies between ranks
  // stays as it is until its value here is needed.
  Value evaluate(const ast::Expression& expression);
  Value eval_node(const ast::Expression& expression, const ast::Constant& node);
  Value eval_node(const ast::Expression& expression, const ast::Name& node);
  Value eval_node(const ast::Expression& expression, const ast::Attribute& node);
  Value eval_node(const ast::Expression& expression, const ast::Call& node);
  Value eval_node(const ast::Expression& expression, const ast::Unary& node);
  Value eval_node(const ast::Expression& expression, const ast::Binary& node);
  Value eval_node(const ast::Expression& expression, const ast::Compare& node);
  Value eval_node(const ast::Expression& expression, const ast::Logical& node);
  Value eval_node(const ast::Expression& expression, const ast::Conditional& node);
  Value eval_node(const ast::Expression& expression, const ast::Subscript& node);
  Value eval_node(const ast::Expression& expression, const ast::Slice& node);
  Value eval_node(const ast::Expression& expression, const ast::List& node);
  Value eval_node(const ast::Expression& expression, const ast::Tuple& node);
  Value eval_node(const ast::Expression& expression, const ast::Dict& node);
  Value eval_node(const ast::Expression& expression, const ast::Set& node);
  Value eval_node(const ast::Expression& expression, const ast::Starred& node);
  Value eval_node(const ast::Expression& expression, const ast::Walrus& node);
  Values items_in(const std::vector<ast::ExpressionPtr>& display);
  Value eval_node(const ast::Expression& expression, const ast::Comprehension& node);
  Value eval_node(const ast::Expression& expression, const ast::FormatString& node);
  /// Calls `item` once for every pass of the innermost loop that the conditions let through.
  void comprehend(const ast::Comprehension& node, std::size_t loop,
                  const std::function<void()>& item);

  /// Functions take values that do not vary between ranks: arguments are settled, or the call
  /// itself is put off.
  void settle_arguments(CallValues& call);
  bool varying(const Value& value) const;
  bool own_truth(const Value& value);
  std::optional<Value> call_varying(const BuiltinValue& builtin, CallValues& call);
  Value binary_varying(ast::BinaryOp op, const Value& left, const Value& right);
  Value binary_of_sizes(ast::BinaryOp op, const Value& left, const Value& right);
  Value call_function(const FunctionValue& function, CallValues call);
  Value call_unhooked(const FunctionValue& function, CallValues call);
  static void bind_locals(Frame& frame, const FunctionValue& function, CallValues call);
  Value call_method(const Value& object, const std::string& name, CallValues call);
  // Unpacks sequences over targets. bind() gives one name its value; report() counts the occurrence
  // and calls the sink.
  void assign(const ast::Expression& target, const Value& value, SourceSpan statement);
  void unpack(const ast::Expression& target, const Values& items, SourceSpan statement);
  void bind(const std::string& name, const Value& value);
  void write_attribute(const Value& object, const std::string& name, const Value& value);
  void report_number(const ast::Expression& by, const Value& value);
  /// The value to go on with after an expression has taken `part` out of `whole`.
  Value taken(SourceSpan expression, const Value& whole, Value part);
  void report(const std::string& name, const Value& value, SourceSpan span);
  /// A value that the program reads: reports plain tensors to the sink.
  void report_read(std::string (*name_of)(const ast::Expression&), const ast::Expression& by,
                   const Value& value, bool shown);
  bool holds(const ast::Expression& condition);
  std::string full_name(const std::string& name) const;
  /// Points the rank's context, and the messages of later errors, to a place.
  void enter(SourceSpan span);
  /// Fails with Runtime before nested calls take more than the rank's stack has.
  void check_stack() const;

  ProgramSetup setup_;
  std::vector<MeshValue> meshes_;
  std::vector<MeshValue> entered_meshes_;
  std::vector<GroupValue> made_groups_;
  std::vector<std::weak_ptr<CollectiveWork>> posted_works_;
  // Names are short: cheaper than std::hash, whose maps of few names are searched one by one.
  struct NameHash {
    std::size_t operator()(std::string_view name) const noexcept {
      std::size_t hash = name.size();
      for (const char letter : name) hash = hash * 31 + static_cast<unsigned char>(letter);
      return hash;
    }
  };
  template <typename T>
  using ByName = std::unordered_map<std::string, T, NameHash>;
  ByName<Value> globals_;
  ByName<std::int64_t> occurrences_;
  // Looked up before: names that every program has, by the module that they are in, and places by
  // the offset in the text.
  ByName<ByName<Value>> known_names_;
  struct KnownPlace {
    std::uint32_t offset = static_cast<std::uint32_t>(-1);
    SourcePlace place;
  };
  std::array<KnownPlace, 256> places_;  ///< by the last bits of the offset
  /// `module`: empty for bare names. Null: there is none.
  const Value* known_name(const std::string& module, const std::string& name);
  Frame* frame_ = nullptr;  ///< of the def that runs; null at the top
  std::shared_ptr<Cells> cells_;
  /// Names of the comprehensions that run in this def, from `own_names_` on, and those of its
  /// callers before.
  struct OwnName {
    std::string name;
    std::optional<Value> value;
  };
  std::vector<OwnName> comprehended_;
  std::size_t own_names_ = 0;
  OwnName* find_own(const std::string& name);
  Value returned_;
  std::string printed_;  ///< since the last end of a line
  // For defs: a recursion without an end is refused with its place, with every stack size.
  static constexpr int kMostNestedCalls = 50;

  /// Counts a pass through a loop, or a call of a def. Fails with Runtime beyond the limit.
  void count_pass(std::string_view loop, std::int64_t& passes, std::int64_t most, SourceSpan place);

  std::int64_t steps_ = 0;      ///< passes through while loops
  std::int64_t for_steps_ = 0;  ///< calls, and passes of for and comprehensions
  int calls_ = 0;               ///< of defs that run right now
  const char* stack_base_ = nullptr;
  SourceSpan position_;
  /// The expression whose value is printed or asserted as it is.
  const ast::Expression* shown_ = nullptr;
  Effects* effects_ = nullptr;
  SizeTrace* sizes_ = nullptr;
};

}  // namespace shardlab
