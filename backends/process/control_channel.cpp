// A star around rank 0, whose hub puts all messages into one order. No send waits: bytes that a
// peer does not take are kept, and sent later by the background thread. So that thread always
// answers, and a process that does not is stopped, dead or cut off. Rank 0 finds that out for the
// others; for rank 0 every other process does, by asking.
#include "backends/process/control_channel.h"

#include <atomic>
#include <new>
#include <utility>

#include "backends/process/hub.h"
#include "backends/process/job_state.h"
#include "backends/process/lines.h"
#include "backends/process/messages.h"
#include "backends/process/places.h"
#include "backends/process/rendezvous.h"
#include "base/error.h"

namespace shardlab::process {

namespace {

using Doing = Standing::Doing;

// A wait that is worth a message.
constexpr std::chrono::milliseconds kLong{500};
// Time by which the patience of the others exceeds that of rank 0, so that it is first.
constexpr std::chrono::milliseconds kLater{500};
// The period of rank 0's checks of waits.
constexpr std::chrono::milliseconds kTick{100};

constexpr const char* kEndOfRun = "the end of the run";
constexpr const char* kExchange = "an exchange of all processes";

// The numbers of exchanges: of those of a run before its end, and from its end on. A rank that
// fails before an exchange of its run goes straight to the end, which has the same number on all
// ranks.
std::uint64_t begin_of(std::uint64_t run) { return run << 32; }
std::uint64_t end_of(std::uint64_t run) { return begin_of(run) + (std::uint64_t{1} << 31); }

double seconds_of(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

// Names the first line that differs.
[[noreturn]] void refuse_other(std::size_t rank, std::string_view its, std::string_view ours) {
  const auto first_line = [](std::string_view& text) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    return line;
  };
  std::string_view its_line, our_line;
  while (its_line == our_line) {
    its_line = first_line(its);
    our_line = first_line(ours);
  }
  fail(ErrorKind::kValue, Fix{"start the same program with the same options on all ranks"},
       "rank {} runs something else than rank 0: {}, and not {}", rank, its_line, our_line);
}

// The verdict of a process on a rank 0 that does not answer: without it no messages are passed.
Verdict verdict_without_hub(const LongWait& wait, std::int64_t ranks) {
  Verdict verdict =
      verdict_on_wait(wait, std::vector<std::optional<Standing>>(static_cast<std::size_t>(ranks)));
  verdict.culprits = {0};
  verdict.cause =
      fmt::format("rank {} waited {:.3g} s for rank 0: {}", wait.rank, wait.seconds, kNoAnswer);
  std::erase_if(verdict.ranks, [&](const RankReport& report) {
    return report.rank != 0 && report.rank != wait.rank;
  });
  return verdict;
}

}  // namespace

struct ControlChannel::Impl {
  Impl(const Membership& membership, std::vector<Connection> connections)
      : state_(membership.rank, membership.size),
        longest_wait_(membership.longest_wait),
        lines_(std::move(connections), membership.rank == 0 ? kTick : std::chrono::milliseconds(-1),
               {[this](std::size_t line, const std::vector<Frame>& frames, LineState state) {
                  hear(line, frames, state);
                },
                [this] { pause(); }}) {}

  ~Impl() { lines_.stop(static_cast<std::uint32_t>(Message::kGoodbye), kAnswerTakes); }

  std::int64_t rank() const { return state_.rank; }
  bool failed() const { return state_.failed.load(std::memory_order_acquire); }

  // Whoever gathers has work to do with what it gets: others wait for that.
  std::vector<std::string> exchange(std::string_view mine, std::int64_t root, bool ends_run) {
    const Doing next = ends_run         ? Doing::kEnded
                       : root == rank() ? Doing::kReports
                                        : Doing::kComputes;
    board_.now(next == Doing::kComputes ? Doing::kWaits : next, ends_run ? kEndOfRun : kExchange);
    if (ends_run) sequence_ = end_of(state_.run);
    std::vector<std::string> parts = bring(mine, {sequence_, root, state_.run, ends_run});
    if (!ends_run) board_.now(next);
    return parts;
  }

