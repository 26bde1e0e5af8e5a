// flight_job.h - the dumps of one job: its groups, its roles, and who waits for whom. Private to
// autopsy.cpp.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "backends/shared/waits.h"
#include "base/escaped_text.h"
#include "base/fix.h"
#include "comm/verdict.h"
#include "sim/autopsy/autopsy.h"
#include "sim/autopsy/thread_order.h"

namespace shardlab {

/// Everything that does not depend on who is right.
class FlightJob {
 protected:
  using Ranks = std::vector<std::int64_t>;

  FlightJob(std::vector<FlightDump> dumps, const FlightWords& words)
      : dumps_(std::move(dumps)), words_(words), numbers_(words) {
    std::ranges::sort(dumps_, {}, &FlightDump::rank);
    find_groups();
    find_entries();
    find_roles();
    const Ranks moved = order_threads(dumps_, roles_, numbers_);
    if (!moved.empty()) {
      result_.notes.push_back(
          fmt::format("threads of {} call in another order than those of other ranks, on several "
                      "groups: no fault where each group has its queue",
                      fold_ranks(moved)));
    }
    for (const FlightDump& dump : dumps_) {
      const auto head = std::ranges::find(dump.entries, true, &FlightEntry::pending);
      heads_.push_back(head == dump.entries.end() ? nullptr : &*head);
    }
    result_.ranks = dumps_.size();
    for (const FlightDump& dump : dumps_) result_.entries += dump.entries.size();
    find_waits();
  }

  struct Group {
    std::string name, description;
    Ranks ranks;
    bool messages = false;
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

  // The first pending call; null: none.
  const FlightEntry* head_of(std::size_t dump) const { return heads_[dump]; }

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

  // Two ranks that wait in the two sides of a message whose sizes differ.
  std::optional<std::pair<std::size_t, std::size_t>> unfit_message() const {
    for (std::size_t i = 0; i < dumps_.size(); ++i) {
      const FlightEntry* const own = head_of(i);
      if (own == nullptr || words_[own->word].kind() != "send") continue;
      const Ranks peers = partners_of(group_of(i, *own), *own);
      const auto other = peers.empty() ? index_of_.end() : index_of_.find(peers[0]);
      const FlightEntry* const theirs = other == index_of_.end() ? nullptr : head_of(other->second);
      if (theirs == nullptr || !meets(other->second, *theirs, i, *own)) continue;
      if (words_[theirs->word].output_sizes != words_[own->word].sizes) return {{i, other->second}};
    }
    return std::nullopt;
  }

  // Sizes or dtypes of a call differ among members of a group, and it has not ended; those of a
  // message differ between its sides.
  bool is_unfit(const std::vector<std::size_t>& role, std::int64_t record) const {
    std::map<const Group*, std::int32_t> said;
    bool unfit = false, ended = true;
    for (const std::size_t rank : role) {
      const FlightEntry* entry = at(rank, record);
      if (entry == nullptr) continue;
      ended = ended && entry->completed;
      if (entry->message) {
        const auto sides = unfit_message();
        unfit = unfit || (sides && (sides->first == rank || sides->second == rank));
        continue;
      }
      const std::int32_t word = numbers_.fit(entry->word);
      unfit = unfit || said.try_emplace(&group_of(rank, *entry), word).first->second != word;
    }
    return unfit && !ended;
  }

  // Finds the member that was the last to start a collective that all have called.
  void find_slowest() {
    std::int64_t latest = 0;
    for (std::size_t i = 0; i < dumps_.size(); ++i) {
      if (heads_[i] == nullptr || heads_[i]->started_ns < latest) continue;
      latest = heads_[i]->started_ns;
      result_.slowest = dumps_[i].rank;
    }
  }

  std::vector<FlightDump> dumps_;
  std::vector<const FlightEntry*> heads_;  // by dump
  const FlightWords& words_;
  const WordNumbers numbers_;
  std::vector<Group> groups_;
  std::vector<std::vector<std::size_t>> group_numbers_;  // by dump, of its names
  std::vector<std::vector<std::int64_t>> last_;          // sequences of collectives, likewise
  std::map<std::size_t, std::int64_t> alone_;     // dumps with a message; the rank that has ended
  std::map<std::int64_t, std::size_t> index_of_;  // of the dump of a rank
  std::size_t world_ = 0;
  std::vector<std::vector<std::size_t>> roles_;  // indices of dumps_
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
    fail(ErrorKind::kValue, Fix{"give the dumps of one job"},
         "{}: a dump of another job: its group '{}' has other ranks", dump.path,
         printed_text(name));
  }

