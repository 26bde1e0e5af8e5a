// Values are put together by the definition of placements and compared straight, in f64 on both
// sides: the same program, once with the mistake and once without.
#include "tests/verdicts/mistake_effect.h"

#include <algorithm>
#include <cmath>

namespace shardlab::test {

namespace {

using ByRank = std::vector<const RecordedValue*>;

void add_distributed(const DTensorSpec& spec, const ByRank& by_rank, HeldValue& held) {
  std::vector<DTensor> pieces;
  for (std::int64_t i = 0; i < spec.layout()->size(); ++i) {
    const auto rank = static_cast<std::size_t>(spec.layout()->rank_at_index(i));
    if (by_rank[rank] == nullptr || by_rank[rank]->value.spec() != &spec) {
      held.torn = true;
      return;
    }
    pieces.push_back(by_rank[rank]->value);
  }
  std::vector<AssemblyFault> faults;
  held.values.push_back(assemble(spec, pieces, faults));
  held.torn = held.torn || !faults.empty();
}

HeldValue held_value(const ByRank& by_rank) {
  HeldValue held;
  std::set<const MeshLayout*> seen;
  for (const RecordedValue* value : by_rank) {
    if (value == nullptr || !value->value.local().defined()) continue;
    const DTensorSpec* spec = value->value.spec();
    if (spec == nullptr) {
      held.values.push_back(whole_value(value->value.local()));
    } else if (seen.insert(spec->layout()).second) {
      add_distributed(*spec, by_rank, held);
    }
  }
  return held;
}

std::vector<double> numbers_of(const GlobalValue& value) {
  return value.is_integral() ? std::vector<double>(value.integers.begin(), value.integers.end())
                             : value.reals;
}

double root_mean_square(const double* begin, const double* end) {
  double squares = 0;
  for (const double* number = begin; number != end; ++number) squares += *number * *number;
  return begin == end ? 0 : std::sqrt(squares / static_cast<double>(end - begin));
}

bool far(const GlobalValue& right, const GlobalValue& wrong) {
  constexpr double kShare = 1e-3;
  if (right.meta.shape != wrong.meta.shape) return true;
  const std::vector<double> a = numbers_of(right), b = numbers_of(wrong);
  const auto slices = static_cast<std::size_t>(
      a.empty() || right.meta.shape.empty() ? 1 : right.meta.shape.front());
  const std::size_t size = a.size() / slices;
  for (std::size_t begin = 0; begin < a.size(); begin += size) {
    const double allowed = kShare * root_mean_square(&a[begin], &a[begin] + size);
    for (std::size_t i = begin; i < begin + size; ++i) {
      if (std::isnan(a[i]) && std::isnan(b[i])) continue;
      if (a[i] != b[i] && !(std::fabs(a[i] - b[i]) <= allowed)) return true;
    }
  }
  return false;
}

bool differ(const HeldValue& right, const HeldValue& wrong) {
  if (wrong.torn != right.torn || wrong.values.size() != right.values.size()) return true;
  for (std::size_t i = 0; i < right.values.size(); ++i) {
    if (far(right.values[i], wrong.values[i])) return true;
  }
  return false;
}

}  // namespace

HeldValues held_values(const std::vector<Recording>& ranks) {
  std::map<std::string, ByRank> by_key;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const RecordedValue& value : ranks[rank].values()) {
      ByRank& by_rank = by_key[value.key()];
      by_rank.resize(ranks.size());
      by_rank[rank] = &value;
    }
  }
  HeldValues values;
  for (const auto& [key, by_rank] : by_key) values[key] = held_value(by_rank);
  return values;
}

std::set<std::string> affected_values(const HeldValues& right, const HeldValues& wrong) {
  std::set<std::string> keys;
  for (const auto& [key, value] : right) {
    const auto other = wrong.find(key);
    if (other == wrong.end() || differ(value, other->second)) keys.insert(key);
  }
  for (const auto& [key, value] : wrong) {
    if (!right.contains(key)) keys.insert(key);
  }
  return keys;
}

}  // namespace shardlab::test
