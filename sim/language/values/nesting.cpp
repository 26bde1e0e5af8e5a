// Each container stores a lower bound of the level it is at; storing one in another raises the
// levels below it. If a container would hold itself, its own level is raised, so that cycles cannot
// exist, and every walk ends.
#include "sim/language/values/nesting.h"

#include "base/error.h"

namespace shardlab {

namespace {

constexpr std::int64_t kMostItems = 1'000'000;

// Shared parts are counted as often as they appear.
void count(const Value& value, std::int64_t& items) {
  count_item(items);
  if (value.is_sequence()) {
    for (const Value& item : items_of(value)) count(item, items);
  } else if (const auto* dict = value.get<DictValue>()) {
    for (const auto& [key, item] : *dict->entries) count(item, items);
  }
}

// The level of a container, or null for any other value.
int* level_of(const Value& value) {
  if (const auto* list = value.get<ListValue>()) return &list->items->level;
  if (const auto* tuple = value.get<TupleValue>()) return &tuple->items->level;
  if (const auto* dict = value.get<DictValue>()) return &dict->entries->level;
  return nullptr;
}

}  // namespace

void count_item(std::int64_t& items) {
  if (++items <= kMostItems) return;
  fail(ErrorKind::kUnsupported, Fix{"keep many numbers in a tensor"},
       "a list holds more than {} items", kMostItems);
}

void check_level(const Value& value, int level) {
  int* const known = level_of(value);
  if (known == nullptr || *known >= level) return;
  if (level >= kDeepestContainer) {
    fail(ErrorKind::kUnsupported, Fix{"keep inner values in containers of their own"},
         "containers are nested deeper than {}", kDeepestContainer);
  }
  *known = level;
  if (value.is_sequence()) {
    for (const Value& item : items_of(value)) check_level(item, level + 1);
  } else {
    for (const auto& [key, item] : *value.as<DictValue>().entries) {
      check_level(key, level + 1);
      check_level(item, level + 1);
    }
  }
}

void check_size(const Values& items) {
  std::int64_t sum = 0;
  for (const Value& item : items) count(item, sum);
}

void check_text_size(std::size_t bytes, std::int64_t times) {
  constexpr std::int64_t kMost = 1'000'000;
  if (bytes == 0 || times <= kMost / static_cast<std::int64_t>(bytes)) return;
  fail(ErrorKind::kUnsupported, Fix{"make it shorter, or several strings of it"},
       "a string has more than {} bytes", kMost);
}

void check_stored(const Value& container, const Value& item) {
  const int level = *level_of(container);
  check_level(item, level + 1);
  // check_level() raises the level of values inside of the item only: if it has raised that of the
  // container, the container is one of them.
  if (*level_of(container) == level) return;
  fail(Fix{"store a copy: list(x)"}, "a {} cannot hold itself", kind_name(container));
}

void store(const DictValue& dict, const Value& key, const Value& value) {
  if (!key.is_number() && !key.is<std::string, TupleValue>() && !key.is_none() &&
      !key.is<MeshValue, GroupValue>()) {
    fail(Fix{"use a number, a string, a tuple or None"}, "{} cannot be {}", a_kind(key),
         is_set(dict) ? "in a set" : "a key of a dict");
  }
  check_stored(dict, key);
  check_stored(dict, value);
  dict.entries->set(key, value);
}

Value make_set(const Values& items) {
  const DictValue set = make_dict();
  set.entries->is_set = true;
  for (const Value& item : items) store(set, item, {});
  return set;
}

bool is_set(const Value& value) {
  const auto* dict = value.get<DictValue>();
  return dict != nullptr && dict->entries->is_set;
}

}  // namespace shardlab
