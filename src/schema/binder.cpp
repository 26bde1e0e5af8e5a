// Python's binding over the types of a schema: positional arguments, then keywords, then defaults.
// A value is never guessed: it either has the declared type, or one of the few conversions that
// PyTorch's argument parser makes too, or the signature does not take the call.
#include "schema/binder.h"

#include <fmt/format.h>

#include <algorithm>

namespace shardlab {
namespace {

bool is_int(const Argument& value) {
  return value.is_scalar() && value.scalar().category() == Category::kInteger;
}

/// One int means a whole list where the schema fixes the size ("int[2]").
std::optional<Argument> to_ints(const SchemaType& type, const Argument& value) {
  if (value.is_ints()) return value;
  if (is_int(value) && type.list_size > 0) {
    return Dims(static_cast<std::size_t>(type.list_size), value.to_int());
  }
  if (!value.is_list()) return std::nullopt;
  Dims ints;
  for (const Argument& element : value.list()) {
    if (!is_int(element)) return std::nullopt;
    ints.push_back(element.to_int());
  }
  return ints;
}

ArgumentList elements_of(const Argument& value) {
  if (value.is_list()) return value.list();
  return ArgumentList(value.ints().begin(), value.ints().end());
}

/// Lists of tensors, floats and bools; an empty list of ints is an empty list of anything.
std::optional<Argument> to_list(const SchemaType& type, const Argument& value) {
  if (!value.is_list() && !value.is_ints()) return std::nullopt;
  ArgumentList list = elements_of(value);
  const bool fit = std::ranges::all_of(list, [&](const Argument& element) {
    if (!type.is_tensor()) return element.is_scalar();
    return element.is_tensor() || element.is_spec() ||
           (element.is_none() && type.elements_optional);
  });
  if (!fit || !takes_count(type, list.size())) return std::nullopt;
  return list;
}

std::optional<Argument> to_scalar(TypeKind kind, const Argument& value) {
  if (!value.is_scalar()) return std::nullopt;
  const Scalar& scalar = value.scalar();
  switch (kind) {
    case TypeKind::kInt:
      return is_int(value) ? std::optional(value) : std::nullopt;
    case TypeKind::kBool:
      return scalar.category() == Category::kBool ? std::optional(value) : std::nullopt;
    case TypeKind::kFloat:
      if (scalar.category() == Category::kComplex) return std::nullopt;
      return Argument(scalar.to_double());
    default:
      return value;
  }
}

std::optional<Argument> value_if(bool fits, const Argument& value) {
  return fits ? std::optional(value) : std::nullopt;
}

/// numpy's words, which PyTorch takes too, and torch's word for the first argument.
std::optional<std::size_t> find_as_python(const OpDescriptor& op, std::string_view keyword) {
  if (const auto index = op.find_argument(keyword)) return index;
  if (keyword == "axis") return op.find_argument("dim");
  if (keyword == "keepdims") return op.find_argument("keepdim");
  const bool first = keyword == "input" && !op.arguments.empty() && op.arguments[0].name == "self";
  return first ? std::optional<std::size_t>(0) : std::nullopt;
}

class Binder {
 public:
  Binder(const OpDescriptor& op, const Arguments& defaults, BindRules rules)
      : op_(op), rules_(rules), bound_(defaults), set_(op.arguments.size(), false) {}

  bool bind(const GivenArguments& given) {
    return positional(given) && keywords(given) && complete();
  }
  Arguments take() { return std::move(bound_); }
  std::string take_reason() { return std::move(reason_); }

 private:
  bool python() const { return rules_.style == BindRules::Style::kPython; }

  bool refuse(std::string reason) {
    reason_ = std::move(reason);
    return false;
  }

  bool set(std::size_t index, const Argument& value) {
    const SchemaArgument& declared = op_.arguments[index];
    if (set_[index]) return refuse(fmt::format("'{}' is given twice", declared.name));
    // In a call in schema order the dispatcher handles the generator itself (D-27).
    const bool later = !python() && declared.type.kind == TypeKind::kGenerator;
    std::optional<Argument> fitting = later ? value : coerced(declared, value, rules_.numbers);
    if (!fitting) {
      return refuse(fmt::format("'{}' is {}, must be {}", declared.name, value.text(),
                                declared.type.spelling()));
    }
    bound_[index] = std::move(*fitting);
    set_[index] = true;
    return true;
  }

