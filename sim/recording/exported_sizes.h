// exported_sizes.h - the sizes of an exported program: numbers, symbols, and expressions of them.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/files/json_tree.h"
#include "sim/recording/export_options.h"
#include "sim/recording/recorded_program.h"

namespace shardlab {

/// Used by one thread.
class ExportedSizes {
 public:
  /// A symbol has the size that is asked for, or the size in the example that the program was
  /// exported with.
  ///   fails  Value: damaged, or a size out of its range: `misfit` tells the second
  ExportedSizes(const JsonNode& ranges, const ExportOptions& options);

  /// The size of a dim of an input, which may be a symbol.
  void note(const JsonNode& size, const std::string& input, std::size_t dim);
  /// The symbol that is out of the range that the program takes, as a text; else empty.
  std::string misfit() const;

  /// The number that a size has here: {"as_int": 4}, {"as_expr": ...}, 4.
  ///   fails  Unsupported: a symbol without a size
  std::int64_t of(const JsonNode& size);
  std::int64_t of_text(std::string_view text);
  std::vector<ExportedSize> known() const;

 private:
  struct Symbol {
    std::optional<std::int64_t> least, most, size;
    std::vector<std::string> of;  // "dim 0 of tokens"
  };
  std::map<std::string, Symbol> symbols_;
  std::unordered_map<std::string, std::int64_t> texts_;  // sizes that were read
};

// Sizes that torch.export writes as text: "Mul(Integer(16), Symbol('s52',
// positive=True, integer=True))", and in older files "16*s52".

/// The number that a text is; `size_of` gives that of a symbol.
///   fails  Value: malformed, out of range, a division by 0. Unsupported: a function that no size
///          has, by name. As size_of does
std::int64_t size_in_text(std::string_view text,
                          const std::function<std::int64_t(const std::string&)>& size_of);
/// The symbol, where the text is nothing else; or empty.
std::string symbol_in_text(std::string_view text);

}  // namespace shardlab
