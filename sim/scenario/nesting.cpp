#include "sim/scenario/nesting.h"

#include "base/error.h"

namespace shardlab {

namespace {

constexpr int kDeepest = 32;
constexpr std::int64_t kMostItems = 1'000'000;

void visit(const Value& value, int depth, std::int64_t& items) {
  if (++items > kMostItems) fail(ErrorKind::kValue, "more than {} items in a list", kMostItems);
  if (depth > kDeepest) fail(ErrorKind::kValue, "lists are nested deeper than {}", kDeepest);
  if (value.is_sequence()) {
    for (const Value& item : items_of(value)) visit(item, depth + 1, items);
  } else if (const auto* dict = value.get<DictValue>()) {
    for (const auto& [key, item] : *dict->entries) visit(item, depth + 1, items);
  }
}

}  // namespace

void check_nesting(const Values& items) {
  std::int64_t count = 0;
  for (const Value& item : items) visit(item, 1, count);
}

void check_stored(const Value& item) {
  if (item.is<ListValue>() || item.is<DictValue>()) {
    throw Error(ErrorKind::kValue,
                fmt::format("a {} cannot be put into a container that exists", kind_name(item)))
        .with("fix", "store a tuple, or build the whole list at once");
  }
  if (const auto* tuple = item.get<TupleValue>()) {
    for (const Value& inner : *tuple->items) check_stored(inner);
  }
}

void store(const DictValue& dict, const Value& key, const Value& value) {
  if (!key.is_number() && !key.is<std::string>() && !key.is<TupleValue>() && !key.is_none()) {
    fail(ErrorKind::kValue, "a {} cannot be a key of a dict", kind_name(key));
  }
  for (auto& [known, item] : *dict.entries) {
    if (!equal(known, key)) continue;
    item = value;
    return;
  }
  dict.entries->emplace_back(key, value);
}

const Value* find(const DictValue& dict, const Value& key) {
  for (const auto& [known, item] : *dict.entries) {
    if (equal(known, key)) return &item;
  }
  return nullptr;
}

}  // namespace shardlab
