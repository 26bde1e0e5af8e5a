// dict_entries.h - the entries of a dict or a set, found by hash in a table that is CPython's for
// sets: with its places, its marks of what was removed and its growth. Time is linear.
#pragma once

#include <cstdint>
#include <list>
#include <utility>
#include <vector>

#include "sim/language/values/value.h"

namespace shardlab {

/// Used by one rank. A dict is visited in the order of insertion. A set is visited in that of its
/// table, if all of its items have a hash that is the same in each run of Python (numbers, tuples
/// of them), or else in the order of insertion. Entries that stay keep their address.
class DictEntries {
 public:
  using Entry = std::pair<Value, Value>;

  int level = 0;
  bool is_set = false;  ///< a set: its items are the keys, the values are None

  DictEntries& operator=(DictEntries&&) = delete;

  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  std::list<Entry>::const_iterator begin() const;
  std::list<Entry>::const_iterator end() const { return entries_.end(); }

  /// The value of the key; null: it is not there.
  const Value* find(const Value& key) const;
  /// A new entry, or another value of one.
  void set(const Value& key, const Value& value);
  /// Whether it was there.
  bool erase(const Value& key);
  void clear();

  // The following are those of Python's sets, in the order in which Python adds items.
  void merge(const DictEntries& more);
  void subtract(const DictEntries& others);
  void toggle(const DictEntries& others);
  /// Takes the entries of `other`.
  void become(DictEntries&& other);

 private:
  enum class State : std::uint8_t { kFree, kUsed, kRemoved };
  struct Place {
    std::uint64_t hash = 0;
    State state = State::kFree;
    std::list<Entry>::iterator entry = {};
  };

  std::size_t place_of(std::uint64_t hash, const Value* key, std::size_t* removed = nullptr) const;
  void resize(std::size_t least);
  std::size_t grown() const;

  mutable std::list<Entry> entries_;
  mutable bool in_order_ = true;  // a set's entries are in the order of the table
  std::vector<Place> places_;     // their number is a power of two, or 0
  std::size_t filled_ = 0;        // places that are not free
  std::size_t unordered_ = 0;     // keys without Python's hash
};

/// A & B and A - B as Python makes them.
void intersect(const DictEntries& a, const DictEntries& b, DictEntries& made);
void difference(const DictEntries& a, const DictEntries& b, DictEntries& made);

}  // namespace shardlab
