// binder.h - brings the arguments of one call into the order of one signature (M-1, M-2). The one
// place that decides which value fits which declared type: for calls of programs, calls in C++ by
// name, recorded facts and torch's own signatures alike.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "schema/argument.h"
#include "schema/op_descriptor.h"

namespace shardlab {

// The number of elements that a list argument may have.

/// "bool[3]" is a mask, an element for each result; "int[2]" may be given shorter and longer.
inline bool takes_count(const SchemaType& type, std::size_t count) {
  const bool mask = type.kind == TypeKind::kBool && type.list_size > 0;
  return !mask || count == static_cast<std::size_t>(type.list_size);
}

struct OpRow;

/// Arguments as a caller wrote them. Lists of ints may be Dims or lists of numbers.
struct GivenArguments {
  Arguments positional;
  std::vector<std::pair<std::string, Argument>> keywords;
};

/// The text that Python prints for a call's arguments: f32[4@x, 6], dim=1.
std::string given_text(const GivenArguments& given);

struct BindRules {
  enum class Style : std::uint8_t {
    /// C++ and records: without keywords, positional arguments continue into the keyword-only
    /// ones; an optional argument may be left out.
    kSchemaOrder,
    /// A program: x.view(2, 3) gives its list of ints one by one, the first argument may be
    /// called `input` where ATen has self, and numpy's axis and keepdims are dim and keepdim.
    kPython,
  };
  enum class Numbers : std::uint8_t { kStayNumbers, kStandForTensors };

  Style style = Style::kSchemaOrder;
  Numbers numbers = Numbers::kStandForTensors;
};

/// The value as the declared type has it: an int becomes a float where one is declared, one int
/// becomes every element of "int[2]". A bool is not an int, nor an int a bool. Empty where the
/// value does not fit. Pure.
std::optional<Argument> coerced(const SchemaArgument& declared, const Argument& value,
                                BindRules::Numbers numbers);

/// All arguments of `op` in schema order, those left out from `defaults` (one per argument); empty,
/// with the reason, where the signature does not take the given ones. Thread-safe.
std::optional<Arguments> bind(const OpDescriptor& op, const Arguments& defaults,
                              const GivenArguments& given, BindRules rules, std::string& reason);
/// The same for a row, with its defaults.
///   fails  Value: the signature does not take the arguments; names the op and the reason
Arguments bind_arguments(const OpRow& row, const GivenArguments& given, BindRules::Style style);

/// The value of an argument's default text; None where there is none.
Argument parse_default(const SchemaArgument& argument);

/// True when the positional arguments are those that the schema declares, in its order, as in most
/// calls: then adds the defaults of the others. Else leaves them unchanged, for bind_arguments().
bool bind_as_given(const OpRow& row, Arguments& positional);
/// Brings arguments given by position and keyword into schema order with defaults. One int widens
/// to an int list where the schema allows it; a list of ints becomes Dims. Fails with Value naming
/// the op and the missing, unknown, doubled or ill-typed argument.
Arguments bind_arguments(const OpRow& row, Arguments positional,
                         std::vector<std::pair<std::string, Argument>> keywords = {});

}  // namespace shardlab
