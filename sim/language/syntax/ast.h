// ast.h - the syntax tree of a program. Immutable once parsed; shared by all ranks. Every node has
// the span of the text it was parsed from. The tree is at most kDeepestTree deep, so walking it
// recursively is safe on a rank's small stack. A node owns its parts; pointers to parts are never
// null unless a comment says so. The meaning of a name is not known here: names are resolved when
// the program runs, and looked up before by check_names().
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sim/language/syntax/source.h"

namespace shardlab::ast {

/// Levels of nodes, from the root down.
inline constexpr int kDeepestTree = 200;

/// The one owner of a part. A tree is dropped from its root.
struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;

/// Python's None and `...`, as values. Every None is equal to every other.
struct None {
  /// The function that returned it where a value is expected, "dist.all_reduce"; lives as long as
  /// the process. Empty: none.
  std::string_view from = {};
  bool operator==(const None&) const { return true; }
};
struct Ellipsis {
  bool operator==(const Ellipsis&) const = default;
};

/// -x, +x, ~x, not x.
enum class UnaryOp : std::uint8_t { kNegative, kPositive, kInvert, kNot };
/// Operators between two values, in the order of Python's table.
enum class BinaryOp : std::uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFloorDiv,
  kMod,
  kPow,
  kMatMul,
  kBitAnd,
  kBitOr,
  kBitXor,
  // << and >>.
  kLeft,
  kRight,
};
/// Comparisons can be chained, so that they are not BinaryOps.
enum class CompareOp : std::uint8_t {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIs,
  kIsNot,
  kIn,
  kNotIn,
};
/// They evaluate no more operands than they need, so that they are not BinaryOps.
enum class BoolOp : std::uint8_t { kAnd, kOr };

/// "+", "//", "<=", "not in", "and": as written.
std::string_view to_string(UnaryOp op);
std::string_view to_string(BinaryOp op);
std::string_view to_string(CompareOp op);
std::string_view to_string(BoolOp op);

/// A literal.
struct Constant {
  std::variant<None, Ellipsis, bool, std::int64_t, double, std::string> value;
};
/// A name that is read, or, as a target, bound.
struct Name {
  std::string id;
};
/// object.name; `name_span` is the place of the name, for messages.
struct Attribute {
  ExpressionPtr object;
  std::string name;
  SourceSpan name_span;
};
/// The keyword of f(**value).
inline constexpr const char* kDoubleStar = "**";

/// One argument as written.
struct CallArgument {
  std::string keyword;  ///< empty: positional
  ExpressionPtr value;
  bool starred = false;  ///< f(*value)
  SourceSpan span;       ///< with the keyword
};
/// function(arguments), in the order in which they are written.
struct Call {
  ExpressionPtr function;
  std::vector<CallArgument> arguments;
};
/// -x. The minus of a number is one, too: -1 is Unary of Constant.
struct Unary {
  UnaryOp op;
  ExpressionPtr operand;
};
/// left op right; the left one is evaluated first. The tree has the structure of parentheses and
/// precedence.
struct Binary {
  BinaryOp op;
  ExpressionPtr left, right;
};
/// a < b <= c: operands a, b, c and ops <, <=.
struct Compare {
  std::vector<ExpressionPtr> operands;
  std::vector<CompareOp> ops;
};
/// All operands of one run of `and` or `or`.
struct Logical {
  BoolOp op;
  std::vector<ExpressionPtr> operands;
};
/// `when_true if condition else when_false`: one of both is evaluated.
struct Conditional {
  ExpressionPtr condition, when_true, when_false;
};
/// object[index]; several indices are a Tuple, as in Python.
struct Subscript {
  ExpressionPtr object, index;
};
/// Only inside a Subscript; parts left out are null.
struct Slice {
  ExpressionPtr start, stop, step;
};
/// [a, b]: a new list each time it is evaluated.
struct List {
  std::vector<ExpressionPtr> items;
};
/// (a, b) or, alone in a statement, a, b.
struct Tuple {
  std::vector<ExpressionPtr> items;
};
/// {a: b}: keys[i] belongs to values[i]; {**b}: the key is null, and all entries of the value.
struct Dict {
  std::vector<ExpressionPtr> keys, values;
};
/// {a, b}: each item once.
struct Set {
  std::vector<ExpressionPtr> items;
};
/// [element for target in iterable if condition ...], or {key: element for ...}.
struct Comprehension {
  struct Loop {
    ExpressionPtr target, iterable;
    std::vector<ExpressionPtr> conditions;
  };
  ExpressionPtr key;  ///< null: a list, or a set
  bool set = false;   ///< {element for ...}
  ExpressionPtr element;
  std::vector<Loop> loops;
};
/// *value, in a display (all items of the value) or a target (what the other targets leave).
struct Starred {
  ExpressionPtr value;
};
/// (name := value): binds the name where the statement would, and is the value.
struct Walrus {
  std::string name;
  ExpressionPtr value;
};
/// An f-string: text and {expression!r:format} in turn.
struct FormatString {
  struct Part {
    std::string text;          ///< before the expression
    ExpressionPtr expression;  ///< null in a last part that is only text
    char conversion = 0;       ///< of {x!r} and {x!s}: the letter
    ExpressionPtr format;      ///< of {x:>{width}}: a format string; null if there is none
    std::string echo;          ///< of {x=}: "x="
  };
  std::vector<Part> parts;
};

/// A node with its place. Expressions own their parts.
struct Expression {
  SourceSpan span;
  int depth = 1;  ///< of the tree below, this node included
  std::variant<Constant, Name, Attribute, Call, Unary, Binary, Compare, Logical, Conditional,
               Subscript, Slice, List, Tuple, Dict, Set, Comprehension, Starred, Walrus,
               FormatString>
      node;

