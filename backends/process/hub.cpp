// Exchanges are complete when every process has sent its part or one of a later exchange, leaves or
// is gone. A rank that waits
// too long causes a question to all ranks: the verdict follows from their answers, and those that
// do not answer are gone. It takes a second, and there is one question at a time.
#include "backends/process/hub.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <set>
#include <utility>

#include "backends/process/messages.h"

namespace shardlab::process {

Hub::Hub(JobState& state, const StandingBoard& board, std::chrono::milliseconds longest_wait,
         Send send, Moved moved)
    : state_(state),
      board_(board),
      longest_wait_(longest_wait),
      send_(std::move(send)),
      moved_(std::move(moved)),
      reached_(static_cast<std::size_t>(state.size)),
      leaving_(static_cast<std::size_t>(state.size)) {}

void Hub::send_to_all(Message message, const std::string& payload) {
  for (std::int64_t rank = 1; rank < state_.size; ++rank) {
    if (!state_.gone(rank)) send_(rank, message, payload);
  }
}

bool Hub::hear(std::int64_t from, Message message, std::string_view payload) {
  Reader reader(payload);
  switch (message) {
    case Message::kContribution: {
      const auto contribution = reader.get<Contribution>();
      contribute(from, contribution, reader.text());
      return true;
    }
    case Message::kFailed: {
      const auto run = reader.get<std::uint64_t>();
      decide(run, reader.read<Verdict>());
      return true;
    }
    case Message::kLeaves:
      leave(from, std::string(payload));
      return true;
    case Message::kEntered:
      hear_call(from, reader);
      return true;
    case Message::kWaits: {
      const auto run = reader.get<std::uint64_t>();
      rule(run, calls_of(run).referee.wait(from, reader.get<CallPlace>()));
      return true;
    }
    case Message::kEnded:
      hear_end(from, reader);
      return true;
    case Message::kLongWait:
      hear_wait(from, reader);
      return true;
    case Message::kStanding:
      hear_answer(from, reader);
      return true;
    default:
      return false;
  }
}

void Hub::contribute(std::int64_t from, const Contribution& contribution, std::string part) {
  const auto count = static_cast<std::size_t>(state_.size);
  Round& round = rounds_
                     .try_emplace(contribution.sequence, Round{contribution, from, Clock::now(),
                                                               std::vector<std::string>(count),
                                                               std::vector<bool>(count, false)})
                     .first->second;
  round.parts[static_cast<std::size_t>(from)] = std::move(part);
  round.here[static_cast<std::size_t>(from)] = true;
  reached_[static_cast<std::size_t>(from)] = contribution.sequence;
  finish_rounds();
}

std::vector<std::int64_t> Hub::missing_from(const Round& round) const {
  std::vector<std::int64_t> ranks;
  for (std::int64_t rank = 0; rank < state_.size; ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    const bool over = round.here[index] || reached_[index] > round.contribution.sequence;
    if (!over && !state_.gone(rank) && !leaving_[index]) ranks.push_back(rank);
  }
  return ranks;
}

void Hub::finish_rounds() {
  while (!rounds_.empty() && missing_from(rounds_.begin()->second).empty()) {
    auto node = rounds_.extract(rounds_.begin());
    Round& round = node.mapped();
    // From here on the next one may be waited for.
    if (!rounds_.empty()) rounds_.begin()->second.since = Clock::now();
    for (std::int64_t rank = 0; rank < state_.size; ++rank) {
      const auto index = static_cast<std::size_t>(rank);
      if (!round.here[index] && leaving_[index]) lose_leaving(rank, "");
    }
    const std::int64_t root = round.contribution.root;
    if (root != 0) {
      const std::string all = packed(round.contribution, round.parts);
      if (root == kEveryRank) send_to_all(Message::kEveryone, all);
      if (root > 0 && !state_.gone(root)) send_(root, Message::kEveryone, all);
    }
    if (root <= 0) state_.store(round.contribution, std::move(round.parts));
    state_.changed.notify_all();
  }
}

void Hub::decide(std::uint64_t run, const Verdict& verdict) {
  if (!state_.verdicts.try_emplace(run, verdict).second) return;
  send_to_all(Message::kVerdict, packed(run, verdict));
  state_.hear_verdict(run);
}

void Hub::lose(std::int64_t rank, const std::string& reason, Spoke said) {
  if (state_.gone(rank)) return;
  const std::string news = packed(rank, reason, said);
  // The process is informed, too, if it still exists: the others do not wait for it any more.
  if (rank != 0) send_to_all(Message::kGone, news);
  const Verdict verdict = verdict_on_gone(rank, reason);
  if (rank == 0 && state_.active) decide(state_.run, verdict);  // before the run's end is passed on
  state_.lose(rank, reason, said, verdict);
  finish_rounds();
  // A process that learns that rank 0 is gone waits for no exchange any more.
  if (rank == 0) send_to_all(Message::kGone, news);
  see_all_leave();
}

void Hub::leave(std::int64_t rank, const std::string& reason) {
  leaving_[static_cast<std::size_t>(rank)] = reason;
  if (state_.active) return lose_leaving(rank, "");
  if (!leaving_since_) leaving_since_ = Clock::now();
  finish_rounds();
  see_all_leave();
}

// A process that gives a reason has told people of it.
void Hub::lose_leaving(std::int64_t rank, const char* usual) {
  const std::string reason = *leaving_[static_cast<std::size_t>(rank)];
  lose(rank, reason.empty() ? usual : reason, reason.empty() ? Spoke::kNo : Spoke::kYes);
}

void Hub::see_all_leave() {
  for (std::int64_t rank = 0; rank < state_.size; ++rank) {
    if (!state_.gone(rank) && !leaving_[static_cast<std::size_t>(rank)]) return;
  }
  state_.all_leave = true;
  send_to_all(Message::kAllLeave, "");
  state_.changed.notify_all();
}

void Hub::begin_run() {
  for (std::size_t i = 0; i < leaving_.size(); ++i) {
    if (!leaving_[i]) continue;
    lose_leaving(static_cast<std::int64_t>(i), "its process left before the run began");
  }
  calls_.erase(calls_.begin(), calls_.upper_bound(state_.run));
}

Hub::Calls& Hub::calls_of(std::uint64_t run) {
  return calls_.try_emplace(run, state_.size).first->second;
}

void Hub::rule(std::uint64_t run, const Referee::Ruling& ruling) {
  if (ruling.verdict) decide(run, *ruling.verdict);
  if (!ruling.met) return;
  for (const std::int64_t rank : ruling.ranks) {
    const bool any = ruling.met_any && rank == ruling.ranks.back();
    const CallPlace place = any ? *ruling.met_any : *ruling.met;
    if (rank == 0) {
      state_.met.push_back(place);
    } else if (!state_.gone(rank)) {
      send_(rank, Message::kMet, packed(run, place));
    }
  }
}

void Hub::hear_call(std::int64_t from, Reader& reader) {
  const auto run = reader.get<std::uint64_t>();
  const auto entrance = reader.read<Entrance>();
  auto call = std::make_unique<EnteredCall>(reader);
  rule(run, calls_of(run).referee.enter(from, entrance, std::move(call)));
}

void Hub::hear_wait(std::int64_t from, Reader& reader) {
  const auto run = reader.get<std::uint64_t>();
  LongWait wait{from, reader.get<double>(), std::nullopt};
  const bool lost_patience = reader.get<bool>();
  wait.standing = reader.read<Standing>();
  if (state_.verdicts.contains(run)) return;
  if (lost_patience) return ask_all(std::move(wait), run, std::nullopt, false);
  calls_of(run).waits.wait(std::move(wait));
  look_for_hopeless(run);
}

void Hub::hear_end(std::int64_t from, Reader& reader) {
  const auto run = reader.get<std::uint64_t>();
  const auto counts = reader.read<std::vector<std::pair<std::int64_t, std::uint64_t>>>();
  Calls& calls = calls_of(run);
  rule(run, calls.referee.end(from));
  calls.waits.end(from, {counts.begin(), counts.end()});
  look_for_hopeless(run);
}

void Hub::look_for_hopeless(std::uint64_t run) {
  if (state_.verdicts.contains(run)) return;
  if (std::optional<LongWait> wait = calls_of(run).waits.hopeless()) {
    ask_all(std::move(*wait), run, std::nullopt, false);
  }
}

// A rank with another question asks again.
void Hub::ask_all(LongWait wait, std::uint64_t run, std::optional<std::uint64_t> sequence,
                  bool at_the_end) {
  if (question_) return;
  question_.emplace(
      Question{Inquiry(++questions_, state_.size, std::move(wait)), run, sequence, at_the_end});
  Inquiry& inquiry = question_->inquiry;
  inquiry.answer(0, board_.standing(inquiry.group()));
  send_to_all(Message::kAsk, packed(inquiry.number(), inquiry.group()));
}

void Hub::hear_answer(std::int64_t from, Reader& reader) {
  const auto number = reader.get<std::uint64_t>();
  if (!question_ || question_->inquiry.number() != number) return;
  question_->inquiry.answer(from, reader.read<Standing>());
  if (question_->inquiry.complete()) conclude();
}

// A rank 0 that had no time to look has not been left without an answer.
bool Hub::over(const Question& question) const {
  constexpr int kLooks = 10;
  return question.looks >= kLooks && Clock::now() - question.asked >= kAnswerTakes;
}

// All have answered, or had the time for it.
void Hub::conclude() {
  const Question question = std::move(*question_);
  question_.reset();
  if (question.sequence) {
    const auto found = rounds_.find(*question.sequence);
    if (found != rounds_.end()) conclude_round(question, found->second);
    return;
  }
  if (question.at_the_end) {
    see_who_stays(question);
  } else {
    decide(question.run, question.inquiry.verdict());
  }
  for (const std::int64_t rank : question.inquiry.silent()) {
    if (!moved_since(rank, question.asked)) lose(rank, kNoAnswer);
  }
}

// Ranks that answer may have work to do after their last run: they are named, and have as long
// again.
void Hub::see_who_stays(const Question& question) {
  leaving_since_ = Clock::now();
  const std::vector<std::int64_t> silent = question.inquiry.silent();
  std::vector<std::int64_t> staying;
  for (std::int64_t rank = 0; rank < state_.size; ++rank) {
    const bool answers = std::ranges::find(silent, rank) == silent.end();
    if (answers && !state_.gone(rank) && !leaving_[static_cast<std::size_t>(rank)]) {
      staying.push_back(rank);
    }
  }
  if (staying.empty()) return;
  const double seconds = std::chrono::duration<double>(longest_wait_).count();
  const std::string text =
      fmt::format("{} {} not ended {:.3g} s after the last run", fold_ranks(staying),
                  staying.size() == 1 ? "has" : "have", seconds);
  if (std::exchange(told_of_stay_, true)) {
    for (const std::int64_t rank : staying) lose(rank, text);
    return;
  }
  fmt::print(stderr,
             "warning: {}; the others wait as long again (SHARDLAB_PATIENCE=SECONDS: longer)\n",
             text);
}

void Hub::conclude_round(const Question& question, Round& round) {
  round.since = Clock::now();
  std::vector<std::int64_t> missing = missing_from(round);
  const std::vector<std::int64_t> unheard = question.inquiry.silent();
  const std::set<std::int64_t> silent(unheard.begin(), unheard.end());
  std::erase_if(missing, [&](std::int64_t rank) {
    return question.inquiry.reports(rank) ||
           (silent.contains(rank) && moved_since(rank, question.asked));
  });
  if (missing.empty()) return;
  const Verdict verdict = question.inquiry.verdict();
  decide(question.run, verdict);
  // Whoever hears that rank 0 is gone hears nothing more.
  std::ranges::reverse(missing);
  for (const std::int64_t rank : missing) {
    lose(rank, silent.contains(rank) ? kNoAnswer : verdict.cause);
  }
}

void Hub::keep_watch() {
  const Clock::time_point time = Clock::now();
  if (question_) ++question_->looks;
  if (question_ && over(*question_)) conclude();
  if (question_) return;
  if (!rounds_.empty()) return watch_round(rounds_.begin()->second, time);
  if (leaving_since_ && !state_.all_leave && time - *leaving_since_ > longest_wait_) {
    ask_all({}, state_.run, std::nullopt, true);
  }
}

void Hub::watch_round(const Round& round, Clock::time_point time) {
  const Contribution& contribution = round.contribution;
  const Clock::duration waited = time - round.since;
  if (contribution.ends_run && state_.verdicts.contains(contribution.run)) {
    if (waited < kEndTakes) return;
    std::vector<std::int64_t> late = missing_from(round);
    std::ranges::reverse(late);  // rank 0 last, as above
    for (const std::int64_t rank : late) lose(rank, "it did not end when the run had failed");
  } else if (waited >= longest_wait_) {
    const double seconds = std::chrono::duration<double>(waited).count();
    ask_all({.rank = round.first, .seconds = seconds, .standing = {}}, contribution.run,
            contribution.sequence, false);
  }
}

}  // namespace shardlab::process
