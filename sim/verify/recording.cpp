#include "sim/verify/recording.h"

#include <fmt/format.h>

#include "autograd/grad_node.h"

namespace shardlab {

void Recording::keep(RecordedValue value) {
  value.event = trace_->events().size();
  adopt(std::move(value));
}

void Recording::adopt(RecordedValue value) {
  by_key_.emplace(value.key(), values_.size());
  values_.push_back(std::move(value));
}

void Recording::assigned(const std::string& name, std::int64_t occurrence, const Value& value,
                         const Where& where) {
  std::int64_t visited = 0;
  visit(name, occurrence, value, where, visited);
}

// Parts that a list holds twice are visited twice.
void Recording::visit(const std::string& name, std::int64_t occurrence, const Value& value,
                      const Where& where, std::int64_t& visited) {
  constexpr std::int64_t kMost = 1'000'000;
  if (++visited > kMost) fail(ErrorKind::kValue, "'{}' holds more than {} values", name, kMost);
  if (value.is_tensor()) {
    keep({name, occurrence, detached(value.as<DTensor>()), where});
  } else if (value.is_sequence()) {
    const Values& items = items_of(value);
    for (std::size_t i = 0; i < items.size(); ++i) {
      visit(fmt::format("{}[{}]", name, i), occurrence, items[i], where, visited);
    }
  } else if (const auto* dict = value.get<DictValue>()) {
    for (const auto& [key, item] : *dict->entries) {
      visit(fmt::format("{}[{}]", name, repr(key)), occurrence, item, where, visited);
    }
  }
}

const RecordedValue* Recording::find(const std::string& key) const {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : &values_[found->second];
}

}  // namespace shardlab
