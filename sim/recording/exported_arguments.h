// exported_arguments.h - the arguments of an exported program's nodes.
#pragma once

#include <functional>
#include <string_view>

#include "schema/argument.h"
#include "sim/recording/exported_sizes.h"

namespace shardlab {

/// Used by one thread.
class ExportedArguments {
 public:
  /// `operand` gives the tensor of a name. All outlive it.
  ExportedArguments(const JsonNode& graph, ExportedSizes& sizes,
                    const std::function<Argument(std::string_view)>& operand)
      : graph_(graph), sizes_(sizes), operand_(operand) {}

  /// The argument of this name.
  ///   fails  Value: damaged. Unsupported: a kind that is not read
  Argument read(std::string_view name, const JsonNode& given);

 private:
  // A number that an earlier node gave, by its name.
  Scalar symbolic(const JsonNode& argument);

  const JsonNode& graph_;
  ExportedSizes& sizes_;
  const std::function<Argument(std::string_view)>& operand_;
};

}  // namespace shardlab
