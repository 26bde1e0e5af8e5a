// constant.h - expressions that are known before the program runs: sizes of shapes, bounds of
// [expect], arguments of init. They use params and mesh dims only.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "sim/language/syntax/numbers.h"

namespace shardlab {

/// A value of [params]; also the value of an override.
using Literal = std::variant<bool, std::int64_t, double, std::string>;

/// "True", "3", "0.5", or the string itself.
std::string to_string(const Literal& literal);

/// Names that constant expressions may use, with their values; in the order they are suggested.
using Environment = std::vector<std::pair<std::string, Literal>>;

/// The value of a text of numbers, strings, names, operators, comparisons, `a if b else c`, and
/// calls of min, max, abs, int.
///   fails  ScenarioError: unknown name, an expression that is no constant, arithmetic, a value of
///          another kind
std::int64_t evaluate_integer(const SourceText& source, SourceSpan range,
                              const Environment& environment);
Number evaluate_number(const SourceText& source, SourceSpan range, const Environment& environment);

}  // namespace shardlab
