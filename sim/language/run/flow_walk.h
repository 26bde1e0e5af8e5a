// flow_walk.h - runs a program on what values are made of in place of values, once for all ranks:
// both ways of a branch, loops until nothing is new, a def for each of its calls. Private to
// def_use.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/language/run/def_use.h"

namespace shardlab {

class FlowWalk {
 public:
  using Id = DefUse::Id;
  using Ids = DefUse::Ids;
  using Kind = FlowNode::Kind;

  FlowWalk(const ast::Program& program, DefUse& graph);
  void run();

 private:
  /// Facts about a value. Memory has the number of the node that made it.
  struct Held {
    Ids nodes, memory;
    std::set<std::pair<const ast::Function*, int>> functions;  ///< with the scope of their def
    std::string function_class;                                ///< F of class F(Function)
    std::vector<Held> items;  ///< of a tuple that is written out, or returned so
    std::optional<double> number;
    SourceSpan literal;  ///< the text of `number`
    bool ratio = false;  ///< as a division, 1 / 3
    std::string text;    ///< of a string, and the mesh dim of a mesh's part, or of a group
    bool mesh = false, module = false;
    Ids definitions;  ///< of a variable: the statements that gave it its value
    bool operator==(const Held&) const = default;
  };
  struct Memory {
    Ids content, items;
    std::int64_t length = 0;  ///< of a list, by the text; 0: not known
    SourceSpan literal;       ///< where that is written
    bool list = false;
    bool operator==(const Memory&) const = default;
  };
  using Variable = std::pair<int, std::string>;  ///< scope, name
  struct State {
    std::map<Variable, Held> variables;
    std::map<Id, Memory> memory;
    bool operator==(const State&) const = default;
  };
  struct Scope {
    const ast::Function* function = nullptr;
    int around = 0;
  };
  struct Frame {
    int scope = 0;
    Held result;
    Ids left;  ///< conditions under which it returns early
  };
  struct Arguments {
    std::vector<Held> positional;
    std::vector<std::pair<std::string, Held>> keywords;
    Held all;  ///< of them together
  };
  /// A Function that was applied, or a hook: its backward waits for a gradient.
  struct Backward {
    Ids forward, gives;
    Id gradient = 0;
  };

  // Nodes.
  Id node(Kind kind, std::uint32_t begin, const std::string& what = "");
  Id node(Kind kind, std::uint32_t begin, const std::string& what, const Ids& from);
  void add_from(Id id, const Ids& from);
  Ids content(const Held& value) const;
  /// `past_parts`: the number by which a part is taken out of a value does not count.
  bool reaches(const Ids& some, std::initializer_list<Kind> kinds, bool past_parts = false) const;

  // Values.
  static void unite(Ids& to, const Ids& from);
  static bool unite(Held& to, const Held& from);
  static bool unite(State& to, const State& from);
  Held fresh(Id made) const;
  Held item_of(const Held& value) const;
  void write(const Held& value, const Ids& from, std::uint32_t begin, Kind kind = Kind::kWritten);
  Held gradient_of(const Held& value);

  // Names.
  int scope_of(const std::string& name) const;
  Held read(const std::string& name, std::uint32_t begin);
  void bind(const std::string& name, Held value);
  void define(const std::string& name, const Held& value, std::uint32_t begin, bool alias);
  void end_of(const Held& variable);
  std::string full(const std::string& name) const;

  // Statements.
  void execute(const ast::Block& block);
  void assign(const ast::Expression& target, const Held& value, std::uint32_t begin, bool alias);
  void run_node(const ast::Statement& at, const ast::ExpressionStatement& node);
  void run_node(const ast::Statement& at, const ast::Assign& node);
  void run_node(const ast::Statement& at, const ast::AugmentedAssign& node);
  void run_node(const ast::Statement& at, const ast::If& node);
  void run_node(const ast::Statement& at, const ast::For& node);
  void run_node(const ast::Statement& at, const ast::While& node);
  void run_node(const ast::Statement& at, const ast::Def& node);
  void run_node(const ast::Statement& at, const ast::Class& node);
  void run_node(const ast::Statement& at, const ast::Return& node);
  void run_node(const ast::Statement& at, const ast::With& node);
  void run_node(const ast::Statement& at, const ast::Assert& node);
  void run_node(const ast::Statement& at, const ast::Try& node);
  void run_node(const ast::Statement& at, const ast::Delete& node);
  void run_node(const ast::Statement&, const ast::OuterNames&) {}
  void run_node(const ast::Statement&, const ast::Pass&) {}
  void run_node(const ast::Statement&, const ast::Break&) { leave_loop(); }
  void run_node(const ast::Statement&, const ast::Continue&) { leave_loop(); }
  void leave_loop();
  template <typename Pass>
  void loop(Id decides, const Pass& pass);
  Id decides(std::uint32_t begin, const Ids& by);

