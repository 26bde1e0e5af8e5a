// nesting.h - lists inside of lists: bounded, so that printing and dropping them is safe on a
// rank's small stack, and storing in dicts.
#pragma once

#include "sim/scenario/value.h"

namespace shardlab {

/// Items of a new list, tuple or dict.
///   fails  Value: nested deeper than 32, or more than a million items in all
void check_nesting(const Values& items);

/// An item that is put into a list or dict that exists. It may be a tuple, but no list and no dict:
/// a container could then contain itself.
///   fails  Value
void check_stored(const Value& item);

/// dict[key] = value, in place.
void store(const DictValue& dict, const Value& key, const Value& value);
/// Null when the key is not there.
const Value* find(const DictValue& dict, const Value& key);

}  // namespace shardlab
