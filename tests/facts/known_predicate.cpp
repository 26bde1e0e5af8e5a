// Predicates over fields of a case by dotted path. A key may contain dots itself, so that
// find_field() tries the longest key first.
#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "tests/facts/known_row.h"

namespace shardlab {
namespace {

/// The numbers in nested lists, in order.
void flatten(const Json& value, std::vector<std::int64_t>* numbers) {
  if (value.is_number_integer()) numbers->push_back(integer_of<std::int64_t>(value));
  if (!value.is_array()) return;
  for (const Json& item : value) flatten(item, numbers);
}

bool ascending(const Json& value) {
  std::vector<std::int64_t> numbers;
  flatten(value, &numbers);
  return std::is_sorted(numbers.begin(), numbers.end());
}

/// Numbers and texts in nested lists.
void leaves(const Json& value, std::vector<Json>* found) {
  if (!value.is_array()) return found->push_back(value);
  for (const Json& item : value) leaves(item, found);
}

bool unique(const Json& value) {
  std::vector<Json> found;
  leaves(value, &found);
  std::sort(found.begin(), found.end());
  return std::adjacent_find(found.begin(), found.end()) == found.end();
}

/// A text in a text, or an item anywhere in nested lists and tables. One of several wanted items is
/// enough.
bool contains(const Json& value, const Json& wanted) {
  if (wanted.is_array()) {
    return std::ranges::any_of(wanted, [&](const Json& one) { return contains(value, one); });
  }
  if (value.is_string() && wanted.is_string()) {
    return value.get_ref<const std::string&>().find(wanted.get_ref<const std::string&>()) !=
           std::string::npos;
  }
  return value.is_structured() && std::ranges::any_of(value, [&](const Json& item) {
           return item.is_structured() ? contains(item, wanted) : item == wanted;
         });
}

/// `$path` is that field of the case.
const Json* resolved(const Json& argument, const Json& fact) {
  const bool refers =
      argument.is_string() && argument.get_ref<const std::string&>().starts_with('$');
  return refers ? find_field(fact, argument.get<std::string>().substr(1)) : &argument;
}

bool predicate_holds(const std::string& name, const Json& argument, const Json* value,
                     const Json& fact) {
  if (name == "present") return (value != nullptr) == argument.get<bool>();
  if (value == nullptr) return false;
  if (name == "one_of") return has_item(argument, *value);
  if (name == "contains") return contains(*value, argument);
  if (name == "without") return !contains(*value, argument);
  if (name == "same_as") {
    const Json* other = resolved(argument, fact);
    return other != nullptr && *value == *other;
  }
  if (name == "more_than") {
    const Json* least = resolved(argument, fact);
    return least != nullptr && value->is_number() && least->is_number() && *value > *least;
  }
  if (name == "starts_with") {
    return value->is_string() &&
           value->get_ref<const std::string&>().starts_with(argument.get_ref<const std::string&>());
  }
  if (name == "at_least") return value->is_number() && *value >= argument;
  if (name == "at_most") return value->is_number() && *value <= argument;
  if (name == "ascending") return ascending(*value) == argument.get<bool>();
  return unique(*value) == argument.get<bool>();
}

}  // namespace

bool has_item(const Json& list, const Json& wanted) {
  return std::find(list.begin(), list.end(), wanted) != list.end();
}

void check_predicates(const Json& when) {
  constexpr std::string_view kKnown[] = {"present",   "one_of",   "contains",   "without",
                                         "same_as",   "at_least", "at_most",    "more_than",
                                         "ascending", "unique",   "starts_with"};
  for (const auto& [path, wanted] : when.items()) {
    if (!wanted.is_object()) continue;
    for (const auto& [name, argument] : wanted.items()) {
      if (std::find(std::begin(kKnown), std::end(kKnown), name) == std::end(kKnown)) {
        fail(ErrorKind::kValue, "unknown predicate '{}' for '{}'", name, path);
      }
    }
  }
}

const Json* find_field(const Json& object, std::string_view path) {
  if (path.empty()) return &object;
  if (object.is_array()) {
    const std::size_t dot = std::min(path.find('.'), path.size());
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(path.data(), path.data() + dot, index);
    if (error != std::errc() || end != path.data() + dot || index >= object.size()) return nullptr;
    return find_field(object[index], path.substr(std::min(dot + 1, path.size())));
  }
  if (!object.is_object()) return nullptr;
  for (std::size_t end = path.size(); end != std::string_view::npos;
       end = end == 0 ? std::string_view::npos : path.rfind('.', end - 1)) {
    const auto found = object.find(std::string(path.substr(0, end)));
    if (found == object.end()) continue;
    const std::string_view rest = end == path.size() ? "" : path.substr(end + 1);
    if (const Json* value = find_field(*found, rest)) return value;
  }
  return nullptr;
}

bool holds(const Json& when, const Json& fact) {
  for (const auto& [path, wanted] : when.items()) {
    const Json* value = find_field(fact, path);
    if (!wanted.is_object()) {
      if (value == nullptr || *value != wanted) return false;
      continue;
    }
    for (const auto& [name, argument] : wanted.items()) {
      if (!predicate_holds(name, argument, value, fact)) return false;
    }
  }
  return true;
}

}  // namespace shardlab
