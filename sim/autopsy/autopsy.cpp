// Ranks that share a group without messages run the same program: a role. In each role the first
// record at which a word differs, or a rank has ended, is the place; of several roles the earliest.
#include "sim/autopsy/autopsy.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "sim/autopsy/flight_job.h"

namespace shardlab {

namespace {

// The calls of the ranks of a role, and those that were expected.
class Habits : protected FlightJob {
 protected:
  using FlightJob::FlightJob;

  // The first record at which ranks of a role part.
  struct Parting {
    std::int64_t time = 0, record = 0;
    Role role;
    Role ended;          ///< ranks that have no more; empty: words differ
    bool sizes = false;  ///< in sizes or dtypes alone
  };

  // The word, or the one that it is alike to; -1: there is no such record.
  std::int32_t key(const Parting& parting, std::size_t rank, std::int64_t record) const {
    const FlightEntry* entry = at(rank, record);
    if (entry == nullptr) return -1;
    return parting.sizes ? entry->word : numbers_.alike(entry->word);
  }

  std::map<std::int32_t, Role> words_at(const Parting& parting, std::int64_t record) const {
    std::map<std::int32_t, Role> found;
    for (const std::size_t rank : parting.role) {
      if (at(rank, record) != nullptr) found[key(parting, rank, record)].push_back(rank);
    }
    return found;
  }

  std::optional<Parting> parting_of(const Role& role) const {
    for (std::int64_t record = first_record(dumps_, role); record != kNoRecord;
         record = next_record(dumps_, role, record)) {
      bool differ = false, parts = false;
      std::int64_t time = std::numeric_limits<std::int64_t>::max();
      const FlightEntry* first = nullptr;
      Role ended;
      for (const std::size_t rank : role) {
        const FlightEntry* entry = at(rank, record);
        if (entry == nullptr) {
          if (head_of(rank) == nullptr && !dumps_[rank].cut) ended.push_back(rank);
          continue;
        }
        if (first == nullptr) first = entry;
        time = std::min(time, entry->created_ns);
        differ = differ || entry->word != first->word;
        parts = parts || (differ && numbers_.alike(entry->word) != numbers_.alike(first->word));
      }
      const bool sizes = differ && !parts && is_unfit(role, record);
      parts = parts || sizes;
      if (first == nullptr || (!parts && ended.empty())) continue;
      Parting parting{time, record, role, {}, sizes};
      if (!parts) parting.ended = std::move(ended);
      return parting;
    }
    return std::nullopt;
  }

  std::int32_t voted(const Parting& parting, std::int32_t word) const {
    return parting.sizes ? numbers_.loose(word) : numbers_.alike(word);
  }

  // Calls before a record, the last one first.
  std::vector<std::int32_t> context_of(std::size_t rank, std::int64_t record) const {
    constexpr std::size_t kMostContext = 64;
    std::vector<std::int32_t> context;
    while (context.size() < kMostContext) {
      const FlightEntry* entry = at(rank, --record);
      if (entry == nullptr) break;
      context.push_back(numbers_.alike(entry->word));
    }
    return context;
  }

  struct Next {
    std::size_t context = 1;  // calls before
    bool whole = false;       // all that the rank has before
    std::set<std::int32_t> words;
  };
  // The words of a rank after the longest part of a context that it has, until a record.
  Next next_of(const std::vector<std::int32_t>& context, std::size_t rank, std::int64_t end,
               const auto& number) const {
    Next next;
    const std::vector<FlightEntry>& all = dumps_[rank].entries;
    for (std::size_t j = 1; j < all.size() && all[j].record < end; ++j) {
      std::size_t same = 0;
      while (same < context.size() && same < j &&
             numbers_.alike(all[j - 1 - same].word) == context[same]) {
        ++same;
      }
      if (same < next.context) continue;
      if (same > next.context) next = {same, false, {}};
      next.whole = next.whole || same == j;
      next.words.insert(number(all[j].word));
    }
    return next;
  }

