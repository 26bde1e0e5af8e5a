// A spelling is a signature of its own, bound like any other, and a list that maps its parameters
// to arguments of the row.
#include "schema/torch_spelling.h"

#include <algorithm>

#include "base/text.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"
#include "schema/schema_queries.h"

namespace shardlab {
namespace {

std::vector<std::string> split(std::string_view text) {
  if (text.empty()) return {};
  const std::vector<std::string_view> parts = parts_of_text(text, ", ");
  return {parts.begin(), parts.end()};
}

std::int64_t reduction_of(const TorchSpelling& spelling, const std::string& word) {
  if (const auto number = reduction_number(word)) return *number;
  throw Error(
      ErrorKind::kValue,
      fmt::format("{}: reduction is '{}'; it must be 'mean', 'sum' or 'none'", spelling.name, word))
      .with("op", spelling.text)
      .with("fix", "use 'mean', 'sum' or 'none'");
}

Argument literal_value(SchemaArgument declared, const std::string& text) {
  if (declared.type.kind == TypeKind::kDType) {
    const auto dtype = parse_dtype(text);
    check_invariant(dtype.has_value(), "a spelling names a dtype");
    return *dtype;
  }
  declared.default_text = text;
  return parse_default(declared);
}

Arguments row_arguments(const TorchSpelling& spelling, const OpRow& row, const Arguments& torch) {
  if (spelling.convert != nullptr) return spelling.convert(torch);
  Arguments args;
  for (std::size_t i = 0; i < spelling.operands.size(); ++i) {
    const TorchSpelling::Operand& operand = spelling.operands[i];
    const SchemaArgument& declared = row.op.arguments[i];
    Argument value =
        operand.parameter ? torch[*operand.parameter] : literal_value(declared, operand.literal);
    if (declared.name == "reduction" && value.is_string()) {
      value = reduction_of(spelling, value.string());
    }
    if (value.is_none() && !declared.type.is_optional) value = row.defaults()[i];
    args.push_back(std::move(value));
  }
  return args;
}

/// Parameters for which the row has no argument must be at their defaults.
bool only_defaults_unused(const TorchSpelling& spelling, const Arguments& torch,
                          std::string& reason) {
  if (spelling.convert != nullptr) return true;
  for (std::size_t i = 0; i < torch.size(); ++i) {
    const bool used = std::ranges::any_of(
        spelling.operands, [&](const auto& operand) { return operand.parameter == i; });
    if (used || torch[i] == spelling.defaults[i]) continue;
    reason = fmt::format("'{}' is {}, only its default {} is supported",
                         spelling.signature.arguments[i].name, torch[i].text(),
                         spelling.defaults[i].text());
    return false;
  }
  return true;
}

/// The mesh of the tensors of a call, if they are on one.
void add_layout(Error& error, const GivenArguments& given) {
  const MeshLayout* layout = nullptr;
  std::string placements;
  const auto look_at = [&](const std::string& name, const Argument& value) {
    if (!value.is_tensor() || !value.tensor().defined() || !value.tensor().distributed()) return;
    const DTensorSpec& spec = *value.tensor().spec();
    layout = spec.layout();
    placements +=
        fmt::format("{}{} {}", placements.empty() ? "" : "   ", name, compact_text(&spec));
  };
  std::size_t place = 0;
  for (const Argument& value : given.positional)
    look_at(fmt::format("argument {}", ++place), value);
  for (const auto& [keyword, value] : given.keywords) look_at(keyword, value);
  if (layout != nullptr) error.with("mesh", layout->text()).with("placements", placements);
}

/// Collects the reasons why each signature does not take a call.
class Refusals {
 public:
  void add(const std::string& text, const OpDescriptor& signature, const std::string& reason) {
    lines_ += fmt::format("{}{}: {}", lines_.empty() ? "" : "\n", text, reason);
    for (const SchemaArgument& argument : signature.arguments) names_.emplace_back(argument.name);
  }

  [[noreturn]] void raise(std::string_view base, const GivenArguments& given) const {
    Error error(ErrorKind::kValue, fmt::format("{}({}) fits no overload", base, given_text(given)));
    error.with("op", lines_);
    add_layout(error, given);
    for (const auto& [keyword, value] : given.keywords) {
      if (std::ranges::find(names_, keyword) != names_.end()) continue;
      throw error.with("fix", suggest(keyword, names_));
    }
    throw error.with("fix", "give the arguments that one of these signatures takes");
  }

