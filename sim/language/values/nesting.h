// nesting.h - lists inside of lists: bounded in depth, so that walking and freeing them is safe on
// a rank's small stack, and in the number of items of a walk; storing in lists and dicts. Strings
// are bounded likewise.
#pragma once

#include "sim/language/values/dict_entries.h"

namespace shardlab {

/// Notes that `value` is now inside of `level` containers, and raises the levels of all values
/// inside of it.
///   fails  Value: deeper than kDeepestContainer
void check_level(const Value& value, int level);

/// One more item of a walk through a value that may hold one list many times.
///   fails  Value: more than a million items in all
void count_item(std::int64_t& items);

/// Items of a new list or tuple.
///   fails  Value: more than a million items in all
void check_size(const Values& items);

/// Bytes of a new string, `times` over.
///   fails  Value: more than a million bytes
void check_text_size(std::size_t bytes, std::int64_t times = 1);

/// An item that is put into a list or dict that exists.
///   fails  Value: `container` would hold itself, or nest too deeply
void check_stored(const Value& container, const Value& item);

/// dict[key] = value, in place.
void store(const DictValue& dict, const Value& key, const Value& value);
/// A set to which the items were added one by one.
Value make_set(const Values& items);
bool is_set(const Value& value);

}  // namespace shardlab