  // Votes for the next word: of other roles, and of the past of the role itself. Sizes may be other
  // ones each time, and count where they alone differ.
  std::map<std::int32_t, std::size_t> expected_next(const Parting& parting) const {
    constexpr std::size_t kMostRanks = 32;
    const std::size_t own = parting.role.front();
    const std::vector<std::int32_t> context = context_of(own, parting.record);
    // A window that begins earlier has a longer one; those of other programs have short ones.
    std::map<std::int32_t, std::size_t> votes;
    const auto look = [&](std::size_t rank, std::int64_t end) {
      const auto number = [&](std::int32_t word) { return voted(parting, word); };
      const Next next = next_of(context, rank, end, number);
      for (const std::int32_t word : next.words) votes[word] += next.context * next.context;
    };
    std::size_t ranks = 1;
    for (std::size_t i = 0; i < dumps_.size() && ranks < kMostRanks; ++i) {
      const bool same_role = std::ranges::find(parting.role, i) != parting.role.end();
      if (!same_role) look(i, std::numeric_limits<std::int64_t>::max());
      ranks += same_role ? 0 : 1;
    }
    look(own, parting.record);
    return votes;
  }

  // The word that a rank has always called after the same calls, at least four, or two that are all
  // it had called, if it has another one there now.
  std::int32_t habit(std::size_t dump, const FlightEntry& entry, bool begin) const {
    const auto number = [&](std::int32_t word) { return numbers_.loose(word); };
    const Next next = next_of(context_of(dump, entry.record), dump, entry.record, number);
    const bool known = next.context >= (begin && next.whole ? 2 : 4);
    const bool other =
        known && next.words.size() == 1 && *next.words.begin() != numbers_.loose(entry.word);
    return other ? *next.words.begin() : -1;
  }

  // Calls by dump: the earliest one that all members of a group have made, and not alike.
  std::map<std::size_t, const FlightEntry*> unfit_call() const {
    std::set<std::pair<const Group*, std::int64_t>> seen;
    std::map<std::size_t, const FlightEntry*> calls;
    std::int64_t time = std::numeric_limits<std::int64_t>::max();
    for (std::size_t i = 0; i < dumps_.size(); ++i) {
      for (const FlightEntry& entry : dumps_[i].entries) {
        if (!entry.pending || entry.message || entry.created_ns >= time) continue;
        const Group& group = group_of(i, entry);
        if (!seen.emplace(&group, entry.sequence).second) continue;
        std::map<std::size_t, const FlightEntry*> all;
        bool differ = false;
        for (const std::int64_t rank : group.ranks) {
          const auto dump = index_of_.find(rank);
          if (dump == index_of_.end()) break;
          const std::vector<FlightEntry>& entries = dumps_[dump->second].entries;
          const auto call = std::ranges::find_if(entries, [&](const FlightEntry& one) {
            return !one.message && one.sequence == entry.sequence &&
                   &group_of(dump->second, one) == &group;
          });
          if (call == entries.end()) break;
          all[dump->second] = &*call;
          differ = differ || numbers_.fit(call->word) != numbers_.fit(entry.word);
        }
        if (!differ || all.size() < group.ranks.size()) continue;
        time = entry.created_ns;
        calls = std::move(all);
      }
    }
    return calls;
  }
};

class Examination : Habits {
 public:
  Examination(std::vector<FlightDump> dumps, const FlightWords& words)
      : Habits(std::move(dumps), words) {}

  Autopsy run() {
    // No difference was a fault if all calls have ended.
    const bool ended = std::ranges::all_of(dumps_, [](const FlightDump& dump) {
      return std::ranges::all_of(dump.entries, &FlightEntry::completed);
    });
    std::vector<Parting> partings;
    for (const Role& role : roles_) {
      std::optional<Parting> parting = ended ? std::nullopt : parting_of(role);
      if (parting) partings.push_back(std::move(*parting));
    }
    std::ranges::stable_sort(partings, {}, &Parting::time);
    if (partings.empty()) nobody_parted();
    for (const Parting& parting : partings) {
      const bool first = &parting == &partings.front();
      Autopsy before = first ? result_ : std::exchange(result_, Autopsy());
      parting.ended.empty() ? differs(parting) : stopped(parting);
      if (first) continue;
      before.also.push_back({result_.kind, result_.culprits, told_word()});
      result_ = std::move(before);
    }
    if (result_.theirs >= 0 || result_.ours >= 0) {
      const FlightWord& word = words_[told_word()];
      result_.group = word.group;
      result_.op = std::string(word.kind());
      const bool blames = result_.kind != AutopsyKind::kDeviceStuck || !result_.circle.empty();
      if (blames) result_.line = word.line;
    }
    return std::move(result_);
  }

