// Defaults as in a schema's text, and calls in C++ whose arguments are in schema order.
#include <charconv>

#include "base/read_real.h"
#include "schema/binder.h"
#include "schema/op_row.h"

namespace shardlab {
namespace {

Argument parse_number(std::string_view text) {
  std::int64_t integer = 0;
  const char* end = text.data() + text.size();
  if (std::from_chars(text.data(), end, integer).ptr == end) return integer;
  double real = 0;
  if (read_real(text.data(), end, real).ptr == end) return real;
  return std::string(text);
}

Argument parse_list(const SchemaType& type, std::string_view text) {
  Dims ints;
  for (std::size_t i = 1; i + 1 < text.size();) {
    const std::size_t comma = std::min(text.find(',', i), text.size() - 1);
    const std::size_t first = text.find_first_not_of(' ', i);
    ints.push_back(parse_number(text.substr(first, comma - first)).to_int());
    i = comma + 1;
  }
  if (type.kind == TypeKind::kInt) return ints;
  return ArgumentList{};
}

}  // namespace

Argument parse_default(const SchemaArgument& argument) {
  if (!argument.default_text) return {};
  const std::string_view text = *argument.default_text;
  if (text == "None") return {};
  if (text == "True") return true;
  if (text == "False") return false;
  if (text == "Mean") return 1;
  if (text == "Sum") return 2;
  if (text.front() == '"') return std::string(text.substr(1, text.size() - 2));
  if (text.front() == '[') return parse_list(argument.type, text);
  Argument value = parse_number(text);
  if (!value.is_scalar()) return value;
  const SchemaType& type = argument.type;
  if (type.is_list) return Dims(static_cast<std::size_t>(type.list_size), value.to_int());
  if (type.kind == TypeKind::kFloat) return value.to_double();
  if (type.kind == TypeKind::kMemoryFormat) return "contiguous_format";
  if (type.kind == TypeKind::kDType) {
    // ATen's texts name a dtype by its number; int64 is the only default that any of them has.
    if (value.to_int() == 4) return DType::kI64;
    fail(ErrorKind::kInternal, "{}: the default {} is not a dtype that is known by its number",
         argument.name, text);
  }
  return value;
}

namespace {

// Whether the binder would return the value unchanged.
bool fits(const SchemaType& type, const Argument& value) {
  if (value.is_none()) return type.is_optional;
  if (type.is_list) return type.kind == TypeKind::kInt && value.is_ints();
  switch (type.kind) {
    case TypeKind::kTensor:
      return value.is_tensor();
    case TypeKind::kScalar:
      return value.is_scalar();
    case TypeKind::kInt:
      return value.is_scalar() && value.scalar().category() == Category::kInteger;
    default:
      return false;
  }
}

}  // namespace

bool bind_as_given(const OpRow& row, Arguments& positional) {
  const std::vector<SchemaArgument>& declared = row.op.arguments;
  if (positional.size() > declared.size()) return false;
  for (std::size_t i = 0; i < positional.size(); ++i) {
    if (!fits(declared[i].type, positional[i])) return false;
  }
  for (std::size_t i = positional.size(); i < declared.size(); ++i) {
    if (!declared[i].default_text && !declared[i].type.is_optional) return false;
  }
  const Arguments& defaults = row.defaults();
  positional.insert(positional.end(),
                    defaults.begin() + static_cast<std::ptrdiff_t>(positional.size()),
                    defaults.end());
  return true;
}

Arguments bind_arguments(const OpRow& row, const GivenArguments& given, BindRules::Style style) {
  std::string reason;
  auto bound = bind(row.op, row.defaults(), given, {.style = style}, reason);
  if (bound) return std::move(*bound);
  throw Error(ErrorKind::kValue, fmt::format("{}: {}", row.name(), reason))
      .with("op", row.op.text())
      .with("fix", "give the arguments that the signature takes");
}

Arguments bind_arguments(const OpRow& row, Arguments positional,
                         std::vector<std::pair<std::string, Argument>> keywords) {
  return bind_arguments(row, GivenArguments{std::move(positional), std::move(keywords)},
                        BindRules::Style::kSchemaOrder);
}

}  // namespace shardlab
