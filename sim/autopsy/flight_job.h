// flight_job.h - the roles of a job's ranks, and who waits for whom. Private to autopsy.cpp.
#pragma once

#include <fmt/format.h>

#include <optional>

#include "backends/shared/waits.h"
#include "comm/verdict.h"
#include "sim/autopsy/flight_groups.h"

namespace shardlab {

/// Everything that does not depend on who is right.
class FlightJob : protected FlightGroups {
 public:
  FlightJob(std::vector<FlightDump> dumps, const FlightWords& words)
      : FlightGroups(std::move(dumps), words) {
    end_batches();
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

 protected:
  // The first pending call; null: none.
  const FlightEntry* head_of(std::size_t dump) const { return heads_[dump]; }

  bool has_called(std::size_t dump, std::size_t own, const FlightEntry& call) const {
    if (call.message) {
      // Messages that have ended count, too, if no ring buffer has lost some.
      const auto is_whole = [&](std::size_t i) { return dumps_[i].entries[0].record == 0; };
      const bool whole = is_whole(own) && !dumps_[dump].entries.empty() && is_whole(dump);
      std::ptrdiff_t further = 0;
      for (const FlightEntry& one : dumps_[own].entries) {
        const bool alike =
            one.message && one.group == call.group && words_[one.word].op == words_[call.word].op;
        if (alike && (whole || one.pending)) ++further;
        if (&one == &call) break;
      }
      return further <= std::ranges::count_if(dumps_[dump].entries, [&](const FlightEntry& one) {
               return (whole || one.pending) && meets(dump, one, own, call);
             });
    }
    const std::vector<std::size_t>& numbers = group_numbers_[dump];
    const auto group = static_cast<std::size_t>(&group_of(own, call) - groups_.data());
    const auto place = std::ranges::find(numbers, group);
    const auto name = static_cast<std::size_t>(place - numbers.begin());
    return place != numbers.end() && last_[dump][name] >= call.sequence;
  }

  // The number of calls in which two ranks agree from these records on; equal sizes count, too.
  int agreement(std::size_t a, std::int64_t from_a, std::size_t b, std::int64_t from_b) const {
    constexpr std::int64_t kMost = 16;
    int count = 0;
    for (std::int64_t i = 0; i < kMost; ++i) {
      const FlightEntry *one = at(a, from_a + i), *other = at(b, from_b + i);
      if (one == nullptr || other == nullptr) break;
      if (numbers_.alike(one->word) != numbers_.alike(other->word)) break;
      count += one->word == other->word ? 2 : 1;
    }
    return count;
  }

  std::size_t longest(const std::vector<std::size_t>& ranks) const {
    return *std::ranges::max_element(
        ranks, {}, [&](std::size_t rank) { return dumps_[rank].entries.back().record; });
  }

  // All end at one place of a repetition, and not where it begins again: on gloo states say
  // nothing.
  bool stop_within_a_step() const {
    const std::vector<FlightEntry>& all = dumps_.front().entries;
    for (std::size_t period = 2; 2 * period <= all.size(); ++period) {
      bool repeats = true;
      for (std::size_t i = period; i < all.size() && repeats; ++i) {
        repeats = all[i].word == all[i - period].word;
      }
      if (repeats) return all.size() % period != 0;
    }
    return false;
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

  std::vector<const FlightEntry*> heads_;        // by dump
  std::map<std::size_t, Ranks> alone_;           // dumps that wait for ranks that have ended
  std::vector<std::vector<std::size_t>> roles_;  // indices of dumps_

 private:
  // A call of a batch ends with the record of the batch, whose state alone torch keeps up to date.
  void end_batches() {
    std::set<std::int32_t> ends;  // words
    for (std::size_t i = 0; i < words_.size(); ++i) {
      const auto word = static_cast<std::int32_t>(i);
      if (words_[word].op.ends_with("coalesced")) ends.insert(word);
    }
    for (std::size_t i = 0; i < (ends.empty() ? 0 : dumps_.size()); ++i) {
      std::map<std::pair<std::int32_t, bool>, FlightEntry> batches;  // by group and kind
      for (auto entry = dumps_[i].entries.rbegin(); entry != dumps_[i].entries.rend(); ++entry) {
        const auto group = std::pair(entry->group, entry->message);
        if (ends.contains(entry->word)) batches[group] = *entry;
        const auto batch = batches.find(group);
        if (batch == batches.end() || batch->second.sequence != entry->sequence) continue;
        entry->batch = batch->second.record;
        entry->started_ns = batch->second.started_ns;
        entry->completed = batch->second.completed;
        entry->pending = batch->second.pending;
      }
    }
  }

  std::map<const Group*, Messages> messages() const {
    std::map<const Group*, Messages> result;
    for (std::size_t i = 0; i < dumps_.size(); ++i) {
      const std::vector<FlightEntry>& entries = dumps_[i].entries;
      std::set<const Group*> met;
      for (const FlightEntry& entry : entries) {
        if (!entry.message) continue;
        const Group& group = group_of(i, entry);
        Messages& all = result[&group];
        const bool first = met.insert(&group).second && entries[0].record > 0;
        if (first) all.from = std::max(all.from, entry.sequence + 1);
        if (entry.pending) all.until = std::min(all.until, entry.sequence);
        ++all.words[entry.sequence][numbers_.alike(entry.word)];
        if (group.ranks.size() < world_) continue;
        for (const std::int64_t peer : partners_of(group, entry)) {
          all.pairs.emplace(dumps_[i].rank, peer);
        }
      }
    }
    return result;
  }

  using Roots = std::map<std::int64_t, std::int64_t>;  // by rank
  static std::int64_t root_of(std::int64_t rank, Roots& roots) {
    while (roots.try_emplace(rank, rank).first->second != rank) rank = roots[rank];
    return rank;
  }
  static void unite(std::int64_t one, std::int64_t other, Roots& roots) {
    const std::int64_t a = root_of(one, roots), b = root_of(other, roots);
    roots[std::max(a, b)] = std::min(a, b);
  }

  // Ranks between which messages lead are stages of one pipeline. A group of several stages, with
  // messages or without, has several programs.
  void find_roles() {
    std::set<std::string> names;  // descriptions of groups that connect stages
    std::set<const Group*> stages;
    Roots columns, roots;
    for (auto& [group, messages] : messages()) {
      const auto members = std::ranges::count_if(
          group->ranks, [&](std::int64_t rank) { return index_of_.contains(rank); });
      if (members > 1 && messages.is_ring(static_cast<std::size_t>(members))) continue;
      stages.insert(group);
      if (group->description != "undefined") names.insert(group->description);
      for (const auto& [rank, peer] : messages.pairs) unite(rank, peer, columns);
      for (const std::int64_t rank : group->ranks) {
        if (group->ranks.size() < world_) unite(group->ranks[0], rank, columns);
      }
    }
    names.erase("");
    bool parts = false;
    for (const Group& group : groups_) {
      std::set<std::int64_t> met;
      for (const std::int64_t rank : group.ranks) met.insert(root_of(rank, columns));
      const bool stage = stages.contains(&group) || names.contains(group.description) ||
                         met.size() < group.ranks.size();
      parts = parts || stage || group.ranks.size() < world_;
      if (stage || group.ranks.size() == world_) continue;
      for (const std::int64_t rank : group.ranks) unite(group.ranks[0], rank, roots);
    }
    std::map<std::int64_t, std::vector<std::size_t>> roles;
    for (std::size_t i = 0; i < dumps_.size(); ++i) {
      roles[parts ? root_of(dumps_[i].rank, roots) : 0].push_back(i);
    }
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
      bool absent = false;                // the other side of a message has no dump
      for (const FlightEntry& call : dumps_[i].entries) {
        if (!in_one_launch(call, *head)) continue;
        for (const std::int64_t member : partners_of(group, call)) {
          const auto other = index_of_.find(member);
          const bool dumped = other != index_of_.end();
          if (dumped && has_called(other->second, i, call)) {
            const FlightEntry* const theirs = head_of(other->second);
            const bool beside = theirs == nullptr || is_beside(*theirs, other->second, i, call);
            if (!beside && !behind) behind = other->second;
            continue;
          }
          if (!has(wait.awaited, member)) wait.awaited.push_back(member);
          absent = absent || (call.message && !dumped);
          if (!dumped) continue;
          cause.try_emplace(i, other->second);
          const bool ended = head_of(other->second) == nullptr && !dumps_[other->second].cut;
          if (ended) alone_[i].push_back(member);
        }
      }
      if (behind) cause.try_emplace(i, *behind);
      if (absent) cause.erase(i);
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

  // A batch is one launch; so is a call alone.
  static bool in_one_launch(const FlightEntry& a, const FlightEntry& b) {
    return &a == &b || (a.batch >= 0 && a.batch == b.batch);
  }
  // The other side of a call is in the launch that another dump waits for.
  bool is_beside(const FlightEntry& launch, std::size_t dump, std::size_t own,
                 const FlightEntry& call) const {
    return std::ranges::any_of(dumps_[dump].entries, [&](const FlightEntry& one) {
      return in_one_launch(one, launch) && meets(dump, one, own, call);
    });
  }
};

}  // namespace shardlab
