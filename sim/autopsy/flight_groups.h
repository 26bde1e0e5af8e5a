// flight_groups.h - the dumps of one job and its groups; records of the ranks of a role in one
// order, where their threads have none: those of autograd call as they come. Private to
// autopsy.cpp.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "sim/autopsy/autopsy.h"

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

/// Members of groups, and which calls belong together.
class FlightGroups {
 protected:
  using Ranks = std::vector<std::int64_t>;

  FlightGroups(std::vector<FlightDump> dumps, const FlightWords& words)
      : dumps_(std::move(dumps)), words_(words), numbers_(words) {
    std::ranges::sort(dumps_, {}, &FlightDump::rank);
    find_groups();
    find_entries();
  }

  struct Group {
    std::string name, description;
    Ranks ranks;
  };

  struct Messages {
    /// Members with each word, of alike ones, by sequence.
    std::map<std::int64_t, std::map<std::int32_t, std::size_t>> words;
    std::set<std::pair<std::int64_t, std::int64_t>> pairs;  // in a group of all ranks
    std::int64_t from = 0;           // the first launch of a ring buffer may have lost a part
    std::int64_t until = kNoRecord;  // launches before have ended everywhere

    // Members send and receive in one order, as in ring attention: they run one program.
    bool is_ring(std::size_t members) {
      words.erase(words.begin(), words.lower_bound(from));
      const auto open = words.lower_bound(until);
      if (open != words.begin()) words.erase(open, words.end());
      const auto agree = [&](const auto& launch) {
        return std::ranges::all_of(launch.second,
                                   [&](const auto& word) { return word.second == members; });
      };
      return !words.empty() && std::ranges::all_of(words, agree);
    }
  };

  const FlightEntry* at(std::size_t rank, std::int64_t record) const {
    const auto found = place_of(dumps_[rank].entries, record);
    return found == dumps_[rank].entries.end() ? nullptr : &*found;
  }
  Ranks ranks_of(const std::vector<std::size_t>& dumps) const {
    Ranks ranks;
    for (const std::size_t dump : dumps) ranks.push_back(dumps_[dump].rank);
    return ranks;
  }
  const Group& group_of(std::size_t dump, const FlightEntry& entry) const {
    return groups_[group_numbers_[dump][static_cast<std::size_t>(entry.group)]];
  }
  static bool has(const Ranks& ranks, std::int64_t rank) {
    return std::ranges::find(ranks, rank) != ranks.end();
  }

  // The ranks without which a call does not end.
  Ranks partners_of(const Group& group, const FlightEntry& call) const {
    if (!call.message) return group.ranks;
    const auto places = words_[call.word].places();
    const bool known = places && places->second < group.ranks.size();
    return known ? Ranks{group.ranks[places->second]} : Ranks{};
  }

  // Whether another dump's call is the same collective, or the other side of a message.
  bool meets(std::size_t dump, const FlightEntry& theirs, std::size_t own,
             const FlightEntry& call) const {
    if (&group_of(dump, theirs) != &group_of(own, call)) return false;
    if (!call.message) return !theirs.message && theirs.sequence == call.sequence;
    const FlightWord &one = words_[call.word], &other = words_[theirs.word];
    const auto places = one.places();
    return places && one.kind() != other.kind() &&
           other.places() == std::pair(places->second, places->first);
  }

  std::vector<FlightDump> dumps_;
  const FlightWords& words_;
  const WordNumbers numbers_;
  std::vector<Group> groups_;
  std::vector<std::vector<std::size_t>> group_numbers_;  // by dump, of its names
  std::vector<std::vector<std::int64_t>> last_;          // sequences of collectives, likewise
  std::map<std::int64_t, std::size_t> index_of_;         // of the dump of a rank
  std::size_t world_ = 0;
  Autopsy result_;

 private:
  // The version of most files is right if groups of one name share ranks.
  void find_groups() {
    std::map<std::string, std::map<Ranks, std::vector<const FlightDump*>>> said;
    std::map<std::string, std::string> descriptions;
    for (const FlightDump& dump : dumps_) {
      if (dump.cut) result_.notes.push_back(dump.path + " ends early: its last calls are missing");
      for (const FlightGroup& group : dump.groups) {
        said[group.name][group.ranks].push_back(&dump);
        descriptions.try_emplace(group.name, group.description);
      }
    }
    for (auto& [name, versions] : said) {
      std::vector<std::pair<Ranks, std::vector<const FlightDump*>>> all(versions.begin(),
                                                                        versions.end());
      std::ranges::stable_sort(all, std::greater(),
                               [](const auto& one) { return one.second.size(); });
      const std::size_t first = groups_.size();
      for (auto& [ranks, dumps] : all) {
        for (std::size_t i = first; i < groups_.size(); ++i) {
          const bool apart = std::ranges::none_of(
              ranks, [&](std::int64_t rank) { return has(groups_[i].ranks, rank); });
          if (!apart) refuse_other_job(*dumps.front(), name);
        }
        for (const FlightDump* dump : dumps) {
          if (!has(ranks, dump->rank)) refuse_other_job(*dump, name);
        }
        groups_.push_back({name, descriptions[name], std::move(ranks)});
      }
    }
  }
  [[noreturn]] static void refuse_other_job(const FlightDump& dump, const std::string& name) {
    fail(Fix{"give the dumps of one job"},
         "{}: a dump of another job: its group '{}' has other ranks", dump.path,
         printed_text(name));
  }

  // A group that is not configured has the ranks that have entries of it.
  void find_entries() {
    std::set<std::int64_t> all, dumped;
    const std::size_t configured = groups_.size();
    for (const FlightDump& dump : dumps_) {
      if (!dumped.insert(dump.rank).second) {
        fail(Fix{"give one dump of each rank"}, "{}: rank {} has two dumps", dump.path, dump.rank);
      }
      std::vector<std::size_t>& numbers = group_numbers_.emplace_back();
      for (const std::string& name : dump.names) {
        const auto known = std::ranges::find_if(groups_, [&](const Group& group) {
          const bool open = &group >= groups_.data() + configured;
          return group.name == name && (open || has(group.ranks, dump.rank));
        });
        numbers.push_back(static_cast<std::size_t>(known - groups_.begin()));
        if (known == groups_.end()) groups_.push_back({name, "", {}});
        Group& group = groups_[numbers.back()];
        if (!has(group.ranks, dump.rank)) group.ranks.push_back(dump.rank);
      }
      std::vector<std::int64_t>& last = last_.emplace_back(dump.names.size(), -1);
      for (const FlightEntry& entry : dump.entries) {
        const auto name = static_cast<std::size_t>(entry.group);
        if (!entry.message) last[name] = entry.sequence;
      }
      index_of_[dump.rank] = last_.size() - 1;
    }
    if (groups_.size() > configured) {
      result_.notes.emplace_back(
          "groups that no file describes are those of the ranks that called");
    }
    for (const Group& group : groups_) all.insert(group.ranks.begin(), group.ranks.end());
    for (std::int64_t rank = 0; rank < dumps_.back().rank; ++rank) all.insert(rank);
    std::ranges::set_difference(all, dumped, std::back_inserter(result_.missing));
    result_.groups = groups_.size();
    world_ = all.size();
  }
};

}  // namespace shardlab