  std::vector<std::string> bring(std::string_view mine, const Contribution& contribution) {
    if (rank() == 0) {
      const std::lock_guard lock(state_.mutex);
      if (!state_.gone(0)) hub_.contribute(0, contribution, std::string(mine));
    } else {
      send(0, Message::kContribution, packed(contribution, mine));
    }
    ++sequence_;  // unless there was no memory
    std::unique_lock lock(state_.mutex);
    // Rank 0 stays until it has passed everything on.
    await(lock, [&] { return !hub_.holds(contribution.sequence); });
    if (contribution.root != kEveryRank && contribution.root != rank()) return {};
    await(lock, [&] {
      return state_.results.contains(contribution.sequence) || state_.gone(0) ||
             state_.gone(rank());
    });
    // Earlier ones are left of exchanges that this rank did not reach.
    state_.results.erase(state_.results.begin(), state_.results.lower_bound(contribution.sequence));
    auto found = state_.results.extract(contribution.sequence);
    if (found.empty()) return alone(mine);
    // The news that rank 0 is gone follows the last exchange that it passes on.
    if (contribution.ends_run && found.mapped()[0].empty()) {
      state_.changed.wait_for(lock, kAnswerTakes, [&] { return state_.gone(0); });
    }
    return std::move(found.mapped());
  }

  std::vector<std::string> alone(std::string_view mine) const {
    std::vector<std::string> parts(static_cast<std::size_t>(state_.size));
    parts[static_cast<std::size_t>(rank())] = mine;
    return parts;
  }

  void start_run() {
    const std::lock_guard lock(state_.mutex);
    if (rank() == 0) hub_.begin_run();
    if (const auto lost = state_.first_lost()) refuse_without(*lost);
    sequence_ = begin_of(++state_.run);
    state_.active = true;
    own_verdict_.reset();
    state_.met.clear();
    state_.failed = state_.verdicts.contains(state_.run);
  }

  // The own rank may be among them: the others missed it in the run before, and it hears that now.
  void refuse_without_others() {
    const std::lock_guard lock(state_.mutex);
    if (const auto lost = state_.first_lost()) {
      state_.active = false;
      refuse_without(*lost);
    }
  }

  [[noreturn]] void refuse_without(std::int64_t rank) {
    fail(ErrorKind::kRuntime, Fix{"see what that rank wrote before; then start the job again"},
         "the process of rank {} is gone: {}", rank,
         *state_.why_gone[static_cast<std::size_t>(rank)]);
  }

  // Rank 0 was informed that the patience is over, and is informed again where it was busy with
  // another question.
  void await_verdict(std::chrono::milliseconds waited) {
    std::unique_lock lock(state_.mutex);
    while (!state_.changed.wait_for(lock, kAnswerTakes + kLater, [&] { return failed(); })) {
      if (!hub_answers(lock)) {
        lose_hub(waited);
        break;
      }
      lock.unlock();
      send_to_hub(Message::kLongWait, long_wait(waited, true));
      lock.lock();
    }
    lock.unlock();
    announce();
  }

  // Until it is over, or rank 0 does not answer any more.
  void await(std::unique_lock<std::mutex>& lock, const std::function<bool()>& over) {
    Clock::time_point since = Clock::now();
    while (!state_.changed.wait_for(lock, kTick, over)) {
      const std::chrono::milliseconds most = (failed() ? kEndTakes : longest_wait_) + kLater;
      const Clock::duration waited = Clock::now() - since;
      if (waited < most) continue;
      if (!hub_answers(lock)) return lose_hub(waited);
      since = Clock::now();
    }
  }

  // Rank 0's background thread watches over rank 0, too.
  bool hub_answers(std::unique_lock<std::mutex>& lock) {
    if (rank() == 0) return true;
    const std::uint64_t number = ++asked_;
    lock.unlock();
    send(0, Message::kAsk, packed(number, std::int64_t{0}));
    lock.lock();
    const auto answered = [&] { return answered_ >= number || state_.gone(0); };
    // An answer may follow much that is on its way.
    Clock::time_point moved = lines_.moved(0);
    while (!state_.changed.wait_for(lock, kAnswerTakes + kLater, answered)) {
      const Clock::time_point before = std::exchange(moved, lines_.moved(0));
      if (moved == before) return false;
    }
    return true;
  }