  // A group that is not configured has the ranks that have entries of it.
  void find_entries() {
    std::set<std::int64_t> all, dumped;
    const std::size_t configured = groups_.size();
    for (const FlightDump& dump : dumps_) {
      if (!dumped.insert(dump.rank).second) {
        fail(ErrorKind::kValue, Fix{"give one dump of each rank"}, "{}: rank {} has two dumps",
             dump.path, dump.rank);
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
        if (entry.message) groups_[numbers[name]].messages = true;
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

  void find_roles() {
    std::set<std::string> stages;  // descriptions of groups that connect stages
    for (const Group& group : groups_) {
      if (group.messages && group.description != "undefined") stages.insert(group.description);
    }
    std::vector<std::size_t> root(dumps_.size());
    std::iota(root.begin(), root.end(), 0);
    const auto find = [&](std::size_t i) {
      while (root[i] != i) i = root[i] = root[root[i]];
      return i;
    };
    bool parts = false;
    for (const Group& group : groups_) {
      const bool stage =
          group.messages || (!group.description.empty() && stages.contains(group.description));
      parts = parts || stage || group.ranks.size() < world_;
      if (stage || group.ranks.size() == world_) continue;
      std::optional<std::size_t> first;
      for (std::size_t i = 0; i < dumps_.size(); ++i) {
        if (!has(group.ranks, dumps_[i].rank)) continue;
        if (!first) first = i;
        root[find(i)] = find(*first);
      }
    }
    std::map<std::size_t, std::vector<std::size_t>> roles;
    for (std::size_t i = 0; i < dumps_.size(); ++i) roles[parts ? find(i) : 0].push_back(i);
    for (auto& [first, role] : roles) roles_.push_back(std::move(role));
  }

  // Each rank waits in its first pending call.
  void find_waits() {
    std::map<std::string, AutopsyWait> waits;
    std::map<std::size_t, std::size_t> cause;  // of a dump's wait
    for (std::size_t i = 0; i < dumps_.size(); ++i) {
      const FlightEntry* const head = head_of(i);
      if (head == nullptr) continue;
      const Group& group = group_of(i, *head);
      const std::string& name =
          words_[head->word].group.empty() ? group.name : words_[head->word].group;
      AutopsyWait& wait = waits[name];
      wait.group = name;
      wait.ranks.push_back(dumps_[i].rank);
      std::optional<std::size_t> behind;  // has called, behind another call
      for (const std::int64_t member : partners_of(group, *head)) {
        const auto other = index_of_.find(member);
        const bool dumped = other != index_of_.end();
        if (dumped && has_called(other->second, i, *head)) {
          const FlightEntry* const theirs = head_of(other->second);
          const bool same = theirs == nullptr || meets(other->second, *theirs, i, *head);
          if (!same && !behind) behind = other->second;
          continue;
        }
        if (!has(wait.awaited, member)) wait.awaited.push_back(member);
        if (!dumped) continue;
        cause.try_emplace(i, other->second);
        const bool ended = head_of(other->second) == nullptr && !dumps_[other->second].cut;
        if (head->message && ended) alone_.emplace(i, member);
      }
      if (behind) cause.try_emplace(i, *behind);
    }
    for (auto& [name, wait] : waits) {
      std::ranges::sort(wait.awaited);
      result_.waits.push_back(std::move(wait));
    }
    for (const auto& [rank, other] : cause) {
      const backends::Walk walk = backends::walk_from(rank, [&](std::size_t i) -> std::int64_t {
        const auto found = cause.find(i);
        return found == cause.end() ? -1 : static_cast<std::int64_t>(found->second);
      });
      if (!walk.circle) continue;
      for (const std::size_t dump : walk.nodes) {
        const FlightEntry& head = *head_of(dump);
        result_.circle.push_back({dumps_[dump].rank, head.word, head.sequence});
      }
      return;
    }
  }

  bool has_called(std::size_t dump, std::size_t own, const FlightEntry& call) const {
    if (call.message) {
      return std::ranges::any_of(dumps_[dump].entries, [&](const FlightEntry& one) {
        return one.pending && meets(dump, one, own, call);
      });
    }
    const std::vector<std::size_t>& numbers = group_numbers_[dump];
    const auto group = static_cast<std::size_t>(&group_of(own, call) - groups_.data());
    const auto place = std::ranges::find(numbers, group);
    const auto name = static_cast<std::size_t>(place - numbers.begin());
    return place != numbers.end() && last_[dump][name] >= call.sequence;
  }
};

}  // namespace shardlab
