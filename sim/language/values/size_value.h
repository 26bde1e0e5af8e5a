// size_value.h - sizes as symbols, while a function is traced whose graph is to hold for other
// sizes (trace(f, dynamic=...)). A size that a program reads of a shape is an object then;
// arithmetic on it and an op that takes it are part of the graph, and any other use of the number
// makes it a guard. Used by one rank.
#pragma once

#include <string>
#include <vector>

#include "schema/argument.h"
#include "sim/language/syntax/ast.h"
#include "sim/language/values/object.h"
#include "trace/capture.h"
#include "trace/recorder.h"

namespace shardlab {

struct OpRow;

class SizeObject final : public Object {
 public:
  SizeObject(NumberRef number, std::int64_t now) : number_(number), now_(now) {}
  std::string_view kind() const override { return "size"; }
  std::string text() const override { return std::to_string(now_); }
  NumberRef number() const { return number_; }
  /// Its number while the function is captured.
  std::int64_t now() const { return now_; }

 private:
  NumberRef number_;
  std::int64_t now_;
};

/// Null if the value is something else.
const SizeObject* size_of(const Value& value);
/// Whether it is one or holds one.
bool holds_size(const Value& value);

/// Between the language and the recorder, which outlives it.
class SizeTrace {
 public:
  /// Sizes of `inputs` are numbers, except for their dynamic dims; sizes of other tensors are
  /// symbols.
  SizeTrace(Recorder& recorder, std::vector<NamedTensor> inputs)
      : recorder_(recorder), inputs_(std::move(inputs)) {}

  Value size(const DTensor& x, std::size_t dim);
  Value shape(const DTensor& x);
  Value numel(const DTensor& x);
  /// Both are sizes or ints; None: the op gives no int, or one that does not fit.
  Value arithmetic(ast::BinaryOp op, const Value& a, const Value& b);
  /// The answer is a guard. `op` is an order or an equality.
  bool compare(ast::CompareOp op, const Value& a, const Value& b);
  /// The value with numbers in place of sizes, which have to be these from now on.
  Value fixed(const Value& value);
  void fix(const DTensor& x);

  /// Replaces sizes by marks while arguments are bound to a row, and back: the row's next event
  /// gets the sizes.
  CallValues marked(const CallValues& call) const;
  void unmark(const OpRow& row, Arguments& args);

 private:
  Value made(NumberRef number, std::int64_t now);
  Value marked(const Value& value) const;
  std::optional<NumberRef> number_marked(std::int64_t value) const;
  Argument as_tensor(NumberRef number);

  Recorder& recorder_;
  std::vector<NamedTensor> inputs_;
  std::vector<std::int64_t> now_;  ///< of each number
};

}  // namespace shardlab