  void lose_hub(Clock::duration waited) {
    if (state_.gone(0)) return;
    const LongWait wait{rank(), seconds_of(waited), board_.standing(0)};
    state_.lose(0, kNoAnswer, Spoke::kNo, verdict_without_hub(wait, state_.size));
    // If it goes on one day, it hears what the others think.
    send(0, Message::kGone, packed(std::int64_t{0}, kNoAnswer, Spoke::kNo));
  }

  std::string long_wait(std::chrono::milliseconds waited, bool lost_patience) {
    return packed(state_.run, seconds_of(waited), lost_patience, own_standing());
  }

  // With the count of the group that it is in.
  Standing own_standing() const {
    const std::string call = board_.last_call();
    if (call.empty()) return board_.standing(0);
    return board_.standing(Reader(call).read<Entrance>().place.group);
  }

  void send(std::int64_t to, Message message, std::string_view payload) {
    const std::int64_t line = rank() == 0 ? to - 1 : 0;
    lines_.send(static_cast<std::size_t>(line), static_cast<std::uint32_t>(message), payload);
  }
  void send_to_hub(Message message, const std::string& payload) {
    if (rank() != 0) return send(0, message, payload);
    {
      const std::lock_guard lock(state_.mutex);
      hub_.hear(0, message, payload);
    }
    announce();
  }

  // Tells the program, once per run and under no lock.
  void announce() {
    std::function<void()> notify;
    {
      const std::lock_guard lock(state_.mutex);
      if (state_.active && (own_verdict_ || state_.verdicts.contains(state_.run))) {
        state_.failed = true;
        notify = std::exchange(notify_, nullptr);
      }
    }
    if (notify) notify();
  }

  // Called on the background thread, as are the functions below. On rank 0, messages of a process
  // that is gone for the others no longer count.
  void hear(std::size_t line, const std::vector<Frame>& frames, LineState state) {
    const std::int64_t from = rank() == 0 ? static_cast<std::int64_t>(line) + 1 : 0;
    const std::lock_guard lock(state_.mutex);
    try {
      for (const Frame& frame : frames) {
        if (rank() != 0 || !state_.gone(from)) handle(from, frame);
      }
    } catch (const Error&) {
      state = LineState::kClosed;
    } catch (const std::bad_alloc&) {
      state = LineState::kNoMemory;
    }
    if (state == LineState::kOpen || state_.all_leave) return;
    lose(from, state == LineState::kClosed
                   ? std::string()
                   : fmt::format("rank {} has no memory left for what it sent", rank()));
  }

  void pause() {
    if (rank() == 0) {
      const std::lock_guard lock(state_.mutex);
      hub_.keep_watch();
    }
    announce();
  }

  void lose(std::int64_t other, const std::string& reason, Spoke said = Spoke::kNo) {
    if (rank() == 0) return hub_.lose(other, reason, said);
    if (!state_.gone(other)) state_.lose(other, reason, said, verdict_on_gone(other, reason));
  }

  void handle(std::int64_t from, const Frame& frame) {
    const auto message = static_cast<Message>(frame.type);
    if (rank() == 0 && hub_.hear(from, message, frame.payload)) return;
    Reader reader(frame.payload);
    switch (message) {
      case Message::kEveryone: {
        const auto contribution = reader.get<Contribution>();
        return state_.store(contribution, reader.read<std::vector<std::string>>());
      }
      case Message::kVerdict: {
        const auto run = reader.get<std::uint64_t>();
        state_.verdicts.insert_or_assign(run, reader.read<Verdict>());
        return state_.hear_verdict(run);
      }
      case Message::kGone: {
        const auto other = reader.get<std::int64_t>();
        const std::string reason = reader.text();
        return lose(other, reason, reader.get<Spoke>());
      }
      case Message::kAllLeave:
        state_.all_leave = true;
        return state_.changed.notify_all();
      case Message::kMet: {
        const auto run = reader.get<std::uint64_t>();
        if (run == state_.run) state_.met.push_back(reader.get<CallPlace>());
        return;
      }
      case Message::kAsk:
        return answer(from, reader);
      case Message::kStanding:
        answered_ = std::max(answered_, reader.get<std::uint64_t>());
        return state_.changed.notify_all();
      case Message::kGoodbye:
        return state_.all_leave ? void() : lose(from, "");
      default:
        fail(ErrorKind::kRuntime, Fix{"run the same build of shardlab on all hosts"},
             "rank {} sent an unknown message {}", from, frame.type);
    }
  }

