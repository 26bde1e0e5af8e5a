// recorded_arguments.h - the arguments of a recorded call, bound to the row of its op.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "schema/binder.h"
#include "schema/calls.h"
#include "sim/files/json.h"
#include "sim/recording/recorded_program.h"

namespace shardlab {

/// The number of a value that a call takes, by what the file has for it; `rank`: on this rank
/// alone, -1: on all. Refuses wrong ones.
using TakeValue = std::function<std::int32_t(const Json& number, std::int32_t rank)>;

/// Reads the arguments of one call after another. Used by one thread.
class ArgumentReader {
 public:
  /// Both outlive the reader.
  ArgumentReader(RecordedProgram& program, const TakeValue& take)
      : program_(program), take_(take) {}

  /// Fills in `row`, `args` and what belongs to them, by `op`. add.Tensor(x, 1.0) becomes
  /// add.Scalar, if there is one. Arguments that no overload takes are a `misfit`.
  ///   fails  Value: no argument, a value or a group that is not there
  void read(const Json& args, const Json& keywords, RecordedEvent& event);
  /// Binds arguments that are known already, by name.
  void bind(const GivenArguments& given, RecordedEvent& event);

  /// A value in place of a tensor that does not exist yet.
  Argument value(std::int32_t id, OperandMark mark = {});
  /// Forgets the values of the call before.
  void begin() { met_.clear(); }

 private:
  struct Met {
    std::int32_t id = -1;
    OperandMark mark;
  };

  GivenArguments given(const Json& args, const Json& keywords, std::size_t rank,
                       RecordedEvent& event);
  Argument argument(const Json& json, std::size_t rank, RecordedEvent& event);
  Argument one_value(const Json& json, std::size_t rank);
  void read_group(const Json& number, RecordedEvent& event);
  Argument list(const Json& json, std::size_t rank, RecordedEvent& event);
  Argument named(const std::string& key, const Json& json, RecordedEvent& event);
  std::vector<GraphArgument> bound(const GivenArguments& given, RecordedEvent& event);
  GraphArgument stored(const Argument& argument);

  RecordedProgram& program_;
  const TakeValue& take_;
  std::vector<DTensor> places_;  // handles that stand for values, each of its own
  std::unordered_map<const DTensorImpl*, std::size_t> numbers_;  // of handles
  std::vector<Met> met_;                                         // by number of a handle
  std::vector<std::size_t> order_;  // numbers of handles, as the bound arguments have them
  bool differs_ = false;            // ranks have different arguments
  bool alone_ = false;              // inside of such an argument
};

/// A number, list of sizes, dtype or text as a graph has it; None of others.
GraphArgument plain_argument(const Argument& argument);
/// The row of a recorded op: "aten.linear.default". Null if there is none.
const OpRow* recorded_row(const std::string& op);

}  // namespace shardlab
