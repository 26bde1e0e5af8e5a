// A value that differs between ranks is a function of the rank. An operation on such values gives
// another such function, evaluated for a rank when it is asked for; equal fingerprints of results
// show that ranks agree.
#include "sim/language/values/rank_value.h"

#include <algorithm>

#include "base/hash.h"
#include "sim/language/values/nesting.h"
#include "sim/language/values/replaced.h"

namespace shardlab {

namespace {

// The value with `pick` applied to every RankValue in it.
Value picked(const Value& value, const auto& pick) {
  return replaced(value, [&](const Value& part) -> std::optional<Value> {
    if (const auto* ranks = part.get<RankValue>()) return pick(*ranks);
    return varies(part) ? std::nullopt : std::optional(part);
  });
}

}  // namespace

Value rank_value(std::function<Value(std::int64_t)> at, std::int64_t running) {
  auto now = std::make_shared<const Value>(at(running));
  return RankValue{std::make_shared<const std::function<Value(std::int64_t)>>(std::move(at)),
                   std::move(now), running};
}

namespace {

bool varies_in(const Value& value, std::int64_t& items) {
  count_item(items);
  const auto any = [&](const Values& values) {
    return std::ranges::any_of(values, [&](const Value& item) { return varies_in(item, items); });
  };
  if (value.is<RankValue>()) return true;
  if (value.is_sequence()) return any(items_of(value));
  if (const auto* slice = value.get<SliceValue>()) return any(*slice->parts);
  // A set has keys alone, and what adds one has settled it.
  const auto* dict = value.get<DictValue>();
  return dict != nullptr && !dict->entries->is_set &&
         std::any_of(dict->entries->begin(), dict->entries->end(),
                     [&](const auto& entry) { return varies_in(entry.second, items); });
}

}  // namespace

bool varies(const Values& values) {
  return std::ranges::any_of(values, [](const Value& value) { return varies(value); });
}

bool varies(const Value& value) {
  std::int64_t items = 0;
  return varies_in(value, items);
}

Value at_rank(const Value& value, std::int64_t rank) {
  return picked(value, [rank](const RankValue& ranks) { return (*ranks.at)(rank); });
}

Value here(const Value& value) {
  return picked(value, [](const RankValue& ranks) { return *ranks.here; });
}

namespace {

// Any of those in `values`: they agree on the rank that runs.
std::int64_t reported_rank(const Values& values) {
  std::int64_t running = 0;
  for (const Value& value : values) {
    picked(value, [&](const RankValue& ranks) {
      running = ranks.running;
      return Value();
    });
  }
  return running;
}

}  // namespace

Value lift(Values operands, std::function<Value(const Values&)> compute) {
  if (!varies(operands)) return compute(operands);
  const std::int64_t running = reported_rank(operands);
  return rank_value(
      [operands = std::move(operands), compute = std::move(compute)](std::int64_t rank) {
        Values values;
        for (const Value& operand : operands) values.push_back(at_rank(operand, rank));
        return compute(values);
      },
      running);
}

std::uint64_t fingerprint(const std::function<Value()>& compute) {
  constexpr std::uint64_t kFails = 0x5EED;
  try {
    const Value value = compute();
    if (const auto* integer = value.get<std::int64_t>()) {
      return hash_mix(1, static_cast<std::uint64_t>(*integer));
    }
    return hash_text(value.variant().index(), repr(value));
  } catch (const Error&) {
    return kFails;
  }
}

}  // namespace shardlab
