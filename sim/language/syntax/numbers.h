// numbers.h - arithmetic on numbers of the language, as Python does it: `/` gives a float, `//`
// and `%` round towards minus infinity, integers have 64 bits and never wrap around.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "sim/language/syntax/ast.h"

namespace shardlab {

/// Booleans count as integers.
using Number = std::variant<std::int64_t, double>;

/// An integer beyond 2^53 is rounded.
double to_double(Number number);

///   fails  Value: division by zero, a result outside of 64 bits, `@` or a bit operation on floats
Number arithmetic(ast::BinaryOp op, Number left, Number right);
Number negate(Number number);
/// Its absolute value: 0.0 of -0.0.
///   fails  Value: of -2^63, which does not fit
Number magnitude(Number number);
/// kIs and kIsNot compare like == and !=; kIn and kNotIn do not apply to numbers (Internal).
bool compare(ast::CompareOp op, Number left, Number right);

/// The text that Python prints: "3", "0.5", "1e-05", "2.0", "inf".
std::string to_string(Number number);
std::string float_text(double value);

}  // namespace shardlab
