// op_call.h - values of a program as arguments of ops, and results as values.
#pragma once

#include <string_view>

#include "schema/binder.h"
#include "sim/language/values/builtin.h"

namespace shardlab {

/// The arguments that an op gets from a call. Python's types are taken as dtypes: bool, int (i64)
/// and float (f64).
///   fails  Value: a value that no op takes, such as a placement or a function
GivenArguments arguments_of(std::string_view function, const CallValues& call);

/// A number in place of a tensor becomes a tensor without dims, which decides no dtype. On a rank.
void wrap_numbers(const OpRow& row, Arguments& args);

/// One result of `row` is that value, several are a tuple with the names of its schema, none is
/// None.
Value value_of(const Results& results, const OpRow& row);
Value value_of(const Argument& argument);

}  // namespace shardlab