  bool positional(const GivenArguments& given) {
    const Arguments& values = given.positional;
    const bool all = !python() && given.keywords.empty();
    const std::size_t places = all ? op_.arguments.size() : op_.positional_count();
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i >= places) {
        return refuse(fmt::format("takes at most {} positional argument{}, {} are given", places,
                                  places == 1 ? "" : "s", values.size()));
      }
      if (python() && are_sizes(values, i)) {
        Dims sizes;
        for (; i < values.size(); ++i) sizes.push_back(values[i].to_int());
        return set(values.size() - sizes.size(), sizes);
      }
      if (python() && are_tensors(values, i)) {
        return set(i, ArgumentList(values.begin() + static_cast<std::ptrdiff_t>(i), values.end()));
      }
      if (!set(i, values[i])) return false;
    }
    return true;
  }

  // meshgrid(x, y), einsum("i,j->ij", x, y): tensors of a function that takes only a list of them,
  // or a word and the list, are the list.
  bool are_tensors(const Arguments& values, std::size_t index) const {
    const SchemaType& type = op_.arguments[index].type;
    const bool worded = index == 1 && op_.arguments[0].type.kind == TypeKind::kString;
    const bool rest = (index == 0 || worded) && type.is_tensor() && type.is_list &&
                      op_.positional_count() == index + 1 && !op_.base.starts_with("aten::_");
    const auto from = values.begin() + static_cast<std::ptrdiff_t>(index);
    return rest && std::all_of(from, values.end(), [](const Argument& value) {
             return value.is_tensor() || value.is_spec();
           });
  }

  // x.view(2, 3): ints from here on are one list of sizes.
  bool are_sizes(const Arguments& values, std::size_t index) const {
    const SchemaType& type = op_.arguments[index].type;
    const bool first = index == 0 || (index == 1 && op_.arguments[0].type.is_tensor());
    if (!first || !type.is_list || type.kind != TypeKind::kInt || type.list_size != 0) return false;
    return std::all_of(values.begin() + static_cast<std::ptrdiff_t>(index), values.end(), is_int);
  }

  bool keywords(const GivenArguments& given) {
    for (const auto& [keyword, value] : given.keywords) {
      const auto index = python() ? find_as_python(op_, keyword) : op_.find_argument(keyword);
      if (!index) return refuse(fmt::format("has no argument '{}'", keyword));
      if (!set(*index, value)) return false;
    }
    return true;
  }

  bool complete() {
    for (std::size_t i = 0; i < set_.size(); ++i) {
      const SchemaArgument& declared = op_.arguments[i];
      const bool optional = declared.default_text || (!python() && declared.type.is_optional);
      if (!set_[i] && !optional) return refuse(fmt::format("'{}' is missing", declared.name));
    }
    return true;
  }

  const OpDescriptor& op_;
  BindRules rules_;
  Arguments bound_;
  std::vector<bool> set_;
  std::string reason_;
};

}  // namespace

std::string given_text(const GivenArguments& given) {
  std::string out;
  const auto separated = [&] { return out.empty() ? "" : ", "; };
  for (const Argument& value : given.positional) out += separated() + value.text();
  for (const auto& [keyword, value] : given.keywords) {
    out += fmt::format("{}{}={}", separated(), keyword, value.text());
  }
  return out;
}

std::optional<Argument> coerced(const SchemaArgument& declared, const Argument& value,
                                BindRules::Numbers numbers) {
  const SchemaType& type = declared.type;
  if (value.is_none()) return value_if(type.is_optional, value);
  if (type.is_list) {
    return type.kind == TypeKind::kInt ? to_ints(type, value) : to_list(type, value);
  }
  const bool number_fits = numbers == BindRules::Numbers::kStandForTensors && !declared.alias.write;
  switch (type.kind) {
    case TypeKind::kTensor:  // a number becomes a 0-dim tensor that does not decide dtypes
      return value_if(value.is_tensor() || value.is_spec() || (value.is_scalar() && number_fits),
                      value);
    case TypeKind::kScalar:
    case TypeKind::kInt:
    case TypeKind::kFloat:
    case TypeKind::kBool:
    case TypeKind::kComplex:
      return to_scalar(type.kind, value);
    case TypeKind::kDType:
      return value_if(value.is_dtype(), value);
    case TypeKind::kString:
    case TypeKind::kMemoryFormat:
    case TypeKind::kDevice:
    case TypeKind::kLayout:
      return value_if(value.is_string(), value);
    case TypeKind::kGenerator:
      return value_if(std::holds_alternative<Generator>(value.variant()), value);
    case TypeKind::kOther:
      return value;
  }
  return std::nullopt;
}

std::optional<Arguments> bind(const OpDescriptor& op, const Arguments& defaults,
                              const GivenArguments& given, BindRules rules, std::string& reason) {
  Binder binder(op, defaults, rules);
  if (binder.bind(given)) return binder.take();
  reason = binder.take_reason();
  return std::nullopt;
}

}  // namespace shardlab
