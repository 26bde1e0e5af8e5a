// An argument of a foreach op is passed to the argument of that name, else to the one at its place:
// names differ (scalars, other, value), and places do (dtype of a norm), but never both.
#include "schema/list_element.h"

#include <optional>
#include <type_traits>

#include "base/error.h"
#include "schema/op_row.h"

namespace shardlab {
namespace {

std::size_t place_of(const OpDescriptor& foreach, std::size_t index, const OpDescriptor& op) {
  const std::optional<std::size_t> named = op.find_argument(foreach.arguments[index].name);
  return named.value_or(index);
}

/// Lists of tensors and of numbers have one entry per element; lists of sizes have not.
bool per_element(const SchemaType& type) {
  return type.is_list && (type.is_tensor() || type.kind == TypeKind::kScalar);
}

Argument element_of(const Argument& list, std::size_t k) {
  if (list.is_list()) return list.list()[k];
  if (list.is_ints()) return list.ints()[k];
  return list;
}

std::size_t length_of(const Argument& list) {
  return list.is_list() ? list.list().size() : list.ints().size();
}

bool same_rule(const ShardingRule& rule, const ShardingRule& other) {
  if (rule.index() != other.index()) return false;
  return std::visit(
      [&](const auto& mine) {
        using Rule = std::decay_t<decltype(mine)>;
        const Rule& theirs = std::get<Rule>(other);
        if constexpr (std::is_same_v<Rule, FactorRule>) {
          return mine.text == theirs.text;
        } else if constexpr (std::is_same_v<Rule, PointwiseRule>) {
          return std::string_view(mine.passes) == theirs.passes;
        } else if constexpr (std::is_same_v<Rule, NoRule>) {
          return true;
        } else {
          return mine == theirs;
        }
      },
      rule);
}

}  // namespace

const OpRow* element_row(const OpRow& row) {
  return row.has(kIndependentLists) ? row.base : nullptr;
}

bool decided_as_element(const OpRow& row) {
  const OpRow* element = element_row(row);
  return element != nullptr && same_rule(row.rule, element->rule);
}

bool fits_element(const OpDescriptor& foreach, const OpDescriptor& op) {
  if (op.is_inplace() != foreach.is_inplace() || op.is_out_variant()) return false;
  std::vector<bool> given(op.arguments.size(), false);
  for (std::size_t i = 0; i < foreach.arguments.size(); ++i) {
    const std::size_t place = place_of(foreach, i, op);
    if (place >= op.arguments.size() || given[place]) return false;
    const SchemaType& type = op.arguments[place].type;
    const SchemaType& listed = foreach.arguments[i].type;
    if (type.kind != listed.kind || type.is_list) return false;
    if (listed.is_list && !per_element(listed)) return false;
    given[place] = true;
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!given[i] && !op.arguments[i].default_text) return false;
  }
  return true;
}

Arguments element_arguments(const OpRow& row, const Arguments& args, std::size_t k) {
  const OpRow& element = *element_row(row);
  Arguments result = element.defaults();
  for (std::size_t i = 0; i < args.size(); ++i) {
    const bool listed = per_element(row.op.arguments[i].type);
    result[place_of(row.op, i, element.op)] = listed ? element_of(args[i], k) : args[i];
  }
  return result;
}

std::size_t element_count(const OpRow& row, const Arguments& args, std::size_t may_be_empty) {
  std::optional<std::size_t> count;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!per_element(row.op.arguments[i].type)) continue;
    const std::size_t size = length_of(args[i]);
    if (!count) count = size;
    if (size == *count || (size == 0 && i == may_be_empty)) continue;
    fail(Fix{fmt::format("pass {} elements in {}", *count, row.op.arguments[i].name)},
         "{}: list {} has {} elements, the first list has {}; they must be of one length",
         row.name(), row.op.arguments[i].name, size, *count);
  }
  if (count.value_or(0) == 0 && element_row(row) != nullptr) {
    fail(Fix{"leave the call out where there is no tensor"},
         "{}: the list is empty; it must have at least one tensor", row.name());
  }
  return count.value_or(0);
}

}  // namespace shardlab
