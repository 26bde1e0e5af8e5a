// traced_def.h - a def as a graph that is run in its place (T-1, T-4, T-58): the result of
// trace(f). Used by one rank.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "schema/argument.h"
#include "sim/language/values/cells.h"
#include "sim/language/values/object.h"
#include "trace/capture.h"
#include "trace/graph_break.h"

namespace shardlab {

/// The dims of arguments that may have other sizes at other calls.
struct DynamicArguments {
  bool all = false;                                       ///< every dim of every tensor
  std::map<std::string, std::vector<std::int64_t>> dims;  ///< by parameter
};

/// The first call runs the def and records its calls. Later calls evaluate the guards and run the
/// graph; a def that has a break is called itself. A value that the def reads from around it, names
/// of the program included, is an input of the graph, with its value at each call.
class TracedDef final : public Callable {
 public:
  /// `function`: holds the def, in a variable that the program empties at its end.
  TracedDef(std::shared_ptr<Cell> function, DynamicArguments dynamic)
      : function_(std::move(function)), dynamic_(std::move(dynamic)) {}

  std::string_view kind() const override { return "traced function"; }
  std::string text() const override;
  BuiltinTable members() const override { return traced_methods(); }
  ///   fails  Value: a guard does not hold; it is named with its expected value. Else as the def
  Value call(Interpreter& interpreter, CallValues call) override;

  /// None before the first call.
  bool captured() const { return captured_; }
  const ProgramGraph& graph() const { return graph_; }
  const std::vector<GraphBreak>& breaks() const { return breaks_; }

 private:
  class Reads;
  Reads reads_of(Interpreter& interpreter, const CallValues& call);
  Value capture(Interpreter& interpreter, CallValues call);
  Value replay(Interpreter& interpreter, const Reads& reads) const;
  std::string name_of(Interpreter& interpreter, const Value& thing);

  std::shared_ptr<Cell> function_;
  DynamicArguments dynamic_;
  std::vector<std::shared_ptr<Cell>> things_;  ///< known by identity, in order of meeting
  bool captured_ = false;
  ProgramGraph graph_;
  std::vector<Generator> generators_;  ///< those of the graph that are not the def's own; or null
  std::vector<GraphBreak> breaks_;
  Value result_;  ///< of the first call: the pattern of later results, with other tensors in it
};

}  // namespace shardlab