  void answer(std::int64_t from, Reader& reader) {
    const auto number = reader.get<std::uint64_t>();
    send(from, Message::kStanding, packed(number, board_.standing(reader.get<std::int64_t>())));
  }

  JobState state_;
  const std::chrono::milliseconds longest_wait_;
  StandingBoard board_;
  Hub hub_{state_, board_, longest_wait_,
           [this](std::int64_t to, Message message, std::string_view payload) {
             send(to, message, payload);
           },
           [this](std::int64_t from) {
             return lines_.moved(static_cast<std::size_t>(from) - 1);
           }};  ///< of rank 0; not called on other ranks
  std::atomic<bool> reported_of_wait_ = false;
  std::uint64_t sequence_ = 0;  ///< the program's thread only, as the next
  Places places_;
  std::uint64_t asked_ = 0;  ///< rank 0, for a sign of life; under the mutex, as the rest
  std::uint64_t answered_ = 0;
  std::optional<Verdict> own_verdict_;  ///< until rank 0 has decided
  std::function<void()> notify_;
  Lines lines_;  ///< last: its thread uses everything above. Rank 0: to rank i + 1; others: to it
};

std::unique_ptr<ControlChannel> ControlChannel::open(const Membership& membership,
                                                     std::optional<Listener> listener) {
  auto impl = std::make_unique<Impl>(membership, meet(membership, std::move(listener)));
  return std::unique_ptr<ControlChannel>(new ControlChannel(std::move(impl)));
}

ControlChannel::ControlChannel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ControlChannel::~ControlChannel() = default;

std::int64_t ControlChannel::rank() const { return impl_->rank(); }
std::int64_t ControlChannel::size() const { return impl_->state_.size; }
bool ControlChannel::failed() const { return impl_->failed(); }

void ControlChannel::learn_places() { impl_->places_ = Places(exchange(Places::mine())); }
const std::vector<std::int64_t>& ControlChannel::hosts() const { return impl_->places_.hosts(); }

bool ControlChannel::speaks() const {
  const std::lock_guard lock(impl_->state_.mutex);
  return impl_->places_.first_of_host(rank(), impl_->state_.silent_ranks());
}

void ControlChannel::write_errors(std::string_view text,
                                  std::span<const std::int64_t> culprits) const {
  impl_->places_.write_errors(rank(), text, culprits);
}

std::vector<std::string> ControlChannel::exchange(std::string_view mine) {
  return impl_->exchange(mine, kEveryRank, false);
}
std::vector<std::string> ControlChannel::gather(std::string_view mine, std::int64_t root) {
  return impl_->exchange(mine, root, false);
}
std::vector<std::string> ControlChannel::end_run(std::string_view mine) {
  return impl_->exchange(mine, kEveryRank, true);
}

void ControlChannel::begin_run(std::string_view about) {
  impl_->board_.begin_run();
  impl_->reported_of_wait_ = false;
  impl_->start_run();
  std::vector<std::string> all;
  if (!failed()) all = exchange(about);
  // Before the look at who is gone: a rank that has compared already may have left.
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].empty() || all[0].empty() || all[i] == all[0]) continue;
    const std::lock_guard lock(impl_->state_.mutex);
    impl_->state_.active = false;
    refuse_other(i, all[i], all[0]);
  }
  impl_->refuse_without_others();
}

void ControlChannel::report_failed(const Verdict& verdict) {
  {
    const std::lock_guard lock(impl_->state_.mutex);
    if (!impl_->own_verdict_) impl_->own_verdict_ = verdict;
  }
  impl_->send_to_hub(Message::kFailed, packed(impl_->state_.run, verdict));
  impl_->announce();
}

