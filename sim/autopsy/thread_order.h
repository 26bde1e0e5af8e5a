// thread_order.h - records of the ranks of a role in one order, where their threads have none:
// those of autograd call as they come. Private to autopsy.cpp.
#pragma once

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "sim/autopsy/flight_dump.h"

namespace shardlab {

/// Made when first asked for. Not thread-safe.
class WordNumbers {
 public:
  explicit WordNumbers(const FlightWords& words) : words_(words) {}

  /// Without places in the group, for other stages.
  std::int32_t loose(std::int32_t word) const {
    return number(loose_, word, [](FlightWord& one) { one.op = std::string(one.kind()); });
  }

  /// Without sizes, which ranks of a role may have of their own; a message by how far it goes,
  /// around the places that messages have.
  std::int32_t alike(std::int32_t word) const {
    std::map<std::string_view, std::size_t> sizes;  // of groups
    for (std::size_t i = alike_.size(); i < words_.size(); ++i) {
      const FlightWord& one = words_[static_cast<std::int32_t>(i)];
      const auto places = one.places();
      if (places)
        sizes[one.group] = std::max({sizes[one.group], places->first + 1, places->second + 1});
    }
    return number(alike_, word, [&](FlightWord& one) {
      one.sizes = one.output_sizes = one.dtypes = {};
      const auto places = one.places();
      if (!places) return;
      const std::size_t size = sizes.at(one.group);
      one.op = fmt::format("{} {}", one.kind(), (places->second + size - places->first) % size);
    });
  }

  /// With the sizes that members of one group have in common.
  std::int32_t fit(std::int32_t word) const {
    return number(fit_, word, [](FlightWord& one) {
      const auto has = [&](std::string_view part) { return one.op.find(part) < one.op.size(); };
      const bool all_to_all = has("to_all");
      if (all_to_all) one.dtypes = {};
      if (all_to_all || has("allgather") || has("all_gather") || one.op == "scatter")
        one.sizes = {};
      if (all_to_all || has("reduce_scatter") || one.op == "gather" || one.op == "reduce") {
        one.output_sizes = {};
      }
    });
  }

 private:
  std::int32_t number(std::vector<std::int32_t>& numbers, std::int32_t word, auto change) const {
    std::map<FlightWord, std::int32_t> known;
    for (std::size_t i = 0; numbers.size() < words_.size(); ++i) {
      FlightWord one = words_[static_cast<std::int32_t>(i)];
      change(one);
      numbers.push_back(known.try_emplace(one, static_cast<std::int32_t>(i)).first->second);
    }
    return numbers[static_cast<std::size_t>(word)];
  }

  const FlightWords& words_;
  mutable std::vector<std::int32_t> loose_, alike_, fit_;  // by word
};

using Role = std::vector<std::size_t>;  // indices of dumps

// The entry of this record; end() if there is none.
auto place_of(auto& all, std::int64_t record) {
  if (all.empty() || record < all.front().record) return all.end();
  const auto guess = static_cast<std::size_t>(record - all.front().record);
  if (guess < all.size() && all[guess].record == record) {
    return all.begin() + static_cast<std::ptrdiff_t>(guess);
  }
  const auto found = std::ranges::lower_bound(all, record, {}, &FlightEntry::record);
  return found != all.end() && found->record == record ? found : all.end();
}

// A ring keeps the last entries: the first record that all of the role have, or have no longer.
inline std::int64_t first_record(const std::vector<FlightDump>& dumps, const Role& role) {
  std::int64_t first = 0;
  for (const std::size_t rank : role) {
    const std::vector<FlightEntry>& all = dumps[rank].entries;
    if (!all.empty()) first = std::max(first, all.front().record);
  }
  return first;
}

inline constexpr std::int64_t kNoRecord = std::numeric_limits<std::int64_t>::max();

// The next record that one of the role has; a dump of active calls alone has holes of any width.
inline std::int64_t next_record(const std::vector<FlightDump>& dumps, const Role& role,
                                std::int64_t record) {
  std::int64_t next = kNoRecord;
  for (const std::size_t rank : role) {
    const std::vector<FlightEntry>& all = dumps[rank].entries;
    const auto found = std::ranges::upper_bound(all, record, {}, &FlightEntry::record);
    if (found == all.end()) continue;
    if (found->record == record + 1) return found->record;
    next = std::min(next, found->record);
  }
  return next;
}

// Moves the next call with this word to the place, over calls of other threads on other groups
// alone. Whether it did.
inline bool comes_forward(std::vector<FlightEntry>& all, std::int64_t record,
                          const auto& has_word) {
  constexpr std::ptrdiff_t kFurthest = 64;
  const auto place = place_of(all, record);
  const auto end = all.end() - place > kFurthest ? place + kFurthest : all.end();
  const auto call = std::find_if(place, end, has_word);
  if (call == end || call == place) return false;
  const bool tied = std::any_of(place, call, [&](const FlightEntry& before) {
    return before.thread == call->thread || before.group == call->group;
  });
  if (tied) return false;
  std::rotate(place, call, call + 1);
  // The records stay with their places.
  const std::int64_t last = place->record;
  for (auto one = place; one < call; ++one) one->record = (one + 1)->record;
  call->record = last;
  return true;
}

/// The ranks whose calls are in another place now: each has its record where most of its role do.
inline std::vector<std::int64_t> order_threads(std::vector<FlightDump>& dumps,
                                               const std::vector<Role>& roles,
                                               const WordNumbers& numbers) {
  std::set<std::int64_t> moved;
  const auto has_threads = [&](std::size_t dump) {
    const std::vector<FlightEntry>& all = dumps[dump].entries;
    const auto same = [](const FlightEntry& a, const FlightEntry& b) {
      return a.thread == b.thread;
    };
    return !std::equal(all.begin() + (all.empty() ? 0 : 1), all.end(), all.begin(), same);
  };
  for (const Role& role : roles) {
    if (std::ranges::none_of(role, has_threads)) continue;
    for (std::int64_t record = first_record(dumps, role); record != kNoRecord;
         record = next_record(dumps, role, record)) {
      std::map<std::int32_t, std::size_t> counts;
      for (const std::size_t dump : role) {
        const auto entry = place_of(dumps[dump].entries, record);
        if (entry != dumps[dump].entries.end()) ++counts[numbers.alike(entry->word)];
      }
      if (counts.size() < 2) continue;
      const auto most = std::ranges::max_element(counts, {}, [](auto& one) { return one.second; });
      const auto has_word = [&](const FlightEntry& entry) {
        return numbers.alike(entry.word) == most->first;
      };
      for (const std::size_t dump : role) {
        if (comes_forward(dumps[dump].entries, record, has_word)) moved.insert(dumps[dump].rank);
      }
    }
  }
  return {moved.begin(), moved.end()};
}

}  // namespace shardlab
