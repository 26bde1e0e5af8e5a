// Tables of words. A name is looked up among all names of a printed program, functions of the C++
// API included (api/op_functions.h), so that no input hides a function.
#include "sim/capture/cpp_words.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "api/op_functions.h"
#include "base/escaped_text.h"
#include "base/fix.h"
#include "base/text_of_list.h"
#include "schema/op_row.h"
#include "sim/capture/graph_writer.h"

namespace shardlab {

namespace {

// Keywords, and macros of the standard headers that look like names.
constexpr auto kKeywords = std::to_array<std::string_view>({
    "alignas",       "alignof",     "and",       "and_eq",       "asm",          "assert",
    "auto",          "bitand",      "bitor",     "bool",         "break",        "case",
    "catch",         "char",        "char16_t",  "char32_t",     "char8_t",      "class",
    "co_await",      "co_return",   "co_yield",  "compl",        "concept",      "const",
    "const_cast",    "consteval",   "constexpr", "constinit",    "continue",     "decltype",
    "default",       "delete",      "do",        "double",       "dynamic_cast", "else",
    "enum",          "errno",       "explicit",  "export",       "extern",       "false",
    "float",         "for",         "friend",    "goto",         "if",           "inline",
    "int",           "linux",       "long",      "mutable",      "namespace",    "new",
    "noexcept",      "not",         "not_eq",    "nullptr",      "operator",     "or",
    "or_eq",         "private",     "protected", "public",       "register",     "reinterpret_cast",
    "requires",      "return",      "short",     "signed",       "sizeof",       "static",
    "static_assert", "static_cast", "stderr",    "stdin",        "stdout",       "struct",
    "switch",        "template",    "this",      "thread_local", "throw",        "true",
    "try",           "typedef",     "typeid",    "typename",     "union",        "unix",
    "unsigned",      "using",       "virtual",   "void",         "volatile",     "wchar_t",
    "while",         "xor",         "xor_eq",    "EOF",          "INFINITY",     "NAN",
    "NULL",
});

// Other names in printed programs.
constexpr auto kSaid = std::to_array<std::string_view>({
    "all_gather",
    "all_ops",
    "all_reduce",
    "all_to_all",
    "arange",
    "backward",
    "barrier",
    "broadcast",
    "checked_piece",
    "construct_mesh",
    "deal_partials",
    "detach",
    "detach_in_place",
    "device_mesh",
    "distribute_tensor",
    "drop_grad",
    "flatten_layout",
    "flatten_mesh",
    "flattened_mesh",
    "from_local",
    "full",
    "get_coordinate",
    "get_group",
    "grad_of",
    "gradients",
    "init_mesh",
    "layout",
    "main",
    "make_input",
    "make_tensor",
    "manual_seed",
    "mesh",
    "ones",
    "ops",
    "ops_with",
    "options",
    "plans",
    "print_digests",
    "process_arena",
    "program_calls",
    "propagator",
    "rand",
    "randn",
    "rank",
    "read_doubles",
    "redistribute",
    "reduce_scatter",
    "registry",
    "require_grad",
    "require_no_grad",
    "rules",
    "set_factor_rule",
    "spec_of",
    "spmd",
    "std",
    "submesh",
    "tensor",
    "tensor_from",
    "to_local",
    "world_group",
    "zeros",
    "Argument",
    "ArgumentList",
    "Arguments",
    "Calls",
    "DTensor",
    "DType",
    "Dims",
    "Error",
    "Generator",
    "GradModeScope",
    "Graph",
    "ImplicitRedistribution",
    "Issue",
    "MeshLayout",
    "MixedTensors",
    "OpRegistry",
    "Placement",
    "Placements",
    "PlanOptions",
    "PlannerKind",
    "Propagator",
    "RandomState",
    "RankContext",
    "ReduceOp",
    "Results",
    "Scalar",
    "TargetScope",
    "TensorMeta",
    "WorldOptions",
});

char capital(char letter) {
  return letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
}

}  // namespace

std::string cpp_text(std::string_view text) { return '"' + escaped_text(text, "\\{:03o}") + '"'; }

std::string cpp_texts(const std::vector<std::string>& texts) {
  std::vector<std::string> quoted;
  for (const std::string& text : texts) quoted.push_back(cpp_text(text));
  return fmt::format("{{{}}}", text_of_list(quoted, ", "));
}

std::string cpp_unsigned(std::uint64_t value) {
  const bool plain = value <= std::uint64_t{std::numeric_limits<std::int64_t>::max()};
  return fmt::format("{}{}", value, plain ? "" : "u");
}

std::string cpp_number(const Scalar& value) {
  switch (value.category()) {
    case Category::kBool:
      return value.to_bool() ? "true" : "false";
    case Category::kInteger:
      if (value.to_int() != std::numeric_limits<std::int64_t>::min()) return value.text();
      return "std::numeric_limits<std::int64_t>::min()";
    case Category::kFloat: {
      const double number = value.to_double();
      const char* sign = std::signbit(number) ? "-" : "";
      if (std::isnan(number)) return "std::numeric_limits<double>::quiet_NaN()";
      if (!std::isinf(number)) return value.text();
      return fmt::format("{}std::numeric_limits<double>::infinity()", sign);
    }
    default:
      return fmt::format("Scalar(std::complex<double>({}, {}))", cpp_number(value.to_double()),
                         cpp_number(value.imaginary()));
  }
}

std::string cpp_name(DType dtype) {
  if (dtype == DType::kBool) return "DType::kBool";
  std::string name = "DType::k";
  for (const char letter : to_string(dtype)) name += capital(letter);
  return name;
}

std::string cpp_name(ReduceOp op) {
  constexpr std::array<std::string_view, kReduceOpCount> kNames = {
      "Sum", "Avg", "Max", "Min", "Product", "BitAnd", "BitOr", "BitXor"};
  return fmt::format("ReduceOp::k{}", kNames[static_cast<std::size_t>(op)]);
}

std::string cpp_enumerator(std::string_view type, std::string_view text) {
  return fmt::format("{}::k{}{}", type, capital(text.at(0)), text.substr(1));
}

std::string cpp_dims(const Dims& dims) {
  return fmt::format("Dims{{{}}}", text_of_list(dims, ", "));
}

std::string cpp_placement(const Placement& placement) {
  switch (placement.kind) {
    case PlacementKind::kReplicate:
      return "Placement::replicate()";
    case PlacementKind::kShard:
      return fmt::format("Placement::shard({})", placement.dim);
    case PlacementKind::kStridedShard:
      return fmt::format("Placement::strided_shard({}, {})", placement.dim, placement.split_factor);
    case PlacementKind::kPartial:
      return fmt::format("Placement::partial({})", cpp_name(placement.op));
    case PlacementKind::kNormPartial:
      return fmt::format("Placement::norm_partial({})", cpp_number(placement.norm));
    default:
      fail(ErrorKind::kUnsupported, Fix{"shardlab trace FILE --out g.graph keeps all of it"},
           "{} has no expression: only a lookup makes its mask", to_string(placement));
  }
}

std::string cpp_numbers(const std::vector<Scalar>& values) {
  std::vector<std::string> texts;
  for (const Scalar& value : values) texts.push_back(cpp_number(value));
  return fmt::format("{{{}}}", text_of_list(texts, ", "));
}

std::string cpp_placements(const Placements& placements) {
  std::vector<std::string> texts;
  for (const Placement& placement : placements) texts.push_back(cpp_placement(placement));
  return fmt::format("{{{}}}", text_of_list(texts, ", "));
}

std::string cpp_identifier(std::string name) {
  const bool taken =
      std::ranges::find(kKeywords, name) != kKeywords.end() ||
      std::ranges::find(kSaid, name) != kSaid.end() ||
      std::ranges::find(op_functions(), name, &OpFunction::name) != op_functions().end();
  return taken ? name + "_" : name;
}

const OpFunction* function_of(std::string_view op) {
  const auto found = std::ranges::find(op_functions(), op, &OpFunction::op);
  return found == op_functions().end() ? nullptr : &*found;
}

bool is_none(const GraphArgument& argument) {
  return std::holds_alternative<std::monostate>(argument.value);
}

bool is_default(const GraphArgument& argument, const OpRow& row, std::size_t index) {
  if (!row.op.arguments.at(index).default_text) return false;
  const Argument& usual = row.defaults().at(index);
  if (is_none(argument)) return usual.is_none();
  if (const auto* scalar = std::get_if<Scalar>(&argument.value)) return usual == Argument(*scalar);
  if (const auto* sizes = std::get_if<Dims>(&argument.value)) return usual == Argument(*sizes);
  if (const auto* dtype = std::get_if<DType>(&argument.value)) return usual == Argument(*dtype);
  if (const auto* text = std::get_if<std::string>(&argument.value)) return usual == Argument(*text);
  return false;
}

}  // namespace shardlab