  // Expressions.
  Held evaluate(const ast::Expression& at);
  Held evaluate(const ast::ExpressionPtr& at) { return at ? evaluate(*at) : Held(); }
  Held eval(const ast::Expression& at, const ast::Constant& node);
  Held eval(const ast::Expression& at, const ast::Name& node);
  Held eval(const ast::Expression& at, const ast::Attribute& node);
  Held eval(const ast::Expression& at, const ast::Call& node);
  Held eval(const ast::Expression& at, const ast::Unary& node);
  Held eval(const ast::Expression& at, const ast::Binary& node);
  Held eval(const ast::Expression& at, const ast::Compare& node);
  Held eval(const ast::Expression& at, const ast::Logical& node);
  Held eval(const ast::Expression& at, const ast::Conditional& node);
  Held eval(const ast::Expression& at, const ast::Subscript& node);
  Held eval(const ast::Expression& at, const ast::Comprehension& node);
  Held eval(const ast::Expression& at, const ast::Walrus& node);
  Held eval(const ast::Expression& at, const ast::Starred& node);
  template <typename Other>
  Held eval(const ast::Expression& at, const Other& node);
  Held display(const ast::Expression& at, std::vector<Held> items);
  Held computed(std::uint32_t begin, const Ids& from);
  Held size_of(const ast::Expression& at, const Held& value);
  /// The number of ranks, or the rank's own.
  Held number_at(Kind kind, std::uint32_t begin, const std::string& mesh_dim = {});
  static Held part_along(Held mesh, const std::string& mesh_dim);
  void note_read(std::uint32_t begin, const Held& value);
  bool has_entries(const Held& value) const;
  void note_factor(Id id, ast::BinaryOp op, const Held& left, const Held& right);
  void note_part(const ast::Expression& at, const Held& object, const Held& index);

  // Calls (flow_calls.cpp).
  Arguments arguments_of(const ast::Call& call);
  Held call_function(const ast::Function& function, int around, std::uint32_t begin,
                     const Arguments& given);
  Held call_value(const Held& function, std::uint32_t begin, const Arguments& given);
  Held call_method(const ast::Expression& at, const ast::Attribute& method, const Held& object,
                   const Arguments& given);
  Held call_builtin(const ast::Expression& at, const ast::Expression& function,
                    const Arguments& given);
  Held write_by_op(std::uint32_t begin, std::string_view name, const Held& first,
                   const Held* number, const Arguments& given, const Ids& from);
  void write_statistics(std::uint32_t begin, const Arguments& given, const Ids& from);
  void note_factors(const Ids& made, std::string_view name, const Held& of, const Held& number);
  Held call_op(std::uint32_t begin, std::string_view name, const Held* object,
               const Arguments& given);
  Held collective(const ast::Call& call, std::uint32_t begin, const Arguments& given);
  void fill(std::string_view name, std::uint32_t begin, const Arguments& given);
  Held message(std::string_view name, const ast::Call& call, std::uint32_t begin,
               const Arguments& given);
  Held apply(const std::string& function_class, std::uint32_t begin, const Arguments& given);
  void wait_for_gradient(const ast::Function& function, int around, std::uint32_t begin,
                         const Held& forward, const Held* context);
  Ids backward(std::uint32_t begin, const Ids& of);
  Held draw(std::uint32_t begin, const Ids& from);
  const ast::Function* method_of(const std::string& function_class, const char* name) const;

  static const Held* keyword(const Arguments& given, std::string_view name);

  const ast::Program& program_;
  DefUse& graph_;
  std::map<std::tuple<Kind, std::uint32_t, int, std::string>, Id> known_;
  State state_;
  std::vector<Scope> scopes_ = {{}};
  std::map<std::tuple<const ast::Function*, std::uint32_t, int>, int> scope_numbers_;
  std::vector<Frame> frames_ = {{}};
  int tries_ = 0;                ///< around, with handlers
  std::vector<Ids> left_loops_;  ///< for each loop around: conditions under which it is left
  std::map<const ast::Function*, std::vector<Held>> defaults_;
  std::map<std::string, const ast::Function*> methods_;  ///< of classes, by path
  std::vector<Backward> waiting_;
  Ids control_;             ///< conditions around the statement
  Ids sent_;                ///< content of all messages
  Id random_ = 0;           ///< memory of the state from which numbers are drawn
  bool changed_ = false;    ///< the graph has new edges
  std::int64_t steps_ = 0;  ///< statements visited
  int loops_ = 0;           ///< around the statement
  std::uint32_t loop_ = 0;  ///< the innermost of them, as FlowNode::loop
};

}  // namespace shardlab
