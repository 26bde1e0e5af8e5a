#include <charconv>

#include "schema/list_count.h"
#include "schema/op_row.h"

namespace shardlab {
namespace {

[[noreturn]] void refuse(const OpDescriptor& op, const SchemaArgument& argument,
                         const Argument& value) {
  fail(ErrorKind::kValue, "{}: argument {} wants {}, not {}", op.name(), argument.name,
       argument.type.spelling, value.text());
}

bool is_integer(const Argument& value) { return value.is_scalar() && value.scalar().is_integral(); }

/// One int stands for a whole list where the schema fixes the size ("int[2]").
Argument to_ints(const OpDescriptor& op, const SchemaArgument& declared, Argument value) {
  if (value.is_ints()) return value;
  if (is_integer(value) && declared.type.list_size > 0) {
    const auto count = static_cast<std::size_t>(declared.type.list_size);
    return Dims(count, value.to_int());
  }
  if (!value.is_list()) refuse(op, declared, value);
  Dims ints;
  for (const Argument& element : value.list()) {
    if (!is_integer(element)) refuse(op, declared, value);
    ints.push_back(element.to_int());
  }
  return ints;
}

/// Lists of tensors, floats and bools; an empty list of ints is an empty list of anything.
Argument to_list(const OpDescriptor& op, const SchemaArgument& declared, Argument value) {
  if (value.is_ints()) {
    ArgumentList list;
    for (const std::int64_t i : value.ints()) list.emplace_back(i);
    value = std::move(list);
  }
  if (!value.is_list()) refuse(op, declared, value);
  const SchemaType& type = declared.type;
  for (const Argument& element : value.list()) {
    const bool fits = type.is_tensor() ? element.is_tensor() || element.is_spec() ||
                                             (element.is_none() && type.elements_optional)
                                       : element.is_scalar();
    if (!fits) refuse(op, declared, value);
  }
  if (!takes_count(type, value.list().size())) refuse(op, declared, value);
  return value;
}

Argument to_scalar(const OpDescriptor& op, const SchemaArgument& declared, Argument value) {
  if (!value.is_scalar()) refuse(op, declared, value);
  const TypeKind kind = declared.type.kind;
  if (kind == TypeKind::kInt && !is_integer(value)) refuse(op, declared, value);
  if (kind == TypeKind::kFloat && is_integer(value)) return value.to_double();
  if (kind == TypeKind::kBool && is_integer(value)) return value.to_bool();
  return value;
}

Argument coerce(const OpDescriptor& op, const SchemaArgument& declared, Argument value) {
  if (value.is_none()) {
    if (!declared.type.is_optional) refuse(op, declared, value);
    return value;
  }
  if (declared.type.is_list) {
    return declared.type.kind == TypeKind::kInt ? to_ints(op, declared, std::move(value))
                                                : to_list(op, declared, std::move(value));
  }
  switch (declared.type.kind) {
    case TypeKind::kTensor:  // a number stands for a 0-dim tensor that does not decide dtypes
      if (value.is_tensor() || value.is_spec()) return value;
      if (value.is_scalar() && !declared.alias.write) return value;
      break;
    case TypeKind::kScalar:
    case TypeKind::kInt:
    case TypeKind::kFloat:
    case TypeKind::kBool:
    case TypeKind::kComplex:
      return to_scalar(op, declared, std::move(value));
    case TypeKind::kDType:
      if (value.is_dtype()) return value;
      break;
    case TypeKind::kString:
      if (value.is_string()) return value;
      break;
    default:
      return value;
  }
  refuse(op, declared, value);
}

Argument parse_number(const std::string& text) {
  std::int64_t integer = 0;
  const char* end = text.data() + text.size();
  if (std::from_chars(text.data(), end, integer).ptr == end) return integer;
  double real = 0;
  if (std::from_chars(text.data(), end, real).ptr == end) return real;
  return text;
}

Argument parse_list(const SchemaType& type, const std::string& text) {
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
  const std::string& text = *argument.default_text;
  if (text == "None") return {};
  if (text == "True") return true;
  if (text == "False") return false;
  if (text == "Mean") return 1;
  if (text == "Sum") return 2;
  if (text.front() == '"') return text.substr(1, text.size() - 2);
  if (text.front() == '[') return parse_list(argument.type, text);
  Argument value = parse_number(text);
  if (!value.is_scalar()) return value;
  const SchemaType& type = argument.type;
  if (type.is_list) return Dims(static_cast<std::size_t>(type.list_size), value.to_int());
  if (type.kind == TypeKind::kFloat) return value.to_double();
  if (type.kind == TypeKind::kMemoryFormat) return "contiguous_format";
  return value;
}

namespace {

// Whether coerce would give the value back as it is.
bool fits(const SchemaType& type, const Argument& value) {
  if (value.is_none()) return type.is_optional;
  if (type.is_list) return type.kind == TypeKind::kInt && value.is_ints();
  switch (type.kind) {
    case TypeKind::kTensor:
      return value.is_tensor();
    case TypeKind::kScalar:
      return value.is_scalar();
    case TypeKind::kInt:
      return is_integer(value);
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

Arguments bind_arguments(const OpRow& row, Arguments positional,
                         std::vector<std::pair<std::string, Argument>> keywords) {
  const OpDescriptor& op = row.op;
  if (positional.size() > op.arguments.size() ||
      (positional.size() > op.positional_count() && !keywords.empty())) {
    fail(ErrorKind::kValue, "{}: takes {} positional arguments, got {}", op.name(),
         op.positional_count(), positional.size());
  }
  Arguments bound = row.defaults();
  std::vector<bool> given(op.arguments.size(), false);
  for (std::size_t i = 0; i < positional.size(); ++i) {
    bound[i] = coerce(op, op.arguments[i], std::move(positional[i]));
    given[i] = true;
  }
  for (auto& [name, value] : keywords) {
    const std::optional<std::size_t> index = op.find_argument(name);
    if (!index) fail(ErrorKind::kValue, "{}: no argument is named {}", op.name(), name);
    if (given[*index]) fail(ErrorKind::kValue, "{}: {} is given twice", op.name(), name);
    bound[*index] = coerce(op, op.arguments[*index], std::move(value));
    given[*index] = true;
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    const SchemaArgument& declared = op.arguments[i];
    if (given[i] || declared.default_text || declared.type.is_optional) continue;
    fail(ErrorKind::kValue, "{}: argument {} is missing", op.name(), declared.name);
  }
  return bound;
}

}  // namespace shardlab
