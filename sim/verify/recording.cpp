#include "sim/verify/recording.h"

#include <fmt/format.h>

namespace shardlab {

DTensor snapshot_of(const DTensor& value) {
  value.local().wait();
  DTensor copy(value.local().snapshot(), value.spec());
  copy.impl()->extras = value.impl()->extras;
  copy.impl()->exact = value.impl()->exact;
  copy.impl()->rank_local = value.impl()->rank_local;
  return copy;
}

void Recording::keep(RecordedValue value) {
  value.event = trace_->events().size();
  by_key_.emplace(value.key(), values_.size());
  values_.push_back(std::move(value));
}

void Recording::assigned(const std::string& name, std::int64_t occurrence, const Value& value,
                         const Where& where) {
  if (scope_ == RecordScope::kEvery) record(name, occurrence, value, where);
}

void Recording::record(const std::string& name, std::int64_t occurrence, const Value& value,
                       const Where& where) {
  if (value.is_tensor()) {
    keep({name, occurrence, snapshot_of(value.as<DTensor>()), where});
  } else if (value.is_sequence()) {
    const Values& items = items_of(value);
    for (std::size_t i = 0; i < items.size(); ++i) {
      record(fmt::format("{}[{}]", name, i), occurrence, items[i], where);
    }
  }
}

const RecordedValue* Recording::find(const std::string& key) const {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : &values_[found->second];
}

}  // namespace shardlab