 private:
  // The one that is not there, where a call was left out.
  std::int32_t told_word() const {
    const bool skipped =
        result_.kind == AutopsyKind::kSkipped || result_.kind == AutopsyKind::kLostSend;
    return result_.theirs < 0 || skipped ? result_.ours : result_.theirs;
  }

  // The word of most is right here, too: they have ended, or go on.
  void stopped(const Parting& parting) {
    const auto words = words_at(parting, parting.record);
    const Role& on = words.begin()->second;
    const FlightEntry& call = *at(on.front(), parting.record);
    std::size_t called = 0, ended = 0;
    for (const std::int64_t member : group_of(on.front(), call).ranks) {
      const auto other = index_of_.find(member);
      if (other == index_of_.end()) continue;
      const bool came = call.message || has_called(other->second, on.front(), call);
      came ? ++called : ended += head_of(other->second) == nullptr ? 1 : 0;
    }
    const bool extra = called < ended;
    result_.kind = extra ? AutopsyKind::kExtra : AutopsyKind::kStopped;
    result_.culprits = ranks_of(extra ? on : parting.ended);
    result_.rank = result_.culprits.front();
    set_ours(on, parting.record);
    if (extra) {
      result_.theirs = std::exchange(result_.ours, -1);
      result_.their_place = result_.our_place;
      result_.others = ranks_of(parting.ended);
    }
    set_before(parting);
  }

  void set_ours(const Role& ranks, std::int64_t record) {
    result_.ours = at(ranks.front(), record)->word;
    result_.others = ranks_of(ranks);
    result_.our_place = at(ranks.front(), record)->sequence;
  }
  void set_before(const Parting& parting) {
    result_.record = parting.record;
    const auto words = words_at(parting, parting.record - 1);
    if (words.size() == 1) result_.before = at(words.begin()->second[0], parting.record - 1)->word;
  }

  void differs(const Parting& parting) {
    const auto words = words_at(parting, parting.record);
    std::vector<std::pair<std::size_t, std::int32_t>> counts;
    for (const auto& [word, ranks] : words) counts.emplace_back(ranks.size(), word);
    std::ranges::sort(counts, std::greater());
    std::int32_t right = counts[0].second;
    if (counts[0].first == counts[1].first) {
      const std::map<std::int32_t, std::size_t> votes = expected_next(parting);
      const auto votes_for = [&](std::int32_t word) {
        const auto found =
            votes.find(voted(parting, at(words.at(word).front(), parting.record)->word));
        return found == votes.end() ? std::size_t{0} : found->second;
      };
      const auto rivals = [&](const auto& one) { return one.first == counts[0].first; };
      for (const auto& one : counts) {
        if (rivals(one) && votes_for(one.second) > votes_for(right)) right = one.second;
      }
      result_.tie = std::ranges::count_if(counts, [&](const auto& one) {
                      return rivals(one) && votes_for(one.second) == votes_for(right);
                    }) > 1;
    }
    Role odd;
    for (const auto& [word, ranks] : words) {
      if (word == right && !result_.tie) continue;
      odd.insert(odd.end(), ranks.begin(), ranks.end());
    }
    std::ranges::sort(odd);
    set_ours(words.at(right), parting.record);
    const Role& agree = words.at(right);
    const auto other = std::ranges::find_if(
        odd, [&](std::size_t i) { return std::ranges::find(agree, i) == agree.end(); });
    result_.culprits = ranks_of(odd);
    result_.rank = dumps_[*other].rank;
    result_.theirs = at(*other, parting.record)->word;
    result_.their_place = at(*other, parting.record)->sequence;
    set_before(parting);
    result_.kind = kind_of(*other, longest(agree), odd, parting);
  }

