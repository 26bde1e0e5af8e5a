// Ranks that share a group without messages run the same program: a role. In each role the first
// record at which a word differs, or a rank has ended, is the place; of several roles the earliest.
#include "sim/autopsy/autopsy.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "sim/autopsy/flight_job.h"

namespace shardlab {

namespace {

class Examination : FlightJob {
 public:
  Examination(std::vector<FlightDump> dumps, const FlightWords& words)
      : FlightJob(std::move(dumps), words) {}

  Autopsy run() {
    // No difference was a fault if all calls have ended.
    const bool ended = std::ranges::all_of(dumps_, [](const FlightDump& dump) {
      return std::ranges::all_of(dump.entries, &FlightEntry::completed);
    });
    std::optional<Parting> first;
    for (const std::vector<std::size_t>& role : roles_) {
      std::optional<Parting> parting = ended ? std::nullopt : parting_of(role);
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
    bool sizes = false;              ///< in sizes or dtypes alone
  };

  // The ranks of each word, or of each one that is alike.
  std::map<std::int32_t, std::vector<std::size_t>> words_at(const Parting& parting,
                                                            std::int64_t record) const {
    std::map<std::int32_t, std::vector<std::size_t>> found;
    for (const std::size_t rank : parting.role) {
      const FlightEntry* entry = at(rank, record);
      if (entry != nullptr)
        found[parting.sizes ? entry->word : numbers_.alike(entry->word)].push_back(rank);
    }
    return found;
  }

  std::optional<Parting> parting_of(const std::vector<std::size_t>& role) const {
    for (std::int64_t record = first_record(dumps_, role); record != kNoRecord;
         record = next_record(dumps_, role, record)) {
      bool differ = false, parts = false;
      const FlightEntry* first = nullptr;
      std::vector<std::size_t> ended;
      for (const std::size_t rank : role) {
        const FlightEntry* entry = at(rank, record);
        if (entry == nullptr) {
          if (head_of(rank) == nullptr && !dumps_[rank].cut) ended.push_back(rank);
          continue;
        }
        if (first == nullptr) first = entry;
        differ = differ || entry->word != first->word;
        parts = parts || (differ && numbers_.alike(entry->word) != numbers_.alike(first->word));
      }
      const bool sizes = differ && !parts && is_unfit(role, record);
      parts = parts || sizes;
      if (first == nullptr || (!parts && ended.empty())) continue;
      Parting parting{.time = first->created_ns, .record = record, .role = role, .ended = {}};
      parting.sizes = sizes;
      if (!parts) parting.ended = std::move(ended);
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
    const auto words = words_at(parting, parting.record);
    set_ours(words.begin()->second, parting.record);
    set_before(parting);
  }

  void set_ours(const std::vector<std::size_t>& ranks, std::int64_t record) {
    result_.ours = at(ranks.front(), record)->word;
    result_.others = ranks_of(ranks);
    result_.our_place = at(ranks.front(), record)->sequence;
  }
  void set_before(const Parting& parting) {
    result_.record = parting.record;
    const auto words = words_at(parting, parting.record - 1);
    if (words.size() == 1) result_.before = at(words.begin()->second[0], parting.record - 1)->word;
  }

  // The next word after the longest context that was seen before: in other roles, and in the past
  // of the role itself. Counts by loose word.
  std::map<std::int32_t, int> expected_next(const Parting& parting) const {
    constexpr std::size_t kMostContext = 64, kMostRanks = 32;
    std::vector<std::int32_t> context;
    for (std::int64_t i = parting.record - 1; context.size() < kMostContext; --i) {
      const FlightEntry* entry = at(parting.role.front(), i);
      if (entry == nullptr) break;
      context.push_back(numbers_.loose(entry->word));
    }
    std::map<std::int32_t, int> votes;
    std::size_t best = 1, ranks = 0;
    const auto look = [&](std::size_t rank, std::int64_t end) {
      const std::vector<FlightEntry>& all = dumps_[rank].entries;
      for (std::size_t j = 1; j < all.size() && all[j].record < end; ++j) {
        std::size_t same = 0;
        while (same < context.size() && same < j &&
               numbers_.loose(all[j - 1 - same].word) == context[same]) {
          ++same;
        }
        if (same < best) continue;
        if (same > best) votes.clear();
        best = same;
        ++votes[numbers_.loose(all[j].word)];
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
    const auto words = words_at(parting, parting.record);
    std::vector<std::pair<std::size_t, std::int32_t>> counts;
    for (const auto& [word, ranks] : words) counts.emplace_back(ranks.size(), word);
    std::ranges::sort(counts, std::greater());
    std::int32_t right = counts[0].second;
    if (counts[0].first == counts[1].first) {
      const std::map<std::int32_t, int> votes = expected_next(parting);
      const auto votes_for = [&](std::int32_t word) {
        const auto found =
            votes.find(numbers_.loose(at(words.at(word).front(), parting.record)->word));
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
    set_ours(words.at(right), parting.record);
    const std::vector<std::size_t>& agree = words.at(right);
    const auto other = std::ranges::find_if(
        odd, [&](std::size_t i) { return std::ranges::find(agree, i) == agree.end(); });
    result_.culprits = ranks_of(odd);
    result_.rank = dumps_[*other].rank;
    result_.theirs = at(*other, parting.record)->word;
    result_.their_place = at(*other, parting.record)->sequence;
    set_before(parting);
    result_.kind = kind_of(*other, longest(agree), odd, parting);
  }

  std::size_t longest(const std::vector<std::size_t>& ranks) const {
    return *std::ranges::max_element(
        ranks, {}, [&](std::size_t rank) { return dumps_[rank].entries.back().record; });
  }

  AutopsyKind kind_of(std::size_t odd, std::size_t right, const std::vector<std::size_t>& all_odd,
                      const Parting& parting) const {
    const std::int64_t record = parting.record;
    const FlightEntry& own = *at(odd, record);
    const FlightWord &a = words_[own.word], &b = words_[at(right, record)->word];
    const auto key = [&](std::int32_t word) { return parting.sizes ? word : numbers_.alike(word); };
    const auto next = [&](std::size_t rank) {
      const FlightEntry* entry = at(rank, record + 1);
      return entry == nullptr ? -1 : key(entry->word);
    };
    const std::int32_t wrong = key(own.word), wanted = key(at(right, record)->word);
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
        return numbers_.loose(entry.word) == numbers_.loose(own.word);
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
    std::size_t at = 0;                                // the dump of the place
    std::vector<std::int64_t> lost = result_.missing;  // and those whose last calls are
    for (std::size_t rank = 0; rank < dumps_.size(); ++rank) {
      if (dumps_[rank].cut && head_of(rank) == nullptr) lost.push_back(dumps_[rank].rank);
    }
    std::ranges::sort(lost);
    auto best = std::tuple(true, std::size_t{0}, std::int64_t{0}, std::int64_t{0});
    for (std::size_t rank = 0; rank < dumps_.size(); ++rank) {
      for (const FlightEntry& entry : dumps_[rank].entries) {
        if (!entry.pending) continue;
        pending = true;
        const Ranks ranks = partners_of(group_of(rank, entry), entry);
        const bool misses =
            std::ranges::any_of(lost, [&](std::int64_t missing) { return has(ranks, missing); });
        if (!lost.empty() && !misses) continue;
        const std::tuple key(entry.message, ranks.size(), entry.record, entry.created_ns);
        if (place != nullptr && best <= key) continue;
        best = key;
        place = &entry;
        at = rank;
      }
    }
    const bool absent =
        place != nullptr ? !lost.empty() : !result_.missing.empty() && stop_within_a_step();
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
};

}  // namespace

Autopsy autopsy_of(std::vector<FlightDump> dumps, const FlightWords& words) {
  return Examination(std::move(dumps), words).run();
}

}  // namespace shardlab
