// op_descriptor.h - an operator as its ATen schema text declares it (M-1). Immutable; the identity
// of an op is the address of its row.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardlab {

/// The type of an argument or a result; kOther is a type that no op here reads.
enum class TypeKind : std::uint8_t {
  kTensor,
  kScalar,
  kInt,
  kFloat,
  kBool,
  kComplex,
  kString,
  kDType,
  kDevice,
  kLayout,
  kMemoryFormat,
  kGenerator,
  kOther,
};

/// "Tensor(a!)?[]", "int[2]", "ScalarType?": kind, list, optional, fixed list size.
struct SchemaType {
  TypeKind kind = TypeKind::kOther;
  bool is_list = false;
  bool is_optional = false;        ///< the whole value may be None
  bool elements_optional = false;  ///< Tensor?[]
  std::int64_t list_size = 0;      ///< int[2] -> 2; 0 when open
  std::string_view name;           ///< "SymInt", as written
  bool is_tensor() const { return kind == TypeKind::kTensor; }
  /// "Tensor?[]"; `marks`, "(a!)", follow the name.
  std::string spelling(std::string_view marks = "") const;
  bool operator==(const SchemaType&) const = default;
};

/// "(a!)", "(a -> *)".
struct AliasInfo {
  std::string_view marks;  ///< as written inside the parentheses; "" = no annotation
  bool write = false;
};

/// One declared argument, in schema order.
struct SchemaArgument {
  // Types and alias marks are those of the schema's text, defaults are not evaluated.
  std::string_view name;
  SchemaType type;
  AliasInfo alias;
  bool keyword_only = false;
  bool is_out = false;                           ///< keyword-only and written (X-3)
  std::optional<std::string_view> default_text;  ///< "1", "[]", "None", "contiguous_format", ...
};

/// One declared result; the name is empty where the schema gives none.
struct SchemaReturn {
  std::string_view name;
  SchemaType type;
  AliasInfo alias;
};

/// A parsed schema. All queries look at declarations and alias marks only, never at the op's name
/// . Names, types and defaults are parts of the schema's text, which lives as long as the
/// descriptor and its copies.
struct OpDescriptor {
  std::string base;      ///< "aten::add"
  std::string overload;  ///< "Tensor"; "" is the default overload
  // In schema order: positional ones first, then keyword-only ones, out= ones last.
  std::vector<SchemaArgument> arguments;
  // Empty for an op that returns nothing.
  std::vector<SchemaReturn> returns;
  /// The text; null where it is a literal.
  std::shared_ptr<const std::string> kept_text;

  /// "aten::add.Tensor"; the default overload prints without a suffix.
  std::string name() const { return overload.empty() ? base : base + "." + overload; }
  /// The whole schema text, normalised.
  std::string text() const;
  /// Arguments in front of the first keyword-only one.
  std::size_t positional_count() const;
  /// Schema index of an argument by name, or empty.
  std::optional<std::size_t> find_argument(std::string_view name) const;

  /// Some argument is a list of tensors.
  bool takes_tensor_lists() const;

  // Each is read off the alias marks, in time proportional to the number of arguments.
  bool is_inplace() const;      ///< writes a positional argument (O-36 as X-3)
  bool is_out_variant() const;  ///< has out= arguments (O-37 as X-3)
  bool is_view() const;         ///< some return aliases an argument, none is written (O-38)
  bool returns_tuple_of_tensors() const;  ///< O-27
  bool returns_list_of_tensors() const;   ///< O-27
  bool returns_tensor() const;            ///< O-28 as X-16
};

/// Reads "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor". A missing
/// namespace means aten. Fails with Value and the position.
/// Pure; a descriptor may be shared between threads once it is made.
OpDescriptor parse_op_schema(std::string_view text);
/// The same of a text that is never freed, as those of ATen (aten_schemas.h): it is not copied.
OpDescriptor parse_literal_schema(std::string_view text);

}  // namespace shardlab