 private:
  std::string lines_;
  std::vector<std::string> names_;
};

}  // namespace

std::optional<std::int64_t> reduction_number(std::string_view word) {
  static constexpr std::string_view kWords[] = {"none", "mean", "sum"};
  const auto* found = std::ranges::find(kWords, word);
  if (found == std::end(kWords)) return std::nullopt;
  return found - std::begin(kWords);
}

TorchSpelling parse_spelling(const TorchSpellingRow& row) {
  TorchSpelling spelling;
  spelling.text = row.signature;
  spelling.name = spelling.text.substr(0, spelling.text.find('('));
  spelling.signature = parse_op_schema(spelling.text + " -> ()");
  for (const SchemaArgument& argument : spelling.signature.arguments) {
    spelling.defaults.push_back(parse_default(argument));
  }
  spelling.row = row.row;
  spelling.convert = row.convert;
  for (std::string& text : split(row.arguments)) {
    spelling.operands.push_back({spelling.signature.find_argument(text), std::move(text)});
  }
  return spelling;
}

std::optional<ResolvedCall> bind_spelling(const TorchSpelling& spelling, const OpRegistry& registry,
                                          const GivenArguments& given, BindRules::Numbers numbers,
                                          std::string& reason) {
  const OpRow* row = registry.find(spelling.row);
  if (row == nullptr) {
    reason = fmt::format("there is no op '{}'", spelling.row);
    return std::nullopt;
  }
  const auto torch = bind(spelling.signature, spelling.defaults, given,
                          {BindRules::Style::kPython, numbers}, reason);
  if (!torch || !only_defaults_unused(spelling, *torch, reason)) return std::nullopt;
  auto args = bind(row->op, row->defaults(), {row_arguments(spelling, *row, *torch), {}},
                   {BindRules::Style::kSchemaOrder, numbers}, reason);
  if (!args) return std::nullopt;
  return ResolvedCall{row, std::move(*args)};
}

namespace {

/// Takes a list of ints first, behind the tensor: the numbers of the list may be given one by one.
bool begins_with_sizes(const OpRow& row) {
  const std::vector<SchemaArgument>& arguments = row.op.arguments;
  const std::size_t first = !arguments.empty() && arguments[0].type.is_tensor() ? 1 : 0;
  if (arguments.size() <= first) return false;
  const SchemaType& type = arguments[first].type;
  return type.is_list && type.kind == TypeKind::kInt;
}

}  // namespace

ResolvedCall resolve_call(const OpRegistry& registry, std::string_view base,
                          const GivenArguments& given, std::span<const TorchSpelling> spellings) {
  const auto& overloads = registry.overloads(base);
  if (overloads.empty() && spellings.empty()) {
    fail(ErrorKind::kUnsupported, Fix{suggest(base, op_names(registry))}, "unknown op '{}'", base);
  }
  const bool wants_out = std::ranges::any_of(
      given.keywords, [](const auto& keyword) { return keyword.first == "out"; });
  Refusals refusals;
  std::string reason;
  for (const auto numbers :
       {BindRules::Numbers::kStayNumbers, BindRules::Numbers::kStandForTensors}) {
    const bool last = numbers == BindRules::Numbers::kStandForTensors;
    for (const TorchSpelling& spelling : spellings) {
      if (auto call = bind_spelling(spelling, registry, given, numbers, reason)) return *call;
      if (last) refusals.add(spelling.text, spelling.signature, reason);
    }
    // hsplit(x, 2): a number is one before it is a list of one.
    for (const bool sizes : {false, true}) {
      for (const OpRow* row : overloads) {
        if (row->out_variant() != wants_out || begins_with_sizes(*row) != sizes) continue;
        auto args =
            bind(row->op, row->defaults(), given, {BindRules::Style::kPython, numbers}, reason);
        if (args) return {row, std::move(*args)};
        if (last) refusals.add(row->op.text(), row->op, reason);
      }
    }
  }
  refusals.raise(base, given);
}

std::string_view bare_name(const OpDescriptor& op) {
  return std::string_view(op.base).substr(op.base.find("::") + 2);
}

std::vector<std::string> op_names(const OpRegistry& registry) {
  std::vector<std::string> names;
  for (const OpRow* row : registry.rows()) names.emplace_back(bare_name(row->op));
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace shardlab