  /// The node, the constant, if it is of this type; else null.
  template <typename T>
  const T* get() const {
    return std::get_if<T>(&node);
  }
  template <typename T>
  const T* constant() const {
    const auto* found = get<Constant>();
    return found == nullptr ? nullptr : std::get_if<T>(&found->value);
  }
  template <typename... Ts>
  bool is() const {
    return (std::holds_alternative<Ts>(node) || ...);
  }
};

/// The body of a program, a def, a loop or a branch.
struct Statement;
using Block = std::vector<Statement>;

/// A call for its effect; its value is dropped.
struct ExpressionStatement {
  ExpressionPtr value;
};
/// One target for `a = v`, two for `a = b = v`: all get the one value, from left to right. A target
/// is a Name, a Subscript, an Attribute, or a Tuple or List of them.
struct Assign {
  std::vector<ExpressionPtr> targets;
  ExpressionPtr value;
};
/// target op= value: a tensor or a list is written in place, all else is bound anew.
struct AugmentedAssign {
  ExpressionPtr target;
  BinaryOp op;
  ExpressionPtr value;
};
/// if, elif, ..., else: the first branch whose condition holds.
struct If {
  struct Branch {
    ExpressionPtr condition;  ///< null: else
    Block body;
  };
  std::vector<Branch> branches;
};
/// A loop over the items of `iterable`; `target` is bound as in an Assign.
struct For {
  ExpressionPtr target, iterable;
  Block body;
  Block otherwise;  ///< its else, which runs unless a break ended the loop
};
/// Its number of passes is limited, as a program that never ends would hang a test.
struct While {
  ExpressionPtr condition;
  Block body;
  Block otherwise;
};
/// One parameter of a def; its default is evaluated once, when the def is.
struct Parameter {
  /// kRest: *args, a tuple of the positional arguments that are left. kKeywords: **kw, a dict of
  /// the named ones. kNamed: after a *, given by its name alone.
  enum class Kind : std::uint8_t { kPlain, kNamed, kRest, kKeywords };
  std::string name;
  ExpressionPtr default_value;  ///< null: required, but for kRest and kKeywords
  SourceSpan span;
  Kind kind = Kind::kPlain;
};
/// A def's text, shared by all function values that it makes. Lists of names are sorted.
struct Function {
  std::string name;
  std::string path;  ///< with the names of the defs around it: "outer.inner"
  std::vector<Parameter> parameters;
  Block body;
  std::vector<std::string> locals;     ///< parameters and names bound in the body
  std::uint64_t first_letters = 0;     ///< of `locals`, a bit each: most other names differ there
  std::vector<std::string> free;       ///< names that it, or a def inside, reads and does not bind
  std::vector<std::string> shared;     ///< those of its locals that a def inside reads
  std::vector<std::string> nonlocals;  ///< bound in a def around it
  std::vector<std::string> globals;    ///< bound at the top of the program

  /// True when the name is local: Python decides that from the text, not from the statements that
  /// ran.
  bool binds(std::string_view id) const;
  static std::uint64_t first_letter(std::string_view id) {
    return std::uint64_t{1} << (static_cast<unsigned char>(id[0]) % 64);
  }
};
/// Binds the function's name when it is reached.
struct Def {
  std::shared_ptr<const Function> function;
  // For a def in a class: a decorator.
  bool is_static = false;
  bool once_differentiable = false;
};
/// class name(torch.autograd.Function): binds its name when it is reached.
struct Class {
  std::string name;
  std::string path;  ///< with the names of the defs around it
  Block body;        ///< static defs alone
};
/// Ends the def around it; outside of a def it does not parse.
struct Return {
  ExpressionPtr value;  ///< null: None
};
/// with context as target, ...: entered from left to right, left in the opposite order.
struct With {
  struct Item {
    ExpressionPtr context;
    ExpressionPtr target;  ///< may be null
  };
  std::vector<Item> items;
  Block body;
};
/// Fails the run with kind Assert if the condition does not hold.
struct Assert {
  ExpressionPtr condition;
  ExpressionPtr message;  ///< may be null
};
/// try, except, else, finally. Errors that a program raises, and those of values, are caught; those
/// of collectives end the run, as other ranks wait in them.
struct Try {
  struct Handler {
    std::vector<std::string> kinds;  ///< "ValueError"; empty: all
    std::string name;                ///< bound to the error's text; empty: none
    Block body;
  };
  Block body;
  std::vector<Handler> handlers;
  Block otherwise;
  Block last;  ///< runs in any case
};
/// del d[key], items[0:2].
struct Delete {
  std::vector<ExpressionPtr> items;  ///< each a Subscript
};
/// nonlocal a, b or global a, b: the function lists them (Function).
struct OuterNames {
  bool global = false;
  std::vector<std::string> names;
};
// Do nothing; end the loop; end this pass of the loop.
struct Pass {};
struct Break {};
struct Continue {};

/// A node with its place; a block is a list of them.
struct Statement {
  SourceSpan span;  ///< of its first line: the header of a block
  std::variant<ExpressionStatement, Assign, AugmentedAssign, If, For, While, Def, Class, With,
               Return, Assert, Try, Delete, OuterNames, Pass, Break, Continue>
      node;

  template <typename T>
  const T* get() const {
    return std::get_if<T>(&node);
  }
  template <typename... Ts>
  bool is() const {
    return (std::holds_alternative<Ts>(node) || ...);
  }
};

/// A whole text and its statements. Keeps the text alive, so that spans stay valid.
struct Program {
  SourcePtr source;
  Block body;
};

/// Fully parenthesised Python, which parses to the same tree: "((a + b) * c)".
std::string print(const Expression& expression);
/// One statement per line, blocks indented by four blanks.
std::string print(const Block& block);

}  // namespace shardlab::ast
