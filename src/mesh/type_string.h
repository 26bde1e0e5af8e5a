// type_string.h - "f32[8@dp, 64@(dp,tp), 16]{sum:pp}": reading and printing specs as users write
// them (scenarios/README.md section 1). Printing a spec and parsing it back gives the same spec.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "mesh/spec.h"

namespace shardlab {

/// The place of a fault in the text: byte offset and length.
struct TextSpan {
  std::size_t offset = 0;
  std::size_t size = 0;
};

/// Thrown for malformed text: kind Value, with the place inside the text.
class TypeStringError : public Error {
 public:
  /// `span` is in the text that was parsed; callers with the file point into it.
  TypeStringError(std::string summary, TextSpan span)
      : Error(ErrorKind::kValue, std::move(summary)), span_(span) {}
  TextSpan span() const { return span_; }

 private:
  TextSpan span_;
};

/// A type as it was written, before it is checked against a tensor: shard dims are in range, sizes
/// are whole numbers of at least 0.
struct ParsedType {
  std::optional<DType> dtype;  ///< absent when the text is placements alone: "[8@dp, 16]"
  Dims shape;
  Placements placements;
  ShardOrder order;
};

/// Names are looked up in `layout`. Mesh dims that are not named hold replicas. Fails with
/// TypeStringError: malformed text, names that are not mesh dims, a mesh dim used twice, sizes
/// below 0.
ParsedType parse_type(std::string_view text, const MeshLayout& layout);
/// "tp=S(0), dp=R": placements by mesh dim; dims not named keep `base`.
/// Fails with TypeStringError likewise.
Placements parse_placements_by_dim(std::string_view text, const MeshLayout& layout,
                                   const Placements& base);

/// A strided shard prints as the order it means where there is one, else with "~".
std::string type_string(const DTensorSpec& spec);
std::string type_string(const MeshLayout& layout, const Placements& placements,
                        const ShardOrder& order, const TensorMeta& meta);
/// A plain tensor: "f32[8, 16]".
std::string type_string(const TensorMeta& meta);

}  // namespace shardlab