  // The change after which the ranks agree for longest.
  AutopsyKind kind_of(std::size_t odd, std::size_t right, const Role& all_odd,
                      const Parting& parting) const {
    const std::int64_t record = parting.record;
    const FlightEntry& own = *at(odd, record);
    const FlightWord &a = words_[own.word], &b = words_[at(right, record)->word];
    const bool comes_later = key(parting, right, record + 1) == key(parting, odd, record);
    const bool exchanged =
        comes_later && key(parting, odd, record + 1) == key(parting, right, record);
    const int replaced = agreement(odd, record + 1, right, record + 1);
    const int extra = agreement(odd, record + 1, right, record);
    const int skipped = agreement(odd, record, right, record + 1);
    const int crossed = exchanged ? 4 + agreement(odd, record + 2, right, record + 2) : 0;
    if (crossed > 0 && crossed >= std::max({replaced, extra, skipped}))
      return AutopsyKind::kCrossed;
    if (extra > std::max(replaced, skipped)) return AutopsyKind::kExtra;
    if (is_same_call(a, b) && skipped <= replaced) return other_of(a, b);
    if (extra > 0 && extra >= std::max(replaced, skipped)) return AutopsyKind::kExtra;
    bool known = comes_later;
    for (std::size_t i = 0; i < dumps_.size() && !known; ++i) {
      if (std::ranges::find(all_odd, i) != all_odd.end()) continue;
      known = std::ranges::any_of(dumps_[i].entries, [&](const FlightEntry& entry) {
        return numbers_.loose(entry.word) == numbers_.loose(own.word);
      });
    }
    if (!known) return AutopsyKind::kOtherKind;
    if (b.kind() == "send") return AutopsyKind::kLostSend;
    const bool last = at(odd, record + 1) == nullptr && own.pending && a.group != b.group;
    return last ? AutopsyKind::kCrossed : AutopsyKind::kSkipped;
  }

  // A rank without another one of its program, against a word that is right.
  void blame(const Role& odd, const FlightEntry& entry, std::int32_t right) {
    const std::size_t dump = odd.front();
    result_.culprits = ranks_of(odd);
    result_.rank = dumps_[dump].rank;
    result_.record = entry.record;
    result_.ours = right;
    result_.theirs = entry.word;
    result_.their_place = result_.our_place = entry.sequence;
    const FlightEntry* const next = at(dump, entry.record + 1);
    const FlightWord &a = words_[entry.word], &b = words_[right];
    const bool known = std::ranges::any_of(dumps_[dump].entries, [&](const FlightEntry& one) {
      return one.record < entry.record && numbers_.loose(one.word) == numbers_.loose(entry.word);
    });
    const bool goes_on = next != nullptr && numbers_.loose(next->word) == numbers_.loose(right);
    result_.kind = is_same_call(a, b)   ? other_of(a, b)
                   : goes_on            ? AutopsyKind::kExtra
                   : !known             ? AutopsyKind::kOtherKind
                   : b.kind() == "send" ? AutopsyKind::kLostSend
                                        : AutopsyKind::kSkipped;
  }
  static bool is_same_call(const FlightWord& a, const FlightWord& b) {
    return a.group == b.group && a.kind() == b.kind() && a.file == b.file && a.line == b.line;
  }
  static AutopsyKind other_of(const FlightWord& a, const FlightWord& b) {
    return a.dtypes != b.dtypes ? AutopsyKind::kOtherDtype : AutopsyKind::kOtherSize;
  }

