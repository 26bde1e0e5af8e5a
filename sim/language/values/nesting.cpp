// Each container stores a lower bound of the level it is at; storing one in another raises the
// levels below it. If a container would hold itself, its own level is raised, so that cycles cannot
// exist, and every walk ends.
#include "sim/language/values/nesting.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/fix.h"

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
  if (!key.is_number() && !key.is<std::string>() && !key.is<TupleValue>() && !key.is_none() &&
      !key.is<MeshValue>()) {
    fail(ErrorKind::kValue, Fix{"use a number, a string, a tuple or None"}, "{} cannot be {}",
         a_kind(key), is_set(dict) ? "in a set" : "a key of a dict");
  }
  check_stored(dict, key);
  check_stored(dict, value);
  for (auto& [known, item] : *dict.entries) {
    if (!equal(known, key)) continue;
    item = value;
    return;
  }
  dict.entries->emplace_back(key, value);
}

namespace {

// A set of whole numbers in the order of Python's hash table, to which they were added one by one:
// after a collision nine neighbours are tried, then other places; from three fifths on it grows.
class HashTable {
 public:
  explicit HashTable(const DictEntries& entries) {
    for (const auto& [number, none] : entries) {
      insert(std::get<0>(number_of(number)));
      if (5 * ++filled_ < 3 * (places_.size() - 1)) continue;
      const auto before = std::exchange(places_, Places(std::bit_ceil(4 * filled_ + 1)));
      for (const auto& place : before) {
        if (place) insert(*place);
      }
    }
  }

  std::vector<std::int64_t> numbers() const {
    std::vector<std::int64_t> numbers;
    for (const auto& place : places_) {
      if (place) numbers.push_back(*place);
    }
    return numbers;
  }

 private:
  using Places = std::vector<std::optional<std::int64_t>>;

  static std::uint64_t hash(std::int64_t number) {
    constexpr std::uint64_t kPrime = (std::uint64_t{1} << 61) - 1;
    const auto bits = static_cast<std::uint64_t>(number);
    const std::uint64_t rest = (number < 0 ? 0 - bits : bits) % kPrime;
    if (number >= 0) return rest;
    return rest == 1 ? std::uint64_t(-2) : 0 - rest;
  }

  void insert(std::int64_t number) {
    constexpr std::size_t kNeighbours = 9;
    std::uint64_t rest = hash(number);
    const std::size_t mask = places_.size() - 1;
    for (std::size_t at = rest & mask;;) {
      const std::size_t last = at + kNeighbours <= mask ? at + kNeighbours : at;
      for (std::size_t place = at; place <= last; ++place) {
        if (places_[place]) continue;
        places_[place] = number;
        return;
      }
      rest >>= 5;
      at = (at * 5 + 1 + rest) & mask;
    }
  }

  Places places_ = Places(8);
  std::size_t filled_ = 0;
};

}  // namespace

Value make_set(const Values& items) {
  const DictValue set = make_dict();
  set.entries->is_set = true;
  for (const Value& item : items) store(set, item, {});
  const auto is_number = [](const auto& entry) { return entry.first.is_number(); };
  const auto is_integer = [](const auto& entry) { return entry.first.is_integer(); };
  if (std::ranges::all_of(*set.entries, is_integer)) {
    std::map<std::int64_t, std::size_t> place;
    for (const std::int64_t number : HashTable(*set.entries).numbers()) {
      place.emplace(number, place.size());
    }
    std::ranges::sort(*set.entries, {}, [&](const auto& entry) {
      return place.at(std::get<0>(number_of(entry.first)));
    });
  } else if (std::ranges::all_of(*set.entries, is_number)) {
    std::ranges::stable_sort(*set.entries, {},
                             [](const auto& entry) { return to_double(number_of(entry.first)); });
  }
  return set;
}

bool is_set(const Value& value) {
  const auto* dict = value.get<DictValue>();
  return dict != nullptr && dict->entries->is_set;
}

const Value* find(const DictValue& dict, const Value& key) {
  for (const auto& [known, item] : *dict.entries) {
    if (equal(known, key)) return &item;
  }
  return nullptr;
}

}  // namespace shardlab