Verdict ControlChannel::verdict() const {
  const std::lock_guard lock(impl_->state_.mutex);
  const auto found = impl_->state_.verdicts.find(impl_->state_.run);
  if (found != impl_->state_.verdicts.end()) return found->second;
  check_invariant(impl_->own_verdict_.has_value(), "only a failed run has a verdict");
  return *impl_->own_verdict_;
}

void ControlChannel::on_failure(std::function<void()> notify) {
  {
    const std::lock_guard lock(impl_->state_.mutex);
    impl_->notify_ = std::move(notify);
  }
  if (failed()) impl_->announce();
}

void ControlChannel::enter(const Entrance& entrance, const backends::Call& call,
                           CollectiveChecks checks) {
  impl_->board_.enter(entrance, call);
  if (checks == CollectiveChecks::kOff) return;
  Writer writer;
  writer.all(impl_->state_.run, entrance);
  EnteredCall::put(writer, call);
  impl_->send_to_hub(Message::kEntered, writer.take());
}

void ControlChannel::wait_for(CallPlace place) {
  impl_->send_to_hub(Message::kWaits, packed(impl_->state_.run, place));
}

std::string ControlChannel::last_call() const { return impl_->board_.last_call(); }
void ControlChannel::goes_on() { impl_->board_.now(Doing::kComputes); }
void ControlChannel::waits_in(std::string call) { impl_->board_.wait_in(std::move(call)); }
void ControlChannel::waits_for(std::string_view what) { impl_->board_.now(Doing::kWaits, what); }
void ControlChannel::reports() { impl_->board_.now(Doing::kReports); }

void ControlChannel::wait_on(std::chrono::milliseconds waited, std::chrono::milliseconds patience) {
  const bool lost_patience = waited >= patience;
  if (waited < kLong && !lost_patience) {
    impl_->reported_of_wait_ = false;
    return;
  }
  if (impl_->reported_of_wait_.exchange(true) && !lost_patience) return;
  impl_->send_to_hub(Message::kLongWait, impl_->long_wait(waited, lost_patience));
  if (lost_patience) impl_->await_verdict(waited);
}

bool ControlChannel::take_met(CallPlace place) {
  const std::lock_guard lock(impl_->state_.mutex);
  return std::erase(impl_->state_.met, place) > 0;
}

std::optional<std::int64_t> ControlChannel::take_sender(CallPlace any) {
  const std::lock_guard lock(impl_->state_.mutex);
  std::deque<CallPlace>& met = impl_->state_.met;
  const auto found = std::ranges::find(met, any.group, &CallPlace::group);
  if (found == met.end()) return std::nullopt;
  const auto sender = static_cast<std::int64_t>(found->sequence);
  met.erase(found);
  return sender;
}

std::optional<CallPlace> ControlChannel::next_met() {
  const std::lock_guard lock(impl_->state_.mutex);
  std::deque<CallPlace>& met = impl_->state_.met;
  if (met.empty()) return std::nullopt;
  const CallPlace place = met.front();
  met.pop_front();
  return place;
}

void ControlChannel::report_ended() {
  impl_->board_.now(Doing::kEnded, kEndOfRun);
  impl_->send_to_hub(Message::kEnded, packed(impl_->state_.run, impl_->board_.entered()));
}

bool ControlChannel::leave(std::string_view reason) {
  JobState& state = impl_->state_;
  impl_->send_to_hub(Message::kLeaves, std::string(reason));
  std::unique_lock lock(state.mutex);
  impl_->await(lock, [&] { return state.all_leave || state.gone(0); });
  // Then nobody passes on that others have left, and launchers end them when this process ends.
  const bool speaks = impl_->places_.first_of_host(rank(), state.silent_ranks());
  if (state.gone(0) && rank() != 0 && !speaks) {
    state.changed.wait_for(lock, kAnswerTakes, [] { return false; });
  }
  return state.gone_ranks().empty();
}

std::vector<std::int64_t> ControlChannel::gone() const {
  const std::lock_guard lock(impl_->state_.mutex);
  return impl_->state_.gone_ranks();
}

std::string ControlChannel::why_gone(std::int64_t rank) const {
  const std::lock_guard lock(impl_->state_.mutex);
  return impl_->state_.why_gone[static_cast<std::size_t>(rank)].value_or("");
}

}  // namespace shardlab::process