  // Members of one group, of several roles: most are right, and then those who keep to a habit.
  bool blames_unfit_call() {
    const std::map<std::size_t, const FlightEntry*> calls = unfit_call();
    std::map<std::int32_t, Role> sides;
    for (const auto& [dump, call] : calls) sides[numbers_.fit(call->word)].push_back(dump);
    std::vector<std::tuple<std::size_t, bool, std::int32_t>> order;
    for (const auto& [word, ranks] : sides) {
      const bool keeps = std::ranges::none_of(
          ranks, [&](std::size_t dump) { return habit(dump, *calls.at(dump), true) >= 0; });
      order.emplace_back(ranks.size(), keeps, word);
    }
    if (order.empty()) return false;
    std::ranges::sort(order, std::greater());
    const auto [most, keeps, right] = order[0];
    result_.tie = order[1] >= std::tuple(most, keeps, std::int32_t{0});
    Role odd, all;
    for (const auto& [dump, call] : calls) {
      all.push_back(dump);
      if (numbers_.fit(call->word) != right) odd.push_back(dump);
    }
    const Role& agree = sides.at(right);
    blame(odd, *calls.at(odd.front()), calls.at(agree.front())->word);
    result_.others = ranks_of(agree);
    if (result_.tie) result_.culprits = ranks_of(all);
    return true;
  }

  // One alone of ranks that wait for each other has no longer called what it always did.
  bool blames_habit() {
    constexpr std::int64_t kLast = 16;
    std::optional<std::tuple<std::size_t, const FlightEntry*, std::int32_t>> found;
    for (const AutopsyLink& link : result_.circle) {
      const std::size_t dump = index_of_.at(link.rank);
      const bool alone = std::ranges::any_of(
          roles_, [&](const auto& role) { return role.size() == 1 && role[0] == dump; });
      const std::vector<FlightEntry>& all = dumps_[dump].entries;
      const std::int64_t from = head_of(dump)->record - kLast;
      const auto other = std::ranges::find_if(all, [&](const FlightEntry& entry) {
        return entry.record >= from && habit(dump, entry, false) >= 0;
      });
      if (!alone || other == all.end()) continue;
      if (found) return false;
      found = {dump, &*other, habit(dump, *other, false)};
    }
    if (!found) return false;
    const auto& [dump, entry, word] = *found;
    blame({dump}, *entry, word);
    result_.left_habit = true;
    return true;
  }

  void nobody_parted() {
    bool pending = false;
    const FlightEntry* place = nullptr;
    std::size_t at = 0;                                // the dump of the place
    std::vector<std::int64_t> lost = result_.missing;  // and those whose last calls are
    for (std::size_t rank = 0; rank < dumps_.size(); ++rank) {
      if (dumps_[rank].cut && head_of(rank) == nullptr) lost.push_back(dumps_[rank].rank);
    }
    std::ranges::sort(lost);
    auto best = std::tuple(true, false, std::int64_t{0}, std::int64_t{0});
    for (std::size_t rank = 0; rank < dumps_.size(); ++rank) {
      for (const FlightEntry& entry : dumps_[rank].entries) {
        if (!entry.pending) continue;
        pending = true;
        const Ranks ranks = partners_of(group_of(rank, entry), entry);
        const bool misses =
            std::ranges::any_of(lost, [&](std::int64_t missing) { return has(ranks, missing); });
        if (!lost.empty() && !misses) continue;
        const std::tuple key(entry.message, ranks.size() == world_, entry.record, entry.created_ns);
        if (place != nullptr && best <= key) continue;
        best = key;
        place = &entry;
        at = rank;
      }
    }
    const bool absent =
        place != nullptr ? !lost.empty() : !result_.missing.empty() && stop_within_a_step();
    if (blames_unfit_call() || blames_habit()) return;
    if (!result_.circle.empty()) {
      result_.kind = AutopsyKind::kDeviceStuck;
      place = head_of(at = index_of_.at(result_.circle.front().rank));
    } else if (!alone_.empty()) {
      const auto& [dump, ended] = *alone_.begin();
      place = head_of(at = dump);
      const bool receives = words_[place->word].kind() == "recv";
      result_.kind = receives ? AutopsyKind::kLostSend : AutopsyKind::kStopped;
      result_.culprits = ended;
      result_.others = {dumps_[dump].rank};
    } else if (absent) {
      result_.kind = AutopsyKind::kNoDump;
      result_.culprits = lost;
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
};

}  // namespace

Autopsy autopsy_of(std::vector<FlightDump> dumps, const FlightWords& words) {
  return Examination(std::move(dumps), words).run();
}

}  // namespace shardlab
