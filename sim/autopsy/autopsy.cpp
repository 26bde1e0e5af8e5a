// Ranks that share a group without messages run the same program: a role. In each role the first
// record at which a word differs, or a rank has ended, is the place; of several roles the earliest.
#include "sim/autopsy/autopsy.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <set>

#include "backends/shared/waits.h"
#include "base/fix.h"

namespace shardlab {

namespace {

using Ranks = std::vector<std::int64_t>;

// The dumps of one job: its groups, its roles, and who waits for whom.
class Job {
 protected:
  Job(std::vector<FlightDump> dumps, const FlightWords& words)
      : dumps_(std::move(dumps)), words_(words) {
    std::ranges::sort(dumps_, {}, &FlightDump::rank);
    find_groups();
    find_entries();
    find_roles();
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
    const std::vector<FlightEntry>& all = dumps_[rank].entries;
    if (all.empty() || record < all.front().record) return nullptr;
    const auto guess = static_cast<std::size_t>(record - all.front().record);
    if (guess < all.size() && all[guess].record == record) return &all[guess];
    const auto found = std::ranges::lower_bound(all, record, {}, &FlightEntry::record);
    return found != all.end() && found->record == record ? &*found : nullptr;
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

  const FlightEntry* head_of(std::size_t dump) const {
    const auto head = std::ranges::find(dumps_[dump].entries, true, &FlightEntry::pending);
    return head == dumps_[dump].entries.end() ? nullptr : &*head;
  }

  // The ranks without which a call does not end.
  Ranks partners_of(const Group& group, const FlightEntry& call) const {
    if (!call.message) return group.ranks;
    const std::string& op = words_[call.word].op;
    std::size_t place = group.ranks.size();
    const std::size_t arrow = op.find_first_of("-<");
    if (arrow + 2 < op.size()) {
      std::from_chars(op.data() + arrow + 2, op.data() + op.size(), place);
    }
    return place < group.ranks.size() ? Ranks{group.ranks[place]} : Ranks{};
  }

  // "recv 0<-1" of a message "send 1->0", and back.
  static std::string counterpart(std::string_view op) {
    const std::size_t space = op.find(' '), arrow = op.find_first_of("-<", space);
    if (arrow == std::string_view::npos) return {};
    const bool sends = op.starts_with("send");
    return fmt::format("{} {}{}{}", sends ? "recv" : "send", op.substr(arrow + 2),
                       sends ? "<-" : "->", op.substr(space + 1, arrow - space - 1));
  }

  // Whether another dump's call is the same collective, or the other side of a message.
  bool meets(std::size_t dump, const FlightEntry& theirs, std::size_t own,
             const FlightEntry& call) const {
    if (&group_of(dump, theirs) != &group_of(own, call)) return false;
    if (!call.message) return !theirs.message && theirs.sequence == call.sequence;
    return words_[theirs.word].op == counterpart(words_[call.word].op);
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

  // Finds the member that was the last to start a collective that all have called.
  void find_slowest() {
    std::int64_t latest = 0;
    for (const FlightDump& dump : dumps_) {
      const FlightEntry* const head = head_of(index_of_.at(dump.rank));
      if (head == nullptr || head->started_ns < latest) continue;
      latest = head->started_ns;
      result_.slowest = dump.rank;
    }
  }

  std::vector<FlightDump> dumps_;
  const FlightWords& words_;
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
         "{}: a dump of another job: its group '{}' has other ranks", dump.path, name);
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
        if (head->message && head_of(other->second) == nullptr) alone_.emplace(i, member);
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

class Examination : Job {
 public:
  Examination(std::vector<FlightDump> dumps, const FlightWords& words)
      : Job(std::move(dumps), words) {}

  Autopsy run() {
    std::optional<Parting> first;
    for (const std::vector<std::size_t>& role : roles_) {
      std::optional<Parting> parting = parting_of(role);
      if (parting && (!first || parting->time < first->time)) first = std::move(parting);
    }
    if (!first) {
      nobody_parted();
    } else if (first->ended.empty()) {
      differs(*first);
    } else {
      stopped(*first);
    }
    if (result_.theirs >= 0 || result_.ours >= 0) {
      const bool skipped =
          result_.kind == AutopsyKind::kSkipped || result_.kind == AutopsyKind::kLostSend;
      const FlightWord& word =
          words_[result_.theirs < 0 || skipped ? result_.ours : result_.theirs];
      result_.group = word.group;
      result_.op = std::string(word.kind());
      const bool blames = result_.kind != AutopsyKind::kDeviceStuck || !result_.circle.empty();
      if (blames) result_.line = word.line;
    }
    return std::move(result_);
  }

 private:
  // The first record at which ranks of a role part.
  struct Parting {
    std::int64_t time = 0, record = 0;
    std::vector<std::size_t> role;
    std::vector<std::size_t> ended;  ///< ranks that have no more; empty: words differ
  };

  std::map<std::int32_t, std::vector<std::size_t>> words_at(const std::vector<std::size_t>& role,
                                                            std::int64_t record) const {
    std::map<std::int32_t, std::vector<std::size_t>> found;
    for (const std::size_t rank : role) {
      if (const FlightEntry* entry = at(rank, record)) found[entry->word].push_back(rank);
    }
    return found;
  }

  // A ring keeps the last entries: the comparison begins where all have some.
  std::optional<Parting> parting_of(const std::vector<std::size_t>& role) const {
    std::int64_t from = 0, to = 0;
    for (const std::size_t rank : role) {
      const std::vector<FlightEntry>& all = dumps_[rank].entries;
      if (all.empty()) continue;
      from = std::max(from, all.front().record);
      to = std::max(to, all.back().record + 1);
    }
    const std::vector<bool> waiting = [&] {
      std::vector<bool> found;
      for (const std::size_t rank : role) found.push_back(head_of(rank) != nullptr);
      return found;
    }();
    for (std::int64_t record = from; record < to; ++record) {
      bool differ = false;
      const FlightEntry* first = nullptr;
      std::vector<std::size_t> ended;
      for (std::size_t i = 0; i < role.size(); ++i) {
        const FlightEntry* entry = at(role[i], record);
        if (entry == nullptr) {
          if (!waiting[i]) ended.push_back(role[i]);
          continue;
        }
        if (first == nullptr) first = entry;
        differ = differ || entry->word != first->word;
      }
      if (first == nullptr || (!differ && ended.empty())) continue;
      Parting parting{.time = first->created_ns, .record = record, .role = role, .ended = {}};
      if (!differ) parting.ended = std::move(ended);
      for (const std::size_t rank : role) {
        const FlightEntry* entry = at(rank, record);
        if (entry != nullptr) parting.time = std::min(parting.time, entry->created_ns);
      }
      return parting;
    }
    return std::nullopt;
  }

  void stopped(const Parting& parting) {
    result_.kind = AutopsyKind::kStopped;
    result_.culprits = ranks_of(parting.ended);
    result_.rank = result_.culprits.front();
    const auto words = words_at(parting.role, parting.record);
    set_ours(words.begin()->first, words.begin()->second, parting.record);
    set_before(parting);
  }

  void set_ours(std::int32_t word, const std::vector<std::size_t>& ranks, std::int64_t record) {
    result_.ours = word;
    result_.others = ranks_of(ranks);
    result_.our_place = at(ranks.front(), record)->sequence;
  }
  void set_before(const Parting& parting) {
    result_.record = parting.record;
    const auto words = words_at(parting.role, parting.record - 1);
    if (words.size() == 1) result_.before = words.begin()->first;
  }

  // The word without places in the group, for other stages.
  std::int32_t loose(std::int32_t word) const {
    if (loose_.empty()) {
      std::map<FlightWord, std::int32_t> numbers;
      for (std::size_t i = 0; i < words_.size(); ++i) {
        FlightWord one = words_[static_cast<std::int32_t>(i)];
        one.op = std::string(one.kind());
        loose_.push_back(
            numbers.try_emplace(one, static_cast<std::int32_t>(numbers.size())).first->second);
      }
    }
    return loose_[static_cast<std::size_t>(word)];
  }

  // The next word after the longest context that was seen before: in other roles, and in the past
  // of the role itself. Counts by loose word.
  std::map<std::int32_t, int> expected_next(const Parting& parting) const {
    constexpr std::size_t kMostContext = 64, kMostRanks = 32;
    std::vector<std::int32_t> context;
    for (std::int64_t i = parting.record - 1; context.size() < kMostContext; --i) {
      const FlightEntry* entry = at(parting.role.front(), i);
      if (entry == nullptr) break;
      context.push_back(loose(entry->word));
    }
    std::map<std::int32_t, int> votes;
    std::size_t best = 1, ranks = 0;
    const auto look = [&](std::size_t rank, std::int64_t end) {
      const std::vector<FlightEntry>& all = dumps_[rank].entries;
      for (std::size_t j = 1; j < all.size() && all[j].record < end; ++j) {
        std::size_t same = 0;
        while (same < context.size() && same < j &&
               loose(all[j - 1 - same].word) == context[same]) {
          ++same;
        }
        if (same < best) continue;
        if (same > best) votes.clear();
        best = same;
        ++votes[loose(all[j].word)];
      }
    };
    for (std::size_t i = 0; i < dumps_.size() && ranks < kMostRanks; ++i) {
      const bool same_role = std::ranges::find(parting.role, i) != parting.role.end();
      if (!same_role && ++ranks > 0) look(i, std::numeric_limits<std::int64_t>::max());
    }
    look(parting.role.front(), parting.record);
    return votes;
  }

  void differs(const Parting& parting) {
    const auto words = words_at(parting.role, parting.record);
    std::vector<std::pair<std::size_t, std::int32_t>> counts;
    for (const auto& [word, ranks] : words) counts.emplace_back(ranks.size(), word);
    std::ranges::sort(counts, std::greater());
    std::int32_t right = counts[0].second;
    if (counts[0].first == counts[1].first) {
      const std::map<std::int32_t, int> votes = expected_next(parting);
      const auto votes_for = [&](std::int32_t word) {
        const auto found = votes.find(loose(word));
        return found == votes.end() ? 0 : found->second;
      };
      const auto rivals = [&](const auto& one) { return one.first == counts[0].first; };
      for (const auto& one : counts) {
        if (rivals(one) && votes_for(one.second) > votes_for(right)) right = one.second;
      }
      result_.tie = std::ranges::count_if(counts, [&](const auto& one) {
                      return rivals(one) && votes_for(one.second) == votes_for(right);
                    }) > 1;
    }
    std::vector<std::size_t> odd;
    for (const auto& [word, ranks] : words) {
      if (word == right && !result_.tie) continue;
      odd.insert(odd.end(), ranks.begin(), ranks.end());
    }
    std::ranges::sort(odd);
    set_ours(right, words.at(right), parting.record);
    const auto other = std::ranges::find_if(
        odd, [&](std::size_t i) { return at(i, parting.record)->word != right; });
    result_.culprits = ranks_of(odd);
    result_.rank = dumps_[*other].rank;
    result_.theirs = at(*other, parting.record)->word;
    result_.their_place = at(*other, parting.record)->sequence;
    set_before(parting);
    result_.kind = kind_of(*other, longest(words.at(right)), odd, parting.record);
  }

  std::size_t longest(const std::vector<std::size_t>& ranks) const {
    return *std::ranges::max_element(
        ranks, {}, [&](std::size_t rank) { return dumps_[rank].entries.back().record; });
  }

  AutopsyKind kind_of(std::size_t odd, std::size_t right, const std::vector<std::size_t>& all_odd,
                      std::int64_t record) const {
    const FlightEntry& own = *at(odd, record);
    const FlightWord &a = words_[own.word], &b = words_[at(right, record)->word];
    const auto next = [&](std::size_t rank) {
      const FlightEntry* entry = at(rank, record + 1);
      return entry == nullptr ? -1 : entry->word;
    };
    const std::int32_t wrong = own.word, wanted = at(right, record)->word;
    const bool comes_later = next(right) == wrong;
    const bool exchanged = comes_later && next(odd) == wanted;
    if (exchanged) return AutopsyKind::kCrossed;
    if (a.group == b.group && a.kind() == b.kind() && a.file == b.file && a.line == b.line) {
      return a.dtypes != b.dtypes ? AutopsyKind::kOtherDtype : AutopsyKind::kOtherSize;
    }
    if (next(odd) == wanted) return AutopsyKind::kExtra;
    bool known = comes_later;
    for (std::size_t i = 0; i < dumps_.size() && !known; ++i) {
      if (std::ranges::find(all_odd, i) != all_odd.end()) continue;
      known = std::ranges::any_of(dumps_[i].entries, [&](const FlightEntry& entry) {
        return loose(entry.word) == loose(wrong);
      });
    }
    if (!known) return AutopsyKind::kOtherKind;
    const bool last = next(odd) < 0 && own.pending && a.group != b.group;
    if (last) return AutopsyKind::kCrossed;
    return b.kind() == "send" ? AutopsyKind::kLostSend : AutopsyKind::kSkipped;
  }

  void nobody_parted() {
    bool pending = false;
    const FlightEntry* place = nullptr;
    std::size_t at = 0;  // the dump of the place
    auto best = std::tuple(true, std::size_t{0}, std::int64_t{0}, std::int64_t{0});
    for (std::size_t rank = 0; rank < dumps_.size(); ++rank) {
      for (const FlightEntry& entry : dumps_[rank].entries) {
        if (!entry.pending) continue;
        pending = true;
        const Ranks ranks = partners_of(group_of(rank, entry), entry);
        const bool misses = std::ranges::any_of(
            result_.missing, [&](std::int64_t missing) { return has(ranks, missing); });
        if (!result_.missing.empty() && !misses) continue;
        const std::tuple key(entry.message, ranks.size(), entry.record, entry.created_ns);
        if (place != nullptr && best <= key) continue;
        best = key;
        place = &entry;
        at = rank;
      }
    }
    const bool absent = !result_.missing.empty() && (place != nullptr || stop_within_a_step());
    if (!result_.circle.empty()) {
      result_.kind = AutopsyKind::kDeviceStuck;
      place = head_of(at = index_of_.at(result_.circle.front().rank));
    } else if (!alone_.empty()) {
      const auto& [dump, ended] = *alone_.begin();
      place = head_of(at = dump);
      const bool receives = words_[place->word].kind() == "recv";
      result_.kind = receives ? AutopsyKind::kLostSend : AutopsyKind::kStopped;
      result_.culprits = {ended};
      result_.others = {dumps_[dump].rank};
    } else if (absent) {
      result_.kind = AutopsyKind::kNoDump;
      result_.culprits = result_.missing;
    } else if (const auto pair = unfit_message()) {
      place = head_of(at = pair->first);
      result_.kind = AutopsyKind::kOtherSize;
      result_.tie = true;
      result_.culprits = {dumps_[pair->first].rank, dumps_[pair->second].rank};
      result_.theirs = head_of(pair->second)->word;
    } else if (pending) {
      result_.kind = AutopsyKind::kDeviceStuck;
      find_slowest();
    }
    if (place != nullptr) {
      result_.ours = place->word;
      result_.our_place = place->sequence;
      result_.rank = dumps_[at].rank;
      result_.record = place->record;
    }
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

  mutable std::vector<std::int32_t> loose_;
};

}  // namespace

Autopsy autopsy_of(std::vector<FlightDump> dumps, const FlightWords& words) {
  return Examination(std::move(dumps), words).run();
}

}  // namespace shardlab
