#include "sim/language/op_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/nearest.h"
#include "schema/list_count.h"

namespace shardlab {

namespace {

/// What a number may stand for.
enum class NumberAs : std::uint8_t { kNumber, kTensor };

Scalar scalar_of(const Value& value) {
  if (const auto* flag = value.get<bool>()) return Scalar(*flag);
  if (const auto* integer = value.get<std::int64_t>()) return Scalar(*integer);
  return Scalar(value.as<double>());
}

std::optional<Argument> tensor_list(const Value& value, bool elements_optional) {
  if (!value.is_sequence()) return std::nullopt;
  ArgumentList list;
  for (const Value& item : items_of(value)) {
    if (const auto* tensor = item.get<DTensor>())
      list.emplace_back(*tensor);
    else if (item.is_none() && elements_optional)
      list.emplace_back();
    else
      return std::nullopt;
  }
  return Argument(std::move(list));
}

std::optional<Argument> scalar_list(const Value& value, const SchemaType& type) {
  if (!value.is_sequence() || !takes_count(type, items_of(value).size())) return std::nullopt;
  ArgumentList list;
  for (const Value& item : items_of(value)) {
    if (!item.is_number()) return std::nullopt;
    list.emplace_back(scalar_of(item));
  }
  return Argument(std::move(list));
}

std::optional<Argument> list_argument(const Value& value, const SchemaType& type) {
  if (type.is_tensor()) return tensor_list(value, type.elements_optional);
  if (type.kind == TypeKind::kInt) {
    const bool one = value.is<std::int64_t>();
    if (one && type.list_size == 0) return std::nullopt;
    auto dims = dims_of(value);
    return dims ? std::optional<Argument>(std::move(*dims)) : std::nullopt;
  }
  return scalar_list(value, type);
}

std::optional<Argument> to_argument(const Value& value, const SchemaType& type, NumberAs number) {
  if (value.is_none()) return type.is_optional ? std::optional<Argument>(Argument()) : std::nullopt;
  if (type.is_list) return list_argument(value, type);
  const auto when = [&](bool fits) {
    return fits ? std::optional<Argument>(Argument(scalar_of(value))) : std::nullopt;
  };
  switch (type.kind) {
    case TypeKind::kTensor:
      if (const auto* tensor = value.get<DTensor>()) return Argument(*tensor);
      return when(number == NumberAs::kTensor && value.is_number());
    case TypeKind::kScalar:
      return when(value.is_number());
    case TypeKind::kInt:
      return when(value.is<std::int64_t>());
    case TypeKind::kFloat:
      return when(value.is<double>() || value.is<std::int64_t>());
    case TypeKind::kBool:
      return when(value.is<bool>());
    case TypeKind::kDType:
      if (const auto* dtype = value.get<DType>()) return Argument(*dtype);
      return std::nullopt;
    case TypeKind::kString:
    case TypeKind::kMemoryFormat:
      if (const auto* text = value.get<std::string>()) return Argument(*text);
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

/// Brings the arguments of one call into the order of one row.
class Binder {
 public:
  Binder(const OpRow& row, const CallValues& call, NumberAs number)
      : row_(row), call_(call), number_(number), args_(row.defaults()), set_(args_.size(), false) {}

  /// False when the row does not take the arguments; reason() says why.
  bool bind() { return positional() && keywords() && complete(); }
  Arguments take() { return std::move(args_); }
  const std::string& reason() const { return reason_; }

 private:
  bool refuse(std::string reason) {
    reason_ = std::move(reason);
    return false;
  }

  bool set(std::size_t index, const Value& value) {
    const SchemaArgument& argument = row_.op.arguments[index];
    if (set_[index]) return refuse(fmt::format("'{}' is given twice", argument.name));
    const NumberAs number = argument.alias.write ? NumberAs::kNumber : number_;
    auto converted = to_argument(value, argument.type, number);
    if (!converted) {
      return refuse(fmt::format("'{}' is {} {}, not {}", argument.name, kind_name(value),
                                repr(value), argument.type.spelling));
    }
    args_[index] = std::move(*converted);
    set_[index] = true;
    return true;
  }

  bool positional() {
    const std::size_t places = row_.op.positional_count();
    for (std::size_t i = 0; i < call_.positional.size(); ++i) {
      if (i >= places) return refuse(fmt::format("takes at most {} positional arguments", places));
      if (is_size_list(i)) {
        return set(i, make_list(Values(call_.positional.begin() + static_cast<std::ptrdiff_t>(i),
                                       call_.positional.end())));
      }
      if (!set(i, call_.positional[i])) return false;
    }
    return true;
  }

  // x.view(2, 3): integers from here on are one list of sizes.
  bool is_size_list(std::size_t index) const {
    const SchemaType& type = row_.op.arguments[index].type;
    const bool first = index == 0 || (index == 1 && row_.op.arguments[0].type.is_tensor());
    if (!first || !type.is_list || type.kind != TypeKind::kInt || type.list_size != 0) return false;
    return std::all_of(call_.positional.begin() + static_cast<std::ptrdiff_t>(index),
                       call_.positional.end(),
                       [](const Value& value) { return value.is<std::int64_t>(); });
  }

  bool keywords() {
    for (const auto& [keyword, value] : call_.keywords) {
      auto index = row_.op.find_argument(keyword);
      // torch calls the first argument `input` where ATen says `self`.
      if (!index && keyword == "input" && !row_.op.arguments.empty() &&
          row_.op.arguments[0].name == "self") {
        index = 0;
      }
      if (!index) return refuse(fmt::format("has no argument '{}'", keyword));
      if (!set(*index, value)) return false;
    }
    return true;
  }

  bool complete() {
    for (std::size_t i = 0; i < set_.size(); ++i) {
      if (set_[i] || row_.op.arguments[i].default_text) continue;
      return refuse(fmt::format("'{}' is missing", row_.op.arguments[i].name));
    }
    return true;
  }

  const OpRow& row_;
  const CallValues& call_;
  NumberAs number_;
  Arguments args_;
  std::vector<bool> set_;
  std::string reason_;
};

std::string base_name(const OpRow& row) {
  const std::size_t colons = row.op.base.find("::");
  return colons == std::string::npos ? row.op.base : row.op.base.substr(colons + 2);
}

std::string given_text(const CallValues& call) {
  std::string out;
  for (const Value& value : call.positional) out += (out.empty() ? "" : ", ") + repr(value);
  for (const auto& [keyword, value] : call.keywords) {
    out += fmt::format("{}{}={}", out.empty() ? "" : ", ", keyword, repr(value));
  }
  return out;
}

[[noreturn]] void refuse_unknown(const OpRegistry& registry, std::string_view base) {
  throw Error(ErrorKind::kUnsupported, fmt::format("unknown op '{}'", base))
      .with("fix", suggest(base, op_names(registry)));
}

}  // namespace

ResolvedCall bind_call(const OpRow& row, const CallValues& call) {
  Binder binder(row, call, NumberAs::kTensor);
  if (binder.bind()) return {&row, binder.take()};
  throw Error(ErrorKind::kValue, fmt::format("{}: {}", row.name(), binder.reason()))
      .with("op", row.op.text());
}

ResolvedCall resolve_call(const OpRegistry& registry, std::string_view base,
                          const CallValues& call) {
  const auto overloads = registry.overloads(base);
  if (overloads.empty()) refuse_unknown(registry, base);
  const bool wants_out = std::any_of(call.keywords.begin(), call.keywords.end(),
                                     [](const auto& keyword) { return keyword.first == "out"; });
  std::string reasons;
  for (const NumberAs number : {NumberAs::kNumber, NumberAs::kTensor}) {
    for (const OpRow* row : overloads) {
      if (row->out_variant() != wants_out) continue;
      Binder binder(*row, call, number);
      if (binder.bind()) return {row, binder.take()};
      if (number == NumberAs::kTensor) {
        reasons +=
            fmt::format("{}{}: {}", reasons.empty() ? "" : "\n", row->op.text(), binder.reason());
      }
    }
  }
  throw Error(ErrorKind::kValue, fmt::format("{}({}) fits no overload", base, given_text(call)))
      .with("op", reasons);
}

std::vector<std::string> op_names(const OpRegistry& registry) {
  std::vector<std::string> names;
  for (const OpRow* row : registry.rows()) names.push_back(base_name(*row));
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

bool is_op(const OpRegistry& registry, std::string_view base) {
  return !registry.overloads(base).empty();
}

Value value_of(const Argument& argument) {
  if (argument.is_none()) return {};
  if (argument.is_tensor()) return argument.tensor();
  if (argument.is_dtype()) return argument.dtype();
  if (argument.is_string()) return argument.string();
  if (argument.is_ints()) return make_tuple(argument.ints());
  if (argument.is_scalar()) {
    const Scalar& scalar = argument.scalar();
    if (scalar.category() == Category::kBool) return scalar.to_bool();
    if (scalar.category() == Category::kInteger) return scalar.to_int();
    if (scalar.category() == Category::kFloat) return scalar.to_double();
    fail(ErrorKind::kUnsupported, "not yet supported: complex numbers in programs");
  }
  if (argument.is_list()) {
    Values items;
    for (const Argument& item : argument.list()) items.push_back(value_of(item));
    return make_tuple(std::move(items));
  }
  fail(ErrorKind::kInternal, "an op returned {}", argument.text());
}

Value value_of(const Results& results) {
  if (results.empty()) return {};
  if (results.size() == 1) return value_of(results[0]);
  Values items;
  for (const Argument& result : results) items.push_back(value_of(result));
  return make_tuple(std::move(items));
}

}  // namespace shardlab
