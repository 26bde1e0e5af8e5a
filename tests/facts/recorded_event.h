// recorded_event.h - one line of a program that was recorded elsewhere
// (tests/golden/facts/programs/README.md), as calls of ours.
#pragma once

#include <optional>
#include <vector>

#include "mesh/dtensor.h"
#include "schema/calls.h"
#include "schema/torch_spelling.h"
#include "sim/files/json_value.h"

namespace shardlab {

struct OpRow;

/// The mesh of a recording, by its first line, which has its form (recorded_form.h).
const MeshLayout* recorded_mesh(Arena& arena, const Json& program);
/// The mesh of a recorded value, as a rank of the program's mesh sees it.
const MeshLayout* recorded_layout(const Json& value, const MeshLayout* mesh, std::int64_t rank);
/// The number of values of a recording, by its first line; they are numbered from 0.
std::size_t recorded_values(const Json& program);
/// The row of a recorded op; null: there is none, or the event is no call of an op.
const OpRow* fact_row(const Json& event);
/// The meaning of a recorded call here, on the running rank: add.Tensor(x, 1.0) is add.Scalar, if
/// there is one; else the number becomes a tensor.
///   fails  Value: arguments that no overload takes
ResolvedCall recorded_call(const OpRow& row, const GivenArguments& given);
/// A call under loss_parallel() of an op that has collectives of its own there.
bool of_loss_parallel(const Json& event);
/// Recorded elements, row-major: numbers, booleans and {"f": "inf"}, in lists however deep.
std::vector<double> recorded_numbers(const Json& data);
/// The elements of an input or a constant that all ranks hold alike, of a complex one both parts.
///   fails  Value: too many for a test
std::vector<double> recorded_elements(const Json& event, DType dtype, std::int64_t count);

/// The arguments by name; an empty object without them.
const Json& keywords_of(const Json& event);

/// Calls visit(number) for every value in a recorded argument, result or list of them.
template <typename Visit>
void for_each_number(const Json& json, const Visit& visit) {
  if (json.is_array()) {
    for (const Json& item : json) for_each_number(item, visit);
  } else if (json.is_object() && json.contains("v")) {
    visit(integer_of<std::size_t>(json.at("v")));
  }
}
/// The same for every value that an event takes.
template <typename Visit>
void for_each_operand(const Json& event, const Visit& visit) {
  // For a call that failed, "in" has the layout of its operands.
  if (event.contains("in") && !event.contains("args"))
    visit(integer_of<std::size_t>(event.at("in")));
  if (event.contains("args")) for_each_number(event.at("args"), visit);
  if (event.contains("kwargs")) {
    for (const auto& [name, value] : event.at("kwargs").items()) for_each_number(value, visit);
  }
  const bool looks = event.at("k") == "check";
  if (looks) visit(integer_of<std::size_t>(event.at("v")));
}

/// Makes the calls of the event on the running rank, below autograd as it was recorded: a recorded
/// gradient is a call like any other. `mesh` is the program's, constructed like the parts of it
/// that values are on; `values` are this rank's by number. Returns the results, lists flattened,
/// None undefined; of a check the checked value.
///   fails  as the calls do; Value: a kind of event that does not exist
Results run_recorded(const Json& event, const MeshLayout* mesh, const std::vector<DTensor>& values);

/// Stores results under the numbers of the event's "out": existing ones stay.
void keep_recorded(const Json& event, const Results& results, std::vector<DTensor>& values);

}  // namespace shardlab
