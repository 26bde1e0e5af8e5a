// The culprits: ranks are put into sets of compatible calls, and all but the largest set are named;
// if two sets are equally large, all ranks are. If all calls are compatible and still do not fit,
// the culprits are the ranks in most pairs that do not fit.
#include "backends/shared/meeting.h"

#include <algorithm>
#include <utility>

#include "base/rank_context.h"
#include "base/text.h"

namespace shardlab::backends {

namespace {

// "to rank 1", "from rank 0", "from any rank".
std::string other_side(const Meeting& meeting, const Call& call) {
  if (call.kind == CollectiveKind::kSend) return fmt::format("to rank {}", meeting.ranks[1]);
  return call.from < 0 ? "from any rank" : fmt::format("from rank {}", meeting.ranks[0]);
}

// "sends to rank 1 with tag 3"; `what` where the data has a place in the sentence.
std::string sentence_of(const Meeting& meeting, const Call& call, std::string_view what = "") {
  const bool sends = call.kind == CollectiveKind::kSend;
  std::string text =
      fmt::format("{}{} {}", sends ? "sends" : "receives", what, other_side(meeting, call));
  if (call.tag != 0) text += fmt::format(" with tag {}", call.tag);
  if (call.position.file != nullptr) text += fmt::format(" ({})", place_text(call.position));
  return text;
}

std::string call_sentence(const Meeting& meeting, const Call& call) {
  if (is_message(call.kind)) return sentence_of(meeting, call);
  std::string text = fmt::format("is in {} on group {}", to_string(call.kind), meeting.group);
  if (call.position.file != nullptr) text += fmt::format(" ({})", place_text(call.position));
  return text;
}

// "send(f32[4], to rank 1, tag 3)".
std::string message_signature(const Meeting& meeting, const Call& call) {
  std::string text = signature(call);
  text.pop_back();
  text += ", " + other_side(meeting, call);
  if (call.tag != 0) text += fmt::format(", tag {}", call.tag);
  return text + ")";
}

}  // namespace

void describe(const Meeting& meeting, const Call& call, RankReport& report) {
  report.message = is_message(call.kind);
  report.what = report.message ? message_signature(meeting, call) : signature(call);
  report.does = call_sentence(meeting, call);
  if (call.op_name != nullptr) report.op = call.op_name;
  report.group = std::string(meeting.group);
  report.call = static_cast<std::int64_t>(meeting.sequence);
  if (call.position.file != nullptr) {
    report.where = fmt::format("{}:{}", call.position.file, call.position.line);
  }
  for (std::size_t i = 0; i < meeting.ranks.size(); ++i) {
    if (meeting.calls[i] == nullptr) report.missing.push_back(meeting.ranks[i]);
  }
  std::ranges::sort(report.missing);
}

void describe_any(std::span<const std::int64_t> ranks, std::string_view group, const Call& call,
                  RankReport& report) {
  describe({{}, group, 0, {}}, call, report);
  report.missing.assign(ranks.begin(), ranks.end());
  std::erase(report.missing, report.rank);
  std::ranges::sort(report.missing);
}

bool torn(const Meeting& meeting) {
  const Call* first = nullptr;
  for (const Call* call : meeting.calls) {
    if (call == nullptr) continue;
    if (first == nullptr) first = call;
    if (!compatible(*first, *call)) return true;
  }
  return false;
}

namespace {

// Larger groups are not checked pair by pair: all their ranks are named.
constexpr std::size_t kMostRanksInPairs = 1024;

// All have entered with compatible calls.
std::vector<std::int64_t> in_most_unfit_pairs(const Meeting& meeting) {
  const std::size_t size = meeting.calls.size();
  std::vector<std::int64_t> unfit(size, 0);
  for (std::size_t from = 0; from < size; ++from) {
    for (std::size_t to = 0; to < size; ++to) {
      if (pair_fits(meeting.calls, from, to)) continue;
      ++unfit[from];
      if (from != to) ++unfit[to];
    }
  }
  const std::int64_t most = std::ranges::max(unfit);
  std::vector<std::int64_t> result;
  for (std::size_t i = 0; i < size; ++i) {
    if (unfit[i] == most) result.push_back(meeting.ranks[i]);
  }
  std::ranges::sort(result);
  return result;
}

// Both have entered.
std::string cause_of_message(const Meeting& meeting) {
  const auto side = [&](std::size_t i) {
    const Call& call = *meeting.calls[i];
    const TensorMeta& meta = call.x != nullptr ? call.x->meta() : *call.expected;
    return fmt::format("rank {} {}", meeting.ranks[i],
                       sentence_of(meeting, call, " " + meta_text(meta)));
  };
  const char *sent = meeting.calls[0]->op_name, *received = meeting.calls[1]->op_name;
  if (difference(*meeting.calls[0], *meeting.calls[1]) == kLabels) {
    return fmt::format(
        "wrong message: rank {} receives {}, rank {} sent {} (message {} from {} to {})",
        meeting.ranks[1], received, meeting.ranks[0], sent, meeting.sequence + 1, meeting.ranks[0],
        meeting.ranks[1]);
  }
  return side(0) + ", and " + side(1);
}

}  // namespace

// "pieces of 2 + 1 of 3 along dim 1", where nothing else is different; and the way to join them.
static std::string unequal_pieces(const Meeting& meeting) {
  const Call& first = *meeting.calls[0];
  const auto dim = static_cast<std::size_t>(first.dim);
  if (first.kind != CollectiveKind::kAllGather || first.x == nullptr) return {};
  Dims whole = first.x->shape(), sizes;
  if (dim >= whole.size()) return {};
  whole[dim] = 0;
  for (const Call* call : meeting.calls) {
    if (call == nullptr || call->x == nullptr) return {};
    sizes.push_back(call->x->size(dim));
    whole[dim] += sizes.back();
  }
  if (std::ranges::adjacent_find(sizes, std::ranges::not_equal_to{}) == sizes.end()) return {};
  return fmt::format(
      ": pieces of {} along dim {}, {} together; all_gather joins equal pieces, and "
      "from_local(..., shape=[{}]).full_tensor() unequal ones",
      text_of_list(sizes, " + "), dim, whole[dim], text_of_list(whole, ", "));
}

std::string cause_of(const Meeting& meeting) {
  const Call* first = nullptr;
  std::string_view found;
  for (const Call* call : meeting.calls) {
    if (call == nullptr) continue;
    if (is_message(call->kind)) return cause_of_message(meeting);
    if (first == nullptr) first = call;
    if (found.empty()) found = difference(*first, *call);
    if (first->kind != call->kind) {
      return fmt::format("the ranks of group {} entered different collectives", meeting.group);
    }
  }
  if (found.empty()) found = "parts that do not fit together";
  const std::string pieces = found == kLengths ? unequal_pieces(meeting) : "";
  return fmt::format("the ranks of group {} entered {} with {}{}", meeting.group,
                     to_string(first->kind), found, pieces);
}

std::vector<std::int64_t> odd_ones(const Meeting& meeting) {
  // Sets of calls that can meet, by their first member.
  std::vector<std::pair<const Call*, std::vector<std::int64_t>>> sets;
  for (std::size_t i = 0; i < meeting.ranks.size(); ++i) {
    const Call* call = meeting.calls[i];
    if (call == nullptr) continue;
    const auto set = std::ranges::find_if(
        sets, [&](const auto& known) { return compatible(*known.first, *call); });
    if (set == sets.end()) {
      sets.push_back({call, {meeting.ranks[i]}});
    } else {
      set->second.push_back(meeting.ranks[i]);
    }
  }
  const bool all_here = std::ranges::find(meeting.calls, nullptr) == meeting.calls.end();
  const bool few = meeting.calls.size() <= kMostRanksInPairs;
  if (sets.size() == 1 && all_here && few) return in_most_unfit_pairs(meeting);
  const auto most =
      std::ranges::max_element(sets, {}, [](const auto& set) { return set.second.size(); });
  const auto rivals = std::ranges::count_if(
      sets, [&](const auto& set) { return set.second.size() == most->second.size(); });
  std::vector<std::int64_t> result;
  for (const auto& set : sets) {
    if (&set == &*most && rivals == 1 && sets.size() > 1) continue;
    result.insert(result.end(), set.second.begin(), set.second.end());
  }
  std::ranges::sort(result);
  return result;
}

Verdict verdict_on_failed(std::vector<std::int64_t> ranks, std::string cause) {
  Verdict verdict{VerdictKind::kRankFailed, std::move(ranks), {}, std::move(cause)};
  for (const std::int64_t rank : verdict.culprits) {
    verdict.ranks.push_back({.rank = rank, .state = RankReport::State::kFailed});
  }
  return verdict;
}

Error pending_at_the_end() {
  return Error(ErrorKind::kRuntime, "a collective was pending when its world ended")
      .with("fix", "wait for the result, or print it, before the program ends");
}

Verdict mismatch_so_far(const Meeting& meeting, std::vector<RankReport> reports) {
  return {VerdictKind::kMismatch, odd_ones(meeting), std::move(reports), cause_of(meeting)};
}

Verdict mismatch(const Meeting& meeting) {
  Verdict verdict = mismatch_so_far(meeting);
  for (std::size_t i = 0; i < meeting.ranks.size(); ++i) {
    RankReport report;
    report.rank = meeting.ranks[i];
    report.state = RankReport::State::kWaits;
    describe(meeting, *meeting.calls[i], report);
    verdict.ranks.push_back(std::move(report));
  }
  std::ranges::sort(verdict.ranks, {}, &RankReport::rank);
  return verdict;
}

}  // namespace shardlab::backends
