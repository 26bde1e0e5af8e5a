// Text to sets of arguments: rows name the arguments that their gradients read as their schemas do.
#include "schema/gradient_reads.h"

#include <charconv>
#include <optional>

#include "base/error.h"

namespace shardlab {
namespace {

std::size_t argument_index(const OpDescriptor& op, std::string_view name) {
  if (const auto index = op.find_argument(name)) return *index;
  fail(ErrorKind::kInternal, "{}: its gradient reads '{}', which it does not have", op.name(),
       name);
}

/// "self|other" as a set.
ArgumentSet argument_set(const OpDescriptor& op, std::string_view names) {
  ArgumentSet set = 0;
  while (!names.empty()) {
    const std::size_t bar = names.find('|');
    set |= ArgumentSet{1} << argument_index(op, names.substr(0, bar));
    names = bar == std::string_view::npos ? std::string_view{} : names.substr(bar + 1);
  }
  return set;
}

/// The index of "result1", or none for another name.
std::optional<std::size_t> result_index(const OpDescriptor& op, std::string_view name) {
  constexpr std::string_view kResult = "result";
  if (!name.starts_with(kResult)) return std::nullopt;
  const std::string_view digits = name.substr(kResult.size());
  std::size_t index = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), index);
  return index < op.returns.size() ? std::optional(index) : std::nullopt;
}

void add_constant(const OpDescriptor& op, std::string_view name, GradientReads& reads) {
  if (const auto result = result_index(op, name)) {
    reads.constant_results |= std::uint32_t{1} << *result;
  } else {
    reads.constant_arguments |= ArgumentSet{1} << argument_index(op, name);
  }
}

}  // namespace

GradientReads parse_gradient_reads(const OpDescriptor& op, std::string_view text) {
  check_invariant(op.arguments.size() <= 32, "a set of arguments has room for 32");
  GradientReads reads;
  if (text.empty()) return reads;
  reads.arguments.resize(op.arguments.size());
  reads.results.resize(op.returns.size());
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(item.size() + 1, text.size()));
    if (item == "~result") {
      reads.result_shapes = true;
      continue;
    }
    if (item.starts_with('!')) {
      add_constant(op, item.substr(1), reads);
      continue;
    }
    const std::size_t colon = item.find(':');
    const std::string_view name = item.substr(0, colon);
    const ArgumentSet wanted =
        colon == std::string_view::npos ? kAnyArgument : argument_set(op, item.substr(colon + 1));
    const auto result = result_index(op, name);
    (result ? reads.results[*result] : reads.arguments[argument_index(op, name)]) |= wanted;
  }
  return reads;
}

}  // namespace shardlab
