// An argument is a union, whose only member says its kind.
#include "sim/recording/exported_arguments.h"

#include <complex>
#include <string>
#include <vector>

#include "base/error.h"
#include "sim/recording/exported_archive.h"

namespace shardlab {

namespace {

std::string memory_format(const JsonNode& number) {
  static const std::vector<std::string> kNames = {"", "contiguous", "channels_last",
                                                  "channels_last_3d", "preserve"};
  const std::int64_t index = number.integer();
  if (index > 0 && index < std::ssize(kNames)) {
    return kNames[static_cast<std::size_t>(index)] + "_format";
  }
  fail(ErrorKind::kUnsupported, Fix{std::string(kExportAgain)}, "memory format {} is not read",
       index);
}

Dims integers(const JsonNode& list) {
  Dims all;
  for (const JsonNode& one : list) all.push_back(one.integer());
  return all;
}

Argument list_of(const JsonNode& list, const auto& read) {
  ArgumentList all;
  for (const JsonNode& one : list) all.emplace_back(read(one));
  return all;
}

}  // namespace

Argument ExportedArguments::read(std::string_view name, const JsonNode& given) {
  const JsonNode& value = only_member(given);
  const std::string_view kind = value.key();
  if (kind == "as_none") return {};
  if (kind == "as_tensor") return operand_(name_in(value));
  if (kind == "as_tensors") {
    return list_of(value, [&](const JsonNode& one) { return operand_(name_in(one)); });
  }
  if (kind == "as_optional_tensors") {
    return list_of(value, [&](const JsonNode& one) { return read(name, one); });
  }
  if (kind == "as_optional_tensor") return read(name, value);
  if (kind == "as_int") return value.integer();
  if (kind == "as_ints") return integers(value);
  if (kind == "as_float") return real_of(value);
  if (kind == "as_floats") return list_of(value, [](const JsonNode& one) { return real_of(one); });
  if (kind == "as_bool") return value.boolean();
  if (kind == "as_bools") return list_of(value, [](const JsonNode& one) { return one.boolean(); });
  if (kind == "as_string") return std::string(value.text());
  if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool") {
    return symbolic(value);
  }
  if (kind == "as_sym_ints") {
    Dims sizes;
    for (const JsonNode& one : value) sizes.push_back(symbolic(one).to_int());
    return sizes;
  }
  if (kind == "as_sym_floats" || kind == "as_sym_bools") {
    return list_of(value, [&](const JsonNode& one) { return symbolic(one); });
  }
  if (kind == "as_scalar_type") return exported_dtype(value);
  if (kind == "as_memory_format") return memory_format(value);
  if (kind == "as_layout") return "torch.strided";
  if (kind == "as_device") return "cpu";
  if (kind == "as_complex") {
    return Scalar(std::complex<double>(value.at("real").real(), value.at("imag").real()));
  }
  fail(ErrorKind::kUnsupported, Fix{"write the call without it"},
       "the argument '{}' is of the kind {}, which is not read", name, kind);
}

Scalar ExportedArguments::symbolic(const JsonNode& argument) {
  const auto scalar = [](const JsonNode& number) {
    if (number.kind() == JsonNode::Kind::kBool) return Scalar(number.boolean());
    if (number.is_integer()) return Scalar(number.integer());
    return Scalar(real_of(number));
  };
  if (!argument.contains("as_name")) return scalar(only_member(argument));
  const std::string_view name = argument.at("as_name").text();
  for (const char* table : {"sym_int_values", "sym_float_values", "sym_bool_values"}) {
    const JsonNode* values = graph_.find(table);
    const JsonNode* found = values == nullptr ? nullptr : values->find(name);
    if (found == nullptr) continue;
    const JsonNode& value = *found;
    if (!value.contains("as_expr")) return scalar(only_member(value));
    return Scalar(sizes_.of_text(value.at("as_expr").at("expr_str").text()));
  }
  fail(ErrorKind::kValue, "nothing has given the number '{}'", name);
}

}  // namespace shardlab
