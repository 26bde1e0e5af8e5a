// torch_spelling.h - torch's calls of a row, where its name, the order or names of its arguments or
// its defaults are not those of the ATen schema: F.dropout(x, p=0.5), x.half(), a // b.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schema/binder.h"
#include "schema/calls.h"

namespace shardlab {

class OpRegistry;
struct OpRow;

/// All arguments of torch's signature, in its order, as arguments of the row, in schema order.
using TorchConvertFn = Arguments (*)(const Arguments& torch);

/// One row of the table, as text.
struct TorchSpellingRow {
  /// torch's own signature: "dropout(Tensor input, float p=0.5, bool training=True)".
  std::string_view signature;
  std::string_view row;  ///< the row that runs: "dropout", "to.dtype"
  /// The row's arguments in schema order, each a name of the signature or a value: "input, p,
  /// training", "self, f16". None for an argument that may not be None leaves it to its default; a
  /// word for `reduction` becomes ATen's number. Parameters that are not named must be left at
  /// their defaults.
  std::string_view arguments;
  TorchConvertFn convert = nullptr;  ///< instead of `arguments`
};

/// The same, read. Immutable.
struct TorchSpelling {
  /// One argument of the row: `parameter` of the signature, or a value as the schema's texts have.
  struct Operand {
    std::optional<std::size_t> parameter;
    std::string literal;
  };
  std::string name;  ///< "dropout"
  std::string text;  ///< the signature as written
  OpDescriptor signature;
  Arguments defaults;
  std::string row;
  std::vector<Operand> operands;
  TorchConvertFn convert = nullptr;
};

/// at::Reduction, which torch's functions give as a word: "none", "mean" or "sum".
std::optional<std::int64_t> reduction_number(std::string_view word);

///   fails  Value: a signature that is not a schema text
TorchSpelling parse_spelling(const TorchSpellingRow& row);

/// Arguments are in schema order with defaults filled in.
struct ResolvedCall {
  const OpRow* row = nullptr;
  Arguments args;
};

/// The call in the row's own arguments; empty, with the reason, where the signature does not take
/// the given ones.
///   fails  Value: a word that is not a reduction; the refusal of `convert`
std::optional<ResolvedCall> bind_spelling(const TorchSpelling& spelling, const OpRegistry& registry,
                                          const GivenArguments& given, BindRules::Numbers numbers,
                                          std::string& reason);

/// Finds the row that a program calls: torch's spellings of the name, in their order, then the
/// overloads of `base` ("softmax"), the first registered one of several that take the arguments. A
/// number is taken as a tensor where no signature takes numbers. Rows that write an out= tensor are
/// meant where one is given.
///   fails  Unsupported: no such op, naming the nearest. Value: none takes the arguments, with the
///          reason of each
ResolvedCall resolve_call(const OpRegistry& registry, std::string_view base,
                          const GivenArguments& given,
                          std::span<const TorchSpelling> spellings = {});

/// An op's name without namespace and overload: "softmax".
std::string_view bare_name(const OpDescriptor& op);
/// Names of all ops without namespace and overload ("softmax"), for suggestions; sorted.
std::vector<std::string> op_names(const OpRegistry& registry);

}  // namespace shardlab
