// Containers are made anew: a list with other items is another list.
#include "sim/language/values/replaced.h"

#include "sim/language/values/dict_entries.h"

namespace shardlab {

Value replaced(const Value& value, const PickValue& pick) {
  if (std::optional<Value> picked = pick(value)) return std::move(*picked);
  const auto each = [&](const Values& items) {
    Values out;
    for (const Value& item : items) out.push_back(replaced(item, pick));
    return out;
  };
  if (value.is<ListValue>()) return make_list(each(items_of(value)));
  if (const auto* tuple = value.get<TupleValue>()) {
    return make_tuple(each(*tuple->items), tuple->items->fields);
  }
  if (const auto* slice = value.get<SliceValue>()) {
    return SliceValue{std::make_shared<const Values>(each(*slice->parts))};
  }
  const auto* dict = value.get<DictValue>();
  if (dict == nullptr) return value;
  const DictValue out = make_dict();
  out.entries->is_set = dict->entries->is_set;
  for (const auto& [key, item] : *dict->entries) {
    out.entries->set(replaced(key, pick), replaced(item, pick));
  }
  return out;
}

}  // namespace shardlab
